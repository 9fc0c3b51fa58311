"""After every step that changes a disk an error comes: answers are true, and the directory opens again.

The steps are not named here: ``no_return/doors.py`` counts the calls themselves.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from tests.faults.no_return.doors import ERRORS
from tests.faults.no_return.embedded import SCENARIOS
from tests.faults.no_return.run import steps_of, strike

SEED = 20
SAMPLE = 3
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # a connection that nobody got


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_an_error_after_some_steps(name: str, directory: Path) -> None:
    dice = random.Random(f"{SEED} {name}")
    steps = len(steps_of(name, directory / "count"))
    assert steps > 3
    for at in range(SAMPLE):
        assert strike(name, dice.randint(1, steps), dice.choice(sorted(ERRORS)), directory / str(at))


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", sorted(ERRORS))
@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_an_error_after_each_step(name: str, kind: str, directory: Path) -> None:
    nth = 0
    struck: str | None = ""
    while struck is not None:
        nth += 1
        struck = strike(name, nth, kind, directory / str(nth))
        shutil.rmtree(directory / str(nth))
    assert nth > 3
