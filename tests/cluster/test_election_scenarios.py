"""Coincidences in virtual time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from tests.cluster.election_scenarios import SCENARIOS, Stage


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[scenario.__name__ for scenario in SCENARIOS])
def test_scenario(scenario: Callable[[Stage], Awaitable[None]]) -> None:
    stage = Stage()
    assert stage.run(scenario) == [], "\n".join(stage.world.trace)
