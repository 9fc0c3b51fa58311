"""People end tasks, and take dead letters up again."""

from __future__ import annotations

import pytest
from herdpy_broker import groups, letters, reading
from herdpy_broker.errors import InvalidValueError, NoSuchTaskError, TaskLostError
from herdpy_broker.submission import Submission, submit, submit_all


def dead(desk):
    task = Submission("t", {"a": 0.1}, priority=3, batch="b", deadline_s=600, max_attempts=1)
    one = submit(desk.connection, task)
    desk.claim(1)
    desk.fail(one)
    assert desk.state(one) == "dead"
    return one


def test_a_living_task_is_cancelled(desk):
    ready, delayed = (
        submit(desk.connection, Submission("t")),
        submit(desk.connection, Submission("t", delay_s=9)),
    )
    for one in (ready, delayed):
        letters.cancel(desk.connection, one)
    assert desk.states(ready, delayed) == ["cancelled", "cancelled"]
    assert desk.claim() == []


def test_a_running_task_is_taken_from_its_worker(desk):
    one = submit(desk.connection, Submission("t"))
    desk.claim()
    letters.cancel(desk.connection, one)
    with pytest.raises(TaskLostError):
        desk.finish(one)
    view = desk.task(one)
    assert (view.state, view.worker, view.attempts) == ("cancelled", desk.worker, 1)


def test_only_living_tasks_are_cancelled(desk):
    done = submit(desk.connection, Submission("t"))
    desk.claim()
    desk.finish(done)
    for one in (done, dead(desk), 10**12):
        with pytest.raises(NoSuchTaskError):
            letters.cancel(desk.connection, one)


def test_a_dead_letter_is_taken_up_under_its_id(desk):
    one = dead(desk)
    before = desk.task(one)
    letters.retry(desk.connection, one)
    after = desk.task(one)
    assert (after.state, after.attempts, after.max_attempts, after.deadline) == ("ready", 0, 1, None)
    for name in ("payload", "priority", "batch", "submitted_at", "error", "type", "group"):
        assert getattr(after, name) == getattr(before, name)
    assert desk.claim() == [one]
    desk.finish(one)
    assert desk.state(one) == "done"


def test_only_dead_letters_are_taken_up_or_given_up(desk):
    living = submit(desk.connection, Submission("t"))
    for one in (living, 10**12):
        with pytest.raises(NoSuchTaskError):
            letters.retry(desk.connection, one)
        with pytest.raises(NoSuchTaskError):
            letters.discard(desk.connection, one)
    assert desk.state(living) == "ready"


def test_a_dead_letter_is_given_up(desk):
    one = dead(desk)
    letters.discard(desk.connection, one)
    assert desk.state(one) == "discarded"
    with pytest.raises(NoSuchTaskError):
        letters.retry(desk.connection, one)


def test_tasks_are_counted(desk):
    submit_all(
        desk.connection, [Submission("t", group="a"), Submission("t", group="b"), Submission("t", group="b")]
    )
    dead(desk)
    desk.claim(1, "b")
    found = [(count.group, count.state, count.tasks) for count in reading.counts(desk.connection)]
    assert found == [("a", "ready", 1), ("b", "ready", 1), ("b", "running", 1), ("default", "dead", 1)]


def test_an_unknown_task_is_refused(connection):
    with pytest.raises(NoSuchTaskError, match="there is no task 7000000"):
        reading.task(connection, 7000000)


@pytest.mark.parametrize("settings", [{"weight": 0}, {"max_running": 0}, {"weight": 1.5}])
def test_a_groups_settings_have_limits(connection, settings):
    with pytest.raises(InvalidValueError):
        groups.set_group(connection, "g", **settings)
