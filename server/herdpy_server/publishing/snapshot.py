"""One snapshot from one state of a store: every table in key order, then the manifest.

The lowest module of the package; ``child`` and the embedded database call it. The state is of an open store
of this process (``applied_state``), or of LMDB's files while another process writes them
(``frozen_state``). A table's rows come as Arrow batches: all live columns, the hidden key too, and
``__key``. Batches are bounded in rows and bytes, so memory is. A snapshot carries its ``Moment``, what the
log knows of its LSN, so that a reader can tell whether the log that he has goes on from it, and which
snapshot is old enough.
"""

from __future__ import annotations

import struct
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from herdpy.log import LogEntry, LogError
from herdpy.log.ledger_list import LedgerListState, position_before
from herdpy.log.lsn import LSN
from herdpy.log.published import (
    KEY_COLUMN,
    DamagedSnapshotError,
    PublishedManifest,
    SnapshotRef,
    SnapshotWriter,
    load,
)
from herdpy_server.store import Store, StoreDamagedError
from herdpy_server.store.disk import Disk
from herdpy_server.store.flush import row_hash
from herdpy_server.store.layers import Item
from herdpy_server.store.segments import decoded
from herdpy_server.store.tables import TableOps
from herdpy_sql.catalog import Catalog, Table
from herdpy_sql.definitions import encode_table
from herdpy_sql.values.interval_columns import has_intervals, texts_of

_LSN = struct.Struct(">qq")
_MAP_SIZE_BYTES = 1 << 40
_TRIES = 10


@dataclass(frozen=True, slots=True)
class State:
    """One state. For one thread; ``close`` lets go of it.

    Attributes:
        lsn: everything up to it is in the tables, and nothing after it.
        checksums: by table id how many rows there must be, and their checksum; None where that is not kept.
        scan: the rows of a table, as pairs of encoded key and row image.
    """

    lsn: LSN
    catalog: Catalog
    checksums: Mapping[int, tuple[int, int]] | None
    scan: Callable[[Table], Iterator[Item]]
    close: Callable[[], None]

    @property
    def rows(self) -> int:
        """About how many rows there are: 0 where that is not known."""
        return 0 if self.checksums is None else sum(rows for rows, _sum in self.checksums.values())


def applied_state(store: Store) -> State:
    """What is applied now in an open store, whatever happens to it afterwards."""
    snapshot, lsn = store.applied_snapshot()
    return State(lsn, snapshot.catalog, None, snapshot.scan, snapshot.close)


def frozen_state(path: Path) -> State:
    """The newest state in the LMDB environment at ``path``, which another process may be writing.

    Raises:
        StoreDamagedError: it cannot be opened.
    """
    disk = _opened(path)
    view = disk.current

    def scan(table: Table) -> Iterator[Item]:
        return view.scan(table.id, None, None, reverse=False, may_be_long=TableOps(table).may_be_long)

    def close() -> None:
        view.txn.abort()
        disk.close()

    return State(disk.durable, disk.written, dict(disk.checksums), scan, close)


def _opened(path: Path) -> Disk:
    """The environment, of which one state is known whole."""
    for left in reversed(range(_TRIES)):
        try:
            disk = Disk(path, map_size_bytes=_MAP_SIZE_BYTES, read_only=True)
        except StoreDamagedError:  # perhaps a table was dropped in the middle of it
            if not left:
                raise
            continue
        # What was read of meta while opening, and the view, are two transactions: one state only if
        # nobody wrote between them.
        if LSN(*_LSN.unpack(disk.current.txn.get(b"applied", b"", disk.meta))) == disk.durable:
            return disk
        disk.close()
    raise StoreDamagedError(f"{path} changes faster than it can be opened")


_STEP = 512
_ROWS = 16_384
_BYTES = 8 << 20
_MASK = (1 << 64) - 1


def live(table: Table) -> tuple[int, ...]:
    """The positions of the columns that are published."""
    return tuple(at for at, column in enumerate(table.columns) if not column.dropped)


def schema(table: Table) -> pa.Schema:
    """Of a table's batches."""
    return _batch(table, [], []).schema


def batches(state: State, table: Table) -> Iterator[pa.RecordBatch]:
    """The rows of a table in key order.

    Raises:
        StoreDamagedError: they are not those that were written, which is known at their end.
    """
    expected = None if state.checksums is None else state.checksums.get(table.id, (0, 0))
    items = state.scan(table)
    count = checksum = 0
    while True:
        keys: list[bytes] = []
        images: list[bytes] = []
        size = 0
        while len(keys) < _ROWS and size < _BYTES:
            taken = list(islice(items, _STEP))
            if not taken:
                break
            for key, image in taken:
                keys.append(key)
                images.append(image)
                size += len(key) + len(image)
        if not keys:
            break
        if expected is not None:
            checksum += sum(map(row_hash, keys, images))
        count += len(keys)
        yield _batch(table, keys, images)
    if expected is not None and (count, checksum & _MASK) != expected:
        raise StoreDamagedError(
            f"table {table.name} has {count} rows with checksum {checksum & _MASK:016x}, "
            f"and {expected[0]} with {expected[1]:016x} were written"
        )


def _batch(table: Table, keys: list[bytes], images: list[bytes]) -> pa.RecordBatch:
    columns = decoded(table, live(table), images)
    for at, field in enumerate(columns.schema):
        if has_intervals(field.type):  # which Parquet has not
            texts = texts_of(columns.column(at))
            columns = columns.set_column(at, pa.field(field.name, texts.type), texts)
    return columns.append_column(
        pa.field(KEY_COLUMN, pa.binary(), nullable=False), pa.array(keys, pa.binary())
    )


Progress = Callable[[int, int], object]
"""Called with rows and bytes that are written."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What belongs to an LSN: see ``PublishedManifest``."""

    log_id: str
    crc: int | None
    time_us: int


def there(url: str, tablespace: str, lsn: LSN) -> PublishedManifest | None:
    """What was published at this LSN before; None when there is nothing, or it is damaged.

    Of its files only the sizes are looked at. PlaceError: the place cannot be read.
    """
    ref = SnapshotRef(url, tablespace, lsn)
    try:
        manifest = load(ref)
    except DamagedSnapshotError:
        return None
    place = ref.place()
    files = [file for table in manifest.tables for file in table.files]
    return manifest if all(place.size(file.path) == file.size_bytes for file in files) else None


def write_snapshot(
    state: State,
    url: str,
    tablespace: str,
    moment: Moment | Callable[[], Moment],
    *,
    progress: Progress = lambda _rows, _bytes: None,
) -> PublishedManifest:
    """Publish a state to ``url``; where it fails nothing of it stays.

    Args:
        moment: of the state's LSN; where it is found out meanwhile, what gives it at the end.

    Raises:
        StoreDamagedError: the rows are not those that were written.
        PlaceError: the place refused something.
    """
    begun_us = time.time_ns() // 1000
    writer = SnapshotWriter(url, tablespace, state.lsn, created_us=begun_us)
    rows = 0
    there = sorted(state.catalog.tables.values(), key=lambda one: one.id)
    tables = [one for one in there if not one.is_temporary]
    temporary = tuple(one.id for one in there if one.is_temporary)
    try:
        for table in tables:
            definition = encode_table(table).decode()
            with writer.table(table.id, table.name, definition, schema(table)) as out:
                for batch in batches(state, table):
                    out.write(batch)
                    rows += batch.num_rows
                    progress(rows, writer.bytes_written)
        at = moment if isinstance(moment, Moment) else moment()
        return writer.finish(log_id=at.log_id, crc=at.crc, time_us=at.time_us, temporary=temporary)
    except BaseException:
        writer.abandon()
        raise


_TIME = struct.Struct(">q")
_SPANS = (1, 8, 64)
"""Of how many entries the newest times are looked for in: most have one of their own."""


class Readable(Protocol):
    """What is asked of a log."""

    def read(self, after: LSN, upto: LSN | None = None) -> AsyncIterator[tuple[LSN, LogEntry]]: ...


async def moment_of(log: Readable, state: LedgerListState, lsn: LSN, now_us: int) -> Moment:
    """What belongs to ``lsn``.

    Args:
        state: the log's ledger list.
        now_us: the time that is given where the log does not tell one, because it is trimmed there.
    """
    crc = state.base_crc if lsn == state.base else None
    if lsn.entry_id < 0:
        return Moment(state.log_id, crc, now_us)
    for span in _SPANS:
        after = position_before(state, lsn, span)
        if after is None:
            continue
        try:
            crc, time_us = await _newest(log, after, lsn)
        except LogError:  # it is trimmed there, or cannot be read now: the snapshot is as good without
            continue
        if time_us is not None:
            return Moment(state.log_id, crc, time_us)
        if lsn.entry_id < span:
            break
    return Moment(state.log_id, crc, now_us)


async def _newest(log: Readable, after: LSN, upto: LSN) -> tuple[int | None, int | None]:
    """The running CRC at ``upto``, and the newest time of what took effect after ``after``."""
    crc: int | None = None
    newest: int | None = None
    begun: int | None = None
    async with aclosing(log.read(after, upto)) as entries:  # type: ignore[type-var]
        async for _lsn, entry in entries:
            crc = entry.header.crc
            for part in entry.parts:
                if part.first:
                    begun = _TIME.unpack_from(part.data)[0] if len(part.data) >= _TIME.size else None
                if part.last and begun is not None:
                    newest = begun if newest is None else max(newest, begun)
    return crc, newest
