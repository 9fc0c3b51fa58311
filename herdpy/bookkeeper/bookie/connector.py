"""When to connect to a bookie, and when to leave it alone.

Between the handle, which wants a connection, and `establish`, which makes one: one attempt at a time, a pause
after each failure, no attempt while pausing. On demand only: nothing here runs while nobody asks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from herdpy.bookkeeper.bookie.backoff import Backoff
from herdpy.bookkeeper.bookie.connection import BookieConnection
from herdpy.bookkeeper.bookie.establish import establish
from herdpy.bookkeeper.bookie.metrics import BookieMetrics
from herdpy.bookkeeper.errors import BookieUnavailableError, BookKeeperError
from herdpy.bookkeeper.settings import ClientSettings

log = logging.getLogger("herdpy.bookkeeper.bookie")


class Connector:
    """Makes the connections of one bookie.

    `resolve(bookie_id)` is asked for host and port at each attempt, for a bookie may have moved. Ends in
    `ready(connection)` or `failed(error)`, each called from a task of its own; after `failed` it pauses.
    """

    def __init__(
        self,
        bookie_id: str,
        settings: ClientSettings,
        resolve: Callable[[str], tuple[str, int]],
        next_txn: Callable[[], int],
        metrics: BookieMetrics,
        backoff: Backoff,
        clock: Callable[[], float],
        ready: Callable[[BookieConnection], None],
        failed: Callable[[BookKeeperError], None],
    ) -> None:
        self._bookie_id = bookie_id
        self._settings = settings
        self._resolve = resolve
        self._next_txn = next_txn
        self._metrics = metrics
        self._backoff = backoff
        self._clock = clock
        self._ready = ready
        self._failed = failed
        self._task: asyncio.Task[None] | None = None
        self._retry_at_s = clock()

    @property
    def is_connecting(self) -> bool:
        """Whether an attempt is under way."""
        return self._task is not None

    @property
    def pause_left_s(self) -> float:
        """How long no attempt will be begun yet, after a failure; 0: not at all."""
        return max(0.0, self._retry_at_s - self._clock())

    def start(self, now_s: float) -> bool:
        """Begin an attempt unless one is under way; False while pausing after a failure."""
        if self._task is None:
            if now_s < self._retry_at_s:
                return False
            loop = asyncio.get_running_loop()
            self._task = loop.create_task(self._attempt(), name=f"connect to bookie {self._bookie_id}")
        return True

    def pause(self) -> None:
        """A connection failed, or was of no use: no attempt for a while."""
        self._retry_at_s = self._clock() + self._backoff.pause_s()

    def reset(self) -> None:
        """A connection was of use: the next failure is the first again."""
        self._backoff.reset()

    def cancel(self) -> None:
        """Give up the attempt under way, without telling anyone."""
        if self._task is not None:
            self._task.cancel()

    async def wait_ended(self) -> None:
        """Wait until no attempt is under way."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _attempt(self) -> None:
        try:
            connection = await establish(
                self._resolve(self._bookie_id), self._settings, self._next_txn, self._metrics
            )
        except Exception as error:  # noqa: BLE001 - whatever it was, who waits for this connection must be told
            self._task = None
            self._metrics.connection_failures += 1
            self.pause()
            self._failed(self._named(error))
            return
        self._task = None
        self._metrics.connections += 1
        log.info("connected", extra={"bookie": self._bookie_id})
        self._ready(connection)

    def _named(self, error: Exception) -> BookKeeperError:
        if isinstance(error, BookKeeperError):
            log.warning("cannot connect", extra={"bookie": self._bookie_id, "error": str(error)})
            return error
        log.error("cannot connect", exc_info=error, extra={"bookie": self._bookie_id})
        unexpected = BookieUnavailableError(f"cannot connect: {error!r}")
        unexpected.__cause__ = error
        return unexpected
