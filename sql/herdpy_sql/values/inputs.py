"""From Python objects to datums: what a user of the driver may pass where a SQL type is wanted.

A conversion that would lose something (5.5 to INTEGER, a datetime with a time to DATE) or that
PostgreSQL has no cast for (True to INTEGER) is SqlError 42804: the caller may then give the parameter
the type that ``guesses.type_of`` names, and let SQL's own rules decide. Text is read by the type's input
function, as PostgreSQL does with untyped parameters.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import enum
import functools
import json
import math
import uuid
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from herdpy.codec.grids import of_lists
from herdpy.codec.kinds import Datum, Interval
from herdpy_sql import types as t
from herdpy_sql.errors import SqlError
from herdpy_sql.types import Base, SqlType
from herdpy_sql.values import floats, intervals, labels, moments, numeric
from herdpy_sql.values.arrays import RAGGED, parse_array
from herdpy_sql.values.texts import (
    INTEGER_RANGES,
    check_text,
    from_text,
    limit_text,
    parse_json,
    parse_jsonb,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_EPOCH_ORDINAL = 719_163
_LISTS = frozenset({Base.JSON, Base.JSONB, Base.VECTOR})
"""The types whose values may be lists, so that a list of lists is an array of one dimension of them."""
_MICROSECOND = dt.timedelta(microseconds=1)
_EPOCH = dt.datetime(1970, 1, 1)
_EPOCH_UTC = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@functools.lru_cache(maxsize=512)
def input_converter(sql_type: SqlType) -> Callable[[object], Datum]:
    """The function from Python objects (and None) to datums of ``sql_type``.

    It raises SqlError: 42804 for a Python type that cannot be this SQL type, 22P02 for text that is
    not a value of it, 22003 and 22008 out of range, 22007 for bad dates, 22001 for long text, 22021
    for text with a NUL or a lone surrogate.
    """
    base = sql_type.base
    if sql_type.element is not None:
        return _array_converter(sql_type.element_type)
    if base is Base.ENUM:
        return _enum_converter(sql_type)
    if base is Base.VECTOR:
        return _vector_converter(sql_type)
    if base in INTEGER_RANGES:
        return _integer_converter(sql_type, *INTEGER_RANGES[base])
    if base is Base.NUMERIC:
        return _numeric_converter(sql_type)
    if base in {Base.TEXT, Base.UNKNOWN}:
        return _text
    if base in {Base.VARCHAR, Base.CHAR}:
        return _limited_converter(sql_type)
    special: dict[Base, Callable[[object], Datum]] = {
        Base.BOOLEAN: _boolean,
        Base.DOUBLE: _double,
        Base.REAL: _real,
        Base.BYTEA: _bytea,
        Base.DATE: _date,
        Base.TIME: _time,
        Base.TIMESTAMP: _timestamp,
        Base.TIMESTAMPTZ: _timestamptz,
        Base.UUID: _uuid,
        Base.JSON: _json,
        Base.JSONB: _jsonb,
        Base.INTERVAL: _interval,
    }
    if base not in special:
        raise SqlError("0A000", f"parameters of type {sql_type} are not supported")
    return special[base]


def _mismatch(value: object, name: str) -> SqlError:
    return SqlError("42804", f"a Python object of type {type(value).__name__} cannot be used as type {name}")


def _lossy(value: object, name: str) -> SqlError:
    return SqlError("42804", f"{value!r} cannot be used as type {name} without loss")


def _array_converter(element: SqlType) -> Callable[[object], Any]:
    convert, parse = input_converter(element), from_text(element)

    def array(value: object) -> Any:
        if value is None:
            return None
        if isinstance(value, str):
            if value[:1] == "[" and value[-1:] == "]":  # as ``herdpy export`` writes arrays
                with contextlib.suppress(json.JSONDecodeError):
                    return array(json.loads(value, parse_float=Decimal))
            return parse_array(value, parse)
        if not isinstance(value, list | tuple):
            raise SqlError("42804", f"an array is wanted, not {type(value).__name__}")
        if element.base in _LISTS:
            return tuple([None if one is None else convert(one) for one in value])
        try:
            return of_lists(value, convert)
        except ValueError:
            raise SqlError("2202E", RAGGED) from None

    return array


def _enum_converter(sql_type: SqlType) -> Callable[[object], Datum]:
    read = from_text(sql_type)

    def label(value: object) -> Any:
        if value is None:
            return None
        text = getattr(value, "value", value) if isinstance(value, enum.Enum) else value
        if not isinstance(text, str):
            raise _mismatch(value, sql_type.name)
        return read(text)

    return label


def _vector_converter(sql_type: SqlType) -> Callable[[object], Datum]:
    read = from_text(sql_type)

    def vector(value: object) -> Any:
        if value is None:
            return None
        if isinstance(value, str):
            return read(value)
        listed: Any = value.tolist() if hasattr(value, "tolist") else value
        if not isinstance(listed, list | tuple):
            raise _mismatch(value, "vector")
        numbers = tuple([labels.checked_number(float(one)) for one in listed])
        if not numbers:
            raise SqlError("22000", "vector must have at least 1 dimension")
        return labels.fit_vector(numbers, sql_type)

    return vector


def _interval(value: object) -> Any:
    if value is None:
        return None
    if isinstance(value, Interval):
        return intervals.checked(*value)
    if isinstance(value, dt.timedelta):
        return intervals.checked(0, value.days, value.seconds * 1_000_000 + value.microseconds)
    if isinstance(value, str):
        return intervals.parse_interval(check_text(value))
    raise _mismatch(value, "interval")


def _integer_converter(sql_type: SqlType, low: int, high: int) -> Callable[[object], Datum]:
    parse = from_text(sql_type)
    name = sql_type.base.value

    def convert(value: object) -> Any:
        if type(value) is int:
            if low <= value <= high:
                return value
            raise SqlError("22003", f"{name} out of range")
        if value is None:
            return None
        if isinstance(value, str):
            return parse(value)
        if isinstance(value, bool):
            raise _mismatch(value, name)
        if isinstance(value, float | Decimal):
            if isinstance(value, Decimal):
                if not value.is_finite() or value != value.to_integral_value():
                    raise _lossy(value, name)
                if value.adjusted() > 20:  # the digits of 1e200000 take long to write out
                    raise SqlError("22003", f"{name} out of range")
            elif not math.isfinite(value) or value != int(value):
                raise _lossy(value, name)
            return convert(int(value))
        index = getattr(value, "__index__", None)  # enumerations and numpy integers
        if index is None:
            raise _mismatch(value, name)
        return convert(index())

    return convert


def _numeric_converter(sql_type: SqlType) -> Callable[[object], Datum]:
    parse = from_text(sql_type)
    precision, scale = sql_type.precision, sql_type.scale or 0
    fitting = None if precision is None else numeric.quantum(scale)  # what is of this scale already
    limit = Decimal(1).scaleb((precision or 0) - scale)

    def convert(value: object) -> Any:
        if value is None:
            return None
        if type(value) is Decimal:
            if fitting is not None and value.same_quantum(fitting) and -limit < value < limit:
                return value if value else value.copy_abs()
            return numeric.fit(numeric.normal(value), sql_type)
        if isinstance(value, str):
            return parse(value)
        if isinstance(value, bool):
            raise _mismatch(value, "numeric")
        if isinstance(value, float):
            if not math.isfinite(value):
                raise SqlError("0A000", "NaN and infinity are not supported in type numeric")
            return numeric.fit(numeric.from_float(value, 15), sql_type)
        if isinstance(value, Decimal):
            return convert(Decimal(value))
        index = getattr(value, "__index__", None)
        if index is None:
            raise _mismatch(value, "numeric")
        return numeric.fit(numeric.normal(Decimal(index())), sql_type)

    return convert


def _text(value: object) -> Any:
    if type(value) is str:
        return value if value.isascii() and "\0" not in value else check_text(value)
    if value is None:
        return None
    if isinstance(value, str):
        return check_text(str(value))
    raise _mismatch(value, "text")


def _limited_converter(sql_type: SqlType) -> Callable[[object], Datum]:
    length = sql_type.length

    def convert(value: object) -> Any:
        text = _text(value)
        if text is None:
            return None
        return limit_text(text, sql_type)

    def convert_varchar(value: object) -> Any:
        text = _text(value)
        if text is None or (length is not None and len(text) <= length):
            return text
        return limit_text(text, sql_type)

    return convert if sql_type.base is Base.CHAR else convert_varchar


def _boolean(value: object) -> Any:
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return from_text(t.BOOLEAN)(value)
    if type(value).__name__ in {"bool_", "bool"}:  # numpy's
        return bool(value)
    raise _mismatch(value, "boolean")


def _double(value: object) -> Any:
    if type(value) is float or value is None:
        return value
    if isinstance(value, str):
        return from_text(t.DOUBLE)(value)
    if isinstance(value, bool):
        raise _mismatch(value, "double precision")
    convert = getattr(value, "__float__", None) or getattr(value, "__index__", None)
    if convert is None:
        raise _mismatch(value, "double precision")
    try:
        result = float(convert())
    except OverflowError:
        result = math.inf
    except ValueError:  # a signaling NaN
        raise _mismatch(value, "double precision") from None
    if math.isinf(result) and not isinstance(value, float) and getattr(value, "is_infinite", int)() == 0:
        raise SqlError("22003", "value is out of range for type double precision")
    return result


def _real(value: object) -> Any:
    if isinstance(value, str):
        return from_text(t.REAL)(value)
    double = _double(value)
    return None if double is None else floats.round32(double)


def _bytea(value: object) -> Any:
    if type(value) is bytes or value is None:
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, str):
        return from_text(t.BYTEA)(value)
    raise _mismatch(value, "bytea")


def _date(value: object) -> Any:
    if value is None:
        return None
    if type(value) is dt.date:
        return value.toordinal() - _EPOCH_ORDINAL
    if isinstance(value, str):
        return moments.parse_date(check_text(value))
    if isinstance(value, dt.datetime):
        us = _timestamp(value)
        assert isinstance(us, int)
        if us % moments.DAY_US:
            raise _lossy(value, "date")
        return us // moments.DAY_US
    if isinstance(value, dt.date):
        return value.toordinal() - _EPOCH_ORDINAL
    raise _mismatch(value, "date")


def _time(value: object) -> Any:
    if value is None:
        return None
    if isinstance(value, dt.time):
        if value.tzinfo is not None:
            raise _mismatch(value, "time without time zone")
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
    if isinstance(value, str):
        return moments.parse_time(check_text(value))
    raise _mismatch(value, "time without time zone")


def _timestamp(value: object) -> Any:
    """A datetime with a zone becomes its time in UTC, the session's zone."""
    if value is None:
        return None
    if isinstance(value, dt.datetime):
        return (value - (_EPOCH if value.tzinfo is None else _EPOCH_UTC)) // _MICROSECOND
    if isinstance(value, str):
        return moments.parse_timestamp(check_text(value))
    if isinstance(value, dt.date):
        return (value.toordinal() - _EPOCH_ORDINAL) * moments.DAY_US
    raise _mismatch(value, "timestamp without time zone")


def _timestamptz(value: object) -> Any:
    """A datetime without a zone is in UTC, the session's zone."""
    if isinstance(value, str):
        return moments.parse_timestamptz(check_text(value))
    return _timestamp(value)


def _uuid(value: object) -> Any:
    if value is None:
        return None
    if isinstance(value, uuid.UUID):
        return value.bytes
    if isinstance(value, str):
        return from_text(t.UUID)(value)
    raise _mismatch(value, "uuid")


def _json(value: object) -> Any:
    if value is None:
        return None
    if isinstance(value, str):
        return parse_json(value)
    try:
        return check_text(json.dumps(value, ensure_ascii=False, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise SqlError("42804", f"the Python object cannot be written as JSON: {error}") from None
    except RecursionError:
        raise SqlError(
            "54001", "stack depth limit exceeded", detail="The object is nested too deeply."
        ) from None


def _jsonb(value: object) -> Any:
    if value is None:
        return None
    return parse_jsonb(value if isinstance(value, str) else _json(value))
