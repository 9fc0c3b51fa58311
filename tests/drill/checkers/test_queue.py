"""Queues, unique keys and replicas: each anomaly by its name, and what is allowed."""

from __future__ import annotations

import random

import pytest

from herdpy.drill.checkers.every_drill import check_replicas
from herdpy.drill.history import HistoryError
from herdpy.drill.workloads import queue, unique_keys
from tests.drill.checkers.hand import DONE, NOT_DONE, UNKNOWN, one_by_one, op


def put(job, outcome=DONE, **fields):
    return op("put", [job], None, outcome, **fields)


def take(job, outcome=DONE, **fields):
    return op("take", [], job, outcome, **fields)


def waiting(*jobs):
    return op("waiting", [], list(jobs))


QUEUES = {
    "taken twice": one_by_one(put(1), take(1, process=1), take(1, process=2), waiting()),
    "lost job": one_by_one(put(1), put(2), take(1), waiting()),
    "undone job": one_by_one(put(1, NOT_DONE), take(1), waiting()),
    "unexpected job": one_by_one(take(1), put(1), waiting()),
    "job back": one_by_one(put(1), take(1), waiting(1)),
}


@pytest.mark.parametrize("kind", QUEUES)
def test_a_broken_queue_is_named(kind):
    assert queue.check(QUEUES[kind]).kinds == [kind]


def test_a_job_that_waits_and_was_never_put_is_named():
    assert queue.check(one_by_one(waiting(3))).kinds == ["unexpected job"]
    assert queue.check(one_by_one(put(3, NOT_DONE), waiting(3))).kinds == ["undone job"]


def test_an_unknown_take_may_have_taken_one_job_and_no_more():
    one_gone = [put(1), put(2), take(None, UNKNOWN), take(2)]
    assert queue.check(one_by_one(*one_gone, waiting())).valid
    assert queue.check(one_by_one(put(1), put(2), take(None, UNKNOWN), waiting())).kinds == ["lost job"]
    undone = take(None, UNKNOWN, resolved=NOT_DONE)
    assert queue.check(one_by_one(put(1), undone, waiting())).kinds == ["lost job"]


def test_an_unknown_put_may_be_there_or_not():
    assert queue.check(one_by_one(put(1, UNKNOWN), waiting())).valid
    assert queue.check(one_by_one(put(1, UNKNOWN), take(1), waiting())).valid
    later = put(1, UNKNOWN, resolved=DONE)
    assert queue.check(one_by_one(later, waiting())).kinds == ["lost job"]


def test_without_a_last_look_no_job_is_called_lost_and_that_is_told():
    verdict = queue.check(one_by_one(put(1), waiting(), put(2)))
    assert verdict.valid
    assert "remaining jobs were not read" in verdict.summary


def test_a_job_is_put_once_in_a_history():
    with pytest.raises(HistoryError, match="put twice"):
        queue.check(one_by_one(put(1), put(1)))


@pytest.mark.parametrize("seed", range(10))
def test_random_queues_are_accepted(seed):
    dice = random.Random(seed)
    jobs: list[int] = []
    made = []
    for number in range(300):
        outcome = dice.choice([DONE] * 9 + [UNKNOWN])
        happens = outcome is DONE or dice.random() < 0.5
        if dice.random() < 0.5:
            made.append(put(number, outcome))
            jobs.extend([number] if happens else [])
        else:
            job = jobs.pop(dice.randrange(len(jobs))) if jobs and happens else None
            made.append(take(job if outcome is DONE else None, outcome))
    verdict = queue.check(one_by_one(*made, waiting(*jobs)))
    assert verdict.valid, verdict


def claim(key, claimant, result: bool | None = True, outcome=DONE, **fields):
    return op("claim", [key, claimant], result if outcome is DONE else None, outcome, **fields)


def owners(**found):
    return op("owners", [], found)


RACES = {
    "two winners": one_by_one(claim("k", 1), claim("k", 2), owners(k=1)),
    "no winner": one_by_one(claim("k", 1, False), claim("k", 2, False)),
    "lost claim": one_by_one(claim("k", 1), owners()),
    "wrong owner": one_by_one(
        claim("k", 1), claim("k", 2, False), claim("k", 3, outcome=UNKNOWN), owners(k=3)
    ),
    "undone claim": one_by_one(claim("k", 1, outcome=NOT_DONE), owners(k=1)),
}


@pytest.mark.parametrize("kind", RACES)
def test_a_broken_race_is_named(kind):
    assert kind in unique_keys.check(RACES[kind]).kinds
    if kind != "two winners":
        assert unique_keys.check(RACES[kind]).kinds == [kind]


def test_good_races_are_accepted():
    history = one_by_one(
        claim("k", 1),
        claim("k", 2, False),
        claim("m", 3, outcome=UNKNOWN),
        claim("m", 4, False),
        claim("n", 5, outcome=UNKNOWN),
        owners(k=1, m=3),
    )
    assert unique_keys.check(history).valid


def test_an_owner_who_never_claimed_is_wrong():
    assert unique_keys.check(one_by_one(owners(k=9))).kinds == ["wrong owner"]


def test_replicas_that_differ_are_told():
    same = op("checksum", ["main"], {"server-1": "ab", "server-2": "ab"})
    other = op("checksum", ["main"], {"server-1": "ab", "server-2": "cd", "server-3": "ab"})
    assert check_replicas(one_by_one(same)).valid
    verdict = check_replicas(one_by_one(same, other))
    assert verdict.kinds == ["replicas differ"]
    assert verdict.anomalies[0].text == "server-1, server-3: ab; server-2: cd"
