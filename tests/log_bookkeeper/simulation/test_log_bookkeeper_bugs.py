"""The simulation is itself tested: with a bug put into the log, some seed has to break a promise."""

from __future__ import annotations

import pytest

from tests.log_bookkeeper.simulation.bugs import BUGS
from tests.log_bookkeeper.simulation.history import BrokenPromiseError
from tests.log_bookkeeper.simulation.run import simulate

TRIES = 400
#: A seed that was seen to notice each: it is tried first. Others are, should it not any more.
NOTICED = {
    "closes_only_what_it_knew_before_the_claim": 7,
    "does_not_claim_the_list": 3,
    "drops_the_fence": 12,
    "follows_to_the_next_ledger_at_the_last_add_confirmed": 10,
    "ignores_the_version_of_the_list": 2,
    "lists_a_ledger_after_its_first_entries": 7,
    "recovers_only_the_first_open_ledger": 7,
    "reports_what_is_not_confirmed": 33,
    "says_not_done_of_what_is_unknown": 6,
    "sends_again_without_closing": 10,
    "takes_a_report_for_the_ledger_at_hand": 11,
    "takes_the_first_reply_for_the_outcome": 5,
}


@pytest.mark.parametrize("name", sorted(BUGS))
def test_the_simulation_catches(name: str) -> None:
    with BUGS[name]():
        for seed in (NOTICED[name], *range(1, TRIES)):
            try:
                simulate(seed)
            except BrokenPromiseError as broken:
                print(f"caught by seed {seed}: {str(broken).strip().splitlines()[1].strip()}")
                return
    pytest.fail(f"{TRIES} seeds do not notice a log that {name.replace('_', ' ')}")
