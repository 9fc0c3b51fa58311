"""A snapshot's tables as Parquet files: written one after another, and read back, each file checked first.

Above ``shelf``. Memory is bounded: a table's rows come as batches in key order and leave as row groups; a
file is read whole, for a flipped bit in Parquet may otherwise decode to a wrong value, and FILE_BYTES keeps
it small enough. Files get names that no other writer gives, so two that publish the same LSN at once, or one
after another's crash, do not write over each other's. The manifest comes last, when all files are there.
"""

from __future__ import annotations

import contextlib
import io
import secrets
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any

import pyarrow as pa
import xxhash

from herdpy.imports import lazy_module
from herdpy.log.lsn import LSN
from herdpy.log.place import Place, PlaceError
from herdpy.log.published.manifest import (
    FILE_NAME,
    KEY_COLUMN,
    MAX_QUANTILES,
    MAX_ROW_GROUP,
    DamagedSnapshotError,
    PublishedManifest,
    SnapshotFile,
    SnapshotTable,
)
from herdpy.log.published.shelf import SnapshotRef

pq: Any = lazy_module("pyarrow.parquet")

FILE_BYTES = 64 << 20
"""A file ends with the row group that brings it to so many bytes."""

_GROUP_BYTES = 32 << 20
"""A row group ends with the batch that brings it to so many bytes in memory, or has MAX_ROW_GROUP rows."""


class SnapshotWriter:
    """One snapshot being written: ``table`` for each table, then ``finish``; or ``abandon``."""

    def __init__(
        self,
        url: str,
        tablespace: str,
        lsn: LSN,
        *,
        created_us: int,
        file_bytes: int = FILE_BYTES,
    ) -> None:
        """Nothing is written yet. The arguments are as in ``PublishedManifest``; PlaceError."""
        self.ref = SnapshotRef(url, tablespace, lsn)
        self.place = self.ref.place()
        self.file_bytes = file_bytes
        self.token = secrets.token_hex(4)
        self.bytes_written = 0
        self._tables: list[SnapshotTable] = []
        self._created_us = created_us

    def table(self, table_id: int, name: str, definition: str, schema: pa.Schema) -> TableWriter:
        """Writes one table, as a context manager; it is in the snapshot when it was left without an error.

        Args:
            schema: of its batches; the last column is ``__key``.
        """
        if schema.names[-1:] != [KEY_COLUMN]:
            raise ValueError(f"the last column of a snapshot's table is {KEY_COLUMN}")
        return TableWriter(self, table_id, name, definition, schema)

    def add(self, table: SnapshotTable) -> None:
        """For ``TableWriter``."""
        self._tables.append(table)

    def finish(
        self, *, log_id: str, crc: int | None, time_us: int, temporary: tuple[int, ...] = ()
    ) -> PublishedManifest:
        """Make the snapshot appear, with all tables that were written. Arguments as in ``PublishedManifest``.

        Raises:
            PlaceError: the place refused it, or one of the files is gone.
        """
        tablespace, lsn, tables = self.ref.tablespace, self.ref.lsn, tuple(self._tables)
        manifest = PublishedManifest(
            tablespace, log_id, lsn, crc, time_us, self._created_us, tables, temporary
        )
        for table in manifest.tables:
            for file in table.files:
                if self.place.size(file.path) != file.size_bytes:
                    raise PlaceError(f"{self.place.url}/{file.path} was removed while others were written")
        self.place.put(FILE_NAME, manifest.encode())
        return manifest

    def abandon(self) -> None:
        """Remove what was written, unless another has finished the same snapshot meanwhile."""
        if not self.place.exists(FILE_NAME):
            self.place.clear()


class TableWriter:
    """One table: ``write`` its batches in key order."""

    def __init__(
        self, snapshot: SnapshotWriter, table_id: int, name: str, definition: str, schema: pa.Schema
    ) -> None:
        self._snapshot = snapshot
        self._what = (table_id, name, definition)
        self._schema = schema
        self._files: list[SnapshotFile] = []
        self._quantiles = Quantiles()
        self._part: _Part | None = None
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._waiting_bytes = 0
        self._last_key: bytes | None = None
        self.rows = 0

    def __enter__(self) -> TableWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            if self._part is not None:
                self._part.abandon()
            return
        self._flush()
        self._end_part()
        table_id, name, definition = self._what
        files, quantiles = tuple(self._files), self._quantiles.chosen()
        self._snapshot.add(SnapshotTable(table_id, name, definition, self.rows, files, quantiles))

    def write(self, batch: pa.RecordBatch) -> None:
        """The next rows, sorted by ``__key``. ValueError when their keys do not follow those before."""
        if not batch.num_rows:
            return
        keys: Any = batch.column(KEY_COLUMN)
        first = keys[0].as_py()
        if self._last_key is not None and first <= self._last_key:
            raise ValueError("rows of a snapshot are written in key order")
        self._last_key = keys[-1].as_py()
        self._quantiles.add(keys)
        self.rows += batch.num_rows
        while batch.num_rows:
            taken = batch.slice(0, MAX_ROW_GROUP - self._waiting_rows)
            batch = batch.slice(taken.num_rows)
            self._waiting.append(taken)
            self._waiting_rows += taken.num_rows
            self._waiting_bytes += taken.nbytes
            if self._waiting_rows == MAX_ROW_GROUP or self._waiting_bytes >= _GROUP_BYTES:
                self._flush()

    def _flush(self) -> None:
        """What waits becomes a row group."""
        if not self._waiting:
            return
        if self._part is None:
            number = len(self._files)
            path = f"t{self._what[0]}/part-{number:05d}-{self._snapshot.token}.parquet"
            self._part = _Part(self._snapshot.place, path, self._schema)
        before = self._part.size
        self._part.write(pa.Table.from_batches(self._waiting, self._schema))
        self._snapshot.bytes_written += self._part.size - before
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0
        if self._part.size >= self._snapshot.file_bytes:
            self._end_part()

    def _end_part(self) -> None:
        if self._part is not None:
            part, self._part = self._part, None
            self._files.append(part.finish())


class _Part:
    """One Parquet file being written."""

    def __init__(self, place: Place, path: str, schema: pa.Schema) -> None:
        self._place, self._path = place, path
        self._sink = _Summed(place.create(path))
        # Keys differ, each from each: a dictionary of them would be begun and given up in every row group.
        others = [name for name in schema.names if name != KEY_COLUMN]
        self._writer = pq.ParquetWriter(
            pa.PythonFile(self._sink, mode="w"),
            schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=others or False,
        )
        self._rows = 0
        self._first: bytes | None = None
        self._last = b""

    @property
    def size(self) -> int:
        """Bytes so far."""
        return self._sink.size

    def write(self, rows: pa.Table) -> None:
        keys: Any = rows.column(KEY_COLUMN)
        if self._first is None:
            self._first = keys[0].as_py()
        self._last = keys[-1].as_py()
        self._rows += rows.num_rows
        with _refused(self._place, self._path):
            self._writer.write_table(rows, row_group_size=MAX_ROW_GROUP)

    def finish(self) -> SnapshotFile:
        assert self._first is not None
        with _refused(self._place, self._path):
            self._writer.close()
            self._sink.end()
        self._place.settle(self._path)
        digest = self._sink.hash.hexdigest()
        return SnapshotFile(self._path, self._rows, self._sink.size, digest, self._first, self._last)

    def abandon(self) -> None:
        # Both write what they hold when they are closed, and what refused that before may do so again.
        with contextlib.suppress(Exception):
            self._writer.close()
        with contextlib.suppress(Exception):
            self._sink.end()


class _Summed(io.RawIOBase):
    """What is written to it goes to a file of a place, is counted and hashed.

    ``close``, which Arrow calls when it likes, does nothing; ``end`` closes the file.
    """

    def __init__(self, file: Any) -> None:
        self._file = file
        self.size = 0
        self.hash = xxhash.xxh3_128()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._file.write(data)
        self.hash.update(data)
        count = memoryview(data).nbytes
        self.size += count
        return count

    def tell(self) -> int:
        return self.size

    def end(self) -> None:
        self._file.close()


@contextlib.contextmanager
def _refused(place: Place, path: str) -> Any:
    try:
        yield
    except Exception as error:
        raise PlaceError(f"{place.url}/{path} cannot be written: {error}") from error


class Quantiles:
    """Keys at equal distances from a stream of unknown length: every n-th, n doubled when too many."""

    def __init__(self, most: int = MAX_QUANTILES) -> None:
        self._most = most
        self._stride = 1
        self._until = 0  # rows up to the next key that is taken
        self._keys: list[bytes] = []

    def add(self, keys: Any) -> None:
        """The next keys, as an Arrow array."""
        count = len(keys)
        at = self._until
        while at < count:
            self._keys.append(keys[at].as_py())
            at += self._stride
            if len(self._keys) == 2 * self._most:
                del self._keys[1::2]
                self._stride *= 2
        self._until = at - count

    def chosen(self) -> tuple[bytes, ...]:
        """At most ``most`` of them; the first key is always among them."""
        step = -(-len(self._keys) // self._most)
        return tuple(self._keys[:: max(step, 1)])


# Reading.


def open_file(ref: SnapshotRef, file: SnapshotFile) -> pa.BufferReader:
    """A file of a snapshot, as ``pyarrow.parquet.ParquetFile`` takes it.

    Raises:
        DamagedSnapshotError: it is gone, or is not what was written.
        PlaceError: the place cannot be read.
    """
    place = ref.place()
    url = f"{place.url}/{file.path}"
    try:
        data = place.read(file.path)
    except FileNotFoundError:
        raise DamagedSnapshotError(url, "it is not there") from None
    if len(data) != file.size_bytes:
        raise DamagedSnapshotError(url, f"it has {len(data)} bytes, {file.size_bytes} were written")
    found = xxhash.xxh3_128_hexdigest(data)
    if found != file.xxh3_128:
        raise DamagedSnapshotError(url, f"its checksum is {found}, {file.xxh3_128} was written")
    return pa.BufferReader(data)


def read_batches(
    ref: SnapshotRef,
    files: Sequence[SnapshotFile],
    columns: Sequence[str] | None = None,
    *,
    low: bytes | None = None,
    high: bytes | None = None,
) -> Iterator[pa.RecordBatch]:
    """Rows of a table's files in key order; only those whose encoded keys are in [low, high).

    Args:
        files: of one table, in the manifest's order.
        columns: which ones, ``__key`` if it is wanted; None: all. They come in the file's order.

    Raises:
        DamagedSnapshotError, PlaceError: as ``open_file``.
    """
    for file in files:
        if (low is not None and file.last_key < low) or (high is not None and file.first_key >= high):
            continue
        with open_file(ref, file) as source, pq.ParquetFile(source) as parquet:
            inside = (low is None or file.first_key >= low) and (high is None or file.last_key < high)
            wanted = None if columns is None else list(columns)
            if inside:
                yield from parquet.iter_batches(columns=wanted)
                continue
            names = parquet.schema_arrow.names
            read = names if wanted is None else [name for name in names if name in {*wanted, KEY_COLUMN}]
            for group in range(parquet.num_row_groups):
                if not _overlaps(parquet, group, names.index(KEY_COLUMN), low, high):
                    continue
                for batch in parquet.iter_batches(row_groups=[group], columns=read):
                    cut = between(batch, low, high)
                    if cut.num_rows:
                        yield (
                            cut if wanted is None or KEY_COLUMN in wanted else cut.drop_columns([KEY_COLUMN])
                        )


def between(batch: pa.RecordBatch, low: bytes | None, high: bytes | None) -> pa.RecordBatch:
    """The rows of a batch, sorted by its ``__key``, whose keys are in [low, high)."""
    keys: Any = batch.column(KEY_COLUMN)
    start = 0 if low is None else _first_at_least(keys, low)
    stop = batch.num_rows if high is None else _first_at_least(keys, high)
    return batch.slice(start, max(stop - start, 0))


def _first_at_least(keys: Any, key: bytes) -> int:
    low, high = 0, len(keys)
    while low < high:
        middle = (low + high) // 2
        if keys[middle].as_py() < key:
            low = middle + 1
        else:
            high = middle
    return low


def _overlaps(parquet: Any, group: int, column: int, low: bytes | None, high: bytes | None) -> bool:
    """Whether a row group may have keys in [low, high), by what the file's footer says of it."""
    statistics: Any = parquet.metadata.row_group(group).column(column).statistics
    if statistics is None or not statistics.has_min_max:
        return True
    least, most = statistics.min, statistics.max
    return not ((low is not None and most < low) or (high is not None and least >= high))
