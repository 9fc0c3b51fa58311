"""What names mean where an expression stands: the relations of one SELECT, and the SELECT around it.

Both engines bind in a ``Scope``. Every column of a statement has a number of its own (``Numbering``): those
of a relation stand one after another from its ``base``, in the order of the table's physical columns. A
:class:`~herdpy_sql.expr.nodes.ColumnRef` has that number. Own plans read it as a place in one wide row, and
renumber it to the narrow rows that they decode; the columnar engine finds the relation by it.

What may not stand in a clause is in ``CLAUSES``, once for all statements. Above ``nodes``, below ``binder``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol

from msgspec.structs import replace
from sqlglot import expressions as exp

from herdpy_sql.errors import SqlError
from herdpy_sql.expr import nodes as n
from herdpy_sql.misspellings import missing_column, missing_relation
from herdpy_sql.types import BOOLEAN, SqlType

if TYPE_CHECKING:
    from herdpy_sql.catalog import ColumnOrigin, Table

Named = tuple[str, n.Expr]
"""A column that can be named, and what it is."""


# ---------------------------------------------------------------------------- clauses


@dataclass(frozen=True, slots=True)
class Clause:
    """A clause, and what may stand in it.

    Attributes:
        words: what PostgreSQL calls it where functions may not stand in it.
    """

    words: str
    aggregates: bool = False
    windows: bool = False
    rows: bool = False

    @property
    def singular(self) -> str:
        """What PostgreSQL calls it where a query may not stand in it."""
        return self.words.removesuffix("s")


_ANY = Clause("", aggregates=True, windows=True, rows=True)
CLAUSES: dict[str, Clause] = {
    "": _ANY,
    "SELECT": _ANY,
    "ORDER BY": _ANY,
    "FROM": Clause("FROM", aggregates=True, windows=True),
    "JOIN/ON": Clause("JOIN conditions"),
    "WHERE": Clause("WHERE"),
    "GROUP BY": Clause("GROUP BY"),
    "HAVING": Clause("HAVING", aggregates=True),
    "FILTER": Clause("FILTER"),
    "LIMIT": Clause("LIMIT"),
    "VALUES": Clause("VALUES"),
    "VALUES of one row": Clause("VALUES", rows=True),
    "UPDATE": Clause("UPDATE"),
    "RETURNING": Clause("RETURNING", rows=True),
    "index expression": Clause("index expressions"),
    "index predicate": Clause("index predicates"),
    "generation": Clause("column generation expressions"),
    "CHECK": Clause("check constraints"),
    "DEFAULT": Clause("DEFAULT expressions"),
    "EXECUTE": Clause("EXECUTE parameters"),
    "USING": Clause("transform expressions"),
    "partition bound": Clause("partition bound"),
}
"""Every clause by the word that ``Scope.clause`` has; "" where another place refuses what may not stand."""


def not_allowed(what: str, words: str) -> SqlError:
    """The error of an aggregate, a window or set-returning function in a clause that PostgreSQL calls so."""
    sqlstate, functions = _FUNCTIONS[what]
    return SqlError(sqlstate, f"{functions} functions are not allowed in {words}")


_FUNCTIONS = {
    "aggregates": ("42803", "aggregate"),
    "windows": ("42P20", "window"),
    "rows": ("0A000", "set-returning"),
}


# ---------------------------------------------------------------------------- relations


class Shown(Protocol):
    """A part of what ``*`` stands for."""

    @property
    def columns(self) -> Sequence[Named]:
        """The columns, in their order."""

    def find(self, name: str) -> list[n.Expr]:
        """Those of that name."""


@dataclass(slots=True, eq=False)
class Relation:
    """A relation in FROM, which has its columns listed.

    Attributes:
        name: what qualifies its columns; "" of one that only ``*`` and bare names reach.
        base: the number of its first column.
        width: how many columns are numbered; none of one that shows those of others under a name.
        select: the number of the SELECT that has it in FROM.
        named: its columns.
        origins: the tables' columns that its own are, in their order.
        outer: an outer join may find no row of it.
        is_recursion: it is what the round before gave of the recursive query that is being bound.
    """

    name: str
    base: int = 0
    width: int = 0
    select: int = 0
    named: list[Named] = field(default_factory=list)
    origins: Sequence[ColumnOrigin | None] = ()
    outer: bool = False
    is_recursion: bool = False

    @property
    def end(self) -> int:
        """One past the number of its last column."""
        return self.base + self.width

    @property
    def table_name(self) -> str | None:
        """The name that its table has by itself."""
        return None

    @property
    def columns(self) -> Sequence[Named]:
        """What ``*`` stands for."""
        return self.named

    def find(self, name: str) -> list[n.Expr]:
        """Its columns of that name, hidden ones left out."""
        return [expr for one, expr in self.named if one == name]

    def hidden(self, name: str) -> list[n.Expr]:
        """The hidden key of a table, which is there where it is named."""
        return []

    def is_missing(self) -> n.Expr:
        """Whether an outer join found no row of it. SqlError 0A000 where that cannot be seen."""
        raise SqlError("0A000", f'whole-row reference "{self.name}" of an outer join is not supported')

    def rename(self, names: Sequence[str]) -> None:
        """Call the first columns so. SqlError 42P10 where there are fewer."""
        columns = list(self.columns)
        if len(names) > len(columns):
            raise SqlError(
                "42P10",
                f'table "{self.name}" has {len(columns)} columns available '
                f"but {len(names)} columns specified",
            )
        renamed = [(name, _called(expr, name)) for name, (_, expr) in zip(names, columns, strict=False)]
        self.named = [*renamed, *columns[len(names) :]]

    def origin(self, number: int) -> ColumnOrigin | None:
        """The column of a table that the column of this number is."""
        return self.origins[number - self.base] if self.origins else None


def _called(expr: n.Expr, name: str) -> n.Expr:
    """A column under the name that an alias gives it."""
    return replace(expr, name=name) if isinstance(expr, n.ColumnRef) else expr


@dataclass(slots=True, eq=False)
class TableRelation(Relation):
    """A table in FROM; its columns are numbered as they lie in its rows."""

    table: Table = field(kw_only=True)

    @property
    def table_name(self) -> str | None:
        return self.table.name

    @property
    def columns(self) -> Sequence[Named]:
        if self.named:
            return self.named
        columns = self.table.columns
        return [(columns[position].name, self.column(position)) for position in self.table.visible]

    def column(self, position: int) -> n.ColumnRef:
        """The reference to the table's column at ``position``."""
        found = self.table.columns[position]
        nullable = self.outer or not found.not_null
        return n.ColumnRef(found.type, self.base + position, found.name, self.name, nullable)

    def find(self, name: str) -> list[n.Expr]:
        if self.named:
            return [expr for one, expr in self.named if one == name]
        position = self.table.positions.get(name)
        if position is None or self.table.columns[position].hidden:
            return []
        return [self.column(position)]

    def hidden(self, name: str) -> list[n.Expr]:
        position = self.table.positions.get(name)
        if position is None or not self.table.columns[position].hidden:
            return []
        return [self.column(position)]

    def is_missing(self) -> n.Expr:
        if not self.table.key:
            return super(TableRelation, self).is_missing()
        return n.IsNull(BOOLEAN, self.column(self.table.key_positions[0]), False)

    def origin(self, number: int) -> ColumnOrigin | None:
        return self.table.origin(number - self.base)


@dataclass(frozen=True, slots=True)
class Merged:
    """A column that USING made of two."""

    name: str
    expr: n.Expr

    @property
    def columns(self) -> Sequence[Named]:
        """It alone."""
        return ((self.name, self.expr),)

    def find(self, name: str) -> list[n.Expr]:
        """It, if that is its name."""
        return [self.expr] if name == self.name else []


@dataclass(frozen=True, slots=True)
class Rest:
    """What USING left of a part: the columns of other names."""

    shown: Shown
    without: frozenset[str]

    @property
    def columns(self) -> Sequence[Named]:
        """Those that are left."""
        return [one for one in self.shown.columns if one[0] not in self.without]

    def find(self, name: str) -> list[n.Expr]:
        """Those of that name."""
        return [] if name in self.without else self.shown.find(name)


@dataclass(slots=True, eq=False)
class Numbering:
    """Gives numbers to the SELECTs of a statement and to the columns of their relations."""

    relations: list[Relation] = field(default_factory=list)
    width: int = 0
    selects: int = 0

    def add(self, relation: Relation) -> Relation:
        """It, whose columns are the next ones."""
        relation.base = self.width
        self.width += relation.width
        self.relations.append(relation)
        return relation

    def relation_of(self, number: int) -> Relation:
        """The relation that has the column of this number."""
        return self.relations[bisect_right(self.relations, number, key=attrgetter("base")) - 1]

    def next_select(self) -> int:
        """A number for one more SELECT."""
        self.selects += 1
        return self.selects


def joined_columns(name: str, left: Sequence[Shown], right: Sequence[Shown]) -> tuple[n.Expr, n.Expr]:
    """The two columns that USING (name) joins. SqlError 42703, 42702 where a side has not one of them."""
    return _joined_column(name, left, "left"), _joined_column(name, right, "right")


def _joined_column(name: str, side: Sequence[Shown], where: str) -> n.Expr:
    found = [expr for part in side for expr in part.find(name)]
    if not found:
        message = f'column "{name}" specified in USING clause does not exist in {where} table'
        raise SqlError("42703", message, column=name)
    if len(found) > 1:
        message = f'common column name "{name}" appears more than once in {where} table'
        raise SqlError("42702", message, column=name)
    return found[0]


# ---------------------------------------------------------------------------- scopes

Queries = Callable[[exp.Expression, "Scope"], n.InnerQuery]
"""What binds a query that stands in a scope."""


class Scope:
    """Names inside one SELECT, or inside a statement that has tables.

    Attributes:
        numbering: the statement's.
        number: of the SELECT.
        parent: the scope around it.
        relations: those that a qualifier can name.
        star: what ``*`` stands for, and where bare names are looked up.
        clause: the key of ``CLAUSES`` that is being bound.
        volatile: own plans evaluate there what is another value each time, as in DEFAULT.
        queries: binds the queries in it; None where none may stand.
        windows: those of the WINDOW clause, by name.
        with_queries: those of its WITH clause by name, as what binds queries has them.
        outer: the columns of scopes around it that the SELECT uses, or queries in it.
    """

    __slots__ = (
        "clause",
        "number",
        "numbering",
        "outer",
        "parent",
        "queries",
        "relations",
        "star",
        "volatile",
        "windows",
        "with_queries",
    )

    def __init__(
        self,
        parent: Scope | None = None,
        *,
        numbering: Numbering | None = None,
        queries: Queries | None = None,
        clause: str = "",
        volatile: bool = False,
    ) -> None:
        self.parent = parent
        self.numbering = Numbering() if numbering is None else numbering
        self.number = self.numbering.next_select()
        self.relations: list[Relation] = []
        self.star: list[Shown] = []
        self.clause = clause
        self.volatile = volatile
        self.queries = queries
        self.windows: dict[str, exp.Expression] = {}
        self.with_queries: dict[str, Any] = {}
        self.outer: set[n.ColumnRef] = set()

    def inside(self, star: list[Shown], relations: list[Relation], clause: str = "FROM") -> Scope:
        """A scope of the same SELECT that sees only these: an ON condition, a LATERAL item."""
        made = Scope(
            self.parent,
            numbering=self.numbering,
            queries=self.queries,
            clause=clause,
            volatile=self.volatile,
        )
        made.number = self.number
        made.with_queries, made.outer = self.with_queries, self.outer
        made.star, made.relations = star, relations
        return made

    def with_query(self, name: str) -> Any:
        """The WITH query of that name, here or further out; None where there is none."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.with_queries:
                return scope.with_queries[name]
            scope = scope.parent
        return None

    # Relations.

    def add_table(self, name: str, table: Table, *, outer: bool = False) -> TableRelation:
        """A table of FROM; its columns are NULL where they may be, or where an ``outer`` join has no row.

        SqlError 42712 where the name is taken.
        """
        made = TableRelation(name, 0, len(table.columns), self.number, outer=outer, table=table)
        self.add([made])
        self.numbering.add(made)
        self.star.append(made)
        return made

    def listed(self, name: str, columns: Sequence[tuple[str, SqlType, ColumnOrigin | None]]) -> Relation:
        """A relation of these columns: name, type, the table's column that it is. Nothing can name it yet."""
        made = self.numbering.add(Relation(name, 0, len(columns), self.number))
        made.named = [
            (column, n.ColumnRef(type_, place, column, name))
            for place, (column, type_, _) in enumerate(columns, made.base)
        ]
        made.origins = [origin for _, _, origin in columns]
        return made

    def add(self, relations: Iterable[Relation]) -> None:
        """More relations; SqlError 42712 where a name is taken."""
        for one in relations:
            if one.name and any(other.name == one.name for other in self.relations):
                raise SqlError("42712", f'table name "{one.name}" specified more than once')
            self.relations.append(one)

    def relation(self, name: str) -> Relation | None:
        """The relation of that name, here or further out."""
        scope: Scope | None = self
        while scope is not None:
            for one in scope.relations:
                if one.name == name:
                    return one
            scope = scope.parent
        return None

    def starred(self, table: str | None = None) -> list[Named]:
        """What ``*`` or ``table.*`` stands for. SqlError 42601 where nothing is in FROM, 42P01."""
        if table is None:
            if not self.relations:
                raise SqlError("42601", "SELECT * with no tables specified is not valid")
            return [one for part in self.star for one in part.columns]
        found = self.relation(table)
        if found is None:
            raise SqlError("42P01", f'missing FROM-clause entry for table "{table}"', table=table)
        return list(found.columns)

    def origin(self, expr: n.Expr) -> ColumnOrigin | None:
        """The table's column that an expression is as it stands."""
        if not isinstance(expr, n.ColumnRef):
            return None
        return self.numbering.relation_of(expr.index).origin(expr.index)

    def is_own(self, column: n.ColumnRef) -> bool:
        """Whether it is a column of this SELECT's own relations."""
        return self.numbering.relation_of(column.index).select == self.number

    # What the binder asks.

    def resolve(self, table: str | None, name: str) -> n.Expr:
        """The column, of this SELECT or of one around it.

        SqlError 42703 (no such column), 42702 (ambiguous), 42P01 (no such table); 0A000 for a whole row.
        """
        try:
            found, expr = self.find(table, name)
        except SqlError as error:
            if error.sqlstate == "42703" and table is None and self.relation(name) is not None:
                raise SqlError("0A000", f'whole-row reference "{name}" is not supported') from None
            raise
        if found is not self:
            self.use(expr, found)
        return expr

    def find(self, table: str | None, name: str) -> tuple[Scope, n.Expr]:
        """The column that a reference means, and the scope that has it; SqlError 42703, 42702 or 42P01."""
        scope: Scope | None = self
        while scope is not None:
            found = scope._named(name) if table is None else scope._qualified(table, name)
            if found:
                if len(found) > 1:
                    raise SqlError("42702", f'column reference "{name}" is ambiguous', column=name)
                return scope, found[0]
            if found is not None:
                break  # the relation is there, and has no such column
            scope = scope.parent
        seen = list(self._seen())
        if table is None or any(one.name == table for one in seen):
            known = [(one.name, column) for one in seen for column, _ in one.columns]
            raise missing_column(table, name, known)
        raise missing_relation(table, [(one.name, one.table_name) for one in seen])

    def _named(self, name: str) -> list[n.Expr] | None:
        """The columns that a bare name means here; None where it means none."""
        found = [expr for part in self.star for expr in part.find(name)]
        return found or [expr for one in self.relations for expr in one.hidden(name)] or None

    def _qualified(self, table: str, name: str) -> list[n.Expr] | None:
        """The columns of that name of the relation; None where it is none of this SELECT."""
        for one in self.relations:
            if one.name == table:
                return one.find(name) or one.hidden(name)
        return None

    def _seen(self) -> Iterator[Relation]:
        """The relations whose columns can be named, those of this SELECT first."""
        scope: Scope | None = self
        while scope is not None:
            yield from scope.relations
            scope = scope.parent

    def use(self, expr: n.Expr, of: Scope) -> None:
        """Note that this SELECT uses columns of a scope around it."""
        self._note(n.columns_used(expr), of.number)

    def note_outer(self, column: n.ColumnRef) -> None:
        """Note that this SELECT uses a column of a relation around it."""
        self._note(frozenset({column}), self.numbering.relation_of(column.index).select)

    def _note(self, columns: frozenset[n.ColumnRef], number: int) -> None:
        inner: Scope | None = self
        while inner is not None and inner.number != number:
            inner.outer |= columns
            inner = inner.parent

    def has_column(self, name: str) -> bool:
        """Whether a column, or more than one, has that name."""
        try:
            self.find(None, name)
        except SqlError as error:
            return error.sqlstate != "42703"
        return True

    def has_reference(self, table: str | None, name: str) -> bool:
        """Whether a column can be meant so."""
        try:
            self.find(table, name)
        except SqlError as error:
            return error.sqlstate == "42702"
        return True

    def query(self, node: exp.Expression) -> n.InnerQuery:
        """A query that stands here."""
        if self.queries is None:
            raise SqlError("0A000", f"cannot use subquery in {CLAUSES[self.clause].singular}")
        return self.queries(node, self)

    def row(self, name: str) -> n.RelationRow | None:
        """The relation of that name, if no column has it. SqlError 0A000 where its rows are no values."""
        found = self.relation(name)
        if found is None or self.has_column(name):
            return None
        return n.RelationRow(self.fields_of(found), found.is_missing() if found.outer else None)

    def fields_of(self, found: Relation) -> tuple[Named, ...]:
        """A relation's columns by their names, as the SELECT refers to them."""
        return tuple([(column, self.resolve(found.name, column)) for column, _ in found.columns])

    def window(self, name: str) -> exp.Expression:
        """The window of the SELECT's WINDOW clause. SqlError 42704."""
        found = self.windows.get(name)
        if found is None:
            raise SqlError("42704", f'window "{name}" does not exist')
        return found

    def refuse_aggregate(self) -> None:
        """SqlError 42803 where no aggregate may stand."""
        clause = CLAUSES[self.clause]
        if not clause.aggregates:
            raise not_allowed("aggregates", clause.words)

    def refuse_window(self) -> None:
        """SqlError 42P20 where no window function may stand."""
        clause = CLAUSES[self.clause]
        if not clause.windows:
            raise not_allowed("windows", clause.words)

    def refuse_rows(self) -> None:
        """SqlError 0A000 where no set-returning function may stand."""
        clause = CLAUSES[self.clause]
        if not clause.rows:
            raise not_allowed("rows", clause.words)
