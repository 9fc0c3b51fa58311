"""Where exported rows go: Arrow batches written to a partial file that can be continued.

A :class:`RecordSink` says after each :meth:`~Sink.save` how much of what it wrote is on disk for good; given
that number again, it cuts off what came later and goes on. :meth:`~Sink.finish` moves the whole
under the final name in one step.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.compute
from pyarrow import csv, parquet

from herdpy.cli.source import Array
from herdpy.cli.values import json_names

if TYPE_CHECKING:
    from herdpy_sql.types import SqlType

pc: Any = pyarrow.compute  # its stubs know columns by element type, and these are of any

_SENTINELS = {"date", "timestamp without time zone", "timestamp with time zone"}
_QUOTED = {"bytea", "uuid", "time without time zone", *_SENTINELS}


class RecordSink(Protocol):
    """A file being written."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows."""

    def save(self) -> int:
        """Bring all of it to the disk; returns the mark to continue from."""

    def finish(self, path: Path) -> None:
        """Save, and move the whole to ``path``."""

    def discard(self) -> None:
        """Close it as it is."""


class TextSink:
    """CSV or JSON lines in one partial file. The mark is its length in bytes."""

    def __init__(self, partial: Path, mark: int) -> None:
        self._partial = partial
        self._file: IO[bytes] = partial.open("r+b" if mark and partial.exists() else "wb")
        self._file.truncate(mark)
        self._file.seek(mark)

    def save(self) -> int:
        """Bring all of it to the disk; returns its length."""
        self._file.flush()
        os.fsync(self._file.fileno())
        return self._file.tell()

    def finish(self, path: Path) -> None:
        """Save, and move the file to ``path``."""
        self.save()
        self._file.close()
        replace(self._partial, path)

    def discard(self) -> None:
        """Close it as it is."""
        self._file.close()


class CsvSink(TextSink):
    """CSV with a line of names; NULL is nothing, the empty string is ``""``."""

    def __init__(
        self, partial: Path, mark: int, types: Sequence[SqlType], *, header: bool, names: Sequence[str]
    ) -> None:
        super().__init__(partial, mark)
        self._types = types
        if header and not mark:
            from herdpy.cli.output import csv_line

            self._file.write(csv_line(names).encode())

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        columns = [_readable(kind, column) for kind, column in zip(self._types, batch.columns, strict=True)]
        names = [str(i) for i in range(len(columns))]
        csv.write_csv(
            pa.RecordBatch.from_arrays(columns, names=names),
            self._file,
            csv.WriteOptions(include_header=False, quoting_style="needed"),
        )


class JsonlSink(TextSink):
    """A JSON object a line."""

    def __init__(self, partial: Path, mark: int, types: Sequence[SqlType], names: Sequence[str]) -> None:
        super().__init__(partial, mark)
        self._types = types
        keys = json_names(names)
        self._before = ["{" + key if i == 0 else ", " + key for i, key in enumerate(keys)]

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        parts: list[Any] = []
        for before, kind, column in zip(self._before, self._types, batch.columns, strict=True):
            parts += [before, pc.fill_null(_json_text(kind, column), "null")]
        lines = pc.binary_join_element_wise(*parts, "}\n", "")
        self._file.write("".join(lines.to_pylist()).encode())


class ParquetSink:
    """Parquet in parts, a file each; the mark is how many are whole. At the end they become one."""

    def __init__(self, partial: Path, mark: int) -> None:
        self._partial = partial
        self._parts = mark
        self._writer: parquet.ParquetWriter | None = None
        self._schema: pa.Schema | None = None
        for stale in partial.parent.glob(f"{partial.name}.*.part"):
            if int(stale.name.split(".")[-2]) >= mark:
                stale.unlink()

    def _part(self, number: int) -> Path:
        return self._partial.with_name(f"{self._partial.name}.{number}.part")

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        if self._writer is None:
            self._writer = parquet.ParquetWriter(self._part(self._parts), batch.schema)
        self._writer.write_batch(batch)

    def save(self) -> int:
        """End a part; returns how many there are."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
            sync(self._part(self._parts))
            self._parts += 1
        return self._parts

    def finish(self, path: Path) -> None:
        """Join the parts under ``path``, row group by row group."""
        self.save()
        parts = [self._part(number) for number in range(self._parts)]
        if len(parts) == 1:
            replace(parts[0], path)
            return
        with parquet.ParquetWriter(self._partial, parquet.read_schema(parts[0])) as writer:
            for part in parts:
                file = parquet.ParquetFile(part)
                for group in range(file.num_row_groups):
                    writer.write_table(file.read_row_group(group))
                file.close()
        sync(self._partial)
        replace(self._partial, path)
        for part in parts:
            part.unlink()

    def discard(self) -> None:
        """Leave the part that was begun; a continued export writes it anew."""
        if self._writer is not None:
            self._writer.close()


def sync(path: Path) -> None:
    """Bring a file to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace(source: Path, target: Path) -> None:
    """Rename, and bring the directory to the disk."""
    os.replace(source, target)
    sync(target.parent)


def _readable(kind: SqlType, column: Array) -> Array:
    """The column as Arrow writes it to CSV: text where Arrow's own form is not PostgreSQL's."""
    base = kind.base.value
    if base in {"bytea", "uuid"} or (base in _SENTINELS and _has_infinity(column)):
        return _texts(kind, column)
    return column


def _json_text(kind: SqlType, column: Array) -> Array:
    """The column as JSON text; NULL stays NULL."""
    base = kind.base.value
    if base in {"text", "character varying", "character"}:
        encode = json.encoder.encode_basestring
        return pa.array([None if v is None else encode(v) for v in column.to_pylist()], pa.string())
    if base == "json":
        return pa.array([None if v is None else _one_line(v) for v in column.to_pylist()], pa.string())
    if base in _QUOTED:
        text = _readable(kind, column)
        if base == "bytea":  # \\x0102
            text = pc.binary_join_element_wise("\\", text, "")
        return pc.binary_join_element_wise('"', text.cast(pa.string()), '"', "")
    if base in {"real", "double precision"}:
        text = column.cast(pa.string())
        if pc.all(pc.is_finite(column)).as_py() is False:
            return pc.if_else(pc.is_finite(column), text, pc.binary_join_element_wise('"', text, '"', ""))
        return text
    return column.cast(pa.string())


def _one_line(text: str) -> str:
    """JSON as it was given, unless that has several lines."""
    return json.dumps(json.loads(text), ensure_ascii=False) if "\n" in text or "\r" in text else text


def _has_infinity(column: Array) -> bool:
    number = pa.int32() if pa.types.is_date32(column.type) else pa.int64()
    found = pc.min_max(column.view(number)).as_py()
    bits = 31 if number == pa.int32() else 63
    # DuckDB's -infinity is the least integer plus one.
    return column.null_count < len(column) and bool(
        found["max"] == 2**bits - 1 or found["min"] <= 1 - 2**bits
    )


def _texts(kind: SqlType, column: Array) -> Array:
    from herdpy.codec.arrow import array_to_datums
    from herdpy_sql.values import to_text

    text = to_text(kind)
    return pa.array(
        [None if datum is None else text(datum) for datum in array_to_datums(kind.field, column)], pa.string()
    )
