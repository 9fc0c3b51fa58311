"""Schedules workers: spawns them when questions wait, assigns them one by one, replaces them when they die.

Above ``process``, below ``pool``. Here are a pool's settings, and what it counts for metrics: plain numbers,
added to where things happen. A question that finds no worker waits in a bounded queue. A crash loop is slowed
down by a growing pause, and those who wait get an error.
"""

from __future__ import annotations

import asyncio
import logging
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass

from herdpy.log.wait import OwnWait
from herdpy_server.workers.exchange import LoopInterrupt, WorkerExchange
from herdpy_server.workers.process import WorkerProcess, WorkerStart
from herdpy_sql.columnar import Interrupt
from herdpy_sql.errors import SqlError

WAIT_S = (0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds of the buckets of waiting times, in seconds."""
logger = logging.getLogger("herdpy.workers")
_FAILURES = 3
"""So many workers that ended before they did anything: those who wait get an error."""
_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 5.0
_RETIRE_TIMEOUT_S = 2.0


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """Attributes have the meaning of the settings in section [workers] of a server's configuration.

    Attributes:
        maximum: workers at a time.
        memory_bytes: memory of one worker beyond what it starts with, columns that it keeps included.
        threads: threads that one query computes with.
        query_timeout_s: how long one query may compute; 0: for ever.
        long_query_s: a query that computes for longer leaves its place to another; 0: never.
        queue: statements that may wait for a worker; one more gets 53000.
        queue_timeout_s: how long one waits at most; 0: for ever.
        idle_timeout_s: a worker that nobody asked for so long ends.
        niceness: how much workers stand back behind the server (nice, 0 to 19).
    """

    maximum: int = 2
    memory_bytes: int = 4 << 30
    threads: int = 2
    query_timeout_s: float = 0.0
    long_query_s: float = 5.0
    queue: int = 200
    queue_timeout_s: float = 60.0
    idle_timeout_s: float = 300.0
    niceness: int = 10


class WorkerCounts:
    """Since the pool was made.

    Attributes:
        started, died: workers; those that ended on request do not count as died.
        queries: questions that got a worker; repeated: again, since the first one died.
        refused: questions that found the queue full, or waited too long.
        stale: how often a flush came between a worker and the snapshot, and it was begun again.
        waits, wait_s: how long questions waited for a worker: by bucket, and in all.
    """

    def __init__(self) -> None:
        self.started = self.died = self.queries = self.repeated = self.refused = self.stale = 0
        self.waits = [0] * (len(WAIT_S) + 1)
        self.wait_s = 0.0

    def waited(self, seconds: float) -> None:
        """A question got its worker after so long."""
        self.queries += 1
        self.waits[bisect_left(WAIT_S, seconds)] += 1
        self.wait_s += seconds


class _Ticket:
    """Someone who waits for a worker."""

    def __init__(self) -> None:
        self.wait: OwnWait[None] = OwnWait()
        self.worker: WorkerProcess | None = None


class WorkerScheduler:
    """All workers of a pool. ``gone`` is called when one has died, by whatever cause.

    Attributes:
        workers: those that are, started or starting.
        queue: those who wait.
        failures: workers in a row that ended before they answered anything.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        start: WorkerStart,
        settings: WorkerSettings,
        counts: WorkerCounts,
        gone: Callable[[], object],
    ) -> None:
        self._loop = loop
        self._start = start
        self._settings = settings
        self._counts = counts
        self._gone = gone
        self.workers: set[WorkerProcess] = set()
        self.queue: deque[_Ticket] = deque()
        self.failures = 0
        self._idle: list[WorkerProcess] = []  # the one that was used last at the end
        self._pause: asyncio.TimerHandle | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._closing: SqlError | None = None
        self._all_gone: asyncio.Event | None = None

    # Getting one.

    async def get(self, tables: Collection[int], interrupt: Interrupt) -> WorkerProcess:
        """A worker, best one that keeps columns of these tables; it comes back when its exchange is over.

        Raises:
            SqlError: 53000 too many wait already, or it took too long; 58000 none can be started;
                57014 interrupted; 57P01 the server is closing.
        """
        if self._closing is not None:
            raise self._closing
        began = time.monotonic()
        worker = self._take(tables)
        if worker is None:
            interrupt.is_queued = True
            try:
                worker = await self._waited(interrupt)
            finally:
                interrupt.is_queued = False
                interrupt.queued_s += time.monotonic() - began
        self._counts.waited(time.monotonic() - began)
        if self._settings.long_query_s:
            self._loop.call_later(self._settings.long_query_s, self._takes_long, worker, worker.answered)
        return worker

    def _takes_long(self, worker: WorkerProcess, answered: int) -> None:
        """Its question was asked long ago: unless it is over, another may work in its place."""
        if worker in self.workers and worker.exchange is not None and worker.answered == answered:
            worker.is_long = True
            self._spawn()

    def _take(self, tables: Collection[int]) -> WorkerProcess | None:
        if not self._idle or self.queue:
            return None
        wanted = set(tables)
        best = max(self._idle, key=lambda one: (len(wanted & one.tables), one.free_since))
        self._idle.remove(best)
        return best

    async def _waited(self, interrupt: Interrupt) -> WorkerProcess:
        settings = self._settings
        if len(self.queue) >= settings.queue:
            self._counts.refused += 1
            raise SqlError(
                "53000",
                "too many queries wait for a worker process",
                hint="Try again later; workers.maximum and workers.queue are the limits.",
            )
        ticket = _Ticket()
        self.queue.append(ticket)
        alarm = None
        if settings.queue_timeout_s:
            alarm = self._loop.call_later(settings.queue_timeout_s, self._waited_too_long, ticket)
        interrupt.attach(LoopInterrupt(self._loop, interrupt, ticket.wait.fail))
        self._spawn()
        try:
            await ticket.wait
        except BaseException:
            if ticket.worker is not None:
                self.put(ticket.worker)
            raise
        finally:
            interrupt.attach(None)
            if alarm is not None:
                alarm.cancel()
            if ticket in self.queue:
                self.queue.remove(ticket)
        assert ticket.worker is not None
        return ticket.worker

    def _waited_too_long(self, ticket: _Ticket) -> None:
        self._counts.refused += 1
        ticket.wait.fail(
            SqlError(
                "53000",
                "no worker process was free in time",
                detail=f"It waited for {self._settings.queue_timeout_s:g} s, workers.queue_timeout_s.",
            )
        )

    def put(self, worker: WorkerProcess) -> None:
        """A worker that may be asked: for who waits, or for later."""
        if worker not in self.workers or worker.is_retired:
            return
        while self.queue:
            ticket = self.queue.popleft()
            if not ticket.wait.done():
                ticket.worker = worker
                ticket.wait.resolve(None)
                return
        if self._places < 0:  # it stood in for one that waited for its client, or took long
            worker.retire()
            return
        self._idle.append(worker)
        if self._idle_timer is None:
            self._idle_timer = self._loop.call_later(self._settings.idle_timeout_s, self._look_for_idle)

    # Starting and ending.

    def _spawn(self) -> None:
        """Start workers for those who wait, as far as there may be more."""
        starting = sum(not worker.is_started for worker in self.workers)
        waiting = sum(not ticket.wait.done() for ticket in self.queue)
        while waiting > starting and self._places > 0 and self._pause is None and self._closing is None:
            try:
                self.workers.add(WorkerProcess(self._loop, self._start, self))
            except OSError as error:
                self._failed(f"a worker process cannot be started: {error}")
                return
            self._counts.started += 1
            starting += 1

    @property
    def _places(self) -> int:
        """How many more there may be: as many again as wait for their client only, or compute for long."""
        maximum = self._settings.maximum
        others = min(sum(worker.is_stalled or worker.is_long for worker in self.workers), maximum)
        return maximum + others - len(self.workers)

    def _failed(self, reason: str) -> None:
        """One ended before it was of use: wait before another is started, the longer the oftener."""
        self.failures += 1
        pause_s = min(_PAUSE_S * 2 ** (self.failures - 1), _LONGEST_PAUSE_S)
        logger.error("%s; the next one starts in %g s", reason, pause_s)
        if self.failures >= _FAILURES and not any(worker.is_started for worker in self.workers):
            error = SqlError(
                "58000",
                "no worker process can be started",
                detail=reason,
                hint="See the server's log; statements by key do not need one.",
            )
            for ticket in list(self.queue):
                ticket.wait.fail(error)
            self.queue.clear()
        if self._pause is None and self._closing is None:
            self._pause = self._loop.call_later(pause_s, self._go_on)

    def _go_on(self) -> None:
        self._pause = None
        self._spawn()

    def _look_for_idle(self) -> None:
        """End those that nobody wanted for long; look again when the next one may be due."""
        self._idle_timer = None
        longest_s = self._settings.idle_timeout_s
        due = time.monotonic() - longest_s
        for worker in [one for one in self._idle if one.free_since <= due]:
            self._idle.remove(worker)
            worker.retire()
        if self._idle:
            first = min(worker.free_since for worker in self._idle)
            self._idle_timer = self._loop.call_later(max(first - due, 0.01), self._look_for_idle)

    # What workers tell.

    def started(self, worker: WorkerProcess) -> None:
        """It may be asked."""
        worker.free_since = time.monotonic()
        self.put(worker)

    def free(self, worker: WorkerProcess, exchange: WorkerExchange) -> None:
        """It has answered."""
        del exchange
        self.failures = 0
        worker.is_long = False
        self.put(worker)

    def stalled(self, worker: WorkerProcess) -> None:
        """It waits for its client: another may work in its place."""
        del worker
        self._spawn()

    def died(self, worker: WorkerProcess) -> None:
        """Its process has ended."""
        self.workers.discard(worker)
        if worker in self._idle:
            self._idle.remove(worker)
        self._gone()
        if not worker.is_retired:
            self._counts.died += 1
            text = f"worker {worker.pid} died ({worker.reason})"
            if worker.answered:
                logger.error("%s", text)
            else:
                self._failed(text)
        if self._all_gone is not None and not self.workers:
            self._all_gone.set()
        self._spawn()

    # The end.

    async def close(self, error: SqlError) -> None:
        """End all; who waits gets ``error``. For an asyncio task."""
        self._closing = error
        for timer in (self._pause, self._idle_timer):
            if timer is not None:
                timer.cancel()
        for ticket in list(self.queue):
            ticket.wait.fail(error)
        if not self.workers:
            return
        self._all_gone = asyncio.Event()
        for worker in list(self.workers):
            worker.retire()
        try:
            async with asyncio.timeout(_RETIRE_TIMEOUT_S):
                await self._all_gone.wait()
        except TimeoutError:
            for worker in list(self.workers):
                worker.kill()
            await self._all_gone.wait()
