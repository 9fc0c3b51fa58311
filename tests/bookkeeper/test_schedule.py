"""Write sets and coverage, against their definitions."""

from __future__ import annotations

import itertools

import pytest

from herdpy.bookkeeper.placement import Coverage, write_set

QUORUMS = [(e, w, a) for e in range(1, 6) for w in range(1, e + 1) for a in range(1, w + 1)]


def test_entries_go_round():
    assert [write_set(entry, 3, 2) for entry in range(4)] == [(0, 1), (1, 2), (2, 0), (0, 1)]
    assert write_set(2**62 + 1, 4, 4) == ((2**62 + 1) % 4, *(((2**62 + 1) + i) % 4 for i in (1, 2, 3)))


@pytest.mark.parametrize(("ensemble", "write", "ack"), QUORUMS)
def test_each_bookie_gets_its_share(ensemble, write, ack):
    sets = [write_set(entry, ensemble, write) for entry in range(ensemble)]
    assert all(len(set(one)) == write for one in sets)
    assert all(sum(index in one for one in sets) == write for index in range(ensemble))


@pytest.mark.parametrize(("ensemble", "write", "ack"), QUORUMS)
def test_coverage_means_that_no_entry_can_hide(ensemble, write, ack):
    for answering in itertools.product([True, False], repeat=ensemble):
        coverage = Coverage(ensemble, write, ack)
        for index, ok in enumerate(answering):
            if ok:
                coverage.answered(index, True)
        silent = {index for index, ok in enumerate(answering) if not ok}
        # An entry hides when A bookies that have not answered could have confirmed it.
        hides = any(
            len(silent.intersection(write_set(entry, ensemble, write))) >= ack for entry in range(ensemble)
        )
        assert coverage.is_covered() is not hides


def test_one_answer_can_suffice_only_where_all_must_ack():
    coverage = Coverage(3, 3, 3)
    coverage.answered(1, True)
    assert coverage.is_covered()
    striped = Coverage(4, 2, 2)
    striped.answered(0, True)
    assert not striped.is_covered()
    striped.answered(2, True)
    assert striped.is_covered()


def test_the_last_word_counts():
    coverage = Coverage(3, 3, 3)
    coverage.answered(0, True)
    coverage.answered(0, False)
    assert not coverage.is_covered()
