"""One question under way, as the server sees it: what came back of it and was not taken yet, and how it ends.

Above ``messages``, below ``process``. One coroutine waits here at a time. Cancels, time limits and the death
of the worker all end it by an error; the worker is free again when it has said its last word about it,
whoever still takes what is here.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from herdpy.log.wait import OwnWait
from herdpy_server.workers.messages import QuestionFailed, ResultBatch, ResultEnd, ResultSchema, WorkerReady
from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from herdpy_sql.columnar import Interrupt

BUFFERED_BYTES = 1 << 20
"""So much of a result may wait here for who takes it; the rest waits in the worker."""


class WorkerProgress(Enum):
    """How far the worker is."""

    BEGUN = "begun"
    """It opens a state of LMDB, and will say so."""
    READY = "ready"
    """It waits for the question."""
    ASKED = "asked"
    """It answers, and will say when that is over."""
    OVER = "over"
    """It knows of the question no more."""


class ExchangeHolder(Protocol):
    """Whose worker it is.

    Attributes:
        pid: the worker's process.
    """

    pid: int

    def pause(self) -> None:
        """Read no more of it."""

    def read(self) -> None:
        """Read again."""

    def abandoned(self, exchange: WorkerExchange) -> None:
        """Nobody wants the answer; the worker has to know it, if it has the question."""

    def over(self, exchange: WorkerExchange) -> None:
        """The worker has said its last word about it."""


class LoopInterrupt:
    """Ends, on the loop, what waits for a worker, when its statement is cancelled in any thread.

    Args:
        fail: gets the error that it ends with.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, interrupt: Interrupt, fail: Callable[[SqlError], object]
    ) -> None:
        self._loop = loop
        self._interrupt = interrupt
        self._fail = fail

    def interrupt(self) -> None:
        """The statement is cancelled; any thread may call this."""
        self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        try:
            self._interrupt.check()
        except SqlError as error:
            self._fail(error)


class WorkerExchange:
    """One question.

    Attributes:
        number: among the questions of the server. worker_pid: the process that answers.
        at: how far the worker is with it.
        tables: tables of which the worker keeps columns, as it said at the end.
    """

    def __init__(
        self,
        number: int,
        loop: asyncio.AbstractEventLoop,
        holder: ExchangeHolder,
        interrupt: Interrupt,
        limit_s: float | None,
    ) -> None:
        self.number = number
        self.worker_pid = holder.pid
        self.at = WorkerProgress.BEGUN
        self.tables: list[int] = []
        self._loop = loop
        self._holder = holder
        self._interrupt = interrupt
        self._left_s = limit_s
        self._frames: deque[tuple[ResultBatch, bytes]] = deque()
        self._bytes = 0
        self._ready: WorkerReady | None = None
        self._schema: pa.Schema | None = None
        self._error: BaseException | None = None
        self._wait: OwnWait[None] | None = None
        self._is_closed = False

    # The taker's side.

    def begun(self) -> None:
        """The worker opens another state."""
        self.at = WorkerProgress.BEGUN
        self._ready = None

    def asked(self) -> None:
        """The worker has the question."""
        self.check()
        self.at = WorkerProgress.ASKED

    def check(self) -> None:
        """Raise what ended it, if something has."""
        if self._error is not None:
            raise self._error

    async def ready(self) -> WorkerReady:
        """What the worker has open."""
        await self._until(lambda: self._ready is not None)
        assert self._ready is not None
        return self._ready

    async def schema(self) -> pa.Schema:
        """Of the answer, which is there to be taken."""
        await self._until(lambda: self._schema is not None)
        assert self._schema is not None
        return self._schema

    async def next(self) -> tuple[int, bytes] | None:
        """(rows, bytes) of the next batch; None after the last. Raises what ended it."""
        await self._until(lambda: bool(self._frames) or self.at is WorkerProgress.OVER)
        if not self._frames:
            return None
        batch, body = self._frames.popleft()
        self._bytes -= len(body)
        if self._bytes <= BUFFERED_BYTES // 2 and self.at is not WorkerProgress.OVER:
            self._holder.read()
        return batch.rows, body

    async def _until(self, is_there: Callable[[], bool]) -> None:
        while self._error is None and not is_there():
            wait: OwnWait[None] = OwnWait()
            self._wait = wait
            began = time.monotonic()
            alarm = None
            if self._left_s is not None:
                alarm = self._loop.call_later(max(self._left_s, 0.0), self._out_of_time)
            try:
                await wait
            finally:
                self._wait = None
                if alarm is not None and self._left_s is not None:
                    alarm.cancel()
                    self._left_s -= time.monotonic() - began
        if self._error is not None:
            raise self._error

    def _out_of_time(self) -> None:
        self.fail(
            SqlError(
                "57014",
                "canceling statement due to the server's time limit of queries",
                hint="The limit is the setting workers.query_timeout_s.",
            )
        )

    def close(self) -> None:
        """Nobody takes anything any more."""
        if self._is_closed:
            return
        self._is_closed = True
        self._interrupt.attach(None)
        self._frames.clear()
        self._bytes = 0
        if self.at is not WorkerProgress.OVER:
            self._holder.read()
            self._holder.abandoned(self)

    def _wake(self) -> None:
        waiting = self._wait
        if waiting is not None:
            waiting.resolve(None)

    # The worker's side.

    def fail(self, error: BaseException) -> None:
        """End it by an error; what came and was not taken is dropped."""
        if self._error is None:
            self._error = error
        self._wake()
        self.close()

    def received(
        self, message: WorkerReady | ResultSchema | ResultBatch | ResultEnd | QuestionFailed, body: bytes
    ) -> None:
        """The worker's next message about it."""
        if isinstance(message, WorkerReady):
            self.at = WorkerProgress.READY
            self._ready = message
            if self._is_closed:
                self.finished()
        elif isinstance(message, ResultSchema):
            self._schema = pa.ipc.read_schema(pa.py_buffer(body))
        elif isinstance(message, ResultBatch):
            if not self._is_closed:
                self._frames.append((message, body))
                self._bytes += len(body)
                if self._bytes > BUFFERED_BYTES:
                    self._holder.pause()
        elif isinstance(message, ResultEnd):
            self.tables = message.kept
            self.finished()
        else:
            failure = SqlError(message.sqlstate, message.message, detail=message.detail, hint=message.hint)
            failure.fields.update(message.fields)
            self.finished()
            if not self._is_closed:
                self._error = self._error or failure
        self._wake()

    def finished(self) -> None:
        """The worker will say no more about it."""
        if self.at is not WorkerProgress.OVER:
            self.at = WorkerProgress.OVER
            self._holder.read()
            self._holder.over(self)

    def died(self, error: BaseException) -> None:
        """The worker is no more."""
        if self.at is not WorkerProgress.OVER:
            self.at = WorkerProgress.OVER
            self.fail(error)
