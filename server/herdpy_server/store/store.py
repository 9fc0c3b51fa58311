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

from herdpy.log import LSN
from herdpy_server.store import check, copy, flush
from herdpy_server.store.applying import Applying
from herdpy_server.store.check import Finding
from herdpy_server.store.columns import ColumnCache
from herdpy_server.store.copy import Progress
from herdpy_server.store.disk import Disk
from herdpy_server.store.errors import ApplyError
from herdpy_server.store.held import HeldWorkspace
from herdpy_server.store.layers import Layer
from herdpy_server.store.loads import LoadOutcome
from herdpy_server.store.locks import Locks
from herdpy_server.store.snapshot import StoreSnapshot
from herdpy_server.store.workspace import Workspace

MAP_SIZE_BYTES = 1 << 40
COLUMN_CACHE_BYTES = 512 << 20


class Store(Applying):
    """The state of a tablespace.

    Attributes:
        applied: the position up to which memory has everything.
        durable: the position in LMDB; recovery starts after it.
        catalog: the definitions as applied, without pending ones.
        visible_catalog: with pending ones, and the token of the newest of those (0: none).
        outcomes: what became of commits that have a request id, as applied.
        loads: those that were done, as applied.
        uuid: made with the store.
        on_roles: called when other roles are applied than before.
        on_checksum: called after such a record, alone in its transaction, was applied, and nothing after it.
        sequence_heads: the states of sequences as far as values were given here, by id.
        history: what was committed since a state that an open transaction stands on.
        watched_tables: of which the written keys are noted, for an index that is made meanwhile.
        memory, disk, table_ops, row_ids: parts of it, for the modules of this package.
    """

    def __init__(self, disk: Disk, column_cache_bytes: int) -> None:
        super().__init__(disk)
        self.columns = ColumnCache(column_cache_bytes)
        self._flushing = threading.Lock()

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        map_size_bytes: int = MAP_SIZE_BYTES,
        read_only: bool = False,
        column_cache_bytes: int = COLUMN_CACHE_BYTES,
    ) -> Store:
        """Open the store in a directory, which is made when it does not exist.

        Args:
            map_size_bytes: the most that LMDB's file may grow to.
            column_cache_bytes: the most that columns kept for DuckDB may take.

        Raises:
            StoreDamagedError: what is there cannot be trusted; says what is wrong.
        """
        return cls(Disk(path, map_size_bytes=map_size_bytes, read_only=read_only), column_cache_bytes)

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

    def held_workspace(self, locks: Locks, owner: object, *, serializable: bool) -> HeldWorkspace:
        """The view of one transaction that stands on the state that its first statement finds."""
        return HeldWorkspace(self, locks, owner, serializable=serializable)

    def snapshot(self, workspace: Workspace | None = None, *, stays: bool = False) -> StoreSnapshot:
        """What ``workspace`` (or a new one) sees now, held fast.

        Args:
            stays: it may be read long after the state has gone on.
        """
        own: Layer = {}
        catalog, token = self.visible_catalog
        if workspace is not None:
            own, catalog = workspace.frozen_layer(), workspace.catalog
            if self.memory.transactions:
                token = self.memory.transactions[-1].token
            workspace.read_position = max(workspace.read_position, token)
        with self._lock:
            self.memory.hold()
            applied, pending = self.memory.applied.copy(), self.memory.pending.copy()
            # After the chains: what LMDB may have got meanwhile is in them too.
            disk = self.disk.renewed()
            return StoreSnapshot(
                disk,
                applied,
                pending,
                own,
                catalog,
                self._sequence,
                self.columns,
                self.durable,
                self.applied if stays else None,
            )

    def applied_snapshot(self) -> tuple[StoreSnapshot, LSN]:
        """What is applied now, without anything pending, held fast; and its position."""
        with self._lock:
            self.memory.hold()
            applied = self.memory.applied.copy()
            disk = self.disk.renewed()
            held = StoreSnapshot(
                disk, applied, {}, {}, self.catalog, self._sequence, self.columns, self.durable
            )
            return held, self.applied

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
            lmdb.Error: LMDB could not write (MapFullError, DiskError).
            ApplyError: a transaction did not fit, so that what is in memory is no state of the log.
        """
        with self._flushing:
            with self._lock:
                if self._half_applied is not None:
                    raise ApplyError(f"not written: {self._half_applied}")
                frozen = self.memory.freeze()
                applied, catalog = self.applied, self.catalog
                named, done = self.outcomes.freeze(), self.loads.freeze()
            if applied == self.durable and not frozen:
                return applied
            handles, checksums, figures, load_figures, sequences = flush.write(
                self.disk, frozen, applied, catalog, named, done
            )
            self.disk.handles, self.disk.checksums = handles, checksums
            self.disk.outcomes, self.disk.loads = figures, load_figures
            self.disk.written, self.disk.sequences = catalog, sequences
            view = self.disk.renewed()
            with self._lock:
                # Readers take the chain first and LMDB after it, so LMDB is replaced first.
                self.disk.current = view
                self.columns.flushed(frozen)
                self.history.flushed(sum(delta.nbytes for chain in frozen.values() for delta in chain))
                self.memory.release(frozen)
                self.outcomes.written(named)
                self.loads.written(done)
                self.durable = applied
            return applied

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
