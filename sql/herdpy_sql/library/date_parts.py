"""date_part: a field of a moment as double precision, its unit any text; infinite where extract cannot be."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal

from herdpy.codec.kinds import (
    DATE_INFINITY,
    DATE_NEGATIVE_INFINITY,
    TIMESTAMP_INFINITY,
    TIMESTAMP_NEGATIVE_INFINITY,
    Datum,
    Interval,
)
from herdpy_sql import types as t
from herdpy_sql.errors import SqlError
from herdpy_sql.expr import zones
from herdpy_sql.expr.extracts import MONOTONOUS, extractor, unit_of
from herdpy_sql.expr.nodes import NotOwn
from herdpy_sql.library.routine import add, routine
from herdpy_sql.library.times import extract_of_interval
from herdpy_sql.storage import Clock
from herdpy_sql.types import Base
from herdpy_sql.values.moments import DAY_US, check_timestamp

_OFFSETS: dict[str, Callable[[int], float]] = {
    "timezone": float,
    "timezone_hour": lambda seconds: float(int(seconds / 3600)),
    "timezone_minute": lambda seconds: math.fmod(int(seconds / 60), 60),
}
_INFINITE = {TIMESTAMP_INFINITY: math.inf, TIMESTAMP_NEGATIVE_INFINITY: -math.inf}
_DATES = {DATE_INFINITY: TIMESTAMP_INFINITY, DATE_NEGATIVE_INFINITY: TIMESTAMP_NEGATIVE_INFINITY}


def _unknown(unit: str, base: Base) -> SqlError:
    return SqlError("22023", f'unit "{unit}" not recognized for type {base.value}')


def _of_local(unit: str, us: int, base: Base) -> float:
    """A field of a finite moment, of which ``us`` is what a clock shows."""
    name = unit_of(unit)
    minute_us = us % 60_000_000
    match name:
        case "second":
            return minute_us // 1_000_000 + minute_us % 1_000_000 / 1e6
        case "milliseconds":
            return minute_us // 1_000_000 * 1e3 + minute_us % 1_000_000 / 1e3
        case "julian" if base is not Base.TIME:
            return us // DAY_US + 2_440_588 + us % DAY_US / 1e6 / 86_400.0
    if name in _OFFSETS:
        raise SqlError("0A000", f'unit "{unit}" not supported for type {base.value}')
    try:
        found = extractor(name, base).implementation(us)
    except NotOwn:
        raise _unknown(unit, base) from None
    assert isinstance(found, Decimal)
    return float(found)


def _of_timestamp(unit: str, us: int, base: Base = Base.TIMESTAMP) -> float | None:
    name = unit_of(unit)
    if us not in _INFINITE:
        return float(us) / 1e6 if name == "epoch" else _of_local(unit, us, base)
    if name in MONOTONOUS:
        return _INFINITE[us]
    if name not in _OFFSETS:
        _of_local(unit, 0, base)  # what is wrong with the unit is wrong with it here, too
    return None


@routine("date_part", (t.TEXT, t.DATE), t.DOUBLE)
def _of_date(unit: str, days: int) -> float | None:
    return _of_timestamp(unit, _DATES[days] if days in _DATES else check_timestamp(days * DAY_US))


@routine("date_part", (t.TEXT, t.TIMESTAMPTZ), t.DOUBLE, clocked=True)
def _of_moment(clock: Clock, unit: str, us: int) -> float | None:
    name = unit_of(unit)
    if us in _INFINITE or name == "epoch":
        return _of_timestamp(unit, us, Base.TIMESTAMPTZ)
    local = zones.to_local(us, clock.zone)
    if name in _OFFSETS:
        return _OFFSETS[name]((local - us) // 1_000_000)
    if name in {"second", "milliseconds", "julian"}:
        return _of_local(unit, local, Base.TIMESTAMPTZ)
    return _of_local(unit, local, Base.TIMESTAMP)


@routine("date_part", (t.TEXT, t.TIME), t.DOUBLE)
def _of_time(unit: str, us: int) -> float:
    return us / 1e6 if unit_of(unit) == "epoch" else _of_local(unit, us, Base.TIME)


@routine("date_part", (t.TEXT, t.INTERVAL), t.DOUBLE)
def _of_interval(unit: str, value: Interval) -> float:
    return float(extract_of_interval(unit, value))


add("date_part", (t.TEXT, t.TIMESTAMP), t.DOUBLE, _of_timestamp)


# extract of what the columnar engine has no form for: its unit is one that ``extractor`` has.


@routine("extract", (t.TEXT, t.TIMESTAMPTZ), t.NUMERIC, clocked=True)
def _extract_of_moment(clock: Clock, unit: str, us: int) -> Datum:
    return extractor(unit, Base.TIMESTAMPTZ).implementation(clock, us)


def _extract(base: Base) -> Callable[[str, int], Datum]:
    return lambda unit, value: extractor(unit, base).implementation(value)


add("extract", (t.TEXT, t.TIMESTAMP), t.NUMERIC, _extract(Base.TIMESTAMP))
add("extract", (t.TEXT, t.DATE), t.NUMERIC, _extract(Base.DATE))
