"""Transactions side by side, crashes, a failing disk: no row may refer to nothing. Bugs put in are found."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from herdpy_server.store.snapshot_transaction import SnapshotTransaction
from herdpy_sql.execute import references
from herdpy_sql.execute.references import not_present
from tests.foreign_keys.family import FamilyWorld
from tests.simulation.sim_history import ViolationError

SEED = int(os.environ.get("HERDPY_SEED", "1"))
SEEDS = int(os.environ.get("HERDPY_CASES", "15"))
STEPS = 250


def simulate(directory: Path, seed: int, steps: int = STEPS) -> None:
    """One seed; says how to run it again."""
    world = None
    try:
        world = FamilyWorld(directory, seed, faults=seed % 3 == 0)
        world.run(steps)
    except BaseException:
        print(f"replay with HERDPY_SEED={seed} HERDPY_CASES=1")
        raise
    finally:
        if world is not None:
            world._forget_process()
        shutil.rmtree(directory, ignore_errors=True)


def try_seeds(directory: Path, first: int, count: int) -> int:
    """Simulate so many seeds, or until one fails; how many it were."""
    for seed in range(first, first + count):
        simulate(directory, seed)
    return count


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """In memory where there is such a place: the store's syncs are not what is tested here."""
    memory = Path("/dev/shm")
    base = memory if os.access(memory, os.W_OK) else tmp_path
    return base / f"herdpy-families-{os.getpid()}"


def test_nobody_is_left_without_a_parent(directory: Path) -> None:
    assert try_seeds(directory, SEED, SEEDS) == SEEDS


def _without_share_locks(patch: pytest.MonkeyPatch) -> None:
    """A row that is referred to is not locked."""

    def check(view: Any, link: Any, values: Any, row: Any = None, nth: Any = None) -> None:
        if link.parent_key(view, values) is None:
            raise not_present(link, values)

    patch.setattr(references, "check_child", check)


def _from_the_snapshot(patch: pytest.MonkeyPatch) -> None:
    """Who refers to a row that goes is looked up in the transaction's snapshot."""
    patch.setattr(SnapshotTransaction, "newest", property(lambda self: self))


def _without_deferred_checks(patch: pytest.MonkeyPatch) -> None:
    """What was put off is forgotten."""
    for module in ("execution", "waits"):
        patch.setattr(f"herdpy_server.sessions.{module}.settle_deferred", lambda view, names=None: None)


def _without_actions(patch: pytest.MonkeyPatch) -> None:
    """Rows go, and those that refer to them stay as they are."""
    patch.setattr(references.ReferenceView, "_act", lambda self, event, deferred, clock: None)


@pytest.mark.parametrize(
    "bug", [_without_share_locks, _from_the_snapshot, _without_deferred_checks, _without_actions]
)
def test_a_bug_is_found(
    bug: Callable[[pytest.MonkeyPatch], None], directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bug(monkeypatch)
    with pytest.raises(ViolationError, match="which is not there"):
        try_seeds(directory, 1, 400)
