"""A workspace is freed when nobody has it any more: its layer and its files do not wait for the collector."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from herdpy_server.store import NoLocks, Store, Workspace
from herdpy_server.store.snapshot_transaction import SnapshotTransaction
from herdpy_sql.catalog import Column, Index, KeyPart, Table
from herdpy_sql.objects import CatalogObject, EnumDefinition
from herdpy_sql.types import INTEGER

COLUMNS = (Column("id", INTEGER, not_null=True), Column("n", INTEGER))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store.open(tmp_path / "store")
    yield store
    store.close()


@pytest.fixture(autouse=True)
def no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def use(workspace: Workspace) -> None:
    """Define and write some of everything."""
    workspace.begin_statement()
    workspace.create_table(Table(1, "t", COLUMNS, (KeyPart(0),), "t_pkey", (), ()))
    table = workspace.catalog.tables[1]
    workspace.insert(table, (1, 2))
    workspace.insert_many(table, [(number, 0) for number in range(2, 40)])
    for online in (False, True):
        number = workspace.next_id
        index = Index(number, f"i{number}", 1, (KeyPart(1),))
        steps = workspace.create_index_online if online else workspace.create_index_slowly
        for _ in steps(workspace.catalog.tables[1], index):
            pass
    workspace.put_object(CatalogObject(workspace.next_id, "public", "e", EnumDefinition((("a", 1.0),))))
    assert len(list(workspace.newest.scan(workspace.catalog.tables[1]))) == 39
    workspace.snapshot().close()


@pytest.mark.parametrize("pinned", [False, True])
def test_a_workspace_is_freed_at_once(store: Store, pinned: bool) -> None:
    if pinned:
        workspace: Workspace = SnapshotTransaction(store, NoLocks(), None, serializable=True)
    else:
        workspace = Workspace(store, NoLocks(), None)
    use(workspace)
    workspace.release()
    freed = weakref.ref(workspace)
    del workspace
    assert freed() is None
