"""What names mean inside one SELECT: relations, their columns, and the SELECT around it.

Every relation gets an alias of ours (``t1``) and every column a short name (``c0``), so that no name
of the user's reaches DuckDB: duplicates, reserved words and letter case need no care there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from herdpy_sql.duck import NO_VARS, Typed, Vars, column_dec, stored_dec
from herdpy_sql.errors import SqlError
from herdpy_sql.misspellings import missing_column, missing_relation
from herdpy_sql.types import Base, SqlType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlglot import exp

    from herdpy_sql.catalog import ColumnOrigin, Table


@dataclass(slots=True)
class Col:
    """A column of a relation: its name for the user, its DuckDB text, its type, the table's column it is."""

    name: str
    sql: str
    type: SqlType
    dec: tuple[int, int] | None = None
    scale_sql: str | None = None
    array: int = 0
    position: int = -1
    rel: Rel | None = None
    merged: tuple[Col, ...] = ()
    literal: str | None = None
    null: bool = False
    param: int | None = None
    origin: ColumnOrigin | None = None


@dataclass(slots=True)
class Rel:
    """A relation in FROM under the name that qualifies its columns.

    Attributes:
        is_recursion: it is what the round before gave of the recursive query that is being bound.
    """

    name: str
    alias: str
    columns: list[Col]
    table: Table | None = None
    scan: ScanNeeds | None = None
    nullable: bool = False
    is_recursion: bool = False


@dataclass(slots=True)
class ScanNeeds:
    """A base table in FROM: which of its columns are used, and what bounds its key."""

    name: str
    table: Table
    positions: dict[int, int] = field(default_factory=dict)
    bounded: list[tuple[int, str, object]] = field(default_factory=list)

    def use(self, position: int) -> int:
        """The place of the table's column among those scanned."""
        return self.positions.setdefault(position, len(self.positions))


@dataclass(slots=True)
class FromItem:
    """A bound item of FROM: its DuckDB text, relations, and what ``*`` means over it."""

    sql: str
    rels: list[Rel]
    star: list[Col]


class Scope:
    """Names inside one SELECT."""

    __slots__ = (
        "aliases",
        "clause",
        "ctes",
        "grouped",
        "groups",
        "number",
        "outer_vars",
        "parent",
        "rels",
        "star",
        "windows",
    )

    def __init__(self, number: int, parent: Scope | None) -> None:
        self.number = number
        self.parent = parent
        self.rels: list[Rel] = []
        self.star: list[Col] = []
        self.ctes: dict[str, Callable[[str], Rel]] = {}
        self.clause = "FROM"
        self.groups: set[str] = set()
        self.grouped = False
        self.windows: dict[str, exp.Expression] = {}
        self.aliases: dict[str, Typed] = {}
        self.outer_vars: set[tuple[int, str, int]] = set()

    def inside(self, star: list[Col], rels: list[Rel]) -> Scope:
        """A scope of the same SELECT that sees only these: an ON condition, a LATERAL item."""
        scope = Scope(self.number, self.parent)
        scope.ctes, scope.outer_vars = self.ctes, self.outer_vars
        scope.star, scope.rels = star, rels
        return scope

    def refuse_rows(self) -> None:
        """SqlError 0A000 where no set-returning function may stand."""
        if self.clause not in ("SELECT", "ORDER BY"):
            where = "JOIN conditions" if self.clause == "JOIN/ON" else self.clause
            raise SqlError("0A000", f"set-returning functions are not allowed in {where}")

    def add(self, item: FromItem) -> None:
        """One more item of FROM; SqlError 42712 when its name is taken."""
        for rel in item.rels:
            if rel.name and any(r.name == rel.name for r in self.rels):
                raise SqlError("42712", f'table name "{rel.name}" specified more than once')
            self.rels.append(rel)
        self.star += item.star

    def cte(self, name: str) -> Callable[[str], Rel] | None:
        """The WITH query of that name, here or further out."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.ctes:
                return scope.ctes[name]
            scope = scope.parent
        return None

    def find(self, table: str | None, name: str) -> tuple[Scope, Col]:
        """The column that a reference means; SqlError 42703, 42702 or 42P01."""
        scope: Scope | None = self
        seen_table = False
        while scope is not None:
            if table is None:
                found = [c for c in scope.star if c.name == name]
                if not found:
                    found = [c for rel in scope.rels for c in _hidden(rel, name)]
                if len(found) > 1:
                    raise SqlError("42702", f'column reference "{name}" is ambiguous')
                if found:
                    return scope, found[0]
            else:
                for rel in scope.rels:
                    if rel.name == table:
                        seen_table = True
                        found = [c for c in rel.columns if c.name == name] or _hidden(rel, name)
                        if len(found) > 1:
                            raise SqlError("42702", f'column reference "{name}" is ambiguous')
                        if found:
                            return scope, found[0]
                        break
                if seen_table:
                    break
            scope = scope.parent
        seen = list(self._seen())
        if table is None or seen_table:
            raise missing_column(table, name, [(rel.name, c.name) for rel in seen for c in rel.columns])
        raise missing_relation(table, [(rel.name, rel.table.name if rel.table else None) for rel in seen])

    def _seen(self) -> Iterator[Rel]:
        """The relations whose columns can be named, those of this SELECT first."""
        scope: Scope | None = self
        while scope is not None:
            yield from scope.rels
            scope = scope.parent

    def has_column(self, name: str) -> bool:
        """Whether a column, or more than one, has that name."""
        try:
            self.find(None, name)
        except SqlError as error:
            return error.sqlstate != "42703"
        return True

    def relation(self, name: str) -> tuple[Scope, Rel] | None:
        """The relation of that name, here or further out."""
        scope: Scope | None = self
        while scope is not None:
            for rel in scope.rels:
                if rel.name == name:
                    return scope, rel
            scope = scope.parent
        return None


def _hidden(rel: Rel, name: str) -> list[Col]:
    """The hidden key of a base table, which is there for who names it."""
    table = rel.table
    if table is None or name not in table.positions:
        return []
    position = table.positions[name]
    if not table.columns[position].hidden:
        return []
    return [table_column(rel, table, position)]


def table_column(rel: Rel, table: Table, position: int) -> Col:
    """A base table's column; its DuckDB text is made when it is first used."""
    column = table.columns[position]
    array = column.type.dimensions if column.type.base is Base.ARRAY else 0
    type_ = column.type.element_type if array else column.type
    return Col(
        column.name,
        "",
        type_,
        dec=stored_dec(type_) if array else column_dec(type_),
        array=array,
        position=position,
        rel=rel,
        origin=table.origin(position),
    )


def text(col: Col) -> str:
    """The DuckDB text of a column; notes that the scan must bring it."""
    if not col.sql:
        assert col.rel is not None
        assert col.rel.scan is not None
        col.sql = f"{col.rel.alias}.c{col.rel.scan.use(col.position)}"
    return col.sql


def from_column(col: Col, number: int) -> Typed:
    """A column reference resolved in the scope of that number."""
    sql = text(col)
    return Typed(
        sql,
        col.type,
        col.dec,
        col.scale_sql,
        array=col.array,
        name=col.name,
        vars=frozenset({(number, sql, col.position)}),
    )


@dataclass(slots=True)
class BoundQuery:
    """A bound query."""

    sql: str
    columns: list[Typed]
    vars: Vars = NO_VARS

    def names(self) -> str:
        """Its columns' names, for an alias list."""
        scales = [f"s{i}" for i, c in enumerate(self.columns) if c.scale_sql is not None]
        return ", ".join([*(f"c{i}" for i in range(len(self.columns))), *scales])
