"""DATE, TIME, TIMESTAMP and TIMESTAMPTZ: PostgreSQL's text forms (ISO, MDY), binary forms, Python's objects.

Dates are days and timestamps microseconds since 1970-01-01, in the proleptic Gregorian calendar with
PostgreSQL's limits (4713 BC to 5874897 AD; timestamps to the year 294247, not 294276). Civil dates are
computed as in H. Hinnant, "chrono-compatible low-level date algorithms", since datetime ends at year 9999.
Text without a zone read as TIMESTAMPTZ is in UTC, which is also the zone printed. Special words that
depend on the clock ('now', 'today') are refused. Binary forms count from 2000-01-01. Above ``strings``, below
``forms``.
"""

from __future__ import annotations

import datetime as dt
import re
import struct
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from herdpy.codec.kinds import (
    DATE_INFINITY,
    DATE_NEGATIVE_INFINITY,
    TIMESTAMP_INFINITY,
    TIMESTAMP_NEGATIVE_INFINITY,
    is_no_time,
    plain,
)
from herdpy_sql.errors import SqlError
from herdpy_sql.values.form import (
    Array,
    ColumnForms,
    DuckForms,
    TypeForms,
    always,
    fixed_reader,
    lossy,
    mismatch,
)
from herdpy_sql.values.precision import fitted
from herdpy_sql.values.string_columns import (
    cast_to_text,
    is_from,
    is_within,
    lengths_in,
    made_by_arrow,
    np,
    pa,
    pc,
)
from herdpy_sql.values.strings import check_text

DAY_US = 86_400_000_000
DATE_MIN = -2_440_588  # 4714-11-24 BC
DATE_MAX = 2_145_042_905  # 5874897-12-31
TIMESTAMP_MIN = DATE_MIN * DAY_US
DAYS_TO_2000 = 10_957
US_TO_2000 = DAYS_TO_2000 * DAY_US
_EPOCH_ORDINAL = 719_163
_MICROSECOND = dt.timedelta(microseconds=1)
_EPOCH = dt.datetime(1970, 1, 1)
_EPOCH_UTC = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_DATETIME_MIN = -62_135_596_800_000_000
_DATETIME_END = 253_402_300_800_000_000
_timedelta = dt.timedelta

_ISO_DATE = re.compile(r"(\d{4,7})-(\d{1,2})-(\d{1,2})", re.ASCII)
_COMPACT_DATE = re.compile(r"(\d{4})(\d{2})(\d{2})", re.ASCII)
_US_DATE = re.compile(r"(\d{1,2})[/-](\d{1,2})[/-](\d{4,7})", re.ASCII)
_TIME = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d*))?)?", re.ASCII)
_ZONE = re.compile(
    r"\s*(?:(z|utc|gmt|zulu)|([+-])(\d{1,2})(?::?(\d{2}))?(?::(\d{2}))?)", re.ASCII | re.IGNORECASE
)
_CLOCK_WORDS = frozenset({"now", "today", "tomorrow", "yesterday", "allballs"})


def days_from_civil(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 of a date whose astronomical year may be zero or less."""
    if 0 < year < 10_000:
        return dt.date(year, month, day).toordinal() - _EPOCH_ORDINAL
    year -= month <= 2
    era = year // 400
    of_era = year - era * 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def civil_from_days(days: int) -> tuple[int, int, int]:
    """Astronomical year, month and day of a number of days since 1970-01-01."""
    days += 719_468
    era = days // 146_097
    of_era = days - era * 146_097
    year = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month += 3 if month < 10 else -9
    return year + era * 400 + (month <= 2), month, day


TIMESTAMP_END = TIMESTAMP_INFINITY  # where 64 bits from 1970 end; PostgreSQL's, from 2000, end 30 years later


def days_in_month(year: int, month: int) -> int:
    """Of an astronomical year."""
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in {4, 6, 9, 11} else 31


def check_date(days: int) -> int:
    """``days`` itself, or SqlError 22008."""
    if DATE_MIN <= days <= DATE_MAX or days in {DATE_INFINITY, DATE_NEGATIVE_INFINITY}:
        return days
    raise SqlError("22008", "date out of range")


def check_timestamp(us: int) -> int:
    """``us`` itself, or SqlError 22008."""
    if TIMESTAMP_MIN <= us < TIMESTAMP_END or us in {TIMESTAMP_INFINITY, TIMESTAMP_NEGATIVE_INFINITY}:
        return us
    raise SqlError("22008", "timestamp out of range")


def parse_date(text: str) -> int:
    """Read a DATE (a time after it is checked and dropped)."""
    try:  # the commonest form, at the speed of C
        if len(text) == 10 and text[4] == "-" and text.isascii():
            return dt.date.fromisoformat(text).toordinal() - _EPOCH_ORDINAL
    except ValueError:
        pass
    special = _special(text, "date", DATE_INFINITY, DATE_NEGATIVE_INFINITY)
    if special is not None:
        return special
    days = _parse(text, "date")[0]
    if not DATE_MIN <= days <= DATE_MAX:
        raise SqlError("22008", f'date out of range: "{text}"')
    return days


def parse_time(text: str) -> int:
    """Read a TIME."""
    stripped = text.strip()
    match = _TIME.match(stripped)
    if match and (match.end() == len(stripped) or _ZONE.fullmatch(stripped, match.end())):
        return _time_of(match, text)
    if stripped.lower() in _CLOCK_WORDS:
        raise _clock_word(text, "time")
    _, us, _, has_time = _parse(text, "time")
    if not has_time:
        raise _syntax(text, "time")
    return us


def parse_timestamp(text: str) -> int:
    """Read a TIMESTAMP; a zone in the text is ignored, as PostgreSQL does."""
    return _parse_timestamp(text, "timestamp")[0]


def parse_timestamptz(text: str) -> int:
    """Read a TIMESTAMPTZ; without a zone in the text it is in UTC."""
    return parse_zoned(text)[0]


def date_text(days: int) -> str:
    """PostgreSQL's text of a DATE."""
    if -719_162 <= days <= 2_932_896:
        return dt.date.fromordinal(days + _EPOCH_ORDINAL).isoformat()
    if days == DATE_INFINITY:
        return "infinity"
    if days == DATE_NEGATIVE_INFINITY:
        return "-infinity"
    year, month, day = civil_from_days(days)
    return f"{year:04d}-{month:02d}-{day:02d}" if year > 0 else f"{1 - year:04d}-{month:02d}-{day:02d} BC"


def time_text(us: int) -> str:
    """PostgreSQL's text of a TIME."""
    seconds, fraction = divmod(us, 1_000_000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    text = f"{hours:02d}:{minutes:02d}:{seconds:02d}"
    return f"{text}.{fraction:06d}".rstrip("0") if fraction else text


def timestamp_text(us: int, zone: str = "") -> str:
    """PostgreSQL's text of a TIMESTAMP, with ``zone`` after the time (as in ``+00``)."""
    if us == TIMESTAMP_INFINITY:
        return "infinity"
    if us == TIMESTAMP_NEGATIVE_INFINITY:
        return "-infinity"
    days, rest = divmod(us, DAY_US)
    day = date_text(days)
    if day.endswith(" BC"):
        return f"{day[:-3]} {time_text(rest)}{zone} BC"
    return f"{day} {time_text(rest)}{zone}"


def timestamptz_text(us: int) -> str:
    """PostgreSQL's text of a TIMESTAMPTZ in a session whose zone is UTC."""
    return timestamp_text(us, "+00")


def parse_zoned(text: str) -> tuple[int, bool]:
    """Read a TIMESTAMPTZ: microseconds, and whether the text named a zone (if not, they are local)."""
    return _parse_timestamp(text, "timestamp with time zone")


def _parse_timestamp(text: str, name: str) -> tuple[int, bool]:
    special = _special(text, name, TIMESTAMP_INFINITY, TIMESTAMP_NEGATIVE_INFINITY)
    if special is not None:
        return special, True
    days, us, offset, _ = _parse(text, name)
    result = days * DAY_US + us
    if offset is not None and name != "timestamp":
        result -= offset
    if not TIMESTAMP_MIN <= result < TIMESTAMP_END:
        raise SqlError("22008", f'timestamp out of range: "{text}"')
    return result, offset is not None


def _parse(text: str, name: str) -> tuple[int, int, int | None, bool]:
    """Days, microseconds of the day, offset in microseconds if given, and whether a time was."""
    rest = text.strip()
    before_christ = rest[-2:].upper() == "BC"
    if before_christ or rest[-2:].upper() == "AD":
        rest = rest[:-2].rstrip()
    match = _ISO_DATE.match(rest) or _US_DATE.match(rest) or _COMPACT_DATE.match(rest)
    if match is None:
        raise _syntax(text, name)
    if match.re is _US_DATE:
        month, day, year = (int(part) for part in match.groups())
    else:
        year, month, day = (int(part) for part in match.groups())
    rest = rest[match.end() :]
    us = 0
    offset = None
    has_time = False
    if rest:
        time = (
            _TIME.match(rest.lstrip(" "))
            if rest[0] == " "
            else _TIME.match(rest, 1)
            if rest[0] in "tT"
            else None
        )
        if time is not None:
            us = _time_of(time, text)
            has_time = True
            rest = time.string[time.end() :]
        if rest:
            zone = _ZONE.fullmatch(rest)
            if zone is None:
                raise _syntax(text, name)
            offset = _offset_of(zone, text)
    if (
        year == 0
        or not 1 <= month <= 12
        or not 1 <= day <= days_in_month(1 - year if before_christ else year, month)
    ):
        raise SqlError("22008", f'date/time field value out of range: "{text}"')
    days = days_from_civil(1 - year if before_christ else year, month, day)
    return days, us, offset, has_time


def _time_of(match: re.Match[str], text: str) -> int:
    hours, minutes = int(match[1]), int(match[2])
    seconds = int(match[3] or 0)
    us = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000
    if match[4]:
        digits = match[4]
        us += int(digits[:6].ljust(6, "0"))
        # PostgreSQL reads the fraction as a double and rounds it to the nearest, ties to even.
        if len(digits) > 6:
            us = us - int(digits[:6]) + round(float("0." + digits) * 1_000_000)
    if minutes > 59 or seconds > 60 or us > DAY_US:
        raise SqlError("22008", f'date/time field value out of range: "{text}"')
    return us


def _offset_of(match: re.Match[str], text: str) -> int:
    if match[1]:
        return 0
    hours, minutes, seconds = int(match[3]), int(match[4] or 0), int(match[5] or 0)
    if hours > 15 or minutes > 59 or seconds > 59:
        raise SqlError("22009", f'time zone displacement out of range: "{text}"')
    us = (hours * 3600 + minutes * 60 + seconds) * 1_000_000
    return -us if match[2] == "-" else us


def _special(text: str, name: str, infinity: int, negative: int) -> int | None:
    word = text.strip().lower()
    if word in {"infinity", "inf", "+infinity"}:
        return infinity
    if word in {"-infinity", "-inf"}:
        return negative
    if word == "epoch":
        return 0
    if word in _CLOCK_WORDS:
        raise _clock_word(text, name)
    return None


def _clock_word(text: str, name: str) -> SqlError:
    return SqlError(
        "0A000", f'"{text}" is not supported as a value of type {name}', hint="Use now() or CURRENT_DATE."
    )


def _syntax(text: str, name: str) -> SqlError:
    return SqlError("22007", f'invalid input syntax for type {name}: "{text}"')


def _take_date(value: object) -> Any:
    if value is None:
        return None
    if type(value) is dt.date:
        return value.toordinal() - _EPOCH_ORDINAL
    value = plain(value)
    if isinstance(value, str):
        return parse_date(check_text(value))
    if isinstance(value, dt.datetime):
        us = _take_timestamp(value)
        assert isinstance(us, int)
        if us % DAY_US:
            raise lossy(value, "date")
        return us // DAY_US
    if isinstance(value, dt.date):
        return value.toordinal() - _EPOCH_ORDINAL
    raise mismatch(value, "date")


def _take_time(value: object) -> Any:
    if value is None:
        return None
    value = plain(value)
    if isinstance(value, dt.time):
        if value.tzinfo is not None:
            raise mismatch(value, "time without time zone")
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
    if isinstance(value, str):
        return parse_time(check_text(value))
    raise mismatch(value, "time without time zone")


def _take_timestamp(value: object) -> Any:
    """A datetime with a zone becomes its time in UTC, the session's zone."""
    if value is None:
        return None
    value = plain(value)
    if isinstance(value, dt.datetime) and not is_no_time(value):
        return (value - (_EPOCH if value.tzinfo is None else _EPOCH_UTC)) // _MICROSECOND
    if isinstance(value, str):
        return parse_timestamp(check_text(value))
    if type(value) is dt.date:
        return (value.toordinal() - _EPOCH_ORDINAL) * DAY_US
    raise mismatch(value, "timestamp without time zone")


def _take_timestamptz(value: object) -> Any:
    """A datetime without a zone is in UTC, the session's zone."""
    if isinstance(value, str):
        return parse_timestamptz(check_text(plain(value)))
    return _take_timestamp(value)


def _give_date(days: int | None) -> object:
    if days is None:
        return None
    try:
        return dt.date.fromordinal(days + _EPOCH_ORDINAL)
    except (ValueError, OverflowError):
        raise SqlError("22008", f"{date_text(days)} is out of range for Python's date") from None


def _give_time(us: int | None) -> object:
    if us is None:
        return None
    if us >= DAY_US:
        raise SqlError("22008", "24:00:00 is out of range for Python's time")
    seconds, microsecond = divmod(us, 1_000_000)
    minutes, second = divmod(seconds, 60)
    return dt.time(minutes // 60, minutes % 60, second, microsecond)


def _give_timestamp(us: int | None) -> object:
    if us is None:
        return None
    if _DATETIME_MIN <= us < _DATETIME_END:
        return _EPOCH + _timedelta(0, 0, us)
    raise SqlError("22008", f"{timestamp_text(us)} is out of range for Python's datetime")


def _give_timestamptz(us: int | None) -> object:
    if us is None:
        return None
    if _DATETIME_MIN <= us < _DATETIME_END:
        return _EPOCH_UTC + _timedelta(0, 0, us)
    raise SqlError("22008", f"{timestamp_text(us)} is out of range for Python's datetime")


def _unpack_date(days: int) -> int:
    if days in {DATE_INFINITY, DATE_NEGATIVE_INFINITY}:
        return days
    days += DAYS_TO_2000
    if days >= DATE_INFINITY:  # which it would become
        raise SqlError("22008", "date out of range")
    return check_date(days)


def _unpack_time(us: int) -> int:
    if not 0 <= us <= DAY_US:
        raise SqlError("22008", "time out of range")
    return us


def _unpack_timestamp(us: int) -> int:
    if us in {TIMESTAMP_INFINITY, TIMESTAMP_NEGATIVE_INFINITY}:
        return us
    us += US_TO_2000
    if us >= TIMESTAMP_INFINITY:  # which it would become
        raise SqlError("22008", "timestamp out of range")
    return check_timestamp(us)


def _pack_date(days: int) -> bytes:
    if days not in {DATE_INFINITY, DATE_NEGATIVE_INFINITY}:
        days -= DAYS_TO_2000
    return _DAYS.pack(days)


def _pack_timestamp(us: int) -> bytes:
    if us not in {TIMESTAMP_INFINITY, TIMESTAMP_NEGATIVE_INFINITY}:
        us -= US_TO_2000
    return _MICROSECONDS.pack(us)


def timestamp_bytes(us: int) -> bytes:
    """The bytes of a TIMESTAMP's text."""
    if _DATETIME_MIN <= us < _DATETIME_END:
        text = (_EPOCH + _timedelta(0, 0, us)).isoformat(" ")
        return (text if len(text) == 19 else text.rstrip("0")).encode()
    return timestamp_text(us).encode()


def _day_constant(days: int) -> str:
    """Days of years of four digits are written as DuckDB reads them."""
    if _PLAIN_DAYS[0] <= days <= _PLAIN_DAYS[1]:
        return f"DATE '{dt.date.fromordinal(days + _EPOCH_ORDINAL)}'"
    return f"pg_asdate_bare({max(days, DATE_NEGATIVE_INFINITY + 1)})"


def _timestamp_constant(us: int) -> str:
    return f"pg_astimestamp_bare(CAST({max(us, TIMESTAMP_NEGATIVE_INFINITY + 1)} AS BIGINT))"


def _timestamptz_constant(us: int) -> str:
    return f"pg_astimestamptz_bare(CAST({max(us, TIMESTAMP_NEGATIVE_INFINITY + 1)} AS BIGINT))"


# Columns.

_YEAR_1, _YEAR_9999 = -719_162, 2_932_896
_ZONE_OF = attrgetter("tzinfo")


def _trimmed(moments: Array, suffix: str = "") -> Array:
    """Without the zeros of six digits after the point, and with ``suffix``."""
    trimmed = pc.utf8_rtrim(pc.utf8_rtrim(moments, "0"), ".")
    # A time such as 10:20:00.000000 lost no more than its fraction: the point stopped it.
    return pc.binary_join_element_wise(trimmed, suffix, "") if suffix else trimmed


def _write_dates(array: Array, *_more: Any) -> Array | None:
    return cast_to_text(array) if is_within(array.view(pa.int32()), _YEAR_1, _YEAR_9999) else None


def _write_times(array: Array, *_more: Any) -> Array | None:
    return _trimmed(cast_to_text(array)) if is_within(array.view(pa.int64()), 0, DAY_US - 1) else None


def _write_timestamps(array: Array, _type: object, _zone: str, suffix: str = "") -> Array | None:
    us = array.view(pa.int64())
    if not is_within(us, _DATETIME_MIN, _DATETIME_END - 1):
        return None
    return _trimmed(cast_to_text(us.view(pa.timestamp("us"))), suffix)


def _write_timestamptzs(array: Array, sql_type: object, zone: str) -> Array | None:
    return _write_timestamps(array, sql_type, zone, "+00") if zone == "UTC" else None


def _read_dates(strings: Array, target: Any, *_more: Any) -> Array | None:
    values = pc.cast(strings, target)
    return values if is_from(values.view(pa.int32()), _YEAR_1) else None


def _read_times(strings: Array, target: Any, *_more: Any) -> Array | None:
    if not lengths_in(strings, {8, *range(10, 16)}):
        return None
    moments = pc.binary_join_element_wise("1970-01-01", strings, " ")  # Arrow casts no string to a time
    return pc.cast(moments, pa.timestamp("us")).view(pa.int64()).view(target)


def _read_timestamps(strings: Array, target: Any, *_more: Any) -> Array | None:
    if not lengths_in(strings, _TIMESTAMP_LENGTHS):
        return None
    values = pc.cast(strings, target)
    return values if is_from(values.view(pa.int64()), _DATETIME_MIN) else None


def _read_timestamptzs(strings: Array, target: Any, _type: object, zone: str) -> Array | None:
    # PostgreSQL's offsets end at 15:59:59, Arrow's at 23:59.
    named = pc.match_substring_regex(strings, r":[0-9.]+[+-](0[0-9]|1[0-5])(:[0-9]{2})?$")
    if pc.any(named).as_py() is True:
        if pc.all(named).as_py() is False:
            return None
        values = pc.cast(strings, target)
    elif zone == "UTC" and lengths_in(strings, _TIMESTAMP_LENGTHS):
        values = pc.cast(strings, pa.timestamp("us")).view(pa.int64()).view(target)
    else:
        return None
    return values if is_from(values.view(pa.int64()), _DATETIME_MIN) else None


_TIMESTAMP_LENGTHS = {19, *range(21, 27)}


def _pack_dates(days: Any) -> Any:
    return _moved(days, DAYS_TO_2000, DATE_NEGATIVE_INFINITY, DATE_INFINITY).astype(">i4")


def _pack_timestamps(us: Any) -> Any:
    return _moved(us, US_TO_2000, TIMESTAMP_NEGATIVE_INFINITY, TIMESTAMP_INFINITY).astype(">i8")


def _moved(values: Any, by: int, least: int, greatest: int) -> Any:
    """Days or microseconds since 2000 of those since 1970; infinities stay."""
    moved = values - np.asarray(by, values.dtype)
    if len(values) and (values.min() == least or values.max() == greatest):
        return np.where((values == least) | (values == greatest), values, moved)
    return moved


def _unpack_dates(raw: Any) -> Any:
    days = raw.view(">i4")[:, 0]
    return _moved_back(days, DAYS_TO_2000, (DATE_NEGATIVE_INFINITY, DATE_INFINITY), _unpack_date)


def _unpack_times(raw: Any) -> Any:
    return _moved_back(raw.view(">i8")[:, 0], 0, (), _unpack_time)


def _unpack_timestamps(raw: Any) -> Any:
    infinities = (TIMESTAMP_NEGATIVE_INFINITY, TIMESTAMP_INFINITY)
    return _moved_back(raw.view(">i8")[:, 0], US_TO_2000, infinities, _unpack_timestamp)


def _moved_back(values: Any, by: int, infinities: Sequence[int], check: Callable[[int], int]) -> Any:
    """Days or microseconds since 1970 of those since 2000; infinities stay.

    Values of the type are without gaps, so that ``check`` sees the first and the last only.
    """
    infinite = np.isin(values, infinities)
    finite = values[~infinite]
    for end in (finite.min(), finite.max()) if len(finite) else ():
        check(int(end))
    native = values.astype(values.dtype.newbyteorder("="))
    return np.where(infinite, native, native + np.asarray(by, native.dtype))


def _take_without_zone(values: Sequence[object], target: Any) -> Array:
    """Datetimes or times; ValueError where one has a zone."""
    present = [value for value in values if value is not None]
    if any(map(_ZONE_OF, present)):
        raise ValueError("a value has a time zone")
    return made_by_arrow(values, target)


def _give_dates(days: Any) -> list[Any] | None:
    if days.min() < _YEAR_1 or days.max() > _YEAR_9999:
        return None
    given: list[Any] = days.astype("<i8", copy=False).view("<M8[D]").tolist()
    return given


def _give_timestamps(us: Any) -> list[Any] | None:
    if us.min() < _DATETIME_MIN or us.max() >= _DATETIME_END:
        return None
    given: list[Any] = us.view("<M8[us]").tolist()
    return given


def _give_timestamptzs(us: Any) -> list[Any] | None:
    given = _give_timestamps(us)
    return None if given is None else [one.replace(tzinfo=dt.UTC) for one in given]


_PLAIN_DAYS = dt.date(1000, 1, 1).toordinal() - _EPOCH_ORDINAL, dt.date.max.toordinal() - _EPOCH_ORDINAL
_DAYS, _MICROSECONDS = struct.Struct("!i"), struct.Struct("!q")

DATE_FORMS: TypeForms = TypeForms(
    columns=ColumnForms(
        write=_write_dates,
        read=_read_dates,
        pack=_pack_dates,
        unpack=_unpack_dates,
        python=dt.date,
        take=made_by_arrow,
        give=_give_dates,
    ),
    write=always(date_text),
    read=always(parse_date),
    take=always(_take_date),
    give=always(_give_date),
    pack=always(_pack_date),
    unpack=always(fixed_reader(_DAYS, _unpack_date)),
    duck=DuckForms(
        "DATE",
        "pg_date",
        "replace(CAST({} AS VARCHAR), ' (BC)', ' BC')",
        _day_constant,
        parameter="(DATE '1970-01-01' + CAST({} AS INTEGER))",
        held="INTEGER",
        element="DATE '1970-01-01' + e",
        client=lambda days: max(days, DATE_NEGATIVE_INFINITY + 1),  # which is DuckDB's -infinity
    ),
    guessed=(dt.date,),
    unquoted=True,
)
TIME_FORMS: TypeForms = TypeForms(
    columns=ColumnForms(
        write=_write_times,
        read=_read_times,
        unpack=_unpack_times,
        python=dt.time,
        take=_take_without_zone,
    ),
    write=always(time_text),
    read=fitted(parse_time),
    take=fitted(_take_time),
    give=always(_give_time),
    pack=always(_MICROSECONDS.pack),
    unpack=fitted(fixed_reader(_MICROSECONDS, _unpack_time)),
    duck=DuckForms(
        "TIME",
        "pg_time",
        constant=lambda us: f"TIME '{time_text(us)}'",
        parameter="pg_astime(CAST({} AS BIGINT))",
        held="BIGINT",
        element="pg_astime(e)",
    ),
    guessed=(dt.time,),
    fixed=_MICROSECONDS,
    unquoted=True,
)


def _timestamp_forms(
    name: str, write: Any, read: Any, take: Any, give: Any, constant: Any, **more: Any
) -> TypeForms:
    """Of TIMESTAMP and TIMESTAMPTZ, which are microseconds, and whose macros have their names."""
    macro = name.lower()
    return TypeForms(
        write=always(write),
        read=fitted(read),
        take=fitted(take),
        give=always(give),
        pack=always(_pack_timestamp),
        unpack=fitted(fixed_reader(_MICROSECONDS, _unpack_timestamp)),
        duck=DuckForms(
            name,
            f"pg_{macro}",
            f"pg_{macro}text({{}})",
            constant,
            parameter=f"make_{macro}(CAST({{}} AS BIGINT))",
            held="BIGINT",
            element=f"make_{macro}(e)",
            client=lambda us: max(us, TIMESTAMP_NEGATIVE_INFINITY + 1),  # which is DuckDB's -infinity
        ),
        unquoted=True,
        **more,
    )


TIMESTAMP_FORMS: TypeForms = _timestamp_forms(
    "TIMESTAMP",
    timestamp_text,
    parse_timestamp,
    _take_timestamp,
    _give_timestamp,
    _timestamp_constant,
    columns=ColumnForms(
        write=_write_timestamps,
        read=_read_timestamps,
        pack=_pack_timestamps,
        unpack=_unpack_timestamps,
        python=dt.datetime,
        take=_take_without_zone,
        give=_give_timestamps,
    ),
    text_bytes=timestamp_bytes,
)
TIMESTAMPTZ_FORMS: TypeForms = _timestamp_forms(
    "TIMESTAMPTZ",
    timestamptz_text,
    parse_timestamptz,
    _take_timestamptz,
    _give_timestamptz,
    _timestamptz_constant,
    columns=ColumnForms(
        write=_write_timestamptzs,
        read=_read_timestamptzs,
        pack=_pack_timestamps,
        unpack=_unpack_timestamps,
        python=dt.datetime,
        take=made_by_arrow,
        give=_give_timestamptzs,
    ),
)
