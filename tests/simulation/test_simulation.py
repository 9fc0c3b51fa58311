"""Every invariant of one process, under seeds: some here, thousands in a soak."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.simulation.sim_world import simulate

SEED = int(os.environ.get("HERDPY_SEED", "0"))


def seeds(first: int, count: int) -> range:
    return range(SEED, SEED + 1) if SEED else range(first, first + count)


@pytest.mark.parametrize("first", range(1, 19, 6))
def test_seeds(simulation_directory: Path, first: int) -> None:
    for seed in seeds(first, 6):
        simulate(simulation_directory, seed)


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("first", range(10_000, 14_000, 200))
def test_thousands_of_seeds(simulation_directory: Path, first: int) -> None:
    for seed in seeds(first, 200):
        simulate(simulation_directory, seed, steps=400, clients=5)
