"""Group commit: many appends, one write and one sync. Between ``commit_log`` and ``file_log``.

GroupCommit needs no thread. Whoever blocks on an append while nobody flushes becomes the flusher: it takes
the whole queue, has it written, has it acknowledged, resolves it, and hands the role to one thread that waits
for the next group (leader and followers, as in MySQL's binary log). While the disk syncs, the next group
gathers. Appends that an event loop awaits have no thread to lend: a background thread, started when the first
such append comes, flushes for them.

Where one loop does everything, DeliveredCommit takes its place: a thread writes and syncs, hands the group to
the loop and goes on with what queued up meanwhile. On the loop the group is acknowledged and its appends are
resolved, in order: so the state machine runs in one thread and needs no mutex. After a failure the flusher
stands still until the loop has failed all that was queued behind it, because that may build on what did not
happen. While the disk is quick the loop has the flusher's role itself, at the end of a pass; the thread has
it where the loop must not wait (``LoopWriting``). The loop serves nobody while it syncs, so it gathers first:
as long as each pass brings a further commit, the group waits for the next; that of one client never waits.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Protocol

from herdpy.log.commit_log import Acknowledge, Append, LogWatch
from herdpy.log.entry import Body, LoggedTransaction
from herdpy.log.errors import LogClosedError, LogError, LogFencedError, LogWriteError
from herdpy.log.wait import Wait, open_gate, pass_gate

_logger = logging.getLogger("herdpy.log")

PASSES = 8
"""A group that the loop writes gathers for so many of its passes at most."""


class QueuedAppend(Append):
    """An append of a log whose waiters do the flushing."""

    __slots__ = ("_blocked", "_group", "_promoted", "_watched", "body")

    def __init__(self, group: GroupCommit, transaction: LoggedTransaction, body: Body) -> None:
        super().__init__(transaction)
        self.body = body  # the transaction's bytes
        self._group = group
        self._blocked = 0  # threads in block()
        self._promoted = False  # the role was handed to whoever blocks here
        self._watched = False  # somebody waits without a thread

    def block(self, timeout_s: float | None = None) -> bool:
        """As ``Wait.block``; the thread may flush for itself and others meanwhile."""
        group = self._group
        while not self._done:
            with group.mutex:
                if self.done():
                    return True
                lead = self._promoted or not group.flushing
                if lead:
                    self._promoted, group.flushing = False, True
                    taken = group.take_locked()
                else:
                    self._blocked += 1
                    gate = self._make_gate()
            if lead:
                group.lead(taken)
            elif gate is not None and not self._wait_at(gate, timeout_s):
                return False
        return True

    def _make_gate(self) -> threading.Lock | None:
        with self._guard:
            if self.done():
                return None
            if self._gate is None:
                self._gate = threading.Lock()
                self._gate.acquire()
            return self._gate

    def _wait_at(self, gate: threading.Lock, timeout_s: float | None) -> bool:
        """Wait until done or promoted; False when the time passed first."""
        came = False
        try:
            came = pass_gate(gate, timeout_s)
        finally:
            with self._group.mutex:
                self._blocked -= 1
                if self.done():
                    open_gate(gate)  # for the next thread that blocks on the same append
                elif self._promoted and not came:
                    # The time passed, or a signal came, just as the role was handed over.
                    self._promoted = False
                    self._group.hand_on_locked()
        return came or self.done()

    def when_done(self, callback: Callable[[], object]) -> None:
        super().when_done(callback)
        if not self._done:
            self._group.flush_for(self)


class GroupCommit:
    """The queue of appends and the role of the flusher.

    Attributes:
        mutex: guards the queue and the role.
        flushing: whether some thread has the role.
    """

    def __init__(
        self,
        write: Callable[[list[QueuedAppend]], None],
        acknowledge: Acknowledge | None,
        max_group_bytes: int,
    ) -> None:
        """``write`` makes a group durable and sets its positions, or raises a LogError that says
        what became of it; ``acknowledge`` sees each group in order before it is resolved."""
        self.mutex = threading.Lock()
        self.flushing = False
        self._write = write
        self._acknowledge = acknowledge
        self._max_group_bytes = max_group_bytes
        self._queue: list[QueuedAppend] = []
        self._queued_bytes = 0
        self._in_flight: list[QueuedAppend] = []
        self._refusal: LogError | None = None
        self._background: threading.Thread | None = None
        self._background_turn = threading.Semaphore(0)

    def append(self, transaction: LoggedTransaction) -> QueuedAppend:
        """Queue a transaction; raises LogClosedError once the log is closed or has failed."""
        body = transaction.body()
        append = self._queued(transaction, body)
        with self.mutex:
            if self._refusal is not None:
                raise LogClosedError(str(self._refusal)) from self._refusal
            self._queue.append(append)
            self._queued_bytes += len(body)
        return append

    def _queued(self, transaction: LoggedTransaction, body: Body) -> QueuedAppend:
        return QueuedAppend(self, transaction, body)

    def flush(self) -> None:
        """Block until all that is queued now is acknowledged; raises what the last one got."""
        with self.mutex:
            pending = self._queue or self._in_flight
            last = pending[-1] if pending else None
        if last is not None:
            last.block()
            last.result()

    def flush_for(self, append: QueuedAppend) -> None:
        """See to it that ``append`` is flushed although no thread blocks on it."""
        with self.mutex:
            append._watched = True
            if not self.flushing and self._queue:
                self.flushing = True
                self._wake_background()

    def refuse(self, error: LogError) -> bool:
        """Take no appends from now on; False when that was so already."""
        with self.mutex:
            first = self._refusal is None
            if first:
                self._refusal = error
            return first

    @property
    def refusal(self) -> LogError | None:
        """What appends are refused with; None while they are taken."""
        return self._refusal

    def stop(self) -> None:
        """End the background thread; after ``refuse`` and ``flush``."""
        with self.mutex:
            thread, self._background = self._background, None
        if thread is not None and thread is not threading.current_thread():
            self._background_turn.release()
            thread.join()

    # The flusher's role.

    def lead(self, group: list[QueuedAppend]) -> None:
        """Flush the group that was taken with the role, and hand the role on."""
        try:
            interrupt = self._flush(group) if group else None
            with self.mutex:
                self._in_flight = []
                self.hand_on_locked()
        except BaseException as error:
            # Who waits gets it as an unknown outcome, this thread too: the entry may be durable.
            self._break_down(error)
            if not isinstance(error, Exception):
                raise
            _logger.error("the log failed and accepts no more entries", exc_info=error)
            return
        if interrupt is not None:
            raise interrupt

    def hand_on_locked(self) -> None:
        """Give the role to a thread that waits for what is queued, or to nobody."""
        for append in self._queue:
            if append._blocked:
                append._promoted = True
                if append._gate is not None:
                    open_gate(append._gate)
                return
        if any(append._watched for append in self._queue):
            self._wake_background()
        else:
            self.flushing = False

    def take_locked(self) -> list[QueuedAppend]:
        """What the thread that has just got the role is to flush; it holds the mutex."""
        group, self._queue = self._queue, []
        if self._queued_bytes > self._max_group_bytes:
            size = count = 0
            while count < len(group) and (not count or size < self._max_group_bytes):
                size += len(group[count].body)
                count += 1
            group, self._queue = group[:count], group[count:]
            self._queued_bytes -= size
        else:
            self._queued_bytes = 0
        self._in_flight = group
        return group

    def _flush(self, group: list[QueuedAppend]) -> BaseException | None:
        """Write a group and answer it; the interrupt that came in between, if one did."""
        try:
            self._write(group)
        except LogError as error:
            self._fail_group(group, error)
            cause = error.__cause__
            return None if cause is None or isinstance(cause, Exception) else cause
        if self._acknowledge is not None:
            self._acknowledge(group, None)
        for append in group:
            append.resolve(append.lsn)  # type: ignore[arg-type]
        return None

    def _fail_group(self, group: list[QueuedAppend], error: LogError) -> None:
        """Fail a group and all that queued up behind it: it may build on what did not happen."""
        kind = type(error) if isinstance(error, LogWriteError | LogFencedError) else LogError
        behind = kind(f"{error} (for an earlier transaction)", outcome="not done")
        failed: list[tuple[list[QueuedAppend], LogError]] = []
        doomed, reason = group, error
        while doomed:
            if self._acknowledge is not None:
                self._acknowledge(doomed, reason)
            failed.append((doomed, reason))
            with self.mutex:
                doomed, self._queue, self._queued_bytes = self._queue, [], 0
            reason = behind
        for appends, reason in failed:
            for append in appends:
                append.fail(reason)

    def _break_down(self, error: BaseException) -> None:
        """The flusher failed where it must not: nobody may wait for ever, nothing may be added."""
        failure = self._failure(error)
        self.refuse(failure)
        with self.mutex:
            lost, behind, self._queue = self._in_flight, self._queue, []
            self._in_flight, self.flushing = [], False
        for append in lost:
            append.fail(failure)
        for append in behind:
            append.fail(LogClosedError(str(failure)))

    @staticmethod
    def _failure(error: BaseException) -> LogError:
        failure = LogError(f"the log failed while it acknowledged: {error!r}", outcome="unknown")
        failure.__cause__ = error
        return failure

    # The background flusher.

    def _wake_background(self) -> None:
        if self._background is None:
            self._background = threading.Thread(target=self._run, name="herdpy-log-flusher", daemon=True)
            self._background.start()
        self._background_turn.release()

    def _run(self) -> None:
        while True:
            self._background_turn.acquire()
            with self.mutex:
                if self._background is not threading.current_thread():
                    return
                taken = self.take_locked()
            try:
                self.lead(taken)
            except BaseException:  # noqa: BLE001 - the appends carry it, and the log refuses more
                return


# For an event loop: a thread that only writes.


class DeliveredAppend(QueuedAppend):
    """An append that is resolved on the loop, whoever waits for it."""

    __slots__ = ()

    def block(self, timeout_s: float | None = None) -> bool:
        """As ``Wait.block``, for threads that are not the loop's."""
        self._group.flush_for(self)
        return Wait.block(self, timeout_s)


class LoopWriting(Protocol):
    """Says whether the loop may write a group itself."""

    def enter(self, size_bytes: int) -> bool:
        """Whether it may write so many bytes now, and will not be held up by other threads: then ``leave`` is
        to be called when that is done."""

    def leave(self) -> None:
        """It is written, or has failed."""


class DeliveredCommit(GroupCommit):
    """A queue of appends with a flusher thread, which starts with the first that is waited for.

    Attributes:
        watch: is called for each group, if there is one.
    """

    def __init__(
        self,
        write: Callable[[list[QueuedAppend]], None],
        acknowledge: Acknowledge | None,
        max_group_bytes: int,
        loop: asyncio.AbstractEventLoop,
        here: LoopWriting,
    ) -> None:
        """As ``GroupCommit``; ``acknowledge`` is called on ``loop``, and ``write`` where ``here`` says so."""
        super().__init__(write, acknowledge, max_group_bytes)
        self._loop = loop
        self._here = here
        self.watch: LogWatch | None = None
        self._broken: LogError | None = None
        self._stopped = False
        self._passes = 0  # that the group has gathered for
        self._gathered = 0  # how many were queued a pass ago
        self._is_crowd = False  # the last group that the loop wrote had several commits
        self._go = threading.Lock()  # held by nobody in particular: released, it lets the flusher go on
        self._go.acquire()

    def _queued(self, transaction: LoggedTransaction, body: Body) -> QueuedAppend:
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
            self._loop.call_soon(self._begin)
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
                deliver = self._attempt(group)
                try:
                    self._loop.call_soon_threadsafe(deliver)
                except RuntimeError as closed:  # the loop was closed: nobody is left to hear of it
                    self._broke(group, closed)
                    return
                if deliver.func != self._written:
                    break  # the loop hands the role back
            if self._stopped:
                return

    def _attempt(self, group: list[QueuedAppend]) -> partial[None]:
        """Write a group; what the loop is to do then."""
        watch = self.watch
        try:
            if watch is not None:
                watch.writing(group)
            self._write(group)
            if watch is not None:
                watch.written(group)
        except LogError as failure:
            return partial(self._failed, group, failure)
        except BaseException as error:  # noqa: BLE001 - the appends carry it
            return partial(self._broke, group, error)
        return partial(self._written, group)

    def _next_group(self) -> list[QueuedAppend] | None:
        with self.mutex:
            if self._queue and not self._stopped:
                return self.take_locked()
            self.flushing = False
            return None

    # On the loop.

    def _begin(self) -> None:
        """With the role: write what is queued here, or have the thread do it."""
        if self._gathers():
            self._loop.call_soon(self._begin)
            return
        here = self._here
        if self._stopped or not here.enter(self._queued_bytes):
            self._wake_background()
            return
        try:
            with self.mutex:
                group = self.take_locked()
            deliver = self._attempt(group)
        finally:
            here.leave()
        deliver()
        if deliver.func == self._written:
            self._go_on()
        else:
            _raise_interrupt(deliver.args[-1])

    def _gathers(self) -> bool:
        """Whether a further pass over what has arrived may bring more to the group: the last one did."""
        queued = len(self._queue)
        if queued > self._gathered and self._passes < PASSES and (queued > 1 or self._is_crowd):
            self._gathered = queued
            self._passes += 1
            return True
        self._is_crowd = queued > 1
        self._gathered = self._passes = 0
        return False

    def _go_on(self) -> None:
        """Give the role back, or keep it for what was queued meanwhile."""
        with self.mutex:
            self.flushing = bool(self._queue) and not self._stopped
            if self.flushing:
                self._loop.call_soon(self._begin)

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
        if self.watch is not None:
            self.watch.applied(group)
        self._delivered(group)
        for append in group:
            append.resolve(append.lsn)  # type: ignore[arg-type]

    def _failed(self, group: list[QueuedAppend], error: LogError) -> None:
        if self.watch is not None:
            self.watch.failed(group)
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


def _raise_interrupt(error: BaseException) -> None:
    """Raise what interrupted the writing, if that is why it failed: it is the thread's own."""
    cause = error.__cause__
    if cause is not None and not isinstance(cause, Exception):
        raise cause
