"""A worker whose handlers are coroutines of one event loop. Layer 3; ``service`` has what all kinds share.

    claims (a thread) -> Coroutines.start -> the loop: handler in a transaction, finish, COMMIT -> Finisher

Claims, heart-beats and upkeep run in threads, so a handler that blocks the loop delays other handlers, not
them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import herdpy
from herdpy import aio
from herdpy_broker.execution import check_held, finish_within
from herdpy_broker.finisher import Finisher
from herdpy_broker.handlers import (
    AsyncHandler,
    AsyncTaskContext,
    Attempt,
    Committed,
    Failure,
    Outcome,
    Plain,
    Returned,
    checked_handlers,
    failure_of,
)
from herdpy_broker.service import Runner, WorkerService, WorkerSettings, stopped_by_signals
from herdpy_broker.transactions import APPLICATION


class AsyncWorker:
    """Takes tasks and runs their handlers as tasks of the event loop that runs it.

    As :class:`Worker`, but handlers are coroutine functions that get an :class:`AsyncTaskContext`, and a
    plain handler may be a coroutine function too.

    Args:
        url: of the database, as for :func:`herdpy.connect`.
        handlers: for each type of tasks that this worker takes.
        settings: the attributes of :class:`WorkerSettings`, by name.

    Raises:
        InvalidValueError: a setting is out of its limits.
        ValueError: there are no handlers.
        TypeError: a handler cannot be called.
    """

    def __init__(self, url: str, handlers: Mapping[str, AsyncHandler], **settings: Any) -> None:
        self._url = url
        self._handlers = checked_handlers(handlers)
        self._settings = WorkerSettings(**settings)
        self._service = WorkerService(url, self._handlers, self._settings, self._runner)
        self._coroutines: Coroutines | None = None

    async def run(self, *, handles_signals: bool = False) -> None:
        """Work until :meth:`stop`. When the task that awaits it is cancelled, running tasks are given back.

        Args:
            handles_signals: SIGTERM and SIGINT stop it, as they do a :class:`Worker`: for a program that is a
                worker and nothing else. It is to be the main thread's loop then.

        Raises:
            herdpy.Error: the database cannot be reached at first; later it is waited for.
        """
        with stopped_by_signals(self._service) if handles_signals else contextlib.nullcontext():
            await self._run()

    async def _run(self) -> None:
        async with aio.AsyncPool(
            self._url, 0, self._settings.capacity, autocommit=True, application_name=APPLICATION
        ) as pool:
            self._coroutines = Coroutines(asyncio.get_running_loop(), pool, self._handlers)
            service = asyncio.create_task(asyncio.to_thread(self._service.run))
            try:
                await asyncio.shield(service)
            except asyncio.CancelledError:
                self._service.stop(at_once=True)
                await service
                raise
            finally:
                await self._coroutines.cancel()

    def stop(self) -> None:
        """Take no more tasks, and end when those that run have ended; may be called from any thread."""
        self._service.stop()

    def _runner(self, _pool: herdpy.Pool[Any], finisher: Finisher) -> Runner:
        assert self._coroutines is not None
        self._coroutines.finisher = finisher
        return self._coroutines


class Coroutines:
    """Runs attempts as tasks of an event loop.

    Attributes:
        finisher: where attempts end; set before the first one starts.
    """

    finisher: Finisher

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        pool: aio.AsyncPool[Any],
        handlers: Mapping[str, AsyncHandler],
    ) -> None:
        self._loop, self._pool, self._handlers = loop, pool, handlers
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, attempt: Attempt) -> None:
        """Begin an attempt on the loop; called from the claim loop's thread."""
        self._loop.call_soon_threadsafe(self._spawn, attempt)

    def close(self) -> None:
        """Nothing: those that still run are cancelled on the loop, by :meth:`cancel`."""

    async def cancel(self) -> None:
        """Cancel those that still run, and wait for their ends."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _spawn(self, attempt: Attempt) -> None:
        task = self._loop.create_task(self._run(attempt))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, attempt: Attempt) -> None:
        outcome = await self._executed(attempt, self._handlers[attempt.task.type])
        if isinstance(outcome, Failure):
            await asyncio.to_thread(self.finisher.end, attempt, outcome)
        else:
            self.finisher.end(attempt, outcome)

    async def _executed(self, attempt: Attempt, handler: AsyncHandler) -> Outcome:
        """As ``execution.executed``."""
        try:
            if isinstance(handler, Plain):
                result = handler(attempt.task.payload)
                return Returned(await result if isinstance(result, Awaitable) else result)
            await aio.run_transaction(self._pool, lambda connection: self._work(connection, attempt, handler))
            return Committed()
        except BaseException as error:  # noqa: BLE001 - also what is no Exception ends the attempt alone
            return failure_of(error)

    async def _work(
        self,
        connection: aio.AsyncConnection[Any],
        attempt: Attempt,
        handler: Callable[[AsyncTaskContext], Awaitable[object]],
    ) -> None:
        check_held(attempt)
        result = await handler(AsyncTaskContext(attempt, connection))
        await connection.in_thread(lambda blocking: finish_within(blocking, attempt, result))
