"""Operators over bound arguments: the candidate is chosen, arguments coerced, constants folded."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from herdpy_sql import types as t
from herdpy_sql.errors import SqlError
from herdpy_sql.expr import nodes as n
from herdpy_sql.expr.casts import STRINGS, castable
from herdpy_sql.expr.coerce import Params, coerce, settle
from herdpy_sql.expr.compile import folded
from herdpy_sql.expr.nodes import comparable_as_is
from herdpy_sql.expr.operators import BINARY, COMPARABLE, MOMENTS, UNARY
from herdpy_sql.expr.resolve import Signature, choose, no_operator
from herdpy_sql.library import Resolved, reshaped, resolve, routine_of
from herdpy_sql.types import BITS, BOOLEAN, FACTS, Base, SqlType
from herdpy_sql.values.reg_types import REG_TYPES

if TYPE_CHECKING:
    from collections.abc import Sequence

_CONCAT = n.Function("||", lambda left, right: left + right, duck="({0} || {1})")
_WIDEST = {base: place for place, base in enumerate(MOMENTS)}


def call(signature: Signature, args: Sequence[n.Expr], params: Params) -> n.Expr:
    """The chosen candidate over its coerced arguments."""
    coerced = tuple(
        arg if arg.type.base is wanted else coerce(arg, SqlType(wanted), "implicit", params)
        for arg, wanted in zip(args, signature.args, strict=True)
    )
    return folded(n.Call(signature.result, signature.function, coerced))


def binary(symbol: str, left: n.Expr, right: n.Expr, params: Params) -> n.Expr:
    """``left symbol right``. SqlError 42883 when there is no such operator."""
    chosen = choose(BINARY[symbol], (left.type.base, right.type.base), f"operator {symbol}")
    if chosen is None:
        found = library_call(symbol, (left, right), params)
        if found is not None:
            return found
        raise no_operator(symbol, (left.type, right.type))
    return call(chosen, (left, right), params)


def unary(symbol: str, arg: n.Expr, params: Params) -> n.Expr:
    """``symbol arg``. SqlError 42883 when there is no such operator."""
    chosen = choose(UNARY[symbol], (arg.type.base,), f"operator {symbol}")
    if chosen is None:
        found = library_call(symbol, (arg,), params)
        if found is not None:
            return found
        raise no_operator(symbol, (arg.type,))
    return call(chosen, (arg,), params)


def concatenate(left: n.Expr, right: n.Expr, params: Params) -> n.Expr:
    """``left || right``: text with anything, or two BYTEAs."""
    bases = {left.type.base, right.type.base}
    if bases <= {Base.BYTEA, Base.UNKNOWN} and Base.BYTEA in bases:
        args = tuple(coerce(one, t.BYTEA, "implicit", params) for one in (left, right))
        return folded(n.Call(t.BYTEA, _CONCAT, args))
    if bases & BITS and bases <= BITS | {Base.UNKNOWN}:
        left, right = (coerce(one, t.VARBIT, "implicit", params) for one in (left, right))
    if bases & {Base.ARRAY, Base.JSONB, *BITS}:
        found = library_call("||", (left, right), params)
        if found is not None:
            return found
    if not bases & (STRINGS | {Base.UNKNOWN}):
        raise no_operator("||", (left.type, right.type))
    args = tuple(coerce(one, t.TEXT, "explicit", params) for one in (left, right))
    return folded(n.Call(t.TEXT, _CONCAT, args))


def compare(op: str, left: n.Expr, right: n.Expr, params: Params) -> n.Expr:
    """``left op right`` for = <> < <= > >=. SqlError 42883 when the types do not compare."""
    left, right = comparable(op, left, right, params)
    return folded(n.Comparison(BOOLEAN, op, left, right))


def distinct(left: n.Expr, right: n.Expr, negated: bool, params: Params) -> n.Expr:
    """``left IS [NOT] DISTINCT FROM right``."""
    left, right = comparable("=", left, right, params)
    return folded(n.Distinct(BOOLEAN, left, right, negated))


def compared_type(left: n.Expr, right: n.Expr) -> SqlType:
    """The type that ``left`` has where it is compared with ``right``: what NULLIF gives.

    SqlError 42883 when the types do not compare.
    """
    chosen = choose(COMPARABLE, (left.type.base, right.type.base), "operator =")
    if chosen is None:
        raise no_operator("=", (left.type, right.type))
    wanted = chosen.args[0]
    if wanted in _WHOLE:
        return left.type
    return left.type if left.type.base is wanted else SqlType(wanted)


@functools.lru_cache(maxsize=4096)
def _chosen(op: str, left: Base, right: Base) -> Signature | None:
    """Which comparison it is: found once for two types, for an IN list has many pairs of the same."""
    return choose(COMPARABLE, (left, right), f"operator {op}")


def comparable(op: str, left: n.Expr, right: n.Expr, params: Params) -> tuple[n.Expr, n.Expr]:
    """Both sides as datums that compare as they are; no cast where none is needed."""
    if left.type.base is right.type.base and left.type.base in _AS_THEY_ARE:
        return left, right
    chosen = _chosen(op, left.type.base, right.type.base)
    if chosen is None:
        raise no_operator(op, (left.type, right.type))
    first, second = chosen.args
    if first in _WHOLE:
        return _alike(op, left, right, params)
    if first in _WIDEST and first is not second:
        first = second = max(first, second, key=lambda base: _WIDEST[base])
    return _side(left, first, params), _side(right, second, params)


_WHOLE = frozenset({Base.ARRAY, Base.ENUM})
_AS_THEY_ARE = frozenset(base for base, facts in FACTS.items() if facts.comparable) - _WHOLE
"""Types whose values compare with each other."""


def _alike(op: str, left: n.Expr, right: n.Expr, params: Params) -> tuple[n.Expr, n.Expr]:
    """Arrays and ENUMs: both sides of the type that one of them has, modifiers aside."""
    known = left.type if left.type.base in _WHOLE else right.type
    for one in (left, right):
        if one.type.base in _WHOLE and not castable(one.type, known, "implicit"):
            if castable(known, one.type, "implicit"):
                known = one.type
            else:
                raise no_operator(op, (left.type, right.type))
    same = known.element in STRINGS and left.type.element in STRINGS and right.type.element in STRINGS
    return (
        left if same else coerce(left, known.plain, "implicit", params),
        right if same else coerce(right, known.plain, "implicit", params),
    )


_NO_CAST = STRINGS | {Base.SMALLINT, Base.INTEGER, Base.BIGINT, Base.NUMERIC, Base.INET}


def _side(side: n.Expr, wanted: Base, params: Params) -> n.Expr:
    if side.type.base is wanted:
        return side
    target = SqlType(wanted)
    if side.type.base is not Base.UNKNOWN and wanted in _NO_CAST and comparable_as_is(side.type, target):
        return side  # an integer beside a NUMERIC, a VARCHAR beside a TEXT: the datums compare already
    return coerce(side, target, "implicit", params)


def library_call(
    name: str, args: Sequence[n.Expr], params: Params, dimensions: int | None = None
) -> n.Expr | None:
    """The library's function of that name over these arguments; None when there is none.

    ``dimensions``: of the array that it gives, where they are not its arguments'.
    """
    found = resolve(name, tuple([arg.type for arg in args]))
    if found is None:
        return None
    if found.routine.refused:
        raise SqlError("0A000", found.routine.refused)
    coerced = tuple(
        settle(arg, params) if arg.type == wanted else coerce(arg, wanted, "implicit", params)
        for arg, wanted in zip(args, found.args, strict=True)
    )
    found = reshaped(found, [arg.type for arg in coerced], dimensions)
    result = found.result
    if found.routine.setof and found.routine.columns:
        result = SqlType(Base.RECORD, row=found.routine.columns)
    return folded(n.Call(result, _function(found), coerced))


class LibraryFunction(n.Function, frozen=True, eq=False):
    """A function of the library, as it was resolved for the types of a call."""

    resolved: Resolved | None = None

    @property
    def is_setof(self) -> bool:
        """Whether it gives rows."""
        return self.resolved is not None and self.resolved.routine.setof


@functools.lru_cache(maxsize=4096)
def _function(found: Resolved) -> LibraryFunction:
    """The same object for the same call, so that equal expressions are found to be equal."""
    chosen = found.routine
    foreign = ""
    if chosen.setof:
        foreign = f"set-returning {chosen.name}"
    elif chosen.context or any(one.base in REG_TYPES for one in found.args):
        foreign = f"{chosen.name}, which looks things up in the catalog"
    return LibraryFunction(
        chosen.name,
        routine_of(found),
        strict=chosen.strict,
        needs_clock=chosen.clocked,
        foreign=foreign,
        resolved=found,
    )
