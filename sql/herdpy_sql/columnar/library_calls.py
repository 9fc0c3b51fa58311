"""Nodes that the library has a function for: operators of arrays and JSON, subscripts, and calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from herdpy_sql.columnar import arrays, library
from herdpy_sql.columnar.binder import HANDLERS, Binder
from herdpy_sql.columnar.routines import types_of
from herdpy_sql.duck import Typed
from herdpy_sql.errors import SqlError
from herdpy_sql.expr import syntax
from herdpy_sql.expr.resolve import no_function, no_operator
from herdpy_sql.expr.syntax import slice_ends
from herdpy_sql.library.catalog_functions import ACTIONS
from herdpy_sql.types import INTEGER

if TYPE_CHECKING:
    from herdpy_sql.columnar.scope import Scope


def _named(binder: Binder, node: Any, scope: Scope) -> Typed:
    named = syntax.named_call(node)
    assert named is not None
    name, nodes = named
    arguments = [binder.bind(arrays.written_out(one) if _is_array(one) else one, scope) for one in nodes]
    found = library.call(binder, name, arguments, scope)
    if found is None:
        if name[0].isalpha():
            raise no_function(name, types_of(*arguments)[name in ACTIONS :])  # after the number put before
        raise no_operator(name, types_of(arguments[0], arguments[1]))
    return found


def _is_array(node: Any) -> bool:
    """Whether it is a literal that a cast makes an array."""
    return isinstance(node, exp.Cast) and arrays.element_of(node.args["to"]) is not None


def _bracket(binder: Binder, node: Any, scope: Scope) -> Typed:
    base, steps = syntax.subscripts(node)
    value = binder.bind(base, scope)
    if value.array:
        return _within(binder, value, steps, scope)
    for step in steps:
        found = None
        if not isinstance(step, tuple):
            found = library.call(binder, "subscript", [value, binder.bind(step, scope)])
        if found is None:
            raise SqlError(
                "42804", f"cannot subscript type {value.type.name} because it does not support subscripting"
            )
        value = found
    return value


def _within(binder: Binder, array: Typed, steps: list[Any], scope: Scope) -> Typed:
    """One subscript for each dimension; where one is a slice all are."""
    if any(isinstance(step, tuple) for step in steps):
        ends = [
            Typed(f"CAST({open_end} AS INTEGER)", INTEGER) if one is None else binder.bind(one, scope)
            for step in steps
            for one, open_end in slice_ends(step)
        ]
        found = library.call(binder, "slice", [array, *ends])
    else:
        found = library.call(binder, "subscript", [array, *binder.bind_all(steps, scope)])
    if found is None:
        raise SqlError("42804", "array subscript must have type integer")
    return found


_OPERATORS: dict[str, type[exp.Expression]] = {
    "=": exp.EQ, "<>": exp.NEQ, "<": exp.LT, "<=": exp.LTE, ">": exp.GT, ">=": exp.GTE, "||": exp.DPipe,
    "+": exp.Add, "-": exp.Sub, "*": exp.Mul, "/": exp.Div, "%": exp.Mod,
}  # fmt: skip


def _operator(binder: Binder, node: Any, scope: Scope) -> Typed:
    """``a OPERATOR(pg_catalog.=) b``."""
    symbol = str(node.args["operator"]).removeprefix("pg_catalog.").strip()
    kind = _OPERATORS.get(symbol)
    if kind is None:
        raise SqlError("42883", f"operator does not exist: {symbol}")
    return binder.bind(kind(this=node.this, expression=node.expression), scope)


HANDLERS[exp.Operator] = _operator
HANDLERS[exp.Bracket] = _bracket
for _kind in (*syntax.NAMES, exp.SHA2Digest, exp.SHA2, exp.MakeInterval):
    HANDLERS.setdefault(_kind, _named)
