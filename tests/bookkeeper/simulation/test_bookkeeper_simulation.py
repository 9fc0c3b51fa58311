"""Everything the client promises, under seeds: some here, thousands in a soak.

HERDPY_SEED=17 runs that seed alone; `python -m tests.bookkeeper.simulation 17` prints what happened in it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bookkeeper.simulation.run import simulate

SEED = int(os.environ.get("HERDPY_SEED", "0"))
ROOT = Path(__file__).resolve().parents[3]


def seeds(first: int, count: int) -> range:
    return range(SEED, SEED + 1) if SEED else range(first, first + count)


@pytest.mark.parametrize("first", range(1, 41, 20))
def test_seeds(first: int) -> None:
    for seed in seeds(first, 20):
        assert simulate(seed).ledgers


@pytest.mark.parametrize("first", [1, 281])
def test_seeds_in_which_a_bookie_comes_back_without_what_it_had(first: int) -> None:
    for seed in seeds(first, 20):
        assert simulate(seed, disk_is_lost=True).ledgers


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("first", range(10_000, 16_000, 250))
def test_thousands_of_seeds(first: int) -> None:
    for seed in seeds(first, 250):
        assert simulate(seed, most_appends=120).ledgers


def test_a_seed_is_one_run() -> None:
    """The same in every process: nothing hangs on the order of a set or the address of an object."""

    def trace(hash_seed: str) -> str:
        command = [sys.executable, "-m", "tests.bookkeeper.simulation", "11"]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert trace("1") == trace("2")
