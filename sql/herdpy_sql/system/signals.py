"""Outputs that cancel what other sessions run, or end them: pg_cancel_backend, pg_terminate_backend.

Before the rewriting of a query over the catalog. Where the call is an output of the query, its argument takes
its place, and the sessions that the rows name are signalled when the rows are there (``SystemQuery.ended``):
none of a row that WHERE or LIMIT left out. Elsewhere in the query it is an action (``calls.ACTIONS``).
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from herdpy_sql.system.rewriter import function_name

_TERMINATES = {"pg_cancel_backend": False, "pg_terminate_backend": True}


@dataclass(frozen=True, slots=True)
class Signal:
    """A column of session numbers that are to be signalled."""

    column: int
    terminates: bool


def take_signals(tree: exp.Expression) -> tuple[Signal, ...]:
    """Put the arguments of a query's signalling outputs in their places; which ones they are.

    Left alone are queries in which a row is not its output's: set operations, DISTINCT, groups and columns
    after a star.
    """
    if not isinstance(tree, exp.Select) or tree.args.get("distinct") or tree.args.get("group"):
        return ()
    found = []
    for place, output in enumerate(tree.expressions):
        called = output.this if isinstance(output, exp.Alias) else output
        if called.is_star:
            break
        name = function_name(called)
        if name in _TERMINATES and len(called.expressions) == 1:
            found.append(Signal(place, _TERMINATES[name]))
            called.replace(exp.cast(called.expressions[0].copy(), "INTEGER"))
    return tuple(found)
