"""COPY's binary format: a header, then rows as they are in DataRow messages, then -1.

Beside ``textual`` and ``arrow``; the values' forms are ``wire``'s. Format: PostgreSQL 15 manual, COPY,
"Binary Format".
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pyarrow as pa

from herdpy.codec.kinds import Datum
from herdpy_server.copy.target import Array, CopyTarget
from herdpy_server.wire.columns import row_bodies
from herdpy_server.wire.formats import decoder
from herdpy_sql.errors import SqlError

_SIGNATURE = b"PGCOPY\n\xff\r\n\0"
_COUNT = struct.Struct("!h")
_LENGTH = struct.Struct("!i")
_HEAD = struct.Struct("!ii")
_BATCH_ROWS = 16_384
_END = _COUNT.pack(-1)


class _Short(Exception):  # noqa: N818 - a signal within this module
    """More data is wanted."""


class BinaryReader:
    """Reads the binary format."""

    def __init__(self, target: CopyTarget) -> None:
        self._target = target
        self._decoders = [decoder(sql_type, True) for sql_type in target.types]
        self._data = b""
        self._at = 0
        self._begun = self._ended = False
        self._line = 0

    def feed(self, data: bytes) -> Sequence[pa.RecordBatch]:
        """See ``CopyReader``."""
        return self._read(data, last=False)

    def finish(self) -> Sequence[pa.RecordBatch]:
        """See ``CopyReader``."""
        return self._read(b"", last=True)

    def _read(self, data: bytes, *, last: bool) -> list[pa.RecordBatch]:
        self._data = self._data[self._at :] + data
        self._at = 0
        found: list[pa.RecordBatch] = []
        rows: list[list[Datum]] = []
        try:
            if not self._begun:
                self._header(last=last)
            while not self._ended:
                row = self._row(last=last)
                if row is not None:
                    rows.append(row)
                if len(rows) == _BATCH_ROWS:
                    found.append(self._target.batch(rows))
                    rows = []
            if self._at < len(self._data):
                error = SqlError("22P04", "received copy data after EOF marker")
                raise self._target.at_line(error, self._line + 1)
        except _Short:
            if len(self._data) - self._at > self._target.max_record_bytes:
                raise self._target.too_long(self._line + 1) from None
        if rows:
            found.append(self._target.batch(rows))
        return found

    def _take(self, at: int, size: int) -> bytes:
        if at + size > len(self._data):
            raise _Short
        return self._data[at : at + size]

    def _header(self, *, last: bool) -> None:
        steps = (
            (11, "COPY file signature not recognized"),
            (15, "invalid COPY file header (missing flags)"),
            (19, "invalid COPY file header (missing length)"),
        )
        for size, message in steps:
            if len(self._data) < size:
                if last or not _SIGNATURE.startswith(self._data[:11]):
                    raise SqlError("22P04", message)
                raise _Short
            if size == 11 and self._data[:11] != _SIGNATURE:
                raise SqlError("22P04", message)
            if size == 15:
                (flags,) = struct.unpack_from("!I", self._data, 11)
                if flags & 0x10000:
                    raise SqlError("22P04", "invalid COPY file header (WITH OIDS)")
                if flags >> 16:
                    raise SqlError("22P04", "unrecognized critical flags in COPY file header")
        (extension,) = struct.unpack_from("!i", self._data, 15)
        if extension < 0:
            raise SqlError("22P04", "invalid COPY file header (missing length)")
        if len(self._data) < 19 + extension:
            if last or extension > self._target.max_record_bytes:
                raise SqlError("22P04", "invalid COPY file header (wrong length)")
            raise _Short
        self._at = 19 + extension
        self._begun = True

    def _row(self, *, last: bool) -> list[Datum] | None:
        """The next row; None at the end of the data."""
        at, line = self._at, self._line + 1
        if last and len(self._data) - at < 2:
            self._ended = True
            self._at = len(self._data)
            return None
        (count,) = _COUNT.unpack(self._take(at, 2))
        at += 2
        if count == -1:
            self._ended = True
            self._at = at
            return None
        if count != len(self._decoders):
            message = f"row field count is {count}, expected {len(self._decoders)}"
            raise self._target.at_line(SqlError("22P04", message), line)
        row: list[Datum] = []
        for place, decode in enumerate(self._decoders):
            try:
                (length,) = _LENGTH.unpack(self._take(at, 4))
                at += 4
                if length == -1:
                    row.append(None)
                    continue
                if length < 0:
                    raise SqlError("22P04", "invalid field size")
                if length > self._target.max_record_bytes:
                    raise self._target.too_long(line)
                value = self._take(at, length)
                at += length
                row.append(decode(value))
            except _Short:
                if not last:
                    raise
                error = SqlError("22P04", "unexpected EOF in COPY data")
                raise self._target.at_column(error, line, place, None) from None
            except SqlError as error:
                raise self._target.at_column(error, line, place, None) from None
        self._at, self._line = at, line
        return row


class BinaryWriter:
    """Writes the binary format; the header comes with the first row, as PostgreSQL sends it."""

    def __init__(self, target: CopyTarget) -> None:
        self._target = target
        self._header = _SIGNATURE + _HEAD.pack(0, 0)

    def start(self, schema: pa.Schema) -> Sequence[bytes]:
        """Nothing yet."""
        del schema
        return ()

    def batch(self, batch: pa.RecordBatch) -> Array:
        """A piece for each row."""
        types = self._target.types
        pieces = row_bodies(batch.columns, batch.num_rows, types, (True,) * len(types))
        if len(pieces) and self._header:
            first = pa.array([self._header + pieces[0].as_py()], pa.binary())
            pieces = pa.concat_arrays([first, pieces.slice(1)])
            self._header = b""
        return pieces

    def end(self) -> Sequence[bytes]:
        """The count that ends the rows."""
        return [self._header + _END]
