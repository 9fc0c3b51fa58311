"""Workers and their leases: dead ones are given up, and their tasks come back once."""

from __future__ import annotations

import math

import pytest
from herdpy_broker import claim, finish, workers
from herdpy_broker.errors import InvalidValueError, TaskLostError, WorkerLostError
from herdpy_broker.submission import Submission, submit, submit_all


def test_a_worker_that_beats_is_let_be(desk):
    one = submit(desk.connection, Submission("t"))
    desk.claim()
    desk.age("worker", "seen_at", 3600)
    workers.beat(desk.connection, desk.worker)
    assert workers.reap(desk.connection) == []
    desk.finish(one)


def test_a_workers_lease_is_its_own(desk):
    patient = workers.register(desk.connection, "patient", 1, 7200)
    desk.age("worker", "seen_at", 3600)
    workers.reap(desk.connection)
    workers.beat(desk.connection, patient)
    with pytest.raises(WorkerLostError):
        workers.beat(desk.connection, desk.worker)


def test_the_tasks_of_a_dead_worker_come_back_once(desk):
    ids = submit_all(desk.connection, [Submission("t")] * 3)
    desk.claim(2)
    desk.age("worker", "seen_at", 3600)
    assert workers.reap(desk.connection) == ids[:2]
    assert workers.reap(desk.connection) == []
    view = desk.task(ids[0])
    assert (view.state, view.worker, view.started_at, view.attempts) == ("ready", None, None, 1)
    assert view.error == "its worker was given up"


def test_a_death_is_an_attempt(desk):
    one = submit(desk.connection, Submission("t", max_attempts=1))
    desk.claim()
    desk.age("worker", "seen_at", 3600)
    assert workers.reap(desk.connection) == []
    view = desk.task(one)
    assert (view.state, view.reason, view.attempts) == ("dead", "worker died", 1)


def test_a_worker_that_was_given_up_finishes_nothing(desk):
    one = submit(desk.connection, Submission("t"))
    desk.claim()
    desk.age("worker", "seen_at", 3600)
    workers.reap(desk.connection)
    with pytest.raises(TaskLostError):
        desk.finish(one)
    again = workers.register(desk.connection, "again", 1, 60)
    assert [task.id for task in claim.claim(desk.connection, again, "default", 1)] == [one]
    with pytest.raises(TaskLostError):
        desk.finish(one)
    finish.finish(desk.connection, again, [(one, None)])


def test_a_claim_of_a_worker_that_is_gone_comes_back_too(desk):
    """As when the claim was under way while its worker was given up."""
    workers.leave(desk.connection, desk.worker)
    one = submit(desk.connection, Submission("t"))
    assert desk.claim() == [one]
    assert workers.reap(desk.connection) == [one]


def test_one_that_is_being_finished_is_passed_over(desk, connect):
    first, second = submit_all(desk.connection, [Submission("t")] * 2)
    desk.claim()
    desk.age("worker", "seen_at", 3600)
    reaper = connect()
    with desk.connection.transaction():
        desk.finish(first)
        assert workers.reap(reaper) == [second]
    assert workers.reap(reaper) == []
    assert desk.state(first) == "done"


def test_one_whose_finish_was_rolled_back_comes_back_later(desk, connect):
    first = submit(desk.connection, Submission("t"))
    desk.claim()
    desk.age("worker", "seen_at", 3600)
    reaper = connect()
    with desk.connection.transaction():
        desk.finish(first)
        assert workers.reap(reaper) == []
        desk.connection.rollback()
    assert workers.reap(reaper) == [first]


def test_a_beat_under_way_saves_its_worker(desk, connect):
    one = submit(desk.connection, Submission("t"))
    desk.claim()
    desk.age("worker", "seen_at", 3600)
    reaper = connect()
    with desk.connection.transaction():
        workers.beat(desk.connection, desk.worker)
        assert workers.reap(reaper) == []
    assert workers.reap(reaper) == []
    desk.finish(one)


def test_who_leaves_gives_its_tasks_back(desk):
    one = submit(desk.connection, Submission("t"))
    desk.claim()
    assert workers.leave(desk.connection, desk.worker) == [one]
    assert desk.state(one) == "ready"
    with pytest.raises(WorkerLostError):
        workers.beat(desk.connection, desk.worker)
    assert workers.leave(desk.connection, desk.worker) == []


@pytest.mark.parametrize(
    ("name", "capacity", "lease_s"), [("", 1, 1), ("w", 0, 1), ("w", 1, 0), ("w", 1, math.nan)]
)
def test_a_workers_settings_have_limits(connection, name, capacity, lease_s):
    with pytest.raises(InvalidValueError):
        workers.register(connection, name, capacity, lease_s)
