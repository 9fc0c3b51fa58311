"""Whose turn it is: groups with work get tasks in the ratio of their weights, whatever the others do."""

from __future__ import annotations

from collections import Counter

from herdpy_broker.shares import Shares
from hypothesis import given
from hypothesis import strategies as st


def serve(shares: Shares, tasks: int, places: int) -> Counter[str]:
    """Serve so many tasks of groups that always have more; how many of each."""
    served: Counter[str] = Counter()
    while tasks > 0:
        turn = shares.turn(min(places, tasks))
        assert turn is not None
        group, count = turn
        shares.charge(group, count)
        served[group] += count
        tasks -= count
    return served


@given(
    weights=st.lists(st.integers(1, 20), min_size=1, max_size=8),
    rounds=st.integers(1, 8),
    places=st.integers(1, 50),
)
def test_shares_are_the_ratio_of_weights(weights, rounds, places):
    shares = Shares()
    names = {f"g{number}": weight for number, weight in enumerate(weights)}
    shares.set_groups(names)
    for name in names:
        shares.wake(name)
    served = serve(shares, rounds * sum(weights), places)
    for name, weight in names.items():
        assert abs(served[name] - rounds * weight) <= 1, served


def test_a_group_that_sleeps_leaves_its_places_to_others():
    shares = Shares()
    shares.set_groups({"a": 1, "b": 3})
    shares.wake("a")
    shares.wake("b")
    serve(shares, 8, 4)
    shares.sleep("b")
    assert serve(shares, 10, 4) == {"a": 10}


def test_turns_that_a_group_slept_through_are_not_made_up_for():
    shares = Shares()
    shares.wake("a")
    serve(shares, 1_000, 10)
    shares.wake("b")
    assert serve(shares, 20, 4) == {"a": 10, "b": 10}


def test_a_group_does_not_get_more_by_sleeping_and_waking():
    shares = Shares()
    for name in ("a", "b"):
        shares.wake(name)
    served: Counter[str] = Counter()
    for _ in range(100):
        served += serve(shares, 1, 1)
        shares.sleep("a")
        shares.wake("a")
    assert served == {"a": 50, "b": 50}


def test_a_turn_has_as_many_places_as_the_group_would_get_one_by_one():
    shares = Shares()
    shares.set_groups({"a": 1, "b": 3})
    shares.wake("a")
    shares.wake("b")
    group, places = shares.turn(8) or ("", 0)
    assert (group, places) == ("a", 2)
    shares.charge(group, places)
    assert shares.turn(6) == ("b", 6)


def test_nobody_has_a_turn_when_all_sleep_or_no_place_is_free():
    shares = Shares()
    assert shares.turn(5) is None
    shares.wake("a")
    assert shares.turn(0) is None


def test_groups_that_are_paused_or_not_asked_for_get_no_turns():
    shares = Shares(only=["a", "b"])
    shares.set_groups({}, paused=["b"])
    for name in ("a", "b", "c"):
        shares.wake(name)
    assert serve(shares, 5, 2) == {"a": 5}
    shares.set_groups({}, paused=["a"])
    assert shares.turn(1) is None


def test_groups_that_came_and_went_are_forgotten():
    shares = Shares()
    for number in range(1_000):
        shares.wake(f"g{number}")
        serve(shares, 1, 1)
        shares.sleep(f"g{number}")
    shares.wake("last")
    serve(shares, 2, 1)
    shares.set_groups({})
    assert len(shares._passes) < 3
