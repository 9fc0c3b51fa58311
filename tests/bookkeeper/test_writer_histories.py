"""Hundreds of random histories of a writer, and proof that they catch the bugs they are for."""

from __future__ import annotations

import pytest

from tests.bookkeeper.writer_bugs import BUGS, seed_bug
from tests.bookkeeper.writer_histories import FencedHistory, History, play


@pytest.mark.parametrize("hundred", [0, 1, *(pytest.param(n, marks=pytest.mark.soak) for n in range(2, 10))])
def test_what_must_hold_holds(hundred):
    histories = [play(History, seed) for seed in range(hundred * 100, hundred * 100 + 100)]
    # Not only easy ones: ensembles changed, writers failed, most entries got through.
    assert sum(len(one.bench.store.now.metadata.segments) > 1 for one in histories) > 20
    assert sum(one.bench.writer.last_add_confirmed for one in histories) > 1000


@pytest.mark.parametrize("hundred", range(2))
def test_nothing_is_confirmed_after_a_fence(hundred):
    histories = [play(FencedHistory, seed) for seed in range(hundred * 100, hundred * 100 + 100)]
    assert sum(one.heard_at is not None for one in histories) > 50


def caught(kind, seeds=200):
    """The first broken promise, or None when all histories pass."""
    for seed in range(seeds):
        try:
            play(kind, seed)
        except AssertionError as failed:
            return str(failed).splitlines()[0]
    return None


@pytest.mark.parametrize("bug", BUGS)
def test_a_seeded_bug_is_caught(bug, monkeypatch):
    seed_bug(monkeypatch, bug)
    assert caught(FencedHistory if bug == "ignores_the_fence" else History) is not None
