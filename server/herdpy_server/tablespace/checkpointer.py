"""Brings applied changes into LMDB on a cadence, and lets old ledgers go. A thread of its own.

An LMDB commit is a checkpoint: rows and their LSN become durable together, and
recovery starts there. Nobody waits for it. LMDB's write transaction belongs to the thread that
began it, so only this thread (and recovery, before it starts) writes.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

import lmdb

from herdpy.log import LSN, START, CommitLog
from herdpy_server.store import Store
from herdpy_server.tablespace.log_errors import is_for_lack_of_space

logger = logging.getLogger("herdpy.checkpointer")


class Checkpointer:
    """Flushes the store every ``cadence_s`` while there is something to flush, sooner when much is.

    Attributes:
        failure: why the last checkpoint of the cadence failed; None when it did not.
        on_progress: called after each flush and each failure of the cadence, in its thread.
        checkpoints, failures, seconds: how many were made, how many failed, and how long those that
            were made took in all.
        floor: the position after which somebody else wants the log's entries; None: nobody. In any thread.
        caught_up_at: when (time.monotonic) the store last had all that the log had.

    Args:
        flush_rows: changed rows in memory that start a flush before the cadence does.
        retention_bytes: closed ledgers are kept up to this size in all after a checkpoint passed
            them, so that a damaged store can be rebuilt; ``checkpoint(trim=True)`` keeps none.
    """

    def __init__(
        self, log: CommitLog, store: Store, *, cadence_s: float, flush_rows: int, retention_bytes: int
    ) -> None:
        self._log = log
        self._store = store
        self._cadence_s = cadence_s
        self._flush_rows = flush_rows
        self._retention_bytes = retention_bytes
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._writing = threading.Lock()
        self._trimming = threading.Lock()
        self.failure: Exception | None = None
        self.on_progress: Callable[[], None] = lambda: None
        self.floor: Callable[[], LSN | None] = lambda: None
        self.checkpoints = self.failures = 0
        self.seconds = 0.0
        self.caught_up_at = time.monotonic()
        self._near: set[str] = set()  # limits that were reported
        self._thread = threading.Thread(target=self._run, name="herdpy-checkpointer", daemon=True)

    def start(self) -> None:
        """Begin; :meth:`stop` ends it."""
        self._thread.start()

    def grew(self) -> None:
        """The memtable grew: flush now if it is large. Called in the engine's turn, so it is brief."""
        if self._store.memory.rows >= self._flush_rows:
            self._wake.set()

    def request(self) -> None:
        """Flush as soon as possible: somebody waits for memory. Called in the engine's turn."""
        self._wake.set()

    def stop(self) -> None:
        """End the thread after the flush that it is in, if it was started."""
        self._stopping.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join()

    def checkpoint(self, *, trim: bool) -> list[int]:
        """Flush now, in this thread; with ``trim`` delete every ledger that is no longer needed.

        Returns:
            Ids of the ledgers deleted.

        Raises:
            OSError, lmdb.Error: the store could not be written; nothing was lost.
        """
        with self._writing:
            began = time.monotonic()
            self._store.flush()
            self.seconds += time.monotonic() - began
            self.checkpoints += 1
            self.caught_up_at = began
            self._warn_of_limits()
            self.on_progress()
            self._keep_columns()
            if not trim:
                return self._trim(self._retention_bytes)
            self._log.roll()
            return self._trim(0)

    def _keep_columns(self) -> None:
        """Files of columns follow; a checkpoint is one without them, too."""
        try:
            self._store.keep_columns()
        except (OSError, lmdb.Error) as error:
            logger.warning("columns of tables are not kept in files: %s", error)

    def _warn_of_limits(self) -> None:
        """Warn of what is half used up, once for as long as it is."""
        near = {one.name: one for one in self._store.limits() if one.is_near}
        for name in near.keys() - self._near:
            one = near[name]
            logger.warning(
                "a limit is near: %s is %d of %d; more will be refused with %s",
                name, one.used, one.most, one.sqlstate,
            )  # fmt: skip
        self._near = set(near)

    def _trim(self, keep_bytes: int) -> list[int]:
        """Delete the oldest ledgers that the store is past, down to ``keep_bytes`` of closed ones."""
        before = START
        closed = [ledger for ledger in self._log.ledgers() if ledger.closed]
        excess = sum(ledger.length for ledger in closed) - keep_bytes
        for ledger in closed:
            if excess <= 0:
                break
            before = ledger.last
            excess -= ledger.length
        with self._trimming:
            floor = self.floor()
            return self._log.trim(min(before, self._store.floor, before if floor is None else floor))

    def await_trimming(self) -> None:
        """Return when no trimming is under way that asked for the floor before this was called."""
        with self._trimming:
            pass

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._wake.wait(self._cadence_s)
            self._wake.clear()
            if self._stopping.is_set():
                return
            try:
                if self._store.memtable_rows or self._store.durable != self._store.applied:
                    self.checkpoint(trim=False)
                else:
                    self.caught_up_at = time.monotonic()
                    self._store.expire_marks()
                    with self._writing:
                        self._keep_columns()
                self._log.roll_if_due()
                self._log.note_lac()
                if self.failure is not None:
                    logger.warning("checkpoints work again")
                    self.failure = None
            except Exception as error:  # noqa: BLE001 - logged, kept in `failure`, and tried again
                self.failures += 1
                if is_for_lack_of_space(error):  # old states keep pages, and the log's ledgers
                    self._store.let_go_of_marks()
                if self.failure is None or str(error) != str(self.failure):
                    logger.error("checkpoint failed, will be tried again: %s", error)
                self.failure = error
                self.on_progress()
