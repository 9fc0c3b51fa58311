"""Power goes at every operation of a checkpoint that rolls and trims the log: it can always be opened."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.simulation.sim_disk import Crash
from tests.simulation.sim_world import World


def checkpoint_until_crash(directory: Path, seed: int, operations: int) -> bool:
    """Whether the power went within so many operations of the log's disk."""
    world = World(directory, seed, faults=False)
    try:
        for _ in range(60):
            world.step()
        while world.log._group._queue:
            world.flush_log()
        world.disk.crash_in = operations
        crashed = False
        try:
            world.checkpoint(trim=True)
        except Crash:
            crashed = True
            world.crash()  # opens it again, and checks everything
        world.disk.crash_in = None
        world.finish()
    finally:
        world._forget_process()
        shutil.rmtree(directory)
    return crashed


@pytest.mark.parametrize("seed", [3, 4])
def test_power_goes_at_every_operation_of_a_checkpoint(simulation_directory: Path, seed: int) -> None:
    operations = 0
    while checkpoint_until_crash(simulation_directory, seed, operations):
        operations += 1
    assert operations >= 8, "a checkpoint that trims changes more than that"
