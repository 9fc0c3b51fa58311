"""DATE, TIME, TIMESTAMP and TIMESTAMPTZ: PostgreSQL's text forms, binary forms, Python's objects.

Dates are days and timestamps microseconds since 1970-01-01, in the proleptic Gregorian calendar with
PostgreSQL's limits (4713 BC to 5874897 AD; timestamps to the year 294247, not 294276). Usual texts are read
here, all others by ``moment_input``; ``moment_output`` makes texts in the session's DateStyle. Binary forms
count from 2000-01-01. Above ``strings``, below ``forms``.
"""

from __future__ import annotations

import datetime as dt
import re
import struct
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, TypeVar

from herdpy.codec.kinds import (
    DATE_INFINITY,
    DATE_NEGATIVE_INFINITY,
    TIMESTAMP_INFINITY,
    TIMESTAMP_NEGATIVE_INFINITY,
    is_no_time,
    plain,
)
from herdpy_sql.errors import SqlError
from herdpy_sql.types import Base
from herdpy_sql.values import moment_input, time_zones
from herdpy_sql.values.civil import DAY_US, civil_from_days, days_from_civil, days_in_month
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
from herdpy_sql.values.moment_fields import Wrong, error_of
from herdpy_sql.values.moment_input import ClockWordError, ReadMoment, Special
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
from herdpy_sql.values.styles import PLAIN, Style

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
_T = TypeVar("_T")

_PLAIN_MOMENT = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2})(?:[ T](\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,6}))?)?"
    r"(?:([+-])(\d{2})(?::?(\d{2}))?)?)?",
    re.ASCII,
)
_PLAIN_TIME = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,6}))?)?", re.ASCII)


TIMESTAMP_END = TIMESTAMP_INFINITY  # where 64 bits from 1970 end; PostgreSQL's, from 2000, end 30 years later


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


def parse_date(text: str, style: Style = PLAIN, now_us: int | None = None) -> int:
    """Read a DATE (a time after it is checked and dropped).

    Args:
        style: of the session. now_us: what "today" is of, a TIMESTAMPTZ; None where that is not known.
    """
    try:  # the commonest form, at the speed of C
        if len(text) == 10 and text[4] == "-" and text.isascii():
            return dt.date.fromisoformat(text).toordinal() - _EPOCH_ORDINAL
    except ValueError:
        pass
    moment = _moment(text, "date", style, now_us)
    if moment.special is not None:
        return _SPECIAL_DATES[moment.special]
    if not DATE_MIN <= moment.days <= DATE_MAX:
        raise SqlError("22008", f'date out of range: "{text}"')
    return moment.days


def parse_time(text: str, style: Style = PLAIN, now_us: int | None = None) -> int:
    """Read a TIME."""
    match = _PLAIN_TIME.fullmatch(text)
    us = None if match is None else _plain_time(*match.groups())
    if us is not None:
        return us
    return _read(moment_input.read_time, text, "time", style, now_us)


def parse_timestamp(text: str, style: Style = PLAIN, now_us: int | None = None) -> int:
    """Read a TIMESTAMP; a zone in the text is ignored, as PostgreSQL does."""
    return _checked(text, _moment(text, "timestamp", style, now_us))


def parse_timestamptz(text: str, style: Style = PLAIN, now_us: int | None = None) -> int:
    """Read a TIMESTAMPTZ; without a zone in the text it is in the session's."""
    moment = _moment(text, "timestamp with time zone", style, now_us)
    if moment.special is not None:
        return _SPECIAL_MOMENTS[moment.special]
    local = moment.days * DAY_US + moment.us
    offset = moment.offset_us
    if offset is None:
        offset = time_zones.offset_at_local(local, style.zone)
    found = local - offset
    if not TIMESTAMP_MIN <= found < TIMESTAMP_END:
        raise SqlError("22008", f'timestamp out of range: "{text}"')
    return found


def is_plain(base: Base, text: str) -> bool:
    """Whether a text of a moment or an INTERVAL is the same value in every session, at every time."""
    if base is Base.INTERVAL:  # a sign before all may be a sign of all
        return "-" not in text.lstrip()[:1]
    if base is Base.TIME:
        return _PLAIN_TIME.fullmatch(text) is not None
    match = _PLAIN_MOMENT.fullmatch(text)
    return match is not None and (base is not Base.TIMESTAMPTZ or match[8] is not None)


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


_SPECIAL_DATES = {
    Special.EPOCH: 0,
    Special.INFINITY: DATE_INFINITY,
    Special.NEGATIVE_INFINITY: DATE_NEGATIVE_INFINITY,
}
_SPECIAL_MOMENTS = {
    Special.EPOCH: 0,
    Special.INFINITY: TIMESTAMP_INFINITY,
    Special.NEGATIVE_INFINITY: TIMESTAMP_NEGATIVE_INFINITY,
}


def _checked(text: str, moment: ReadMoment) -> int:
    if moment.special is not None:
        return _SPECIAL_MOMENTS[moment.special]
    found = moment.days * DAY_US + moment.us
    if not TIMESTAMP_MIN <= found < TIMESTAMP_END:
        raise SqlError("22008", f'timestamp out of range: "{text}"')
    return found


def _moment(text: str, name: str, style: Style, now_us: int | None) -> ReadMoment:
    match = _PLAIN_MOMENT.fullmatch(text)
    plain_moment = None if match is None else _plain_moment(match)
    if plain_moment is not None:
        return plain_moment
    return _read(moment_input.read_moment, text, name, style, now_us)


def _read(
    read: Callable[[str, Style, int | None], _T], text: str, name: str, style: Style, now_us: int | None
) -> _T:
    """What a reader makes of a text that should be a value of the type with that name. SqlError."""
    try:
        return read(text, style, now_us)
    except Wrong as wrong:
        raise error_of(wrong.fault, text, name) from None
    except ClockWordError:
        raise SqlError(
            "0A000",
            f'"{text}" is not supported as a value of type {name} here',
            hint="Use now() or CURRENT_DATE.",
        ) from None


def _plain_moment(match: re.Match[str]) -> ReadMoment | None:
    """What the commonest form says; None where it says what is none."""
    year, month, day = int(match[1]), int(match[2]), int(match[3])
    us = 0 if match[4] is None else _plain_time(match[4], match[5], match[6], match[7])
    if not year or not 1 <= month <= 12 or not 1 <= day <= days_in_month(year, month) or us is None:
        return None
    offset = None
    if match[8] is not None:
        hours, minutes = int(match[9]), int(match[10] or 0)
        if hours > 15 or minutes > 59:
            return None
        offset = (hours * 60 + minutes) * (-60_000_000 if match[8] == "-" else 60_000_000)
    return ReadMoment(days_from_civil(year, month, day), us, offset)


def _plain_time(hour: str, minute: str, second: str | None, fraction: str | None) -> int | None:
    hours, minutes, seconds = int(hour), int(minute), int(second or 0)
    us = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000
    if fraction:
        us += int(fraction.ljust(6, "0"))
    return us if minutes <= 59 and seconds <= 60 and us <= DAY_US else None


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


def _write_dates(array: Array, _type: object, style: Style) -> Array | None:
    if style.dates != "ISO":
        return None
    return cast_to_text(array) if is_within(array.view(pa.int32()), _YEAR_1, _YEAR_9999) else None


def _write_times(array: Array, *_more: Any) -> Array | None:
    return _trimmed(cast_to_text(array)) if is_within(array.view(pa.int64()), 0, DAY_US - 1) else None


def _write_timestamps(array: Array, _type: object, style: Style, suffix: str = "") -> Array | None:
    us = array.view(pa.int64())
    if style.dates != "ISO" or not is_within(us, _DATETIME_MIN, _DATETIME_END - 1):
        return None
    return _trimmed(cast_to_text(us.view(pa.timestamp("us"))), suffix)


def _write_timestamptzs(array: Array, sql_type: object, style: Style) -> Array | None:
    return _write_timestamps(array, sql_type, style, "+00") if style.zone == "UTC" else None


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


def _read_timestamptzs(strings: Array, target: Any, _type: object, style: Style) -> Array | None:
    # PostgreSQL's offsets end at 15:59:59, Arrow's at 23:59.
    named = pc.match_substring_regex(strings, r":[0-9.]+[+-](0[0-9]|1[0-5])(:[0-9]{2})?$")
    if pc.any(named).as_py() is True:
        if pc.all(named).as_py() is False:
            return None
        values = pc.cast(strings, target)
    elif style.zone == "UTC" and lengths_in(strings, _TIMESTAMP_LENGTHS):
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
        "pg_datetext({})",
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
