"""How many rows a way to a table is likely to read: for choosing between ways, and between engines.

Above ``statistics``, below ``access`` and ``steps``. Conditions are taken to be independent of each other.
Without statistics there is no estimate, and what a way *can* read decides (``access.Reach``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdpy_sql.expr.nodes import Const
from herdpy_sql.plan.statistics import UNKNOWN_RANGE, ColumnStatistics, TableStatistics, position_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from herdpy_sql.catalog import Table
    from herdpy_sql.expr.nodes import Expr
    from herdpy_sql.plan.sargs import Sarg

OWN_ROWS = 400
"""An own plan that reads fewer rows is done before the columnar engine has begun."""
SETTLED_ROWS = 10_000
"""A table that had as many when it was analyzed has not become another one since; a small one may have."""
COLUMNAR_ROWS = 4000
"""One that reads more is slower than the columnar engine; in between, what a way can read decides."""
INDEX_COST = 1.6
"""What a row costs that is looked up from an index entry, in rows read along the key."""


def share(table: Table, statistics: TableStatistics, sargs: Iterable[Sarg]) -> float:
    """The share of the rows that satisfy all of ``sargs``."""
    by_column: dict[int, list[Sarg]] = {}
    for sarg in sargs:
        by_column.setdefault(sarg.position, []).append(sarg)
    found = 1.0
    for position, here in by_column.items():
        column = statistics.columns.get(position)
        if column is not None:
            found *= _share(table, position, column, here)
    return found


def _share(table: Table, position: int, column: ColumnStatistics, sargs: list[Sarg]) -> float:
    low, high = 0.0, 1.0 - column.nulls
    known_ends = 0
    unknown_ends = 0
    for sarg in sargs:
        values = [_known(table, position, value) for value in sarg.values]
        if sarg.op == "=":
            return column.equal(values[0])
        if sarg.op == "in":
            return min(sum(column.equal(value) for value in values), 1.0)
        if values[0] is None:
            unknown_ends += 1
            continue
        known_ends += 1
        at = column.below(values[0])
        if sarg.op in {">", ">="}:
            low = max(low, at)
        else:
            high = min(high, at + (column.equal(values[0]) if sarg.op == "<=" else 0.0))
    if unknown_ends and not known_ends:
        # Who gives both ends means a short range.
        return UNKNOWN_RANGE if unknown_ends == 1 else UNKNOWN_RANGE**5
    return max(high - low, column.equal(None)) * UNKNOWN_RANGE**unknown_ends


def _known(table: Table, position: int, value: Expr) -> bytes | None:
    """A constant as statistics hold it; None of what is known at run time only, or of another type."""
    return position_bytes(table.fields[position], value.value) if isinstance(value, Const) else None
