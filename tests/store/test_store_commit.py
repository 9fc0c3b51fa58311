"""LMDB has committed, and an error comes before memory knows: memory follows, then or at the next flush."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import lmdb
import pytest

import herdpy
from herdpy_server.store import Store
from tests.faults.no_return.doors import Doors


@pytest.fixture
def doors() -> Iterator[Doors]:
    with Doors() as found:
        yield found


@pytest.fixture
def connection(doors: Doors, tmp_path: Path) -> Iterator[herdpy.Connection]:
    """With something to write of each kind: rows new, changed and gone, a sequence, a name, tables."""
    with herdpy.connect(tmp_path / "db", autocommit=True, checkpoint_interval_s=3600) as found:
        for statement in (
            "CREATE TABLE t (id integer PRIMARY KEY, n integer UNIQUE)",
            "CREATE TABLE gone (id integer PRIMARY KEY)",
            "CREATE SEQUENCE s",
            "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)",
            "CHECKPOINT",
            "DROP TABLE gone",
            "CREATE TABLE made (id integer PRIMARY KEY)",
            "SET herdpy.request_id = 'named'",
            "INSERT INTO made VALUES (1)",
            "UPDATE t SET n = 20 WHERE id = 2",
            "DELETE FROM t WHERE id = 3",
            "INSERT INTO t VALUES (4, 4)",
            "SELECT nextval('s')",
        ):
            found.execute(statement)
        yield found


def test_memory_follows_what_lmdb_has_committed(
    doors: Doors, connection: herdpy.Connection, tmp_path: Path
) -> None:
    store = connection.shared_link.link.database.store
    doors.arm(1, lambda: lmdb.DiskError("injected"))
    with pytest.raises(lmdb.DiskError):
        store.flush()
    assert doors.struck is not None
    assert doors.struck.startswith("lmdb commit")
    assert store.durable == store.applied
    assert store.memtable_rows == 0
    assert list(store.check()) == []
    connection.execute("INSERT INTO t VALUES (5, 5)")
    connection.execute("CHECKPOINT")
    assert list(store.check()) == []
    connection.close()
    _is_whole(tmp_path)


def test_memory_that_cannot_follow_follows_at_the_next_flush(
    doors: Doors, connection: herdpy.Connection, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    store = connection.shared_link.link.database.store
    before = store.durable

    def refuse(*_arguments: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(store.disk, "renewed", refuse)
        with pytest.raises(MemoryError):
            store.flush()
    assert store.durable == before
    assert connection.execute("SELECT n FROM t WHERE id >= 0 ORDER BY id").fetchall() == [(1,), (20,), (4,)]
    connection.execute("UPDATE t SET n = 40 WHERE id = 4")
    store.flush()
    assert store.durable == store.applied
    assert list(store.check()) == []
    connection.close()
    _is_whole(tmp_path)


def test_what_cannot_be_told_is_asked_again(
    doors: Doors, connection: herdpy.Connection, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Until it is known whether LMDB has committed, nothing more is written."""
    store = connection.shared_link.link.database.store

    def refuse() -> None:
        raise MemoryError

    doors.arm(1, lambda: lmdb.DiskError("injected"))
    with monkeypatch.context() as patched:
        patched.setattr(type(store.disk.env), "info", lambda _self: refuse(), raising=False)
        with pytest.raises(MemoryError):
            store.flush()
        with pytest.raises(MemoryError):
            store.flush()
    store.flush()
    assert store.durable == store.applied
    assert list(store.check()) == []
    connection.close()
    _is_whole(tmp_path)


def test_what_lmdb_has_not_committed_is_written_again(
    connection: herdpy.Connection, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    database = connection.shared_link.link.database
    store = database.store
    before = store.durable

    def refuse(_self: object) -> None:
        raise lmdb.DiskError("injected")

    with monkeypatch.context() as patched:
        patched.setattr("tests.faults.no_return.doors._Transaction.commit", refuse)
        with pytest.raises(lmdb.DiskError):
            store.flush()
    assert store.durable == before
    assert store.memtable_rows > 0
    store.flush()
    assert list(store.check()) == []
    connection.close()
    _is_whole(tmp_path)


def _is_whole(tmp_path: Path) -> None:
    with herdpy.connect(tmp_path / "db", autocommit=True) as connection:
        connection.execute("CHECKPOINT")
    store = Store.open(tmp_path / "db" / "store", read_only=True)
    try:
        assert list(store.check()) == []
        assert len(store.outcomes) == 1
    finally:
        store.close()
