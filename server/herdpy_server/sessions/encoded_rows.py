"""Rows of a cursor that come with the bytes which a client of the wire gets of them.

Below ``result``. The worker process that makes a query's rows makes the bytes too (:class:`WithRows`), ahead
of the client. The rows come beside them: a FETCH in another form needs them, and so do one that goes back,
and the file of a cursor that is held. A piece of rows that is cut has its :class:`EncodedRows` cut.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from herdpy_server.sessions.query_backend import Form

if TYPE_CHECKING:
    from herdpy_server.sessions.query_backend import Export

_LENGTH = struct.Struct("<Q")


class RowForm(Form, Protocol):
    """A form that makes one message of each row. It can be compared, and is used for many answers."""

    def skip(self, data: bytes, at: int, rows: int) -> int:
        """Where in ``data`` the messages end of so many rows that begin at ``at``."""


class WithRows:
    """The form that makes both: the rows as Arrow has them, and the bytes of another form."""

    def __init__(self, form: RowForm) -> None:
        self._form = form

    def start(self, schema: pa.Schema) -> bytes:
        """The schema."""
        return schema.serialize().to_pybytes()

    def batch(self, batch: pa.RecordBatch) -> bytes:
        """Length of the rows, the rows, the bytes."""
        rows = batch.serialize()
        return b"".join((_LENGTH.pack(rows.size), rows, self._form.batch(batch)))

    def end(self) -> bytes:
        """Nothing."""
        return b""


class EncodedRows:
    """The bytes of some rows.

    Attributes:
        form: what they were made with.
    """

    __slots__ = ("_at", "_begin", "_data", "_row", "_stop", "form")

    def __init__(self, form: RowForm, data: bytes, begin: int = 0, stop: int | None = None) -> None:
        self.form = form
        self._data = data
        self._begin = begin
        self._stop = len(data) if stop is None else stop
        self._row, self._at = 0, begin  # where the last part ended, by its row

    @property
    def nbytes(self) -> int:
        """How many they are."""
        return self._stop - self._begin

    @property
    def data(self) -> bytes:
        """The bytes."""
        return self._data[self._begin : self._stop]

    def part(self, start: int, count: int) -> EncodedRows:
        """Those of ``count`` rows from ``start`` on, which must be there."""
        if start < self._row:
            self._row, self._at = 0, self._begin
        begin = self.form.skip(self._data, self._at, start - self._row)
        self._row, self._at = start + count, self.form.skip(self._data, begin, count)
        return EncodedRows(self.form, self._data, begin, self._at)


class EncodedBatches:
    """Batches with their bytes, out of an export in the form :class:`WithRows`."""

    def __init__(self, export: Export, form: RowForm) -> None:
        self._export = export
        self._form = form
        self._schema: pa.Schema | None = None

    async def next(self) -> tuple[pa.RecordBatch, EncodedRows] | None:
        """The next batch, at least one row; None after the last. Raises as the export."""
        while (data := await self._export.next()) is not None:
            if self._schema is None:
                self._schema = pa.ipc.read_schema(pa.py_buffer(data))
            elif data:
                (size,) = _LENGTH.unpack_from(data)
                stop = _LENGTH.size + size
                read: Any = pa.ipc.read_record_batch
                batch: pa.RecordBatch = read(pa.py_buffer(data)[_LENGTH.size : stop], self._schema)
                return batch, EncodedRows(self._form, data, stop)
        return None

    def close(self) -> None:
        """End it; a second call does nothing."""
        self._export.close()
