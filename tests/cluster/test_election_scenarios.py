"""Coincidences in virtual time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from tests.cluster.election_scenarios import SCENARIOS, Stage


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[scenario.__name__ for scenario in SCENARIOS])
def test_scenario(scenario: Callable[[Stage], Awaitable[None]]) -> None:
    stage = Stage()
    assert stage.run(scenario) == [], "\n".join(stage.world.trace)


LONG_S = 1000.0
"""The lease of leaders that end; waiting for one would take longer than the test allows, in virtual time."""


def test_the_lease_of_an_attested_process_is_not_waited_for() -> None:
    async def attested(stage: Stage) -> None:
        first = await stage.start("a", LONG_S)
        await stage.until(lambda: first.leading)
        second = await stage.start("b", LONG_S)
        stage.kill(first)
        killed_s = stage.world.now()
        stage.world.attest(first)
        await stage.until(lambda: second.leading)
        assert stage.world.now() < killed_s + 0.5  # nor is the session's end

    assert Stage().run(attested) == []


def test_an_attested_leader_is_not_expected_back() -> None:
    async def attested(stage: Stage) -> None:
        first = await stage.start("a")
        await stage.until(lambda: first.leading)
        second = await stage.start("b")
        second.hears = True  # of what the leader sent before it ended
        stage.kill(first)
        killed_s = stage.world.now()
        stage.world.attest(first)
        await stage.until(lambda: second.leading)
        assert stage.world.now() < killed_s + 0.4  # the grace for a leader that returns is longer

    assert Stage().run(attested) == []


def test_a_process_does_not_wait_for_its_own_lease() -> None:
    async def removed(stage: Stage) -> None:
        first = await stage.start("a", LONG_S)
        await stage.until(lambda: first.leading)
        epoch = first.leading.epoch if first.leading else 0
        stage.cluster.zookeeper.tree.delete(first.election._paths.leader)  # as an operator does
        removed_s = stage.world.now()
        await stage.until(lambda: first.leading is not None and first.leading.epoch > epoch)
        assert stage.world.now() < removed_s + 5.0

    assert Stage().run(removed) == []
