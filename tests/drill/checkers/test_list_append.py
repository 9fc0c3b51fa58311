"""The checker of list transactions: each anomaly is found and named, and good histories are accepted."""

from __future__ import annotations

import pytest

from herdpy.drill.checkers import list_append
from herdpy.drill.history import ClientOperation, DrillHistory, HistoryError, OperationOutcome
from tests.drill.checkers.list_histories import TinyDatabase, at_once, one_by_one, txn

RC, RR, SER, STRICT = "read committed", "repeatable read", "serializable", "strict serializable"

SEEDED = {
    # T1 and T2 overwrite each other, in both lists another way round.
    "G0": (at_once("x+1 y+3", "x+2 y+4", "x=1,2 y=4,3"), "read uncommitted", None),
    "G1a": (
        DrillHistory([txn("x+1", process=1, outcome=OperationOutcome.NOT_DONE), txn("x=1", process=2)]),
        RC,
        "read uncommitted",
    ),
    "G1b": (at_once("x+1 x+2", "x=1", "x=1,2"), RC, "read uncommitted"),
    "G1c": (at_once("x+1 y=2", "y+2 x=1"), RC, "read uncommitted"),
    # The second sees half of the first.
    "G-single": (at_once("x+1 y+2", "x= y=2"), RR, RC),
    "lost update": (at_once("x= x+1", "x= x+2", "x=1,2"), RR, RC),
    "long fork": (at_once("x+1", "y+2", "x=1 y=", "x= y=2"), RR, RC),
    # Write skew: each read what the other overwrote.
    "G2": (at_once("x= y+1", "y= x+2", "x=2 y=1"), SER, RR),
    "stale read": (one_by_one("x+1", "x="), STRICT, SER),
    "G0-realtime": (one_by_one("x+1", "x+2", "x=2,1"), STRICT, SER),
    "G1c-realtime": (one_by_one("x=1", "x+1"), STRICT, SER),
    "G2-realtime": (
        # The last began when the second had ended; between them stands one that ran all the time.
        DrillHistory(
            [
                txn("x+1 y=", process=1, at=(0.5, 5.0)),
                txn("y+2", process=2, at=(0.0, 1.0)),
                txn("x=", process=3, at=(2.0, 3.0)),
                txn("x=1 y=2", process=4, at=(6.0, 7.0)),
            ]
        ),
        STRICT,
        SER,
    ),
    "lost append": (one_by_one("x+1", "x+2", "x+3", "x=1,3"), STRICT, SER),
    "incompatible order": (at_once("x+1", "x+2", "x=1,2", "x=2,1"), "read uncommitted", None),
    "garbage read": (at_once("x+1", "x=1,7"), "read uncommitted", None),
    "duplicate element": (at_once("x+1", "x=1,1"), "read uncommitted", None),
    "internal": (at_once("x+1 x="), RC, None),
}


@pytest.mark.parametrize("kind", SEEDED)
def test_a_seeded_anomaly_is_named(kind):
    history, forbidden_at, allowed_at = SEEDED[kind]
    verdict = list_append.check(history, level=forbidden_at)
    assert verdict.kinds == [kind], verdict
    assert not verdict.valid
    assert verdict.anomalies[0].operations
    if allowed_at is not None:
        assert list_append.check(history, level=allowed_at).valid


@pytest.mark.parametrize("kind", ["G0", "G1a", "G1b", "G1c", "G-single", "lost update", "long fork", "G2"])
def test_every_stronger_level_forbids_it_by_the_same_name(kind):
    history, forbidden_at, _ = SEEDED[kind]
    levels = list(list_append.LEVELS)
    for level in levels[levels.index(forbidden_at) :]:
        assert kind in list_append.check(history, level=level).kinds


def test_reads_repeat_from_repeatable_read_on():
    history = at_once("x+1", "x= x=1")
    assert list_append.check(history, level=RC).valid
    assert "internal" in list_append.check(history, level=RR).kinds


def test_a_stale_read_at_read_committed_needs_the_whole_transaction():
    before = [txn("x+1", process=1, at=(0.0, 1.0))]
    stale = DrillHistory([*before, txn("x=", process=2, at=(2.0, 3.0))])
    assert list_append.check(stale, level=RC, real_time=True).kinds == ["stale read"]
    # It read x, then the writer of x ended, then another wrote y and it read that: each statement reads anew.
    skewed = DrillHistory([txn("x+1", process=1, at=(1.0, 2.0)), txn("y+2", process=2, at=(3.0, 4.0))])
    skewed.operations.append(txn("x= y=2", process=3, at=(0.0, 5.0)))
    assert list_append.check(skewed, level=RC, real_time=True).valid
    assert list_append.check(skewed, level=RR, real_time=True).kinds == ["stale read"]


def test_a_client_sees_what_it_wrote_where_sessions_count():
    history = DrillHistory(
        [txn("x+1", process=1, at=(0.0, 1.0)), txn("x=", process=1, at=(1.0, 2.0), sees_from_s=1.0)]
    )
    for level in (RC, RR, SER):
        assert list_append.check(history, level=level).valid
        assert list_append.check(history, level=level, session=True).kinds == ["G-single-process"]


def test_sessions_promise_nothing_of_a_read_that_may_be_stale():
    history = DrillHistory(
        [txn("x+1", process=1, at=(0.0, 1.0)), txn("x=", process=1, at=(1.0, 2.0), sees_from_s=0.0)]
    )
    assert list_append.check(history, session=True).valid


def test_a_read_that_may_be_stale_is_held_to_the_moment_it_names():
    writer = txn("x+1", process=1, at=(3.0, 4.0))
    fresh_enough = txn("x=", process=2, at=(8.0, 9.0), sees_from_s=3.5)
    too_old = txn("x=", process=2, at=(8.0, 9.0), sees_from_s=4.5)
    assert list_append.check(DrillHistory([writer, fresh_enough])).valid
    assert list_append.check(DrillHistory([writer, too_old])).kinds == ["stale read"]


def test_an_acknowledged_append_that_no_read_shows_comes_after_all_that_are_shown():
    history = one_by_one("x+1", "x=1", "x+2", "x=1")
    verdict = list_append.check(history)
    assert verdict.kinds == ["stale read"]
    assert verdict.anomalies[0].operations == [history.operations[3], history.operations[2]]


def test_unknown_transactions_may_have_been_or_not():
    unknown = txn("x+1 y+2", process=1, outcome=OperationOutcome.UNKNOWN)
    for seen in ("x= y=", "x=1 y=2"):
        assert list_append.check(DrillHistory([unknown, txn(seen, process=2, at=(2.0, 3.0))])).valid
    halved = DrillHistory([unknown, txn("x= y=2", process=2, at=(2.0, 3.0))])
    assert list_append.check(halved).kinds == ["G-single"]


def test_the_smallest_cycle_is_told():
    # A long way round through many transactions, and a short one.
    verdict = list_append.check(
        one_by_one("x+1", "x=1 y+2", "y=2 z+3", "z=3 w+4", "x= w=4", "x=1 y=2 z=3 w=4"), level=SER
    )
    assert verdict.kinds == ["G-single"]
    assert len(verdict.anomalies[0].operations) == 5
    timed = list_append.check(
        one_by_one("x+1", "x=1 y+2", "y=2 z+3", "z=3 w+4", "x= w=4", "x=1 y=2 z=3 w=4"), level=STRICT
    )
    assert timed.kinds == ["G-single"]
    text = verdict.anomalies[0].text
    assert "T1 read x without 1, which T2 appended" in text
    assert "T1 read 4 in w, which T5 appended" in text


def test_moments_do_not_count_when_cycles_are_measured():
    # From the first to the last there is a long way through time alone, and a shorter one by the fourth.
    verdict = list_append.check(one_by_one("x+1", "a+2", "b+3", "x=1", "x="))
    assert verdict.kinds == ["stale read"]
    assert len(verdict.anomalies[0].operations) == 2


def test_each_knot_is_told():
    verdict = list_append.check(
        at_once("a= a+1", "a= a+2", "a=1,2", "b= c+3", "c= b+4", "b=4 c=3"), level=SER
    )
    assert sorted(verdict.kinds) == ["G2", "lost update"]


LEVEL_OF = {"serializable": STRICT, "snapshot": "snapshot", "read committed": RC}


@pytest.mark.parametrize("level", LEVEL_OF)
@pytest.mark.parametrize("seed", range(12))
def test_what_a_database_of_a_level_does_is_accepted_at_that_level(level, seed):
    history = TinyDatabase(level, seed).run(200)
    verdict = list_append.check(history, level=LEVEL_OF[level], real_time=True, session=True)
    assert verdict.valid, verdict


@pytest.mark.parametrize(
    ("level", "held_to", "expected"),
    [
        ("snapshot", SER, {"G2"}),
        ("read committed", RR, {"G-single", "lost update"}),
    ],
)
def test_what_a_weaker_database_does_is_refused_at_a_stronger_level(level, held_to, expected):
    kinds = set()
    for seed in range(6):
        kinds.update(list_append.check(TinyDatabase(level, seed).run(200), level=held_to).kinds)
    assert expected <= kinds


def test_a_long_history_takes_little_time_for_each_transaction():
    history = TinyDatabase("serializable", 1, clients=12, keys=40).run(5000)
    verdict = list_append.check(history)
    assert verdict.valid
    assert verdict.summary == "5001 transactions on 40 lists at strict serializable"


@pytest.mark.parametrize(
    "wrong",
    [
        txn("x+1"),
        ClientOperation(0, "txn", [["read", "x", None]], None, OperationOutcome.DONE, 0.0, 1.0),
        ClientOperation(0, "txn", [["read", "x", None]], [["read", "x", 5]], OperationOutcome.DONE, 0.0, 1.0),
        ClientOperation(0, "txn", [["drop", "x", 1]], [["drop", "x", 1]], OperationOutcome.DONE, 0.0, 1.0),
    ],
)
def test_a_history_that_is_recorded_wrongly_is_refused(wrong):
    with pytest.raises(HistoryError):
        list_append.check(DrillHistory([txn("x+1"), wrong]))


def test_an_unknown_level_is_refused():
    with pytest.raises(ValueError, match="there are read uncommitted"):
        list_append.check(DrillHistory(), level="eventual")
