"""Functions of intervals, dates and times: age, justify_*, make_*, date_bin, extract and date_part.

date_part gives a field of a moment as double precision, its unit any text; infinite where extract cannot be.
"""

from __future__ import annotations

import math
import zoneinfo
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from herdpy.codec.kinds import (
    DATE_INFINITY,
    DATE_NEGATIVE_INFINITY,
    TIMESTAMP_INFINITY,
    TIMESTAMP_NEGATIVE_INFINITY,
    Datum,
    Interval,
)
from herdpy_sql import types as t
from herdpy_sql.clock import Clock
from herdpy_sql.duck import Typed, constant_text, let, once, retyped, typed
from herdpy_sql.errors import SqlError
from herdpy_sql.expr import zones
from herdpy_sql.expr.extracts import (
    MONOTONOUS,
    OFFSETS,
    extractor,
    has_field,
    is_field,
    is_within_day,
    truncate,
    truncate_zoned,
    unit_of,
)
from herdpy_sql.library.routine import add, routine
from herdpy_sql.types import Base, array_of
from herdpy_sql.values import intervals
from herdpy_sql.values.civil import DAY_US, civil_from_days, days_from_civil, days_in_month
from herdpy_sql.values.form import quote
from herdpy_sql.values.moment_fields import TextFault, Wrong
from herdpy_sql.values.moment_input import offset_of
from herdpy_sql.values.moments import check_date, check_timestamp
from herdpy_sql.values.styles import in_zone
from herdpy_sql.values.time_zones import abbreviated, zone_meant

_HOUR = 3_600_000_000
_INFINITE = frozenset({TIMESTAMP_INFINITY, TIMESTAMP_NEGATIVE_INFINITY})

for _name, _function in (
    ("justify_hours", intervals.justify_hours),
    ("justify_days", intervals.justify_days),
    ("justify_interval", intervals.justify_interval),
):
    add(_name, (t.INTERVAL,), t.INTERVAL, _function)
add("*", (t.INTERVAL, t.DOUBLE), t.INTERVAL, intervals.multiply)
add("*", (t.DOUBLE, t.INTERVAL), t.INTERVAL, lambda factor, value: intervals.multiply(value, factor))
add("/", (t.INTERVAL, t.DOUBLE), t.INTERVAL, intervals.divide)
for _type in (t.TIMESTAMP, t.TIMESTAMPTZ):
    add("isfinite", (_type,), t.BOOLEAN, lambda us: us not in _INFINITE)
add("isfinite", (t.DATE,), t.BOOLEAN, lambda days: abs(days) < 2**31 - 1)
add("isfinite", (t.INTERVAL,), t.BOOLEAN, lambda value: True)


def _age(left: int, right: int) -> Interval:
    """timestamp_age: years, months, days and time from ``right`` to ``left``, as a calendar has them."""
    if {left, right} & _INFINITE:
        raise SqlError("22008", "interval out of range")
    sign = 1 if left >= right else -1
    late, early = (left, right) if sign > 0 else (right, left)
    (days_a, us_a), (days_b, us_b) = divmod(late, DAY_US), divmod(early, DAY_US)
    one, other = civil_from_days(days_a), civil_from_days(days_b)
    months = (one[0] - other[0]) * 12 + one[1] - other[1]
    days, us = one[2] - other[2], us_a - us_b
    if us < 0:
        us, days = us + DAY_US, days - 1
    if days < 0:
        days, months = days + days_in_month(other[0], other[1]), months - 1  # as long as the earlier's month
    return intervals.checked(sign * months, sign * days, sign * us)


add("age", (t.TIMESTAMP, t.TIMESTAMP), t.INTERVAL, _age)
add(
    "age",
    (t.TIMESTAMPTZ, t.TIMESTAMPTZ),
    t.INTERVAL,
    lambda clock, a, b: _age(zones.to_local(a, clock.zone), zones.to_local(b, clock.zone)),
    clocked=True,
)


def _period(one: int | None, other: int | None) -> tuple[int | None, int | None]:
    """Start and end of a period, whose ends may be in any order; the start is known unless neither is."""
    swap = one is None or (other is not None and one > other)
    return (other, one) if swap else (one, other)


def _overlap(a: int | None, b: int | None, c: int | None, d: int | None) -> bool | None:
    """OVERLAPS of two periods (PostgreSQL's overlaps_timestamp): a period has its start, and not its end."""
    (start, end), (other_start, other_end) = _period(a, b), _period(c, d)
    if start is None or other_start is None:
        return None
    if start == other_start:
        return None if end is None or other_end is None else True
    until, last = (other_end, end) if start > other_start else (end, other_end)
    first = max(start, other_start)
    if until is None:
        return None
    if first < until:
        return True
    return None if last is None else False


def _duck_period(one: str, other: str) -> tuple[str, str]:
    """Start and end as :func:`_period` has them."""
    swap = f"CASE WHEN {one} IS NULL OR {one} > {other}"
    return f"({swap} THEN {other} ELSE {one} END)", f"({swap} THEN {one} ELSE {other} END)"


def _duck_overlap(*ends: Typed) -> Typed:
    s1, t1 = _duck_period("v.a", "v.b")
    s2, t2 = _duck_period("v.c", "v.d")
    found = (
        f"(({s1} > {s2} AND NOT ({s1} >= {t2} AND {t1} >= {t2}))"
        f" OR ({s2} > {s1} AND NOT ({s2} >= {t1} AND {t2} >= {t1}))"
        f" OR ({s1} = {s2} AND ({t1} <> {t2} OR {t1} = {t2})))"
    )
    values = {name: end.sql for name, end in zip("abcd", ends, strict=True)}
    return typed(let(values, found), t.BOOLEAN, *ends)


for _type in (t.DATE, t.TIME, t.TIMESTAMP, t.TIMESTAMPTZ):
    add("overlaps", (_type,) * 4, t.BOOLEAN, _overlap, strict=False, duck=_duck_overlap)


@routine("date_bin", (t.INTERVAL, t.TIMESTAMP, t.TIMESTAMP), t.TIMESTAMP)
def _bin(stride: Interval, moment: int, origin: int) -> int:
    if moment in _INFINITE:
        return moment
    if origin in _INFINITE:
        raise SqlError("22008", "origin out of range")
    if stride[0]:
        raise SqlError("0A000", "timestamps cannot be binned into intervals containing months or years")
    step = stride[1] * DAY_US + stride[2]
    if step <= 0:
        raise SqlError("22008", "stride must be greater than zero")
    return check_timestamp(origin + (moment - origin) // step * step)


add("date_bin", (t.INTERVAL, t.TIMESTAMPTZ, t.TIMESTAMPTZ), t.TIMESTAMPTZ, _bin)


@routine("make_interval", (), t.INTERVAL)
def _make_interval(
    years: int = 0,
    months: int = 0,
    weeks: int = 0,
    days: int = 0,
    hours: int = 0,
    mins: int = 0,
    secs: float = 0.0,
) -> Interval:
    if not math.isfinite(secs):
        raise SqlError("22008", "interval out of range")
    us = hours * _HOUR + mins * 60_000_000 + round(secs * 1e6)
    return intervals.checked(years * 12 + months, weeks * 7 + days, us)


for _count in range(1, 8):
    _kinds = (t.INTEGER,) * 6 + (t.DOUBLE,)
    add("make_interval", _kinds[:_count], t.INTERVAL, _make_interval)


@routine("make_time", (t.INTEGER, t.INTEGER, t.DOUBLE), t.TIME)
def _make_time(hour: int, minute: int, second: float) -> int:
    us = (hour * 60 + minute) * 60_000_000 + round(second * 1e6)
    if hour < 0 or not 0 <= minute < 60 or not 0 <= second < 61 or not 0 <= us <= DAY_US:
        raise SqlError("22008", f"time field value out of range: {hour}:{minute:02d}:{second:g}")
    return us


@routine("make_timestamp", (t.INTEGER,) * 5 + (t.DOUBLE,), t.TIMESTAMP)
def _make_timestamp(year: int, month: int, day: int, hour: int, minute: int, second: float) -> int:
    shown = year + 1 if year < 0 else year
    if year == 0 or not 1 <= month <= 12 or not 1 <= day <= days_in_month(shown, month):
        raise SqlError("22008", f"date field value out of range: {year}-{month:02d}-{day:02d}")
    return check_timestamp(days_from_civil(shown, month, day) * DAY_US + _make_time(hour, minute, second))


@routine("make_timestamptz", (t.INTEGER,) * 5 + (t.DOUBLE,), t.TIMESTAMPTZ, clocked=True)
def _make_timestamptz(clock: Clock, *parts: Any) -> int:
    return zones.to_utc(_make_timestamp(*parts), clock.zone)


@routine("make_timestamptz", (t.INTEGER,) * 5 + (t.DOUBLE, t.TEXT), t.TIMESTAMPTZ)
def _make_timestamptz_at(*parts: Any) -> int:
    local, zone = _make_timestamp(*parts[:-1]), parts[-1]
    if zone[:1].isdigit():
        raise SqlError("22023", f'invalid input syntax for type numeric time zone: "{zone}"')
    if zone[:1] not in {"+", "-"}:
        return zones.to_utc_as_named(local, zone)
    try:
        return check_timestamp(local - offset_of(zone) * 1_000_000)
    except Wrong as wrong:
        if wrong.fault is TextFault.ZONE:
            raise SqlError("22023", f'numeric time zone "{zone}" out of range') from None
        raise SqlError("22023", f'time zone "{zone}" not recognized') from None


@routine("to_timestamp", (t.DOUBLE,), t.TIMESTAMPTZ)
def _of_epoch(seconds: float) -> int:
    if math.isnan(seconds):
        raise SqlError("22008", "timestamp cannot be NaN")
    if math.isinf(seconds):
        return TIMESTAMP_INFINITY if seconds > 0 else TIMESTAMP_NEGATIVE_INFINITY
    return check_timestamp(round(seconds * 1e6))


# ---------------------------------------------------------------------------- fields of intervals


def _truncated(value: int, by: int) -> int:
    return abs(value) // by * (1 if value >= 0 else -1)


@routine("extract", (t.TEXT, t.INTERVAL), t.NUMERIC)
def extract_of_interval(unit: str, value: Interval) -> Decimal:
    """A field of an interval. SqlError 22023."""
    unit = unit_of(unit)
    months, days, us = value
    years, rest = _truncated(months, 12), months - _truncated(months, 12) * 12
    seconds = us - _truncated(us, 60_000_000) * 60_000_000
    whole = {
        "year": years,
        "month": rest,
        "quarter": _truncated(rest, 3) + 1,
        "day": days,
        "hour": _truncated(us, _HOUR),
        "minute": _truncated(us - _truncated(us, _HOUR) * _HOUR, 60_000_000),
        "decade": _truncated(years, 10),
        "century": _truncated(years, 100),
        "millennium": _truncated(years, 1000),
        "microseconds": seconds,
    }
    if unit in whole:
        return Decimal(whole[unit])
    if unit == "second":
        return Decimal(seconds).scaleb(-6)
    if unit == "milliseconds":
        return Decimal(seconds).scaleb(-3)
    if unit == "epoch":  # a year is 365.25 days here, and a month 30
        total = years * 31_557_600_000_000 + (rest * 30 + days) * DAY_US + us
        return Decimal(total).scaleb(-6)
    if is_field(unit):
        raise SqlError("0A000", f'unit "{unit}" not supported for type interval')
    raise SqlError("22023", f'unit "{unit}" not recognized for type interval')


_BY_MACRO = ("decade", "century", "millennium")
_TRUNCATED = (
    *("microseconds", "milliseconds", "second", "minute", "hour"),
    *("day", "week", "month", "quarter", "year", *_BY_MACRO),
)


def _duck_trunc(unit: Typed, x: Typed) -> Typed | None:
    """date_trunc() to a unit that is known, of a moment; of one with a zone by the session's clock."""
    name = (constant_text(unit) or "").lower()
    if name not in _TRUNCATED:
        return None
    if name in ("hour", "minute") and x.base is Base.TIMESTAMPTZ:
        sql = f"pg_within_day({quote(name)}, {x.sql})"
    elif name not in _BY_MACRO:
        sql = f"date_trunc({quote(name)}, {x.sql})"
    elif x.base is Base.TIMESTAMP:
        sql = f"pg_{name}({x.sql})"
    else:
        sql = f"CAST(pg_{name}(CAST({x.sql} AS TIMESTAMP)) AS TIMESTAMPTZ)"
    return typed(sql, x.type, x)


def _duck_trunc_in_zone(unit: Typed, x: Typed, zone: Typed) -> Typed | None:
    """By the clock of that zone; within a day its offset stays."""
    name = (constant_text(unit) or "").lower()
    local = Typed("v.local", t.TIMESTAMP)
    whole = _duck_trunc(unit, local)
    if whole is None or not _is_of_duck(zone):
        return None
    sql = f"v.x - (v.local - {whole.sql})" if is_within_day(name) else f"timezone(v.zone, {whole.sql})"
    inner = let({"x": "v.x", "zone": "v.zone", "local": "timezone(v.zone, v.x)"}, sql)
    return typed(let({"x": x.sql, "zone": zone.sql}, inner), t.TIMESTAMPTZ, x, zone)


def _trunc_in_zone(unit: str, us: int, zone: str) -> int:
    return truncate_zoned(Clock(0, 0, in_zone(zone_meant(zone))), unit, us)


add("date_trunc", (t.TEXT, t.TIMESTAMP), t.TIMESTAMP, truncate, duck=_duck_trunc)
add("date_trunc", (t.TEXT, t.TIMESTAMPTZ), t.TIMESTAMPTZ, truncate_zoned, clocked=True, duck=_duck_trunc)
add("date_trunc", (t.TEXT, t.TIMESTAMPTZ, t.TEXT), t.TIMESTAMPTZ, _trunc_in_zone, duck=_duck_trunc_in_zone)


def _from_zone(zone: str, us: int) -> int:
    return zones.to_utc_as_named(us, zone)


def _to_zone(zone: str, us: int) -> int:
    return zones.to_local_as_named(us, zone)


def _is_of_duck(zone: Typed) -> bool:
    """Whether a zone is one that DuckDB knows, and by the same name."""
    name = constant_text(zone)
    return name is not None and not abbreviated(name.lower()) and name in zoneinfo.available_timezones()


def _duck_in_zone(zone: Typed, x: Typed) -> Typed | None:
    if not _is_of_duck(zone):
        return None
    result = t.TIMESTAMPTZ if x.base is Base.TIMESTAMP else t.TIMESTAMP
    return typed(f"timezone({zone.sql}, {x.sql})", result, x, zone)


add("timezone", (t.TEXT, t.TIMESTAMP), t.TIMESTAMPTZ, _from_zone, duck=_duck_in_zone)
add("timezone", (t.TEXT, t.TIMESTAMPTZ), t.TIMESTAMP, _to_zone, duck=_duck_in_zone)
add("timezone", (t.TEXT, t.TIME), t.TIME, _to_zone, refused="type time with time zone is not supported")


@routine("make_date", (t.INTEGER,) * 3, t.DATE, duck="make_date(pg_shownyear({0}), {1}, {2})")
def _make_date(year: int, month: int, day: int) -> int:
    shown = year + 1 if year < 0 else year
    if year == 0 or not 1 <= month <= 12 or not 1 <= day <= days_in_month(shown, month):
        raise SqlError("22008", f"date field value out of range: {year}-{month:02d}-{day:02d}")
    return check_date(days_from_civil(shown, month, day))


@routine("date_trunc", (t.TEXT, t.INTERVAL), t.INTERVAL)
def _trunc(unit: str, value: Interval) -> Interval:
    unit = unit_of(unit)
    months, days, us = value
    steps = {"millennium": 12_000, "century": 1_200, "decade": 120, "year": 12, "quarter": 3, "month": 1}
    if unit in steps:
        return Interval(_truncated(months, steps[unit]) * steps[unit])
    if unit == "day":
        return Interval(months, days)
    times = {
        "hour": _HOUR,
        "minute": 60_000_000,
        "second": 1_000_000,
        "milliseconds": 1_000,
        "microseconds": 1,
    }
    if unit in times:
        return Interval(months, days, _truncated(us, times[unit]) * times[unit])
    if unit == "week":
        raise SqlError(
            "0A000",
            'unit "week" not supported for type interval',
            detail="Months usually have fractional weeks.",
        )
    raise SqlError("22023", f'unit "{unit}" not recognized for type interval')


# ---------------------------------------------------------------------------- what aggregates make of a list

_LIST = array_of(Base.INTERVAL)


@routine("interval_sum", (_LIST,), t.INTERVAL)
def _sum(values: Any) -> Interval | None:
    present = [one for one in values if one is not None]
    if not present:
        return None
    return intervals.checked(*(sum(one[at] for one in present) for at in range(3)))


@routine("interval_avg", (_LIST,), t.INTERVAL)
def _avg(values: Any) -> Interval | None:
    total = _sum(values)
    return None if total is None else intervals.divide(total, sum(one is not None for one in values))


_INFINITIES = {TIMESTAMP_INFINITY: math.inf, TIMESTAMP_NEGATIVE_INFINITY: -math.inf}
_DATES = {DATE_INFINITY: TIMESTAMP_INFINITY, DATE_NEGATIVE_INFINITY: TIMESTAMP_NEGATIVE_INFINITY}


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
    if name in OFFSETS:
        raise SqlError("0A000", f'unit "{unit}" not supported for type {base.value}')
    function = extractor(name, base)
    found = function.implementation(Clock(0, 0), us) if function.needs_clock else function.implementation(us)
    assert isinstance(found, Decimal)
    return float(found)


def _of_timestamp(unit: str, us: int, base: Base = Base.TIMESTAMP) -> float | None:
    name = unit_of(unit)
    if us not in _INFINITIES:
        return float(us) / 1e6 if name == "epoch" else _of_local(unit, us, base)
    if name in MONOTONOUS:
        return _INFINITIES[us]
    if name not in OFFSETS:
        _of_local(unit, 0, base)  # what is wrong with the unit is wrong with it here, too
    return None


WHOLE_FIELDS = {
    "year": "pg_year(year({0}))", "month": "month({0})", "day": "day({0})", "hour": "hour({0})",
    "minute": "minute({0})",
    "quarter": "quarter({0})", "week": "weekofyear({0})", "dow": "dayofweek({0})", "isodow": "isodow({0})",
    "doy": "dayofyear({0})", "isoyear": "pg_year(isoyear({0}))",
    "decade": "CAST(floor(year({0}) / 10) AS BIGINT)",
    "century": "century({0})",
    "millennium": "millennium({0})",
}  # fmt: skip
"""The fields of a moment that are whole numbers, in DuckDB."""
_INF = "CAST('inf' AS DOUBLE)"


def _duck_part(unit: Typed, x: Typed) -> Typed | None:
    """Vectorised for the fields that are whole numbers of a moment."""
    field = unit_of(constant_text(unit) or "")
    form = WHOLE_FIELDS.get(field)
    if form is None:
        return None
    if x.base is not Base.TIMESTAMP:  # a date's, too, which is midnight there
        x = retyped(x, f"CAST({x.sql} AS TIMESTAMP)", t.TIMESTAMP)
    era = f"WHEN {{0}} > TIMESTAMP '2000-01-01' THEN {_INF} WHEN {{0}} IS NOT NULL THEN -{_INF}"
    infinite = era if field in MONOTONOUS else ""
    whole = f"CASE WHEN isfinite({{0}}) THEN CAST({form} AS DOUBLE) {infinite} END"
    return once(x, lambda x: typed(whole.format(x.sql), t.DOUBLE, x))


@routine("date_part", (t.TEXT, t.DATE), t.DOUBLE, duck=_duck_part)
def _of_date(unit: str, days: int) -> float | None:
    return _of_timestamp(unit, _DATES[days] if days in _DATES else check_timestamp(days * DAY_US))


@routine("date_part", (t.TEXT, t.TIMESTAMPTZ), t.DOUBLE, clocked=True, duck=_duck_part)
def _of_moment(clock: Clock, unit: str, us: int) -> float | None:
    name = unit_of(unit)
    if us in _INFINITIES or name == "epoch":
        return _of_timestamp(unit, us, Base.TIMESTAMPTZ)
    local = zones.to_local(us, clock.zone)
    if name in OFFSETS:
        return OFFSETS[name]((local - us) // 1_000_000)
    if name in {"second", "milliseconds", "julian"}:
        return _of_local(unit, local, Base.TIMESTAMPTZ)
    return _of_local(unit, local, Base.TIMESTAMP)


@routine("date_part", (t.TEXT, t.TIME), t.DOUBLE)
def _of_time(unit: str, us: int) -> float:
    return us / 1e6 if unit_of(unit) == "epoch" else _of_local(unit, us, Base.TIME)


@routine("date_part", (t.TEXT, t.INTERVAL), t.DOUBLE)
def _of_interval(unit: str, value: Interval) -> float:
    return float(extract_of_interval(unit, value))


add("date_part", (t.TEXT, t.TIMESTAMP), t.DOUBLE, _of_timestamp, duck=_duck_part)


# ---------------------------------------------------------------------------- extract

_NO_INFINITY = "error('SQLSTATE 0A000: NaN and infinity are not supported in type numeric')"
_DUCK_OFFSETS = {"timezone": "{0}", "timezone_hour": "{0} // 3600", "timezone_minute": "{0} // 60 % 60"}
_SCALED = {"second": 6, "milliseconds": 3, "microseconds": 0}
"""Digits after the point of what is counted in microseconds."""


def _duck_extract(unit: Typed, x: Typed) -> Typed | None:
    """Vectorised for a field that is known; seconds and the epoch with six fraction digits."""
    field, base = unit_of(constant_text(unit) or ""), x.base
    if not has_field(base, field) or field == "julian":
        return None
    if field == "epoch":
        return once(x, _duck_epoch)
    if field in _DUCK_OFFSETS:
        seconds = _DUCK_OFFSETS[field].format(f"pg_offset({x.sql})")
        return typed(f"CAST({seconds} AS DECIMAL(10,0))", t.NUMERIC, x, dec=(10, 0))
    if base is Base.TIMESTAMPTZ:  # its fields are those of the session's clock
        x = retyped(x, f"CAST({x.sql} AS TIMESTAMP)", t.TIMESTAMP)
    if field not in _SCALED:
        whole = WHOLE_FIELDS[field]
        return once(
            x, lambda x: _duck_finite(x, f"CAST({whole.format(x.sql)} AS DECIMAL(10,0))", field, (10, 0))
        )
    scale = _SCALED[field]
    sql = f"CAST(CAST(microsecond({x.sql}) AS BIGINT) AS DECIMAL(10,0))"
    if scale:
        small = format(10**-scale, f".{scale}f")
        sql = f"CAST({sql} * CAST('{small}' AS DECIMAL({scale},{scale})) AS DECIMAL({10 + scale},{scale}))"
    return typed(sql, t.NUMERIC, x, dec=(10 + scale, scale))


def _duck_epoch(x: Typed) -> Typed:
    if x.base is Base.DATE:
        return _duck_finite(x, f"CAST(CAST(epoch({x.sql}) AS BIGINT) AS DECIMAL(19,0))", "epoch", (19, 0))
    micros = f"CAST(epoch_us({x.sql}) AS DECIMAL(19,0))"
    sql = f"CAST({micros} * CAST('0.000001' AS DECIMAL(6,6)) AS DECIMAL(26,6))"
    return _duck_finite(x, sql, "epoch", (26, 6))


def _duck_finite(x: Typed, sql: str, field: str, dec: tuple[int, int]) -> Typed:
    """A field; or the error that NUMERIC, which has no infinity here, makes of an infinite one."""
    if field in MONOTONOUS and x.base is not Base.TIME:
        sql = f"CASE WHEN isinf({x.sql}) THEN {_NO_INFINITY} ELSE {sql} END"
    return typed(sql, t.NUMERIC, x, dec=dec)


@routine("extract", (t.TEXT, t.TIMESTAMPTZ), t.NUMERIC, clocked=True, duck=_duck_extract)
def _extract_of_moment(clock: Clock, unit: str, us: int) -> Datum:
    function = extractor(unit, Base.TIMESTAMPTZ)
    return function.implementation(clock, us) if function.needs_clock else function.implementation(us)


def _extract(base: Base) -> Callable[[str, int], Datum]:
    return lambda unit, value: extractor(unit, base).implementation(value)


for _type in (t.TIMESTAMP, t.DATE, t.TIME):
    add("extract", (t.TEXT, _type), t.NUMERIC, _extract(_type.base), duck=_duck_extract)
