"""Function calls of the columnar engine: from a syntax tree to PostgreSQL's name and arguments.

sqlglot parses many functions into classes of its own; ``syntax.FUNCTION_CLASSES`` brings those back to a
name and arguments in PostgreSQL's order. What a name means is the library's to say; ``FUNCTIONS`` has the
clocks, the dice, and concat().
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from herdpy_sql.columnar import aggregates, library, rows
from herdpy_sql.columnar.binder import Binder, handles
from herdpy_sql.columnar.comparisons import is_row
from herdpy_sql.columnar.routines import types_of
from herdpy_sql.duck import Typed
from herdpy_sql.expr.resolve import no_function
from herdpy_sql.expr.syntax import FUNCTION_CLASSES, filled, named_call

if TYPE_CHECKING:
    from herdpy_sql.columnar.scope import Scope

Function = Callable[[Binder, list[Typed]], Typed]

FUNCTIONS: dict[str, Function] = {}

OF_ARRAYS = frozenset({"concat", "concat_ws"})
"""Functions of this engine that take arrays, too."""


def call(binder: Binder, name: str, arguments: list[Typed], scope: Scope | None = None) -> Typed:
    """The function's meaning; SqlError 42883."""
    function = FUNCTIONS.get(name)
    result = None
    if function is not None and (name in OF_ARRAYS or not any(a.array for a in arguments)):
        with contextlib.suppress(ValueError, IndexError, TypeError):
            result = function(binder, arguments)
    if result is None:
        result = library.call(binder, name, arguments, scope)
    if result is None:
        raise no_function(name, types_of(*arguments))
    return result


@handles(*FUNCTION_CLASSES)
def _known(binder: Binder, node: Any, scope: Scope) -> Typed:
    name, keys = FUNCTION_CLASSES[type(node)]
    arguments = []
    for key in keys:
        value = node.args.get(key)
        if value is None:
            continue
        arguments += binder.bind_all(value if isinstance(value, list) else [value], scope)
    return call(binder, name, arguments)


@handles(exp.Anonymous)
def _anonymous(binder: Binder, node: Any, scope: Scope) -> Typed:
    name = str(node.this).lower()
    if name in aggregates.ANONYMOUS:
        return aggregates.call(binder, name, node.expressions, scope)
    named = named_call(node)
    assert named is not None
    if name in rows.MAKERS:
        arguments = [rows.argument(binder, one, scope) for one in named[1]]
        if name == "row_to_json" and named[1] and (is_row(named[1][0]) or rows.whole(named[1][0], scope)):
            name = "to_json" if len(arguments) == 1 else "row_to_json"
        return call(binder, name, arguments, scope)
    arguments = binder.bind_all(named[1], scope)
    dimensions = filled(*named)
    if dimensions is not None:
        found = library.call(binder, name, arguments, dimensions=dimensions)
        if found is not None:
            return found
    return call(binder, name, arguments, scope)


def register(*names: str) -> Callable[[Function], Function]:
    """Register a function under its names."""

    def add(function: Function) -> Function:
        for name in names:
            FUNCTIONS[name] = function
        return function

    return add
