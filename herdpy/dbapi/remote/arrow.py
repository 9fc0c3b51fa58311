"""Arrow to and from servers. Above ``values`` and ``connection``; it loads pyarrow, so others import it late.

Rows become tables, and types of columns Arrow's types and back (``table_of``, ``columns_of``).

The rows of executemany become record batches for COPY PARAMETERS (``parameter_stream``). They are declared on
the server as ``values`` declares a value that goes alone, so that a statement means the same. A column of
values of one Python type (and None) becomes an Arrow array; of anything else nothing is made, and the rows go
one by one.

A table is loaded by COPY ... FROM STDIN (FORMAT arrow), once its place is known and it is made (``load``).
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Sequence
from decimal import Decimal
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from herdpy.dbapi.errors import DataError, NotSupportedError, ProgrammingError
from herdpy.dbapi.remote.connection import checked
from herdpy.dbapi.remote.values import RemoteColumn, RemoteType, rows_of, sent_as_array
from herdpy.dbapi.remote.wire import Wire, step
from herdpy.dbapi.types import Json, Jsonb, json_text
from herdpy_sql.arrow_types import OIDS, TYPES_BY_OID, sql_type
from herdpy_sql.types import TEXT, UUID, Base, SqlType

if TYPE_CHECKING:
    from herdpy.dbapi.link import Row


_NUMERIC = SqlType(Base.NUMERIC).oid


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
            elif column.type.oid == UUID.oid:
                found = [None if value is None else value.bytes for value in found]
            arrays.append(pa.array(found, kind))
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise DataError(f"a value does not fit Arrow: {error}", sqlstate="22003") from error
    return pa.Table.from_arrays(arrays, names=[column.name for column in columns])


def _arrow_type(kind: RemoteType) -> Any:
    if kind.oid == _NUMERIC and kind.precision is not None and kind.precision <= 38:
        return pa.decimal128(18 if kind.precision <= 18 else 38, kind.scale or 0)
    return TYPES_BY_OID.get(kind.oid)


def read_stream(pieces: Sequence[bytes]) -> pa.Table:
    """The table of an Arrow IPC stream that came in pieces."""
    return pa.ipc.open_stream(pa.py_buffer(b"".join(pieces))).read_all()


def columns_of(schema: pa.Schema) -> list[RemoteColumn]:
    """The columns of a table that came as Arrow; of types that Arrow does not tell apart, as text."""
    return [RemoteColumn(field.name, _remote_type(field.type)) for field in schema]


def _remote_type(arrow: Any) -> RemoteType:
    if pa.types.is_decimal(arrow):
        return RemoteType(_NUMERIC, None, arrow.precision, arrow.scale)
    return RemoteType(OIDS.get(arrow, TEXT.oid))


def _column_type(arrow: pa.DataType) -> str:
    """The SQL type of a column that is made for Arrow data. NotSupportedError where there is none."""
    found = sql_type(arrow)
    if found is None:
        raise NotSupportedError(f"there is no column type for Arrow's {arrow}", sqlstate="0A000")
    return str(found)


SLICE_ROWS = 8192
MAX_BATCH_BYTES = 8 << 20
"""A batch of more is cut: the server takes messages of a certain size."""

_TYPE_KEY = b"herdpy.type"

Column = Sequence[Any]
Array = Any  # pyarrow's stubs know arrays by element type, and these functions take any


class _NoColumnError(Exception):
    """The values are not ones that go as a column."""


def parameter_stream(rows: Sequence[Sequence[object]]) -> list[Any] | None:
    """An Arrow IPC stream of all the rows, in pieces; None when they are to go one by one."""
    width = len(rows[0])
    if not width or set(map(len, rows)) != {width}:
        return None
    columns = [list(map(itemgetter(at), rows)) for at in range(width)]
    try:
        makers = [_maker(_kinds_of(column)) for column in columns]
        schema = pa.schema([maker.field(at) for at, maker in enumerate(makers)])
        pieces: list[Any] = [schema.serialize()]
        for start in range(0, len(rows), SLICE_ROWS):
            arrays = [
                maker.array(column[start : start + SLICE_ROWS])
                for maker, column in zip(makers, columns, strict=True)
            ]
            _write(pieces, pa.RecordBatch.from_arrays(arrays, schema=schema))
    except (_NoColumnError, pa.ArrowException, ValueError, OverflowError, TypeError, RecursionError):
        return None  # one by one they are refused, or not, each for what it is
    return pieces


class _Naive:
    """Stands for a datetime without a zone."""


class _Zoned:
    """Stands for a datetime with a zone, which is another type on the server."""


def _kinds_of(column: Column) -> set[type]:
    """The Python types of a column's values, None apart."""
    kinds: set[type] = set(map(type, column))
    has_none = _NONE in kinds
    kinds.discard(_NONE)
    if kinds == {dt.datetime}:
        present = [one for one in column if one is not None] if has_none else column
        zones: set[type] = set(map(type, map(_ZONE_OF, present)))
        kinds = {_Naive if zone is _NONE else _Zoned for zone in zones}
    return kinds


_NONE = type(None)
_ZONE_OF = attrgetter("tzinfo")


def _write(pieces: list[Any], batch: pa.RecordBatch) -> None:
    if batch.nbytes > MAX_BATCH_BYTES and batch.num_rows > 1:
        half = batch.num_rows // 2
        for part in (batch.slice(0, half), batch.slice(half)):
            _write(pieces, part)
    else:
        pieces.append(batch.serialize())


class _Maker:
    """Makes the arrays of one column.

    Args:
        kind: their Arrow type.
        convert: makes one of Python's values.
        name: the type that is declared to the server, where Arrow's does not say it.
    """

    def __init__(self, kind: Any, convert: Callable[[Column], Array] | None = None, name: str = "") -> None:
        self._kind = kind
        self._name = name
        self._convert = convert

    def field(self, at: int) -> pa.Field[Any]:
        """The column's field, of parameter ``at`` from 0."""
        metadata = {_TYPE_KEY: self._name.encode()} if self._name else None
        return pa.field(f"${at + 1}", self._kind, metadata=metadata)

    def array(self, column: Column) -> Array:
        """The array of some of its values."""
        return pa.array(column, self._kind) if self._convert is None else self._convert(column)


def _maker(kinds: set[type]) -> _Maker:
    found = _MAKERS.get(frozenset(kinds))
    if found is None:
        raise _NoColumnError
    return found


def _texts(column: Column) -> Array:
    array: Array = pa.array(column, pa.string())
    data = array.buffers()[2]
    if data is not None and b"\0" in data.to_pybytes():
        raise _NoColumnError
    return array


def _decimals(column: Column) -> Array:
    if not all(value is None or value.is_finite() for value in column):
        raise _NoColumnError
    return pa.array([None if value is None else str(value) for value in column], pa.string())


def _uuids(column: Column) -> Array:
    stored: Array = pa.array([None if value is None else value.bytes for value in column], pa.binary(16))
    return pa.ExtensionArray.from_storage(pa.uuid(), stored)


def _jsons(column: Column) -> Array:
    return pa.array([None if value is None else json_text(value) for value in column], pa.string())


def _lists(column: Column) -> Array:
    """Text without a type, since lists are arrays in some places and JSON in others."""
    if any(sent_as_array(value) for value in column if value is not None):
        raise _NoColumnError
    return _jsons(column)


def _times(column: Column) -> Array:
    if any(value is not None and value.tzinfo is not None for value in column):
        raise _NoColumnError
    return pa.array(column, pa.time64("us"))


_JSON = _Maker(pa.string(), _jsons, "json")
_MAKERS: dict[frozenset[type], _Maker] = {
    frozenset(): _Maker(pa.null()),
    frozenset({bool}): _Maker(pa.bool_()),
    frozenset({int}): _Maker(pa.int64(), name="smallest"),
    frozenset({float}): _Maker(pa.float64()),
    frozenset({Decimal}): _Maker(pa.string(), _decimals, "numeric"),
    frozenset({str}): _Maker(pa.string(), _texts),
    frozenset({bytes}): _Maker(pa.binary()),
    frozenset({dt.date}): _Maker(pa.date32()),
    frozenset({dt.time}): _Maker(pa.time64("us"), _times),
    frozenset({_Naive}): _Maker(pa.timestamp("us")),
    frozenset({_Zoned}): _Maker(pa.timestamp("us", "UTC")),
    frozenset({uuid.UUID}): _Maker(pa.uuid(), _uuids),
    frozenset({dict}): _JSON,
    frozenset({list}): _Maker(pa.string(), _lists),
    frozenset({dict, list}): _JSON,
    frozenset({Json}): _Maker(pa.string(), name="json"),
    frozenset({Jsonb}): _Maker(pa.string(), name="json"),
}


TEMPORARY = "pg_temp"
_PLACES = (
    "SELECT current_schemas(true), "
    "(SELECT array_agg(table_schema) FROM information_schema.tables WHERE table_name = $1)"
)


def load(
    wire: Wire,
    table: str,
    batches: Sequence[pa.RecordBatch],
    schema: pa.Schema,
    mode: str,
    within: str | None,
) -> int:
    """Load batches, within the transaction that is open; how many rows.

    Raises:
        ProgrammingError: 42P07 the table is there and must not be, 42P01 the reverse, 3F000 it has no place.
        Error: whatever the server refuses.
    """
    ((path, holding),) = rows_of(checked(wire.run([step(_PLACES, table)]))[-1])
    place, is_there = place_of(table, mode, within, list(path), set(holding or ()))  # type: ignore[call-overload]
    name = f"{quoted(place)}.{quoted(table)}"
    before = []
    if is_there and mode == "replace":
        before.append(f"DROP TABLE {name}")
    if mode == "replace" or not is_there:
        columns = ", ".join(f"{quoted(field.name)} {_column_type(field.type)}" for field in schema)
        before.append(f"CREATE TABLE {name} ({columns})")
    if before:
        checked(wire.run([step(sql) for sql in before]))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    listed = ", ".join(quoted(column) for column in schema.names)
    done = wire.copy_in(f"COPY {name} ({listed}) FROM STDIN (FORMAT arrow)", [sink.getvalue()])
    checked([done])
    return int(done.command_tuples or 0)


def place_of(
    table: str, mode: str, within: str | None, path: Sequence[str], holding: set[str]
) -> tuple[str, bool]:
    """The schema of the table to load into, and whether the table is there: as a directory has it.

    Args:
        path: the schemas where names without one are looked for; the session's own among them.
        holding: those that have a table of that name.
    """
    place = within
    if within == TEMPORARY:
        own = next((one for one in path if _is_own(one)), None)
        is_there = own in holding
    elif within is not None:
        is_there = within in holding
    else:
        found = None
        if mode in ("append", "create_append"):
            found = next((one for one in path if one in holding), None)
        place = found or next((one for one in path if not _is_own(one) and one != "pg_catalog"), None)
        is_there = place in holding
    if is_there and mode == "create":
        raise ProgrammingError(f'relation "{table}" already exists', sqlstate="42P07")
    if not is_there and mode == "append":
        raise ProgrammingError(f'relation "{table}" does not exist', sqlstate="42P01")
    if place is None:
        raise ProgrammingError("no schema has been selected to create in", sqlstate="3F000")
    return place, is_there


def _is_own(schema: str) -> bool:
    return schema.startswith(f"{TEMPORARY}_")


def quoted(name: str) -> str:
    """A name as SQL has it, whatever it consists of."""
    return '"' + name.replace('"', '""') + '"'
