"""An index that is made while others write has, at its end, exactly what the rows are."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from herdpy.log import LSN
from herdpy_server.store import Store, Workspace
from herdpy_server.store import index_build as building
from herdpy_server.tablespace.locks import LockTable
from herdpy_server.tablespace.tablespace import Transaction
from herdpy_sql.catalog import Column, Index, KeyPart, Table
from herdpy_sql.errors import SqlError
from herdpy_sql.storage import MustWait
from herdpy_sql.types import BOOLEAN, INTEGER, TEXT

COLUMNS = (Column("k", INTEGER, not_null=True), Column("v", INTEGER), Column("b", BOOLEAN), Column("s", TEXT))
TABLE = Table(1, "t", COLUMNS, (KeyPart(0),), "t_pkey")


class Site:
    """A leader's store and a follower's, and the transactions upon them."""

    def __init__(self, path: Path) -> None:
        self.leader, self.follower = Store.open(path / "leader"), Store.open(path / "follower")
        self.locks = LockTable()
        self.commits = 0
        self.pending: list = []

    def begin(self, *, instant: bool = False):
        transaction = Transaction(instant=instant)
        space = Workspace(self.leader, self.locks, transaction)
        transaction.workspace = space
        return transaction

    def push(self, transaction) -> None:
        """Take its place in the log; it is durable later, by ``settle``."""
        space = transaction.workspace
        token = self.leader.push_pending(space.layer, space.own_catalog)
        self.pending.append((token, space.records, space.layer))
        self.locks.release_all(transaction)

    def settle(self) -> None:
        for token, records, layer in self.pending:
            self.commits += 1
            at = LSN(1, self.commits)
            self.leader.apply(at, records, layer)
            self.leader.pop_pending(token)
            self.follower.apply(at, records)
        self.pending.clear()

    def close(self) -> None:
        self.leader.close()
        self.follower.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    one = Site(tmp_path)
    yield one
    one.close()


def table_of(space) -> Table:
    return space.catalog.tables[1]


def fill(site: Site, rows: list[tuple]) -> None:
    transaction = site.begin(instant=True)
    transaction.workspace.create_table(TABLE)
    site.push(transaction)
    site.settle()
    transaction = site.begin(instant=True)
    transaction.workspace.insert_many(table_of(transaction.workspace), rows)
    site.push(transaction)
    site.settle()


def write(site: Site, dice: random.Random, keys: int) -> None:
    """A transaction of a few changes; nothing when another one holds a row."""
    transaction = site.begin()
    space = transaction.workspace
    table = table_of(space)
    try:
        if dice.random() < 0.02:
            space.truncate(table)
        for _ in range(dice.randint(1, 6)):
            key = dice.randrange(keys)
            where = table.key_codec.encode([key])
            image = space.get(table, where)
            new = (key, dice.randrange(5), dice.choice([True, False, None]), dice.choice("abc"))
            if image is None:
                space.insert(table, new)
            elif dice.random() < 0.3:
                space.delete(table, where, image)
            else:
                moved = dice.randrange(keys) if dice.random() < 0.2 else key
                if moved != key and space.get(table, table.key_codec.encode([moved])) is not None:
                    moved = key
                space.update(table, where, image, (moved, *new[1:]))
    except MustWait:
        site.locks.release_all(transaction)
        return
    site.push(transaction)


def entries(store: Store) -> tuple[set, set]:
    """What an index has, and what it should have."""
    space = Workspace(store, LockTable(), Transaction(instant=True))
    table = table_of(space)
    (index,) = table.indexes
    ops = space.ops(table)
    found = set(space.index_scan(table, index))
    made = {(entry, key) for key, image in space.scan(table) for _, entry in ops.entries(key, image)}
    return found, made


@pytest.mark.parametrize("predicate", [None, 2])
@pytest.mark.parametrize("seed", range(25))
def test_index_is_that_of_the_rows(site: Site, seed: int, predicate: int | None, monkeypatch):
    print("seed", seed)
    dice = random.Random(seed)
    monkeypatch.setattr(building, "FEW", dice.choice([0, 3, 50]))
    keys = dice.choice([20, 300, 800])
    fill(site, [(k, dice.randrange(5), dice.random() < 0.5, "x") for k in range(0, keys, 2)])
    for _ in range(dice.randrange(4)):
        write(site, dice, keys)
    builder = site.begin()
    index = Index(0, "t_v", 1, (KeyPart(1), KeyPart(3, descending=True)), predicate=predicate)
    steps = builder.workspace.create_index_online(table_of(builder.workspace), index)
    for conflict in steps:
        if conflict is not None:  # nobody holds on to anything here
            site.settle()
        for _ in range(dice.randrange(3)):
            write(site, dice, keys)
        if dice.random() < 0.2:
            site.settle()
        if dice.random() < 0.1:
            site.leader.flush()
    site.push(builder)
    for _ in range(dice.randrange(4)):
        write(site, dice, keys)
    site.settle()
    for store in (site.leader, site.follower):
        found, made = entries(store)
        assert found == made
        store.flush()
        assert not list(store.check())


def test_who_writes_holds_up_the_end_only(site: Site):
    fill(site, [(k, k, None, "x") for k in range(10)])
    writer = site.begin()
    table = table_of(writer.workspace)
    writer.workspace.insert(table, (77, 7, None, "w"))
    builder = site.begin()
    steps = builder.workspace.create_index_online(table, Index(0, "t_v", 1, (KeyPart(1),)))
    conflict = next(one for one in steps if one is not None)
    assert not conflict.wait.done()
    site.push(writer)
    assert conflict.wait.done()
    list(steps)
    site.push(builder)
    site.settle()
    found, made = entries(site.leader)
    assert found == made
    assert len(found) == 11


def test_rows_that_become_alike_meanwhile_are_refused(site: Site):
    fill(site, [(k, k, None, "x") for k in range(200)])
    builder = site.begin()
    table = table_of(builder.workspace)
    index = Index(0, "t_v", 1, (KeyPart(1),), unique=True)
    steps = builder.workspace.create_index_online(table, index)
    next(steps)
    writer = site.begin(instant=True)
    writer.workspace.insert(table, (500, 3, None, "w"))
    site.push(writer)
    with pytest.raises(SqlError) as caught:
        list(steps)
    assert caught.value.sqlstate == "23505"
    assert caught.value.detail == "Key (v)=(3) is duplicated."
    assert not site.leader.watched_tables


def test_values_may_be_exchanged_meanwhile(site: Site):
    fill(site, [(k, k, None, "x") for k in range(200)])
    builder = site.begin()
    table = table_of(builder.workspace)
    steps = builder.workspace.create_index_online(table, Index(0, "t_v", 1, (KeyPart(1),), unique=True))
    next(steps)
    for key, value in ((3, 1000), (4, 3), (3, 4)):
        writer = site.begin(instant=True)
        where = table.key_codec.encode([key])
        image = writer.workspace.get(table, where)
        writer.workspace.update(table, where, image, (key, value, None, "x"))
        site.push(writer)
    list(steps)
    site.push(builder)
    site.settle()
    found, made = entries(site.leader)
    assert found == made


def test_what_was_never_durable_is_not_in_it(site: Site):
    fill(site, [(k, k, None, "x") for k in range(200)])
    writer = site.begin(instant=True)
    table = table_of(writer.workspace)
    writer.workspace.insert(table, (500, 3, None, "w"))
    site.push(writer)
    builder = site.begin()
    steps = builder.workspace.create_index_online(table, Index(0, "t_v", 1, (KeyPart(1),)))
    next(steps)
    site.leader.drop_pending()
    site.pending.clear()
    list(steps)
    site.push(builder)
    site.settle()
    found, made = entries(site.leader)
    assert found == made
    assert len(found) == 200


def test_another_definition_ends_it(site: Site):
    fill(site, [(k, k, None, "x") for k in range(200)])
    builder = site.begin()
    table = table_of(builder.workspace)
    steps = builder.workspace.create_index_online(table, Index(0, "t_v", 1, (KeyPart(1),)))
    next(steps)
    other = site.begin(instant=True)
    other.workspace.create_index(table, Index(other.workspace.next_id, "o", 1, (KeyPart(3),)))
    site.push(other)
    with pytest.raises(SqlError) as caught:
        list(steps)
    assert caught.value.sqlstate == "40001"
    assert not site.leader.watched_tables
