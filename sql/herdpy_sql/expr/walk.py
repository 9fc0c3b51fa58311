"""Looking through expressions: what a planner asks of them. Only :func:`rebuild` recurses, by nesting."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from herdpy_sql.expr import nodes as n
from herdpy_sql.expr.nodes import Expr
from herdpy_sql.types import Base, SqlType

_FLIPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_INTEGERS = frozenset({Base.SMALLINT, Base.INTEGER, Base.BIGINT})
_STRINGS = frozenset({Base.TEXT, Base.VARCHAR, Base.CHAR})


def children(expr: Expr) -> tuple[Expr, ...]:
    """The direct parts of an expression, in the order they are evaluated."""
    match expr:
        case (
            n.Call(args=args)
            | n.SequenceCall(args=args)
            | n.Coalesce(args=args)
            | n.Extreme(args=args)
            | n.And(args=args)
            | n.Or(args=args)
        ):
            return args
        case n.Chain():
            return (expr.first, *(right for _, right in expr.steps if right is not None))
        case n.Comparison() | n.Distinct():
            return (expr.left, expr.right)
        case n.Cast(arg=arg) | n.Not(arg=arg) | n.IsNull(arg=arg) | n.IsTruth(arg=arg):
            return (arg,)
        case n.Case():
            operand = () if expr.operand is None else (expr.operand,)
            return (*operand, *(part for when in expr.whens for part in when), expr.default)
        case n.NullIf():
            return (expr.left, expr.comparison)
        case n.In():
            return (expr.arg, *expr.items)
        case n.Between():
            return (expr.arg, expr.low, expr.high)
        case n.Like():
            return (expr.arg, expr.pattern, expr.escape)
        case _:
            return ()


def walk(expr: Expr) -> Iterator[Expr]:
    """The expression and everything inside it, each before its parts."""
    stack = [expr]
    while stack:
        one = stack.pop()
        yield one
        stack.extend(reversed(children(one)))


def columns_used(expr: Expr) -> frozenset[n.ColumnRef]:
    """Every column the expression refers to."""
    return frozenset(one for one in walk(expr) if isinstance(one, n.ColumnRef))


def params_used(expr: Expr) -> frozenset[int]:
    """The numbers of every parameter the expression refers to."""
    return frozenset(one.number for one in walk(expr) if isinstance(one, n.Param))


def has_columns(expr: Expr) -> bool:
    """Whether the expression needs a row."""
    return any(isinstance(one, n.ColumnRef) for one in walk(expr))


def takes_values(expr: Expr) -> bool:
    """Whether evaluating it changes a sequence."""
    return any(isinstance(one, n.SequenceCall) and one.name in {"nextval", "setval"} for one in walk(expr))


def is_volatile(expr: Expr) -> bool:
    """Whether it is another value for each row, and so no statement's one value."""
    return any(isinstance(one, n.Random | n.SequenceCall) for one in walk(expr))


def is_constant(expr: Expr) -> bool:
    """Whether it is the same whatever the row, the parameters, the clock and the dice are."""
    for one in walk(expr):
        if isinstance(one, n.ColumnRef | n.Param | n.Now | n.Random | n.SequenceCall):
            return False
        if isinstance(one, n.Call | n.Cast) and one.function is not None and one.function.needs_clock:
            return False
        if isinstance(one, n.Chain) and any(function.needs_clock for function, _ in one.steps):
            return False
    return True


def split_conjuncts(expr: Expr | None) -> tuple[Expr, ...]:
    """The conditions that are joined by AND (binding has flattened them); none for None."""
    if expr is None:
        return ()
    return expr.args if isinstance(expr, n.And) else (expr,)


def as_comparison(expr: Expr) -> tuple[n.ColumnRef, str, Expr] | None:
    """``column op value`` with op one of = <> < <= > >= and a value that needs no row, or None.

    Either order is found. The column is not under a cast, and the value is of a type whose datums
    compare with the column's as they are: of the same base, or both integers, both strings, or both
    of numbers that Python compares exactly. Use :func:`herdpy_sql.expr.seek.seek` to turn the value
    into a datum of the column's type.
    """
    if not isinstance(expr, n.Comparison):
        return None
    for column, op, value in ((expr.left, expr.op, expr.right), (expr.right, _FLIPPED[expr.op], expr.left)):
        if (
            isinstance(column, n.ColumnRef)
            and comparable_as_is(column.type, value.type)
            and not has_columns(value)
        ):
            return column, op, value
    return None


def comparable_as_is(left: SqlType, right: SqlType) -> bool:
    """Whether datums of the two types compare without a conversion."""
    a, b = left.base, right.base
    exact = _INTEGERS | {Base.NUMERIC}
    floats = {Base.REAL, Base.DOUBLE}
    return (
        a is b
        or (a in exact and b in exact)
        or (a in floats and b in floats)
        or (a in _STRINGS and b in _STRINGS and (a is Base.CHAR) == (b is Base.CHAR))
    )


def rebuild(expr: Expr, change: Callable[[Expr], Expr | None]) -> Expr:
    """The expression with every part that ``change`` gives another for (None: look inside it)."""
    changed = change(expr)
    if changed is not None:
        return changed
    match expr:
        case n.Call() | n.SequenceCall() | n.Coalesce() | n.Extreme() | n.And() | n.Or():
            return replace(expr, args=tuple(rebuild(arg, change) for arg in expr.args))
        case n.Chain():
            steps = tuple((f, None if right is None else rebuild(right, change)) for f, right in expr.steps)
            return replace(expr, first=rebuild(expr.first, change), steps=steps)
        case n.Comparison() | n.Distinct():
            return replace(expr, left=rebuild(expr.left, change), right=rebuild(expr.right, change))
        case n.Cast() | n.Not() | n.IsNull() | n.IsTruth():
            return replace(expr, arg=rebuild(expr.arg, change))
        case n.Case():
            return replace(
                expr,
                operand=None if expr.operand is None else rebuild(expr.operand, change),
                whens=tuple((rebuild(when, change), rebuild(then, change)) for when, then in expr.whens),
                default=rebuild(expr.default, change),
            )
        case n.NullIf():
            comparison = rebuild(expr.comparison, change)
            assert isinstance(comparison, n.Comparison)
            return replace(expr, left=rebuild(expr.left, change), comparison=comparison)
        case n.In():
            items = tuple(rebuild(item, change) for item in expr.items)
            return replace(expr, arg=rebuild(expr.arg, change), items=items)
        case n.Between():
            low, high = rebuild(expr.low, change), rebuild(expr.high, change)
            return replace(expr, arg=rebuild(expr.arg, change), low=low, high=high)
        case n.Like():
            pattern, escape = rebuild(expr.pattern, change), rebuild(expr.escape, change)
            return replace(expr, arg=rebuild(expr.arg, change), pattern=pattern, escape=escape)
        case _:
            return expr


def remap_columns(expr: Expr, places: Callable[[n.ColumnRef], int]) -> Expr:
    """The expression over rows that hold the columns at other places."""
    return rebuild(
        expr, lambda one: replace(one, index=places(one)) if isinstance(one, n.ColumnRef) else None
    )
