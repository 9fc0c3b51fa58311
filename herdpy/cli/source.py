"""Where imported rows come from: a file read in blocks, each of which knows where the next begins.

A :class:`RecordSource` gives blocks of whole records; a block turns itself into Arrow arrays quickly
(:meth:`Block.arrays`), or, when a value in it does not fit, record by record with line numbers
(:meth:`Block.records`). ``source_csv``, ``source_jsonl`` and ``source_parquet`` implement both.
The position after a block is all that is needed to go on from there in another process.
"""

from __future__ import annotations

import enum
import gzip
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol

from herdpy.cli.errors import USAGE, CliError

if TYPE_CHECKING:
    from herdpy.cli.fields import TargetField

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


def open_source(path: Path, format: FileFormat, options: ReadOptions) -> RecordSource:
    """Open a file; CliError when it cannot be read or is not of that format."""
    from herdpy.cli.source_csv import CsvSource
    from herdpy.cli.source_jsonl import JsonlSource
    from herdpy.cli.source_parquet import ParquetSource

    try:
        match format:
            case FileFormat.CSV:
                return CsvSource(path, options)
            case FileFormat.JSONL:
                return JsonlSource(path, options)
            case _:
                return ParquetSource(path, options)
    except OSError as error:
        raise CliError(f"cannot read {path}: {error.strerror or error}") from error


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
            f"the name {path.name!r} does not say what format the file has",
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
