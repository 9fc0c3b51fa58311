"""Group commit for an event loop: a thread that only writes, and everything else on the loop.

Beside ``group_commit``, whose queue it uses. The flusher thread takes what is queued, writes and
syncs it, hands the group over to the loop and goes on with what queued up meanwhile. On the loop
the group is acknowledged and its appends are resolved, in order: so the state machine runs in one
thread and needs no mutex. A group may be on its way to the loop while the next is written; after a
failure the flusher stands still until the loop has failed all that was queued behind it, because
that may build on what did not happen.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial

from herdpy.log.commit_log import Acknowledge
from herdpy.log.errors import LogError
from herdpy.log.group_commit import GroupCommit, QueuedAppend
from herdpy.log.transaction import Body, Transaction
from herdpy.log.wait import Wait, open_gate


class DeliveredAppend(QueuedAppend):
    """An append that is resolved on the loop, whoever waits for it."""

    __slots__ = ()

    def block(self, timeout_s: float | None = None) -> bool:
        """As ``Wait.block``, for threads that are not the loop's."""
        self._group.flush_for(self)
        return Wait.block(self, timeout_s)


class DeliveredCommit(GroupCommit):
    """A queue of appends with a flusher thread, which starts with the first that is waited for."""

    def __init__(
        self,
        write: Callable[[list[QueuedAppend]], None],
        acknowledge: Acknowledge | None,
        max_group_bytes: int,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """As ``GroupCommit``; ``acknowledge`` is called on ``loop``."""
        super().__init__(write, acknowledge, max_group_bytes)
        self._loop = loop
        self._broken: LogError | None = None
        self._stopped = False
        self._go = threading.Lock()  # held by nobody in particular: released, it lets the flusher go on
        self._go.acquire()

    def _queued(self, transaction: Transaction, body: Body) -> QueuedAppend:
        return DeliveredAppend(self, transaction, body)

    def flush_for(self, append: QueuedAppend) -> None:
        """See to it that what is queued is flushed."""
        # Without the mutex: the flusher gives up the role only with the mutex and an empty queue.
        if self.flushing:
            return
        with self.mutex:
            if self.flushing or not self._queue:
                return
            self.flushing = True
        if asyncio._get_running_loop() is self._loop:
            # At the end of this pass: what other connections ask for in it goes into the same group.
            self._loop.call_soon(self._wake_background)
        else:
            self._wake_background()

    def stop(self) -> None:
        """End the flusher; after ``refuse`` and ``flush``."""
        with self.mutex:
            self._stopped = True
            thread, self._background = self._background, None
        if thread is not None and thread is not threading.current_thread():
            open_gate(self._go)
            thread.join()

    # In the flusher's thread.

    def _wake_background(self) -> None:
        if self._background is None and not self._stopped:
            self._background = threading.Thread(target=self._run, name="herdpy-log-flusher", daemon=True)
            self._background.start()
        open_gate(self._go)

    def _run(self) -> None:
        while True:
            self._go.acquire()
            while (group := self._next_group()) is not None:
                try:
                    self._write(group)
                except LogError as error:
                    deliver = partial(self._failed, group, error)
                except BaseException as error:  # noqa: BLE001 - the appends carry it
                    deliver = partial(self._broke, group, error)
                else:
                    deliver = partial(self._written, group)
                try:
                    self._loop.call_soon_threadsafe(deliver)
                except RuntimeError as error:  # the loop was closed: there is nobody to tell
                    self._broke(group, error)
                    return
                if deliver.func != self._written:
                    break  # the loop hands the role back
            if self._stopped:
                return

    def _next_group(self) -> list[QueuedAppend] | None:
        with self.mutex:
            if self._queue and not self._stopped:
                return self.take_locked()
            self.flushing = False
            return None

    # On the loop.

    def _written(self, group: list[QueuedAppend]) -> None:
        if self._broken is not None:
            for append in group:
                append.fail(self._broken)
            return
        try:
            if self._acknowledge is not None:
                self._acknowledge(group, None)
        except BaseException as error:
            self._broke(group, error)
            raise
        self._delivered(group)
        for append in group:
            append.resolve(append.lsn)  # type: ignore[arg-type]

    def _failed(self, group: list[QueuedAppend], error: LogError) -> None:
        try:
            self._fail_group(group, error)
        except BaseException as failure:
            self._broke(group, failure)
            raise
        self._delivered(group)
        with self.mutex:
            self.flushing = bool(self._queue)
            if self.flushing:
                self._wake_background()

    def _delivered(self, group: list[QueuedAppend]) -> None:
        with self.mutex:
            if self._in_flight is group:  # else the flusher is at a later one
                self._in_flight = []

    def _broke(self, group: list[QueuedAppend], error: BaseException) -> None:
        self._broken = failure = self._failure(error)
        for append in group:
            append.fail(failure)
        self._break_down(error)
