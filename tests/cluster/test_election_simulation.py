"""Elections in virtual time: processes pause and die, sessions expire, clocks run unevenly."""

from __future__ import annotations

import os

import pytest

from tests.cluster.election_world import simulate

_FIRST = int(os.environ.get("HERDPY_SEED", "0"))


@pytest.mark.parametrize("seed", range(_FIRST, _FIRST + 12))
def test_one_leader_at_a_time_and_no_stale_answer(seed: int) -> None:
    world = simulate(seed)
    assert world.violations == [], "\n".join(world.trace)
    assert len(world.terms) > 1
    assert world.answers > 100


@pytest.mark.soak
def test_many_seeds() -> None:
    for seed in range(1000, 2000):
        world = simulate(seed)
        assert world.violations == [], f"seed {seed}:\n" + "\n".join(world.trace)
