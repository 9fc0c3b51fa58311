"""A worker's membership: its row in broker.worker, kept by heart-beats. Layer 3.

    enter -> Registration <- beat, every third of the lease, in a thread and on a connection of its own
                 │ the row is gone: somebody gave this worker up
                 └─> lost; the worker registers anew, under another id

The row is the fence (DESIGN.md): whoever deletes it gives the tasks back in the same transaction. What a lost
registration's handlers do afterwards cannot be finished, so nothing here has to be in time.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from typing import Any

import herdpy
from herdpy.backoff import Backoff
from herdpy_broker import workers
from herdpy_broker.errors import WorkerLostError
from herdpy_broker.transactions import APPLICATION

logger = logging.getLogger("herdpy_broker")

BEATS_A_LEASE = 3


class Registration:
    """One registration of a worker: tasks are claimed and finished by its id.

    Attributes:
        id: of its row in broker.worker.
    """

    __slots__ = ("_lost", "id")

    def __init__(self, worker_id: int) -> None:
        self.id = worker_id
        self._lost = threading.Event()

    @property
    def is_lost(self) -> bool:
        """Its row is gone."""
        return self._lost.is_set()

    def wait_until_lost(self, timeout_s: float) -> None:
        """Wait so long, or until its row is gone."""
        self._lost.wait(timeout_s)

    def lose(self) -> None:
        """Note that its row is gone."""
        self._lost.set()


def pool_of(url: str, most: int, lease_s: float) -> herdpy.Pool[Any]:
    """A pool for a worker's own transactions, in autocommit mode.

    A process that is stopped within a transaction has rows locked. The server ends such a transaction after a
    lease, so that other workers can give its tasks back.
    """

    def configure(connection: herdpy.Connection[Any]) -> None:
        milliseconds = max(1, int(lease_s * 1000))
        connection.execute(f"SET idle_in_transaction_session_timeout = '{milliseconds}ms'")

    return herdpy.Pool(
        url, 0, most, autocommit=True, timeout_s=lease_s, configure=configure, application_name=APPLICATION
    )


class Membership:
    """Registers a worker, beats for it, and registers it again when it was given up.

    Args:
        url: of the database.
        name: shown to people; need not be unique.
        capacity: how many tasks the worker runs at most.
        lease_s: a worker that has not beaten for so long is given up.
        on_confirmed: called when a beat has confirmed the registration, or made a new one.
    """

    def __init__(
        self, url: str, name: str, capacity: int, lease_s: float, on_confirmed: Callable[[], object]
    ) -> None:
        self._name, self._capacity, self._lease_s = name, capacity, lease_s
        self._on_confirmed = on_confirmed
        self._pool = pool_of(url, 1, lease_s)
        self._hurry = threading.Event()
        self._is_ended = False
        self._thread = threading.Thread(target=self._beat_on, name="broker-beat", daemon=True)
        self._current: Registration | None = None
        self._confirmed_at = 0.0

    @property
    def current(self) -> Registration:
        """The newest registration."""
        assert self._current is not None, "not entered"
        return self._current

    def confirmed(self) -> Registration | None:
        """The newest registration, when a beat within the lease confirmed it; else one is made now.

        It is no fence: it spares tasks that would be claimed after a pause of the process, and given back.
        """
        if _now_s() - self._confirmed_at < self._lease_s and not self.current.is_lost:
            return self.current
        self.doubt()
        return None

    def enter(self) -> None:
        """Register, and begin to beat. Raises herdpy.Error when the database cannot be reached."""
        self._register()
        self._thread.start()

    def doubt(self) -> None:
        """Beat now: this worker may have been given up. Until then nothing is confirmed."""
        self._confirmed_at = -math.inf
        self._hurry.set()

    def resign(self) -> None:
        """Beat no more, and count as lost: what still runs finishes nothing."""
        self._is_ended = True
        self._hurry.set()
        if self._current is not None:
            self._current.lose()

    def leave(self) -> None:
        """Resign, delete the row and give back what still runs. An error is logged: the lease will end."""
        self.resign()
        if self._thread.ident is not None:
            self._thread.join()
        if self._current is not None:
            try:
                with self._pool.connection() as connection:
                    workers.leave(connection, self._current.id)
            except (herdpy.Error, WorkerLostError) as error:
                logger.warning("worker %s could not leave: %s", self._current.id, error)
        self._pool.close()

    def _register(self) -> None:
        began_at = _now_s()
        with self._pool.connection() as connection:
            worker_id = workers.register(connection, self._name, self._capacity, self._lease_s)
        self._current, self._confirmed_at = Registration(worker_id), began_at

    def _beat_on(self) -> None:
        pause_s = self._lease_s / BEATS_A_LEASE
        backoff = Backoff(pause_s / 10, pause_s)
        while True:
            self._hurry.wait(pause_s)
            self._hurry.clear()
            if self._is_ended:
                return
            try:
                self._beat()
            except herdpy.Error as error:
                logger.warning("worker %s could not beat: %s", self.current.id, error)
                pause_s = backoff.pause_s()
            else:
                self._on_confirmed()
                backoff.reset()
                pause_s = self._lease_s / BEATS_A_LEASE

    def _beat(self) -> None:
        if not self.current.is_lost:
            began_at = _now_s()
            try:
                with self._pool.connection() as connection:
                    workers.beat(connection, self.current.id)
                self._confirmed_at = began_at
                return
            except WorkerLostError:
                logger.warning("worker %s was given up, and registers anew", self.current.id)
                self.current.lose()
        self._register()


def _now_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)  # it runs on while the machine sleeps
