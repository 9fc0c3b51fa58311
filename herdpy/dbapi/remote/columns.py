"""The rows of executemany as Arrow record batches, for COPY PARAMETERS. It loads pyarrow.

Above ``values``, which says how a value goes when it goes alone: what is made here is declared in the
same way on the server, so that a statement means the same. A column of values of one Python type (and None)
becomes an Arrow array; of anything else nothing is made, and the rows go one by one.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from herdpy.dbapi.remote.values import sent_as_array
from herdpy.dbapi.values import Json, Jsonb, json_text

SLICE_ROWS = 8192
MAX_BATCH_BYTES = 8 << 20
"""A batch of more is cut: the server takes messages of a certain size."""

_TYPE_KEY = b"herdpy.type"
_EPOCH_UTC = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)

Column = Sequence[Any]
Array = Any  # pyarrow's stubs know arrays by element type, and these functions take any


class _NoColumnError(Exception):
    """The values are not ones that go as a column."""


def parameter_stream(rows: Sequence[Sequence[object]]) -> list[Any] | None:
    """An Arrow IPC stream of all the rows, in pieces; None when they are to go one by one."""
    if not rows[0]:
        return None
    try:
        makers = [_maker(kinds) for kinds in _kinds(rows)]
        schema = pa.schema([maker.field(at) for at, maker in enumerate(makers)])
        pieces: list[Any] = [schema.serialize()]
        for start in range(0, len(rows), SLICE_ROWS):
            columns = zip(*rows[start : start + SLICE_ROWS], strict=True)
            arrays = [maker.array(column) for maker, column in zip(makers, columns, strict=True)]
            _write(pieces, pa.RecordBatch.from_arrays(arrays, schema=schema))
    except (_NoColumnError, pa.ArrowException, ValueError, OverflowError, TypeError, RecursionError):
        return None  # one by one they are refused, or not, each for what it is
    return pieces


def _kinds(rows: Sequence[Sequence[object]]) -> list[set[type]]:
    """The Python types in each column."""
    found: list[set[type]] = []
    for start in range(0, len(rows), SLICE_ROWS):
        columns = zip(*rows[start : start + SLICE_ROWS], strict=True)
        kinds = [_kinds_of(column) for column in columns]
        found = kinds if not start else [a | b for a, b in zip(found, kinds, strict=True)]
    return found


class _Naive:
    """Stands for a datetime without a zone."""


class _Zoned:
    """Stands for a datetime with a zone, which is another type on the server."""


def _kinds_of(column: Column) -> set[type]:
    kinds: set[type] = set(map(type, column))
    if dt.datetime in kinds:
        kinds.remove(dt.datetime)
        kinds |= {_Zoned if one.tzinfo else _Naive for one in column if type(one) is dt.datetime}
    return kinds


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
        name: the type that the server is told, where Arrow's does not say it.
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
    found = _MAKERS.get(frozenset(kinds - {type(None)}))
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


def _zoned(column: Column) -> Array:
    counts = [None if value is None else (value - _EPOCH_UTC) // _MICROSECOND for value in column]
    return pa.array(counts, pa.int64()).view(pa.timestamp("us", "UTC"))


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
    frozenset({_Zoned}): _Maker(pa.timestamp("us", "UTC"), _zoned),
    frozenset({uuid.UUID}): _Maker(pa.uuid(), _uuids),
    frozenset({dict}): _JSON,
    frozenset({list}): _Maker(pa.string(), _lists),
    frozenset({dict, list}): _JSON,
    frozenset({Json}): _Maker(pa.string(), name="json"),
    frozenset({Jsonb}): _Maker(pa.string(), name="json"),
}
