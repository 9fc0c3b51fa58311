"""Function calls of the columnar engine: from a syntax tree to PostgreSQL's name and arguments.

sqlglot parses many functions into classes of its own; ``syntax.FUNCTION_CLASSES`` brings those back to a
name and arguments in PostgreSQL's order. What a name means is the library's to say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from herdpy_sql.columnar import aggregates, library, rows
from herdpy_sql.columnar.binder import STATEMENT_US, TRANSACTION_US, Binder, handles
from herdpy_sql.columnar.routines import types_of
from herdpy_sql.duck import Typed
from herdpy_sql.expr.resolve import no_function
from herdpy_sql.expr.syntax import FUNCTION_CLASSES, filled, is_row, named_call
from herdpy_sql.library.catalog_functions import ACTIONS
from herdpy_sql.types import DOUBLE, TIMESTAMPTZ, UUID

if TYPE_CHECKING:
    from herdpy_sql.columnar.scope import Scope

_NOW, _STATEMENT = (
    Typed(f"make_timestamptz(CAST(${mark} AS BIGINT))", TIMESTAMPTZ)
    for mark in (TRANSACTION_US, STATEMENT_US)
)
CLOCKS_AND_DICE = {
    "now": _NOW,
    "transaction_timestamp": _NOW,
    "statement_timestamp": _STATEMENT,
    "clock_timestamp": _STATEMENT,
    "random": Typed("random()", DOUBLE, volatile=True),
    "gen_random_uuid": Typed("gen_random_uuid()", UUID, volatile=True),
}
"""What is no function of its arguments. The clock is not read here: its moments come as parameters."""


def call(binder: Binder, name: str, arguments: list[Typed], scope: Scope | None = None) -> Typed:
    """The function's meaning; SqlError 42883."""
    if not arguments and name in CLOCKS_AND_DICE:
        return CLOCKS_AND_DICE[name]
    found = library.call(binder, name, arguments, scope)
    if found is None:
        raise no_function(name, types_of(*arguments)[name in ACTIONS :])  # after the number put before
    return found


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
