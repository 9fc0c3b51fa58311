"""What all kinds of workers share: membership, claims, upkeep and finisher, wired together. Layer 3.

    Membership (beats) ─ ClaimLoop ─> Runner.start(attempt) .. handlers .. ─> Finisher ─> WorkerState.release
    UpkeepLoop, Listener ─> WorkerState.wake                    stop() ─> drain ─> leave

The kinds differ in their runner alone: threads, coroutines or processes.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any, Protocol

import herdpy
from herdpy_broker import values
from herdpy_broker.claim import CLAIM_MOST
from herdpy_broker.claim_loop import ClaimLoop, Interest
from herdpy_broker.errors import InvalidValueError
from herdpy_broker.finisher import Finisher
from herdpy_broker.handlers import Attempt
from herdpy_broker.listener import Listener
from herdpy_broker.membership import Membership, pool_of
from herdpy_broker.state import WorkerState
from herdpy_broker.transactions import APPLICATION
from herdpy_broker.upkeep_loop import UPKEEP_S, UpkeepLoop

logger = logging.getLogger("herdpy_broker")

_OWN_CONNECTIONS = 3
"""Of a worker's pool, besides its handlers': for claims, finishes and upkeep."""


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """How a worker works. InvalidValueError when a value is out of its limits.

    Attributes:
        name: shown to people; need not be unique.
        capacity: how many tasks it runs at a time, at most.
        groups: those whose tasks it takes; None for all.
        lease_s: a worker that has not been seen for so many seconds is given up, and its tasks are given
            back. It must outlast a failover of the database.
        poll_s: it looks for work at least so often, in seconds.
        grace_s: when it is stopped, running tasks may end for so many seconds; then they are given back.
        upkeep_s: all workers together give back, promote and expire tasks, and fire schedules, so often.
    """

    name: str = ""
    capacity: int = 10
    groups: Collection[str] | None = None
    lease_s: float = 10.0
    poll_s: float = 1.0
    grace_s: float = 30.0
    upkeep_s: float = UPKEEP_S

    def __post_init__(self) -> None:
        values.integer("capacity", self.capacity, 1, CLAIM_MOST)
        for what, value in (("lease_s", self.lease_s), ("poll_s", self.poll_s), ("upkeep_s", self.upkeep_s)):
            values.seconds(what, value, 0.01)
        values.seconds("grace_s", self.grace_s)
        if self.groups is not None:
            if isinstance(self.groups, str) or not self.groups:
                raise InvalidValueError("groups is a collection of names, at least one, or None for all")
            for group in self.groups:
                values.name("a group's name", group)
        if self.name:
            values.name("a worker's name", self.name)

    @property
    def shown_name(self) -> str:
        """The name, or host and process id."""
        return self.name or f"{socket.gethostname()}-{os.getpid()}"


class Runner(Protocol):
    """Runs attempts."""

    def start(self, attempt: Attempt) -> None:
        """Begin an attempt, and do not wait for it; its end goes to Finisher."""

    def close(self) -> None:
        """No more attempts begin."""


MakeRunner = Callable[[herdpy.Pool[Any], Finisher], Runner]


class WorkerService:
    """A worker, but for what runs its handlers.

    Args:
        url: of the database.
        types: of the tasks that it takes.
        make_runner: makes what runs its handlers.
    """

    def __init__(
        self, url: str, types: Collection[str], settings: WorkerSettings, make_runner: MakeRunner
    ) -> None:
        for name in types:
            values.name("a type's name", name)
        self._settings = settings
        self._state = WorkerState(settings.capacity)
        self._url, self._types, self._make_runner = url, tuple(sorted(types)), make_runner

    def stop(self, *, at_once: bool = False) -> None:
        """Take no more tasks, and end when those that run have ended; may be called from any thread.

        Args:
            at_once: give back those that run instead of waiting for them.
        """
        self._state.stop(at_once=at_once)

    def run(self) -> None:
        """Work until :meth:`stop`. Raises herdpy.Error when the database cannot be reached at first."""
        settings = self._settings
        membership = Membership(
            self._url, settings.shown_name, settings.capacity, settings.lease_s, self._state.nudge
        )
        pool = pool_of(self._url, settings.capacity + _OWN_CONNECTIONS, settings.lease_s)
        handlers_pool: herdpy.Pool[Any] = herdpy.Pool(
            self._url, 0, settings.capacity, autocommit=True, application_name=APPLICATION
        )
        finisher = Finisher(pool, self._state.release, membership.doubt)
        with contextlib.ExitStack() as ends:
            ends.callback(pool.close, 0.0)
            ends.callback(handlers_pool.close, 0.0)
            ends.callback(membership.leave)
            membership.enter()
            ends.enter_context(_beside("broker-upkeep", UpkeepLoop(pool, settings.upkeep_s).run))
            ends.enter_context(_beside("broker-listen", Listener(self._url, self._state).run))
            finisher.start()
            ends.callback(finisher.close)
            runner = self._make_runner(handlers_pool, finisher)
            ends.callback(runner.close)
            ends.callback(self._drain, membership)
            groups = None if settings.groups is None else frozenset(settings.groups)
            interest = Interest(self._types, groups, settings.poll_s)
            ClaimLoop(pool, membership, self._state, interest, runner.start).run()

    def _drain(self, membership: Membership) -> None:
        self._state.stop()
        if not self._state.wait_until_idle(self._settings.grace_s):
            logger.warning("%s tasks did not end in time, and are given back", len(self._state.held()))
            membership.resign()


@contextlib.contextmanager
def _beside(name: str, run: Callable[[threading.Event], None]) -> Iterator[None]:
    """Within the block ``run(ended)`` runs in a thread, which is waited for at the block's end."""
    ended = threading.Event()
    thread = threading.Thread(target=run, args=(ended,), name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


class BlockingWorker:
    """A worker that has the thread which runs it until it ends; made by its kinds."""

    _service: WorkerService

    def run(self) -> None:
        """Work until :meth:`stop`, SIGTERM or SIGINT. A second signal ends it without waiting for handlers.

        Raises:
            herdpy.Error: the database cannot be reached at first; later it is waited for.
        """
        with stopped_by_signals(self._service):
            self._service.run()

    def stop(self) -> None:
        """Take no more tasks, and end when those that run have ended; may be called from any thread."""
        self._service.stop()


@contextlib.contextmanager
def stopped_by_signals(service: WorkerService) -> Iterator[None]:
    """SIGTERM and SIGINT stop a worker within the block: the first one drains it, the second one ends it at
    once.

    Elsewhere than in the main thread, where Python has no signal handlers, nothing happens.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    times = 0

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal times
        times += 1
        # Not here: the main thread may hold the lock that stop() needs.
        threading.Thread(target=service.stop, kwargs={"at_once": times > 1}, daemon=True).start()

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
