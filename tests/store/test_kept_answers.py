"""Answers of kept columns: the same table for as long as nothing has changed, and never an older one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from herdpy.log.lsn import LSN
from herdpy_server.store import NoLocks, Store, StoreSnapshot, Workspace, columns
from herdpy_sql.catalog import Column, KeyPart, Table
from herdpy_sql.types import INTEGER

TABLE = Table(1, "t", (Column("id", INTEGER, not_null=True), Column("a", INTEGER)), (KeyPart(0),), "t_pkey")


class Filled:
    """A store with one table; each change is an entry of its own."""

    def __init__(self, path: Path) -> None:
        self.store = Store.open(path)
        self._entry = 0
        space = Workspace(self.store, NoLocks(), None)
        space.create_table(TABLE)
        self._apply(space, self.store.push_pending(space.layer, space.own_catalog))
        self.table = self.store.catalog.tables[1]

    def _apply(self, space: Workspace, token: int) -> None:
        self.store.apply(LSN(1, self._entry), space.records, space.layer)
        self.store.pop_pending(token)
        self._entry += 1

    def add(self, *ids: int) -> None:
        """Rows that everybody sees."""
        space = Workspace(self.store, NoLocks(), None)
        for one in ids:
            space.insert(self.table, (one, one))
        self._apply(space, self.store.push_pending(space.layer, None))

    def adding(self, *ids: int) -> Workspace:
        """A transaction that has rows of its own."""
        space = Workspace(self.store, NoLocks(), None)
        for one in ids:
            space.insert(self.table, (one, one))
        return space

    def ids(self, snapshot: StoreSnapshot) -> list[int]:
        """The keys that its columns have."""
        return sorted(snapshot.arrow(self.table, [0, 1]).column("id").to_pylist())


@pytest.fixture
def filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Filled]:
    monkeypatch.setattr(columns, "_FEW", 50)
    made = Filled(tmp_path / "store")
    made.add(1, 2, 3)
    made.store.flush()
    yield made
    made.store.close()


def test_who_asks_again_gets_the_same_table(filled: Filled) -> None:
    first = filled.store.snapshot(None).arrow(filled.table, [0, 1])
    assert filled.store.snapshot(None).arrow(filled.table, [0, 1]) is first
    assert filled.store.snapshot(None).arrow(filled.table, [1]) is not first
    filled.add(4)
    second = filled.store.snapshot(None).arrow(filled.table, [0, 1])
    assert second is not first
    assert filled.store.snapshot(None).arrow(filled.table, [0, 1]) is second


def test_a_change_is_seen_before_and_after_its_flush(filled: Filled) -> None:
    assert filled.ids(filled.store.snapshot(None)) == [1, 2, 3]
    filled.add(4)
    assert filled.ids(filled.store.snapshot(None)) == [1, 2, 3, 4]
    filled.store.flush()
    assert filled.ids(filled.store.snapshot(None)) == [1, 2, 3, 4]


def test_a_change_is_seen_that_came_and_was_flushed_since(filled: Filled) -> None:
    assert filled.ids(filled.store.snapshot(None)) == [1, 2, 3]
    filled.add(4)
    filled.store.flush()
    assert filled.ids(filled.store.snapshot(None)) == [1, 2, 3, 4]


def test_an_old_snapshot_neither_gets_nor_leaves_what_others_see(filled: Filled) -> None:
    filled.ids(filled.store.snapshot(None))
    first, second = filled.store.snapshot(None), filled.store.snapshot(None)
    filled.add(4)
    filled.store.flush()
    assert filled.ids(first) == [1, 2, 3]
    assert filled.ids(filled.store.snapshot(None)) == [1, 2, 3, 4]
    assert filled.ids(second) == [1, 2, 3]


def test_rows_of_an_open_transaction_are_its_own(filled: Filled) -> None:
    assert filled.ids(filled.store.snapshot(None)) == [1, 2, 3]
    own = filled.adding(4)
    assert filled.ids(own.snapshot()) == [1, 2, 3, 4]
    assert filled.ids(filled.store.snapshot(None)) == [1, 2, 3]
    own.insert(filled.table, (5, 5))
    assert filled.ids(own.snapshot()) == [1, 2, 3, 4, 5]


def test_only_a_few_answers_are_kept(filled: Filled) -> None:
    first = filled.store.snapshot(None).arrow(filled.table, [0, 1])
    for low in range(columns._ANSWERS):
        key = filled.table.key_codec.encode((low,))
        filled.store.snapshot(None).arrow(filled.table, [0, 1], key, None)
    assert filled.store.snapshot(None).arrow(filled.table, [0, 1]) is not first
