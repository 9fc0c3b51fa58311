"""The one reader of the database for pages and metrics, however many look.

Layer 4. ``Poller.run`` reads an overview, the finishes since, and the tasks that pages watch; it publishes
them as a ``Snapshot``. It reads every ``interval_s`` while a page is open, else every ``idle_s``, and a
tenth of the time at most: a read that took long is followed by a longer pause.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import herdpy
from herdpy_broker.errors import NoSuchTaskError
from herdpy_broker.metrics import BrokerMetrics
from herdpy_broker.overview import Overview, overview
from herdpy_broker.rates import Rates
from herdpy_broker.reading import TaskView, task
from herdpy_broker.sample import Finish, Finishes
from herdpy_broker.transactions import APPLICATION, Connection

logger = logging.getLogger("herdpy_broker")

_PAUSE_PER_READ = 9.0
_LONGEST_REST_S = 5.0
_STATEMENT_TIMEOUT_S = 30
_STATES = """
SELECT id, state, attempts FROM broker.task WHERE id = ANY(%s)
"""

Fingerprint = tuple[Any, ...] | None


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """What was read, and what pages have made of it.

    Attributes:
        version: rises with each snapshot.
        overview: as of the last read that succeeded; None before the first.
        problem: why the newest read failed; None: it succeeded.
        tasks: those that are watched; None for an id that no task has.
        rendered: texts that were made of this snapshot, so that many pages cost one.
        read_s: when it was published, by the monotonic clock.
    """

    version: int
    overview: Overview | None
    problem: str | None = None
    tasks: Mapping[int, TaskView | None] = field(default_factory=dict)
    rendered: dict[str, str] = field(default_factory=dict)
    read_s: float = field(default_factory=time.monotonic)


class Poller:
    """Reads the database again and again, for all.

    Args:
        url: of the database.
        interval_s, idle_s: between two reads while a page is open, and while none is.

    Attributes:
        rates, metrics: what came of the reads.
    """

    def __init__(self, url: str, interval_s: float = 1.0, idle_s: float = 10.0) -> None:
        self._url = url
        self._interval_s = interval_s
        self._idle_s = idle_s
        self.rates = Rates()
        self.metrics = BrokerMetrics()
        self._finishes = Finishes()
        self._connection: Connection | None = None
        self._watched: Counter[int] = Counter()
        self._known: dict[int, tuple[Fingerprint, TaskView | None]] = {}
        self._viewers = 0
        self._is_stopped = False
        self._snapshot = Snapshot(0, None)
        self._published = asyncio.Condition()
        self._wake = asyncio.Event()

    @property
    def snapshot(self) -> Snapshot:
        """The newest one."""
        return self._snapshot

    async def newer_than(self, version: int) -> Snapshot | None:
        """Wait for a snapshot with a higher version; None when the poller has stopped."""
        async with self._published:
            await self._published.wait_for(lambda: self._snapshot.version > version or self._is_stopped)
            return None if self._is_stopped else self._snapshot

    async def recent(self) -> None:
        """Wait for a snapshot, unless the newest one is younger than the interval."""
        age_s = time.monotonic() - self._snapshot.read_s
        if self._snapshot.version == 0 or age_s >= self._interval_s:
            await self.fresh()

    async def fresh(self) -> None:
        """Wait for a snapshot that was read after this call."""
        self._wake.set()
        # The read that is under way, if any, may have begun before the call: it leaves the wake-up standing.
        newest: Snapshot | None = self._snapshot
        while newest is not None:
            newest = await self.newer_than(newest.version)
            if not self._wake.is_set():
                return

    @contextlib.contextmanager
    def viewer(self, task_id: int | None = None) -> Iterator[None]:
        """Within it a page is open, which shows a task if one is given."""
        self._viewers += 1
        if task_id is not None:
            self._watched[task_id] += 1
        self._wake.set()
        try:
            yield
        finally:
            self._viewers -= 1
            if task_id is not None:
                self._watched[task_id] -= 1
                self._watched += Counter()  # drops the zeros

    async def run(self) -> None:
        """Read until :meth:`stop` is called."""
        try:
            while not self._is_stopped:
                self._wake.clear()
                read_s = await self._read()
                await self._pause(read_s)
        finally:
            self._disconnect()

    async def stop(self) -> None:
        """End :meth:`run` after the read that is under way, and all waiting at once."""
        self._is_stopped = True
        self._wake.set()
        async with self._published:
            self._published.notify_all()

    @property
    def is_stopped(self) -> bool:
        """Whether :meth:`stop` was called."""
        return self._is_stopped

    async def _pause(self, read_s: float) -> None:
        """Wait for the next read's time, or a wake-up. Wake-ups leave the database half of the time."""
        if not self._is_stopped:
            await asyncio.sleep(min(read_s, _LONGEST_REST_S))
        pause_s = self._interval_s if self._viewers else self._idle_s
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(pause_s, _PAUSE_PER_READ * read_s)):
                await self._wake.wait()

    async def _read(self) -> float:
        ids = sorted(self._watched)
        began_s = time.monotonic()
        try:
            found, finishes, tasks = await asyncio.to_thread(self._read_all, ids)
        except herdpy.Error as error:
            logger.warning("the database is not read: %s", error)
            self._disconnect()
            self.metrics.lost()
            await self._publish(self._snapshot.overview, str(error), self._snapshot.tasks)
        else:
            self.rates.add_total("submitted", found.at, found.highest_id)
            self.rates.add_total("dead", found.at, found.dead_letters())
            self.rates.add_finishes(finishes)
            self.metrics.add(found, finishes, time.monotonic() - began_s)
            await self._publish(found, None, tasks)
        return time.monotonic() - began_s

    async def _publish(
        self, found: Overview | None, problem: str | None, tasks: Mapping[int, TaskView | None]
    ) -> None:
        async with self._published:
            self._snapshot = Snapshot(self._snapshot.version + 1, found, problem, tasks)
            self._published.notify_all()

    # In a thread.

    def _read_all(self, ids: list[int]) -> tuple[Overview, Sequence[Finish], Mapping[int, TaskView | None]]:
        if self._connection is None:
            self._connection = herdpy.connect(
                self._url,
                autocommit=True,
                statement_timeout=_STATEMENT_TIMEOUT_S,
                application_name=APPLICATION,
            )
        found = overview(self._connection)
        return found, self._finishes.read(self._connection, found.at), self._read_tasks(self._connection, ids)

    def _read_tasks(self, connection: Connection, ids: list[int]) -> Mapping[int, TaskView | None]:
        """The watched tasks: one statement finds those that have changed, and only these are read."""
        rows = connection.execute(_STATES, (ids,)).fetchall() if ids else []
        states: dict[int, Fingerprint] = {row[0]: tuple(row) for row in rows}
        known = {}
        for one in ids:
            state, before = states.get(one), self._known.get(one)
            is_same = before is not None and before[0] == state
            known[one] = before if before is not None and is_same else (state, _view(connection, one))
        self._known = known
        return {one: view for one, (_state, view) in known.items()}

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(herdpy.Error):
                connection.close()


def _view(connection: Connection, task_id: int) -> TaskView | None:
    try:
        return task(connection, task_id)
    except NoSuchTaskError:
        return None
