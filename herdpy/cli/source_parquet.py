"""Parquet files in blocks of rows. A position is a number of rows; row groups before it are skipped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import parquet

from herdpy.cli.errors import CliError
from herdpy.cli.output import json_names, json_object
from herdpy.cli.source import Array, Position, ReadOptions, SourceRecord
from herdpy_sql.arrow_types import sql_type

if TYPE_CHECKING:
    from herdpy.cli.source import TargetField

_BYTES_A_ROW = 80  # to turn a block's bytes into rows, roughly


class ParquetSource:
    """A Parquet file."""

    def __init__(self, path: Path, options: ReadOptions) -> None:
        """Raise CliError when it is no Parquet file."""
        try:
            self._file = parquet.ParquetFile(path)
        except pa.ArrowInvalid as error:
            raise CliError(f"{path} is not a Parquet file: {error}") from error
        self._batch = max(1, options.block_bytes // _BYTES_A_ROW)
        self._read = 0

    @property
    def names(self) -> list[str]:
        """The columns' names."""
        return list(self._file.schema_arrow.names)

    def infer(self) -> list[str]:
        """A SQL type for each column, from the file's schema."""
        return [_sql_type(field) for field in self._file.schema_arrow]

    def blocks(self, start: Position) -> Iterator[ParquetBlock]:
        """The blocks from ``start``."""
        groups: list[int] = []
        before = 0
        for i in range(self._file.num_row_groups):
            size = self._file.metadata.row_group(i).num_rows
            if groups or before + size > start.offset:
                groups.append(i)
            else:
                before += size
        if not groups:
            return
        at = before
        for batch in self._file.iter_batches(self._batch, row_groups=groups):
            rest = batch.slice(max(0, start.offset - at))
            at += batch.num_rows
            self._read = at
            if rest.num_rows:
                yield ParquetBlock(self.names, rest, at - rest.num_rows)

    def progress(self) -> tuple[int, int]:
        """Rows read so far, and the file's."""
        return self._read, self._file.metadata.num_rows


class ParquetBlock:
    """Some rows; their "lines" are their numbers, from 1."""

    def __init__(self, names: list[str], batch: pa.RecordBatch, first: int) -> None:
        self._names = names
        self._batch = batch
        self._first = first
        end = first + batch.num_rows
        self.end = Position(end, end + 1, end)

    def arrays(self, fields: Sequence[TargetField]) -> list[Array]:
        """The columns; Misfit when a value does not fit."""
        return [field.fitted(_plain(self._batch.column(field.place))) for field in fields]

    def records(self, fields: Sequence[TargetField]) -> Iterator[SourceRecord]:
        """The rows one by one."""
        keys = json_names(self._names)
        columns = [_plain(column).to_pylist() for column in self._batch.columns]
        for number, values in enumerate(zip(*columns, strict=True), self._first + 1):
            yield SourceRecord(number, values, json_object(keys, values))


def _plain(array: Array) -> Array:
    """Dictionaries unpacked, extension types other than UUID as what they are stored as."""
    if isinstance(array, pa.ExtensionArray) and not isinstance(array.type, pa.UuidType):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_large_string(array.type) or pa.types.is_string_view(array.type):
        return array.cast(pa.string())
    return array


def _sql_type(field: Any) -> str:
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    if pa.types.is_decimal(kind):  # of any precision
        return f"numeric({kind.precision},{max(kind.scale, 0)})"
    found = None if pa.types.is_null(kind) else sql_type(kind)
    if found is None:
        raise CliError(
            f"column {field.name!r} is of type {kind}, which no column of a table can have",
            hint="Write the file without it, or as text.",
        )
    return str(found)
