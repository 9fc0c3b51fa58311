"""The workload `broker` of `herdpy drill`: clients that submit tasks, and clients that work on them.

Layer 4 of the broker, of its drill; above `judge` and `effects`. Every client does both, by the functions of
layer 1: it submits tasks of all kinds, claims some and ends them, dies with them (it forgets that it is a
worker), or sleeps with them past its lease and then tries to finish them. Their payloads say what is to
become of them, so that worker processes of other faults may do the same tasks.

    submit ── claim ─┬─ finish with the effects, in one transaction
                     ├─ fail (those whose payload says so)
                     └─ die, sleep, leave          upkeep: reap, promote, expire
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from herdpy.drill.clients import Client
from herdpy.drill.history import DrillHistory, OperationOutcome
from herdpy.drill.judging import Verdict
from herdpy.drill.sessions import ClientSession, DriverSession, FailedError, failing
from herdpy.drill.workloads.workload import Numbers, Workload
from herdpy_broker import claim, finish, groups, letters, schema, submission, types, upkeep, workers
from herdpy_broker.drill import judge
from herdpy_broker.drill.effects import leave_effect, make_table
from herdpy_broker.errors import NoSuchTaskError, SlotTakenError, TaskLostError, WorkerLostError
from herdpy_broker.submission import Submission
from herdpy_broker.transactions import Connection

GROUPS = ("north", "south", "west")
LIMITED = "west"
"""The group with a limit of running tasks."""
LEASE_S = 2.0
STEADY, BRITTLE = "steady", "brittle"
"""Types of tasks: with more attempts than a drill uses up, and with two."""
_SLOTS = 4
_BACKLOG_MOST = 300
"""Living tasks; while there are more nothing is submitted."""
_SEEN_EVERY_S = 1.0
_RECENT = 50
_DIES, _SLEEPS, _LEAVES = 0.04, 0.03, 0.01
"""How often a client that has claimed tasks does so with them."""
_DRAIN_S = 60.0
_DRAIN_MOST = 50
_DRAIN_PAUSE_S = 0.05

Claimed = list[Any]
"""Id, key, attempt, and how many attempts fail, of a task that a client works on."""


@dataclass
class _Worker:
    """A client as a worker. id: None when it has to register; held: tasks to finish at `wakes_at`."""

    id: int | None = None
    beat_at: float = 0.0
    began_s: float = 0.0
    wakes_at: float = 0.0
    held: list[Claimed] = field(default_factory=list)


class BrokerWorkload(Workload):
    """Every client submits and works."""

    name = "broker"
    summary = (
        "tasks of a broker: each is done once or is a dead letter, with its slot, batch and dependencies"
    )
    kinds = ("driver",)

    def __init__(self, suffix: str = "", isolation: str = "READ COMMITTED") -> None:
        super().__init__(suffix, isolation)
        self._keys = Numbers()
        self._workers: dict[Client, _Worker] = {}
        self._recent: deque[tuple[int, int]] = deque(maxlen=_RECENT)  # keys and ids
        self._lock = threading.Lock()
        self._backlog = 0
        self._seen_at = 0.0

    def setup(self, client: Client) -> None:
        """See `Workload.setup`. Raises FailedError where the database has a broker: it may be in use."""
        with failing():
            connection = _connection(client)
            if schema.version(connection) is not None:
                text = "the database has a broker: a drill needs one without (DROP SCHEMA broker CASCADE)"
                raise FailedError(OperationOutcome.NOT_DONE, "42P06", text)
            schema.migrate(connection)
            types.define(connection, STEADY, max_attempts=1000, backoff_s=0.1, backoff_most_s=0.5)
            types.define(connection, BRITTLE, max_attempts=2, backoff_s=0.1)
            groups.set_group(connection, LIMITED, weight=2, max_running=4)
            make_table(connection, self.table)

    def step(self, client: Client) -> None:
        """A task is held, or is submitted, worked on, cancelled or taken up again; or time is let act."""
        worker = self._workers.setdefault(client, _Worker())
        if worker.held and time.monotonic() >= worker.wakes_at:
            held, worker.held = worker.held, []
            self._finish(client, worker, held)
            return
        dice = client.random.random()
        if dice < 0.40:
            self._submit(client)
        elif dice < 0.86:
            self._work(client, worker)
        elif dice < 0.88:
            self._cancel(client)
        elif dice < 0.90:
            self._retry(client)
        else:
            self._keep_up(client)

    def finish(self, client: Client) -> None:
        """Work until no task lives, for a minute at most; then read everything."""
        until = time.monotonic() + _DRAIN_S
        while self._living(client) != 0 and time.monotonic() < until:
            self._keep_up(client)
            for group in GROUPS:
                worker = self._workers.setdefault(client, _Worker())
                self._work_on(client, worker, self._claim(client, worker, group, _DRAIN_MOST))
            time.sleep(_DRAIN_PAUSE_S)
        client.read_now("over", [], self._look, **{judge.MONOTONIC: time.monotonic()})

    def judge(self, history: DrillHistory) -> list[Verdict]:
        """See `Workload.judge`."""
        return judge.check(history)

    def clean_up(self, client: Client) -> None:
        """Drop the broker and the effects."""
        super().clean_up(client)
        client.session.execute("DROP SCHEMA IF EXISTS broker CASCADE")

    # Submitting.

    def _submit(self, client: Client) -> None:
        if self._backlog > _BACKLOG_MOST:
            self._keep_up(client)
            return
        count = client.random.choice((1, 1, 1, 1, 2, 5))
        ids = dict(self._recent_tasks())
        specs = [self._spec(client.random, list(ids)) for _ in range(count)]
        if count > 1:
            for spec in specs:
                spec["batch"] = f"batch-{specs[0]['key']}"
        tasks = [self._submission(client.random, spec, ids) for spec in specs]

        def submit() -> list[int] | bool:
            try:
                return submission.submit_all(_connection(client), tasks)
            except (SlotTakenError, NoSuchTaskError):
                return False

        made = _attempt(client, "submit", specs, submit)
        if made:
            with self._lock:
                self._recent.extend((spec["key"], task_id) for spec, task_id in zip(specs, made, strict=True))

    def _recent_tasks(self) -> list[tuple[int, int]]:
        with self._lock:
            return list(self._recent)

    def _spec(self, dice: Random, recent: list[int]) -> dict[str, Any]:
        """What the judge knows of a task. recent: keys of tasks that it may need."""
        kind = dice.random()
        return {
            "key": next(self._keys),
            "slot": f"slot-{dice.randrange(_SLOTS)}" if kind < 0.15 else None,
            "waits": kind < 0.1,
            "after": dice.sample(recent, min(2, len(recent))) if kind > 0.85 else [],
            "batch": None,
            "deadline": 0.3 < kind < 0.4,
            "fails": dice.choice((0, 0, 0, 0, 0, 0, 0, 1, 1, 2)),
        }

    def _submission(self, dice: Random, spec: dict[str, Any], ids: dict[int, int]) -> Submission:
        return Submission(
            dice.choice((STEADY, STEADY, STEADY, BRITTLE)),
            {"key": spec["key"], "fails": spec["fails"], "table": self.table},
            group=dice.choice(GROUPS),
            priority=dice.randrange(-5, 6),
            delay_s=dice.choice((0.0, 0.0, 0.0, dice.uniform(0.1, 1.5))),
            deadline_s=dice.uniform(0.05, 2.0) if spec["deadline"] else None,
            slot=spec["slot"],
            waits_for_slot=spec["waits"],
            after=tuple(ids[key] for key in spec["after"]),
            batch=spec["batch"],
        )

    # Working.

    def _work(self, client: Client, worker: _Worker) -> None:
        """Claim a few tasks, and do with them what a good, a bad or a dying worker does."""
        if worker.held:
            return
        dice = client.random
        tasks = self._claim(client, worker, dice.choice(GROUPS), dice.randint(1, 4))
        fate = dice.random()
        if not tasks or fate >= _DIES + _SLEEPS + _LEAVES:
            self._work_on(client, worker, tasks)
        elif fate < _DIES:
            worker.id = None
        elif fate < _DIES + _SLEEPS:  # and it does not know it
            worker.held, worker.wakes_at = tasks, time.monotonic() + 1.5 * LEASE_S
        else:
            self._leave(client, worker)

    def _claim(self, client: Client, worker: _Worker, group: str, most: int) -> list[Claimed]:
        """Tasks for this client, which registers before, or beats, when it is time."""
        self._be_worker(client, worker)
        if (worker_id := worker.id) is None:
            return []

        def some() -> list[Claimed]:
            tasks = claim.claim(_connection(client), worker_id, group, most)
            return [[one.id, one.payload["key"], one.attempts, one.payload["fails"]] for one in tasks]

        tasks = _attempt(client, "claim", [worker_id, group, most], some)
        worker.began_s = time.monotonic()
        if tasks is None:  # some may be its own: they come back when it is given up
            worker.id = None
        return tasks or []

    def _be_worker(self, client: Client, worker: _Worker) -> None:
        if worker.id is None:
            name = f"client-{client.process}"
            worker.id = _attempt(
                client, "register", [name], lambda: workers.register(_connection(client), name, 4, LEASE_S)
            )
            worker.beat_at = time.monotonic()
        elif time.monotonic() > worker.beat_at + LEASE_S / 3:
            own = worker.id
            if not _attempt(
                client, "beat", [own], _unless_lost(lambda: workers.beat(_connection(client), own))
            ):
                worker.id = None
            worker.beat_at = time.monotonic()

    def _work_on(self, client: Client, worker: _Worker, tasks: list[Claimed]) -> None:
        """Fail those whose payloads say so, and finish the others together."""
        for task in tasks:
            if task[2] <= task[3]:
                self._fail(client, worker, task)
        self._finish(client, worker, [task for task in tasks if task[2] > task[3]])

    def _finish(self, client: Client, worker: _Worker, tasks: list[Claimed]) -> None:
        """In one transaction with the effects. After a loss the worker begins anew: its tasks come back."""
        own = worker.id
        if not tasks or own is None:
            return

        def all_of_it() -> None:
            connection = _connection(client)
            for task_id, key, attempt, _fails in tasks:
                payload = {"table": self.table, "key": key}
                leave_effect(
                    connection, payload, task=task_id, attempt=attempt, worker=own, began_s=worker.began_s
                )
            finish.finish(connection, own, [(task_id, {"key": key}) for task_id, key, *_ in tasks])

        named = [task[:3] for task in tasks]
        work = _unless_lost(lambda: client.transaction(all_of_it))
        if not _attempt(client, "finish", [own, named], work):
            worker.id = None

    def _fail(self, client: Client, worker: _Worker, task: Claimed) -> None:
        own, (task_id, key, attempt, _fails) = worker.id, task
        if own is None:
            return
        work = _unless_lost(lambda: finish.fail(_connection(client), own, task_id, f"attempt {attempt}"))
        if not _attempt(client, "fail", [own, task_id, key, attempt], work):
            worker.id = None

    def _leave(self, client: Client, worker: _Worker) -> None:
        own, worker.id = worker.id, None
        if own is not None:
            _attempt(client, "leave", [own], lambda: workers.leave(_connection(client), own))

    # What others do to tasks.

    def _cancel(self, client: Client) -> None:
        if recent := self._recent_tasks():
            key, task_id = client.random.choice(recent)
            work = _unless_lost(lambda: letters.cancel(_connection(client), task_id))
            _attempt(client, "cancel", [task_id, key], work)

    def _retry(self, client: Client) -> None:
        """Only what needs nothing else: of a slot, and of others, the judge follows one life of a task."""
        try:
            rows = client.session.execute(
                "SELECT id, payload FROM broker.dead WHERE reason IN ('failed', 'worker died')"
                " AND slot IS NULL LIMIT 5"
            ).rows
        except FailedError:
            return
        if rows:
            task_id, payload = client.random.choice(rows)
            work = _unless_lost(lambda: letters.retry(_connection(client), task_id))
            _attempt(client, "retry", [task_id, payload["key"]], work)

    def _keep_up(self, client: Client) -> None:
        """Dead workers, delays and dead-lines; and how many tasks live, now and then."""

        def keep_up() -> list[int]:
            connection = _connection(client)
            return [len(workers.reap(connection)), upkeep.promote(connection), upkeep.expire(connection)]

        _attempt(client, "upkeep", [], keep_up)
        now = time.monotonic()
        if now > self._seen_at + _SEEN_EVERY_S:
            self._seen_at = now
            self._backlog = self._living(client) or 0

    def _living(self, client: Client) -> int | None:
        """How many tasks live; None: it cannot be learnt now."""
        try:
            return int(client.session.execute("SELECT count(*) FROM broker.task").rows[0][0])
        except FailedError:
            return None

    def _look(self, session: ClientSession) -> dict[str, Any]:
        effects = session.execute(
            f"SELECT key, task, attempt, worker, began_s, ended_s FROM {self.table}"
        ).rows
        finished = session.execute("SELECT id, outcome, result FROM broker.finished").rows
        dead = session.execute("SELECT id, payload, reason, attempts, max_attempts FROM broker.dead").rows
        left = session.execute("SELECT id, payload, state FROM broker.task").rows
        return {
            "effects": [list(row) for row in effects],
            "finished": [
                [one, outcome, None if result is None else result["key"]] for one, outcome, result in finished
            ],
            "dead": [[one, payload["key"], *rest] for one, payload, *rest in dead],
            "left": [[one, payload["key"], state] for one, payload, state in left],
        }


def _connection(client: Client) -> Connection:
    assert isinstance(client.session, DriverSession), client.session
    return client.session.connection()


def _attempt(client: Client, name: str, arguments: list[Any], work: Callable[[], Any]) -> Any:
    """`Client.attempt` of what raises the driver's errors."""

    def attempted() -> Any:
        with failing():
            return work()

    return client.attempt(name, arguments, attempted)


def _unless_lost(work: Callable[[], object]) -> Callable[[], bool]:
    """Whether the work was done; False: the task or the worker was not there any more."""

    def done() -> bool:
        try:
            work()
        except (TaskLostError, WorkerLostError, NoSuchTaskError):
            return False
        return True

    return done
