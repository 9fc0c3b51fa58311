"""Values on their way into DuckDB and back: parameters, columns of tables, answers, and answers as datums.

Below ``query``, which runs a text between the two.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from herdpy.codec.arrow import array_to_datums, arrow_type
from herdpy.codec.kinds import Kind, nested, of_lists
from herdpy_sql.types import Base, SqlType
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
        elif type_.element is Base.UUID:
            lists = [_of_uuids(chunk) for chunk in array.chunks]
            arrays.append(pa.chunked_array(lists, _uuids(array.type)))
        else:
            arrays.append(array)
    return pa.table(arrays, names=[f"c{i}" for i in range(len(arrays))])


def narrow(array: Any, precision: Any, scale: int) -> Any:
    """The same decimals under their declared precision, without touching them (it is kept by the store)."""
    wanted: Any = pa.decimal128(precision, scale)
    if array.type == wanted:
        return array
    chunks = [
        pa.Array.from_buffers(wanted, len(chunk), chunk.buffers(), chunk.null_count, chunk.offset)
        for chunk in array.chunks
    ]
    return pa.chunked_array(chunks, wanted)


def _uuids(type_: Any) -> Any:
    """The type of lists of UUIDs, which are bytes where they are stored and would be for DuckDB, too."""
    return pa.list_(_uuids(type_.value_type)) if pa.types.is_list(type_) else pa.uuid()


def _of_uuids(array: Any) -> Any:
    """The same lists with UUIDs for elements, without touching them."""
    if pa.types.is_list(array.type):
        wanted, inner = _uuids(array.type), _of_uuids(array.values)
        buffers = array.buffers()[:2]
        return pa.Array.from_buffers(
            wanted, len(array), buffers, array.null_count, array.offset, children=[inner]
        )
    return array if array.type == pa.uuid() else pa.ExtensionArray.from_storage(pa.uuid(), array)


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
