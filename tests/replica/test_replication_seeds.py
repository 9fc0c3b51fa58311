"""What replicas promise, under seeds: some here, hundreds in a soak.

HERDPY_SEED=17 runs that seed alone; `python -m tests.replica.simulation 17` prints its trace.
"""

from __future__ import annotations

import os

import pytest

from tests.replica.simulation.run import simulate

SEED = int(os.environ.get("HERDPY_SEED", "0"))


def seeds(first: int, count: int) -> range:
    return range(SEED, SEED + 1) if SEED else range(first, first + count)


@pytest.mark.parametrize("first", range(1, 7, 3))
def test_seeds(first: int) -> None:
    for seed in seeds(first, 3):
        assert simulate(seed).history.writes


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("first", range(10_000, 10_600, 100))
def test_hundreds_of_seeds(first: int) -> None:
    for seed in seeds(first, 100):
        assert simulate(seed).history.writes
