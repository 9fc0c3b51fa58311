"""What COPY copies and how, and what every format's reader and writer is. The bottom of ``copy``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from herdpy.codec.arrow import arrow_type, datums_to_array
from herdpy.codec.kinds import Datum
from herdpy_sql.errors import SqlError
from herdpy_sql.plan.copying import CopyOptions
from herdpy_sql.types import SqlType
from herdpy_sql.values.styles import PLAIN, Style

Array = Any  # pyarrow's stubs know arrays by element type, and these functions take any

MAX_RECORD_BYTES = 64 << 20
"""The longest line, row or Arrow message that is read."""

_SHOWN = 100  # bytes of a value or line that an error shows


@dataclass(frozen=True)
class CopyTarget:
    """What is copied, and how.

    Attributes:
        name: of the table, for errors.
        columns: name and type of each column of the data, in order.
        options: the format and its characters.
        style: how the session reads and writes texts.
        max_record_bytes: see MAX_RECORD_BYTES.
    """

    name: str
    columns: tuple[tuple[str, SqlType], ...]
    options: CopyOptions = field(default_factory=CopyOptions)
    style: Style = PLAIN
    max_record_bytes: int = MAX_RECORD_BYTES

    @property
    def types(self) -> tuple[SqlType, ...]:
        """Of the columns."""
        return tuple(sql_type for _, sql_type in self.columns)

    @property
    def schema(self) -> pa.Schema:
        """Of the batches that a reader gives and a writer takes."""
        return pa.schema([pa.field(name, arrow_type(t.field, t.precision)) for name, t in self.columns])

    def batch(self, rows: list[list[Datum]]) -> pa.RecordBatch:
        """Rows, at least one, as a batch."""
        arrays = [
            datums_to_array(sql_type.field, column, sql_type.precision)
            for sql_type, column in zip(self.types, zip(*rows, strict=True), strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def at_line(self, error: SqlError, line: int, shown: str | None = None) -> SqlError:
        """``error`` with the line that it is in, as PostgreSQL's CONTEXT says it."""
        where = f"COPY {self.name}, line {line}"
        error.fields["where"] = where if shown is None else f'{where}: "{_cut(shown)}"'
        return error

    def at_column(self, error: SqlError, line: int, column: int, shown: str | None) -> SqlError:
        """``error`` with the line, the column and its value."""
        where = f"COPY {self.name}, line {line}, column {self.columns[column][0]}"
        error.fields["where"] = where if shown is None else f'{where}: "{_cut(shown)}"'
        return error

    def too_long(self, line: int) -> SqlError:
        """The error for a record that does not end."""
        error = SqlError("54000", f"COPY record is longer than {self.max_record_bytes} bytes")
        return self.at_line(error, line)


def _cut(text: str) -> str:
    data = text.encode()
    return text if len(data) <= _SHOWN else data[:_SHOWN].decode(errors="ignore") + "..."


class CopyReader(Protocol):
    """Reads data that comes in pieces cut anywhere."""

    def feed(self, data: bytes) -> Sequence[pa.RecordBatch]:
        """Take the next piece; gives the rows that are complete, perhaps none yet. SqlError 22P04 ..."""

    def finish(self) -> Sequence[pa.RecordBatch]:
        """There is no more data: the rows that are left."""


class CopyWriter(Protocol):
    """Writes batches; each piece is to be one message."""

    def start(self, schema: pa.Schema) -> Sequence[bytes]:
        """What comes before all rows."""

    def batch(self, batch: pa.RecordBatch) -> Array | Sequence[bytes]:
        """The pieces of a batch: a list, or an Arrow binary array."""

    def end(self) -> Sequence[bytes]:
        """What comes after all rows."""
