"""Unique slots: one living task has a slot; it passes to the oldest that waits, however its holder ends."""

from __future__ import annotations

import threading

import pytest
from herdpy_broker import finish, letters, upkeep, workers
from herdpy_broker.errors import SlotTakenError
from herdpy_broker.reading import task
from herdpy_broker.submission import Submission, submit


def wait(desk, **more):
    return submit(desk.connection, Submission("t", slot="s", waits_for_slot=True, **more))


def hold(desk, **more):
    return submit(desk.connection, Submission("t", slot="s", **more))


def cancelled(desk, holder):
    letters.cancel(desk.connection, holder)


def finished(desk, holder):
    assert holder in desk.claim()
    desk.finish(holder)


def failed(desk, holder):
    assert holder in desk.claim()
    finish.fail(desk.connection, desk.worker, holder, "no", may_retry=False)


def late(desk, holder):
    desk.connection.execute("UPDATE broker.task SET deadline = now() WHERE id = $1", (holder,))
    assert upkeep.expire(desk.connection) == 1


def worker_died(desk, holder):
    desk.connection.execute("UPDATE broker.task SET max_attempts = 1 WHERE id = $1", (holder,))
    assert holder in desk.claim()
    desk.age("worker", "seen_at", 3600)
    assert workers.reap(desk.connection) == []


def needed_died(desk, holder):
    needed = submit(desk.connection, Submission("t"))
    desk.connection.execute("UPDATE broker.task SET is_needed = true WHERE id = $1", (needed,))
    desk.connection.execute("INSERT INTO broker.dependency VALUES ($1, $2)", (needed, holder))
    letters.cancel(desk.connection, needed)
    assert desk.state(holder) == "dead"


ENDS = [cancelled, finished, failed, late, worker_died, needed_died]


@pytest.mark.parametrize("state", ["ready", "delayed", "running", "blocked"])
def test_a_living_task_keeps_others_out(desk, state):
    needed = submit(desk.connection, Submission("t")) if state == "blocked" else None
    holder = hold(desk, delay_s=60 if state == "delayed" else 0, after=(needed,) if needed else ())
    if state == "running":
        assert desk.claim() == [holder]
    assert desk.state(holder) == state
    with pytest.raises(SlotTakenError) as raised:
        hold(desk)
    assert (raised.value.slot, raised.value.holder) == ("s", holder)


@pytest.mark.parametrize("end", ENDS)
def test_the_oldest_that_waits_gets_it(desk, end):
    holder = hold(desk)
    first, second = wait(desk), wait(desk)
    assert desk.states(first, second) == ["blocked", "blocked"]
    assert desk.claim(1) == [holder]
    finish.fail(desk.connection, desk.worker, holder, "again")  # an attempt that failed keeps the slot
    assert desk.states(first, second) == ["blocked", "blocked"]
    desk.connection.execute("UPDATE broker.task SET attempts = 0")
    end(desk, holder)
    assert desk.states(first, second) == ["ready", "blocked"]
    assert desk.task(first).holds_slot


@pytest.mark.parametrize("end", ENDS)
def test_a_slot_that_is_free_again_is_taken(desk, end):
    end(desk, hold(desk))
    assert desk.state(hold(desk)) == "ready"


def test_the_slot_passes_in_the_transaction_that_ends_its_holder(desk, connect):
    holder, waiting = hold(desk), wait(desk)
    desk.claim()
    other = connect()
    with desk.connection.transaction():
        desk.finish(holder)
        assert task(other, waiting).state == "blocked"
    assert desk.state(waiting) == "ready"


def test_a_delayed_one_that_waits_is_delayed_when_it_has_the_slot(desk):
    holder, waiting = hold(desk), wait(desk, delay_s=60)
    letters.cancel(desk.connection, holder)
    assert desk.state(waiting) == "delayed"


def test_one_that_waits_and_is_cancelled_is_passed_over(desk):
    holder, first, second = hold(desk), wait(desk), wait(desk)
    letters.cancel(desk.connection, first)
    assert desk.state(second) == "blocked"
    letters.cancel(desk.connection, holder)
    assert desk.state(second) == "ready"


def test_a_dead_letter_takes_its_slot_again_or_waits(desk):
    dead = hold(desk)
    failed(desk, dead)
    holder = hold(desk)
    letters.retry(desk.connection, dead)
    assert desk.state(dead) == "blocked"
    finished(desk, holder)
    assert desk.state(dead) == "ready"


def test_a_waiting_one_that_is_submitted_while_the_holder_ends_is_not_forgotten(desk, connect):
    """The submission locks the holder: the end waits, and sees it."""
    holder = hold(desk)
    submitter = connect()
    ended = threading.Event()

    def end():
        letters.cancel(desk.connection, holder)
        ended.set()

    ender = threading.Thread(target=end)
    with submitter.transaction():
        waiting = submit(submitter, Submission("t", slot="s", waits_for_slot=True))
        ender.start()
        assert not ended.wait(0.2)
    ender.join()
    assert desk.state(waiting) == "ready"


def test_a_submission_waits_for_the_end_of_the_holder_that_is_under_way(desk, connect):
    holder = hold(desk)
    submitter, made = connect(), []
    thread = threading.Thread(
        target=lambda: made.append(submit(submitter, Submission("t", slot="s", waits_for_slot=True)))
    )
    with desk.connection.transaction():
        letters.cancel(desk.connection, holder)
        thread.start()
    thread.join()
    assert desk.state(made[0]) == "ready"
    assert desk.task(made[0]).holds_slot


def test_the_oldest_is_cancelled_while_the_slot_is_passed(desk, connect):
    """The end waits for the one that is being deleted, and takes the next."""
    holder, first, second = hold(desk), wait(desk), wait(desk)
    canceller = connect()
    ender = threading.Thread(target=letters.cancel, args=(desk.connection, holder))
    with canceller.transaction():
        letters.cancel(canceller, first)
        ender.start()
        ender.join(0.2)
        assert ender.is_alive()
    ender.join()
    assert desk.state(second) == "ready"
    assert desk.task(second).holds_slot


def test_two_at_once_have_one_holder(desk, connect):
    outcomes: list[object] = []

    def one():
        mine = connect()
        try:
            outcomes.append(submit(mine, Submission("t", slot="s")))
        except SlotTakenError as error:
            outcomes.append(error.holder)

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(outcomes)) == 1
