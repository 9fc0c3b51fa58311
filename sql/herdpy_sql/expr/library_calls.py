"""Calls of the library's functions in own plans, part of the binder."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sqlglot import expressions as exp

from herdpy_sql.expr import nodes as n
from herdpy_sql.expr.coerce import Params, coerce, settle, unify
from herdpy_sql.expr.fold import folded
from herdpy_sql.expr.named_calls import named_call, subscripts
from herdpy_sql.expr.nodes import NotOwn
from herdpy_sql.library import Resolved, reshaped, resolve, routine_of
from herdpy_sql.library.array_shapes import FROM_FIRST, TO_LAST, array_of_arrays
from herdpy_sql.types import INTEGER, Base, array_of

if TYPE_CHECKING:
    from herdpy_sql.expr.bind import Binder


def library_call(
    name: str, args: Sequence[n.Expr], params: Params, dimensions: int | None = None
) -> n.Expr | None:
    """The library's function of that name over these arguments; None when there is none.

    ``dimensions``: of the array that it gives, where they are not its arguments'.
    """
    found = resolve(name, [arg.type for arg in args])
    if found is None:
        return None
    if found.routine.setof:
        raise NotOwn(f"set-returning {name}")
    coerced = tuple(
        settle(arg, params) if arg.type == wanted else coerce(arg, wanted, "implicit", params)
        for arg, wanted in zip(args, found.args, strict=True)
    )
    found = reshaped(found, [arg.type for arg in coerced], dimensions)
    return folded(n.Call(found.result, _function(found), coerced))


@functools.lru_cache(maxsize=4096)
def _function(found: Resolved) -> n.Function:
    """The same object for the same call, so that equal expressions are found to be equal."""
    chosen = found.routine
    return n.Function(chosen.name, routine_of(found), strict=chosen.strict, needs_clock=chosen.clocked)


def bind_library(binder: Binder, node: exp.Expression) -> n.Expr | None:
    """A call or an operator that the library may have; None when it has not."""
    named = named_call(node)
    if named is None:
        return None
    name, args = named
    return library_call(name, [binder.bind(arg) for arg in args], binder.params, filled(name, args))


def filled(name: str, args: Sequence[exp.Expression]) -> int | None:
    """How many dimensions ``array_fill`` gives its array, if that can be seen; None of other calls."""
    if name != "array_fill" or len(args) < 2 or not isinstance(args[1], exp.Array):
        return None
    return len(args[1].expressions) or None


def array(binder: Binder, node: exp.Array) -> n.Expr:
    """ARRAY[...] of values."""
    if any(isinstance(item, exp.Query) for item in node.expressions):
        raise NotOwn("ARRAY of a query")
    if not node.expressions:
        raise NotOwn("an empty ARRAY")
    items = [binder.bind(item) for item in node.expressions]
    found, parts = unify(items, binder.params, "ARRAY")
    return folded(n.Call(array_of(found), _STACK if found.base is Base.ARRAY else _LIST, parts))


_LIST = n.Function("array", lambda *values: values, strict=False)
_STACK = n.Function("array", lambda *values: array_of_arrays(values), strict=False)


def bracket(binder: Binder, node: exp.Bracket) -> n.Expr:
    """Subscripts and slices of arrays, and subscripts of JSONB."""
    base, steps = subscripts(node)
    value = binder.bind(base)
    if value.type.base is Base.ARRAY:
        return _within(binder, value, steps)
    for step in steps:
        found = None
        if not isinstance(step, tuple):
            found = library_call("subscript", [value, binder.bind(step)], binder.params)
        if found is None:
            raise NotOwn("a subscript")
        value = found
    return value


def _within(binder: Binder, array: n.Expr, steps: Sequence[Any]) -> n.Expr:
    """One subscript for each dimension; where one is a slice all are, from 1 to where they were alone."""
    if any(isinstance(step, tuple) for step in steps):
        args = [_bound(binder, one, open_end) for step in steps for one, open_end in slice_ends(step)]
        found = library_call("slice", [array, *args], binder.params)
    else:
        found = library_call("subscript", [array, *map(binder.bind, steps)], binder.params)
    if found is None:
        raise NotOwn("a subscript")
    return found


def slice_ends(step: Any) -> tuple[tuple[Any, int], tuple[Any, int]]:
    low, high = step if isinstance(step, tuple) else (None, step)
    return (low, FROM_FIRST), (high, TO_LAST)


def _bound(binder: Binder, node: Any, open_end: int) -> n.Expr:
    if node is None:
        return n.Const(INTEGER, open_end)
    return coerce(binder.bind(node), INTEGER, "implicit", binder.params)
