"""``(start, end) OVERLAPS (start, end)``: two periods of time that share a moment.

The end may be an interval after the start. The condition is that of the SQL standard, which says what
NULLs do: periods are put in order first, and an end that is not known leaves what the starts decide.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlglot import exp

from herdpy_sql.columnar.binder import Binder, handles
from herdpy_sql.columnar.common import unify
from herdpy_sql.columnar.operators import is_row
from herdpy_sql.columnar.scope import Scope
from herdpy_sql.columnar.typed import TIMES, Typed, typed
from herdpy_sql.errors import SqlError
from herdpy_sql.types import BOOLEAN, Base


@handles(exp.Overlaps)
def _overlaps(binder: Binder, node: Any, scope: Scope) -> Typed:
    ends = []
    for side, word in ((node.this, "left"), (node.expression, "right")):
        if not is_row(side) or len(side.expressions) != 2:
            raise SqlError("42601", f"wrong number of parameters on {word} side of OVERLAPS expression")
        ends += _period(binder, side, scope)
    a, b, c, d = (x.sql for x in unify(binder, ends, "OVERLAPS"))
    return replace(typed(_condition(a, b, c, d), BOOLEAN, *ends), name="overlaps")


def _period(binder: Binder, side: Any, scope: Scope) -> list[Typed]:
    """Start and end of one side."""
    start, end = side.expressions
    last = binder.bind(end, scope)
    if last.base is Base.INTERVAL:
        last = binder.bind(exp.Add(this=start.copy(), expression=end.copy()), scope)
    first = binder.bind(start, scope)
    if {first.base, last.base} - {*TIMES, Base.UNKNOWN}:
        raise SqlError("42883", "function pg_catalog.overlaps of these types does not exist")
    return [first, last]


def _condition(a: str, b: str, c: str, d: str) -> str:
    s1, t1 = _ordered(a, b)
    s2, t2 = _ordered(c, d)
    return (
        f"(({s1} > {s2} AND NOT ({s1} >= {t2} AND {t1} >= {t2}))"
        f" OR ({s2} > {s1} AND NOT ({s2} >= {t1} AND {t2} >= {t1}))"
        f" OR ({s1} = {s2} AND ({t1} <> {t2} OR {t1} = {t2})))"
    )


def _ordered(a: str, b: str) -> tuple[str, str]:
    """A period's start, which is known unless both ends are not, and its end."""
    swap = f"({a} IS NULL OR {a} > {b})"
    return f"(CASE WHEN {swap} THEN {b} ELSE {a} END)", f"(CASE WHEN {swap} THEN {a} ELSE {b} END)"
