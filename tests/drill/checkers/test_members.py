"""Sets and inserts: nothing acknowledged lost, nothing refused there, nothing twice."""

from __future__ import annotations

import random

import pytest

from herdpy.drill.history import DrillHistory, HistoryError
from herdpy.drill.workloads import inserts
from tests.drill.checkers.hand import DONE, NOT_DONE, UNKNOWN, one_by_one, op


def add(element, outcome=DONE, **fields):
    return op("add", [element], None, outcome, **fields)


def reads_of(*elements, **fields):
    return op("members", [], list(elements), **fields)


BAD = {
    "lost element": one_by_one(add(1), add(2), reads_of(2)),
    "stale read": one_by_one(add(1), reads_of(), reads_of(1)),
    "undone element": one_by_one(add(1, NOT_DONE), reads_of(1)),
    "doubled element": one_by_one(add(1), reads_of(1, 1)),
    "unexpected element": one_by_one(reads_of(1), add(1)),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_broken_set_is_named(kind):
    verdict = inserts.check_sets(BAD[kind])
    assert not verdict.valid
    assert verdict.kinds == [kind]


def test_an_element_that_nobody_added_is_unexpected():
    assert inserts.check_sets(one_by_one(add(1), reads_of(1, 7))).kinds == ["unexpected element"]


def test_an_unknown_element_may_be_there_or_not_until_it_was_seen():
    unknown = add(1, UNKNOWN)
    assert inserts.check_sets(one_by_one(unknown, reads_of())).valid
    assert inserts.check_sets(one_by_one(unknown, reads_of(), reads_of(1), reads_of(1))).valid
    verdict = inserts.check_sets(one_by_one(unknown, reads_of(1), reads_of()))
    assert verdict.kinds == ["lost element"]
    assert [each.name for each in verdict.anomalies[0].operations] == ["add", "members", "members"]


def test_what_was_seen_must_stay_even_while_its_add_is_under_way():
    history = one_by_one(add(1, at=(0.0, 9.0)), reads_of(1, at=(1.0, 2.0)), reads_of(at=(3.0, 4.0)))
    assert inserts.check_sets(history).kinds == ["lost element"]


def test_what_a_request_id_told_counts():
    assert inserts.check_sets(one_by_one(add(1, UNKNOWN, resolved=DONE), reads_of())).kinds == [
        "lost element"
    ]
    assert inserts.check_sets(one_by_one(add(1, UNKNOWN, resolved=NOT_DONE), reads_of(1))).kinds == [
        "undone element"
    ]


def test_what_is_under_way_while_it_is_read_may_be_there_or_not():
    assert inserts.check_sets(one_by_one(add(1, at=(0.0, 2.0)), reads_of(at=(1.0, 3.0)))).valid
    assert inserts.check_sets(one_by_one(add(1, at=(0.0, 2.0)), reads_of(1, at=(1.0, 3.0)))).valid


def test_a_read_that_may_be_stale_is_held_to_the_moment_it_names():
    added = add(1, at=(0.0, 1.0))
    assert inserts.check_sets(DrillHistory([added, reads_of(at=(5.0, 6.0), sees_from_s=0.5)])).valid
    assert not inserts.check_sets(DrillHistory([added, reads_of(at=(5.0, 6.0), sees_from_s=1.5)])).valid


def test_an_insert_that_was_repeated_is_there_twice():
    history = one_by_one(op("insert", [1]), op("insert", [2]), op("rows", [], [1, 2, 1]))
    assert inserts.check_inserts(history).kinds == ["doubled insert"]


def test_an_element_is_added_once_in_a_history():
    with pytest.raises(HistoryError, match="added twice"):
        inserts.check_sets(one_by_one(add(1), add(1)))


def random_history(seed, lose=0.0):
    """Clients of a set in virtual time; with `lose` that share of what is there is forgotten midway."""
    dice = random.Random(seed)
    present: dict[int, float] = {}
    made = []
    for number in range(300):
        called = number * 0.1 + dice.random()
        effect, returned = called + dice.random(), called + 1 + dice.random()
        outcome = dice.choice([DONE] * 8 + [NOT_DONE, UNKNOWN])
        if outcome is DONE or (outcome is UNKNOWN and dice.random() < 0.5):
            present[number] = effect + (dice.expovariate(0.1) if outcome is UNKNOWN else 0.0)
        made.append(add(number, outcome, process=number % 5, at=(called, returned)))
    forgotten = {each for each in present if dice.random() < lose and present[each] < 15}
    for number in range(50):
        called = number * 0.7
        effect = called + dice.random()
        seen = [
            each for each, at in present.items() if at <= effect and not (effect > 15 and each in forgotten)
        ]
        made.append(reads_of(*seen, process=9, at=(called, called + 1.0)))
    return DrillHistory(made), forgotten


@pytest.mark.parametrize("seed", range(10))
def test_random_sets_are_accepted(seed):
    history, _ = random_history(seed)
    verdict = inserts.check_sets(history)
    assert verdict.valid, verdict


def test_all_that_was_lost_is_counted_and_twenty_are_shown():
    history, forgotten = random_history(1, lose=0.5)
    verdict = inserts.check_sets(history)
    assert len(forgotten) > 20
    assert verdict.kinds == ["lost element"]
    assert f": {len(forgotten)} lost element" in verdict.summary
    assert len(verdict.anomalies) == 20
