"""COPY's text and CSV formats to Arrow batches: quickly where it is safe, else exactly.

Data is gathered to about a megabyte and cut after its last whole line. ``quick`` then tries to read all of
it by columns; where it will not (or the data is wrong), ``records`` cuts line by line and every value goes
through its type's input function, which also finds the error with its line and column.
"""

from __future__ import annotations

import codecs
import sys
from collections.abc import Sequence

import pyarrow as pa

from herdpy.codec.arrow import datums_to_array
from herdpy.codec.kinds import Datum
from herdpy_server.copy.quick import QuickReader
from herdpy_server.copy.records import FieldCutter, LineCutter
from herdpy_server.copy.target import CopyTarget
from herdpy_server.wire.formats import decoder
from herdpy_sql.errors import SqlError
from herdpy_sql.values.strings import text_of

GATHERED_BYTES = 1 << 19
_BATCH_ROWS = 16_384


class TextualReader:
    """Reads text or CSV."""

    def __init__(self, target: CopyTarget) -> None:
        options = target.options
        self._target = target
        self._lines = LineCutter(options)
        self._fields = FieldCutter(options)
        self._quick = QuickReader(target)
        self._decoders = [decoder(sql_type, False, target.zone) for sql_type in target.types]
        self._recode = None
        if options.encoding != "utf-8":
            self._recode = codecs.getincrementaldecoder(options.encoding)()
        self._pieces: list[bytes] = []
        self._gathered = 0
        self._wanted = GATHERED_BYTES
        self._line = 0  # lines read so far
        self._header = bool(options.header)

    def feed(self, data: bytes) -> Sequence[pa.RecordBatch]:
        """See target.Reader."""
        if self._lines.ended:
            return ()
        if self._recode is not None:
            data = self._recoded(data, final=False)
        self._pieces.append(data)
        self._gathered += len(data)
        return self._read(last=False) if self._gathered >= self._wanted else ()

    def finish(self) -> Sequence[pa.RecordBatch]:
        """See target.Reader."""
        if self._lines.ended:
            return ()
        if self._recode is not None:
            self._pieces.append(self._recoded(b"", final=True))
        return self._read(last=True)

    def _recoded(self, data: bytes, *, final: bool) -> bytes:
        assert self._recode is not None
        try:
            return self._recode.decode(data, final).encode()
        except UnicodeDecodeError as error:
            name = self._target.options.encoding_name.upper()
            shown = " ".join(f"0x{byte:02x}" for byte in error.object[error.start : error.end])
            wrong = SqlError("22021", f'invalid byte sequence for encoding "{name}": {shown}')
            raise self._target.at_line(wrong, self._line + 1) from None

    def _read(self, *, last: bool) -> list[pa.RecordBatch]:
        data = b"".join(self._pieces)
        found: list[pa.RecordBatch] = []
        start = 0
        if self._header:
            start = self._skip_header(data, last=last)
        if not self._header and not self._lines.ending:
            start = self._slowly(data, start, found, last=last, most=1)  # learns how lines end
        if not self._header:
            stop, batch = self._quick.read(data, start, self._lines)
            if batch is not None:
                found.append(batch)
                self._line += data.count(b"\n", start, stop)
                start = stop
            # The rest of data that went quickly is a piece of a line: let it grow.
            if batch is None or last:
                start = self._slowly(data, start, found, last=last)
        rest = data[start:]
        if len(rest) > self._target.max_record_bytes:
            raise self._target.too_long(self._line + 1)
        self._pieces, self._gathered = [rest], len(rest)
        self._wanted = max(GATHERED_BYTES, 2 * len(rest))
        return found

    def _skip_header(self, data: bytes, *, last: bool) -> int:
        """Where the second line starts; 0 when the first is not complete."""
        line = self._cut(data, 0, last=last)
        if line is None:
            return 0
        self._header = False
        text, following, newlines = line
        self._line += 1 + newlines
        self._check_text(text)
        if self._target.options.header == "match":
            self._match(text)
        return following

    def _match(self, line: bytes) -> None:
        names = [name for name, _ in self._target.columns]
        options = self._target.options
        try:
            fields = self._fields.cut(line)
        except SqlError as error:
            raise self._at_line(error, line) from None
        if len(fields) != len(names):
            message = f"wrong number of fields in header line: got {len(fields)}, expected {len(names)}"
            raise self._at_line(SqlError("22P04", message), line)
        for number, (field, name) in enumerate(zip(fields, names, strict=True), 1):
            if field is None:
                got = f'null value ("{options.null}")'
            elif text_of(field) != name:
                got = f'"{text_of(field)}"'
            else:
                continue
            message = f'column name mismatch in header line field {number}: got {got}, expected "{name}"'
            raise self._at_line(SqlError("22P04", message), line)

    def _cut(self, data: bytes, start: int, *, last: bool) -> tuple[bytes, int, int] | None:
        try:
            return self._lines.cut(data, start, last=last)
        except SqlError as error:
            raise self._target.at_line(error, self._line + 1 + self._lines.newlines) from None

    def _slowly(
        self, data: bytes, start: int, found: list[pa.RecordBatch], *, last: bool, most: int = sys.maxsize
    ) -> int:
        """Read ``most`` lines one by one; gives where what is left starts."""
        rows: list[list[Datum]] = []
        while start < len(data):
            cut = self._cut(data, start, last=last)
            if cut is None:
                break
            line, following, newlines = cut
            if self._lines.ended and not line:
                start = len(data)
                break
            self._line += 1 + newlines
            if following - start > self._target.max_record_bytes:
                raise self._target.too_long(self._line)
            rows.append(self._row(line))
            start = following
            most -= 1
            if not most:
                break
            if len(rows) == _BATCH_ROWS:
                found.append(self._batch(rows))
                rows = []
        if rows:
            found.append(self._batch(rows))
        return start

    def _row(self, line: bytes) -> list[Datum]:
        target = self._target
        self._check_text(line)
        try:
            fields = self._fields.cut(line)
        except SqlError as error:
            raise self._at_line(error, line) from None
        if len(fields) > len(self._decoders):
            raise self._at_line(SqlError("22P04", "extra data after last expected column"), line)
        row: list[Datum] = []
        for place, (field, decode) in enumerate(zip(fields, self._decoders, strict=False)):
            if field is None:
                row.append(None)
                continue
            try:
                row.append(decode(field))
            except SqlError as error:
                raise self._at_column(error, place, field) from None
        if len(fields) < len(self._decoders):
            name = target.columns[len(fields)][0]
            raise self._at_line(SqlError("22P04", f'missing data for column "{name}"'), line)
        return row

    def _check_text(self, line: bytes) -> None:
        if not line.isascii() or b"\0" in line:
            try:
                text_of(line)
            except SqlError as error:
                raise self._target.at_line(error, self._line) from None

    def _at_line(self, error: SqlError, line: bytes) -> SqlError:
        return self._target.at_line(error, self._line, line.decode(errors="replace"))

    def _at_column(self, error: SqlError, place: int, field: bytes) -> SqlError:
        return self._target.at_column(error, self._line, place, field.decode(errors="replace"))

    def _batch(self, rows: list[list[Datum]]) -> pa.RecordBatch:
        columns = list(zip(*rows, strict=True))
        arrays = [
            datums_to_array(sql_type.field, column, sql_type.precision)
            for sql_type, column in zip(self._target.types, columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._target.schema)
