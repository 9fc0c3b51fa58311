"""Ends of tasks by their workers: the fence, results, retries, and effects exactly once."""

from __future__ import annotations

import math

import pytest
from herdpy_broker import finish, letters, reading, types, values, workers
from herdpy_broker.errors import InvalidValueError, TaskLostError
from herdpy_broker.submission import Submission, submit, submit_all

import herdpy


@pytest.fixture
def effects(connection):
    connection.execute("CREATE TABLE effect (task BIGINT PRIMARY KEY)")
    yield
    connection.execute("DROP TABLE effect")


def test_a_done_task_is_history_with_its_result(desk):
    one = submit(desk.connection, Submission("t", 1, group="g", batch="b"))
    desk.claim(group="g")
    finish.finish(desk.connection, desk.worker, [(one, {"sum": [1, None]})])
    view = desk.task(one)
    assert (view.state, view.result, view.group, view.batch) == ("done", {"sum": [1, None]}, "g", "b")
    assert (view.worker, view.attempts) == (desk.worker, 1)
    assert None not in (view.started_at, view.ended_at)
    assert reading.counts(desk.connection) == []


def test_many_are_finished_at_once(desk):
    ids = submit_all(desk.connection, [Submission("t")] * 20)
    desk.claim(20)
    finish.finish(desk.connection, desk.worker, [(one, one) for one in reversed(ids)])
    assert [desk.task(one).result for one in ids] == ids


def lost_ways():
    def given_back(desk, one):
        desk.age("worker", "seen_at", 3600)
        assert one in workers.reap(desk.connection)

    def cancelled(desk, one):
        letters.cancel(desk.connection, one)

    def finished(desk, one):
        desk.finish(one)

    def another_has_it(desk, one):
        given_back(desk, one)
        other = workers.register(desk.connection, "other", 1, 60)
        desk.connection.execute(
            "UPDATE broker.task SET state = 'running', worker = $1 WHERE id = $2", (other, one)
        )

    return [given_back, cancelled, finished, another_has_it]


@pytest.mark.parametrize("lose", lost_ways())
def test_a_lost_task_is_neither_finished_nor_failed(desk, lose):
    kept, one = submit_all(desk.connection, [Submission("t"), Submission("t")])
    desk.claim()
    lose(desk, one)
    before = desk.task(one)
    with pytest.raises(TaskLostError) as raised:
        finish.finish(desk.connection, desk.worker, [(one, "late")])
    assert raised.value.ids == (one,)
    with pytest.raises(TaskLostError):
        desk.fail(one)
    assert desk.task(one) == before
    assert desk.task(kept).state in ("running", "ready")


def test_nothing_is_finished_when_one_is_lost(desk):
    ids = submit_all(desk.connection, [Submission("t")] * 3)
    desk.claim()
    letters.cancel(desk.connection, ids[1])
    with pytest.raises(TaskLostError):
        desk.finish(*ids)
    assert desk.states(*ids) == ["running", "cancelled", "running"]


def test_nothing_is_finished_in_a_transaction_that_goes_on_after_the_loss(desk):
    ids = submit_all(desk.connection, [Submission("t")] * 3)
    desk.claim()
    letters.cancel(desk.connection, ids[1])
    with desk.connection.transaction():
        with pytest.raises(TaskLostError):
            desk.finish(*ids)
        desk.finish(ids[0])
    assert desk.states(*ids) == ["done", "cancelled", "running"]


def test_effects_are_those_of_finished_tasks(desk, effects):
    lost, kept = submit_all(desk.connection, [Submission("t")] * 2)
    desk.claim()
    letters.cancel(desk.connection, lost)
    for one in (lost, kept):
        try:
            with desk.connection.transaction():
                desk.connection.execute("INSERT INTO effect VALUES ($1)", (one,))
                desk.finish(one)
        except TaskLostError:
            assert one == lost
    assert desk.connection.execute("SELECT task FROM effect").fetchall() == [(kept,)]


def test_an_attempt_that_fails_is_made_again_until_they_are_used_up(desk):
    one = submit(desk.connection, Submission("t", {"a": 1}, priority=4))
    for attempt in (1, 2):
        assert desk.claim() == [one]
        assert desk.task(one).attempts == attempt
        desk.fail(one, f"error {attempt}")
    view = desk.task(one)
    assert (view.state, view.reason, view.error, view.attempts) == ("dead", "failed", "error 2", 2)
    assert (view.payload, view.priority) == ({"a": 1}, 4)


def test_who_may_not_retry_dies_at_once(desk):
    one = submit(desk.connection, Submission("t"))
    desk.claim()
    finish.fail(desk.connection, desk.worker, one, "never", may_retry=False)
    assert desk.task(one).reason == "failed"


def test_a_failed_attempt_waits_for_the_backoff_of_its_type(desk):
    types.define(desk.connection, "slow", max_attempts=9, backoff_s=2, backoff_factor=3, backoff_most_s=10)
    one = submit(desk.connection, Submission("slow"))
    waits = []
    for _ in range(4):
        desk.connection.execute("UPDATE broker.task SET state = 'ready'")
        assert desk.claim() == [one]
        desk.fail(one)
        view = desk.task(one)
        assert view.state == "delayed"
        assert view.error == "it broke"
        assert view.ready_at is not None
        now = desk.connection.execute("SELECT now()").fetchone()[0]
        waits.append((view.ready_at - now).total_seconds())
    for left, wait in zip(waits, [2, 6, 10, 10], strict=True):
        assert wait - 60 < left <= wait


@pytest.mark.parametrize(
    ("settings", "attempts", "wait"),
    [
        ({"backoff_s": 1}, 1, 1),
        ({"backoff_s": 1}, 4, 8),
        ({"backoff_s": 1}, 10_000, 300),
        ({"backoff_s": 0}, 10_000, 0),
        ({"backoff_s": 0.5, "backoff_factor": 1}, 10_000, 0.5),
        ({"backoff_s": 20, "backoff_most_s": 5}, 1, 5),
    ],
)
def test_backoff(connection, settings, attempts, wait):
    types.define(connection, "b", **settings)
    assert types.backoff_s(connection, "b", attempts) == wait


def test_an_error_is_kept_up_to_its_limit(desk):
    one = submit(desk.connection, Submission("t"))
    desk.claim()
    desk.fail(one, "a\0b\ud800" + "x" * 100_000)
    error = desk.task(one).error
    assert error is not None
    assert error.startswith("ab?xxx")
    assert len(error) == values.ERROR_MOST


@pytest.mark.parametrize(
    "result",
    [math.nan, {1}, object(), "x" * values.JSON_MOST_BYTES, "\0"],
    ids=lambda result: repr(result)[:10],
)
def test_a_result_that_is_no_json_is_refused(desk, result):
    one = submit(desk.connection, Submission("t"))
    desk.claim()
    with pytest.raises(InvalidValueError):
        finish.finish(desk.connection, desk.worker, [(one, result)])
    assert desk.state(one) == "running"


def test_a_task_is_finished_once_in_a_call(desk):
    one = submit(desk.connection, Submission("t"))
    desk.claim()
    with pytest.raises(InvalidValueError):
        finish.finish(desk.connection, desk.worker, [(one, 1), (one, 2)])
    assert desk.state(one) == "running"


def test_no_task_is_nothing(desk):
    finish.finish(desk.connection, desk.worker, [])
    assert desk.connection.info.transaction_status == herdpy.TransactionStatus.IDLE
