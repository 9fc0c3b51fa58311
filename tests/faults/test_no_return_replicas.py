"""After every step that changes ZooKeeper, a bookie or a disk an error comes: replicas keep their word.

As ``test_no_return``, in the simulated world: what is written is judged by the log, and all replicas come to
the same state, which can be written to.
"""

from __future__ import annotations

import random

import pytest

from tests.faults.no_return.replicas import ERRORS, SCENARIOS, steps_of, strike

SEED = 20
SAMPLE = 3


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_an_error_after_some_steps(name: str) -> None:
    dice = random.Random(f"{SEED} {name}")
    steps = len(steps_of(name))
    assert steps > 3
    for _ in range(SAMPLE):
        assert strike(name, dice.randint(1, steps), dice.choice(sorted(ERRORS)))


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", sorted(ERRORS))
@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_an_error_after_each_step(name: str, kind: str) -> None:
    nth = 1
    while strike(name, nth, kind) is not None:
        nth += 1
    assert nth > 3
