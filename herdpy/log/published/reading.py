"""Reading a published snapshot's files, each checked before any of it is believed.

Above ``shelf``. A file is read whole: a writer keeps them small enough for that (``writer.FILE_BYTES``), and
a flipped bit in Parquet may otherwise decode to a wrong value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import xxhash

from herdpy.imports import lazy_module
from herdpy.log.published.errors import DamagedSnapshotError
from herdpy.log.published.manifest import KEY_COLUMN, SnapshotFile
from herdpy.log.published.shelf import SnapshotRef

pq: Any = lazy_module("pyarrow.parquet")


def open_file(ref: SnapshotRef, file: SnapshotFile) -> pa.BufferReader:
    """A file of a snapshot, as ``pyarrow.parquet.ParquetFile`` takes it.

    Raises:
        DamagedSnapshotError: it is gone, or is not what was written.
        PublishedSnapshotError: the place cannot be read.
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
        DamagedSnapshotError, PublishedSnapshotError: as ``open_file``.
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
