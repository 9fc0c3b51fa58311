"""Arrow columns of loads as a column of a table keeps them: SQL's text read, and text as its type has it.

Beside ``label_columns``, above ``forms``; needs pyarrow. What a type asks of its values holds of the elements
of its arrays too. Errors are those of the type's input function; the row, counted from 0, is in the field
"nth".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from herdpy.codec.arrow import datums_to_array, is_text, plain_lists
from herdpy.codec.kinds import Kind
from herdpy.imports import lazy_module
from herdpy_sql.errors import SqlError
from herdpy_sql.types import BITS, Base, SqlType
from herdpy_sql.values.forms import from_text, input_converter, to_text
from herdpy_sql.values.json_texts import parse_json
from herdpy_sql.values.label_columns import check_places, places_of, values_changed
from herdpy_sql.values.precision import fit_column
from herdpy_sql.values.strings import limit_text

Array = Any  # pyarrow's stubs know arrays by element type, and these functions take any
pc: Any = lazy_module("pyarrow.compute")

_READ = frozenset({Base.ARRAY, Base.INTERVAL, Base.TIME, Base.UUID, Base.VECTOR})
_LENGTHS = frozenset({Base.CHAR, Base.VARCHAR})
_CANONICAL = frozenset({*BITS, Base.CHAR_BYTE, Base.MACADDR, Base.MACADDR8, Base.NAME})
_NUMBERS = frozenset({Base.OID, Base.XID})
_MAX_OID = 2**32 - 1


def values_of_texts(array: Array, sql_type: SqlType) -> Array:
    """SQL's text as values of types that other systems have no type for; all else stays what it is.

    Those are TIME, INTERVAL, UUID, VECTOR, ENUMs, INET, CIDR, and arrays of anything, whole or element by
    element; an array may also be written as JSON has it.

    Raises:
        SqlError: as the type's input function.
        ValueError: a value does not fit Arrow, or an ENUM's or an address's are no text.
    """
    if sql_type.has_places and sql_type.base is not Base.ARRAY:
        return places_of(array, sql_type)
    if pa.types.is_dictionary(array.type) and is_text(array.type.value_type):
        array = array.dictionary_decode()
    if sql_type.base is Base.ARRAY and (lists := plain_lists(array)) is not None:
        return values_changed(lists, sql_type, values_of_texts)
    if sql_type.base not in _READ or not is_text(array.type):
        return array
    datums = _by_row(array, input_converter(sql_type))
    return datums_to_array(sql_type.field, datums, sql_type.precision)


def kept_texts(array: Array, sql_type: SqlType) -> Array:
    """Values, conformed to their column, in the one form that it keeps: text cut to its length, and such.

    Every replica makes the same of a load's rows by this. SqlError 22001, 22003, 22008, 22P02.
    """
    if sql_type.base is Base.ARRAY:
        inner = sql_type.element_type
        return values_changed(array, sql_type, kept_texts) if _is_rewritten(inner) else array
    if sql_type.base is Base.CHAR:
        array = pc.utf8_rtrim(array, " ")
    if sql_type.base in _LENGTHS:
        length = sql_type.length
        if length is None or not pc.any(pc.greater(pc.utf8_length(array), length)).as_py():
            return array
        return pa.array(_by_row(array, lambda text: limit_text(text, sql_type)), array.type)
    if sql_type.is_rounded_time:
        return fit_column(array, sql_type)
    if _is_rewritten(sql_type):
        read, write = from_text(sql_type), to_text(sql_type)
        return pa.array(_by_row(array, lambda text: write(read(text))), array.type)
    return array


def _is_rewritten(sql_type: SqlType) -> bool:
    is_rounded = sql_type.base is Base.NUMERIC and sql_type.precision is not None
    return (
        sql_type.base in _LENGTHS | _CANONICAL
        or sql_type.is_rounded_time
        or (is_rounded and sql_type.kind is Kind.DECIMAL)
    )


def check_values(array: Array, sql_type: SqlType) -> None:
    """See that values, conformed to their column, are ones of its type. SqlError 22003, 22P02."""
    inner = sql_type.element_type if sql_type.base is Base.ARRAY else sql_type
    if inner.has_places:
        check_places(array, sql_type)
    elif sql_type.base is Base.ARRAY:
        if inner.base in _NUMBERS | {Base.JSON}:
            values_changed(array, sql_type, _checked)
    elif sql_type.base is Base.JSON:
        _by_row(array, parse_json)
    elif sql_type.base in _NUMBERS:
        wrong = pc.fill_null(pc.or_(pc.less(array, 0), pc.greater(array, _MAX_OID)), False)
        nth = pc.index(wrong, True).as_py()
        if nth >= 0:
            raise SqlError("22003", f"{inner} out of range: {array[nth]}", nth=str(nth))


def _checked(array: Array, sql_type: SqlType) -> Array:
    check_values(array, sql_type)
    return array


def _by_row(array: Array, convert: Callable[[str], Any]) -> list[Any]:
    found: list[Any] = []
    for row, value in enumerate(array.to_pylist()):
        try:
            found.append(None if value is None else convert(value))
        except SqlError as error:
            error.fields["nth"] = str(row)
            raise
    return found
