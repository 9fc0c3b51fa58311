"""Typed scalar expressions: the tree that the binder makes and that ``compile`` turns into closures.

Every node is immutable, knows its type, and compares and hashes by value, so that a planner may look for the
same expression twice. Nodes refer to columns by their place in the row they will be given. What a planner
asks of a tree stands below the nodes; of these functions only :func:`rebuild` recurses, by nesting.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import astuple, replace

from herdpy_sql.errors import SqlError
from herdpy_sql.types import BITS, BOOLEAN, Base, SqlType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from herdpy.codec.kinds import Datum
    from herdpy_sql.duck import Typed


class NotColumnar(SqlError):  # noqa: N818 - a signal to the planner, too
    """Valid SQL (0A000) that DuckDB has no value for: an own plan runs it, if there may be one."""

    def __init__(self, message: str) -> None:
        super().__init__("0A000", message)


class Function(Struct, frozen=True, eq=False):
    """A resolved implementation, equal only to itself.

    Attributes:
        name: for EXPLAIN and messages; an operator's symbol or a function's name.
        implementation: called with the datums of the arguments, none of them None if ``strict``.
        strict: NULL when any argument is NULL, without a call.
        needs_clock: called with the :class:`~herdpy_sql.clock.Clock` before the arguments.
        duck: of an operator, DuckDB's text with a place such as ``{0}`` for each operand; or what makes it of
            the :class:`~herdpy_sql.duck.Digits` that it may have and the typed operands.
        immutable: it needs the clock for how the session writes texts alone, which PostgreSQL overlooks where
            only immutable functions may stand.
        foreign: why own plans do not call it, of a function that the columnar engine alone has.
    """

    name: str
    implementation: Callable[..., Datum]
    strict: bool = True
    needs_clock: bool = False
    immutable: bool = False
    duck: str | Callable[..., Typed] = ""
    foreign: str = ""


class Expr(Struct, frozen=True):
    """Any expression; ``type`` is the type of its value."""

    type: SqlType


class ColumnRef(Expr, frozen=True):
    """A column of the row: ``index`` is its place in the row tuple at run time."""

    index: int
    name: str
    table: str | None = None
    nullable: bool = True


class Const(Expr, frozen=True):
    """A value known now. Of type UNKNOWN: the text of a quoted literal whose place will type it."""

    value: Datum


class Param(Expr, frozen=True):
    """A parameter, numbered from 1; its datum is ``params[number - 1]``."""

    number: int


class Elements(Param, frozen=True):
    """The elements of a parameter that is an array, whatever their number; ``type`` is that of one."""


class SubqueryValues(Elements, frozen=True):
    """The values of a query's one column, as an array that own plans give as one more parameter.

    ``number`` counts from the last of these arrays, which is 0, so that it stands for the same place behind
    any number of parameters.
    """


class Call(Expr, frozen=True):
    """An operator or function with its resolved implementation."""

    function: Function
    args: tuple[Expr, ...]


class Chain(Expr, frozen=True):
    """A long left-deep run of operators, flattened: ``first``, then step by step.

    A step is (function, right operand, type of what it gives), with None for the operand of a cast of what is
    there so far.
    """

    first: Expr
    steps: tuple[tuple[Function, Expr | None, SqlType], ...]


class Comparison(Expr, frozen=True):
    """``left op right`` with op one of ``= <> < <= > >=``; both sides are of one comparable kind.

    Numbers of different types compare by value without casts where Python compares them exactly;
    CHAR datums hold no trailing blanks, so that comparing them as text ignores blanks.
    """

    op: str
    left: Expr
    right: Expr


class Distinct(Expr, frozen=True):
    """``left IS [NOT] DISTINCT FROM right``; never NULL."""

    left: Expr
    right: Expr
    negated: bool


class Cast(Expr, frozen=True):
    """``arg`` converted to ``type``; ``function`` is None when the datum stays as it is."""

    arg: Expr
    function: Function | None
    explicit: bool = True


class Case(Expr, frozen=True):
    """CASE. With ``operand`` (the simple form), conditions see its value as a :class:`CaseOperand`."""

    operand: Expr | None
    whens: tuple[tuple[Expr, Expr], ...]
    default: Expr


class CaseOperand(Expr, frozen=True):
    """The value of the nearest enclosing simple CASE's operand: the last of the extended row."""


class Coalesce(Expr, frozen=True):
    """The first of ``args`` that is not NULL; later ones are not evaluated."""

    args: tuple[Expr, ...]


class Extreme(Expr, frozen=True):
    """GREATEST or LEAST of the arguments that are not NULL."""

    args: tuple[Expr, ...]
    greatest: bool


class NullIf(Expr, frozen=True):
    """NULL when ``left`` equals ``right`` (``comparison`` over them), else ``left``."""

    left: Expr
    comparison: Comparison


class And(Expr, frozen=True):
    """Conjunction of two or more, flattened; three-valued."""

    args: tuple[Expr, ...]


class Or(Expr, frozen=True):
    """Disjunction of two or more, flattened; three-valued."""

    args: tuple[Expr, ...]


class Not(Expr, frozen=True):
    """Three-valued negation."""

    arg: Expr


class IsNull(Expr, frozen=True):
    """``arg IS [NOT] NULL``."""

    arg: Expr
    negated: bool


class IsTruth(Expr, frozen=True):
    """``arg IS [NOT] TRUE/FALSE`` (IS UNKNOWN is IsNull)."""

    arg: Expr
    truth: bool
    negated: bool


class In(Expr, frozen=True):
    """``arg [NOT] IN (items)``; all of one comparable kind."""

    arg: Expr
    items: tuple[Expr, ...]
    negated: bool


class Between(Expr, frozen=True):
    """``low <= arg AND arg <= high``, with ``arg`` evaluated once (NOT BETWEEN is Not over it)."""

    arg: Expr
    low: Expr
    high: Expr


class Quantified(Expr, frozen=True):
    """A value with ANY or ALL of an array: ``test`` compares the ``arg`` with each element.

    In it the value is a :class:`CaseOperand`, the element an :class:`Element`.
    """

    arg: Expr
    array: Expr
    test: Expr
    every: bool


class Element(Expr, frozen=True):
    """The element that the nearest enclosing :class:`Quantified` tests: last but one of the extended row."""


class Like(Expr, frozen=True):
    """``arg [NOT] [I]LIKE pattern ESCAPE escape``; ``escape`` is NULL for none, or text."""

    arg: Expr
    pattern: Expr
    escape: Expr
    insensitive: bool
    negated: bool


class Now(Expr, frozen=True):
    """The clock's time, always of type TIMESTAMPTZ.

    ``what`` is "transaction" (now, CURRENT_TIMESTAMP) or "statement" (statement_timestamp).
    """

    what: str


class Random(Expr, frozen=True):
    """Another value each time.

    Attributes:
        name: "gen_random_uuid", "random" or "clock_timestamp".
        of_rows: it stands in a query, which own plans would have to compute again in the same way.
    """

    name: str
    of_rows: bool = False


TAKING = frozenset({"nextval", "setval", "pg_notify"})
"""Calls that are part of what a transaction writes."""


class SequenceCall(Expr, frozen=True):
    """nextval, currval, lastval or setval: what it gives depends on what was given before; pg_notify."""

    name: str
    args: tuple[Expr, ...]


class ProgramCall(Expr, frozen=True):
    """A call of a function that the catalog has, which the session runs.

    Attributes:
        program: the id of its object. ``name``: as it is called.
        strict: NULL where an argument is NULL, without a call.
    """

    program: int
    name: str
    args: tuple[Expr, ...]
    strict: bool = False


class Foreign(Expr, frozen=True):
    """What the columnar engine alone has, such as a subquery or an aggregate.

    Aggregates and columns inside decide which rows there are, so no folding may drop it.
    """

    def label(self) -> str:
        """What it is, for EXPLAIN and for the message of own plans, which refuse it."""
        raise NotImplementedError


class OrderItem(Struct, frozen=True):
    """An item of ORDER BY."""

    key: Expr
    descending: bool
    nulls_first: bool


class Aggregate(Foreign, frozen=True):
    """An aggregate (``expr.aggregates``) over the rows of a query; own plans take it out of a SELECT list.

    Attributes:
        order: the order in which it takes its values; what is aggregated of one WITHIN GROUP.
        test: FILTER's condition.
    """

    name: str
    args: tuple[Expr, ...]
    order: tuple[OrderItem, ...] = ()
    test: Expr | None = None
    distinct: bool = False

    def label(self) -> str:
        return f"aggregate {self.name}{' of different values' if self.distinct else ''}"


class FrameEnd(Struct, frozen=True):
    """An end of a window's frame.

    Attributes:
        side: PRECEDING or FOLLOWING, of a distance; all of it without one, such as CURRENT ROW.
        distance: how many rows or groups it is away, or by how much a value differs.
    """

    side: str
    distance: Expr | None = None


class WindowFrame(Struct, frozen=True):
    """Which rows around one are in its frame."""

    kind: str
    start: FrameEnd
    end: FrameEnd
    exclude: str


class Over(Struct, frozen=True):
    """The clause of OVER."""

    partition: tuple[Expr, ...]
    order: tuple[OrderItem, ...]
    frame: WindowFrame | None


class Window(Foreign, frozen=True):
    """A function over a window; of an aggregate over one, it is the only argument."""

    name: str
    args: tuple[Expr, ...]
    over: Over

    def label(self) -> str:
        return f"window {self.name}"


class SetOf(Foreign, frozen=True):
    """A row of what generate_series() or unnest() gives; a row of those around it for each."""

    name: str
    args: tuple[Expr, ...]

    def label(self) -> str:
        return f"set-returning {self.name}"


class Grouping(Foreign, frozen=True):
    """Which of ``args`` are not grouped by in a row, as bits."""

    args: tuple[Expr, ...]

    def label(self) -> str:
        return "grouping"


class Collated(Foreign, frozen=True):
    """A text that sorts by a language's collation, or by one that does not exist."""

    arg: Expr
    name: str

    def label(self) -> str:
        return f"collation {self.name}"


class RowField(Foreign, frozen=True):
    """A field of the row that a function gives: ``place`` is its number, from 0."""

    row: Expr
    place: int
    name: str

    def label(self) -> str:
        return f"field {self.name}"


class RelationRow(Struct, frozen=True, eq=False):
    """A relation's row as a value: its columns by their names, and what tells that there is no row."""

    fields: tuple[tuple[str, Expr], ...]
    missing: Expr | None


class InnerQuery(Struct, frozen=True, eq=False):
    """A query inside an expression, as what binds queries has it: the tree does not look into it.

    Attributes:
        columns: the types of its columns.
    """

    columns: tuple[SqlType, ...]

    def meaning(self) -> Hashable:
        """What it has in common with a query that means the same where it stands."""
        return self


class QueryColumn(Foreign, frozen=True):
    """A column of the query of the nearest enclosing :class:`Subquery`, numbered from 0."""

    place: int

    def label(self) -> str:
        return f"column {self.place + 1} of the query"


class Subquery(Foreign, frozen=True):
    """A query in an expression.

    Attributes:
        kind: "scalar", "exists", "array" (its rows as one), or what ``test`` has to hold for: the one "row"
            that there is, "any" row or "all" of them.
        test: a condition on its columns, each a :class:`QueryColumn`.
    """

    query: InnerQuery
    kind: str
    test: Expr | None = None

    def label(self) -> str:
        return _OF_QUERIES[self.kind]


_OF_QUERIES = {
    "scalar": "subquery",
    "exists": "exists",
    "array": "array of subquery",
    "row": "row of subquery",
    "any": "any row of subquery",
    "all": "all rows of subquery",
}


TRUE = Const(BOOLEAN, True)
FALSE = Const(BOOLEAN, False)


_EXACT = frozenset({Base.SMALLINT, Base.INTEGER, Base.BIGINT, Base.NUMERIC})
_FLOATS = frozenset({Base.REAL, Base.DOUBLE})
_STRINGS = frozenset({Base.TEXT, Base.VARCHAR, Base.CHAR})
_NETWORKS = frozenset({Base.INET, Base.CIDR})


def children(expr: Expr) -> tuple[Expr, ...]:
    """The direct parts of an expression, in the order they are evaluated."""
    parts = _PARTS.get(type(expr))
    return () if parts is None else parts(expr)


def _of_case(expr: Case) -> tuple[Expr, ...]:
    operand = () if expr.operand is None else (expr.operand,)
    return (*operand, *(part for when in expr.whens for part in when), expr.default)


def _of_chain(expr: Chain) -> tuple[Expr, ...]:
    return (expr.first, *(right for _, right, _ in expr.steps if right is not None))


def _of_aggregate(expr: Aggregate) -> tuple[Expr, ...]:
    test = () if expr.test is None else (expr.test,)
    return (*expr.args, *(one.key for one in expr.order), *test)


def _of_window(expr: Window) -> tuple[Expr, ...]:
    over = expr.over
    ends = () if over.frame is None else (over.frame.start.distance, over.frame.end.distance)
    keys = (*over.partition, *(one.key for one in over.order))
    return (*expr.args, *keys, *(end for end in ends if end is not None))


_PARTS: dict[type[Expr], Callable[[Any], tuple[Expr, ...]]] = {
    **dict.fromkeys((Call, SequenceCall, ProgramCall, Coalesce, Extreme, And, Or), attrgetter("args")),
    **dict.fromkeys((Comparison, Distinct), attrgetter("left", "right")),
    **dict.fromkeys((Cast, Not, IsNull, IsTruth), lambda expr: (expr.arg,)),
    Chain: _of_chain,
    Case: _of_case,
    NullIf: attrgetter("left", "comparison"),
    In: lambda expr: (expr.arg, *expr.items),
    Between: attrgetter("arg", "low", "high"),
    Like: attrgetter("arg", "pattern", "escape"),
    Quantified: attrgetter("arg", "array", "test"),
    Aggregate: _of_aggregate,
    RowField: lambda expr: (expr.row,),
    Window: _of_window,
    Grouping: attrgetter("args"),
    SetOf: attrgetter("args"),
    Collated: lambda expr: (expr.arg,),
    Subquery: lambda expr: () if expr.test is None else (expr.test,),
}


def walk(expr: Expr) -> Iterator[Expr]:
    """The expression and everything inside it, each before its parts."""
    stack = [expr]
    while stack:
        one = stack.pop()
        yield one
        stack.extend(reversed(children(one)))


def columns_used(expr: Expr) -> frozenset[ColumnRef]:
    """Every column the expression refers to."""
    return frozenset(one for one in walk(expr) if isinstance(one, ColumnRef))


def fingerprint(value: Any) -> Hashable:
    """What two expressions have in common that mean the same, as PostgreSQL's equal() has it.

    Unlike equality it tells 1.0 from 1.00, and it does not tell a cast that was written from one that was
    added, nor a column by one name from the same one by another.
    """
    if isinstance(value, tuple):
        return tuple([fingerprint(one) for one in value])
    if isinstance(value, ColumnRef):
        return ColumnRef, value.index
    if isinstance(value, Const):
        return Const, value.type, repr(value.value)
    if isinstance(value, Param):
        return type(value), value.number
    if isinstance(value, Cast):
        return Cast, value.type, value.function, fingerprint(value.arg)
    if isinstance(value, InnerQuery):
        return value.meaning()
    if isinstance(value, Struct) and not isinstance(value, Function):
        return type(value), *[fingerprint(one) for one in astuple(value)]
    part: Hashable = value
    return part


def opposite(expr: In | Like) -> In | Like:
    """The same test, negated where it is not and the other way round."""
    return replace(expr, negated=not expr.negated)


def takes_values(expr: Expr) -> bool:
    """Whether evaluating it changes a sequence, or sends a notification."""
    return any(isinstance(one, SequenceCall) and one.name in TAKING for one in walk(expr))


def is_volatile(expr: Expr) -> bool:
    """Whether it is another value for each row, and so no statement's one value."""
    return any(isinstance(one, Random | SequenceCall | ProgramCall) for one in walk(expr))


def foreign_reason(expr: Expr) -> str:
    """Why own plans do not evaluate it; empty where they do."""
    stack = [expr]
    while stack:
        one = stack.pop()
        parts = _PARTS.get(type(one))
        if isinstance(one, Foreign):
            return one.label()
        if parts is not None:
            if isinstance(one, Call | Cast) and one.function is not None and one.function.foreign:
                return one.function.foreign
            stack.extend(parts(one))
        elif type(one) is Random and one.of_rows:
            return one.name
    return ""


def has_columns(expr: Expr) -> bool:
    """Whether folding may not drop it: it says which rows there are, or may not stand beside groups."""
    return any(isinstance(one, ColumnRef | Foreign) for one in walk(expr)) or bool(foreign_reason(expr))


def is_constant(expr: Expr) -> bool:
    """Whether it is the same whatever the row, the parameters, the clock and the dice are."""
    for one in walk(expr):
        if isinstance(one, ColumnRef | Param | Now | Random | SequenceCall | ProgramCall | Foreign):
            return False
        if isinstance(one, Call | Cast) and one.function is not None and one.function.needs_clock:
            return False
        if isinstance(one, Chain) and any(function.needs_clock for function, _, _ in one.steps):
            return False
    return True


def split_conjuncts(expr: Expr | None) -> tuple[Expr, ...]:
    """The conditions that are joined by AND (binding has flattened them); none for None."""
    if expr is None:
        return ()
    return expr.args if isinstance(expr, And) else (expr,)


def comparable_as_is(left: SqlType, right: SqlType) -> bool:
    """Whether datums of the two types compare without a conversion."""
    a, b = left.base, right.base
    return (
        a is b
        or (a in _EXACT and b in _EXACT)
        or (a in _FLOATS and b in _FLOATS)
        or (a in BITS and b in BITS)
        or (a in _NETWORKS and b in _NETWORKS)
        or (a in _STRINGS and b in _STRINGS and (a is Base.CHAR) == (b is Base.CHAR))
    )


def rebuild(expr: Expr, change: Callable[[Expr], Expr | None]) -> Expr:
    """The expression with every part that ``change`` gives another for (None: look inside it)."""
    changed = change(expr)
    if changed is not None:
        return changed
    match expr:
        case Call() | SequenceCall() | ProgramCall() | Coalesce() | Extreme() | And() | Or():
            return replace(expr, args=tuple(rebuild(arg, change) for arg in expr.args))
        case Chain():
            steps = tuple((f, right and rebuild(right, change), given) for f, right, given in expr.steps)
            return replace(expr, first=rebuild(expr.first, change), steps=steps)
        case Comparison() | Distinct():
            return replace(expr, left=rebuild(expr.left, change), right=rebuild(expr.right, change))
        case Cast() | Not() | IsNull() | IsTruth():
            return replace(expr, arg=rebuild(expr.arg, change))
        case Case():
            return replace(
                expr,
                operand=None if expr.operand is None else rebuild(expr.operand, change),
                whens=tuple((rebuild(when, change), rebuild(then, change)) for when, then in expr.whens),
                default=rebuild(expr.default, change),
            )
        case NullIf():
            comparison = rebuild(expr.comparison, change)
            assert isinstance(comparison, Comparison)
            return replace(expr, left=rebuild(expr.left, change), comparison=comparison)
        case In():
            items = tuple(rebuild(item, change) for item in expr.items)
            return replace(expr, arg=rebuild(expr.arg, change), items=items)
        case Between():
            low, high = rebuild(expr.low, change), rebuild(expr.high, change)
            return replace(expr, arg=rebuild(expr.arg, change), low=low, high=high)
        case Like():
            pattern, escape = rebuild(expr.pattern, change), rebuild(expr.escape, change)
            return replace(expr, arg=rebuild(expr.arg, change), pattern=pattern, escape=escape)
        case Quantified():
            array, test = rebuild(expr.array, change), rebuild(expr.test, change)
            return replace(expr, arg=rebuild(expr.arg, change), array=array, test=test)
        case _:
            return expr


def remap_columns(expr: Expr, places: Callable[[ColumnRef], int]) -> Expr:
    """The expression over rows that hold the columns at other places."""
    return rebuild(expr, lambda one: replace(one, index=places(one)) if isinstance(one, ColumnRef) else None)
