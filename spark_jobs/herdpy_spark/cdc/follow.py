"""Follows one table: batches of the log's changes into a sink, with where they end. The top of ``cdc``.

A batch goes from one transaction's end to another's. The sink takes it with its offset, so after a kill the
next run goes on from there. What a server or bookie that is away says is tried again, when it is to follow.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain

from herdpy.backoff import Backoff
from herdpy.log import LogUnavailableError
from herdpy.log.lsn import LSN
from herdpy_spark.access import AccessError, SparkDatabase
from herdpy_spark.cdc.messages import ChangeFormat, Message
from herdpy_spark.cdc.sinks import ChangesSink
from herdpy_spark.feed.driver import FeedDriver, Offset, SnapshotTask, StretchTask
from herdpy_spark.feed.lease import FeedLease
from herdpy_spark.feed.table import AdaptingShape
from herdpy_spark.feed.tasks import read_changes
from herdpy_spark.options import Position
from herdpy_sql.catalog import Table

_MOST_ENTRIES = 2_000
_IDLE_KEEP_S = 30.0
_POLL_FIRST_S, _POLL_MOST_S = 0.05, 1.0


class Follower:
    """One run.

    Args:
        starting: where to begin where the sink has nothing.
        with_rows: where the sink has nothing, begin with the table's rows as they are now, in one batch.
        on_trimmed: "error", or "snapshot", as ``FeedDriver`` has it.
        lease_s: for how long the servers keep the log for a run that is stopped.
        warn: shows a line.

    Attributes:
        messages: how many the sink has taken.
    """

    def __init__(
        self,
        database: SparkDatabase,
        table: str,
        form: ChangeFormat,
        sink: ChangesSink,
        *,
        starting: Position = "latest",
        with_rows: bool = False,
        on_trimmed: str = "error",
        lease_s: float,
        warn: Callable[[str], None],
    ) -> None:
        self._shapes = AdaptingShape(form.dress)
        self._driver = FeedDriver(database, table, self._shapes, on_trimmed=on_trimmed, partitions=1)
        self._form = form
        self._sink = sink
        self._starting = starting
        self._with_rows = with_rows
        self._warn = warn
        self._lease = (
            None if database.servers is None else FeedLease(database.servers, f"changes of {table}", lease_s)
        )
        self._kept: Offset | None = None
        self._kept_s = time.monotonic()
        self.messages = 0

    def run(self, *, forever: bool, stop: threading.Event) -> None:
        """Follow: until ``stop`` is set, or to what is committed now.

        Raises:
            LogError, AccessError, OptionError: the log cannot be read.
            SinkError: the sink refuses.
        """
        try:
            at = self._kept = self._begin()
            self._keep_log()
            if not forever:
                self._driver.freeze()
            at = self._follow(at, forever, stop)
            if at != self._kept:
                self._write(iter(()), at)
        finally:
            if self._lease is not None:
                self._lease.close()

    def _begin(self) -> Offset:
        """Where to go on from; the table's rows are written, if they are to be and are not yet."""
        at = self._sink.position()
        if at is not None or not self._with_rows:
            return at or self._driver.first(self._starting)
        end, tasks = self._driver.state()
        if self._lease is not None:
            self._lease.keep(end.lsn)
        self._write(self._read(tasks, end.table), end)
        return end

    def _follow(self, at: Offset, forever: bool, stop: threading.Event) -> Offset:
        pauses = Backoff(_POLL_FIRST_S, _POLL_MOST_S)
        while not stop.is_set():
            try:
                end = self._driver.next(at, _MOST_ENTRIES)
                if end != at:
                    self._batch(at, end)
                    at = end
                    pauses.reset()
                    continue
            except (LogUnavailableError, AccessError) as error:
                refused = isinstance(error, AccessError) and not error.is_transient
                if not forever or refused or not self._sink.is_atomic:
                    raise
                self._warn(f"the log does not answer, which is tried again: {error}")
            if not forever:
                break
            stop.wait(pauses.pause_s())
        return at

    def _batch(self, at: Offset, end: Offset) -> None:
        """Write what is there; a position without messages is kept now and then."""
        messages = self._messages(at, end)
        first = next(messages, None)
        if first is not None:
            self._write(chain([first], messages), end)
        elif time.monotonic() - self._kept_s > _IDLE_KEEP_S:
            self._write(iter(()), end)

    def _write(self, messages: Iterator[Message], end: Offset) -> None:
        self.messages += self._sink.write(messages, end)
        self._kept, self._kept_s = end, time.monotonic()
        self._keep_log()

    def _messages(self, at: Offset, end: Offset) -> Iterator[Message]:
        return self._read(self._driver.tasks(at, end), at.table)

    def _read(self, tasks: Sequence[StretchTask | SnapshotTask], known: Table | None) -> Iterator[Message]:
        for task in tasks:
            for table, batch in read_changes(task, self._shapes):
                known = table or known
                yield from self._form.messages(batch, known)

    def _keep_log(self) -> None:
        if self._lease is not None and self._kept is not None:
            self._lease.keep(self._kept.lsn)

    @property
    def position(self) -> LSN | None:
        """Where the sink stands."""
        return None if self._kept is None else self._kept.lsn
