"""Store layer, top: the state of one tablespace, LMDB underneath and memory above.

How data passes through: a statement writes into its ``Workspace``; when the transaction has its
place in the log, ``push_pending`` shows its layer to everyone; when the log has it durably,
``apply`` puts it into the memtable and ``pop_pending`` takes the layer away; ``flush`` writes the
memtable to LMDB together with the position, which makes the log up to there unnecessary.

One thread at a time calls into a store (the engine's turn), except that ``flush`` and ``copy`` run
in threads of their own and a ``StoreSnapshot`` may be read by another thread.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from herdpy.log import LSN
from herdpy_server.store import check, copy, flush
from herdpy_server.store.check import Finding
from herdpy_server.store.columns import ColumnCache
from herdpy_server.store.copy import Progress
from herdpy_server.store.disk import MAX_READERS, Disk, DiskView
from herdpy_server.store.errors import ApplyError
from herdpy_server.store.flush import Begun
from herdpy_server.store.limits import ADDRESS_SPACE, Limit
from herdpy_server.store.loads import LoadOutcome
from herdpy_server.store.locks import Locks
from herdpy_server.store.snapshot_transaction import SnapshotTransaction
from herdpy_server.store.state import StoreState
from herdpy_server.store.workspace import Workspace

COLUMN_CACHE_BYTES = 512 << 20


class Store(StoreState):
    """The state of a tablespace.

    For its attributes see ``StoreState``.
    """

    def __init__(self, disk: Disk, column_cache_bytes: int) -> None:
        super().__init__(disk, ColumnCache(column_cache_bytes))
        self._flushing = threading.Lock()
        self._begun: Begun | None = None  # what LMDB may have, and memory does not know of yet

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        map_size_bytes: int | None = None,
        read_only: bool = False,
        column_cache_bytes: int = COLUMN_CACHE_BYTES,
        max_readers: int = MAX_READERS,
    ) -> Store:
        """Open the store in a directory, which is made when it does not exist.

        Args:
            map_size_bytes: the most that LMDB's file may grow to; None: by need (``limits``).
            column_cache_bytes: the most that columns kept for DuckDB may take.
            max_readers: states of LMDB that may be read at a time, by all processes.

        Raises:
            StoreDamagedError: what is there cannot be trusted; says what is wrong.
            SqlError: 53200, 53400, the machine or a limit does not allow it now.
        """
        disk = Disk(path, map_size_bytes=map_size_bytes, read_only=read_only, max_readers=max_readers)
        return cls(disk, column_cache_bytes)

    # Loads.

    def load(self, load_id: str) -> LoadOutcome | None:
        """What a load came to that was done and is applied; only the newest are known."""
        return self.loads.find(load_id)

    def log_trimmed(self, base: LSN) -> list[int]:
        """The log begins after ``base`` now; the staged ledgers that nobody needs any more since."""
        with self._lock:
            return self.loads.trimmed(base)

    # Readers and writers.

    def workspace(self, locks: Locks, owner: object) -> Workspace:
        """The view of one transaction, which takes its locks as ``owner``."""
        return Workspace(self, locks, owner)

    def snapshot_transaction(self, locks: Locks, owner: object, *, serializable: bool) -> SnapshotTransaction:
        """The view of one transaction that reads the state that its first statement finds."""
        return SnapshotTransaction(self, locks, owner, serializable=serializable)

    def limits(self) -> tuple[Limit, ...]:
        """What may be used up, and how far it is. For any thread."""
        space, disk = ADDRESS_SPACE, self.disk
        return (
            Limit("snapshots", disk.states, self.max_states, "53400"),
            Limit("tables_and_indexes", self.databases(self.catalog), self.max_databases, "53400"),
            Limit("store_bytes", disk.used_bytes, disk.map_size_bytes, "53100"),
            Limit("address_space_bytes", space.used_bytes, space.total_bytes, "53400"),
        )

    # The checkpointer's side.

    @property
    def memtable_rows(self) -> int:
        """Changes of rows and index entries that are applied and not in LMDB."""
        return self.memory.rows

    @property
    def memtable_bytes(self) -> int:
        """About what those take of memory."""
        return self.memory.nbytes

    def flush(self) -> LSN:
        """Write what is applied to LMDB, synced; returns the new ``durable``.

        For the checkpointer's thread. An error leaves everything readable, to be tried again.

        Raises:
            lmdb.Error: LMDB could not write (MapFullError, DiskError, ReadersFullError).
            ApplyError: a transaction did not fit, so that what is in memory is no state of the log.
        """
        with self._flushing:
            self._settle()
            with self._lock:
                if self._half_applied is not None:
                    raise ApplyError(f"not written: {self._half_applied}")
                frozen = self.memory.freeze()
                applied, catalog = self.applied, self.catalog
                named, done = self.outcomes.freeze(), self.loads.freeze()
            self.disk.clear_stale_readers()
            if applied == self.durable and not frozen:
                return applied
            self._commit(frozen, applied, catalog, named, done)
            return applied

    def _commit(self, *state: Any) -> None:
        # The reader of the new state has its place before there is one.
        reserved = self.disk.reserve()
        try:
            self._begun = flush.begin(self.disk, *state)
            self._begun.txn.commit()
        except BaseException:
            reserved.end()
            self._settle()
            raise
        self._follow(self._begun, reserved)

    def _settle(self) -> None:
        """A commit was begun, and something came in between: memory follows if LMDB has committed.

        While that cannot be told, nothing more is written: what a flush counts on would not be so.
        """
        begun = self._begun
        if begun is None or self._half_applied is not None:
            return
        begun.txn.abort()  # nothing, where it has committed
        if self.disk.env.info()["last_txnid"] >= begun.number:
            self._follow(begun, None)
        self._begun = None

    def _follow(self, begun: Begun, reserved: DiskView | None) -> None:
        """Memory follows what LMDB has committed; tried again by the next flush where it fails."""
        disk, known = self.disk, {index.id for one in begun.catalog.tables.values() for index in one.indexes}
        for db in begun.handles.keys() - begun.checksums.keys() - known:
            disk.condemned[db] = begun.handles.pop(db)
        disk.handles, disk.checksums = begun.handles, begun.checksums
        disk.outcomes, disk.loads = begun.figures, begun.load_figures
        disk.written, disk.sequences = begun.catalog, begun.sequences
        view = disk.renewed(reserved)
        frozen = begun.frozen
        with self._lock, self._whole():
            # Readers take the chain first and LMDB after it, so LMDB is replaced first.
            disk.current = view
            self.columns.flushed(frozen)
            self.history.flushed(sum(delta.nbytes for chain in frozen.values() for delta in chain))
            self.memory.release(frozen)
            self.outcomes.written(begun.named)
            self.loads.written(begun.done)
            self.durable = begun.applied
            self._begun = None

    def table_checksums(self) -> dict[int, tuple[int, int]]:
        """(rows, checksum) of each table by its id, as of ``durable``."""
        return dict(self.disk.checksums)

    def copy(self, target: Path, progress: Progress | None = None) -> LSN:
        """Copy what is durable into the new directory ``target`` while the store is in use.

        Returns the copy's position. Errors as ``herdpy_server.store.copy.copy``.
        """
        return copy.copy(self.disk, target, progress)

    def check(self) -> Iterator[Finding]:
        """What does not fit together in LMDB; nothing when all is well."""
        with self._lock:
            disk, view = self.disk, self.disk.renewed()
            catalog, checksums = disk.written, disk.checksums
            figures, load_figures = disk.outcomes, disk.loads
        return chain(
            check.check(view, catalog, checksums),
            check.check_outcomes(view, disk.outcomes_handle, figures),
            check.check_loads(view, disk.loads_handle, load_figures),
        )

    def close(self) -> None:
        """Close the files. What is not flushed is in the log."""
        self.columns.clear()
        self.disk.close()
