"""The simulation is itself tested: with a bug put into the client, some seed has to break a promise."""

from __future__ import annotations

import pytest

from tests.bookkeeper.simulation.bugs import BUGS
from tests.bookkeeper.simulation.history import BrokenPromiseError
from tests.bookkeeper.simulation.run import simulate

TRIES = 500
FIRST = {
    "believes_a_bookie_that_lost_its_disk": 285,
    "counts_answers_as_if_not_striped": 129,
    "overwrites_metadata": 31,
}
"""Where the search begins for bugs that seldom show: a few seeds before one that is known to show it."""


@pytest.mark.parametrize("name", sorted(BUGS))
def test_the_simulation_catches(name: str, record_property: pytest.RecordProperty) -> None:
    with BUGS[name]():
        first = FIRST.get(name, 1)
        for seed in range(first, first + TRIES):
            try:
                simulate(seed, disk_is_lost=name == "believes_a_bookie_that_lost_its_disk")
            except BrokenPromiseError as broken:
                told = str(broken).strip().splitlines()[1].strip()
                record_property("caught", f"seed {seed}: {told}")
                print(f"caught by seed {seed}: {told}")
                return
    pytest.fail(f"{TRIES} seeds do not notice a client that {name.replace('_', ' ')}")
