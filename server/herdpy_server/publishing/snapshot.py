"""One snapshot from one state: every table, then the manifest.

Above ``tables``; ``child`` and the embedded database call it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from herdpy.log.lsn import LSN
from herdpy.log.published import DamagedSnapshotError, PublishedManifest, SnapshotRef, SnapshotWriter, load
from herdpy_server.publishing.state import State
from herdpy_server.publishing.tables import batches, schema
from herdpy_sql.definitions import encode_table

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

    Of its files only the sizes are looked at. PublishedSnapshotError: the place cannot be read.
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
        PublishedSnapshotError: the place refused something.
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
