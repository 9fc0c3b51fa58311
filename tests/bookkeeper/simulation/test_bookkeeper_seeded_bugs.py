"""The simulation is itself tested: with a bug put into the client, some seed has to break a promise."""

from __future__ import annotations

import pytest

from tests.bookkeeper.simulation.bugs import BUGS
from tests.bookkeeper.simulation.history import BrokenPromiseError
from tests.bookkeeper.simulation.run import simulate

TRIES = 500
FIRST = {
    "believes_a_bookie_that_lost_its_disk": 286,
    "closes_without_waiting": 7,
    "completes_out_of_order": 18,
    "counts_acks_of_replaced_bookies": 18,
    "counts_answers_as_if_not_striped": 132,
    "does_not_add_again": 32,
    "does_not_send_again": 19,
    "drops_the_fence": 5,
    "overwrites_metadata": 34,
    "says_not_done_of_what_may_be": 2,
    "tells_a_lac_too_high": 3,
    "trusts_one_missing_entry": 7,
}
"""Where the search begins: a seed that was seen to notice the bug. It goes on, should that one no longer."""


@pytest.mark.parametrize("name", sorted(BUGS))
def test_the_simulation_catches(name: str, record_property: pytest.RecordProperty) -> None:
    with BUGS[name]():
        first = FIRST[name]
        for seed in range(first, first + TRIES):
            try:
                simulate(seed, disk_is_lost=name == "believes_a_bookie_that_lost_its_disk")
            except BrokenPromiseError as broken:
                told = str(broken).strip().splitlines()[1].strip()
                record_property("caught", f"seed {seed}: {told}")
                print(f"caught by seed {seed}: {told}")
                return
    pytest.fail(f"{TRIES} seeds do not notice a client that {name.replace('_', ' ')}")
