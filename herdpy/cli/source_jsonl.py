"""JSON lines in blocks: an object a line, its names the columns; a missing name is NULL.

Arrow's JSON reader takes the blocks whose columns it reads as PostgreSQL would; the others are
decoded line by line. Values of JSON columns keep their text as it stands in the file.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
from pyarrow import json as arrow_json

from herdpy.cli.errors import CliError
from herdpy.cli.source import Array, Misfit, Position, ReadOptions, SourceRecord, TextFile

if TYPE_CHECKING:
    from herdpy.cli.source import TargetField

_ROW = msgspec.json.Decoder(dict[str, msgspec.Raw])
_FAST = {"boolean", "smallint", "integer", "bigint", "double precision", "text"}


class JsonlSource:
    """A file of JSON lines. Its columns are the names that its first ``sample_bytes`` use."""

    def __init__(self, path: Path, options: ReadOptions) -> None:
        """Raise CliError when there is nothing in the file, or its first line is no object."""
        self.path = path
        self.options = options
        self._file: TextFile | None = None
        self._kinds = self._look()

    @property
    def names(self) -> list[str]:
        """The columns' names, in the order in which they first occur."""
        return list(self._kinds)

    def infer(self) -> list[str]:
        """A SQL type for each column."""
        return [_sql_type(kinds) for kinds in self._kinds.values()]

    def blocks(self, start: Position) -> Iterator[JsonlBlock]:
        """The blocks from ``start``."""
        at = start
        self._file = file = TextFile(self.path, at.offset)
        try:
            rest = b""
            while True:
                new = file.read(self.options.block_bytes)
                data = rest + new
                if not data:
                    return
                cut = data.rfind(b"\n") + 1 if new else len(data)
                if cut:
                    block = JsonlBlock(self, data[:cut], at)
                    yield block
                    at = block.end
                rest = data[cut:]
        finally:
            file.close()

    def progress(self) -> tuple[int, int]:
        """Bytes of the file read so far, and its size."""
        return (self._file.tell() if self._file else 0), self.path.stat().st_size

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
        self._source = source
        self._data = data
        self._start = start
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


def _sql_type(kinds: set[str]) -> str:
    found = kinds - {"null"}
    if len(found) == 1:
        return next(iter(found))
    for wide in ("double precision", "numeric"):
        if found and found <= {"bigint", wide}:
            return wide
    return "json" if "json" in found else "text"
