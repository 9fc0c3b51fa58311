"""Tasks are submitted: what they become, what is refused, and that a batch is there or not."""

from __future__ import annotations

import math

import pytest
from herdpy_broker import reading, values
from herdpy_broker.errors import InvalidValueError, NoSuchTypeError, SlotTakenError
from herdpy_broker.submission import AFTER_MOST, BATCH_MOST, Submission, submit, submit_all

import herdpy


def test_a_task_is_what_was_submitted(desk):
    one = submit(
        desk.connection,
        Submission("t", {"to": ["ann"], "n": 0.1}, group="g", priority=7, batch="b", max_attempts=9),
    )
    view = desk.task(one)
    assert (view.type, view.group, view.priority, view.batch, view.max_attempts) == ("t", "g", 7, "b", 9)
    assert (view.state, view.payload, view.attempts) == ("ready", {"to": ["ann"], "n": 0.1}, 0)


def test_attempts_are_those_of_the_type_where_the_submission_says_none(desk):
    assert desk.task(submit(desk.connection, Submission("t"))).max_attempts == 2


def test_a_delayed_task_is_not_ready(desk):
    one = submit(desk.connection, Submission("t", delay_s=60))
    view = desk.task(one)
    assert view.state == "delayed"
    assert view.ready_at is not None
    assert (view.ready_at - view.submitted_at).total_seconds() == 60
    assert desk.claim() == []


def test_a_batch_has_ids_in_its_order(desk):
    ids = submit_all(desk.connection, [Submission("t", n, batch="b") for n in range(100)])
    assert ids == sorted(ids)
    assert [view.payload for view in reading.batch(desk.connection, "b")] == list(range(100))


@pytest.mark.parametrize(
    "one",
    [
        Submission("t", {"n": [1, "a b", None]}, group="g", priority=7, batch="b", max_attempts=9),
        Submission("t", 'quotes " and \\', delay_s=60, batch="b"),
        Submission("t", None, deadline_s=30, batch="b"),
    ],
)
def test_a_task_of_a_batch_is_what_it_is_alone(desk, one):
    alone = desk.task(submit(desk.connection, one))
    other, same = (desk.task(task) for task in submit_all(desk.connection, [Submission("t", 1), one]))
    assert other.payload == 1

    def shown(view):
        moments = [None if at is None else at - view.submitted_at for at in (view.ready_at, view.deadline)]
        same_for_all = (view.type, view.group, view.priority, view.batch, view.max_attempts)
        return view.state, view.payload, moments, same_for_all

    assert shown(same) == shown(alone)


def test_rows_of_a_statement_fit_in_a_message():
    texts = [
        None,
        "a" * 3,
        "b" * (values.PART_CHARACTERS - 3),
        "c",
        None,
        "d" * (2 * values.PART_CHARACTERS),
        "e",
    ]
    parts = list(values.parts(texts, lambda text: text))
    assert [[text and text[0] for text in part] for part in parts] == [
        [None, "a", "b"],
        ["c", None],
        ["d"],
        ["e"],
    ]
    assert list(values.parts([], str)) == []


def test_a_batch_of_several_statements_has_ids_in_its_order(desk, monkeypatch):
    monkeypatch.setattr(values, "PART_CHARACTERS", 3)
    ids = submit_all(desk.connection, [Submission("t", n, batch="b") for n in range(8)])
    assert ids == sorted(ids)
    assert [view.payload for view in reading.batch(desk.connection, "b")] == list(range(8))
    with pytest.raises(NoSuchTypeError, match="'nonesuch'"):
        submit_all(
            desk.connection, [*[Submission("t", n, batch="c") for n in range(4)], Submission("nonesuch")]
        )
    assert reading.batch(desk.connection, "c") == []


def test_a_batch_with_slots_keeps_its_order_too(desk):
    slots = [None, "a", None, "b"]
    ids = submit_all(desk.connection, [Submission("t", slot=slot) for slot in slots])
    assert ids == sorted(ids)
    assert [desk.task(one).slot for one in ids] == slots


def test_an_empty_batch_is_nothing(connection):
    assert submit_all(connection, []) == []


@pytest.mark.parametrize("bad", [Submission("nonesuch"), Submission("nonesuch", slot="s")])
def test_a_batch_is_all_or_nothing(desk, bad):
    with pytest.raises(NoSuchTypeError, match="'nonesuch'"):
        submit_all(desk.connection, [Submission("t", batch="b"), bad])
    assert reading.batch(desk.connection, "b") == []
    assert desk.connection.info.transaction_status == herdpy.TransactionStatus.IDLE


def test_a_refused_batch_leaves_the_callers_transaction_as_it_was(desk):
    taken = submit(desk.connection, Submission("t", slot="s"))
    with desk.connection.transaction():
        kept = submit(desk.connection, Submission("t"))
        with pytest.raises(SlotTakenError):
            submit_all(desk.connection, [Submission("t", batch="b"), Submission("t", slot="s")])
    assert desk.states(taken, kept) == ["ready", "ready"]
    assert reading.batch(desk.connection, "b") == []


@pytest.mark.parametrize("slot", [None, "s"])
def test_a_submission_is_a_part_of_the_callers_transaction(desk, slot):
    desk.connection.autocommit = False
    submit(desk.connection, Submission("t", batch="b", slot=slot))
    desk.connection.rollback()
    with pytest.raises(NoSuchTypeError):
        submit_all(desk.connection, [Submission("t", batch="b"), Submission("nonesuch", slot=slot)])
    assert desk.connection.info.transaction_status == herdpy.TransactionStatus.IDLE
    assert reading.batch(desk.connection, "b") == []


BAD = {
    "no type": Submission(""),
    "long type": Submission("t" * (values.NAME_MOST + 1)),
    "a line in a group": Submission("t", group="a\nb"),
    "no group": Submission("t", group=""),
    "empty slot": Submission("t", slot=""),
    "waits for no slot": Submission("t", waits_for_slot=True),
    "empty batch": Submission("t", batch=""),
    "large priority": Submission("t", priority=2**31),
    "priority true": Submission("t", priority=True),
    "negative delay": Submission("t", delay_s=-0.1),
    "delay NaN": Submission("t", delay_s=math.nan),
    "endless delay": Submission("t", delay_s=math.inf),
    "endless dead-line": Submission("t", deadline_s=1e12),
    "no attempts": Submission("t", max_attempts=0),
    "many needed": Submission("t", after=tuple(range(1, AFTER_MOST + 2))),
    "no id": Submission("t", after=("1",)),  # type: ignore[arg-type]
    "NaN": Submission("t", [math.nan]),
    "set": Submission("t", {1, 2}),
    "NUL": Submission("t", "a\0b"),
    "lone surrogate": Submission("t", "\ud800"),
    "large payload": Submission("t", "x" * values.JSON_MOST_BYTES),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_what_is_outside_of_its_limits_is_refused(desk, bad):
    with pytest.raises(InvalidValueError):
        submit_all(desk.connection, [Submission("t"), bad])
    assert reading.counts(desk.connection) == []


def test_too_many_at_once_are_refused(connection):
    with pytest.raises(InvalidValueError, match=str(BATCH_MOST)):
        submit_all(connection, [Submission("t")] * (BATCH_MOST + 1))


@pytest.mark.parametrize(
    "payload", [None, 0, False, "", [], {}, "\\u0000", "ä𝄞", 2**70, {"a": {"b": [None]}}]
)
def test_any_json_comes_back(desk, payload):
    assert desk.task(submit(desk.connection, Submission("t", payload))).payload == payload


def test_a_payload_at_its_limit_is_taken(desk):
    payload = "x" * (values.JSON_MOST_BYTES - 2)
    assert desk.task(submit(desk.connection, Submission("t", payload))).payload == payload
