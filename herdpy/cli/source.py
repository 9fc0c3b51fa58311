"""What an import reads from and into: a file read in blocks, and the columns of the table.

A :class:`RecordSource` gives blocks of whole records; a block turns itself into Arrow arrays quickly
(:meth:`RecordBlock.arrays`), or, when a value in it does not fit, record by record with line numbers
(:meth:`RecordBlock.records`). ``source_text`` and ``source_parquet`` implement both.
The position after a block is all that is needed to go on from there in another process.

A :class:`TargetField` makes arrays of its type. The fast way is Arrow's own conversion, for types where it
means what PostgreSQL means; the exact way is the engine's input functions, value by value, for the other
types and for blocks in which something did not fit.
"""

from __future__ import annotations

import enum
import gzip
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol

from herdpy.cli.errors import USAGE, CliError

if TYPE_CHECKING:
    import pyarrow as pa

    from herdpy.codec.kinds import Datum
    from herdpy_sql.types import SqlType


Array = Any  # pyarrow's stubs know arrays by element type, and these functions take any

BLOCK_BYTES = 4 << 20
SAMPLE_BYTES = 8 << 20


class FileFormat(enum.StrEnum):
    """What files are imported from and exported to."""

    CSV = "csv"
    PARQUET = "parquet"
    JSONL = "jsonl"


class OnError(enum.StrEnum):
    """What a bad row does."""

    STOP = "stop"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Position:
    """Where in a file a block begins.

    Attributes:
        offset: bytes (of the unpacked text), or rows where the file has no lines.
        line: the first line of the block, from 1.
        rows: records before it.
    """

    offset: int = 0
    line: int = 1
    rows: int = 0


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """One record, looked at by itself.

    Attributes:
        values: by column of the file; text (CSV) or Python objects; None is NULL.
        error: why it is no record, or None.
        text: the record as it stands in the file, for the file of rejects.
    """

    line: int
    values: Sequence[object]
    text: str
    error: str | None = None


class Misfit(Exception):  # noqa: N818 - a signal: look at the records one by one
    """A value of the block is not of its column's type."""


class RecordBlock(Protocol):
    """Some whole records in a row."""

    @property
    def end(self) -> Position:
        """Where the next block begins."""

    def arrays(self, fields: Sequence[TargetField]) -> list[Array]:
        """The columns, in the order of ``fields``; Misfit when a value is not of its type."""

    def records(self, fields: Sequence[TargetField]) -> Iterator[SourceRecord]:
        """The same records one by one, as those fields want them; never fails."""


class RecordSource(Protocol):
    """A file of records."""

    @property
    def names(self) -> list[str]:
        """The columns' names, in the file's order."""

    def infer(self) -> list[str]:
        """A SQL type for each column, from a sample of the file or from what it says of itself."""

    def blocks(self, start: Position) -> Iterator[RecordBlock]:
        """The blocks from ``start``, a position that an earlier block gave, or the beginning."""

    def progress(self) -> tuple[int, int]:
        """How much has been read, and of how much, in the same unit."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How a text file is read: see ``herdpy import --help``."""

    delimiter: str = ","
    header: bool = True
    nulls: tuple[str, ...] = ("",)
    block_bytes: int = BLOCK_BYTES
    sample_bytes: int = SAMPLE_BYTES


def format_of(path: Path, chosen: FileFormat | None) -> FileFormat:
    """Return the format chosen, or the one the file's name says; CliError (usage) if it says none."""
    if chosen is not None:
        return chosen
    endings = {
        ".csv": FileFormat.CSV,
        ".parquet": FileFormat.PARQUET,
        ".pq": FileFormat.PARQUET,
        ".jsonl": FileFormat.JSONL,
        ".ndjson": FileFormat.JSONL,
    }
    name = path.name.removesuffix(".gz")
    found = endings.get(Path(name).suffix.lower())
    if found is None:
        raise CliError(
            f"the name {path.name!r} does not tell the format of the file",
            hint="Add --format csv, parquet or jsonl.",
            code=USAGE,
        )
    return found


class TextFile:
    """Bytes of a text file from an offset, unpacked when its name ends in .gz."""

    def __init__(self, path: Path, offset: int = 0) -> None:
        self.size = path.stat().st_size
        self._raw = path.open("rb")
        self._stream: IO[bytes] = (
            gzip.GzipFile(fileobj=self._raw, mode="rb") if path.suffix == ".gz" else self._raw  # type: ignore[assignment]
        )
        self._stream.seek(offset)

    def read(self, size: int) -> bytes:
        """Up to ``size`` bytes; fewer only at the end. CliError when the packed data is damaged."""
        try:
            return self._stream.read(size)
        except (EOFError, gzip.BadGzipFile) as error:
            raise CliError(f"{self._raw.name} is damaged: {error}") from error

    def tell(self) -> int:
        """How much of the file (packed, if it is) has been read."""
        return self.size if self._raw.closed else self._raw.tell()

    def close(self) -> None:
        """Close the file."""
        self._stream.close()
        self._raw.close()


@dataclass(frozen=True)
class TargetField:
    """A column to be filled.

    Attributes:
        name: in the table.
        place: which column of the file fills it.
    """

    name: str
    type: SqlType
    place: int

    @cached_property
    def arrow_type(self) -> pa.DataType:
        """What the engine takes for it."""
        from herdpy.codec.arrow import arrow_type

        if self.type.has_places:
            from herdpy_sql.values.label_columns import labels_type

            shown: pa.DataType = labels_type(self.type)
            return shown
        return arrow_type(self.type.field)

    @cached_property
    def text_type(self) -> pa.DataType | None:
        """What Arrow's CSV and JSON readers make of it by themselves; None when they read it as text."""
        import pyarrow as pa

        types: dict[str, pa.DataType] = {
            "boolean": pa.bool_(),
            "smallint": pa.int16(),
            "integer": pa.int32(),
            "bigint": pa.int64(),
            "double precision": pa.float64(),
            "text": pa.string(),
            "date": pa.date32(),
            "timestamp without time zone": pa.timestamp("us"),
            "timestamp with time zone": pa.timestamp("us", tz="UTC"),
        }
        return types.get(self.type.base.value)

    @cached_property
    def convert(self) -> Callable[[object], Datum]:
        """From a Python object or text to the engine's datum; raises SqlError."""
        from herdpy_sql.values import input_converter

        return input_converter(self.type)

    def array(self, values: Sequence[object]) -> Array:
        """The array of these objects or texts; Misfit when one does not fit."""
        from herdpy_sql.errors import SqlError

        convert = self.convert
        try:
            datums = [None if value is None else convert(value) for value in values]
        except SqlError as error:
            raise Misfit(str(error)) from error
        return self.array_of_datums(datums)

    def array_of_datums(self, datums: Sequence[Datum]) -> Array:
        """The array that the engine takes."""
        from herdpy.codec.arrow import datums_to_array

        made = datums_to_array(self.type.field, list(datums))
        if self.type.has_places:
            from herdpy_sql.values.label_columns import labels_of

            return labels_of(made, self.type)
        return made

    def fitted(self, array: Array) -> Array:
        """An array that a reader made, as the engine takes it; Misfit when a value does not fit."""
        import pyarrow as pa

        if isinstance(array, pa.ChunkedArray):
            array = array.combine_chunks()
            if isinstance(array, pa.ChunkedArray):  # of several chunks, or none
                array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
        if (self.text_type is None and pa.types.is_string(array.type)) or self.type.has_places:
            return self.array(array.to_pylist())
        if array.type == self.arrow_type:
            return array
        try:
            if pa.types.is_string(array.type) or pa.types.is_string(self.arrow_type):
                return array.cast(self.arrow_type)
            return self.conformed(array)
        except (ValueError, pa.ArrowNotImplementedError) as error:  # pa.ArrowInvalid is a ValueError
            raise Misfit(str(error)) from error

    def conformed(self, array: Array) -> Array:
        """The values as INSERT would assign them; ValueError for one that would not be the same any more."""
        from herdpy.codec.arrow_conform import conform

        return conform(array, self.type.field, self.type.precision)


def why(error: Any) -> str:
    """The message of a database error, with its detail, on one line."""
    detail = getattr(error, "detail", None)
    return f"{error.message} ({detail})" if detail else str(error.message)
