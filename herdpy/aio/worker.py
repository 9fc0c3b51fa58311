"""The thread of an asynchronous connection: its blocking calls, one by one, for the tasks of a loop.

The bottom of ``aio``. A call comes by a queue and its answer goes back to the event loop. A call holds its
turn until the thread has ended it, also when its task was cancelled. The thread is joined when the
connection is closed, and at the interpreter's exit.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import contextvars
import functools
import itertools
import os
import threading
import time
import warnings
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

from herdpy.dbapi.connection import Connection
from herdpy.dbapi.errors import Error, InterfaceError
from herdpy.dbapi.link import Notice, Notices

_EXIT_PATIENCE_S = 5.0
_AGAIN_FIRST_S, _AGAIN_LONGEST_S = 0.02, 0.5
"""A statement is cancelled again after so long: the first cancel came when it could not be ended."""

_numbers = itertools.count(1)
_workers: set[Worker] = set()
"""Those whose thread may be alive; whether or not their connection is."""
_cancellers: set[threading.Thread] = set()
"""Threads that cancel, or have just ended."""


class WorkerCall:
    """A blocking call, on its way to the thread and back.

    Attributes:
        answer: its result; whoever awaits it may be cancelled, and it with them.
        is_over: whether the call has returned or raised, as the loop knows.
    """

    __slots__ = ("_arguments", "_context", "_function", "_loop", "_over", "answer", "is_over")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, function: Callable[..., Any], arguments: tuple[Any, ...]
    ) -> None:
        self._loop = loop
        self._function = function
        self._arguments = arguments
        self._context: contextvars.Context | None = contextvars.copy_context()  # a trace's span is in there
        self._over: threading.Event | None = None
        self.answer: asyncio.Future[Any] = loop.create_future()
        self.is_over = False

    def run(self) -> None:
        """Make the call; in the thread."""
        value, error = self._made()
        try:
            if not _post(self._loop, self._finish, value, error):
                self.let_be()
        finally:
            del value, error  # an error and its traceback would keep each other alive

    def _made(self) -> tuple[Any, BaseException | None]:
        """What the call returns or raises; what it was made with is let go before that."""
        function, arguments, context = self._function, self._arguments, self._context
        self._function, self._arguments, self._context = _made_already, (), None
        try:
            return function(*arguments) if context is None else context.run(function, *arguments), None
        except BaseException as raised:  # noqa: BLE001 - it is raised again where the answer is awaited
            return None, raised

    def stop(self, cancel: Callable[[], None]) -> asyncio.Future[None]:
        """Have ``cancel`` end the call, from a thread of its own; done when neither of them runs."""
        over = self._over = threading.Event()

        def keep_at_it() -> None:
            pause_s = _AGAIN_FIRST_S
            while not over.is_set():
                cancel()
                over.wait(pause_s)
                pause_s = min(2 * pause_s, _AGAIN_LONGEST_S)

        if self.is_over:
            over.set()
        return aside(self._loop, keep_at_it)

    def let_be(self) -> None:
        """Stop trying to end it."""
        if self._over is not None:
            self._over.set()

    def _finish(self, value: Any, error: BaseException | None) -> None:
        self.is_over = True
        self.let_be()
        if self.answer.done():
            return
        if error is None:
            self.answer.set_result(value)
        else:
            self.answer.set_exception(error)


class Worker:
    """A thread and the queue before it.

    Attributes:
        interrupt: ends what the thread runs, when the interpreter wants to exit.
    """

    def __init__(self) -> None:
        self.interrupt: Callable[[], None] | None = None
        self._calls: SimpleQueue[WorkerCall | Callable[[], object] | None] = SimpleQueue()
        self._thread = threading.Thread(
            target=_work, args=(self._calls,), name=f"herdpy-aio-{next(_numbers)}", daemon=True
        )
        self._thread.start()
        for worker in list(_workers):
            if not worker.is_alive:
                _workers.discard(worker)
        _workers.add(self)

    def submit(
        self, loop: asyncio.AbstractEventLoop, function: Callable[..., Any], arguments: tuple[Any, ...]
    ) -> WorkerCall:
        """Have ``function(*arguments)`` called, after what was submitted before."""
        call = WorkerCall(loop, function, arguments)
        self._calls.put(call)
        return call

    def leave(self, last: Callable[[], object] | None = None) -> None:
        """End the thread when it has done what was submitted, and ``last``, whose errors nobody hears."""
        if last is not None:
            self._calls.put(last)
        self._calls.put(None)

    @property
    def is_alive(self) -> bool:
        """Whether the thread is there."""
        return self._thread.is_alive()

    def join(self, timeout_s: float | None = None) -> None:
        """Wait for the thread's end; it must have been asked to end."""
        self._thread.join(timeout_s)
        if not self._thread.is_alive():
            _workers.discard(self)


def _work(calls: SimpleQueue[WorkerCall | Callable[[], object] | None]) -> None:
    while (call := calls.get()) is not None:
        if isinstance(call, WorkerCall):
            call.run()
        else:
            call()
        del call  # an idle thread keeps nothing alive


def _made_already() -> None:
    raise AssertionError("a call is made once")


def aside(loop: asyncio.AbstractEventLoop, function: Callable[[], None]) -> asyncio.Future[None]:
    """Call ``function``, which cancels something, in a thread of its own; done when it has returned.

    Its refusal is no news: what it wanted to cancel has ended.
    """
    ended = loop.create_future()

    def resolve() -> None:
        if not ended.done():
            ended.set_result(None)

    def run() -> None:
        try:
            with contextlib.suppress(Error):
                function()
        finally:
            _post(loop, resolve)

    thread = threading.Thread(target=run, name="herdpy-aio-cancel", daemon=True)
    thread.start()
    for ended_one in [one for one in list(_cancellers) if not one.is_alive()]:
        _cancellers.discard(ended_one)
    _cancellers.add(thread)
    return ended


def _post(loop: asyncio.AbstractEventLoop, function: Callable[..., None], *arguments: Any) -> bool:
    """Have the loop call a function; False when it was closed, and nobody waits any more."""
    try:
        loop.call_soon_threadsafe(function, *arguments)
    except RuntimeError:
        if not loop.is_closed():
            raise
        return False
    return True


def settle(timeout_s: float = _EXIT_PATIENCE_S) -> None:
    """Wait until threads that were asked to end have ended, and those that cancel."""
    for worker in list(_workers):
        worker.join(timeout_s)
    for canceller in list(_cancellers):
        canceller.join(timeout_s)


def _at_exit() -> None:
    workers = list(_workers)
    for worker in workers:
        worker.leave()
    until = time.monotonic() + _EXIT_PATIENCE_S
    for worker in workers:
        worker.join(_AGAIN_FIRST_S)
        while worker.is_alive and worker.interrupt is not None and time.monotonic() < until:
            with contextlib.suppress(Error):
                worker.interrupt()
            worker.join(_AGAIN_FIRST_S)


def _in_child() -> None:
    _workers.clear()  # their threads are the parent's
    _cancellers.clear()


atexit.register(_at_exit)
os.register_at_fork(after_in_child=_in_child)


T = TypeVar("T")

END: Any = object()
"""What ``next`` gives in the thread after the last: StopIteration cannot be sent to a loop."""
CANCEL_PATIENCE_S = 5.0
"""A statement whose task was cancelled has so long to end; then the connection is given up."""


class Calls:
    """The calls of one connection.

    Attributes:
        connection: the blocking one underneath.
        notices: the server's; handlers are called on the loop, before the statement returns there.
        is_busy: whether a call is under way.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, worker: Worker, connection: Connection[Any]) -> None:
        self.connection = connection
        self._loop = loop
        self._worker = worker
        self._turn = asyncio.Lock()
        self._given_up = ""
        self.notices = notices = Notices()
        worker.interrupt = connection.cancel

        def forward(notice: Notice) -> None:
            with contextlib.suppress(RuntimeError):  # the loop was closed
                loop.call_soon_threadsafe(notices.deliver, (notice,))

        connection.add_notice_handler(forward)

    @property
    def is_busy(self) -> bool:
        """Whether a call is under way."""
        return self._turn.locked() and not self.connection.closed

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be asked any more."""
        return bool(self._given_up) or self.connection.closed

    def check(self) -> None:
        """InterfaceError when nothing can be asked here, or not on this loop."""
        if self._given_up:
            raise InterfaceError(self._given_up, sqlstate="08003")
        self.connection.check_open()
        if asyncio.get_running_loop() is not self._loop:
            raise InterfaceError(
                "the connection belongs to another event loop",
                sqlstate="55000",
                hint="Open one in the loop that uses it; a loop of asyncio.run() ends with it.",
            )

    async def run(self, function: Callable[..., T], *arguments: Any, stops: bool = True) -> T:
        """What ``function(*arguments)`` returns, from the connection's thread.

        Args:
            stops: when the task is cancelled, what runs on the connection is ended by ``cancel()``.
                Otherwise it ends by itself.

        Raises:
            asyncio.CancelledError: the task was cancelled; by then the call has ended, or the connection
                was given up.
        """
        self.check()
        turn = self._turn
        await turn.acquire()
        try:
            self.check()
            call = self._worker.submit(self._loop, function, arguments)
            try:
                answer: T = await call.answer
            except asyncio.CancelledError:
                if not call.is_over:
                    await self._end(call, stops)
                raise
            return answer
        finally:
            turn.release()

    async def _end(self, call: WorkerCall, stops: bool) -> None:
        """Wait until a call has ended whose task was cancelled.

        Not for ever, and no longer when the task is cancelled again.
        """
        ended = call.stop(self.connection.cancel if stops else _nothing)
        try:
            await asyncio.wait((ended,), timeout=CANCEL_PATIENCE_S)
        finally:
            call.let_be()
            if not (ended.done() and call.is_over):
                self.give_up("a statement whose task was cancelled did not end: the connection is closed")

    async def cancel(self) -> None:
        """End what runs."""
        self.check()
        await aside(self._loop, self.connection.cancel)

    def give_up(self, reason: str) -> None:
        """Close the connection when its thread comes back, without waiting for that."""
        if not self._given_up:
            self._given_up = reason
            self._worker.leave(self.connection.close)

    async def close(self) -> None:
        """Close the connection and end its thread; from another loop, too: the first may have ended."""
        if self._given_up:
            return
        loop = asyncio.get_running_loop()
        try:
            if self.connection.closed:
                pass
            elif loop is self._loop:
                await self.run(self.connection.close, stops=False)
            else:
                await self._worker.submit(loop, self.connection.close, ()).answer
        finally:
            if not self._given_up:
                self.give_up("the connection is closed")
                if self.connection.closed:
                    self._worker.join()  # it has nothing left to do

    def forget(self, shown: str, warn: Any = warnings.warn) -> None:
        """The connection was collected while it was open."""
        if not self.is_closed:
            self.give_up("the connection was deleted")
            warn(f"{shown} was deleted without being closed", ResourceWarning)


def _nothing() -> None:
    """For what ends by itself."""


async def opened(function: Callable[..., Connection[Any]], *arguments: Any, **options: Any) -> Calls:
    """Connect in a thread of its own."""
    loop = asyncio.get_running_loop()
    worker = Worker()
    made: list[Connection[Any]] = []

    def connect() -> None:
        made.append(function(*arguments, **options))

    try:
        await worker.submit(loop, connect, ()).answer
    except BaseException:
        worker.leave(functools.partial(_close_all, made))  # it may still come to be
        raise
    return Calls(loop, worker, made.pop())


def _close_all(made: list[Connection[Any]]) -> None:
    for connection in made:
        connection.close()
