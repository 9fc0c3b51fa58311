"""Objects of the catalog that are no tables: the same on a leader, a follower and in a copy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from herdpy.log import LSN, LoggedTransaction
from herdpy_server.store import ApplyError, Store, Workspace
from herdpy_server.tablespace.locks import LockTable
from herdpy_server.tablespace.tablespace import Transaction
from herdpy_sql.catalog import Catalog
from herdpy_sql.errors import SqlError
from herdpy_sql.objects import (
    CatalogObject,
    CommentDefinition,
    Definition,
    EnumDefinition,
    SchemaDefinition,
    SequenceDefinition,
    StatisticsDefinition,
    ViewDefinition,
    decode_object,
    encode_object,
)

DEFINITIONS: list[Definition] = [
    SchemaDefinition("ann"),
    SequenceDefinition(start=5, increment=-2, minimum=-9, owner=(3, 1), identity=True, type="integer"),
    ViewDefinition("SELECT 1 AS a", (("a", "integer"),), (4, 7), "LOCAL"),
    EnumDefinition((("sad", 1.0), ("ok", 1.5), ("happy", 2.0))),
    StatisticsDefinition(7),
    CommentDefinition("what it is", id=4, column=2),
]
AT = LSN(1, 0)


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[tuple[Store, Store]]:
    """A leader's store and a follower's."""
    opened = Store.open(tmp_path / "leader"), Store.open(tmp_path / "follower")
    yield opened
    for store in opened:
        store.close()


def define(store: Store, *definitions: Definition) -> list[CatalogObject]:
    """Put objects into a new transaction and commit it; the leader adopts what its workspace made."""
    workspace = Workspace(store, LockTable(), Transaction(instant=True))
    made = []
    for definition in definitions:
        one = CatalogObject(workspace.next_id, "s", f"o{workspace.next_id}", definition)
        workspace.put_object(one)
        made.append(one)
    commit(store, workspace)
    return made


def commit(store: Store, workspace: object) -> list:
    token = store.push_pending(workspace.layer, workspace.own_catalog)
    at = LSN(1, store.applied.entry_id + 1)
    store.apply(at, workspace.records, workspace.layer)
    store.pop_pending(token)
    return workspace.records


def test_definitions_are_the_same_after_their_bytes():
    for number, definition in enumerate(DEFINITIONS):
        one = CatalogObject(number, "s", "n", definition)
        assert decode_object(encode_object(one)) == one
    assert [CatalogObject(1, "", "x", one).kind for one in DEFINITIONS] == [
        "schema",
        "sequence",
        "view",
        "enum",
        "statistics",
        "comment",
    ]


def test_a_follower_a_copy_and_a_store_opened_again_have_what_the_leader_has(
    stores: tuple[Store, Store], tmp_path: Path
):
    leader, follower = stores
    workspace = Workspace(leader, LockTable(), Transaction(instant=True))
    for definition in DEFINITIONS:
        number = workspace.next_id
        workspace.put_object(CatalogObject(number, "s", f"o{number}", definition))
    workspace.drop_object(workspace.catalog.object("enum", "s", "o4"))
    changed = CatalogObject(1, "s", "other", SchemaDefinition("bob"))
    workspace.put_object(changed)
    assert leader.visible_catalog[0].objects == {}
    records = commit(leader, workspace)
    follower.apply_logged(leader.applied, [(leader.applied, LoggedTransaction(1, records))])
    assert follower.catalog == leader.catalog
    assert sorted(leader.catalog.objects) == [1, 2, 3, 5]  # the comment was on the type
    assert leader.catalog.objects[1] == changed
    assert leader.catalog.next_id == 7
    follower.flush()
    follower.copy(tmp_path / "copy")
    again = Store.open(tmp_path / "copy")
    assert again.catalog == leader.catalog
    again.close()


def test_what_a_statement_undoes_was_never_defined(stores: tuple[Store, Store]):
    workspace = Workspace(stores[0], LockTable(), Transaction(instant=True))
    mark = workspace.mark()
    workspace.put_object(CatalogObject(1, "", "s", SchemaDefinition()))
    workspace.undo(mark)
    assert workspace.catalog == Catalog()
    assert workspace.records == []


def test_a_plan_of_an_older_catalog_defines_nothing(stores: tuple[Store, Store]):
    leader = stores[0]
    (one,) = define(leader, SchemaDefinition())
    workspace = Workspace(leader, LockTable(), Transaction(instant=True))
    with pytest.raises(SqlError, match="changed concurrently"):
        workspace.drop_object(CatalogObject(one.id, "s", one.name, SchemaDefinition("other")))
    (dropped,) = define(leader, SchemaDefinition())
    workspace.drop_object(dropped)
    with pytest.raises(SqlError, match="changed concurrently"):
        workspace.put_object(dropped)  # its id is spent


def test_a_comment_goes_with_what_it_is_about(stores: tuple[Store, Store]):
    one, _comment = define(stores[0], SequenceDefinition(), CommentDefinition("text", id=1))
    workspace = Workspace(stores[0], LockTable(), Transaction(instant=True))
    workspace.drop_object(one)
    assert dict(workspace.catalog.objects) == {}


def test_what_cannot_be_dropped_stops_a_follower(stores: tuple[Store, Store]):
    leader, follower = stores
    (one,) = define(leader, SchemaDefinition())
    workspace = Workspace(leader, LockTable(), Transaction(instant=True))
    workspace.drop_object(one)
    with pytest.raises(ApplyError):
        follower.apply_logged(AT, [(AT, LoggedTransaction(1, workspace.records))])
