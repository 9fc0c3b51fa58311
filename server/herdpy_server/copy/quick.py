"""Text and CSV by columns: pyarrow's CSV reader, where it and PostgreSQL surely read the same.

Beside ``textual``. What is let through: whole lines that end alike, no end-of-data marker, quotes only
around whole fields, escapes of the text format only within fields. All else is left to ``records``.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv

from herdpy_server.copy.columns_in import column_from_text
from herdpy_server.copy.records import CRLF, END, LF, LineCutter, unescape
from herdpy_server.copy.target import Array, CopyTarget
from herdpy_sql.errors import SqlError
from herdpy_sql.values.strings import text_of

pc: Any = pyarrow.compute
csv: Any = pyarrow.csv

_LEAST_BYTES = 512  # of less, line by line is as fast


class QuickReader:
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
                strings = _unescaped(strings)
            array = column_from_text(strings, sql_type, self._target.zone)
            if array is None:
                return None
            arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, schema=self._target.schema)


def _unescaped(strings: Array) -> Array:
    """Fields of the text format as they were meant; SqlError when one is then no text."""
    data = strings.buffers()[2]
    if data is None or b"\\" not in data.to_pybytes():
        return strings
    escaped = pc.match_substring(strings, "\\").fill_null(False)
    meant = [text_of(unescape(text.encode())) for text in strings.filter(escaped).to_pylist()]
    return pc.replace_with_mask(strings, escaped, pa.array(meant, pa.string()))
