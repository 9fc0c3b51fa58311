"""A bound query: its relations, and the typed trees of its clauses.

A ``Query`` has ``outputs``; a reference to a relation's column is a ColumnRef, whose number says which
relation it is of (``expr.scope``). The classes say what was written and what it means, not how it is run.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlglot import expressions as exp

from herdpy_sql.expr import nodes as n
from herdpy_sql.expr.coerce import Params, coerce
from herdpy_sql.expr.scope import Relation, Shown, TableRelation
from herdpy_sql.types import TEXT, Base, SqlType

if TYPE_CHECKING:
    from herdpy_sql.catalog import ColumnOrigin, Table
    from herdpy_sql.library import Resolved
    from herdpy_sql.partition_map import PartitionMap

# ---------------------------------------------------------------------------- FROM


@dataclass(slots=True, eq=False)
class Item:
    """An item of FROM.

    Attributes:
        relations: those whose columns can be named by a qualifier.
        star: what ``*`` means over it.
    """

    relations: list[Relation]
    star: list[Shown]


@dataclass(frozen=True, slots=True)
class TableSample:
    """TABLESAMPLE: what share of the rows, in percent, and by what seed."""

    share: n.Expr
    seed: n.Expr | None


@dataclass(slots=True, eq=False)
class TableScan(Item):
    """The rows of a table.

    Attributes:
        bounded: what conditions say of its key: (position, operator, syntax of the value).
        spread: of a partitioned table: the partitions that have its rows.
    """

    relation: TableRelation
    sample: TableSample | None = None
    bounded: list[tuple[int, str, exp.Expression]] = field(default_factory=list)
    spread: PartitionMap | None = None

    @property
    def table(self) -> Table:
        """Whose rows."""
        return self.relation.table


@dataclass(slots=True, eq=False)
class Reference(Item):
    """The rows of a WITH query."""

    relation: Relation
    named: WithQuery


@dataclass(slots=True, eq=False)
class Derived(Item):
    """A query in FROM; one that is ``lateral`` uses columns of the items before it."""

    relation: Relation
    query: Query
    lateral: bool


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A call in FROM.

    Attributes:
        name: the function's, which its column has without an alias.
        expr: generate_series() or unnest(), or any expression, which gives one row.
        found: a function of the library, resolved for ``args``.
    """

    name: str
    type: SqlType
    expr: n.Expr | None = None
    found: Resolved | None = None
    args: tuple[n.Expr, ...] = ()


@dataclass(slots=True, eq=False)
class Rows(Item):
    """What calls give, row by row beside each other; a function may give several columns if it is alone.

    Attributes:
        numbered: the last column numbers the rows.
    """

    relation: Relation
    calls: tuple[FunctionCall, ...]
    numbered: bool


@dataclass(slots=True, eq=False)
class Joined(Item):
    """Two items joined.

    Attributes:
        side: LEFT, RIGHT or FULL; "" of an inner join.
        conditions: all of them must hold; none of a cross join.
    """

    left: Item
    right: Item
    side: str
    conditions: list[n.Expr]


@dataclass(slots=True, eq=False)
class Enclosed(Item):
    """A join in parentheses."""

    inner: Item


# ---------------------------------------------------------------------------- queries


@dataclass(frozen=True, slots=True)
class Output:
    """An output column: its name, what it is, and the table's column that it is as it stands."""

    name: str
    expr: n.Expr
    origin: ColumnOrigin | None = None

    @property
    def type(self) -> SqlType:
        """Of its values."""
        return self.expr.type


@dataclass(frozen=True, slots=True)
class Key:
    """An item of ORDER BY: an output column by its ``place``, or an expression."""

    place: int | None
    expr: n.Expr | None
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class LimitClause:
    """LIMIT and OFFSET, None where one is not there; ``ties``: rows that sort as the last one come too."""

    count: n.Expr | None = None
    offset: n.Expr | None = None
    ties: bool = False

    @property
    def is_given(self) -> bool:
        """Whether it leaves rows out."""
        return self.count is not None or self.offset is not None


@dataclass(frozen=True, slots=True)
class GroupItem:
    """An item of GROUP BY.

    Attributes:
        word: ROLLUP, CUBE or GROUPING SETS over ``parts``; "" of a set of them in parentheses.
        expr: of one that is an expression, which has no parts.
    """

    word: str = ""
    parts: tuple[GroupItem, ...] = ()
    expr: n.Expr | None = None

    @property
    def is_plain(self) -> bool:
        """Whether no grouping sets come of it."""
        if self.expr is not None:
            return True
        return not self.word and bool(self.parts) and all(part.is_plain for part in self.parts)

    def expressions(self) -> Iterator[n.Expr]:
        """All that it groups by."""
        if self.expr is not None:
            yield self.expr
        for part in self.parts:
            yield from part.expressions()


@dataclass(slots=True, eq=False)
class Query:
    """Any query.

    Attributes:
        outputs: its columns.
        outer: the columns of queries around it that it uses.
        with_queries: those of its WITH clause, each after those that it reads.
        recursive: WITH RECURSIVE was written.
    """

    outputs: list[Output]
    outer: frozenset[n.ColumnRef] = field(default=frozenset(), kw_only=True)
    with_queries: list[WithQuery] = field(default_factory=list, kw_only=True)
    recursive: bool = field(default=False, kw_only=True)

    @property
    def types(self) -> list[SqlType]:
        """Of the columns."""
        return [output.type for output in self.outputs]

    def settle(self, targets: Sequence[SqlType | None], params: Params) -> None:
        """Give untyped literals and parameters among the outputs types: their targets', or TEXT."""
        self.outputs = [
            typed_output(output, targets[i] if i < len(targets) else None, params)
            for i, output in enumerate(self.outputs)
        ]


def typed_output(output: Output, target: SqlType | None, params: Params) -> Output:
    """The output; what has no type is of ``target``, without its modifiers, or TEXT."""
    if output.type.base is not Base.UNKNOWN:
        return output
    plain = TEXT if target is None else target.plain
    return Output(output.name, coerce(output.expr, plain, "implicit", params), output.origin)


@dataclass(slots=True, eq=False)
class Select(Query):
    """A SELECT.

    Attributes:
        source: the items of FROM.
        groups: of GROUP BY; None where rows are not grouped, or all are one group.
        fixed: columns that grouped primary keys determine, to be grouped by as well.
        distinct_on: what DISTINCT ON is of.
    """

    source: list[Item] = field(default_factory=list)
    where: n.Expr | None = None
    groups: list[GroupItem] | None = None
    fixed: list[n.ColumnRef] = field(default_factory=list)
    having: n.Expr | None = None
    order: list[Key] = field(default_factory=list)
    distinct: bool = False
    distinct_on: list[Key] = field(default_factory=list)
    limit: LimitClause = field(default_factory=LimitClause)


@dataclass(slots=True, eq=False)
class Values(Query):
    """VALUES; its outputs are those of its first row."""

    rows: list[tuple[n.Expr, ...]] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class SetOperation(Query):
    """UNION, INTERSECT or EXCEPT of two or more, from the left; its outputs are as those of the first."""

    word: str = ""
    distinct: bool = False
    branches: list[Query] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Ordered(Query):
    """A query whose rows are ordered, by its columns, or limited."""

    inner: Query = field(kw_only=True)
    order: list[Key] = field(default_factory=list)
    limit: LimitClause = field(default_factory=LimitClause)

    def settle(self, targets: Sequence[SqlType | None], params: Params) -> None:
        self.inner.settle(targets, params)
        self.outputs = self.inner.outputs


@dataclass(slots=True, eq=False)
class WithQuery:
    """A query that WITH names.

    Attributes:
        columns: names, types and origins, as references have them.
        step: of a recursive one, what is made of each round's rows, which ``query`` begins with; its WITH
            queries stand before both.
        union: recursion drops rows that there were.
        is_open: its ``step`` is being bound, so that a reference is to the rows of the round before.
    """

    name: str
    columns: list[tuple[str, SqlType, Any]]
    query: Query
    step: Query | None = None
    before: list[WithQuery] = field(default_factory=list)
    before_recursive: bool = False
    union: bool = False
    is_open: bool = False


class BoundInnerQuery(n.InnerQuery, frozen=True, eq=False):
    """A query inside an expression, bound; ``syntax`` is what it was bound from."""

    query: Query
    syntax: exp.Expression

    def meaning(self) -> Hashable:
        """Its text: within one SELECT the same names are of the same columns."""
        return BoundInnerQuery, self.syntax.sql("postgres")


def inner_name(expr: n.Expr) -> str | None:
    """The name of the column of a query that an expression is, or is made of as names are found."""
    match expr:
        case n.Subquery(query=BoundInnerQuery(query=query)):
            return query.outputs[0].name if query.outputs else None
        case n.Cast(arg=arg) | n.Collated(arg=arg):
            return inner_name(arg)
        case n.Case(default=default):
            return inner_name(default)
        case n.Call(args=args) if args:
            return inner_name(args[0])
        case _:
            return None
