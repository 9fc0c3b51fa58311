"""The claim loop: takes ready tasks for the places that are free, group by group. Layer 3.

    woken groups, or a look every so often -> Shares -> claim(n) -> Attempt -> start, which runs it elsewhere

Groups with ready tasks are found by notifications, and by looking: one step in the index of ready tasks for
each group. Without notifications it looks again soon after it found work, and less and less often while there
is none.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import herdpy
from herdpy.backoff import Backoff
from herdpy_broker import claim
from herdpy_broker.claim import ClaimedTask
from herdpy_broker.errors import WorkerLostError
from herdpy_broker.handlers import Attempt
from herdpy_broker.membership import Membership, Registration
from herdpy_broker.shares import Shares
from herdpy_broker.state import WorkerState

logger = logging.getLogger("herdpy_broker")

FIRST_LOOK_S = 0.005
GROUPS_S = 5.0
"""Weights and pauses of groups are read so often, in seconds."""
MOST_GROUPS_A_LOOK = 100

_NEXT_GROUP = """
SELECT group_name FROM broker.task WHERE state = 'ready' AND group_name > %s ORDER BY group_name LIMIT 1
"""

_GROUPS = """
SELECT name, weight, paused, max_running IS NOT NULL FROM broker.task_group ORDER BY name LIMIT 100000
"""


@dataclass(frozen=True, slots=True)
class Interest:
    """Which tasks a worker takes.

    Attributes:
        types: those that it has handlers for.
        groups: None for all.
        poll_s: it looks for work at least so often, in seconds.
    """

    types: tuple[str, ...]
    groups: frozenset[str] | None
    poll_s: float


class ClaimLoop:
    """Claims tasks until the worker stops.

    Args:
        pool: lends connections in autocommit mode.
        start: begins an attempt, and does not wait for it.
    """

    def __init__(
        self,
        pool: herdpy.Pool[Any],
        membership: Membership,
        state: WorkerState,
        interest: Interest,
        start: Callable[[Attempt], object],
    ) -> None:
        self._pool, self._membership, self._state = pool, membership, state
        self._interest, self._start = interest, start
        self._shares = Shares(interest.groups)
        self._quiet = Backoff(FIRST_LOOK_S, interest.poll_s)
        self._errors = Backoff(FIRST_LOOK_S, interest.poll_s)
        self._looked_to = ""
        self._look_at = self._groups_at = 0.0
        self._may_have_forgotten = False

    def run(self) -> None:
        """Claim until the worker stops. Errors of the database are logged, and it tries again."""
        pause_s = 0.0
        while (woken := self._state.wait_for_work(pause_s)) is not None:
            try:
                pause_s = self._round(woken)
                self._errors.reset()
            except (herdpy.Error, WorkerLostError) as error:
                logger.warning("no tasks could be claimed: %s", error)
                self._may_have_forgotten = True
                self._membership.doubt()
                pause_s = self._errors.pause_s()

    def _round(self, woken: Collection[str]) -> float:
        """Claim what there is; how long to wait before the next round, unless something happens."""
        with self._pool.connection() as connection:
            now = time.monotonic()
            if self._may_have_forgotten:
                self._adopt(connection)
            if now >= self._groups_at:
                self._read_groups(connection)
                self._groups_at = now + GROUPS_S
            for group in woken:
                self._shares.wake(group)
            if is_look := self._state.takes_look() or now >= self._look_at:
                self._look(connection)
            if self._claim_all(connection):
                self._quiet.reset()
                if not self._state.is_listening:  # where there was work, there may be more
                    self._look_at = min(self._look_at, now + FIRST_LOOK_S)
        if is_look:
            pause_s = self._interest.poll_s if self._state.is_listening else self._quiet.pause_s()
            self._look_at = time.monotonic() + pause_s
        return max(0.0, self._look_at - time.monotonic()) if self._state.free else 0.0

    def _claim_all(self, connection: herdpy.Connection[Any]) -> int:
        """Claim turn by turn until no place is free or no group has work; how many tasks that were."""
        total = 0
        while (turn := self._shares.turn(self._state.free)) is not None and not self._state.is_stopping:
            group, most = turn
            if (registration := self._membership.confirmed()) is None:
                break
            tasks = claim.claim(connection, registration.id, group, most, self._interest.types)
            for task in tasks:
                self._begin(task, registration)
            self._shares.charge(group, len(tasks))
            if len(tasks) < most:
                self._shares.sleep(group)
            total += len(tasks)
        return total

    def _look(self, connection: herdpy.Connection[Any]) -> None:
        """Wake groups that have ready tasks: so many, and the next ones the next time."""
        at = self._looked_to
        for _ in range(MOST_GROUPS_A_LOOK):
            row = connection.execute(_NEXT_GROUP, (at,)).fetchone()
            if row is None:
                at = ""
                break
            at = row[0]
            self._shares.wake(at)
        self._looked_to = at

    def _read_groups(self, connection: herdpy.Connection[Any]) -> None:
        rows = connection.execute(_GROUPS).fetchall()
        paused = [name for name, _, is_paused, _ in rows if is_paused]
        self._shares.set_groups({name: weight for name, weight, _, _ in rows}, paused)
        self._state.set_limited(frozenset(name for name, _, _, is_limited in rows if is_limited))

    def _adopt(self, connection: herdpy.Connection[Any]) -> None:
        """Take on tasks of a claim of unknown outcome: they are this worker's, and nobody runs them."""
        registration = self._membership.current
        held = self._state.held()  # before the read: what ended since is not running in it
        for task in claim.claimed(connection, registration.id):
            if task.id not in held:
                logger.warning("task %s was claimed by a statement whose outcome was unknown", task.id)
                self._begin(task, registration)
        self._may_have_forgotten = False

    def _begin(self, task: ClaimedTask, registration: Registration) -> None:
        attempt = Attempt(task, registration)
        self._state.hold(attempt)
        self._start(attempt)
