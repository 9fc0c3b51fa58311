"""Columns that are text for users and something else for the engine: places of ENUMs, and OPAQUE types.

Above ``forms``; needs pyarrow. An ARRAY of such a type is a list of the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from herdpy.codec.arrow import arrow_type, changed_lists, is_text, list_contents, list_row, plain_lists
from herdpy.imports import lazy_module
from herdpy_sql.errors import SqlError
from herdpy_sql.types import OPAQUE, EnumType, SqlType, with_dimensions
from herdpy_sql.values.form import Reader
from herdpy_sql.values.forms import from_text, to_text
from herdpy_sql.values.reg_types import NAME_AT, has_labels

Array = Any  # pyarrow's stubs know arrays by element type, and these functions take any
pc: Any = lazy_module("pyarrow.compute")


def places_of(array: Array, sql_type: SqlType) -> Array:
    """A client's texts as what the engine has; NULLs stay.

    Raises:
        SqlError: 22P02 for what is no label, or no value, with its row, counted from 0, in the field "nth".
        ValueError: the column holds no text.
    """
    enum = sql_type.enum
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_null(array.type):
        return array
    if sql_type.element is None:
        return _places(array, enum) if enum is not None else _read(array, sql_type)
    lists = plain_lists(array)
    if lists is None:
        raise ValueError(f"an Arrow column of type {array.type} cannot be stored as {sql_type}")
    return values_changed(lists, sql_type, places_of)


def labels_type(sql_type: SqlType) -> Any:
    """What :func:`labels_of` gives for values of this type: texts, or lists of them."""
    kind: Any = pa.string()
    for _ in range(0 if sql_type.element is None else sql_type.dimensions):
        kind = pa.list_(kind)
    return kind


def labels_of(array: Array, sql_type: SqlType) -> Array:
    """The texts of what the engine has: labels, names of ids, and so on; NULLs stay."""
    enum = sql_type.enum
    if isinstance(array, pa.ChunkedArray):
        chunks = [labels_of(one, sql_type) for one in array.chunks]
        return pa.chunked_array(chunks, labels_type(sql_type))
    if sql_type.element is None:
        if enum is not None:
            return _labels(array, enum)
        if sql_type.base in OPAQUE:
            return _each(array, to_text(sql_type), pa.string())
        return pc.utf8_slice_codeunits(array, NAME_AT)
    return changed_lists(array, lambda values: labels_of(values, within(sql_type)))


def shown(table: pa.Table, types: list[SqlType]) -> pa.Table:
    """A table whose columns are of these types, with the texts that users get."""
    for at, sql_type in enumerate(types):
        if has_labels(sql_type):
            column = labels_of(table.column(at), sql_type)
            table = table.set_column(at, pa.field(table.field(at).name, column.type), column)
    return table


def check_places(array: Array, sql_type: SqlType) -> None:
    """See that places are those of labels, and datums those of values.

    SqlError 22P02 with the row in "nth", as :func:`places_of`.
    """
    enum = sql_type.enum
    if sql_type.element is not None:
        try:
            return check_places(pc.list_flatten(array), within(sql_type))
        except SqlError as error:
            error.fields["nth"] = str(pc.list_parent_indices(array)[int(error.fields["nth"])])
            raise
    if enum is None:
        write, read = to_text(sql_type), from_text(sql_type)
        _each(array, lambda datum: _checked(datum, sql_type, write, read), array.type)
        return None
    unknown = pc.and_(array.is_valid(), pc.invert(pc.is_in(array, _all_places(enum))))
    if pc.any(unknown).as_py():
        nth = pc.index(unknown, True).as_py()
        raise SqlError("22P02", f"invalid place of a label for enum {enum.name}", nth=str(nth))
    return None


def within(sql_type: SqlType) -> SqlType:
    """What a list of an array's type is of: arrays of a dimension less, or the elements."""
    if sql_type.dimensions > 1:
        return with_dimensions(sql_type, sql_type.dimensions - 1)
    return sql_type.element_type


def values_changed(lists: Array, sql_type: SqlType, change: Callable[[Array, SqlType], Array]) -> Array:
    """Lists of an array's type, of what ``change`` makes of their values and the values' type.

    Raises:
        SqlError: that of ``change``; the field "nth" is the list's number, where it was the value's.
    """

    def changed(values: Array) -> Array:
        try:
            return change(values, within(sql_type))
        except SqlError as error:
            _, offsets = list_contents(lists)
            error.fields["nth"] = str(list_row(offsets, int(error.fields.get("nth", "0") or 0)))
            raise

    return changed_lists(lists, changed)


def _checked(datum: Any, sql_type: SqlType, write: Reader, read: Reader) -> Any:
    """A datum that is one of the type. SqlError 22P02."""
    try:
        if read(write(datum)) == datum:
            return datum
    except (SqlError, ValueError, IndexError, KeyError, OverflowError):
        pass
    raise SqlError("22P02", f"invalid value of type {sql_type.name}")


def _each(array: Array, convert: Reader, kind: Any) -> Array:
    """What ``convert`` makes of each value but NULL; SqlError with the row in "nth"."""
    made: list[Any] = []
    for row, value in enumerate(array.to_pylist()):
        try:
            made.append(None if value is None else convert(value))
        except SqlError as error:
            error.fields["nth"] = str(row)
            raise
    return pa.array(made, kind)


def _read(array: Array, sql_type: SqlType) -> Array:
    """Texts as datums."""
    given = array.type
    if pa.types.is_dictionary(given):
        array = array.dictionary_decode()
    elif pa.types.is_run_end_encoded(given):
        array = pc.run_end_decode(array)
    kind: Any = arrow_type(sql_type.field)
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), kind)
    if not is_text(array.type):
        raise ValueError(f"an Arrow column of type {given} cannot be stored as {sql_type}")
    return _each(array, from_text(sql_type), kind)


def _all_places(enum: EnumType) -> Array:
    return pa.array([place for _, place in enum.labels], pa.float64())


def _all_labels(enum: EnumType) -> Array:
    return pa.array([label for label, _ in enum.labels], pa.string())


def _places(array: Array, enum: EnumType) -> Array:
    given = array.type
    if pa.types.is_dictionary(given):
        array = array.dictionary_decode()
    elif pa.types.is_run_end_encoded(given):
        array = pc.run_end_decode(array)
    kind, types = array.type, pa.types
    if types.is_null(kind):
        return pa.nulls(len(array), pa.float64())
    if not is_text(kind):
        raise ValueError(f"an Arrow column of type {given} cannot be stored as {enum.name}")
    array = array.cast(pa.string())
    found = pc.index_in(array, _all_labels(enum))
    if found.null_count != array.null_count:
        nth = pc.index(pc.and_(found.is_null(), array.is_valid()), True).as_py()
        raise SqlError("22P02", f'invalid input value for enum {enum}: "{array[nth]}"', nth=str(nth))
    return _all_places(enum).take(found)


def _labels(array: Array, enum: EnumType) -> Array:
    return _all_labels(enum).take(pc.index_in(array, _all_places(enum)))
