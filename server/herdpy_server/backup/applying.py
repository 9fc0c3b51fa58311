"""Applies archived entries to a store, up to a position: as recovery does, but it may stop within an entry.

Above the store; below ``restoring``. Group commit puts several transactions into one entry, and a time or a
commit may be between two of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from herdpy.backup.archive import read_staged
from herdpy.backup.errors import DamagedPartError
from herdpy.backup.repository import Repository
from herdpy.log.entry import LogEntry, LoggedTransaction, TransactionAssembler
from herdpy.log.errors import ChainError, RecordError
from herdpy.log.lsn import LSN
from herdpy.log.records import LoadBatch
from herdpy_server.backup.targets import StopPosition
from herdpy_server.store import ApplyError, Store
from herdpy_server.store.apply import logged_rows

FLUSH_ROWS = 250_000
FLUSH_BYTES = 256 << 20
_MANY_ROWS = 8192
_REPORT_BYTES = 4 << 20


@dataclass(slots=True)
class AppliedLog:
    """What was applied.

    Attributes:
        lsn: the store's position.
        time_us: commit time of the last transaction; 0: there was none.
        transactions, entries, raw_bytes: how many, and of how many bytes.
    """

    lsn: LSN
    time_us: int = 0
    transactions: int = 0
    entries: int = 0
    raw_bytes: int = 0


def apply_entries(
    store: Store,
    repository: Repository,
    log_id: str,
    entries: Iterable[LogEntry],
    stop: StopPosition,
    progress: Callable[[AppliedLog], object] = lambda _applied: None,
) -> AppliedLog:
    """Apply entries that follow the store's state, up to ``stop``; what is applied is flushed.

    Args:
        entries: may begin before the store's position: those are passed over.

    Raises:
        DamagedPartError: rows of a load are gone, or an entry does not fit the state.
        BackupError: as ``entries`` do.
        lmdb.Error, OSError: the store cannot be written.
    """
    done = AppliedLog(store.applied)
    assembler = TransactionAssembler(store.applied)
    reported = 0
    for entry in entries:
        lsn = entry.lsn
        if lsn <= done.lsn:
            continue
        if lsn > stop.lsn and not stop.open_end:
            break
        whole = _taken(assembler, entry)
        if lsn == stop.lsn and stop.take is not None:
            whole = whole[: stop.take]
        _apply(store, repository, log_id, assembler.safe, [(lsn, one) for one in whole])
        done.entries += 1
        done.raw_bytes += entry.size
        done.transactions += len(whole)
        if whole:
            done.time_us = whole[-1].timestamp_us
        if store.memory.rows >= FLUSH_ROWS or store.memory.nbytes >= FLUSH_BYTES:
            store.flush()
        if done.raw_bytes - reported >= _REPORT_BYTES:
            reported = done.raw_bytes
            progress(done)
    # Rows that loads staged are in the state now. Their ledgers are not the new log's: it would delete them.
    if store.log_trimmed(store.applied):
        store.flush(always=True)
    store.flush()
    done.lsn = store.applied
    progress(done)
    return done


def _taken(assembler: TransactionAssembler, entry: LogEntry) -> list[LoggedTransaction]:
    try:
        return [LoggedTransaction.decode(data) for data in assembler.take(entry)]
    except (ChainError, RecordError) as error:
        raise DamagedPartError(f"entry {entry.lsn}", str(error)) from error


def _apply(
    store: Store,
    repository: Repository,
    log_id: str,
    safe: LSN,
    transactions: list[tuple[LSN, LoggedTransaction]],
) -> None:
    if not transactions and safe <= store.applied:
        return
    for _lsn, one in transactions:
        for record in one.records:
            if isinstance(record, LoadBatch):
                record.staged = [
                    bytearray().join(read_staged(repository, log_id, part)) for part in record.parts
                ]
    try:
        if sum(logged_rows(one.records) for _lsn, one in transactions) > _MANY_ROWS:
            for _ in store.apply_in_steps(safe, transactions):
                pass
        else:
            store.apply_logged(safe, transactions)
    except ApplyError as error:
        raise DamagedPartError(f"entry {safe}", f"it does not fit the state: {error}") from error
