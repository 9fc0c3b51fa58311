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
from herdpy_sql.library import Resolved, resolve, routine_of
from herdpy_sql.types import INTEGER, Base, array_of

if TYPE_CHECKING:
    from herdpy_sql.expr.bind import Binder


def library_call(name: str, args: Sequence[n.Expr], params: Params) -> n.Expr | None:
    """The library's function of that name over these arguments; None when there is none."""
    found = resolve(name, [arg.type for arg in args])
    if found is None:
        return None
    if found.routine.setof:
        raise NotOwn(f"set-returning {name}")
    coerced = tuple(
        settle(arg, params) if arg.type == wanted else coerce(arg, wanted, "implicit", params)
        for arg, wanted in zip(args, found.args, strict=True)
    )
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
    return library_call(name, [binder.bind(arg) for arg in args], binder.params)


def array(binder: Binder, node: exp.Array) -> n.Expr:
    """ARRAY[...] of values."""
    if any(isinstance(item, exp.Query) for item in node.expressions):
        raise NotOwn("ARRAY of a query")
    if not node.expressions:
        raise NotOwn("an empty ARRAY")
    items = [binder.bind(item) for item in node.expressions]
    if any(item.type.base is Base.ARRAY for item in items):
        raise NotOwn("an array of several dimensions")
    found, parts = unify(items, binder.params, "ARRAY")
    made = n.Function("array", lambda *values: values, strict=False)
    return folded(n.Call(array_of(found), made, parts))


def bracket(binder: Binder, node: exp.Bracket) -> n.Expr:
    """Subscripts and slices of arrays, and subscripts of JSONB."""
    base, steps = subscripts(node)
    value = binder.bind(base)
    for step in steps:
        if isinstance(step, tuple):
            args: list[n.Expr] = [value, *(_bound(binder, one) for one in step)]
            found = library_call("slice", args, binder.params)
        else:
            found = library_call("subscript", [value, binder.bind(step)], binder.params)
        if found is None:
            raise NotOwn("a subscript")
        value = found
    return value


def _bound(binder: Binder, node: Any) -> n.Expr:
    if node is None:
        return n.Const(INTEGER, None)
    return coerce(binder.bind(node), INTEGER, "implicit", binder.params)
