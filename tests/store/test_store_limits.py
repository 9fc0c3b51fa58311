"""What a store may use up: tables and indexes, its map, memory; each is reported before, and refused."""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path

import lmdb
import pytest

from herdpy_server.embedded import Database, opened
from herdpy_server.store import Store, disk, store
from herdpy_server.store.disk import MAX_DATABASES
from herdpy_server.store.limits import AddressSpace
from herdpy_server.tablespace import store_error
from herdpy_sql.errors import SqlError
from tests.tablespace.test_threads import sql

GIB, TIB = 1 << 30, 1 << 40


@pytest.fixture
def space(monkeypatch: pytest.MonkeyPatch) -> AddressSpace:
    """An address space of 4 GiB."""
    made = AddressSpace(4 * GIB)
    monkeypatch.setattr(disk, "ADDRESS_SPACE", made)
    monkeypatch.setattr(store, "ADDRESS_SPACE", made)
    return made


def refusal(database: Database, text: str) -> str:
    """The SQLSTATE with which a statement is refused."""
    with pytest.raises(SqlError) as refused:
        sql(database, text)
    return refused.value.sqlstate


def near(database: Database) -> set[str]:
    """The limits that herdpy.limits says are near."""
    return {name for (name,) in sql(database, "SELECT name FROM herdpy.limits WHERE is_near")}


def test_a_table_too_many_is_refused_until_one_is_dropped(tmp_path: Path, caplog) -> None:
    caplog.set_level(logging.WARNING, "herdpy.checkpointer")
    with opened(tmp_path / "db", checkpoint_interval_s=3600.0) as database:
        database.store.max_databases = 4
        sql(database, "CREATE TABLE a (id INTEGER PRIMARY KEY, n INTEGER UNIQUE)")
        assert near(database) == {"tables_and_indexes"}
        database.checkpoint()
        database.checkpoint()
        assert [one.getMessage() for one in caplog.records] == [
            "a limit is near: tables_and_indexes is 2 of 4; more will be refused with 53400"
        ]
        three = "CREATE TABLE b (id INTEGER PRIMARY KEY, n INTEGER UNIQUE, m INTEGER UNIQUE)"
        assert refusal(database, three) == "53400"
        sql(database, "CREATE TABLE b (id INTEGER PRIMARY KEY)")
        sql(database, "CREATE INDEX a_n ON a (n)")
        for text in (
            "CREATE TABLE c (id INTEGER)",
            "CREATE TEMP TABLE c (id INTEGER)",
            "CREATE INDEX b_id ON b (id)",
            "CREATE INDEX CONCURRENTLY b_id ON b (id)",
            "ALTER TABLE a ADD UNIQUE (id, n)",
            "CREATE TABLE c AS SELECT 1 AS one",
        ):
            assert refusal(database, text) == "53400", text
        used = "SELECT used, most, sqlstate FROM herdpy.limits WHERE name = 'tables_and_indexes'"
        assert sql(database, used) == [(4, 4, "53400")]
        database.checkpoint()
        sql(database, "DROP TABLE b")
        assert refusal(database, "CREATE TABLE c (id INTEGER)") == "53400"
        sql(database, "INSERT INTO a VALUES (1, 1)")
        database.checkpoint()  # it is emptied
        assert refusal(database, "CREATE TABLE c (id INTEGER)") == "53400"
        sql(database, "INSERT INTO a VALUES (2, 2)")
        database.checkpoint()  # and removed
        sql(database, "CREATE TABLE c (id INTEGER)")
        assert sql(database, "SELECT count(*) FROM c") == [(0,)]


def test_a_store_too_many_for_the_address_space_is_refused(tmp_path: Path, space: AddressSpace) -> None:
    with contextlib.ExitStack() as close:
        for number in range(4):
            made = Store.open(tmp_path / str(number))
            close.callback(made.close)
            assert made.disk.map_size_bytes == GIB
        assert {one.name: one.is_near for one in made.limits()}["address_space_bytes"]
        for _ in range(2):
            with pytest.raises(SqlError) as refused:
                Store.open(tmp_path / "4")
            assert refused.value.sqlstate == "53400"
    assert space.used_bytes == 0
    Store.open(tmp_path / "4").close()
    assert {one.name for one in made.limits()} >= {"store_bytes"}  # a scrape may come when it is closed


def test_what_cannot_be_opened_takes_no_address_space(
    tmp_path: Path, space: AddressSpace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(_disk: disk.Disk) -> None:
        raise KeyError("uuid")

    monkeypatch.setattr(disk.Disk, "_open_meta", damaged)
    for _ in range(5):
        with pytest.raises(disk.StoreDamagedError):
            Store.open(tmp_path / "store")
    assert space.used_bytes == 0


def test_a_map_is_large_while_there_are_few_and_four_times_what_there_is() -> None:
    space = AddressSpace()
    assert space.take(0) == TIB
    assert space.take(3 * TIB) == 12 * TIB
    sizes = [space.take(5 * GIB) for _ in range(500)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == 20 * GIB
    count = 0
    with contextlib.suppress(SqlError):
        while space.take(0):
            count += 1
    assert count > 100
    assert space.used_bytes <= space.total_bytes


def test_a_file_as_large_as_its_map_is_told_and_opened_with_a_larger_one(
    tmp_path: Path, space: AddressSpace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AddressSpace, "take", lambda _space, file_bytes: max(1 << 20, 4 * file_bytes))
    with opened(tmp_path / "db") as database:
        sql(database, "CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)")
        database.checkpoint()
        sql(database, "INSERT INTO t SELECT n, repeat('x', 1000) FROM generate_series(1, 250) s (n)")
        database.checkpoint()
        assert near(database) >= {"store_bytes"}
        sql(database, "INSERT INTO t SELECT n, repeat('x', 1000) FROM generate_series(251, 700) s (n)")
        with pytest.raises(SqlError) as refused:
            database.checkpoint()
        assert refused.value.sqlstate == "53100"
        assert sql(database, "SELECT count(*) FROM t") == [(700,)]
    with opened(tmp_path / "db") as database:
        database.checkpoint()
        assert sql(database, "SELECT count(*) FROM t") == [(700,)]
        assert database.store.disk.map_size_bytes > 1 << 20


def test_a_full_map_is_no_failure_of_the_disk() -> None:
    assert store_error(lmdb.MapFullError("full")).sqlstate == "53100"


ROWS = "SELECT n, 0 FROM generate_series(%d, %d) s (n)"


@pytest.mark.parametrize("begin", ["BEGIN", "BEGIN ISOLATION LEVEL SERIALIZABLE"])
def test_a_transaction_that_takes_too_much_memory_is_warned_of_and_refused(
    tmp_path: Path, begin: str, caplog
) -> None:
    caplog.set_level(logging.WARNING, "herdpy.store")
    with opened(tmp_path / "db", memtable_limit_bytes=1 << 18, transaction_memory_bytes=0) as database:
        sql(database, "CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER)")
        session = database.session()

        def run(*texts: str) -> None:
            for text in texts:
                database.run(session.execute(text))

        run(begin, *(f"INSERT INTO t VALUES ({number}, 0)" for number in range(1100)))
        run("UPDATE t SET b = b + 1")
        assert len(caplog.records) == 1
        with pytest.raises(SqlError) as refused:
            run(*["UPDATE t SET b = b + 1"] * 10)
        assert (refused.value.sqlstate, refused.value.outcome) == ("54000", "not done")
        assert len(caplog.records) == 1
        run("ROLLBACK", "INSERT INTO t VALUES (-1, 0)")
        with pytest.raises(SqlError) as refused:
            run("INSERT INTO t " + ROWS % (1, 10_000))
        assert refused.value.sqlstate == "54000"
        assert sql(database, "SELECT a, b FROM t") == [(-1, 0)]


@pytest.mark.parametrize("rows", ["VALUES (1, 0)", ROWS % (1, 4000)])
def test_what_is_rolled_back_to_a_savepoint_takes_no_memory(tmp_path: Path, rows: str) -> None:
    with opened(tmp_path / "db", memtable_limit_bytes=1 << 20) as database:
        sql(database, "CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER)")
        session = database.session()
        for text in ("BEGIN", "INSERT INTO t VALUES (0, 0)", "SAVEPOINT s"):
            database.run(session.execute(text))
        workspace = session.transaction.workspace
        before = workspace.size_bytes
        for _ in range(10):
            database.run(session.execute(f"INSERT INTO t {rows}"))
            assert workspace.size_bytes > before
            database.run(session.execute("ROLLBACK TO s"))
            assert workspace.size_bytes == before
        database.run(session.execute("COMMIT"))


@pytest.mark.soak
def test_hundreds_of_stores_are_open_at_the_same_time(tmp_path: Path) -> None:
    with contextlib.ExitStack() as close:
        for number in range(400):
            close.callback(Store.open(tmp_path / str(number)).close)


@pytest.mark.soak
def test_as_many_tables_as_there_may_be(tmp_path: Path) -> None:
    with opened(tmp_path / "db", checkpoint_interval_s=3600.0) as database:
        indexed = ", ".join(f"c{number} INTEGER UNIQUE" for number in range(15))
        for number in range(MAX_DATABASES // 16):
            sql(database, f"CREATE TABLE t{number} (a INTEGER PRIMARY KEY, {indexed})")
        assert refusal(database, "CREATE TABLE more (a INTEGER)") == "53400"
        sql(database, "INSERT INTO t0 VALUES (1)")
        database.checkpoint()
    with opened(tmp_path / "db") as database:
        assert sql(database, "SELECT a FROM t0") == [(1,)]
        assert refusal(database, "CREATE TABLE more (a INTEGER)") == "53400"
