"""Values on their way into DuckDB and back: parameters, columns of tables, answers, and answers as datums.

Below ``query``, which runs a text between the two.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from herdpy.codec.arrow import array_to_datums, arrow_type, dress, storage_type
from herdpy.codec.kinds import Kind, nested, of_lists
from herdpy_sql.types import SqlType
from herdpy_sql.values.forms import FORMS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from herdpy.codec.kinds import Datum


def duck_value(value: Datum, type_: SqlType) -> Any:
    """A datum as DuckDB's Python client takes it; the query casts it to its type."""
    if value is None:
        return None
    if type_.element is not None:
        assert isinstance(value, tuple)
        return nested(value, lambda one: duck_value(one, type_.element_type))
    given = FORMS[type_.base].duck.client
    return value if given is None else given(value)


def column_type(type_: SqlType) -> pa.DataType:
    """The Arrow type of an answer's column."""
    return arrow_type(type_.field)


def given_names(table: pa.Table, types: Sequence[SqlType]) -> pa.Table:
    """What a scan reads as DuckDB is given it: columns c0, c1 ..., of the types that are declared."""
    arrays: list[Any] = []
    for array, type_ in zip(table.columns, types, strict=True):
        if type_.kind in (Kind.DECIMAL64, Kind.DECIMAL128) and type_.precision is not None:
            arrays.append(narrow(array, type_.precision, type_.scale or 0))
        else:
            arrays.append(array if type_.element is None else _dressed(array, type_.element_type))
    return pa.table(arrays, names=[f"c{i}" for i in range(len(arrays))])


def narrow(array: Any, precision: Any, scale: int) -> Any:
    """The same decimals under their declared precision, without touching them (it is kept by the store)."""
    is_short = pa.types.is_decimal64(array.type)
    wanted: Any = pa.decimal64(precision, scale) if is_short else pa.decimal128(precision, scale)
    if array.type == wanted:
        return array
    chunks = [
        pa.Array.from_buffers(wanted, len(chunk), chunk.buffers(), chunk.null_count, chunk.offset)
        for chunk in array.chunks
    ]
    return pa.chunked_array(chunks, wanted)


def _dressed(array: Any, element_type: SqlType) -> Any:
    """Lists whose elements are held by Arrow's storage of a type (of UUIDs, bytes) as lists of that type: the
    storage is what DuckDB would take them for, too."""
    element = arrow_type(element_type.field)
    if storage_type(element) == element:
        return array
    lists = [_dressed_list(chunk, element) for chunk in array.chunks]
    return pa.chunked_array(lists, _dressed_type(array.type, element))


def _dressed_type(held: Any, element: pa.DataType) -> Any:
    return pa.list_(_dressed_type(held.value_type, element)) if pa.types.is_list(held) else element


def _dressed_list(array: Any, element: pa.DataType) -> Any:
    """The same list, without touching its values."""
    if not pa.types.is_list(array.type):
        return array if array.type == element else dress(array, element)
    wanted, inner = _dressed_type(array.type, element), _dressed_list(array.values, element)
    buffers = array.buffers()[:2]
    return pa.Array.from_buffers(
        wanted, len(array), buffers, array.null_count, array.offset, children=[inner]
    )


def answered(array: Any, wanted: pa.DataType) -> Any:
    """A column that DuckDB gave, as the Arrow type of an answer's column."""
    if array.type == wanted:
        return array
    inner: Any = wanted
    while pa.types.is_list(inner):
        inner = inner.value_type
    if inner is not wanted and inner == pa.binary(16):
        lists = [None if v is None else nested(of_lists(v, _uuid)) for v in array.to_pylist()]
        return pa.chunked_array([pa.array(lists, wanted)])
    if wanted == pa.uuid():
        storage = array.cast(pa.string())
        raw = [None if v is None else uuid.UUID(v).bytes for v in storage.to_pylist()]
        return pa.chunked_array([pa.ExtensionArray.from_storage(pa.uuid(), pa.array(raw, pa.binary(16)))])
    return array.cast(wanted)


def _uuid(value: Any) -> bytes:
    return value if isinstance(value, bytes) else uuid.UUID(str(value)).bytes


def to_datums(table: pa.Table, types: Sequence[SqlType]) -> list[tuple[Datum, ...]]:
    """The rows of an answer as datums, in order."""
    if not types:
        return [()] * table.num_rows
    columns = []
    for i, type_ in enumerate(types):
        array: Any = table.column(i)
        chunk = array.combine_chunks() if array.num_chunks != 1 else array.chunk(0)
        columns.append(array_to_datums(type_.field, chunk))
    return list(zip(*columns, strict=True))
