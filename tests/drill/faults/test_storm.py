"""What a storm deals: nothing is left to luck that a short one must have had."""

from __future__ import annotations

from random import Random

import pytest

from herdpy.drill.faults import FAULTS
from herdpy.drill.faults.processes import KillFollower, KillLeader
from herdpy.drill.faults.storm import KINDS, LEADING, Bag


@pytest.mark.parametrize("seed", range(20))
def test_every_fault_comes_before_one_comes_again(seed: int) -> None:
    bag = Bag(KINDS, Random(seed))
    assert bag.waiting == set(KINDS)
    for _round in range(3):
        assert {bag.deal() for _kind in KINDS} == set(KINDS)
    assert not bag.waiting


@pytest.mark.parametrize("seed", range(20))
def test_what_threatens_a_leader_comes_early(seed: int) -> None:
    bag = Bag(KINDS, Random(seed))
    assert set(LEADING) <= {bag.deal() for _number in range(2 * len(LEADING))}


def test_seeds_deal_in_orders_of_their_own() -> None:
    orders = set()
    for seed in range(20):
        bag = Bag(KINDS, Random(seed))
        orders.add(tuple(bag.deal() for _kind in KINDS))
    assert len(orders) == 20


def test_what_cannot_be_made_is_not_dealt() -> None:
    bag = Bag([KillLeader, KillFollower], Random(1))
    assert {bag.deal() for _number in range(5)} == {KillLeader, KillFollower}


def test_a_storm_has_faults_that_there_are() -> None:
    assert set(KINDS) <= set(FAULTS.values())
