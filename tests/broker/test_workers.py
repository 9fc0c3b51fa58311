"""Workers in threads and coroutines, on a directory: handlers, errors, exactly-once effects, drains."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any

import pytest
from herdpy_broker import claim, claim_loop, groups, letters, reading, schedule, submission, types, workers
from herdpy_broker.async_worker import AsyncWorker
from herdpy_broker.errors import InvalidValueError
from herdpy_broker.handlers import Handler, RejectError, error_text, plain
from herdpy_broker.schedule import Schedule
from herdpy_broker.schema import migrate
from herdpy_broker.submission import Submission
from herdpy_broker.worker import Worker

import herdpy
from herdpy.testing.process import await_until
from tests.support.broker_workers import PATIENCE_S, await_ends, await_value, effects, working


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    return f"herdpy:{tmp_path_factory.mktemp('workers')}"


@pytest.fixture
def db(url):
    """A connection to a broker's database without tasks, with an empty table `effect`."""
    with contextlib.closing(herdpy.connect(url, autocommit=True)) as connection:
        migrate(connection)
        connection.execute("CREATE TABLE IF NOT EXISTS effect (task BIGINT)")
        yield connection
        for table in ("task", "finished", "dead", "schedule", "task_type", "task_group", "worker"):
            connection.execute(f"DELETE FROM broker.{table}")
        connection.execute("DELETE FROM effect")


def add_tasks(
    db: Any, type_name: str, count: int = 1, *, payload: object = None, **options: Any
) -> list[int]:
    types.define(db, type_name, max_attempts=options.pop("max_attempts", 2), backoff_s=0.0)
    return submission.submit_all(db, [Submission(type_name, payload, **options)] * count)


def effect(context: Any) -> object:
    context.connection.execute("INSERT INTO effect VALUES (%s)", (context.task.id,))
    return {"attempt": context.task.attempts}


# What handlers do.


def test_threads_do_300_tasks_and_each_effect_once(db, url):
    first = add_tasks(db, "effect", 150)
    second = add_tasks(db, "plain", 150, payload=[1, 2])
    with working(url, {"effect": effect, "plain": plain(sum)}, capacity=8):
        await_ends(db)
    assert effects(db) == first
    assert reading.task(db, first[0]).result == {"attempt": 1}
    assert {reading.task(db, task).result for task in second} == {3}
    assert db.execute("SELECT count(*) FROM broker.worker").fetchone() == (0,)


def test_coroutines_do_300_tasks_and_each_effect_once(db, url):
    async def insert(context):
        await context.connection.execute("INSERT INTO effect VALUES (%s)", (context.task.id,))

    async def double(payload):
        await asyncio.sleep(0)
        return payload * 2

    async def fail(context):
        await insert(context)
        raise RejectError("no")

    first = add_tasks(db, "effect", 150)
    second = add_tasks(db, "coroutine", 75, payload=2)
    third = add_tasks(db, "function", 75, payload=-3)
    (rejected,) = add_tasks(db, "fails")
    handlers = {"effect": insert, "coroutine": plain(double), "function": plain(abs), "fails": fail}

    async def main():
        worker = AsyncWorker(url, handlers, capacity=8, poll_s=0.05)
        running = asyncio.create_task(worker.run())
        await asyncio.to_thread(await_ends, db)
        worker.stop()
        await running

    asyncio.run(main())
    assert effects(db) == first
    assert {reading.task(db, task).result for task in second} == {4}
    assert {reading.task(db, task).result for task in third} == {3}
    assert reading.task(db, rejected).reason == "failed"
    assert db.execute("SELECT count(*) FROM broker.worker").fetchone() == (0,)


def test_a_handler_that_raises_is_tried_again_and_its_effects_are_undone(db, url):
    def fails_once(context):
        effect(context)
        if context.task.attempts == 1:
            raise ValueError("not yet")

    (task,) = add_tasks(db, "fails", max_attempts=2)
    with working(url, {"fails": fails_once}):
        await_ends(db)
    assert effects(db) == [task]
    assert reading.task(db, task).attempts == 2


def raises(error: BaseException) -> Handler:
    def handler(context: Any) -> None:
        effect(context)
        raise error

    return handler


def raises_plainly(payload: object) -> None:
    raise KeyError("plain")


def commits(context: Any) -> None:
    context.connection.commit()


def hides_an_error(context: Any) -> None:
    with contextlib.suppress(herdpy.Error):
        context.connection.execute("SELECT 1 / 0")


FAILURES = {
    "an error": (raises(ValueError("wrong \0 input")), 2, "ValueError: wrong "),
    "an exit": (raises(SystemExit(3)), 2, "SystemExit: 3"),
    "a rejection": (raises(RejectError("never")), 1, "RejectError: never"),
    "an error of SQL": (lambda context: context.connection.execute("SELECT 1 / 0"), 2, "division by zero"),
    "no JSON": (lambda context: {1, 2}, 1, "cannot be stored as JSON"),
    "no JSON, plain": (plain(lambda payload: float("nan")), 1, "cannot be stored as JSON"),
    "a text that JSONB refuses, plain": (plain(lambda payload: "\0"), 1, "NUL"),
    "an error, plain": (plain(raises_plainly), 2, "KeyError: 'plain'"),
    "a commit": (commits, 2, "must not commit"),
    "an error of SQL that is hidden": (hides_an_error, 2, "must not commit"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_task_whose_handler_fails_is_a_dead_letter_that_says_why(db, url, name):
    handler, attempts, message = FAILURES[name]
    (task,) = add_tasks(db, "fails", max_attempts=2)
    with working(url, {"fails": handler}):
        await_ends(db)
    view = reading.task(db, task)
    assert (view.reason, view.attempts) == ("failed", attempts)
    assert message in view.error
    assert effects(db) == []


def test_one_bad_result_of_a_batch_does_not_keep_the_others_back(db, url):
    gate = threading.Event()

    def result(payload):
        gate.wait(PATIENCE_S)
        return {1} if payload == "bad" else payload

    good = add_tasks(db, "plain", 20, payload="good")
    (bad,) = add_tasks(db, "plain", payload="bad")
    with working(url, {"plain": plain(result)}, capacity=21):
        await_value(db, "SELECT count(*) FROM broker.task WHERE state = 'running'", 21)
        gate.set()
        await_ends(db)
    assert {reading.task(db, task).result for task in good} == {"good"}
    assert reading.task(db, bad).reason == "failed"


def test_an_error_is_kept_with_its_type_and_place_and_cut():
    class MuteError(Exception):
        def __str__(self):
            raise RuntimeError

    try:
        raise LookupError("x" * 10_000)
    except LookupError as error:
        text = error_text(error)
    assert text.startswith("LookupError: xxx")
    assert f"test_an_error_is_kept_with_its_type_and_place_and_cut, {__file__}:" in text
    assert len(text) <= 4_000
    assert error_text(MuteError()).endswith("MuteError: (its text raised RuntimeError)")


# Which tasks are taken.


def test_tasks_of_other_types_and_groups_are_left_to_other_workers(db, url):
    add_tasks(db, "foreign", 20)
    add_tasks(db, "plain", 20, group="elsewhere", payload=[])
    mine = add_tasks(db, "plain", 20, group="here", payload=[])
    with working(url, {"plain": plain(sum)}, groups=["here"], capacity=4):
        await_value(db, "SELECT count(*) FROM broker.finished", 20)
    done = [row[0] for row in db.execute("SELECT id FROM broker.finished ORDER BY id").fetchall()]
    assert done == mine
    assert db.execute("SELECT count(*) FROM broker.task WHERE attempts > 0").fetchone() == (0,)


def test_groups_share_a_worker_by_their_weights(db, url):
    groups.set_group(db, "light", weight=1)
    groups.set_group(db, "heavy", weight=3)
    order: list[str] = []
    for group in ("light", "heavy"):
        add_tasks(db, "plain", 90, group=group, payload=group)
    with working(url, {"plain": plain(order.append)}, capacity=4):
        await_ends(db)
    first = order[:100]
    assert abs(first.count("heavy") - 75) <= 4
    assert len(order) == 180


def test_a_group_that_is_paused_waits_until_it_goes_on(db, url, monkeypatch):
    monkeypatch.setattr(claim_loop, "GROUPS_S", 0.05)
    groups.set_group(db, "quiet", paused=True)
    paused = add_tasks(db, "plain", 3, group="quiet", payload=[])
    other = add_tasks(db, "plain", 3, payload=[])
    with working(url, {"plain": plain(sum)}):
        await_value(db, "SELECT count(*) FROM broker.finished", 3)
        assert {reading.task(db, task).state for task in other} == {"done"}
        assert {reading.task(db, task).state for task in paused} == {"ready"}
        groups.set_group(db, "quiet", paused=False)
        await_ends(db)


def test_a_worker_never_runs_more_than_its_capacity(db, url):
    running, most = 0, 0
    lock = threading.Lock()
    full = threading.Event()

    def handler(context):
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
            if running == 3:
                full.set()
        assert full.wait(PATIENCE_S)
        counted = context.connection.execute("SELECT count(*) FROM broker.task WHERE state = 'running'")
        with lock:
            running -= 1
        return counted.fetchone()[0]

    tasks = add_tasks(db, "counts", 30)
    with working(url, {"counts": handler}, capacity=3):
        await_ends(db)
    assert most == 3
    assert max(reading.task(db, task).result for task in tasks) <= 3


# Upkeep.


def test_delays_and_schedules_take_effect_and_a_schedule_fires_once_for_two_workers(db, url):
    types.define(db, "plain")
    for number in range(10):
        schedule.add(db, Schedule(name=f"hourly {number}", type="plain", every_s=3600.0, payload=[]))
    db.execute("UPDATE broker.schedule SET next_at = now() - INTERVAL '1 minute'")
    (delayed,) = add_tasks(db, "plain", payload=[], delay_s=0.05)
    with working(url, {"plain": plain(sum)}), working(url, {"plain": plain(sum)}):
        await_value(db, "SELECT count(*) FROM broker.finished", 11)
        add_tasks(db, "plain", payload=[], delay_s=0.05)  # when it is done, upkeep has looked again
        await_value(db, "SELECT count(*) FROM broker.finished", 12)
    assert reading.task(db, delayed).state == "done"


def test_a_worker_gives_the_tasks_of_a_dead_one_back(db, url):
    dead = workers.register(db, "dead", 5, 0.001)
    tasks = add_tasks(db, "effect", 5)
    assert len(claim.claim(db, dead, "default", 5)) == 5
    with working(url, {"effect": effect}):
        await_ends(db)
    assert effects(db) == tasks
    assert {reading.task(db, task).attempts for task in tasks} == {2}


# The fence.


def test_a_busy_worker_beats(db, url):
    gate = threading.Event()
    add_tasks(db, "waits", 4)
    outlived = "seen_at > started_at + lease_s * INTERVAL '1 second'"
    with working(url, {"waits": lambda context: gate.wait(PATIENCE_S)}, capacity=4, lease_s=1.5):
        await_value(db, "SELECT count(*) FROM broker.task WHERE state = 'running'", 4)
        await_value(db, f"SELECT count(*) FROM broker.worker WHERE {outlived}", 1)
        gate.set()
        await_ends(db)
    assert db.execute("SELECT max(attempts) FROM broker.finished").fetchone() == (1,)


@pytest.mark.parametrize("is_plain", [False, True])
def test_a_worker_that_was_given_up_finishes_nothing_and_registers_anew(db, url, is_plain):
    """Its row is taken while its handler runs; the attempt after that is the one that counts.

    With one place the lost registration cannot claim the task once more before it knows that it is lost.
    """
    gate, lost = threading.Event(), threading.Event()
    runs: list[int] = []

    def waits(context):
        runs.append(context.task.id)
        effect(context)
        if len(runs) == 1:
            assert gate.wait(PATIENCE_S)
            assert await_until(lambda: context.is_lost, PATIENCE_S)
            lost.set()
        return len(runs)

    def waits_plainly(payload):
        runs.append(payload)
        if len(runs) == 1:
            assert gate.wait(PATIENCE_S)
            lost.set()
        return len(runs)

    (task,) = add_tasks(db, "waits", payload=7, max_attempts=10)
    handler = plain(waits_plainly) if is_plain else waits
    with working(url, {"waits": handler}, lease_s=3.0, capacity=1):
        await_value(db, "SELECT count(*) FROM broker.task WHERE state = 'running'", 1)
        (first,) = db.execute("SELECT id FROM broker.worker").fetchone()
        workers.leave(db, first)
        gate.set()
        assert lost.wait(PATIENCE_S)
        await_ends(db)
        await_value(db, f"SELECT count(*) FROM broker.worker WHERE id > {first}", 1)
    assert len(runs) == 2
    assert reading.task(db, task).result == 2
    assert effects(db) == ([] if is_plain else [task])


def test_a_task_that_is_cancelled_while_it_runs_has_no_effect(db, url):
    gate = threading.Event()

    def waits(context):
        effect(context)
        assert gate.wait(PATIENCE_S)

    (task,) = add_tasks(db, "waits")
    others = add_tasks(db, "effect", 3)
    with working(url, {"waits": waits, "effect": effect}, capacity=1):
        await_value(db, "SELECT count(*) FROM broker.task WHERE state = 'running'", 1)
        letters.cancel(db, task)
        gate.set()
        await_ends(db)
    assert reading.task(db, task).state == "cancelled"
    assert effects(db) == others


def test_a_claim_of_unknown_outcome_is_looked_up(db, url, monkeypatch):
    """The rows of a claim are committed, but the worker is told 08007."""
    claim_of_tasks: Callable[..., Any] = claim.claim
    times = iter(range(1_000))

    def claim_and_lose(*arguments, **options):
        tasks = claim_of_tasks(*arguments, **options)
        if tasks and next(times) == 0:
            raise herdpy.OperationalError("no server told", sqlstate="08007", outcome="unknown")
        return tasks

    monkeypatch.setattr(claim, "claim", claim_and_lose)
    tasks = add_tasks(db, "effect", 5)
    with working(url, {"effect": effect}, capacity=3):
        await_ends(db)
    assert effects(db) == tasks


# The end.


def test_a_worker_that_is_stopped_lets_its_tasks_end_and_takes_no_more(db, url):
    gate, started = threading.Event(), threading.Event()

    def waits(context):
        started.set()
        assert gate.wait(PATIENCE_S)

    tasks = add_tasks(db, "waits", 3)
    with working(url, {"waits": waits}, capacity=1) as worker:
        assert started.wait(PATIENCE_S)
        worker.stop()
        gate.set()
    assert [reading.task(db, task).state for task in tasks] == ["done", "ready", "ready"]


def test_tasks_that_outlast_the_grace_are_given_back_and_finish_nothing(db, url):
    gate, started, ended = threading.Event(), threading.Event(), threading.Event()

    def waits(context):
        effect(context)
        started.set()
        try:
            assert gate.wait(PATIENCE_S)
        finally:
            ended.set()

    (task,) = add_tasks(db, "waits")
    with working(url, {"waits": waits}, grace_s=0.0):
        assert started.wait(PATIENCE_S)
    assert reading.task(db, task).state == "ready"
    gate.set()
    assert ended.wait(PATIENCE_S)
    with working(url, {"waits": effect}):
        await_ends(db)
    assert effects(db) == [task]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"capacity": 0}, "capacity"),
        ({"capacity": 1_001}, "capacity"),
        ({"capacity": True}, "capacity"),
        ({"lease_s": 0}, "lease_s"),
        ({"lease_s": float("nan")}, "lease_s"),
        ({"poll_s": -1}, "poll_s"),
        ({"grace_s": -1}, "grace_s"),
        ({"groups": "default"}, "groups"),
        ({"groups": []}, "groups"),
        ({"groups": [""]}, "group"),
        ({"name": "x" * 300}, "name"),
    ],
)
def test_settings_out_of_their_limits_are_refused(settings, message):
    with pytest.raises(InvalidValueError, match=message):
        Worker("herdpy:nowhere", {"plain": plain(sum)}, **settings)


def test_handlers_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="at least one"):
        Worker("herdpy:nowhere", {})
    with pytest.raises(TypeError, match="'mail' is a str"):
        Worker("herdpy:nowhere", {"mail": "send"})  # type: ignore[dict-item]


def test_a_worker_whose_database_cannot_be_reached_says_so(tmp_path):
    worker = Worker(f"herdpy:{tmp_path / 'none'}?create=false", {"plain": plain(sum)})
    with pytest.raises(herdpy.OperationalError):
        worker.run()
