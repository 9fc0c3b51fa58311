"""Claims: which tasks, in which order, and how many."""

from __future__ import annotations

import threading

import pytest
from herdpy_broker import claim, groups, types
from herdpy_broker.errors import InvalidValueError
from herdpy_broker.submission import Submission, submit, submit_all


def add(desk, *submissions):
    return submit_all(desk.connection, submissions)


def test_higher_priorities_first_then_the_older(desk):
    low, high, first, second = add(
        desk, Submission("t", priority=-1), Submission("t", priority=5), Submission("t"), Submission("t")
    )
    assert desk.claim(3) == [high, first, second]
    assert desk.claim() == [low]
    assert desk.claim() == []


def test_a_claimed_task_has_what_its_handler_needs(desk):
    (one,) = add(desk, Submission("t", {"a": 1}, group="g", priority=3, batch="b"))
    (claimed,) = claim.claim(desk.connection, desk.worker, "g", 5)
    view = desk.task(one)
    assert claimed == claim.ClaimedTask(one, "t", "g", 3, 1, 2, "b", view.submitted_at, {"a": 1})
    assert (view.state, view.worker, view.attempts) == ("running", desk.worker, 1)
    assert view.started_at is not None


def test_a_claim_takes_of_its_group_alone(desk):
    mine, _ = add(desk, Submission("t", group="a"), Submission("t", group="b"))
    assert desk.claim(group="a") == [mine]
    assert desk.claim(group="nonesuch") == []


def test_one_past_its_dead_line_is_not_claimed(desk):
    late, early = add(desk, Submission("t", deadline_s=60, priority=9), Submission("t", deadline_s=3600))
    desk.age("task", "deadline", 60)
    assert desk.claim() == [early]
    assert desk.state(late) == "ready"


def test_a_paused_group_gives_none(desk):
    (one,) = add(desk, Submission("t"))
    groups.set_group(desk.connection, "default", paused=True)
    assert desk.claim() == []
    groups.set_group(desk.connection, "default")
    assert desk.claim() == [one]


def test_no_more_run_than_the_group_may(desk):
    ids = add(desk, *[Submission("t")] * 5)
    groups.set_group(desk.connection, "default", max_running=2)
    assert desk.claim() == ids[:2]
    assert desk.claim() == []
    desk.finish(ids[0])
    assert desk.claim() == ids[2:3]
    groups.set_group(desk.connection, "default", max_running=1)
    assert desk.claim() == []


def test_rows_that_another_claim_has_locked_are_skipped(desk, connect):
    ids = add(desk, *[Submission("t")] * 4)
    other = connect()
    with other.transaction():
        assert [one.id for one in claim.claim(other, desk.worker, "default", 2)] == ids[:2]
        assert desk.claim() == ids[2:]


def test_a_limited_group_is_claimed_by_one_at_a_time(desk, connect):
    add(desk, *[Submission("t")] * 4)
    groups.set_group(desk.connection, "default", max_running=2)
    other, taken = connect(), []
    thread = threading.Thread(
        target=lambda: taken.extend(claim.claim(desk.connection, desk.worker, "default", 1))
    )
    with other.transaction():
        assert len(claim.claim(other, desk.worker, "default", 2)) == 2
        thread.start()
        thread.join(0.2)
        assert thread.is_alive()
    thread.join()
    assert taken == []


def test_a_claim_takes_of_its_types_alone(desk):
    types.define(desk.connection, "u")
    ids = add(desk, Submission("t"), Submission("u"), Submission("t"))
    assert claim.claim(desk.connection, desk.worker, "default", 9, []) == []
    found = claim.claim(desk.connection, desk.worker, "default", 9, ["u", "nonesuch"])
    assert [one.id for one in found] == [ids[1]]
    assert len(claim.claim(desk.connection, desk.worker, "default", 9, ["t"])) == 2


def test_a_claim_that_is_rolled_back_took_nothing(desk):
    (one,) = add(desk, Submission("t"))
    with desk.connection.transaction():
        assert desk.claim() == [one]
        desk.connection.rollback()
    assert desk.task(one).attempts == 0
    assert desk.claim() == [one]


@pytest.mark.parametrize("most", [0, -1, claim.CLAIM_MOST + 1, True])
def test_a_claim_has_a_limit(desk, most):
    submit(desk.connection, Submission("t"))
    with pytest.raises(InvalidValueError):
        desk.claim(most)
