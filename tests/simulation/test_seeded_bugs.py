"""The simulation is itself tested: with a bug put in, some seed has to fail."""

from __future__ import annotations

from pathlib import Path

import lmdb
import pytest

from tests.simulation.seeded_bugs import SIMULATED, Bug
from tests.simulation.sim_world import simulate

TRIES = 150
FIRST = {"forgets_to_cut_a_failed_write": 91, "forgets_who_read_what_was_lost": 73}
"""Where the search begins for bugs that seldom show: a few seeds before one that is known to show it."""


@pytest.mark.parametrize("bug", SIMULATED, ids=lambda bug: bug.__name__)
def test_the_simulation_catches(
    bug: Bug,
    simulation_directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_property: pytest.RecordProperty,
) -> None:
    bug(monkeypatch)
    first = FIRST.get(bug.__name__, 1)
    for seed in range(first, first + TRIES):
        try:
            simulate(simulation_directory, seed, trouble=0.04 if seed % 2 else 0.0)
        except Exception as error:
            if isinstance(error, AttributeError | TypeError | NameError | lmdb.Error):
                raise  # the bug itself is broken
            record_property("caught", f"seed {seed}: {error!r}")
            print(f"caught by seed {seed}: {type(error).__name__}: {error}")
            return
    pytest.fail(f"{TRIES} seeds do not notice a database that {bug.__name__}")
