"""Workers are notified when tasks become ready, and only then."""

from __future__ import annotations

import pytest
from herdpy_broker import letters, upkeep, workers
from herdpy_broker.submission import Submission, submit, submit_all
from herdpy_broker.waking import CHANNEL


@pytest.fixture
def heard(connect):
    """The groups that were notified since the last look, in order."""
    listener = connect()
    listener.execute(f"LISTEN {CHANNEL}")
    return lambda: [note.payload for note in listener.notifies(timeout_s=0)]


def test_what_is_ready_at_once_is_heard_once_a_group(desk, heard):
    submit_all(desk.connection, [Submission("t", group=group) for group in "aab"])
    assert heard() == ["a", "b"]
    submit(desk.connection, Submission("t", delay_s=60))
    first = submit(desk.connection, Submission("t", group="c", slot="s"))
    assert heard() == ["c"]
    submit(desk.connection, Submission("t", group="d", slot="s", waits_for_slot=True))
    submit(desk.connection, Submission("t", group="e", after=(first,)))
    assert heard() == []
    desk.claim(group="c")
    desk.finish(first)
    assert sorted(heard()) == ["d", "e"]


def test_what_is_rolled_back_is_not_heard(desk, heard):
    with desk.connection.transaction():
        submit(desk.connection, Submission("t"))
        desk.connection.rollback()
    assert heard() == []


def test_what_becomes_ready_by_time_failure_death_or_people_is_heard(desk, heard):
    one = submit(desk.connection, Submission("t", group="g", delay_s=60, max_attempts=2))
    desk.age("task", "ready_at", 60)
    upkeep.promote(desk.connection)
    assert heard() == ["g"]
    desk.claim(group="g")
    desk.fail(one)
    assert heard() == ["g"]
    desk.claim(group="g")
    desk.fail(one)
    assert heard() == []
    letters.retry(desk.connection, one)
    assert heard() == ["g"]
    desk.claim(group="g")
    desk.age("worker", "seen_at", 3600)
    workers.reap(desk.connection)
    assert heard() == ["g"]
