"""From ``column op value`` to what a key or index can be asked: a datum of the column's own type.

A comparison may be with a value that the column's type cannot hold (an INTEGER with 5.5 or 10^20, a
NUMERIC(10,2) with 0.125). :func:`seek` gives an equivalent question with a datum it can hold.
"""

from __future__ import annotations

import math
from decimal import ROUND_FLOOR, Decimal
from typing import Any

from herdpy_sql.errors import SqlError
from herdpy_sql.types import Base, SqlType
from herdpy_sql.values.floats import round32
from herdpy_sql.values.integers import INTEGER_RANGES
from herdpy_sql.values.numeric import EXACT, quantum, rescale

NEVER = ("never", None)
"""No row can satisfy the comparison."""
ALWAYS = ("always", None)
"""Every row whose column is not NULL satisfies the comparison."""


def seek(column: SqlType, op: str, value: Any) -> tuple[str, Any]:
    """The comparison with a datum of ``column``'s type.

    Args:
        op: one of = < <= > >= (and <>, which is never turned into a range).
        value: the datum of the other side, whose type compares with the column's without a conversion.

    Returns:
        ``(op, datum)`` that holds for the same values of the column, or NEVER, or ALWAYS.
    """
    if value is None:
        return NEVER
    base = column.base
    if base in INTEGER_RANGES:
        return _seek_integer(*INTEGER_RANGES[base], op, value)
    if base is Base.NUMERIC:
        return _seek_numeric(column, op, value)
    if base is Base.REAL:
        return _seek_real(op, value)
    return op, value


def _seek_integer(low: int, high: int, op: str, value: Any) -> tuple[str, Any]:
    if isinstance(value, Decimal):
        if value.adjusted() > 20:
            return _beyond(op, above=value > 0)
        floor = value.quantize(Decimal(1), rounding=ROUND_FLOOR, context=EXACT)
        if floor != value:
            return _seek_integer(low, high, *_between(op, int(floor)))
        value = int(floor)
    if op in {"never", "always"}:
        return op, None
    if value > high or value < low:
        return _beyond(op, above=value > high)
    return op, value


def _seek_numeric(column: SqlType, op: str, value: Any) -> tuple[str, Any]:
    if isinstance(value, int):
        value = Decimal(value)
    if column.precision is None:
        return op, value
    scale = column.scale or 0
    limit = Decimal(1).scaleb(column.precision - scale)
    if abs(value) >= limit:
        return _beyond(op, above=value > 0)
    floor = value.quantize(quantum(scale), rounding=ROUND_FLOOR, context=EXACT)
    if floor != value:
        op, value = _between(op, floor)
        if op in {"never", "always"}:
            return op, None
        if abs(value) >= limit:  # the floor of a value just above the least
            return _beyond(op, above=value > 0)
        return op, value if value else value.copy_abs()
    return op, rescale(value, scale)


def _seek_real(op: str, value: float) -> tuple[str, Any]:
    try:
        rounded = round32(value)
    except SqlError:  # beyond what 32 bits hold, or nearer to zero
        rounded = math.copysign(0.0 if abs(value) < 1 else math.inf, value)
    if rounded == value or value != value:  # noqa: PLR0124 - NaN
        return op, value
    if op in {"=", "<>"}:
        return NEVER if op == "=" else ALWAYS
    return ("<=" if op in {"<", "<="} else ">=", rounded) if _kept(op, rounded, value) else (op[0], rounded)


def _kept(op: str, rounded: float, value: float) -> bool:
    """Whether the nearest 32-bit float satisfies the comparison itself."""
    return rounded < value if op[0] == "<" else rounded > value


def _between(op: str, floor: Any) -> tuple[str, Any]:
    """A comparison with a value strictly between ``floor`` and the next one the type can hold."""
    if op == "=":
        return NEVER
    if op == "<>":
        return ALWAYS
    return ("<=" if op[0] == "<" else ">"), floor


def _beyond(op: str, *, above: bool) -> tuple[str, Any]:
    """A comparison with a value above (or below) everything the type can hold."""
    if op == "=":
        return NEVER
    return ALWAYS if op == "<>" or (op[0] == "<") == above else NEVER
