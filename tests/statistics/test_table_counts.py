"""pg_stat_user_tables and its relatives: what was changed, by whichever way, and how many rows there are."""

from __future__ import annotations

from typing import Any

import psycopg
import pyarrow as pa
import pytest

from herdpy_server.store.spilling import SpillSettings
from tests.statistics.conftest import Counted

COUNTS = (
    "SELECT n_tup_ins, n_tup_upd, n_tup_del, n_live_tup FROM pg_stat_user_tables WHERE relid = %s::regclass"
)


def counts(client: psycopg.Connection, table: str = "t") -> tuple[Any, ...]:
    found = client.execute(COUNTS, (table,)).fetchone()
    assert found is not None
    return found


@pytest.fixture
def client(counted: Counted) -> Any:
    with counted.connect() as connection:
        connection.execute("CREATE TABLE t (id INT PRIMARY KEY, v TEXT)")
        yield connection


def test_statements_by_key_and_by_scan(client: psycopg.Connection) -> None:
    for at in range(4):
        client.execute("INSERT INTO t VALUES (%s, 'a')", (at,))
    client.execute("UPDATE t SET v = 'b' WHERE id = 1")
    client.execute("UPDATE t SET v = 'c'")
    client.execute("DELETE FROM t WHERE id = 3")
    client.execute("INSERT INTO t VALUES (0, 'd'), (9, 'd') ON CONFLICT (id) DO UPDATE SET v = 'e'")
    assert counts(client) == (5, 6, 1, 4)
    client.execute("UPDATE t SET id = 100 WHERE id = 0")
    assert counts(client) == (5, 7, 1, 4)


def test_every_way_in(client: psycopg.Connection, counted: Counted) -> None:
    with client.cursor().copy("COPY t FROM STDIN") as copy:
        copy.write("1\ta\n2\tb\n")
    client.execute("INSERT INTO t SELECT g, 'x' FROM generate_series(10, 109) g")
    import herdpy

    with herdpy.connect(f"herdpy://herdpy@127.0.0.1:{counted.server.port}/herdpy", autocommit=True) as other:
        rows = pa.table({"id": pa.array(range(200, 250), pa.int32()), "v": ["y"] * 50})
        other.cursor().adbc_ingest("t", rows, mode="append")
        other.cursor().executemany("INSERT INTO t VALUES (%s, 'z')", [(1000 + at,) for at in range(7)])
    assert counts(client) == (2 + 100 + 50 + 7, 0, 0, 159)


def test_a_rollback_counts_changes_but_no_rows(client: psycopg.Connection) -> None:
    client.execute("INSERT INTO t VALUES (1, 'a')")
    client.execute("BEGIN")
    client.execute("INSERT INTO t VALUES (2, 'a'), (3, 'b')")
    client.execute("DELETE FROM t WHERE id = 1")
    client.execute("ROLLBACK")
    assert counts(client) == (3, 0, 1, 1)
    found = client.execute(
        "SELECT xact_rollback, tup_inserted, tup_deleted, numbackends FROM pg_stat_database"
        " WHERE datname = current_database()"
    ).fetchone()
    assert found == (1, 3, 1, 1)


def test_a_checkpoint_changes_no_number(client: psycopg.Connection) -> None:
    client.execute("INSERT INTO t SELECT g, 'x' FROM generate_series(1, 50) g")
    client.execute("CHECKPOINT")
    assert counts(client) == (50, 0, 0, 50)
    client.execute("DELETE FROM t WHERE id > 40")
    assert counts(client) == (50, 0, 10, 40)
    client.execute("CHECKPOINT")
    client.execute("INSERT INTO t VALUES (51, 'x')")
    assert counts(client) == (51, 0, 10, 41)
    client.execute("TRUNCATE t")
    assert counts(client)[3] == 0
    client.execute("INSERT INTO t VALUES (1, 'x')")
    assert counts(client)[3] == 1
    client.execute("CHECKPOINT")
    assert counts(client)[3] == 1


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_a_transaction_in_files(client: psycopg.Connection, counted: Counted, end: str) -> None:
    store = counted.server.database.store
    assert store.spilling is not None
    store.spilling = SpillSettings(store.spilling.directory, 100_000)
    client.execute("BEGIN")
    client.execute("INSERT INTO t SELECT g, repeat('x', 50) FROM generate_series(1, 6000) g")
    client.execute("SAVEPOINT s")
    client.execute("INSERT INTO t SELECT g, repeat('x', 50) FROM generate_series(6001, 9000) g")
    client.execute("ROLLBACK TO s")
    client.execute("UPDATE t SET v = 'y' WHERE id <= 2000")
    client.execute("DELETE FROM t WHERE id > 5900")
    client.execute(end)
    assert counts(client) == (6000, 2000, 100, 5900 if end == "COMMIT" else 0)
    assert client.execute("SELECT count(*) FROM t").fetchone() == (5900 if end == "COMMIT" else 0,)


def test_two_schemas_and_functions_say_the_same(client: psycopg.Connection) -> None:
    client.execute('CREATE SCHEMA "a b"')
    client.execute('CREATE TABLE "a b".t (id INT PRIMARY KEY)')
    client.execute('INSERT INTO "a b".t VALUES (1), (2)')
    assert counts(client, "t") == (0, 0, 0, 0)
    assert counts(client, '"a b".t') == (2, 0, 0, 2)
    functions = "pg_stat_get_tuples_inserted(c.oid), pg_stat_get_live_tuples(c.oid)"
    found = client.execute(f"SELECT {functions} FROM pg_class c WHERE relname = 't' ORDER BY 1").fetchall()
    assert found == [(0, 0), (2, 2)]
    assert client.execute("SELECT n_tup_ins FROM pg_stat_all_tables WHERE relid = 1259").fetchall() in (
        [],
        [(0,)],
    )


def test_reset_forgets_changes_and_keeps_rows(client: psycopg.Connection) -> None:
    client.execute("INSERT INTO t VALUES (1, 'a')")
    before = client.execute("SELECT stats_reset FROM pg_stat_database WHERE datname = 'herdpy'").fetchone()
    client.execute("SELECT pg_stat_reset()")
    assert counts(client) == (0, 0, 0, 1)
    after = client.execute("SELECT stats_reset FROM pg_stat_database WHERE datname = 'herdpy'").fetchone()
    assert before is not None
    assert after is not None
    assert after > before
    client.execute("CREATE ROLE clerk")
    client.execute("SET ROLE clerk")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        client.execute("SELECT pg_stat_reset()")


def test_deadlocks_are_counted(counted: Counted, client: psycopg.Connection) -> None:
    import threading

    client.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    with counted.connect() as other:
        errors = []

        def wait() -> None:
            try:
                other.execute("UPDATE t SET v = 'x' WHERE id = 1")
            except psycopg.errors.DeadlockDetected as error:
                errors.append(error)

        client.execute("BEGIN")
        other.execute("BEGIN")
        client.execute("UPDATE t SET v = 'x' WHERE id = 1")
        other.execute("UPDATE t SET v = 'x' WHERE id = 2")
        thread = threading.Thread(target=wait)
        thread.start()
        counted.waits(other.info.backend_pid)
        try:
            client.execute("UPDATE t SET v = 'x' WHERE id = 2")
        except psycopg.errors.DeadlockDetected as error:
            errors.append(error)
        client.execute("ROLLBACK")
        thread.join()
        other.execute("ROLLBACK")
    assert len(errors) == 1
    assert client.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = 'herdpy'").fetchone() == (
        1,
    )
