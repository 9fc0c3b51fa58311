"""PostgreSQL's binary forms (each type's ``send`` and ``recv`` functions).

Beside ``texts``, under ``formats``. Numbers are big-endian; dates count from 2000-01-01, datums from
1970-01-01. Format: PostgreSQL 15, src/backend/utils/adt/*.c, and ``binary_numeric`` for NUMERIC.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from herdpy.codec.kinds import (
    DATE_INFINITY,
    DATE_NEGATIVE_INFINITY,
    TIMESTAMP_INFINITY,
    TIMESTAMP_NEGATIVE_INFINITY,
    Interval,
)
from herdpy_server.wire import binary_numeric
from herdpy_server.wire.texts import STRINGS, Bytes, text_of
from herdpy_sql.errors import SqlError
from herdpy_sql.types import Base, SqlType
from herdpy_sql.values import from_text, intervals, labels, to_text
from herdpy_sql.values.moments import DAY_US, check_date, check_timestamp
from herdpy_sql.values.texts import limit_text, parse_json, parse_jsonb

DAYS_TO_2000 = 10_957
US_TO_2000 = DAYS_TO_2000 * DAY_US

INT16 = struct.Struct("!h")
INT32 = struct.Struct("!i")
INT64 = struct.Struct("!q")
FLOAT32 = struct.Struct("!f")
FLOAT64 = struct.Struct("!d")
_INTERVAL = struct.Struct("!qii")


def wrong_length(size: int, wanted: int) -> SqlError:
    """The error for ``size`` bytes where a type has ``wanted``."""
    if size < wanted:
        return SqlError("08P01", "insufficient data left in message")
    return SqlError("22P03", "incorrect binary data format")


def reader(sql_type: SqlType) -> Callable[[Bytes], Any]:
    """The function from binary form to datums."""
    base = sql_type.base
    if base in STRINGS and sql_type.length is None:
        return text_of
    if base in {Base.VARCHAR, Base.CHAR}:
        return lambda data: limit_text(text_of(data), sql_type)
    if base is Base.NUMERIC:
        return binary_numeric.reader(sql_type)
    if base is Base.ENUM:
        label: Callable[[str], Any] = from_text(sql_type)
        return lambda data: label(text_of(data))
    if base is Base.VECTOR:
        return lambda data: labels.fit_vector(_read_vector(data), sql_type)
    return _READERS[base]


def writer(sql_type: SqlType) -> Callable[[Any], bytes]:
    """The function from datums to binary form."""
    if sql_type.base is Base.CHAR and sql_type.length is not None:
        length = sql_type.length
        return lambda value: value.ljust(length).encode()
    if sql_type.base is Base.ENUM:
        write: Callable[[Any], str] = to_text(sql_type)
        return lambda value: write(value).encode()
    return _WRITERS[sql_type.base]


def _fixed(form: struct.Struct, check: Callable[[Any], Any] | None = None) -> Callable[[Bytes], Any]:
    """The reader of values of one size; ``check`` gives the datum or raises, before bytes are too many."""
    size, unpack = form.size, form.unpack

    def read(data: Bytes) -> Any:
        if len(data) == size:
            value = unpack(data)[0]
            return value if check is None else check(value)
        if len(data) > size and check is not None:
            check(form.unpack_from(data)[0])
        raise wrong_length(len(data), size)

    return read


def _read_bool(data: Bytes) -> bool:
    if len(data) != 1:
        raise SqlError("08P01", "no data left in message") if not data else wrong_length(len(data), 1)
    return data[0] != 0


def _date(days: int) -> int:
    if days in {DATE_INFINITY, DATE_NEGATIVE_INFINITY}:
        return days
    days += DAYS_TO_2000
    if days >= DATE_INFINITY:  # which it would become
        raise SqlError("22008", "date out of range")
    return check_date(days)


def _time(us: int) -> int:
    if not 0 <= us <= DAY_US:
        raise SqlError("22008", "time out of range")
    return us


def _timestamp(us: int) -> int:
    if us in {TIMESTAMP_INFINITY, TIMESTAMP_NEGATIVE_INFINITY}:
        return us
    us += US_TO_2000
    if us >= TIMESTAMP_INFINITY:  # which it would become
        raise SqlError("22008", "timestamp out of range")
    return check_timestamp(us)


def _read_uuid(data: Bytes) -> bytes:
    if len(data) != 16:
        raise wrong_length(len(data), 16)
    return bytes(data)


def _write_date(days: int) -> bytes:
    if days not in {DATE_INFINITY, DATE_NEGATIVE_INFINITY}:
        days -= DAYS_TO_2000
    return INT32.pack(days)


def _write_timestamp(us: int) -> bytes:
    if us not in {TIMESTAMP_INFINITY, TIMESTAMP_NEGATIVE_INFINITY}:
        us -= US_TO_2000
    return INT64.pack(us)


def _read_interval(data: Bytes) -> Interval:
    if len(data) != _INTERVAL.size:
        raise wrong_length(len(data), _INTERVAL.size)
    us, days, months = _INTERVAL.unpack(data)
    return intervals.checked(months, days, us)


def _read_jsonb(data: Bytes) -> str:
    if not data:
        raise SqlError("08P01", "no data left in message")
    if data[0] != 1:
        raise SqlError("XX000", f"unsupported jsonb version number {data[0]}")
    return parse_jsonb(text_of(data[1:]))


def _read_vector(data: Bytes) -> tuple[float, ...]:
    """pgvector's form: how many numbers (2 bytes), nothing (2), and the numbers (4 each)."""
    if len(data) < 4:
        raise wrong_length(len(data), 4)
    (count,) = INT16.unpack_from(data)
    if len(data) != 4 + 4 * count or count < 1:
        raise wrong_length(len(data), 4 + 4 * count)
    return tuple([labels.checked_number(one) for one in struct.unpack_from(f"!{count}f", data, 4)])


def _write_vector(values: tuple[float, ...]) -> bytes:
    return struct.pack(f"!hh{len(values)}f", len(values), 0, *values)


_READERS: dict[Base, Callable[[Bytes], Any]] = {
    Base.BOOLEAN: _read_bool,
    Base.SMALLINT: _fixed(INT16),
    Base.INTEGER: _fixed(INT32),
    Base.BIGINT: _fixed(INT64),
    Base.REAL: _fixed(FLOAT32),
    Base.DOUBLE: _fixed(FLOAT64),
    Base.BYTEA: bytes,
    Base.DATE: _fixed(INT32, _date),
    Base.TIME: _fixed(INT64, _time),
    Base.TIMESTAMP: _fixed(INT64, _timestamp),
    Base.TIMESTAMPTZ: _fixed(INT64, _timestamp),
    Base.UUID: _read_uuid,
    Base.JSON: lambda data: parse_json(text_of(data)),
    Base.JSONB: _read_jsonb,
    Base.INTERVAL: _read_interval,
}

_WRITERS: dict[Base, Callable[[Any], bytes]] = {
    Base.BOOLEAN: lambda value: b"\1" if value else b"\0",
    Base.SMALLINT: INT16.pack,
    Base.INTEGER: INT32.pack,
    Base.BIGINT: INT64.pack,
    Base.REAL: FLOAT32.pack,
    Base.DOUBLE: FLOAT64.pack,
    Base.NUMERIC: binary_numeric.write,
    Base.TEXT: str.encode,
    Base.VARCHAR: str.encode,
    Base.CHAR: str.encode,
    Base.UNKNOWN: str.encode,
    Base.JSON: str.encode,
    Base.BYTEA: bytes,
    Base.DATE: _write_date,
    Base.TIME: INT64.pack,
    Base.TIMESTAMP: _write_timestamp,
    Base.TIMESTAMPTZ: _write_timestamp,
    Base.UUID: bytes,
    Base.INTERVAL: lambda value: _INTERVAL.pack(value[2], value[1], value[0]),
    Base.JSONB: lambda value: b"\1" + value.encode(),
    Base.VECTOR: _write_vector,
}
