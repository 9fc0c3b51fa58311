"""extract() and date_trunc() over dates and times.

``extract`` gives NUMERIC (PostgreSQL 14 and later), which has no infinity here; ``date_part``, which gives
double precision and has, is the library's.
"""

from __future__ import annotations

import functools
import math
from decimal import Decimal
from typing import TYPE_CHECKING

from herdpy.codec.kinds import (
    DATE_INFINITY,
    DATE_NEGATIVE_INFINITY,
    TIMESTAMP_INFINITY,
    TIMESTAMP_NEGATIVE_INFINITY,
)
from herdpy_sql.errors import SqlError
from herdpy_sql.expr import numeric, zones
from herdpy_sql.expr.nodes import Function
from herdpy_sql.types import Base
from herdpy_sql.values.civil import DAY_US, civil_from_days, days_from_civil
from herdpy_sql.values.moments import check_timestamp

if TYPE_CHECKING:
    from collections.abc import Callable

    from herdpy_sql.clock import Clock

B = Base
_HOUR = 3_600_000_000
_INFINITE = frozenset(
    {DATE_INFINITY, DATE_NEGATIVE_INFINITY, TIMESTAMP_INFINITY, TIMESTAMP_NEGATIVE_INFINITY}
)


def _shown_year(year: int) -> int:
    return year if year > 0 else year - 1


def _century(year: int) -> int:
    return (year + 99) // 100 if year > 0 else -((99 - (year - 1)) // 100)


def _millennium(year: int) -> int:
    return (year + 999) // 1000 if year > 0 else -((999 - (year - 1)) // 1000)


def _iso_week(days: int) -> tuple[int, int]:
    """ISO year and week: those of the week's Thursday."""
    thursday = days - (days + 3) % 7 + 3
    year = civil_from_days(thursday)[0]
    return year, (thursday - days_from_civil(year, 1, 1)) // 7 + 1


_OF_DAYS: dict[str, Callable[[int], int]] = {
    "year": lambda days: _shown_year(civil_from_days(days)[0]),
    "month": lambda days: civil_from_days(days)[1],
    "day": lambda days: civil_from_days(days)[2],
    "quarter": lambda days: (civil_from_days(days)[1] + 2) // 3,
    "dow": lambda days: (days + 4) % 7,
    "isodow": lambda days: (days + 3) % 7 + 1,
    "doy": lambda days: days - days_from_civil(civil_from_days(days)[0], 1, 1) + 1,
    "week": lambda days: _iso_week(days)[1],
    "isoyear": lambda days: _shown_year(_iso_week(days)[0]),
    "decade": lambda days: civil_from_days(days)[0] // 10,
    "century": lambda days: _century(civil_from_days(days)[0]),
    "millennium": lambda days: _millennium(civil_from_days(days)[0]),
    "julian": lambda days: days + 2_440_588,
}
_OF_TIME: dict[str, Callable[[int], Decimal]] = {
    "hour": lambda us: Decimal(us // _HOUR),
    "minute": lambda us: Decimal(us // 60_000_000 % 60),
    "second": lambda us: Decimal(us % 60_000_000).scaleb(-6),
    "milliseconds": lambda us: Decimal(us % 60_000_000).scaleb(-3),
    "microseconds": lambda us: Decimal(us % 60_000_000),
}
_SPELLINGS = {
    "millennium": "mil mils millennia", "century": "c cent centuries", "decade": "dec decs decades",
    "year": "y yr yrs years", "quarter": "qtr", "month": "mon mons months",
    "week": "w weeks week_iso weekiso", "day": "d days",
    "hour": "h hr hrs hours", "minute": "m min mins minutes", "second": "s sec secs seconds",
    "milliseconds": "millisecond ms msec msecs mseconds", "timezone": "tz",
    "microseconds": "microsecond us usec usecs useconds", "dow": "dayofweek", "doy": "dayofyear",
    "isodow": "dayofweekiso", "epoch": "epoch_second", "timezone_hour": "timezone_h",
    "timezone_minute": "timezone_m", "julian": "j jd",
}  # fmt: skip
_ALIASES = {alias: unit for unit, aliases in _SPELLINGS.items() for alias in aliases.split()}
MONOTONOUS = frozenset({"year", "isoyear", "decade", "century", "millennium", "julian", "epoch"})
"""The fields that are infinite of an infinite moment; the others are NULL of one."""
OFFSETS: dict[str, Callable[[int], float]] = {
    "timezone": float,
    "timezone_hour": lambda seconds: float(int(seconds / 3600)),
    "timezone_minute": lambda seconds: math.fmod(int(seconds / 60), 60) + 0.0,
}
"""The fields of a zone, of its offset in seconds."""
_FIELDS = frozenset({*_OF_DAYS, *_OF_TIME, "epoch"})


def unit_of(name: str) -> str:
    """A field by any of its names; a name that is none as it is."""
    return _ALIASES.get(name.lower(), name.lower())


def is_field(unit: str) -> bool:
    """Whether some moment has that field."""
    return unit in _SPELLINGS or unit in _FIELDS


@functools.lru_cache(maxsize=1024)
def extractor(field: str, base: Base) -> Function:
    """What extracts ``field`` from datums of ``base``. One that the type does not have fails when it runs."""
    field = unit_of(field)
    name = f"extract({field})"
    if not has_field(base, field):
        return Function(name, lambda *_: _refuse(field, base))
    if field == "epoch":
        return Function(name, _epoch(base))
    if field in OFFSETS:
        offset = OFFSETS[field]
        return Function(name, lambda clock, us: _offset(offset, clock, us), needs_clock=True)
    if field in _OF_TIME:
        of_time = _OF_TIME[field]
        if base is B.TIME:
            return Function(name, of_time)
        return _of_timestamp(name, base, lambda us: of_time(us % DAY_US))
    of_days = _OF_DAYS[field]
    if field == "julian" and base is not B.DATE:
        return _of_timestamp(name, base, _julian)
    if base is B.DATE:
        return Function(name, lambda days: _infinite(name) if days in _INFINITE else Decimal(of_days(days)))
    return _of_timestamp(name, base, lambda us: Decimal(of_days(us // DAY_US)))


def has_field(base: Base, field: str) -> bool:
    """Whether moments of that type have the field."""
    if field == "epoch":
        return True
    if field in OFFSETS:
        return base is B.TIMESTAMPTZ
    if field in _OF_TIME:
        return base is not B.DATE
    return field in _OF_DAYS and base is not B.TIME


def _offset(offset: Callable[[int], float], clock: Clock, us: int) -> Decimal | None:
    """Of the session's zone at that moment; NULL of an infinite one, which has none."""
    if us in _INFINITE:
        return None
    return Decimal(int(offset((zones.to_local(us, clock.zone) - us) // 1_000_000)))


def _julian(us: int) -> Decimal:
    days, rest = divmod(us, DAY_US)
    return numeric.add(Decimal(days + 2_440_588), numeric.divide(Decimal(rest), Decimal(DAY_US)))


def _refuse(field: str, base: Base) -> None:
    if is_field(field):
        raise SqlError("0A000", f'unit "{field}" not supported for type {base.value}')
    raise SqlError("22023", f'unit "{field}" not recognized for type {base.value}')


def _of_timestamp(name: str, base: Base, of_local: Callable[[int], Decimal]) -> Function:
    def run(us: int) -> Decimal | None:
        return _infinite(name) if us in _INFINITE else of_local(us)

    if base is B.TIMESTAMPTZ:
        return Function(name, lambda clock, us: run(zones.to_local(us, clock.zone)), needs_clock=True)
    return Function(name, run)


def _infinite(name: str) -> Decimal | None:
    if name[8:-1] in MONOTONOUS:
        raise SqlError("0A000", "NaN and infinity are not supported in type numeric")
    return None


def _epoch(base: Base) -> Callable[[int], Decimal]:
    if base is B.DATE:
        return lambda days: Decimal(_finite(days) * 86_400)
    return lambda us: Decimal(_finite(us)).scaleb(-6)


def _finite(value: int) -> int:
    if value in _INFINITE:
        raise SqlError("0A000", "NaN and infinity are not supported in type numeric")
    return value


_STEPS = {
    "microseconds": 1,
    "milliseconds": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": _HOUR,
}


def truncate(field: str, us: int) -> int:
    """date_trunc of a TIMESTAMP. SqlError 22023 for an unknown field."""
    if us in _INFINITE:
        return us
    field = field.lower()
    if is_within_day(field):
        return us - us % _STEPS[_ALIASES.get(field, field)]
    days = us // DAY_US
    year, month, _ = civil_from_days(days)
    if field == "day":
        start = days
    elif field == "week":
        start = days - (days + 3) % 7
    elif field == "month":
        start = days_from_civil(year, month, 1)
    elif field == "quarter":
        start = days_from_civil(year, (month - 1) // 3 * 3 + 1, 1)
    elif field == "year":
        start = days_from_civil(year, 1, 1)
    elif field == "decade":
        start = days_from_civil(year // 10 * 10, 1, 1)
    elif field == "century":
        start = days_from_civil((year - 1) // 100 * 100 + 1, 1, 1)
    elif field == "millennium":
        start = days_from_civil((year - 1) // 1000 * 1000 + 1, 1, 1)
    else:
        raise SqlError("22023", f'unit "{field}" not recognized for type timestamp without time zone')
    return check_timestamp(start * DAY_US)


def truncate_zoned(clock: Clock, field: str, us: int) -> int:
    """date_trunc of a TIMESTAMPTZ, by the clock of its zone. SqlError 22023 for an unknown field."""
    local = zones.to_local(us, clock.zone)
    start = truncate(field, local)
    # A part of a day keeps the offset: what a clock shows twice would have two meanings.
    return us - (local - start) if is_within_day(field) else zones.to_utc(start, clock.zone)


def is_within_day(field: str) -> bool:
    """Whether date_trunc to that field keeps the day."""
    return _ALIASES.get(field.lower(), field.lower()) in _STEPS
