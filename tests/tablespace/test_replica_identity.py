"""REPLICA IDENTITY FULL: the log has each row as it was before it is changed or deleted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import herdpy
from herdpy.dbapi import Connection
from herdpy.log import (
    START,
    AlterTable,
    Before,
    CreateTable,
    Delete,
    DropTable,
    FileLog,
    Insert,
    InsertBatch,
    LoggedTransaction,
    Record,
    TransactionAssembler,
    Truncate,
    Update,
)
from herdpy_server.store import Store, workspace
from herdpy_server.store.batches import expanded
from herdpy_sql.catalog import Table
from herdpy_sql.definitions import decode_table

CHANGES = [
    "INSERT INTO t SELECT g, 'v' || g, g % 5 FROM generate_series(1, 50) g",
    "UPDATE t SET v = 'one' WHERE id = 1",
    "UPDATE t SET v = v || '!', n = n + 1 WHERE n < 3",
    "INSERT INTO t VALUES (99, 'new', 9)",
    "UPDATE t SET id = id + 1000 WHERE id BETWEEN 5 AND 9",
    "UPDATE t SET v = u.v FROM u WHERE u.id = t.id",
    "DELETE FROM t WHERE id = 2",
    "DELETE FROM t WHERE n = 4",
    "BEGIN; UPDATE t SET v = 'first' WHERE id = 1; UPDATE t SET v = 'second' WHERE id = 1; "
    "DELETE FROM t WHERE id = 1; INSERT INTO t VALUES (1, 'third', 0); "
    "UPDATE t SET v = 'last' WHERE id = 1; COMMIT",
    "BEGIN; UPDATE t SET v = 'lost'; ROLLBACK",
    "TRUNCATE t",
    "INSERT INTO t VALUES (1, 'x', 1)",
    "DELETE FROM t",
    "UPDATE u SET v = 'u' WHERE id = 3",
    "UPDATE h SET v = v + 1",
    "DELETE FROM h WHERE v = 3",
]


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Connection]:
    with herdpy.connect(tmp_path / "d", autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id INT PRIMARY KEY, v TEXT, n INT)")
        connection.execute("CREATE INDEX t_n ON t (n)")
        connection.execute("CREATE TABLE u (id INT PRIMARY KEY, v TEXT)")
        connection.execute("CREATE TABLE h (v INT)")
        connection.execute("INSERT INTO u VALUES (3, 'three'), (99, 'u')")
        connection.execute("INSERT INTO h VALUES (1), (2)")
        yield connection


def change(connection: Connection) -> None:
    for text in CHANGES:
        for statement in text.split("; "):
            connection.execute(statement)


def records(path: Path) -> list[Record]:
    """All that the log has, in order."""
    assembler, found = TransactionAssembler(), list[LoggedTransaction]()

    async def read() -> None:
        async for _lsn, entry in log.read(START):
            found.extend(one for _at, one in assembler.feed(entry))

    log = FileLog(str(path / "log"), read_only=True)
    try:
        herdpy.log.run_blocking(read())
    finally:
        log.close()
    return [record for one in found for record in one.records]


def befores(path: Path) -> dict[str, int]:
    """Go through the log, hold each Before against the rows so far; how many there are of each table.

    AssertionError: one is missing, too many, or not the row as it was.
    """
    tables: dict[int, Table] = {}
    rows: dict[int, dict[bytes, bytes]] = {}
    counts: dict[str, int] = {}
    pending: Before | None = None
    for record in records(path):
        if isinstance(record, (Update, Delete)):
            key = record.key if isinstance(record, Delete) or record.old_key is None else record.old_key
            if tables[record.table_id].identity_full:
                assert pending == Before(record.table_id, key, rows[record.table_id][key])
                counts[tables[record.table_id].name] = counts.get(tables[record.table_id].name, 0) + 1
                pending = None
            del rows[record.table_id][key]
        assert pending is None
        if isinstance(record, (CreateTable, AlterTable)):
            table = decode_table(record.definition)
            tables[table.id] = table
            rows.setdefault(table.id, {})
        elif isinstance(record, DropTable):
            del rows[record.table_id]
        elif isinstance(record, Truncate):
            rows[record.table_id] = {}
        elif isinstance(record, (Insert, Update)):
            rows[record.table_id][record.key] = record.row
        elif isinstance(record, InsertBatch):
            rows[record.table_id].update(zip(*expanded(tables[record.table_id], record), strict=True))
        elif isinstance(record, Before):
            pending = record
    assert pending is None
    return counts


def identity(connection: Connection) -> list[Any]:
    query = "SELECT relname, relreplident FROM pg_class WHERE relname IN ('t', 'u', 'h', 't_n') ORDER BY 1"
    return [tuple(row) for row in connection.execute(query).fetchall()]


def test_tables_say_it_from_the_statement_on(database: Connection, tmp_path: Path) -> None:
    change(database)
    assert befores(tmp_path / "d") == {}
    assert identity(database) == [("h", "d"), ("t", "d"), ("t_n", "n"), ("u", "d")]
    database.execute("ALTER TABLE t REPLICA IDENTITY FULL")
    database.execute("ALTER TABLE IF EXISTS ONLY public.h REPLICA IDENTITY FULL")
    assert identity(database) == [("h", "f"), ("t", "f"), ("t_n", "n"), ("u", "d")]
    database.execute("INSERT INTO h VALUES (2)")
    change(database)
    counts = befores(tmp_path / "d")
    assert set(counts) == {"t", "h"}
    assert counts["t"] > 50
    database.execute("ALTER TABLE t REPLICA IDENTITY DEFAULT")
    database.execute("ALTER TABLE t REPLICA IDENTITY DEFAULT")
    assert identity(database)[1] == ("t", "d")
    change(database)
    assert befores(tmp_path / "d")["t"] == counts["t"]
    assert sum(isinstance(record, AlterTable) for record in records(tmp_path / "d")) == 3


@pytest.mark.parametrize("checkpoint", [False, True])
def test_it_is_there_when_the_database_is_opened_again(
    database: Connection, tmp_path: Path, checkpoint: bool
) -> None:
    database.execute("ALTER TABLE t REPLICA IDENTITY FULL")
    if checkpoint:
        database.execute("CHECKPOINT")
    database.close()
    with herdpy.connect(tmp_path / "d", autocommit=True) as connection:
        assert identity(connection)[1] == ("t", "f")
        change(connection)
    if not checkpoint:  # which trims the log
        assert befores(tmp_path / "d")["t"] > 50
    with herdpy.connect(tmp_path / "d", autocommit=True) as connection:
        assert identity(connection)[1] == ("t", "f")
    store = Store.open(tmp_path / "d" / "store", read_only=True)
    assert list(store.check()) == []
    store.close()


def test_it_stays_with_a_table_that_gets_a_key_and_an_index(database: Connection, tmp_path: Path) -> None:
    database.execute("ALTER TABLE h REPLICA IDENTITY FULL")
    database.execute("ALTER TABLE h ADD PRIMARY KEY (v)")
    database.execute("CREATE INDEX h_again ON h (v)")
    database.execute("UPDATE h SET v = v + 10")
    assert identity(database)[0] == ("h", "f")
    assert befores(tmp_path / "d") == {"h": 2}


def test_it_is_taken_back_with_its_transaction(database: Connection, tmp_path: Path) -> None:
    database.execute("BEGIN")
    database.execute("ALTER TABLE t REPLICA IDENTITY FULL")
    assert identity(database)[1] == ("t", "f")
    database.execute("ROLLBACK")
    assert identity(database)[1] == ("t", "d")
    change(database)
    assert befores(tmp_path / "d") == {}


def test_loaded_rows_are_inserted_without_befores(database: Connection, tmp_path: Path) -> None:
    database.execute("ALTER TABLE t REPLICA IDENTITY FULL")
    batch = pa.table({"id": range(100), "v": ["x"] * 100, "n": [1] * 100})
    database.cursor().adbc_ingest("t", batch, mode="append")
    database.execute("DELETE FROM t WHERE id < 10")
    assert befores(tmp_path / "d") == {"t": 10}


def test_another_writer_is_waited_for(database: Connection, tmp_path: Path) -> None:
    with herdpy.connect(tmp_path / "d", autocommit=True) as other:
        other.execute("BEGIN")
        other.execute("INSERT INTO u VALUES (1, 'x')")
        database.execute("SET lock_timeout = 50")
        with pytest.raises(herdpy.Error) as caught:
            database.execute("ALTER TABLE u REPLICA IDENTITY FULL")
        assert caught.value.sqlstate == "55P03"
        other.execute("COMMIT")
        database.execute("ALTER TABLE u REPLICA IDENTITY FULL")
        other.execute("UPDATE u SET v = 'y' WHERE id = 1")
    assert befores(tmp_path / "d") == {"u": 1}


@pytest.mark.parametrize(
    ("statement", "sqlstate"),
    [
        ("ALTER TABLE nosuch REPLICA IDENTITY FULL", "42P01"),
        ("ALTER TABLE t REPLICA IDENTITY NOTHING", "0A000"),
        ("ALTER TABLE t REPLICA IDENTITY USING INDEX t_n", "0A000"),
        ("ALTER TABLE t REPLICA IDENTITY", "42601"),
        ("ALTER TABLE t REPLICA IDENTITY FULL FULL", "42601"),
    ],
)
def test_what_is_refused(database: Connection, statement: str, sqlstate: str) -> None:
    with pytest.raises(herdpy.Error) as caught:
        database.execute(statement)
    assert caught.value.sqlstate == sqlstate
    database.execute("ALTER TABLE IF EXISTS nosuch REPLICA IDENTITY FULL")


def test_a_workspace_that_forgets_them_is_noticed(
    database: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.execute("ALTER TABLE t REPLICA IDENTITY FULL")
    monkeypatch.setattr(workspace, "Before", lambda db, key, image: Before(db, key, image + b"\0"))
    change(database)
    with pytest.raises(AssertionError):
        befores(tmp_path / "d")
