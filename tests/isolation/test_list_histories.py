"""Histories of transactions on lists, judged by the checker of the drills: each level keeps its promise."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from list_histories import World

from herdpy.drill.checkers import list_append
from herdpy_server.embedded import Database, opened
from herdpy_server.store.snapshot_transaction import Reads, Scanned, SnapshotTransaction

TRANSACTIONS = 40
SEEDS = int(os.environ.get("HERDPY_ISOLATION_SEEDS", "6"))
"""In ``make test``; more by the environment."""
PROMISES = {"READ COMMITTED": "read committed", "REPEATABLE READ": "snapshot",
            "SERIALIZABLE": "strict serializable"}  # fmt: skip
_MANY = 60


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with opened(tmp_path_factory.mktemp("histories") / "db") as database:
        yield database


def anomalies(database: Database, seed: int, level: str) -> list[str]:
    history = World(database, seed, level).run(TRANSACTIONS)
    done = sum(1 for one in history if one.result is not None)
    assert done > TRANSACTIONS / 4, f"seed {seed}: {done} of {len(history)} transactions committed"
    verdict = list_append.check(history, level=PROMISES[level], real_time=True)
    return [f"seed {seed} at {level}: {one.kind}" for one in verdict.anomalies]


@pytest.mark.parametrize("level", PROMISES)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_a_level_promises_holds(database: Database, seed: int, level: str) -> None:
    assert not anomalies(database, seed, level)


@pytest.mark.soak
@pytest.mark.parametrize("level", PROMISES)
@pytest.mark.parametrize("seeds", [range(start, start + 100) for start in range(100, 1000, 100)], ids=str)
def test_what_a_level_promises_holds_for_long(database: Database, seeds: range, level: str) -> None:
    for seed in seeds:
        assert not anomalies(database, seed, level)


@pytest.mark.parametrize("level", PROMISES)
def test_what_a_level_promises_holds_among_threads(database: Database, level: str) -> None:
    history = World(database, 10_000, level, time.monotonic).run_threads(TRANSACTIONS)
    verdict = list_append.check(history, level=PROMISES[level], real_time=True)
    assert verdict.valid, [one.text for one in verdict.anomalies]


def test_write_skew_is_there_to_be_found(database: Database) -> None:
    """REPEATABLE READ allows it: were the histories too tame, nothing would show at all."""
    for seed in range(_MANY):
        history = World(database, seed, "REPEATABLE READ").run(TRANSACTIONS)
        if any(one.kind == "G2" for one in list_append.check(history, level="serializable").anomalies):
            return
    pytest.fail("no write skew in any history")


Patch = Callable[[pytest.MonkeyPatch], None]


def judges_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SnapshotTransaction, "check_reads", lambda self: None)


def takes_a_snapshot_for_each_statement(patch: pytest.MonkeyPatch) -> None:
    begin_statement = SnapshotTransaction.begin_statement

    def anew(self: SnapshotTransaction) -> None:
        self.release()
        self._pin = None
        begin_statement(self)

    patch.setattr(SnapshotTransaction, "begin_statement", anew)


def notes_no_keys(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Reads, "key", lambda self, db, key: None)


def notes_no_ranges(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Reads, "scan", lambda self, db, low, high, items, *, reverse: items)
    patch.setattr(Reads, "range", lambda self, db, low, high: Scanned(low, high))


def notes_no_ranges_of_indexes(patch: pytest.MonkeyPatch) -> None:
    scan = Reads.scan

    def of_tables(self: Reads, db: int, low: Any, high: Any, items: Any, *, reverse: bool) -> Any:
        return scan(self, db, low, high, items, reverse=reverse) if low is None else items

    patch.setattr(Reads, "scan", of_tables)


def notes_nothing_of_the_columnar_engine(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SnapshotTransaction, "note_range", lambda self, table, low, high: None)


def lets_the_last_updater_win(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SnapshotTransaction, "_unchanged", lambda self, db, key: None)


@pytest.mark.parametrize(
    ("bug", "level"),
    [
        (judges_nothing, "SERIALIZABLE"),
        (takes_a_snapshot_for_each_statement, "REPEATABLE READ"),
        (takes_a_snapshot_for_each_statement, "SERIALIZABLE"),
        (notes_no_keys, "SERIALIZABLE"),
        (notes_no_ranges, "SERIALIZABLE"),
        (notes_no_ranges_of_indexes, "SERIALIZABLE"),
        (notes_nothing_of_the_columnar_engine, "SERIALIZABLE"),
        (lets_the_last_updater_win, "REPEATABLE READ"),
    ],
    ids=lambda one: getattr(one, "__name__", one),
)
def test_a_bug_is_found(database: Database, monkeypatch: pytest.MonkeyPatch, bug: Patch, level: str) -> None:
    bug(monkeypatch)
    assert any(anomalies(database, seed, level) for seed in range(_MANY)), "no seed shows it"
