"""Tasks that need others: free when all are done, dead when one is not."""

from __future__ import annotations

import threading

import pytest
from herdpy_broker import letters, upkeep
from herdpy_broker.errors import NoSuchTaskError
from herdpy_broker.submission import Submission, submit


def add(desk, *after, **more):
    return submit(desk.connection, Submission("t", after=after, **more))


def do(desk, *ids):
    assert set(ids) <= set(desk.claim())
    desk.finish(*ids)


def test_it_is_ready_when_all_are_done(desk):
    first, second = add(desk), add(desk)
    last = add(desk, first, second, first)
    assert desk.task(last).needs == 2
    desk.claim()
    desk.finish(first)
    assert desk.state(last) == "blocked"
    desk.finish(second)
    assert desk.state(last) == "ready"
    assert desk.claim() == [last]


def test_two_that_are_done_at_once_count_twice(desk):
    first, second = add(desk), add(desk)
    last, other = add(desk, first, second), add(desk, first)
    do(desk, first, second)
    assert desk.states(last, other) == ["ready", "ready"]


def test_one_that_is_done_already_is_not_counted(desk):
    done = add(desk)
    do(desk, done)
    assert desk.state(add(desk, done)) == "ready"


def test_an_unknown_one_is_refused(desk):
    living = add(desk)
    with pytest.raises(NoSuchTaskError) as raised:
        add(desk, living, 10**12, batch="b")
    assert raised.value.task_id == 10**12
    assert desk.claim() == [living]


def test_one_whose_history_is_forgotten_is_unknown(desk):
    done = add(desk)
    do(desk, done)
    upkeep.forget(desk.connection, 0)
    with pytest.raises(NoSuchTaskError):
        add(desk, done)


def test_an_end_that_is_not_done_takes_all_that_need_it(desk):
    first = add(desk)
    second = add(desk, first)
    third, beside = add(desk, second), add(desk, first, second)
    other = add(desk)
    letters.cancel(desk.connection, first)
    assert desk.states(first, second, third, beside, other) == ["cancelled", "dead", "dead", "dead", "ready"]
    assert {desk.task(one).reason for one in (second, third, beside)} == {"dependency"}
    assert desk.task(third).error == f"task {second} was not done"
    assert desk.connection.execute("SELECT count(*) FROM broker.dependency").fetchone() == (0,)


def test_a_long_chain_dies_whole(desk):
    ids = [add(desk)]
    for _ in range(50):
        ids.append(add(desk, ids[-1]))
    letters.cancel(desk.connection, ids[0])
    assert desk.connection.execute("SELECT count(*) FROM broker.dead").fetchone() == (50,)


@pytest.mark.parametrize("how", ["dead", "cancelled", "discarded"])
def test_one_that_needs_a_task_that_was_not_done_is_dead_from_the_start(desk, how):
    needed = add(desk)
    letters.cancel(desk.connection, needed) if how == "cancelled" else kill(desk, needed)
    if how == "discarded":
        letters.discard(desk.connection, needed)
    living = add(desk)
    view = desk.task(add(desk, needed, living))
    assert (view.state, view.reason, view.error) == ("dead", "dependency", f"task {needed} was not done")
    do(desk, living)


def kill(desk, one):
    desk.connection.execute("UPDATE broker.task SET deadline = now() WHERE id = $1", (one,))
    upkeep.expire(desk.connection)


def test_a_failed_attempt_ends_nothing(desk):
    first = add(desk)
    last = add(desk, first)
    desk.claim()
    desk.fail(first)
    assert desk.states(first, last) == ["ready", "blocked"]
    desk.claim()
    desk.fail(first)
    assert desk.states(first, last) == ["dead", "dead"]


def test_a_slot_and_others_are_both_needed(desk):
    first = add(desk)
    holder = add(desk, slot="s")
    last = add(desk, first, slot="s", waits_for_slot=True)
    desk.claim()
    desk.finish(first)
    assert desk.state(last) == "blocked"
    desk.finish(holder)
    assert desk.state(last) == "ready"


def test_a_delay_counts_after_the_others_too(desk):
    first = add(desk)
    last = add(desk, first, delay_s=60)
    do(desk, first)
    assert desk.state(last) == "delayed"


def test_a_submission_and_the_end_of_what_it_needs_at_once(desk, connect):
    """The submission locks what it needs: its end waits, and counts it."""
    first = add(desk)
    desk.claim()
    submitter = connect()
    ender = threading.Thread(target=desk.finish, args=(first,))
    with submitter.transaction():
        last = submit(submitter, Submission("t", after=(first,)))
        ender.start()
        ender.join(0.2)
        assert ender.is_alive()
    ender.join()
    assert desk.state(last) == "ready"


def test_an_end_under_way_is_waited_for(desk, connect):
    first = add(desk)
    desk.claim()
    submitter, made = connect(), []
    thread = threading.Thread(target=lambda: made.append(submit(submitter, Submission("t", after=(first,)))))
    with desk.connection.transaction():
        desk.finish(first)
        thread.start()
        thread.join(0.2)
        assert thread.is_alive()
    thread.join()
    assert desk.state(made[0]) == "ready"
