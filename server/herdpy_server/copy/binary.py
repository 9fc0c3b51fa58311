"""COPY's binary format: a header, then rows as they are in DataRow messages, then -1.

Beside ``textual`` and ``arrow``; the values' forms are ``wire``'s. Reading: data is gathered, and
:class:`RowScanner` finds the fields of many whole rows at once, which become Arrow columns. Where it finds
none, or a value is wrong, the next row is read field by field, which also finds the error with its line and
column. Format: PostgreSQL 15 manual, COPY, "Binary Format".
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from herdpy.codec.arrow_bytes import overlapping
from herdpy.codec.kinds import Datum
from herdpy_server.copy.target import Array, CopyTarget
from herdpy_server.wire.binary_columns import Fields, binary_width, column_from_binary
from herdpy_server.wire.columns import row_bodies
from herdpy_server.wire.formats import decoder
from herdpy_sql.errors import SqlError
from herdpy_sql.types import SqlType

_SIGNATURE = b"PGCOPY\n\xff\r\n\0"
_COUNT = struct.Struct("!h")
_LENGTH = struct.Struct("!i")
_HEAD = struct.Struct("!ii")
_BATCH_ROWS = 16_384
GATHERED_BYTES = 1 << 18
_LEAST_ROWS = 8  # of fewer, row by row is as fast
_SLOW_ROWS = 64  # before many are tried again
_END = _COUNT.pack(-1)


class _Short(Exception):  # noqa: N818 - a signal within this module
    """More data is wanted."""


class RowScanner:
    """Finds the fields of many whole rows at once.

    A type's fields of one width are expected to be there, so that only strings make the rows' lengths differ:
    the rows of a table without strings are found without looking. Where a NULL is met, rows end for now; once
    it is learnt, the length of that field is read in every row.
    """

    def __init__(self, types: Sequence[SqlType]) -> None:
        self._widths = [binary_width(sql_type) for sql_type in types]
        self._varies = [width == 0 for width in self._widths]

    def scan(self, data: bytes, at: int) -> tuple[int, list[Fields]]:
        """The fields of whole rows from ``at`` on, by column, and where those rows end.

        No more than ``_BATCH_ROWS``, and perhaps fewer than there are: rows end before one that is not as
        expected, or in which a length is wrong.
        """
        if not self._widths:
            return at, []
        starts = self._starts(data, at)
        if not len(starts):
            return at, []
        buffer = pa.py_buffer(data)
        numbers = overlapping(buffer, ">i4")
        places = starts[:-1] + 2
        good = overlapping(buffer, ">u2")[starts[:-1]] == len(self._widths)
        columns = []
        for width, varies in zip(self._widths, self._varies, strict=True):
            lengths = numbers[np.minimum(places, len(numbers) - 1)].astype(np.int64)
            good &= (lengths >= -1) if not width else (lengths == width) | (varies & (lengths == -1))
            columns.append(Fields(data, places + 4, lengths))
            places = places + 4 + np.maximum(lengths, 0)
        count = len(good) if good.all() else int(good.argmin())
        cut = [Fields(data, one.starts[:count], one.lengths[:count]) for one in columns]
        return int(starts[count]), cut if count else []

    def learn(self, row: Sequence[Datum]) -> None:
        """Expect NULL where this row has it."""
        for place, datum in enumerate(row):
            self._varies[place] |= datum is None

    def _starts(self, data: bytes, at: int) -> Any:
        """Where rows begin that end within the data, and where the last of them ends; nothing for none."""
        leads = [2]  # the bytes before each length that is to be read, and behind the last one
        for width, varies in zip(self._widths, self._varies, strict=True):
            if varies:
                leads.append(0)
            else:
                leads[-1] += 4 + width
        *leads, tail = leads
        if not leads:
            count = min((len(data) - at) // tail, _BATCH_ROWS)
            return at + np.arange(count + 1 if count else 0, dtype=np.int64) * tail
        starts = _walked(data, at, leads, tail)
        return np.array(starts if len(starts) > 1 else (), np.int64)


def _walked(data: bytes, at: int, leads: Sequence[int], tail: int) -> list[int]:
    """Where rows begin: from length to length."""
    starts, end, unpack = [at], len(data), _LENGTH.unpack_from
    last = end - 4
    while len(starts) <= _BATCH_ROWS:
        for lead in leads:
            at += lead
            if at > last:
                return starts
            (length,) = unpack(data, at)
            at += 4
            if length > 0:
                at += length
        at += tail
        if at > end:
            break
        starts.append(at)
    return starts


class BinaryReader:
    """Reads the binary format."""

    def __init__(self, target: CopyTarget) -> None:
        self._target = target
        self._decoders = [decoder(sql_type, True) for sql_type in target.types]
        self._scanner = RowScanner(target.types)
        self._data = b""
        self._at = 0
        self._pieces: list[bytes] = []
        self._gathered = 0
        self._begun = self._ended = False
        self._line = 0

    def feed(self, data: bytes) -> Sequence[pa.RecordBatch]:
        """See ``CopyReader``."""
        self._pieces.append(data)
        self._gathered += len(data)
        if self._begun and self._gathered < max(GATHERED_BYTES, len(self._data) - self._at):
            return ()
        return self._read(last=False)

    def finish(self) -> Sequence[pa.RecordBatch]:
        """See ``CopyReader``."""
        return self._read(last=True)

    def _read(self, *, last: bool) -> list[pa.RecordBatch]:
        self._data = b"".join([self._data[self._at :], *self._pieces])
        self._at = self._gathered = 0
        self._pieces.clear()
        found: list[pa.RecordBatch | None] = []
        try:
            if not self._begun:
                self._header(last=last)
            while not self._ended:
                found.append(self._many() or self._several(last=last))
            if self._at < len(self._data):
                error = SqlError("22P04", "received copy data after EOF marker")
                raise self._target.at_line(error, self._line + 1)
        except _Short:
            if len(self._data) - self._at > self._target.max_record_bytes:
                raise self._target.too_long(self._line + 1) from None
        return [batch for batch in found if batch is not None]

    def _many(self) -> pa.RecordBatch | None:
        """The next rows by columns; None when few are there, or they are to be read one by one."""
        stop, columns = self._scanner.scan(self._data, self._at)
        if not columns or len(columns[0].starts) < _LEAST_ROWS:
            return None
        longest = max(int(one.lengths.max()) for one in columns)
        if longest > self._target.max_record_bytes:
            return None
        types = self._target.types
        try:
            arrays = [column_from_binary(one, of) for one, of in zip(columns, types, strict=True)]
            batch = pa.RecordBatch.from_arrays(arrays, schema=self._target.schema)
        except (SqlError, ValueError):
            return None  # one by one they say which and where
        self._at = stop
        self._line += batch.num_rows
        return batch

    def _several(self, *, last: bool) -> pa.RecordBatch | None:
        """The next rows, one by one; None at the end of the data. _Short when there is no whole one."""
        rows: list[list[Datum]] = []
        try:
            while len(rows) < _SLOW_ROWS and (row := self._row(last=last)) is not None:
                self._scanner.learn(row)
                rows.append(row)
        except _Short:
            if not rows:
                raise
        return self._target.batch(rows) if rows else None

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
