"""Sequences: each anomaly by its name, and what is allowed."""

from __future__ import annotations

import pytest

from herdpy.drill.history import HistoryError
from herdpy.drill.workloads import sequences
from tests.drill.checkers.hand import DONE, NOT_DONE, UNKNOWN, one_by_one, op


def given(number, tag, kind="sequence", outcome=DONE, **fields):
    return op("number", [kind, tag], number, outcome, **fields)


def row(number, tag, outcome=DONE, **fields):
    return given(number, tag, "identity", outcome, **fields)


def rows(*pairs):
    return op("rows", [], [list(pair) for pair in pairs])


BROKEN = {
    "number given twice": one_by_one(given(7, 1), given(8, 2), given(8, 3)),
    "number went back": one_by_one(given(7, 1), given(5, 2)),
    "lost row": one_by_one(row(1, 1), row(2, 2), rows((2, 2))),
    "undone row": one_by_one(row(None, 1, NOT_DONE), rows((1, 1))),
    "doubled row": one_by_one(row(None, 1, UNKNOWN), rows((1, 1), (2, 1))),
    "renumbered row": one_by_one(row(1, 1), rows((2, 1))),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_sequence_is_named(kind):
    assert sequences.check(BROKEN[kind]).kinds == [kind]


def test_gaps_and_two_sequences_are_right():
    history = one_by_one(given(1, 1), row(1, 2), given(9, 3), row(4, 4), rows((1, 2), (4, 4)))
    assert sequences.check(history).valid


def test_what_is_asked_for_at_the_same_time_comes_in_any_order():
    both = [given(2, 1, at=(0.0, 2.0)), given(1, 2, at=(1.0, 3.0))]
    assert sequences.check(one_by_one(*both)).valid


def test_a_lost_answer_gives_no_number_and_its_row_may_be_there_or_not():
    lost = [row(None, 1, UNKNOWN), row(3, 2)]
    assert sequences.check(one_by_one(*lost, rows((3, 2)))).valid
    assert sequences.check(one_by_one(*lost, rows((2, 1), (3, 2)))).valid
    later = row(None, 1, UNKNOWN, resolved=DONE)
    assert sequences.check(one_by_one(later, rows())).kinds == ["lost row"]


def test_what_is_no_number_is_refused():
    with pytest.raises(HistoryError):
        sequences.check(one_by_one(op("number", ["sequence"], 1)))
    with pytest.raises(HistoryError):
        sequences.check(one_by_one(given("one", 1)))
