"""Choosing bookies: who may be taken, in which order of preference, and what is refused."""

from __future__ import annotations

import asyncio
import random

import pytest

from herdpy.bookkeeper.errors import NotEnoughBookiesError, Outcome
from herdpy.bookkeeper.placement import Placement
from herdpy.bookkeeper.settings import ClientSettings
from tests.bookkeeper.writer_fakes import FakeRegistry


class Clocked(asyncio.SelectorEventLoop):
    """A loop whose clock the test moves."""

    now_s = 1000.0

    def time(self):
        return self.now_s


def with_placement(test, bookies=6, seed=3, quarantine_s=60.0):
    async def main():
        registry = FakeRegistry([f"b{number}" for number in range(bookies)])
        placement = Placement(registry, random.Random(seed), ClientSettings(quarantine_s=quarantine_s))
        test(placement, registry)

    with asyncio.Runner(loop_factory=Clocked) as runner:
        runner.run(main())


def test_an_ensemble_has_different_writable_bookies_and_all_get_their_turn():
    def test(placement, registry):
        registry.readonly["b9"] = None
        registry.available["b9"] = None
        taken = set()
        for _ in range(200):
            ensemble = placement.new_ensemble(3, exclude=["b0"])
            assert len(set(ensemble)) == 3
            taken.update(ensemble)
        assert taken == {"b1", "b2", "b3", "b4", "b5"}

    with_placement(test)


def test_one_seed_is_one_choice():
    chosen = []
    for _ in range(2):
        with_placement(lambda placement, _: chosen.append([placement.new_ensemble(3) for _ in range(5)]))
    assert chosen[0] == chosen[1]


def test_too_few_is_an_error_and_nothing_was_done():
    def test(placement, registry):
        with pytest.raises(NotEnoughBookiesError) as refused:
            placement.new_ensemble(7)
        assert refused.value.outcome is Outcome.NOT_DONE
        assert "7" in str(refused.value)
        assert "6" in str(refused.value)
        registry.available.clear()
        with pytest.raises(NotEnoughBookiesError):
            placement.new_ensemble(1)

    with_placement(test)


def test_replacements_are_new_to_the_ensemble():
    def test(placement, _registry):
        for _ in range(50):
            replaced = placement.replace(["b0", "b1", "b2"], [2, 0], exclude=["b3"])
            assert set(replaced) == {0, 2}
            assert set(replaced.values()) == {"b4", "b5"}
        with pytest.raises(NotEnoughBookiesError):
            placement.replace(["b0", "b1", "b2"], [0, 1, 2], exclude=["b3"])

    with_placement(test)


def test_quarantine_is_for_when_there_is_another():
    def test(placement, _registry):
        placement.quarantine("b3")
        placement.quarantine("b4")
        assert {placement.replace(["b0", "b1", "b2"], [0])[0] for _ in range(30)} == {"b5"}
        # Two are needed and one is good: it is taken, with one of the others.
        for _ in range(30):
            replaced = set(placement.replace(["b0", "b1", "b2"], [0, 1]).values())
            assert "b5" in replaced
            assert replaced <= {"b3", "b4", "b5"}
        assert len(set(placement.new_ensemble(6))) == 6

    with_placement(test)


def test_quarantine_ends_and_a_new_failure_prolongs_it():
    def test(placement, _registry):
        loop = asyncio.get_running_loop()
        placement.quarantine("b3")
        loop.now_s += 40
        placement.quarantine("b4")
        placement.quarantine("b5")
        loop.now_s += 19.9
        placement.quarantine("b5")
        assert placement.quarantined() == {"b3", "b4", "b5"}
        loop.now_s += 0.2
        assert placement.quarantined() == {"b4", "b5"}
        loop.now_s += 40
        assert placement.quarantined() == {"b5"}
        loop.now_s += 60
        assert placement.quarantined() == frozenset()

    with_placement(test)
