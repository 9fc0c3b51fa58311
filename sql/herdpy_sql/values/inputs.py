"""From Python objects to datums: what a user of the driver may pass where a SQL type is wanted.

A conversion that would lose something (5.5 to INTEGER, a datetime with a time to DATE) or that
PostgreSQL has no cast for (True to INTEGER) is SqlError 42804: the caller may then give the parameter
the type that ``guesses.type_of`` names, and let SQL's own rules decide. Text is read by the type's input
function, as PostgreSQL does with untyped parameters. Numbers and times are in ``input_numbers`` and
``input_times``.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import json
import uuid
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from herdpy.codec.grids import of_lists
from herdpy.codec.kinds import Datum, plain
from herdpy_sql import types as t
from herdpy_sql.errors import SqlError
from herdpy_sql.types import Base, SqlType
from herdpy_sql.values import labels
from herdpy_sql.values.arrays import RAGGED, parse_array
from herdpy_sql.values.input_numbers import double, integer_converter, numeric_converter, real
from herdpy_sql.values.input_times import date, interval, time, timestamp, timestamptz
from herdpy_sql.values.refusals import mismatch
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

_LISTS = frozenset({Base.JSON, Base.JSONB, Base.VECTOR})
"""The types whose values may be lists, so that a list of lists is an array of one dimension of them."""


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
        return integer_converter(sql_type, *INTEGER_RANGES[base])
    if base is Base.NUMERIC:
        return numeric_converter(sql_type)
    if base in {Base.TEXT, Base.UNKNOWN}:
        return _text
    if base in {Base.VARCHAR, Base.CHAR}:
        return _limited_converter(sql_type)
    special: dict[Base, Callable[[object], Datum]] = {
        Base.BOOLEAN: _boolean,
        Base.DOUBLE: double,
        Base.REAL: real,
        Base.BYTEA: _bytea,
        Base.DATE: date,
        Base.TIME: time,
        Base.TIMESTAMP: timestamp,
        Base.TIMESTAMPTZ: timestamptz,
        Base.UUID: _uuid,
        Base.JSON: _json,
        Base.JSONB: _jsonb,
        Base.INTERVAL: interval,
    }
    if base not in special:
        raise SqlError("0A000", f"parameters of type {sql_type} are not supported")
    return special[base]


def _array_converter(element: SqlType) -> Callable[[object], Any]:
    convert, parse = input_converter(element), from_text(element)

    def array(value: object) -> Any:
        if value is None:
            return None
        if isinstance(value, str):
            text: str = plain(value)
            if text[:1] == "[" and text[-1:] == "]":  # as ``herdpy export`` writes arrays
                with contextlib.suppress(json.JSONDecodeError):
                    return array(json.loads(text, parse_float=Decimal))
            return parse_array(text, parse)
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
            raise mismatch(value, sql_type.name)
        return read(plain(text))

    return label


def _vector_converter(sql_type: SqlType) -> Callable[[object], Datum]:
    read = from_text(sql_type)

    def vector(value: object) -> Any:
        if value is None:
            return None
        if isinstance(value, str):
            return read(plain(value))
        listed: Any = value.tolist() if hasattr(value, "tolist") else value
        if not isinstance(listed, list | tuple):
            raise mismatch(value, "vector")
        numbers = tuple([labels.checked_number(float(one)) for one in listed])
        if not numbers:
            raise SqlError("22000", "vector must have at least 1 dimension")
        return labels.fit_vector(numbers, sql_type)

    return vector


def _text(value: object) -> Any:
    if type(value) is str:
        return value if value.isascii() and "\0" not in value else check_text(value)
    if value is None:
        return None
    if isinstance(value, str):
        return _text(plain(value))
    raise mismatch(value, "text")


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
        return from_text(t.BOOLEAN)(plain(value))
    if type(value).__name__ in {"bool_", "bool"}:  # numpy's
        return bool(value)
    raise mismatch(value, "boolean")


def _bytea(value: object) -> Any:
    if type(value) is bytes or value is None:
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(memoryview(value))
    if isinstance(value, str):
        return from_text(t.BYTEA)(plain(value))
    raise mismatch(value, "bytea")


def _uuid(value: object) -> Any:
    if value is None:
        return None
    if isinstance(value, uuid.UUID):
        return value.bytes
    if isinstance(value, str):
        return from_text(t.UUID)(plain(value))
    raise mismatch(value, "uuid")


def _json(value: object) -> Any:
    if value is None:
        return None
    if isinstance(value, str):
        return parse_json(plain(value))
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
    return parse_jsonb(plain(value) if isinstance(value, str) else _json(value))
