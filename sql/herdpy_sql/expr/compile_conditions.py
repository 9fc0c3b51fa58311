"""Conditions into closures, with SQL's three-valued logic: comparisons, AND, OR, NOT, IN, BETWEEN, LIKE.

AND and OR stop at the first argument that decides; the arguments of all others are evaluated even when one
is NULL already, so that their errors are seen. NULL is None.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

from herdpy.codec.keys import KeyCodec
from herdpy.codec.kinds import KeyField, Kind
from herdpy_sql.expr import nodes as n
from herdpy_sql.expr.compiled import COMPILERS, Compiled, Row, compile_expr
from herdpy_sql.expr.like import matcher
from herdpy_sql.storage import Clock
from herdpy_sql.types import Base, SqlType

_FLOATS = frozenset({Base.REAL, Base.DOUBLE})
_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
# PostgreSQL's order of floats: NaN equals itself and is greater than everything else.
_FLOAT_ORDER: dict[str, Callable[[float, float], bool]] = {
    "=": lambda a, b: a == b or (a != a and b != b),  # noqa: PLR0124
    "<>": lambda a, b: a != b and (a == a or b == b),  # noqa: PLR0124
    "<": lambda a, b: a < b or (b != b and a == a),  # noqa: PLR0124
    "<=": lambda a, b: a <= b or b != b,  # noqa: PLR0124
    ">": lambda a, b: a > b or (a != a and b == b),  # noqa: PLR0124
    ">=": lambda a, b: a >= b or a != a,  # noqa: PLR0124
}


_KEYED = frozenset({Base.INTERVAL, Base.ARRAY, Base.JSONB, Base.VECTOR})
_NOT_PLAIN = _FLOATS | _KEYED


@functools.lru_cache(maxsize=256)
def order_of(sql_type: SqlType) -> Callable[[Any], Any] | None:
    """What a datum compares by, where it is not the datum itself: an interval's span, the bytes of a key."""
    if sql_type.base is Base.INTERVAL:
        return lambda value: value.span
    if sql_type.base not in _KEYED:
        return None
    field = sql_type.plain.field
    shaped = 2 if field.kind is Kind.ARRAY else 0  # a datum may have other dimensions than its type
    encode = KeyCodec([KeyField(field.kind, shaped, element=field.element)]).encode
    return lambda value: encode((value,))


def comparer(op: str, left: n.Expr, right: n.Expr) -> Callable[[Any, Any], bool]:
    """The comparison of two datums, neither of them NULL."""
    key = order_of(left.type)
    if key is not None:
        compare = _ORDER[op]
        return lambda a, b: compare(key(a), key(b))
    floats = left.type.base in _FLOATS or right.type.base in _FLOATS
    return (_FLOAT_ORDER if floats else _ORDER)[op]


def _comparison(expr: n.Comparison) -> Compiled:
    left, right = compile_expr(expr.left), compile_expr(expr.right)
    compare = comparer(expr.op, expr.left, expr.right)
    if (
        isinstance(expr.left, n.ColumnRef)
        and isinstance(expr.right, n.Const)
        and expr.right.value is not None
    ):
        index, constant = expr.left.index, expr.right.value

        def with_constant(row: Row, params: Sequence[Any], clock: Clock) -> bool | None:
            value = row[index]
            return None if value is None else compare(value, constant)

        return with_constant

    def run(row: Row, params: Sequence[Any], clock: Clock) -> bool | None:
        a = left(row, params, clock)
        b = right(row, params, clock)
        return None if a is None or b is None else compare(a, b)

    return run


def _distinct(expr: n.Distinct) -> Compiled:
    left, right = compile_expr(expr.left), compile_expr(expr.right)
    equal = comparer("=", expr.left, expr.right)
    negated = expr.negated

    def run(row: Row, params: Sequence[Any], clock: Clock) -> bool:
        a = left(row, params, clock)
        b = right(row, params, clock)
        same = a is b if a is None or b is None else equal(a, b)
        return same is negated

    return run


def _and(expr: n.And) -> Compiled:
    args = [compile_expr(arg) for arg in expr.args]
    if len(args) == 2:
        left, right = args

        def both(row: Row, params: Sequence[Any], clock: Clock) -> bool | None:
            a = left(row, params, clock)
            if a is False:
                return False
            b = right(row, params, clock)
            return b if a or b is False else None

        return both

    def every(row: Row, params: Sequence[Any], clock: Clock) -> bool | None:
        result: bool | None = True
        for arg in args:
            value = arg(row, params, clock)
            if value is False:
                return False
            if value is None:
                result = None
        return result

    return every


def _or(expr: n.Or) -> Compiled:
    args = [compile_expr(arg) for arg in expr.args]

    def run(row: Row, params: Sequence[Any], clock: Clock) -> bool | None:
        result: bool | None = False
        for arg in args:
            value = arg(row, params, clock)
            if value:
                return True
            if value is None:
                result = None
        return result

    return run


def _not(expr: n.Not) -> Compiled:
    arg = compile_expr(expr.arg)

    def run(row: Row, params: Sequence[Any], clock: Clock) -> bool | None:
        value = arg(row, params, clock)
        return None if value is None else not value

    return run


def _is_null(expr: n.IsNull) -> Compiled:
    arg = compile_expr(expr.arg)
    if expr.negated:
        return lambda row, params, clock: arg(row, params, clock) is not None
    return lambda row, params, clock: arg(row, params, clock) is None


def _is_truth(expr: n.IsTruth) -> Compiled:
    arg, truth, negated = compile_expr(expr.arg), expr.truth, expr.negated
    return lambda row, params, clock: (arg(row, params, clock) is truth) is not negated


_FEW = 8


def _in_array(expr: n.In, elements: n.Elements) -> Compiled:
    """IN over a parameter that is an array; of an empty one nothing is a member, not even NULL."""
    arg, negated, index = compile_expr(expr.arg), expr.negated, elements.number - 1
    equal = comparer("=", expr.arg, elements)
    plain = not {expr.arg.type.base, elements.type.base} & _NOT_PLAIN
    known: tuple[Any, frozenset[Any]] = ((), frozenset())  # the newest array, and what is in it

    def member(row: Row, params: Sequence[Any], clock: Clock) -> bool | None:
        value = arg(row, params, clock)
        array = params[index]
        if array is None:
            return None
        if not array:
            return negated
        if value is None:
            return None
        if plain and len(array) > _FEW:
            nonlocal known
            if known[0] is not array:
                known = (array, frozenset(array))
            array = known[1]
        if value in array if plain else any(one is not None and equal(value, one) for one in array):
            return not negated
        return None if None in array else negated

    return member


def _in(expr: n.In) -> Compiled:
    if isinstance(expr.items[0], n.Elements):
        return _in_array(expr, expr.items[0])
    arg = compile_expr(expr.arg)
    negated = expr.negated
    if expr.arg.type.base not in _NOT_PLAIN and all(isinstance(item, n.Const) for item in expr.items):
        known = {item.value for item in expr.items if isinstance(item, n.Const)}
        has_null = None in known

        def member(row: Row, params: Sequence[Any], clock: Clock) -> bool | None:
            value = arg(row, params, clock)
            if value is None:
                return None
            if value in known:
                return not negated
            return None if has_null else negated

        return member
    items = [compile_expr(item) for item in expr.items]
    equal = comparer("=", expr.arg, expr.arg)

    def search(row: Row, params: Sequence[Any], clock: Clock) -> bool | None:
        value = arg(row, params, clock)
        others = [item(row, params, clock) for item in items]
        if value is None:
            return None
        unsure = False
        for other in others:
            if other is None:
                unsure = True
            elif equal(value, other):
                return not negated
        return None if unsure else negated

    return search


def _between(expr: n.Between) -> Compiled:
    arg, low, high = compile_expr(expr.arg), compile_expr(expr.low), compile_expr(expr.high)
    above = comparer(">=", expr.arg, expr.low)
    below = comparer("<=", expr.arg, expr.high)

    def run(row: Row, params: Sequence[Any], clock: Clock) -> bool | None:
        value = arg(row, params, clock)
        least = low(row, params, clock)
        first = None if value is None or least is None else above(value, least)
        if first is False:
            return False
        most = high(row, params, clock)
        if value is None or most is None:
            return None
        return False if not below(value, most) else first

    return run


def _like(expr: n.Like) -> Compiled:
    arg, pattern, escape = compile_expr(expr.arg), compile_expr(expr.pattern), compile_expr(expr.escape)
    insensitive, negated = expr.insensitive, expr.negated

    def run(row: Row, params: Sequence[Any], clock: Clock) -> bool | None:
        text = arg(row, params, clock)
        wanted = pattern(row, params, clock)
        mark = escape(row, params, clock)
        if text is None or wanted is None or mark is None:
            return None
        return matcher(wanted, mark, insensitive=insensitive)(text) is not negated

    return run


COMPILERS.update(
    {
        n.Comparison: _comparison,
        n.Distinct: _distinct,
        n.And: _and,
        n.Or: _or,
        n.Not: _not,
        n.IsNull: _is_null,
        n.IsTruth: _is_truth,
        n.In: _in,
        n.Between: _between,
        n.Like: _like,
    }
)
