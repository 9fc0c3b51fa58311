"""The worst moments, one scenario each; and each with the bug that it is there to notice."""

from __future__ import annotations

import gc

import pytest

from tests.replica.simulation.bugs import BUGS
from tests.replica.simulation.history import BrokenPromiseError
from tests.replica.simulation.run import simulate
from tests.replica.simulation.scenarios import SCENARIOS

SEEDS = range(1, 4)
NOTICED = {
    "answers_a_follower_without_its_lease": "a_sleeping_leader_has_a_followers_question",
    "answers_with_a_position_from_before_the_question": (
        "the_leader_has_acknowledged_more_than_when_the_follower_came"
    ),
    "counts_freshness_from_the_answer": "a_leaders_answer_is_late",
    "numbers_questions_of_each_connection_anew": (
        "the_old_leaders_answer_comes_after_the_question_to_the_new_one"
    ),
    "takes_what_is_acknowledged_for_all_that_was_read": (
        "bookies_confirm_what_the_leader_has_not_acknowledged"
    ),
    "answers_before_it_is_durable": "the_leader_is_cut_from_the_bookies",
    "answers_nobody_without_zookeeper": "zookeeper_is_away",
    "takes_any_log_for_its_own": "the_session_ends_within_the_lease",
    "applies_what_is_not_confirmed": "one_bookie_alone_has_the_last_entry",
    "believes_a_silent_leader": "a_follower_hears_nothing_of_its_leader",
    "believes_a_bookie_that_lost_its_disk": "a_disk_is_lost_with_the_servers_while_a_bookie_is_away",
    "believes_to_be_fresh_for_ever": "a_follower_is_cut_from_the_log",
    "deletes_staged_ledgers_when_they_are_applied": "a_follower_sleeps_during_a_load",
    "does_not_check_the_lease_after_the_read": "the_leader_sleeps",
    "does_not_wait_out_the_predecessors_lease": "the_session_ends_within_the_lease",
    "drops_the_fence": "the_old_leader_writes_on",
    "gives_up_although_nobody_can_do_better": "nobody_reaches_the_bookies",
    "guesses_what_the_next_leader_knows": "a_sleeping_leader_is_asked_for_an_outcome",
    "guesses_where_it_only_follows": "a_follower_is_asked_for_an_outcome",
    "leads_on_without_a_disk": "the_store_of_the_preferred_leader_cannot_be_written",
    "lets_a_transaction_live_through_another_leader": "a_transaction_is_open_while_another_leads",
    "never_finds_itself_cut_off": "the_preferred_leader_is_cut_from_all_bookies",
    "never_deletes_staged_ledgers": "staged_ledgers_go_with_the_log",
    "reports_what_is_not_confirmed": "one_bookie_alone_has_the_last_entry",
    "says_not_done_of_what_is_unknown": "the_answer_of_the_bookies_is_lost",
    "skips_what_stands_in_staged_ledgers": "a_load_is_followed_and_taken_over",
    "skips_an_entry_of_each_ledger": "ledgers_roll",
    "takes_the_last_add_confirmed_for_the_end": "the_leader_dies_before_it_tells_what_is_confirmed",
    "tells_nobody_that_it_is_cut_off": "the_preferred_leader_reaches_one_bookie_only",
    "tells_nobody_that_the_log_was_lost": "the_leader_is_cut_from_the_bookies",
    "trims_past_a_follower": "the_log_is_trimmed_while_a_follower_sleeps",
}


def test_every_bug_has_its_scenario() -> None:
    assert set(NOTICED) == set(BUGS)
    assert set(NOTICED.values()) <= set(SCENARIOS)


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_scenario(name: str) -> None:
    _play(name, SEEDS[:2])


def _play(name: str, seeds: range = SEEDS) -> None:
    for seed in seeds:
        simulate(seed, SCENARIOS[name])


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("bug", sorted(NOTICED))
def test_the_scenario_notices(bug: str) -> None:
    with BUGS[bug](), pytest.raises(BrokenPromiseError):
        _play(NOTICED[bug])
    gc.collect()  # a run that a bug has brought to a halt leaves its coroutines: not for the next test
