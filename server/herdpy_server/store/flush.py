"""Store layer, inside: what a checkpoint writes to LMDB, in one write transaction that ``Store`` commits.

Runs in the checkpointer's thread beside the engine; py-lmdb gives up the GIL at every call, and the
Python between calls works on a few hundred items at a time. Rows go in key order. The checksum of a
table is the sum, modulo 2**64, of XXH3-64 of (key length as 4 bytes little-endian, key, row) over
its rows, whatever their order; it follows from each row's old and new value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from time import sleep
from typing import Any

from xxhash import xxh3_64_intdigest

from herdpy.log.lsn import LSN
from herdpy_server.store import loads, outcomes, physical
from herdpy_server.store.disk import Checksums, Disk
from herdpy_server.store.layers import SEQUENCE_KEY, Chain, Delta, Missing, find, keys_in_pieces, showing
from herdpy_sql.catalog import Catalog

_CHUNK = 128
_MASK = (1 << 64) - 1

Change = tuple[bytes, bytes | None]


def row_hash(key: bytes, row: bytes) -> int:
    """What one row adds to its table's checksum."""
    return xxh3_64_intdigest(len(key).to_bytes(4, "little") + key + row)


@dataclass(slots=True)
class Begun:
    """A write transaction that is whole and not committed yet, and what the state is after it.

    Attributes:
        number: LMDB's, which is that of its newest state once it has committed.
        frozen, applied, catalog, named, done, committed_us: as they were given.
    """

    txn: Any
    number: int
    frozen: dict[int, Chain]
    applied: LSN
    catalog: Catalog
    named: outcomes.Frozen
    done: loads.FrozenLoads
    committed_us: int
    handles: dict[int, Any]
    checksums: Checksums
    figures: outcomes.Figures
    load_figures: loads.LoadFigures
    sequences: dict[int, bytes]


def begin(
    disk: Disk,
    frozen: dict[int, Chain],
    applied: LSN,
    catalog: Catalog,
    named: outcomes.Frozen,
    done: loads.FrozenLoads,
    committed_us: int,
) -> Begun:
    """Write the frozen changes, up to the commit, which is the caller's.

    Raises:
        lmdb.Error: nothing was written (the map or the disk is full, a write failed).
    """
    handles = dict(disk.handles)
    checksums: Checksums = {}
    sequences = _sequences(disk, frozen, catalog)
    indexes = {index.id for table in catalog.tables.values() for index in table.indexes}
    txn = disk.env.begin(write=True)
    try:
        for table_id in catalog.tables:
            checksums[table_id] = disk.checksums.get(table_id, (0, 0))
        for db, chain in sorted(frozen.items()):
            through = showing(chain)[1]
            if not through and db in handles:
                txn.drop(handles[db], delete=False)
            if db in indexes:
                _write_entries(txn, _handle(disk, txn, handles, b"i", db), _changes(chain))
            elif db in checksums:
                before = checksums[db] if through else (0, 0)
                handle = _handle(disk, txn, handles, b"t", db)
                rows, checksum = _write_rows(txn, handle, _changes(chain))
                checksums[db] = (before[0] + rows, (before[1] + checksum) & _MASK)
        for db in [db for db in disk.condemned if not disk.is_read(db)]:
            # The handle is closed by this even if the transaction fails, so it is done once.
            txn.drop(disk.condemned.pop(db), delete=True)
        figures = outcomes.write(txn, disk.outcomes_handle, disk.outcomes, named)
        load_figures = loads.write(txn, disk.loads_handle, disk.loads, done)
        disk.write_meta(txn, applied, catalog, checksums, figures, load_figures, sequences, committed_us)
        return Begun(
            txn, txn.id(), frozen, applied, catalog, named, done, committed_us,
            handles, checksums, figures, load_figures, sequences,
        )  # fmt: skip
    except BaseException:
        txn.abort()
        raise


def _sequences(disk: Disk, frozen: Mapping[int, Chain], catalog: Catalog) -> dict[int, bytes]:
    """The newest states of the sequences that there are; what the disk has when none has changed."""
    if not disk.sequences and not catalog.objects:
        return disk.sequences
    states: dict[int, bytes] = {}
    for number, one in catalog.objects.items():
        if one.kind == "sequence":
            state = next(
                (delta.rows[SEQUENCE_KEY] for delta in frozen.get(number, ()) if SEQUENCE_KEY in delta.rows),
                disk.sequences.get(number),
            )
            if state is not None:
                states[number] = state
    return disk.sequences if states == disk.sequences else states


def _handle(disk: Disk, txn: Any, handles: dict[int, Any], letter: bytes, db: int) -> Any:
    handle = handles.get(db)
    if handle is None:
        handle = handles[db] = disk.env.open_db(letter + b"%d" % db, txn=txn)
    return handle


def _changes(chain: Chain) -> Iterator[Change]:
    """The newest value of every key that the chain knows, in key order."""
    deltas, _ = showing(chain)
    if any(delta.is_large for delta in deltas):
        return ((key, _newest(deltas, key)) for key in keys_in_pieces(deltas))
    rows = deltas[0].rows
    if len(deltas) > 1:
        rows = {}
        for delta in reversed(deltas):
            rows.update(delta.rows)
            sleep(0)  # whoever waits for the GIL comes first
    return ((key, rows[key]) for key in keys_in_pieces(deltas))


def _newest(deltas: Sequence[Delta], key: bytes) -> bytes | None:
    value = find(deltas, key)
    assert not isinstance(value, Missing)
    return value


def _chunks(changes: Iterator[Change]) -> Iterator[list[Change]]:
    while chunk := list(islice(changes, _CHUNK)):
        yield chunk


def _is_gap(cursor: Any, first: bytes, last: bytes) -> bool:
    """Whether LMDB has no key from ``first`` to ``last``."""
    return not cursor.set_range(first) or cursor.key() > last


def _all_new(cursor: Any, chunk: list[Change]) -> bool:
    """Whether every change of the chunk adds a key that is not there, as it is in LMDB."""
    return (
        all(value is not None and len(key) <= physical.MAX_PLAIN for key, value in chunk)
        and len(chunk) > 1
        and _is_gap(cursor, chunk[0][0], chunk[-1][0])
    )


def _write_entries(txn: Any, handle: Any, changes: Iterator[Change]) -> None:
    cursor = txn.cursor(handle)
    for chunk in _chunks(changes):
        if _all_new(cursor, chunk):
            cursor.putmulti(chunk)
            continue
        for key, value in chunk:
            if value is not None:
                cursor.put(*physical.to_physical(key, value))
            elif cursor.set_key(key if len(key) <= physical.MAX_PLAIN else physical.long_key(key)):
                cursor.delete()


def _write_rows(txn: Any, handle: Any, changes: Iterator[Change]) -> tuple[int, int]:
    """Write changes of rows; returns by how much the table's rows and checksum change."""
    cursor = txn.cursor(handle)
    rows = checksum = 0
    for chunk in _chunks(changes):
        if _all_new(cursor, chunk):
            cursor.putmulti(chunk)
            rows += len(chunk)
            checksum += sum(row_hash(key, value or b"") for key, value in chunk)
            continue
        for key, value in chunk:
            name = key if len(key) <= physical.MAX_PLAIN else physical.long_key(key)
            if value is None:
                if cursor.set_key(name):
                    rows -= 1
                    checksum -= row_hash(*physical.from_physical(name, cursor.value()))
                    cursor.delete()
                continue
            stored = value if name is key else physical.long_value(key, value)
            checksum += row_hash(key, value)
            # Most rows are new, and then one call does.
            if cursor.put(name, stored, overwrite=False):
                rows += 1
            else:
                checksum -= row_hash(*physical.from_physical(name, cursor.value()))
                cursor.put(name, stored)
    return rows, checksum & _MASK
