"""CSV files (RFC 4180) and JSON lines in blocks of records. Above ``source``.

Arrow reads CSV, and a small scanner finds where records end. Of JSON lines each is an object, its names the
columns; a missing name is NULL.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec
import pyarrow as pa
from pyarrow import csv
from pyarrow import json as arrow_json

from herdpy.cli.errors import CliError
from herdpy.cli.source import Array, Misfit, Position, ReadOptions, RecordBlock, SourceRecord, TextFile

if TYPE_CHECKING:
    from herdpy.cli.source import TargetField

_RECORD_LIMIT = 256 << 20
_LEADING_ZERO = r"^[+-]?0[0-9]"
_BOM = b"\xef\xbb\xbf"


Block = TypeVar("Block", bound=RecordBlock)


class TextPieces:
    """Cuts a text file into pieces of whole records.

    Args:
        last_end: how many of these bytes are whole records, where the file goes on after them.
        hint: where a record does not end.
    """

    def __init__(
        self, path: Path, block_bytes: int, last_end: Callable[[bytes], int], hint: str | None
    ) -> None:
        self._path = path
        self._block_bytes = block_bytes
        self._last_end = last_end
        self._hint = hint
        self._file: TextFile | None = None

    def blocks(self, start: Position, make: Callable[[bytes, Position], Block]) -> Iterator[Block]:
        """What ``make`` makes of each piece and its position. CliError for a record that is too long."""
        at = start
        self._file = file = TextFile(self._path, at.offset)
        try:
            rest = b""
            while True:
                new = file.read(self._block_bytes)
                data = rest + new
                if not new and not data.strip():
                    return
                cut = self._last_end(data) if new else len(data)
                if cut:
                    block = make(data[:cut], at)
                    yield block
                    at = block.end
                elif len(data) > _RECORD_LIMIT:
                    raise CliError(
                        f"{self._path}:{at.line}: a record that does not end within {len(data):,} bytes",
                        hint=self._hint,
                    )
                rest = data[cut:]
        finally:
            file.close()

    def progress(self) -> tuple[int, int]:
        """Bytes of the file read so far, and its size."""
        return (self._file.tell() if self._file else 0), self._path.stat().st_size

    def close(self) -> None:
        """Close the file, if it is open."""
        if self._file is not None:
            self._file.close()


class CsvSource:
    """A CSV file, its first line the columns' names unless ``options.header`` is off."""

    def __init__(self, path: Path, options: ReadOptions) -> None:
        """Raise CliError when there is no header to be read, or a name stands in it twice."""
        self.path = path
        self.options = options
        self._pieces = TextPieces(path, options.block_bytes, self._last_end, "A quote that is never closed?")
        mark = re.escape(options.delimiter.encode())
        self._quoted = re.compile(rb"(?:(?<=[\r\n" + mark + rb'])|\A)"[^"]*(?:""[^"]*)*(")?')
        file = TextFile(path)
        try:
            start = self._begin(file.read(options.block_bytes))
        finally:
            file.close()
        self._start = start

    @property
    def names(self) -> list[str]:
        """The columns' names."""
        return self._names

    def infer(self) -> list[str]:
        """A SQL type for each column, from the first ``options.sample_bytes`` of the file."""
        found: list[str | None] = [None] * len(self._names)
        for block in self.blocks(Position()):
            found = [_wider(a, b) for a, b in zip(found, block.infer(), strict=True)]
            if block.end.offset >= self.options.sample_bytes:
                break
        self._pieces.close()
        return [kind or "text" for kind in found]

    def blocks(self, start: Position) -> Iterator[CsvBlock]:
        """The blocks from ``start``. CliError for a record longer than any could be (an open quote)."""
        first = start if start.offset else self._start
        yield from self._pieces.blocks(first, lambda data, at: CsvBlock(self, data, at))

    def progress(self) -> tuple[int, int]:
        """Bytes of the file read so far, and its size."""
        return self._pieces.progress()

    def _begin(self, head: bytes) -> Position:
        """Read the columns' names; returns where the first record begins."""
        skip = len(_BOM) if head.startswith(_BOM) else 0
        first = next(scan(_decoded(head[skip:]), self.options.delimiter), None)
        if first is None:
            raise CliError(f"{self.path} is empty", hint="A CSV file begins with a line of column names.")
        cells, text = first
        if not self.options.header:
            self._names = [f"column{i}" for i in range(1, len(cells) + 1)]
            return Position(skip, 1, 0)
        self._names = [cell.strip() for cell, _ in cells]
        if len(set(self._names)) < len(self._names) or "" in self._names:
            raise CliError(
                f"{self.path}: the first line is no list of column names: {text.strip()[:100]}",
                hint="--no-header if the file has none.",
            )
        length = len(text.encode(errors="surrogateescape"))
        return Position(skip + length, 1 + text.count("\n"), 0)

    def _last_end(self, data: bytes) -> int:
        """Return how many bytes of ``data`` are whole records."""
        end = data.rfind(b"\n") + 1
        if b'"' not in data:
            return end
        spans = [(found.start(), found.end(), found[1] is not None) for found in self._quoted.finditer(data)]
        for begin, stop, closed in reversed(spans):
            if end > stop and closed:
                break  # the newline stands after the last quoted field
            end = data.rfind(b"\n", 0, begin) + 1
        return end


class CsvBlock:
    """Whole records of a CSV file."""

    def __init__(self, source: CsvSource, data: bytes, start: Position) -> None:
        self._source, self._data, self._start = source, data, start
        self._rows: int | None = None

    @property
    def end(self) -> Position:
        """Where the next block begins; known once the block has been read."""
        assert self._rows is not None
        start = self._start
        return Position(
            start.offset + len(self._data), start.line + self._data.count(b"\n"), start.rows + self._rows
        )

    def infer(self) -> list[str | None]:
        """A SQL type for each column; None where there are only NULLs."""
        try:
            table = self._read(None)
            numbers = [pa.types.is_integer(column.type) for column in table.columns]
            texts = self._read(dict.fromkeys(self._source.names, pa.string())) if any(numbers) else table
        except pa.ArrowInvalid:  # a line too long or too short: import will say which
            good = [record.values for record in self.records(()) if record.error is None]
            return ["text" if good else None] * len(self._source.names)
        return [_sql_type(column, text) for column, text in zip(table.columns, texts.columns, strict=True)]

    def arrays(self, fields: Sequence[TargetField]) -> list[Array]:
        """The columns; Misfit when a value or a line does not fit."""
        names = self._source.names
        types: dict[str, pa.DataType] = dict.fromkeys(names, pa.string())
        types |= {names[field.place]: field.text_type or pa.string() for field in fields}
        try:
            table = self._read(types)
        except pa.ArrowInvalid as error:
            raise Misfit(str(error)) from error
        return [field.fitted(table.column(field.place)) for field in fields]

    def records(self, fields: Sequence[TargetField]) -> Iterator[SourceRecord]:
        """The records one by one, with their lines."""
        line, count = self._start.line, 0
        width = len(self._source.names)
        nulls = set(self._source.options.nulls)
        for cells, text in scan(_decoded(self._data), self._source.options.delimiter):
            begin, line = line, line + text.count("\n")
            if len(cells) == 1 and cells[0] == ("", False) and width > 1:
                continue  # a blank line
            count += 1
            values = [None if not quoted and cell in nulls else cell for cell, quoted in cells]
            error = None if len(cells) == width else f"{len(cells)} fields, and the file has {width} columns"
            if error is None and not _is_utf8(text):
                error = "not UTF-8"
            yield SourceRecord(begin, values, text, error)
        self._rows = count

    def _read(self, types: Mapping[str, pa.DataType] | None) -> pa.Table:
        options = self._source.options
        names = self._source.names
        table = csv.read_csv(
            io.BytesIO(self._data),
            read_options=csv.ReadOptions(
                column_names=names, use_threads=False, block_size=max(len(self._data), 1) + 1
            ),
            parse_options=csv.ParseOptions(
                delimiter=options.delimiter, newlines_in_values=True, ignore_empty_lines=len(names) > 1
            ),
            convert_options=csv.ConvertOptions(
                column_types=None if types is None else dict(types),
                null_values=list(options.nulls),
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                true_values=["true", "True", "TRUE"] if types is None else ["true", "True", "TRUE", "t", "1"],
                false_values=(
                    ["false", "False", "FALSE"] if types is None else ["false", "False", "FALSE", "f", "0"]
                ),
            ),
        )
        self._rows = table.num_rows
        return table


def scan(text: str, delimiter: str) -> Iterator[tuple[list[tuple[str, bool]], str]]:
    """Cut CSV into records: cells, each with whether it was quoted, and the record's own text."""
    mark = re.escape(delimiter)
    cell = re.compile(rf'(?:"((?:[^"]|"")*)"([^{mark}\r\n]*)|([^{mark}\r\n]*))({mark}|\r?\n|\r|\Z)')
    at = begin = 0
    cells: list[tuple[str, bool]] = []
    while at < len(text):
        found = cell.match(text, at)
        if found is None:  # a quote that is never closed: the rest is one cell
            cells.append((text[at:], True))
            at = len(text)
        else:
            quoted, after, plain, end = found.groups()
            cells.append((plain, False) if quoted is None else (quoted.replace('""', '"') + after, True))
            at = found.end()
            if end == delimiter and at < len(text):
                continue
            if end == delimiter:
                cells.append(("", False))
        yield cells, text[begin:at]
        cells, begin = [], at


def _decoded(data: bytes) -> str:
    return data.decode(errors="surrogateescape")


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # what could not be decoded stands as lone surrogates
        return False
    return True


def _sql_type(column: Array, texts: Array) -> str | None:
    import pyarrow.compute as pc

    kind = column.type
    if column.null_count == len(column):
        return None
    if pa.types.is_integer(kind):
        # 007 is a code, not a number: its zeros would be lost.
        padded = pc.any(pc.match_substring_regex(texts, _LEADING_ZERO)).as_py()
        return "text" if padded else "bigint"
    if pa.types.is_floating(kind):
        return "double precision"
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_date(kind):
        return "date"
    if pa.types.is_time(kind):
        return "time"
    if pa.types.is_timestamp(kind):
        return "timestamptz" if kind.tz else "timestamp"
    return "text"


def _wider(a: str | None, b: str | None) -> str | None:
    """The type that holds the values of both."""
    if a is None or b is None or a == b:
        return b if a is None else a
    for narrow, wide in (("bigint", "double precision"), ("date", "timestamp")):
        if {a, b} == {narrow, wide}:
            return wide
    return "text"


_ROW = msgspec.json.Decoder(dict[str, msgspec.Raw])
_FAST = {"boolean", "smallint", "integer", "bigint", "double precision", "text"}


class JsonlSource:
    """A file of JSON lines. Its columns are the names that its first ``sample_bytes`` use."""

    def __init__(self, path: Path, options: ReadOptions) -> None:
        """Raise CliError when there is nothing in the file, or its first line is no object."""
        self.path = path
        self.options = options
        self._pieces = TextPieces(path, options.block_bytes, lambda data: data.rfind(b"\n") + 1, None)
        self._kinds = self._look()

    @property
    def names(self) -> list[str]:
        """The columns' names, in the order in which they first occur."""
        return list(self._kinds)

    def infer(self) -> list[str]:
        """A SQL type for each column."""
        return [_json_sql_type(kinds) for kinds in self._kinds.values()]

    def blocks(self, start: Position) -> Iterator[JsonlBlock]:
        """The blocks from ``start``. CliError for a line longer than any could be."""
        yield from self._pieces.blocks(start, lambda data, at: JsonlBlock(self, data, at))

    def progress(self) -> tuple[int, int]:
        """Bytes of the file read so far, and its size."""
        return self._pieces.progress()

    def _look(self) -> dict[str, set[str]]:
        file = TextFile(self.path)
        try:
            head = file.read(self.options.sample_bytes)
        finally:
            file.close()
        lines = head.split(b"\n")
        if len(lines) > 1 and len(head) == self.options.sample_bytes:
            lines.pop()
        kinds: dict[str, set[str]] = {}
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line, parse_float=Decimal)
            except ValueError as error:
                if kinds:
                    continue  # import itself will name the line
                raise CliError(
                    f"{self.path}:{number}: not JSON: {error}", hint="One JSON object a line is needed."
                ) from error
            if not isinstance(row, dict):
                if kinds:
                    continue
                raise CliError(f"{self.path}:{number}: one JSON object a line is needed")
            for name, value in row.items():
                kinds.setdefault(name, set()).add(_kind(value))
        if not kinds:
            raise CliError(f"{self.path} is empty")
        return kinds


class JsonlBlock:
    """Whole lines."""

    def __init__(self, source: JsonlSource, data: bytes, start: Position) -> None:
        self._source, self._data, self._start = source, data, start
        lines = data.count(b"\n") + (not data.endswith(b"\n"))
        rows = sum(1 for line in data.split(b"\n") if line.strip())
        self.end = Position(start.offset + len(data), start.line + lines, start.rows + rows)

    def arrays(self, fields: Sequence[TargetField]) -> list[Array]:
        """The columns; Misfit when a line or value does not fit."""
        names = self._source.names
        if all(field.type.base.value in _FAST for field in fields):
            schema = pa.schema([(names[f.place], f.text_type or pa.string()) for f in fields])
            try:
                table = arrow_json.read_json(
                    io.BytesIO(self._data),
                    read_options=arrow_json.ReadOptions(use_threads=False, block_size=len(self._data) + 1),
                    parse_options=arrow_json.ParseOptions(
                        explicit_schema=schema, unexpected_field_behavior="error"
                    ),
                )
            except pa.ArrowInvalid as error:
                raise Misfit(str(error)) from error
            return [field.fitted(table.column(names[field.place])) for field in fields]
        columns: list[list[object]] = [[] for _ in names]
        for record in self.records(fields):
            if record.error:
                raise Misfit(record.error)
            for column, value in zip(columns, record.values, strict=True):
                column.append(value)
        return [field.array(columns[field.place]) for field in fields]

    def records(self, fields: Sequence[TargetField]) -> Iterator[SourceRecord]:
        """The lines one by one."""
        names = self._source.names
        bases = {field.place: field.type.base.value for field in fields}
        readers = [_READERS.get(bases.get(place, ""), _value) for place in range(len(names))]
        known = set(names)
        for number, line in enumerate(self._data.split(b"\n"), self._start.line):
            if not line.strip():
                continue
            text = line.decode(errors="surrogateescape")
            try:
                raw = _ROW.decode(line)
                values = [
                    None if (found := raw.get(name)) is None else read(bytes(found))
                    for name, read in zip(names, readers, strict=True)
                ]
            except (msgspec.DecodeError, ValueError) as error:
                yield SourceRecord(number, (), text, f"not a JSON object: {error}")
                continue
            stranger = next((name for name in raw if name not in known), None)
            yield SourceRecord(
                number, values, text, f"no column of the table is called {stranger!r}" if stranger else None
            )


def _value(text: bytes) -> object:
    """The Python object of one JSON value; objects and lists stay text."""
    first = text[:1]
    if first == b'"':
        return json.loads(text)
    if first in b"{[":
        return text.decode()
    if text == b"null":
        return None
    if text in {b"true", b"false"}:
        return text == b"true"
    return int(text) if text.removeprefix(b"-").isdigit() else Decimal(text.decode())


def _as_text(text: bytes) -> object:
    """For a column of text: what is no string stays as it is written."""
    return json.loads(text) if text[:1] == b'"' else None if text == b"null" else text.decode()


def _as_json(text: bytes) -> object:
    """For a JSON column: the value as it is written. null is SQL's NULL, as in every other column."""
    return None if text == b"null" else text.decode()


_READERS: dict[str, Callable[[bytes], object]] = {
    "text": _as_text,
    "character varying": _as_text,
    "character": _as_text,
    "json": _as_json,
}


def _kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "bigint" if -(2**63) <= value < 2**63 else "numeric"
    if isinstance(value, Decimal):
        return "double precision"
    return "text" if isinstance(value, str) else "json"


def _json_sql_type(kinds: set[str]) -> str:
    found = kinds - {"null"}
    if len(found) == 1:
        return next(iter(found))
    for wide in ("double precision", "numeric"):
        if found and found <= {"bigint", wide}:
            return wide
    return "json" if "json" in found else "text"
