"""The forms of every type: of what the files of types declare, which function reads and which writes.

    input_converter(type)(object) -> Datum       what a psycopg user would pass, or text
    output_converter(type) -> (Datum -> object) or None when the datum is the object already
    to_text(type)(datum) -> str, from_text(type)(str) -> Datum      None is never passed to these two
    type_of(object) -> SqlType                   of an untyped parameter

Above the files of types (``uuids``, ``moments``), which it lists; below everything that has values.
CHAR(n) datums hold no trailing blanks (so keys, comparisons and casts to TEXT need no care); the blanks are
put back by ``output_converter`` and ``to_text``.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import json
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

from herdpy.codec.kinds import Datum, mapped, nested, of_lists, plain
from herdpy_sql import types as t
from herdpy_sql.errors import SqlError
from herdpy_sql.types import Base, SqlType
from herdpy_sql.values import (
    arrays,
    bits,
    booleans,
    bytea,
    enums,
    floats,
    inets,
    integers,
    intervals,
    json_texts,
    macaddrs,
    moments,
    names,
    number_vectors,
    numeric,
    oids,
    reg_types,
    strings,
    uuids,
    vectors,
)
from herdpy_sql.values.form import TypeForms

FORMS: dict[Base, TypeForms] = {
    Base.BOOLEAN: booleans.FORMS,
    Base.SMALLINT: integers.SMALLINT_FORMS,
    Base.INTEGER: integers.INTEGER_FORMS,
    Base.BIGINT: integers.BIGINT_FORMS,
    Base.REAL: floats.REAL_FORMS,
    Base.DOUBLE: floats.DOUBLE_FORMS,
    Base.NUMERIC: numeric.FORMS,
    Base.TEXT: strings.TEXT_FORMS,
    Base.VARCHAR: strings.VARCHAR_FORMS,
    Base.CHAR: strings.CHAR_FORMS,
    Base.UNKNOWN: strings.UNKNOWN_FORMS,
    Base.RECORD: strings.RECORD_FORMS,
    Base.BYTEA: bytea.FORMS,
    Base.DATE: moments.DATE_FORMS,
    Base.TIME: moments.TIME_FORMS,
    Base.TIMESTAMP: moments.TIMESTAMP_FORMS,
    Base.TIMESTAMPTZ: moments.TIMESTAMPTZ_FORMS,
    Base.INTERVAL: intervals.FORMS,
    Base.UUID: uuids.FORMS,
    Base.MACADDR: macaddrs.FORMS,
    Base.MACADDR8: macaddrs.LONG_FORMS,
    Base.INET: inets.INET_FORMS,
    Base.CIDR: inets.CIDR_FORMS,
    Base.BIT: bits.FORMS,
    Base.VARBIT: bits.FORMS,
    Base.JSON: json_texts.JSON_FORMS,
    Base.JSONB: json_texts.JSONB_FORMS,
    Base.VECTOR: vectors.FORMS,
    Base.ENUM: enums.FORMS,
    Base.OID: oids.OID_FORMS,
    Base.XID: oids.XID_FORMS,
    Base.NAME: names.NAME_FORMS,
    Base.CHAR_BYTE: names.CHAR_FORMS,
    Base.INT2VECTOR: number_vectors.INT2VECTOR_FORMS,
    Base.OIDVECTOR: number_vectors.OIDVECTOR_FORMS,
    **{base: reg_types.FORMS for base in Base if base in reg_types.REG_TYPES},
}
"""Of every type but arrays, whose values have the forms of their elements."""


@functools.lru_cache(maxsize=512)
def to_text(sql_type: SqlType) -> Callable[[Any], str]:
    """The function from datums of ``sql_type`` (never None) to PostgreSQL's text."""
    if sql_type.element is not None:
        write = to_text(sql_type.element_type)
        return lambda value: arrays.join_array(mapped(value, write))
    return FORMS[sql_type.base].write(sql_type)


@functools.lru_cache(maxsize=512)
def from_text(sql_type: SqlType) -> Callable[[str], Any]:
    """The function from PostgreSQL's text to datums of ``sql_type``.

    It raises SqlError: 22P02 bad syntax, 22003 out of range, 22007 and 22008 for dates and times,
    22001 too long for VARCHAR(n) or CHAR(n).
    """
    if sql_type.element is not None:
        read = from_text(sql_type.element_type)
        return lambda text: arrays.parse_array(text, read)
    return FORMS[sql_type.base].read(sql_type)


@functools.lru_cache(maxsize=512)
def output_converter(sql_type: SqlType) -> Callable[[Any], object] | None:
    """The function from datums of ``sql_type`` to Python objects; None when a datum is the object.

    The function takes None and gives None. Dates and timestamps that ``datetime`` cannot hold
    (infinity, years after 9999 or before 1) raise SqlError 22008, as psycopg does.
    """
    if sql_type.element is not None:
        convert = output_converter(sql_type.element_type)
        return lambda value: None if value is None else nested(value, convert)
    return FORMS[sql_type.base].give(sql_type)


@functools.lru_cache(maxsize=512)
def input_converter(sql_type: SqlType) -> Callable[[object], Datum]:
    """The function from Python objects (and None) to datums of ``sql_type``.

    A conversion that would lose something (5.5 to INTEGER, a datetime with a time to DATE) or that
    PostgreSQL has no cast for (True to INTEGER) is SqlError 42804: the caller may then give the parameter
    the type that :func:`type_of` names, and let SQL's own rules decide. Text is read by the type's input
    function, as PostgreSQL does with untyped parameters.

    It raises SqlError: 42804 for a Python type that cannot be this SQL type, 22P02 for text that is
    not a value of it, 22003 and 22008 out of range, 22007 for bad dates, 22001 for long text, 22021
    for text with a NUL or a lone surrogate.
    """
    if sql_type.element is not None:
        return _array_converter(sql_type.element_type)
    return FORMS[sql_type.base].take(sql_type)


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
            return arrays.parse_array(text, parse)
        if not isinstance(value, list | tuple):
            raise SqlError("42804", f"expected an array, not {type(value).__name__}")
        if FORMS[element.base].lists:
            return tuple([None if one is None else convert(one) for one in value])
        try:
            return of_lists(value, convert)
        except ValueError:
            raise SqlError("2202E", arrays.RAGGED) from None

    return array


def type_of(value: object) -> SqlType:
    """The SQL type that PostgreSQL's drivers give to a Python object: UNKNOWN for None and str.

    SqlError 42804 for an object that stands for no SQL type.
    """
    kind = type(value)
    if kind is int:
        assert isinstance(value, int)
        for sql_type in (t.SMALLINT, t.INTEGER, t.BIGINT):
            low, high = integers.INTEGER_RANGES[sql_type.base]
            if low <= value <= high:
                return sql_type
        return t.NUMERIC
    found = _TYPES.get(kind)
    if found is not None:
        return found
    if isinstance(value, dt.datetime):
        return t.TIMESTAMP if value.tzinfo is None else t.TIMESTAMPTZ
    for python_type, sql_type in _TYPES.items():
        if isinstance(value, python_type):
            return sql_type
    if isinstance(value, int):
        return type_of(plain(value))
    raise SqlError("42804", f"cannot adapt a Python object of type {kind.__name__}")


def type_of_all(values: Iterable[object]) -> SqlType:
    """The type of one parameter's values: the first's, of integers the widest; UNKNOWN if all are None."""
    found: SqlType | None = None
    for value in values:
        if value is not None:
            one = type_of(value)
            if found is None or _WIDTHS.get(one, 0) > _WIDTHS.get(found, len(_WIDTHS)):
                found = one
    return found or t.UNKNOWN


_WIDTHS = {t.SMALLINT: 1, t.INTEGER: 2, t.BIGINT: 3, t.NUMERIC: 4}
"""Types of integers by how many they hold."""

_TYPES = {guessed: SqlType(base) for base, forms in FORMS.items() for guessed in forms.guessed}
