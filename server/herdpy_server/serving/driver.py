"""One loop runs every session: coroutines driven by hand (no asyncio task, no context), and the turn.

Bottom of ``serving``, above ``tablespace_host``. Being on the loop is having the engine's turn; another
thread gets it by a hand-shake. A statement that need not wait is over when :meth:`Run.start` returns. One
that waits is taken up again on the loop when its :class:`~herdpy.log.wait.Wait` is done, and never from
inside whatever finished it: a lock is handed over in the middle of somebody else's commit. Only the log
answers from a callback of its own, with its group acknowledged as a whole: there a run goes on at once.

:class:`LoopSessions` are the sessions of one tablespace on the loop: what each is given, and how they end.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Sized
from typing import Any, Generic, Protocol, TypeVar

from herdpy.log import Append, LastWait
from herdpy.log.wait import Wait, Work
from herdpy_server.sessions import OpenSessions, Session
from herdpy_server.sessions.identity import ObserverOf
from herdpy_server.sessions.limits import SessionLimits
from herdpy_server.tablespace import Directory
from herdpy_server.tablespace_host import TablespaceHost
from herdpy_server.workers.pool import WorkerPool
from herdpy_server.workers.scheduler import WorkerSettings
from herdpy_sql.errors import SqlError

_LOOK_AT_LOOP_S = 1.0
"""How often a thread that waits for its turn looks whether the loop still is."""


class LoopTurn:
    """The turn of a tablespace whose sessions all run on ``loop``. Made on the loop's thread.

    In another thread it must not be entered twice, and the block must not wait for anything that
    the loop does. It raises RuntimeError there when the loop is closed, before or while the thread waits.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._thread_id = threading.get_ident()
        self._others = threading.Lock()  # one thread at a time has the loop stand still
        self._leave = threading.Lock()  # released by whoever has the turn; a new one each time

    def __enter__(self) -> None:
        if threading.get_ident() == self._thread_id:
            return
        self._others.acquire()
        try:
            came, leave = threading.Lock(), threading.Lock()
            came.acquire()
            leave.acquire()
            self._loop.call_soon_threadsafe(_hold_loop, came, leave)
            while not came.acquire(timeout=_LOOK_AT_LOOP_S):
                if self._loop.is_closed():
                    raise RuntimeError("the loop was closed")
            self._leave = leave
        except BaseException:
            self._others.release()
            raise

    def __exit__(self, *exc_info: object) -> None:
        if threading.get_ident() == self._thread_id:
            return
        self._leave.release()
        self._others.release()


def _hold_loop(came: threading.Lock, leave: threading.Lock) -> None:
    came.release()
    leave.acquire()


T = TypeVar("T")


class Run(Generic[T]):
    """One coroutine of a session on its way to its end. Everything here is for the loop's thread.

    It awaits ``Wait``s, or futures of the loop; there is no task around it, so what asks for the
    current one (``asyncio.timeout``) has no place in it.

    Attributes:
        finished: whether it has come to its end; then :meth:`result` tells.
    """

    __slots__ = (
        "__weakref__",
        "_coroutine",
        "_done",
        "_driver",
        "_error",
        "_interrupt",
        "_value",
        "_wait",
        "finished",
    )

    def __init__(
        self, driver: Driver, coroutine: Coroutine[Any, Any, T] | None, done: Callable[[Run[T]], object]
    ) -> None:
        """``done`` is called with this run when it ends, unless it does so within :meth:`start`.

        Without a coroutine there is nothing but a wait (:meth:`wait_for`), which alone has a result.
        """
        self._driver = driver
        self._coroutine = coroutine
        self._done = done
        self._wait: Wait[Any] | None = None
        self._value: T | None = None
        self._error: BaseException | None = None
        self._interrupt: BaseException | None = None  # to be raised when the wait is done
        self.finished = False

    def start(self) -> bool:
        """Begin; True when that was all, False when it waits and ``done`` will be called."""
        return self._step(None)

    def wait_for(self, wait: Wait[Any]) -> None:
        """Begin with a coroutine that has begun already, and waits: ``done`` will be called."""
        self._wait = wait
        self._driver.waiting.add(self)
        if isinstance(wait, (Append, LastWait)):
            wait.when_done(self._wake)
        else:
            wait.add_done_callback(self._resume)

    def result(self) -> T:
        """What the coroutine returned; raises what it raised. InvalidStateError before it has ended."""
        if not self.finished:
            raise asyncio.InvalidStateError("the statement is still running")
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for something now."""
        return self._wait is not None

    @property
    def is_committing(self) -> bool:
        """Whether it waits for the log: what it waits for cannot be taken back any more."""
        return isinstance(self._wait, (Append, LastWait))

    def throw(self, error: BaseException) -> bool:
        """Raise ``error`` in the coroutine where it waits; False when it does not, or for its commit.

        It is raised now, but where a thread works for the coroutine: then once that is done, because
        it uses what the coroutine holds. A statement that its client cancels is better ended by the
        session's ``cancel``, which stops such work.
        """
        if self._wait is None or self.is_committing:
            return False
        if isinstance(self._wait, Work):
            self._interrupt = error
            return True
        self._wait = None
        if self._step(error):
            self._end()
        return True

    def _step(self, interrupt: BaseException | None) -> bool:
        coroutine = self._coroutine
        if coroutine is None:
            self._error, self.finished = interrupt, True
            return True
        try:
            wait = coroutine.send(None) if interrupt is None else coroutine.throw(interrupt)
        except StopIteration as stop:
            self._value = stop.value
        except BaseException as error:  # noqa: BLE001 - `result` raises it
            self._error = error
        else:
            self.wait_for(wait)
            return False
        self.finished = True
        return True

    def _end(self) -> None:
        self._driver.ended(self)
        self._done(self)

    def _wake(self) -> None:
        """The log has answered. On the loop it does so with nothing else under way, so go on at once."""
        driver = self._driver
        if threading.get_ident() != driver.thread:
            driver.loop.call_soon_threadsafe(self._resume)
            return
        try:
            self._resume()
        except Exception as error:  # noqa: BLE001 - of this run's `done`: the others of the group go on
            driver.loop.call_exception_handler(
                {"message": "the end of a statement could not be handled", "exception": error}
            )

    def _resume(self, _wait: object = None) -> None:
        wait = self._wait
        if wait is None or not wait.done():
            return  # it was interrupted there, and is over or waits for something else
        interrupt, self._interrupt = self._interrupt, None
        if interrupt is None and self._driver.ending is not None and not self.is_committing:
            interrupt = self._driver.ending()
        self._wait = None
        if self._step(interrupt):
            self._end()


class EmptyWait:
    """Waits until a collection is empty. Whoever takes its last member out sets ``event``.

    Attributes:
        event: None while nobody waits.
    """

    def __init__(self, members: Sized) -> None:
        self.event: asyncio.Event | None = None
        self._members = members

    async def wait(self, timeout_s: float) -> bool:
        """Wait until it is empty; False when the time passed first."""
        if not self._members:
            return True
        self.event = asyncio.Event()
        try:
            async with asyncio.timeout(timeout_s):
                await self.event.wait()
        except TimeoutError:
            return not self._members
        finally:
            self.event = None
        return True


class Driver:
    """All runs of one loop. Made on the loop's thread.

    Attributes:
        loop, thread: the loop, and the id of the thread that runs it.
        waiting: the runs that have begun and wait, or are between two waits.
        ending: once set, makes the error for runs that wait for anything but the log.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.thread = threading.get_ident()
        self.waiting: set[Run[Any]] = set()
        self.ending: Callable[[], BaseException] | None = None
        self._idle = EmptyWait(self.waiting)

    def run(self, coroutine: Coroutine[Any, Any, T] | None, done: Callable[[Run[T]], object]) -> Run[T]:
        """A run of ``coroutine``, to be started; see :class:`Run`."""
        return Run(self, coroutine, done)

    async def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run ``coroutine`` for an asyncio task.

        A task that is cancelled takes the statement with it, unless that is waiting for its commit.
        """
        over = asyncio.Event()
        run = Run(self, coroutine, lambda _run: over.set())
        if run.start():
            return run.result()
        try:
            await over.wait()
        except asyncio.CancelledError as cancelled:
            run.throw(cancelled)
            raise
        return run.result()

    def ended(self, run: Run[Any]) -> None:
        """Forget a run that is over."""
        self.waiting.discard(run)
        idle = self._idle.event
        if idle is not None and not self.waiting:
            idle.set()

    async def idle(self, timeout_s: float) -> bool:
        """Wait until no run waits; False when the time passed first."""
        return await self._idle.wait(timeout_s)


class SessionContext(Protocol):
    """What sessions get that begin from now on.

    Attributes:
        observer_of: gives a session its observer, which is called for every statement; None: it has none.
        limits: what a session may keep.
    """

    observer_of: ObserverOf | None
    limits: SessionLimits


class LoopSessions:
    """The sessions of one tablespace that somebody holds, and the processes that compute for them.

    Attributes:
        workers: they answer what DuckDB is asked; None: threads of this process do.

    Args:
        workers: of these processes; None: there are to be none.
    """

    def __init__(
        self, host: TablespaceHost, driver: Driver, context: SessionContext, workers: WorkerSettings | None
    ) -> None:
        self._host = host
        self._loop = driver.loop
        self._context = context
        self._open = OpenSessions()
        self.workers: WorkerPool | None = None
        if workers is not None:
            self.workers = WorkerPool(
                driver.loop,
                host.store,
                Directory(host.path).spill,
                workers,
                host.settings.query_memory_bytes,
                host.settings.column_cache_bytes,
                host.settings.column_segment_bytes,
            )

    def __iter__(self) -> Iterator[Session]:
        return iter(self._open)

    def begin(self) -> Session:
        """A new session."""
        context = self._context
        session = self._host.session()
        session.waits.runs_on(self._loop)
        session.observer = None if context.observer_of is None else context.observer_of(session)
        session.allowed = context.limits
        session.settings.max_custom = context.limits.custom_settings
        if self.workers is not None:
            session.queries.backend = self.workers
        self._open.add(session)
        return session

    def shut(self) -> None:
        """End what their statements do now; again and again, for DuckDB may miss an early interrupt."""
        for session in self:
            session.shut()

    def roll_back(self) -> None:
        """Roll back every transaction, once no statement runs."""
        for session in self:
            session.roll_back_now()

    async def close_workers(self, error: SqlError) -> None:
        """End the processes; who waits for one gets the error."""
        if self.workers is not None:
            await self.workers.close(error)
