"""Arrow to and from servers: tables made of rows, types of columns. It loads pyarrow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from herdpy.dbapi.errors import DataError, NotSupportedError
from herdpy.dbapi.remote.values import RemoteColumn, RemoteType

if TYPE_CHECKING:
    from herdpy.dbapi.link import Row

_NUMERIC, _UUID = 1700, 2950
_TYPES: dict[int, Any] = {
    16: pa.bool_(),
    17: pa.binary(),
    20: pa.int64(),
    21: pa.int16(),
    23: pa.int32(),
    25: pa.string(),
    700: pa.float32(),
    701: pa.float64(),
    1042: pa.string(),
    1043: pa.string(),
    1082: pa.date32(),
    1083: pa.time64("us"),
    1114: pa.timestamp("us"),
    1184: pa.timestamp("us", "UTC"),
    _UUID: pa.uuid(),
}
_NAMES: list[tuple[Any, str]] = [
    (pa.types.is_boolean, "BOOLEAN"),
    (pa.types.is_int8, "SMALLINT"),
    (pa.types.is_uint8, "SMALLINT"),
    (pa.types.is_int16, "SMALLINT"),
    (pa.types.is_uint16, "INTEGER"),
    (pa.types.is_int32, "INTEGER"),
    (pa.types.is_uint32, "BIGINT"),
    (pa.types.is_int64, "BIGINT"),
    (pa.types.is_uint64, "NUMERIC(20, 0)"),
    (pa.types.is_float16, "REAL"),
    (pa.types.is_float32, "REAL"),
    (pa.types.is_float64, "DOUBLE PRECISION"),
    (pa.types.is_string, "TEXT"),
    (pa.types.is_large_string, "TEXT"),
    (pa.types.is_string_view, "TEXT"),
    (pa.types.is_null, "TEXT"),
    (pa.types.is_binary, "BYTEA"),
    (pa.types.is_binary_view, "BYTEA"),
    (pa.types.is_large_binary, "BYTEA"),
    (pa.types.is_fixed_size_binary, "BYTEA"),
    (pa.types.is_date, "DATE"),
    (pa.types.is_time, "TIME"),
]


def table_of(columns: Sequence[RemoteColumn], rows: Sequence[Row], result: Any) -> pa.Table:
    """Rows as an Arrow table: of Arrow's own types, and else as PostgreSQL's text, which ``result`` has.

    Raises:
        DataError: a value that Arrow's type cannot hold.
    """
    values: list[Any] = list(zip(*rows, strict=True)) if rows else [()] * len(columns)
    arrays = []
    try:
        for at, column in enumerate(columns):
            found, kind = values[at], _arrow_type(column.type)
            if kind is None:
                texts = [result.get_value(row, at) for row in range(len(rows))]
                found, kind = [None if text is None else text.decode() for text in texts], pa.string()
            elif column.type.oid == _UUID:
                found = [None if value is None else value.bytes for value in found]
            arrays.append(pa.array(found, kind))
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise DataError(f"a value does not fit Arrow: {error}", sqlstate="22003") from error
    return pa.Table.from_arrays(arrays, names=[column.name for column in columns])


def _arrow_type(kind: RemoteType) -> Any:
    if kind.oid == _NUMERIC and kind.precision is not None and kind.precision <= 38:
        return pa.decimal128(18 if kind.precision <= 18 else 38, kind.scale or 0)
    return _TYPES.get(kind.oid)


_OIDS = {kind: oid for oid, kind in _TYPES.items() if oid not in (1042, 1043)}


def read_stream(pieces: Sequence[bytes]) -> pa.Table:
    """The table of an Arrow IPC stream that came in pieces."""
    return pa.ipc.open_stream(pa.py_buffer(b"".join(pieces))).read_all()


def columns_of(schema: pa.Schema) -> list[RemoteColumn]:
    """The columns of a table that came as Arrow; of types that Arrow does not tell apart, as text."""
    return [RemoteColumn(field.name, _remote_type(field.type)) for field in schema]


def _remote_type(arrow: Any) -> RemoteType:
    if pa.types.is_decimal(arrow):
        return RemoteType(_NUMERIC, None, arrow.precision, arrow.scale)
    return RemoteType(_OIDS.get(arrow, 25))


def sql_type(arrow: pa.DataType) -> str:
    """The SQL type of a column that is made for Arrow data. NotSupportedError where there is none."""
    if pa.types.is_dictionary(arrow):
        return sql_type(arrow.value_type)
    if pa.types.is_decimal(arrow) and arrow.precision <= 38 and arrow.scale >= 0:
        return f"NUMERIC({arrow.precision}, {arrow.scale})"
    if pa.types.is_timestamp(arrow):
        return "TIMESTAMPTZ" if arrow.tz else "TIMESTAMP"
    extension = getattr(arrow, "extension_name", "")
    if extension in ("arrow.uuid", "arrow.json"):
        return extension.removeprefix("arrow.").upper()
    for test, name in _NAMES:
        if test(arrow):
            return name
    raise NotSupportedError(f"there is no column type for Arrow's {arrow}", sqlstate="0A000")
