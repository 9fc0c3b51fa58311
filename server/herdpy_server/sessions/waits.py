"""What the running statement of a session waits for: locks, memory, the log, DuckDB; and how its waiting
ends.

Below ``block``. A statement is cancelled from outside, or its time is up (:class:`StatementDeadline`): then
what it waits for is made to fail, and what computes is interrupted. Loops over rows ask for the deadline now
and then, through the workspace. What waits for something that knows no clock is given an alarm: a timer that
stops the waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, TypeVar

from herdpy.log.wait import Wait
from herdpy_server.tablespace import Tablespace, Transaction
from herdpy_server.tablespace.locks import LockWait
from herdpy_sql.columnar import Interrupt
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.references import settle_deferred
from herdpy_sql.storage import MustWait

if TYPE_CHECKING:
    from herdpy_server.sessions.advisory import AdvisoryLocks
    from herdpy_server.sessions.settings import Settings
    from herdpy_server.tracing import SessionTrace
    from herdpy_sql.deferred import Name

T = TypeVar("T")

CANCELLED = "canceling statement due to user request"
TIMED_OUT = "canceling statement due to statement timeout"

_STOP_AGAIN_S = 0.05


class StatementDeadline:
    """With the running statement of one session. ``end`` may be called from any thread.

    Attributes:
        loop: the loop that runs the session; None where threads do.
    """

    __slots__ = ("_deadline", "_error", "loop")

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self._error: SqlError | None = None
        self._deadline: float | None = None

    def begin(self, seconds: float | None) -> None:
        """A statement begins, which may take so long (None: for ever)."""
        self._error = None
        self._deadline = None if seconds is None else time.monotonic() + seconds

    @property
    def is_set(self) -> bool:
        """Whether the statement must end some time."""
        return self._deadline is not None

    def end(self, error: SqlError) -> None:
        """Make the next ``check`` raise ``error``."""
        self._error = error

    def check(self) -> None:
        """SqlError (57014, or why the session was closed) when the statement shall end."""
        if self._error is not None:
            raise self._error
        if self._deadline is not None and time.monotonic() > self._deadline:
            raise SqlError("57014", TIMED_OUT)

    @contextlib.contextmanager
    def alarm(self, stop: Callable[[str], object]) -> Iterator[None]:
        """Call ``stop`` with a message if time is up within the block: on ``loop``, or from a thread."""
        if self._deadline is None:
            yield
            return
        left_s = max(self._deadline - time.monotonic(), 0)
        timer: asyncio.TimerHandle | threading.Timer
        if self.loop is not None:
            timer = self.loop.call_later(left_s, stop, TIMED_OUT)
        else:
            timer = threading.Timer(left_s, stop, (TIMED_OUT,))
            timer.daemon = True
            timer.start()
        try:
            yield
        finally:
            timer.cancel()


class StatementWaits:
    """The waits of one session's statements, one at a time.

    Attributes:
        deadline: when the running statement must end. ``check`` is its ``check``: SqlError 57014, or why the
            session was closed, when the statement shall end.
        advisory: the session's advisory locks; None before the first.
        is_closed: the session has ended, or is about to.
        lock_s, log_s, worker_s: how long its statements have waited in all: for locks, for the log
            (room in it, and what they wrote or read to be durable), for a worker process.
        questions: how many the columnar engine got. ``changes``: rises whenever one of these numbers does.
        log_since_s: since when the running statement waits for the log, by ``perf_counter``; 0.0: not at all.
        lock_wait: what it waits for of another transaction; None: nothing.
        working: the transaction in which the running statement works, while other sessions have turns or it
            waits for a lock; else None.
        trace: is given the steps of statements; None where the server does not trace.
    """

    def __init__(self, tablespace: Tablespace, settings: Settings) -> None:
        self._tablespace = tablespace
        self._settings = settings
        self.deadline = StatementDeadline()
        self.check = self.deadline.check
        self.advisory: AdvisoryLocks | None = None
        self.is_closed = False
        self._interrupt: Interrupt | None = None
        self._waiting: Wait[object] | None = None
        self.lock_s = self.log_s = self.worker_s = 0.0
        self.questions = self.changes = 0
        self.log_since_s = 0.0
        self.lock_wait: Wait[object] | None = None
        self.working: Transaction | None = None
        self.trace: SessionTrace | None = None

    def runs_on(self, loop: asyncio.AbstractEventLoop) -> None:
        """From now on ``loop`` runs this session's statements, and keeps their time."""
        self.deadline.loop = loop

    def begin_statement(self) -> None:
        """A statement begins, and with it its time."""
        self.deadline.begin(self._settings.statement_timeout_s)

    @property
    def kind(self) -> str | None:
        """What the running statement waits for: "Lock" (or memory), "Query"; None for neither."""
        if self._waiting is not None:
            return "Lock"
        return None if self._interrupt is None else "Query"

    @property
    def interrupt(self) -> Interrupt | None:
        """Of the question that the columnar engine works on; None for none."""
        return self._interrupt

    @property
    def awaits_room(self) -> bool:
        """Whether the running statement waits for memory, or for room in the log."""
        return self._waiting is not None and self.lock_wait is None

    def logged(self) -> None:
        """What the running statement has waited for since ``log_since_s`` is durable, or lost."""
        self.log_s += perf_counter() - self.log_since_s
        self.log_since_s = 0.0
        self.changes += 1

    @contextlib.contextmanager
    def interruptible(self, interrupt: Interrupt) -> Iterator[None]:
        """Within the block ``interrupt`` is what a cancelled statement, or one out of time, is ended by."""
        self._interrupt = interrupt
        self.questions += 1
        self.changes += 1
        try:
            self.deadline.check()  # it may have been cancelled when there was nothing to interrupt
            with self.deadline.alarm(partial(self._stop, interrupt)):
                yield
        finally:
            self._interrupt = None
            self.worker_s += interrupt.queued_s
            interrupt.queued_s = 0.0

    def _stop(self, interrupt: Interrupt, message: str = CANCELLED) -> None:
        """Cancel, and again until the waiting is over: DuckDB forgets what comes just before it starts."""
        interrupt.cancel(message)
        loop = self.deadline.loop
        if loop is not None:
            loop.call_soon_threadsafe(loop.call_later, _STOP_AGAIN_S, self._stop_again, interrupt)
        elif self._interrupt is interrupt:
            again = threading.Timer(_STOP_AGAIN_S, self._stop_again, (interrupt,))
            again.daemon = True
            again.start()

    def _stop_again(self, interrupt: Interrupt) -> None:
        if self._interrupt is interrupt:
            self._stop(interrupt)

    async def for_lock(self, transaction: Transaction, conflict: MustWait) -> None:
        """Wait until a lock, or what else is in a plan's way, is free. SqlError 40P01, 55P03, 57014."""
        await self.until_granted(transaction, conflict.wait)  # type: ignore[arg-type]

    async def until_granted(self, transaction: Transaction, wait: Wait[object]) -> None:
        """Await what a plan has met, in whose queue it is already. SqlError 40P01, 55P03, 57014.

        Where the waiting fails, the transaction is in that queue no more.
        """
        lock_wait = wait if isinstance(wait, LockWait) else None
        if lock_wait is not None:
            lock_wait.timeout_s = self._settings.lock_timeout_s
            lock_wait.deadlock_timeout_s = self._settings.deadlock_timeout_s
        if self.advisory is not None:
            self.advisory.waiting_as = transaction
        self.lock_wait = wait
        before, self.working = self.working, transaction
        began_s = perf_counter()
        span = None if self.trace is None else self.trace.child("lock wait")
        try:
            while True:
                await self.until(wait)
                if lock_wait is None or lock_wait.done():
                    break
                lock_wait.look()  # a thread has waited for so long that it is to
        except BaseException:
            self._tablespace.locks.forget(transaction)
            if self.advisory is not None:
                self.advisory.stop_waiting()
            raise
        finally:
            self.lock_wait, self.working = None, before
            self.lock_s += perf_counter() - began_s
            self.changes += 1
            if span is not None:
                span.end()
            if lock_wait is not None:
                lock_wait.stop()
            if self.advisory is not None:
                self.advisory.waiting_as = None

    async def settle(self, transaction: Transaction, names: set[Name] | None = None) -> None:
        """Make the checks that a transaction has put off, of these constraints or of all. SqlError 23503."""
        while True:
            try:
                settle_deferred(transaction.workspace, names)
                return
            except MustWait as conflict:
                met = conflict
            await self.for_lock(transaction, met)

    async def until(self, wait: Wait[T]) -> T:
        """Await what is done elsewhere; the statement's end (cancel, time-out) ends the waiting."""
        self._waiting = wait  # type: ignore[assignment]
        try:
            self.check()  # another thread may have cancelled it just now
            if not self.deadline.is_set:
                return await wait
            with self.deadline.alarm(lambda message: wait.fail(SqlError("57014", message))):
                return await wait
        finally:
            self._waiting = None

    async def room(self) -> None:
        """Wait, before writing, until there is memory for it, and room in the log."""
        while self._tablespace.is_full:
            await self._until_room(self._tablespace.room())

    async def log_room(self) -> None:
        """Wait until the log takes a commit; in the same turn it takes one. Errors end the waiting."""
        while self._tablespace.log.is_full:
            await self._until_room(self._tablespace.log_room())

    async def _until_room(self, wait: Wait[None]) -> None:
        """Wait for room in the log or in memory, and count the time as the log's."""
        began_s = perf_counter()
        try:
            await self.until(wait)
        finally:
            self.log_s += perf_counter() - began_s
            self.changes += 1

    def end(self, error: SqlError) -> None:
        """End the running statement with ``error``; from any thread."""
        self.deadline.end(error)
        waiting, interrupt = self._waiting, self._interrupt
        if interrupt is not None:
            self._stop(interrupt)
        if waiting is not None:
            waiting.fail(error)
