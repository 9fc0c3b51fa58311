"""COPY's text and CSV formats: data to Arrow batches, and batches to lines.

Beside ``binary`` and ``arrow``, above ``target``. Reading: data is gathered to about a megabyte and cut after
its last whole line. :class:`ColumnarReader` then tries to read all of it by columns, with pyarrow's CSV
reader, where that and PostgreSQL surely read the same: whole lines that end alike, no end-of-data marker,
quotes only around whole fields, escapes of the text format only within fields. Where it declines (or the
data is wrong), :class:`LineCutter` and :class:`FieldCutter` cut line by line, slowly and exactly, and every
value goes through its type's input function, which also finds the error with its line and column.

Writing: whole columns become text, are quoted or escaped where a value needs it, and are joined to lines; a
line is never a Python object.

Rules: PostgreSQL 15, src/backend/commands/copyfromparse.c (CopyReadLineText, CopyReadAttributesText,
CopyReadAttributesCSV) and copyto.c.
"""

from __future__ import annotations

import codecs
import re
import sys
from codecs import BOM_UTF8
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from herdpy.codec.kinds import Datum
from herdpy.imports import lazy_module
from herdpy_server.copy.target import Array, CopyTarget
from herdpy_server.wire.columns import column_from_text, column_to_text
from herdpy_server.wire.formats import decoder
from herdpy_sql.errors import SqlError
from herdpy_sql.plan.copying import CopyOptions
from herdpy_sql.values.forms import FORMS
from herdpy_sql.values.strings import text_of

LF, CR, CRLF = b"\n", b"\r", b"\r\n"
_ESCAPED_LETTERS = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
_ESCAPE = re.compile(rb"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{1,2})|(.)|$)", re.DOTALL)
END = b"\\."
pc: Any = lazy_module("pyarrow.compute")
csv: Any = lazy_module("pyarrow.csv")
_LEAST_BYTES = 512  # of less, line by line is as fast
GATHERED_BYTES = 1 << 19
_BATCH_ROWS = 16_384
_NEVER_SPECIAL = frozenset(base for base, forms in FORMS.items() if forms.unquoted)
_LETTERS_TO_ESCAPE = (("\b", "b"), ("\f", "f"), ("\n", "n"), ("\r", "r"), ("\t", "t"), ("\v", "v"))
# Characters that text of those types may have, any of which may be a delimiter, a quote or in NULL's text.
_OF_VALUES = frozenset("0123456789+-.:etfNaInity BC abcdf")


class LineCutter:
    """Finds the ends of lines in a growing buffer.

    Attributes:
        ending: the bytes that end lines, learnt from the first one; b"" before.
        ended: the end-of-data marker has been seen.
        newlines: within the line that was looked at last.
    """

    def __init__(self, options: CopyOptions) -> None:
        self.is_csv = options.format == "csv"
        self.ending = b""
        self.ended = False
        self.newlines = 0
        quote, escape = options.quote.encode(), options.escape.encode()
        self._quote = quote
        self._escape = escape if self.is_csv and escape != quote else b""
        special = b"\r\n" + (quote + self._escape if self.is_csv else b"\\")
        self._special = re.compile(b"[" + re.escape(special) + b"]")

    def cut(self, data: bytes, start: int, *, last: bool) -> tuple[bytes, int, int] | None:
        """The line at ``start``: its bytes, where the next starts, and newlines within it.

        None when it is not complete (``last``: there is no more data, so it is what there is).
        SqlError 22P04 for line ends that differ and a corrupt end-of-data marker.
        """
        self.newlines = 0
        if self.is_csv and data.startswith(END, start):
            found = self._csv_marker(data, start)
            if found is not None:
                return found
            if not last and len(data) < start + 4:
                return None
        at, quoted = start, False
        while match := self._special.search(data, at):
            at, byte = match.start(), match.group()
            if byte in {LF, CR} and not quoted:
                end = self._end(data, at, byte, last=last)
                return None if end is None else (data[start:at], end, self.newlines)
            if byte == self._escape and quoted:
                if at + 1 >= len(data) and not last:
                    return None
                at += 2 if data[at + 1 : at + 2] in {self._escape, self._quote} else 1
            elif self.is_csv:
                if byte == self._quote:
                    quoted = not quoted
                elif byte == (LF if self.ending == LF else CR):  # as PostgreSQL counts lines
                    self.newlines += 1
                at += 1
            else:
                if at + 1 >= len(data):
                    break
                if data[at + 1 : at + 2] == b".":
                    return self._text_marker(data, start, at, last=last)
                at += 2
        if not last:
            return None
        return data[start:], len(data), self.newlines

    def _end(self, data: bytes, at: int, byte: bytes, *, last: bool) -> int | None:
        """Where the next line starts; None when the byte after must be known first."""
        if byte == LF:
            if self.ending in {CR, CRLF}:
                raise self._mixed("newline", "\\n")
            self.ending = LF
            return at + 1
        if self.ending in {b"", CRLF}:
            if at + 1 >= len(data) and not last:
                return None
            if data[at + 1 : at + 2] == LF:
                self.ending = CRLF
                return at + 2
            if self.ending == CRLF:
                raise self._mixed("carriage return", "\\r")
            self.ending = CR
        elif self.ending == LF:
            raise self._mixed("carriage return", "\\r")
        return at + 1

    def _mixed(self, what: str, escape: str) -> SqlError:
        if self.is_csv:
            return SqlError(
                "22P04",
                f"unquoted {what} found in data",
                hint=f"Use quoted CSV field to represent {what}.",
            )
        return SqlError("22P04", f"literal {what} found in data", hint=f'Use "{escape}" to represent {what}.')

    def _csv_marker(self, data: bytes, start: int) -> tuple[bytes, int, int] | None:
        """The marker alone on a line of CSV ends the data; with anything else it is data."""
        rest = data[start + 2 : start + 4]
        if self.ending == CRLF and rest:
            if rest[:1] != CR:
                return None
            rest = rest[1:]
        if rest[:1] not in {LF, CR}:
            return None
        if self.ending and rest[:1] != self.ending[-1:]:
            raise SqlError("22P04", "end-of-copy marker does not match previous newline style")
        self.ended = True
        return b"", len(data), 0

    def _text_marker(self, data: bytes, start: int, at: int, *, last: bool) -> tuple[bytes, int, int] | None:
        rest = data[at + 2 : at + 4]
        if len(rest) < max(len(self.ending), 1) and not last:
            return None
        if self.ending == CRLF and rest[:1] == LF:
            raise SqlError("22P04", "end-of-copy marker does not match previous newline style")
        if not _ends_line(rest, self.ending):
            raise SqlError("22P04", "end-of-copy marker corrupt")
        if self.ending and not rest.startswith(self.ending):
            raise SqlError("22P04", "end-of-copy marker does not match previous newline style")
        self.ended = True
        return data[start:at], len(data), 0


def _ends_line(rest: bytes, ending: bytes) -> bool:
    """Whether what comes after a marker is some end of a line; nothing is none."""
    if ending == CRLF:
        return rest[:1] == CR and rest[1:2] in {LF, CR}
    return rest[:1] in {LF, CR}


class FieldCutter:
    """Cuts a line into its fields; None is NULL. SqlError 22P04 and 22021."""

    def __init__(self, options: CopyOptions) -> None:
        self._delimiter = options.delimiter.encode()
        self._null = options.null.encode()
        self._quote, self._escape = options.quote.encode(), options.escape.encode()
        self._not_null, self._force_null = options.force_not_null, options.force_null
        self._plain = re.compile(b"[" + re.escape(self._delimiter + self._quote) + b"]")
        self._quoted = re.compile(b"[" + re.escape(self._escape + self._quote) + b"]")
        self._text_special = re.compile(b"[" + re.escape(self._delimiter) + b"\\\\]")
        self.cut = self._csv if options.format == "csv" else self._text

    def _text(self, line: bytes) -> Sequence[bytes | None]:
        if b"\\" not in line:
            return [None if field == self._null else field for field in line.split(self._delimiter)]
        fields: list[bytes | None] = []
        start = at = 0
        while match := self._text_special.search(line, at):
            if match.group() == b"\\":
                at = match.end() + 1
                continue
            fields.append(self._text_field(line[start : match.start()]))
            start = at = match.end()
        fields.append(self._text_field(line[start:]))
        return fields

    def _text_field(self, raw: bytes) -> bytes | None:
        if raw == self._null:
            return None
        if b"\\" in raw:
            raw = unescape(raw)
            text_of(raw)  # escapes can make what is no text
        return raw

    def _csv(self, line: bytes) -> Sequence[bytes | None]:
        if self._quote not in line:
            fields = line.split(self._delimiter)
            return [self._csv_null(field, i, quoted=False) for i, field in enumerate(fields)]
        found: list[bytes | None] = []
        at = 0
        while True:
            pieces: list[bytes] = []
            quoted = False
            while True:
                match = self._plain.search(line, at)
                if match is None:
                    pieces.append(line[at:])
                    at = -1
                    break
                pieces.append(line[at : match.start()])
                at = match.end()
                if match.group() == self._delimiter:
                    break
                quoted = True
                at = self._until_quote(line, at, pieces)
            found.append(self._csv_null(b"".join(pieces), len(found), quoted=quoted))
            if at < 0:
                return found

    def _until_quote(self, line: bytes, at: int, pieces: list[bytes]) -> int:
        """Add what is quoted from ``at`` on; gives where it goes on after the quote."""
        while match := self._quoted.search(line, at):
            pieces.append(line[at : match.start()])
            at = match.end()
            after = line[at : at + 1]
            if match.group() == self._escape and after and after in {self._escape, self._quote}:
                pieces.append(after)
                at += 1
            elif match.group() == self._quote:
                return at
            else:
                pieces.append(match.group())
        raise SqlError("22P04", "unterminated CSV quoted field")

    def _csv_null(self, value: bytes, place: int, *, quoted: bool) -> bytes | None:
        if value != self._null:
            return value
        if quoted:
            return None if place in self._force_null else value
        return value if place in self._not_null else None


def unescape(raw: bytes) -> bytes:
    """What a field of the text format stands for."""
    return _ESCAPE.sub(_escape_meaning, raw) if b"\\" in raw else raw


def _escape_meaning(match: re.Match[bytes]) -> bytes:
    octal, hexadecimal, letter = match.groups()
    if octal is not None:
        return bytes([int(octal, 8) & 0xFF])
    if hexadecimal is not None:
        return bytes([int(hexadecimal, 16)])
    # PostgreSQL drops a backslash with nothing after it.
    return b"" if letter is None else _ESCAPED_LETTERS.get(letter, letter)


class ColumnarReader:
    """Reads many lines at once, or declines."""

    def __init__(self, target: CopyTarget) -> None:
        options = target.options
        self._target = target
        self._is_csv = options.format == "csv"
        self._delimiter = options.delimiter.encode()
        self._quote = options.quote.encode() if self._is_csv else b""
        self._odd_escape = (
            options.escape.encode() if self._is_csv and options.escape != options.quote else b""
        )
        self._able = bool(target.columns) and not options.force_null and not options.force_not_null
        names = [f"c{place}" for place in range(len(target.columns))]
        self._names = names
        self._convert = csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[options.null],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )

    def read(self, data: bytes, start: int, lines: LineCutter) -> tuple[int, pa.RecordBatch | None]:
        """The rows of the whole lines from ``start`` on, and where they end; None to decline."""
        if not self._able or len(data) - start < _LEAST_BYTES:
            return start, None
        stop = data.rfind(b"\n", start) + 1
        quoted = False
        if self._quote and data.find(self._quote, start) >= 0:
            stop = self._end_of_quoted(data, start)
            quoted = True
        if stop <= start:
            return start, None
        body = data if start == 0 and stop == len(data) else data[start:stop]
        ending = self._ending(body)
        if ending != lines.ending or not self._is_plain(body, ending):
            return start, None
        try:
            batch = self._columns(body, quoted=quoted)
        except (pa.ArrowInvalid, SqlError):
            return start, None
        return (start, None) if batch is None else (stop, batch)

    def _end_of_quoted(self, data: bytes, start: int) -> int:
        """The end of the last line that ends outside quotes; 0 when quotes are not around whole fields."""
        quote = self._quote[0]
        values = np.frombuffer(data, np.uint8)[start:]
        quotes = np.flatnonzero(values == quote)
        ends = np.flatnonzero(values == 0x0A)
        ends = ends[np.searchsorted(quotes, ends) % 2 == 0]
        if not len(ends):
            return 0
        stop = int(ends[-1]) + 1
        quotes = quotes[: int(np.searchsorted(quotes, stop))]
        edges = np.zeros(256, bool)
        edges[[quote, self._delimiter[0], 0x0A, 0x0D]] = True
        before = values[quotes[0::2] - 1]  # of a quote at the very start, some byte: looked at below
        opened = edges[before]
        if len(quotes) and quotes[0] == 0:
            opened[0] = True
        closed = edges[values[quotes[1::2] + 1]]
        return start + stop if bool(opened.all()) and bool(closed.all()) else 0

    def _ending(self, body: bytes) -> bytes | None:
        """How all lines of ``body`` end; None when they differ."""
        returns = body.count(b"\r")
        if not returns:
            return LF
        if returns == body.count(CRLF) == body.count(LF):
            return CRLF
        return None

    def _is_plain(self, body: bytes, ending: bytes) -> bool:
        if b"\0" in body or END in body or body.startswith(BOM_UTF8):
            return False  # pyarrow would drop the byte order mark, which is data
        if len(self._names) > 1 and (body.startswith(ending) or b"\n" + ending in body):
            return False  # an empty line, which pyarrow takes for one of empty fields
        if self._is_csv:
            # With an escape of its own, two quotes in a row are no quote, as they are to pyarrow.
            return not (self._odd_escape and (self._odd_escape in body or 2 * self._quote in body))
        # A backslash before what separates may make data of it, or be data itself.
        return not (b"\\" in body and (b"\\" + self._delimiter in body or b"\\" + ending[:1] in body))

    def _columns(self, body: bytes, *, quoted: bool) -> pa.RecordBatch | None:
        table = csv.read_csv(
            pa.BufferReader(body),
            read_options=csv.ReadOptions(
                use_threads=False, block_size=len(body) + 1, column_names=self._names
            ),
            parse_options=csv.ParseOptions(
                delimiter=self._target.options.delimiter,
                quote_char=self._target.options.quote if quoted else False,
                double_quote=True,
                escape_char=False,
                newlines_in_values=quoted,
                ignore_empty_lines=False,
            ),
            convert_options=self._convert,
        )
        arrays = []
        for column, sql_type in zip(table.columns, self._target.types, strict=True):
            strings = column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
            if not self._is_csv:
                strings = _unescaped_column(strings)
            array = column_from_text(strings, sql_type, self._target.style)
            if array is None:
                return None
            arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, schema=self._target.schema)


def _unescaped_column(strings: Array) -> Array:
    """Fields of the text format as they were meant; SqlError when one is then no text."""
    data = strings.buffers()[2]
    if data is None or b"\\" not in data.to_pybytes():
        return strings
    escaped = pc.match_substring(strings, "\\").fill_null(False)
    meant = [text_of(unescape(text.encode())) for text in strings.filter(escaped).to_pylist()]
    return pc.replace_with_mask(strings, escaped, pa.array(meant, pa.string()))


class TextualReader:
    """Reads text or CSV."""

    def __init__(self, target: CopyTarget) -> None:
        options = target.options
        self._target = target
        self._lines = LineCutter(options)
        self._fields = FieldCutter(options)
        self._by_columns = ColumnarReader(target)
        self._decoders = [decoder(sql_type, False, target.style) for sql_type in target.types]
        self._recode = None
        if options.encoding != "utf-8":
            self._recode = codecs.getincrementaldecoder(options.encoding)()
        self._pieces: list[bytes] = []
        self._gathered = 0
        self._wanted = GATHERED_BYTES
        self._line = 0  # lines read so far
        self._header = bool(options.header)

    def feed(self, data: bytes) -> Sequence[pa.RecordBatch]:
        """See ``CopyReader``."""
        if self._lines.ended:
            return ()
        if self._recode is not None:
            data = self._recoded(data, final=False)
        self._pieces.append(data)
        self._gathered += len(data)
        return self._read(last=False) if self._gathered >= self._wanted else ()

    def finish(self) -> Sequence[pa.RecordBatch]:
        """See ``CopyReader``."""
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
            stop, batch = self._by_columns.read(data, start, self._lines)
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
                found.append(self._target.batch(rows))
                rows = []
        if rows:
            found.append(self._target.batch(rows))
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


class LineWriter:
    """Writes text or CSV; each line is a piece."""

    def __init__(self, target: CopyTarget) -> None:
        self._target = target
        options = target.options
        self._options = options
        self._is_csv = options.format == "csv"
        own = {options.delimiter, options.quote, options.escape} if self._is_csv else {options.delimiter}
        self._plain = _NEVER_SPECIAL if not own & _OF_VALUES else frozenset()
        # A value that is written as NULL is must be quoted to be distinguished.
        self._null_like = bool(set(options.null)) and set(options.null) <= _OF_VALUES

    def start(self, schema: pa.Schema) -> Sequence[bytes]:
        """The header, if there is to be one."""
        del schema
        if not self._options.header:
            return ()
        names = [pa.array([name], pa.string()) for name, _ in self._target.columns]
        written = [
            self._quoted(name, forced=False) if self._is_csv else self._escaped(name) for name in names
        ]
        line = self._options.delimiter.join(array[0].as_py() for array in written) + "\n"
        return [self._recoded(line)]

    def batch(self, batch: pa.RecordBatch) -> Array | Sequence[bytes]:
        """The lines of a batch, as an Arrow array of strings."""
        if not batch.num_columns:
            return [b"\n"] * batch.num_rows
        written = []
        for place, (array, sql_type) in enumerate(zip(batch.columns, self._target.types, strict=True)):
            text = column_to_text(array, sql_type, self._target.style)
            forced = place in self._options.force_quote
            if self._is_csv:
                if forced or self._null_like or sql_type.base not in self._plain:
                    text = self._quoted(text, forced=forced)
            elif sql_type.base not in self._plain:
                text = self._escaped(text)
            written.append(text)
        # The end of the line is joined as one more column, so its delimiter must go: it is joined first.
        last = pc.binary_join_element_wise(
            written[-1], "\n", "", null_handling="replace", null_replacement=self._options.null
        )
        lines = pc.binary_join_element_wise(
            *written[:-1],
            last,
            self._options.delimiter,
            null_handling="replace",
            null_replacement=self._options.null,
        )
        if self._options.encoding != "utf-8":
            return [self._recoded(line) for line in lines.to_pylist()]
        return lines.view(pa.binary())

    def end(self) -> Sequence[bytes]:
        """Nothing."""
        return ()

    def _recoded(self, line: str) -> bytes:
        if self._options.encoding == "utf-8":
            return line.encode()
        try:
            return line.encode(self._options.encoding)
        except UnicodeEncodeError as error:
            name = self._options.encoding_name.upper()
            shown = " ".join(f"0x{byte:02x}" for byte in line[error.start].encode())
            message = f'character with byte sequence {shown} in encoding "UTF8" has no equivalent in encoding'
            raise SqlError("22P05", f'{message} "{name}"') from None

    def _quoted(self, text: Array, *, forced: bool) -> Array:
        """CSV's fields: quoted where they would be read as something else."""
        options = self._options
        if forced:
            needed = None
        else:
            special = "".join(f"\\x{ord(c):02x}" for c in {options.delimiter, options.quote, "\n", "\r"})
            needed = pc.match_substring_regex(text, f"[{special}]")
            needed = pc.or_(needed, pc.equal(text, options.null))
            if len(self._target.columns) == 1:
                needed = pc.or_(needed, pc.equal(text, "\\."))
            if pc.any(needed).as_py() is not True:
                return text
        inner = text
        if options.escape != options.quote:
            inner = pc.replace_substring(inner, options.escape, options.escape * 2)
        inner = pc.replace_substring(inner, options.quote, options.escape + options.quote)
        quoted = pc.binary_join_element_wise(options.quote, inner, options.quote, "")
        return quoted if needed is None else pc.if_else(needed, quoted, text)

    def _escaped(self, text: Array) -> Array:
        """The text format's fields, with backslashes before what would be read as something else."""
        delimiter = self._options.delimiter
        special = "".join(f"\\x{ord(c):02x}" for c in ("\\", delimiter, *(c for c, _ in _LETTERS_TO_ESCAPE)))
        if pc.any(pc.match_substring_regex(text, f"[{special}]")).as_py() is not True:
            return text
        text = pc.replace_substring(text, "\\", "\\\\")
        for character, letter in _LETTERS_TO_ESCAPE:
            text = pc.replace_substring(text, character, "\\" + letter)
        if delimiter not in {character for character, _ in _LETTERS_TO_ESCAPE}:
            text = pc.replace_substring(text, delimiter, "\\" + delimiter)
        return text
