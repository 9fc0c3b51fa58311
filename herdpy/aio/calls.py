"""What the tasks of one loop ask of one connection: one call at a time, in the order in which they ask.

Between ``connection`` and ``worker``. A call holds its turn until the thread has ended it, also when the task
that asked was cancelled: nobody else comes in between.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from herdpy.aio.worker import Worker, WorkerCall, aside
from herdpy.dbapi.connection import Connection
from herdpy.dbapi.errors import InterfaceError
from herdpy.dbapi.notices import Notice, Notices

T = TypeVar("T")

END: Any = object()
"""What ``next`` gives in the thread after the last: StopIteration cannot be sent to a loop."""
CANCEL_PATIENCE_S = 5.0
"""A statement whose task was cancelled has so long to end; then the connection is given up."""


class Calls:
    """The calls of one connection.

    Attributes:
        connection: the blocking one underneath.
        notices: what it was told; handlers are called on the loop, before the statement returns there.
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
