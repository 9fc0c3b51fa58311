"""What time does: delays end, dead-lines pass, history is forgotten."""

from __future__ import annotations

import pytest
from herdpy_broker import upkeep
from herdpy_broker.errors import NoSuchTaskError
from herdpy_broker.submission import Submission, submit, submit_all


def test_delayed_tasks_that_are_due_are_ready(desk):
    soon, later = (
        submit(desk.connection, Submission("t", delay_s=60)),
        submit(desk.connection, Submission("t", delay_s=120)),
    )
    assert upkeep.promote(desk.connection) == 0
    desk.age("task", "ready_at", 60)
    assert upkeep.promote(desk.connection) == 1
    assert desk.states(soon, later) == ["ready", "delayed"]


def test_a_task_that_was_not_started_by_its_dead_line_dies(desk):
    late, running, early, delayed = submit_all(
        desk.connection,
        [
            Submission("t", deadline_s=60),
            Submission("t", deadline_s=60, priority=1),
            Submission("t", deadline_s=600),
            Submission("t", deadline_s=60, delay_s=600),
        ],
    )
    assert desk.claim(1) == [running]
    assert upkeep.expire(desk.connection) == 0
    desk.age("task", "deadline", 60)
    assert upkeep.expire(desk.connection) == 2
    assert desk.states(late, running, early, delayed) == ["dead", "running", "ready", "dead"]
    assert desk.task(late).reason == "deadline"
    desk.fail(running)
    assert upkeep.expire(desk.connection) == 1


def test_locked_tasks_are_skipped(desk, connect):
    ids = submit_all(desk.connection, [Submission("t", delay_s=60, deadline_s=60)] * 2)
    desk.age("task", "ready_at", 60)
    desk.age("task", "deadline", 60)
    other = connect()
    with other.transaction():
        other.execute("SELECT 1 FROM broker.task WHERE id = $1 FOR UPDATE", (ids[0],))
        assert upkeep.promote(desk.connection) == 1
        assert upkeep.expire(desk.connection) == 1
    assert desk.states(*ids) == ["delayed", "dead"]


def test_old_history_is_forgotten_and_new_stays(desk, monkeypatch):
    monkeypatch.setattr(upkeep, "MOST", 3)
    ids = submit_all(desk.connection, [Submission("t")] * 10)
    desk.claim(10)
    desk.finish(*ids)
    desk.age("finished", "finished_at", 3600, f"id <> {ids[4]}")
    assert upkeep.forget(desk.connection, 60) == 9
    assert desk.state(ids[4]) == "done"
    with pytest.raises(NoSuchTaskError):
        desk.task(ids[0])
    assert upkeep.forget(desk.connection, 60) == 0
