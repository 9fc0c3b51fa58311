"""herdpy.statements and pg_stat_statements of a server."""

from __future__ import annotations

import math
import threading
from typing import Any

import psycopg
import pytest

from herdpy_server.sessions.statement_table import StatementTable
from herdpy_sql.catalog import Catalog
from tests.statistics.conftest import Counted


def rows(connection: psycopg.Connection, like: str) -> list[dict[str, Any]]:
    found = connection.execute("SELECT * FROM herdpy.statements WHERE query LIKE %s", (like,))
    names = [column.name for column in found.description or ()]
    return [dict(zip(names, row, strict=True)) for row in found]


def only(connection: psycopg.Connection, like: str) -> dict[str, Any]:
    (row,) = rows(connection, like)
    return row


def test_runs_are_counted_by_text_without_constants(counted: Counted) -> None:
    with counted.connect() as client:
        client.execute("CREATE TABLE t (id INT PRIMARY KEY, v TEXT)")
        for at in range(3):
            client.execute(f"INSERT INTO t VALUES ({at}, 'v{at}')")  # as text
        for at in range(4):
            client.execute("UPDATE t SET v = %s WHERE id <= %s", ("x", at), prepare=True)
        with pytest.raises(psycopg.errors.DivisionByZero):
            client.execute("SELECT 1 / (id - id) FROM t WHERE id = 1")
        insert = only(client, "INSERT INTO t%")
        assert insert["query"] == "INSERT INTO t VALUES ($1, $2)"
        assert (insert["calls"], insert["errors"], insert["rows"]) == (3, 0, 3)
        assert insert["plan"].splitlines()[0] == "Insert on t"
        assert 0 < insert["min_s"] <= insert["mean_s"] <= insert["max_s"] <= insert["total_s"]
        assert math.isclose(insert["mean_s"] * 3, insert["total_s"])
        assert 0 < insert["log_wait_s"] < insert["total_s"]
        update = only(client, "UPDATE%")
        assert (update["calls"], update["rows"]) == (4, 1 + 2 + 3 + 3)
        failed = only(client, "SELECT $1 / (id - id)%")
        assert (failed["calls"], failed["errors"], failed["total_s"]) == (0, 1, 0.0)


def test_resolved_statements_are_counted_as_others(counted: Counted) -> None:
    """By key, prepared, in a block and alone: by the functions that a front end makes of them."""
    with counted.connect() as client:
        client.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
        client.execute("INSERT INTO t VALUES (1, 0)")
        for _ in range(10):
            client.execute("SELECT v FROM t WHERE id = %s", (1,), prepare=True)
            client.execute("UPDATE t SET v = v + %s WHERE id = %s", (1, 1), prepare=True)
        for _ in range(5):
            with client.transaction():
                client.execute("UPDATE t SET v = v + %s WHERE id = %s", (1, 1), prepare=True)
                client.execute("SELECT v FROM t WHERE id = %s", (1,), prepare=True)
        assert (only(client, "SELECT v%")["calls"], only(client, "SELECT v%")["rows"]) == (15, 15)
        update = only(client, "UPDATE t%")
        assert (update["calls"], update["own_plans"], update["columnar_plans"]) == (15, 15, 0)
        assert update["log_wait_s"] > 0
        assert only(client, "COMMIT")["calls"] == 5
        assert only(client, "COMMIT")["log_wait_s"] > 0


def test_the_engine_that_ran_it_is_counted(counted: Counted) -> None:
    with counted.connect() as client:
        client.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
        client.execute("INSERT INTO t SELECT g, g FROM generate_series(1, 100) g")
        for engine in ("own", "columnar", "columnar"):
            client.execute(f"SET herdpy.engine = {engine}")
            client.execute("SELECT v FROM t WHERE id = 7").fetchall()
        found = only(client, "SELECT v FROM t%")
        assert (found["calls"], found["own_plans"], found["columnar_plans"]) == (3, 1, 2)


def test_waiting_for_a_lock_is_the_waiters(counted: Counted) -> None:
    with counted.connect() as holder, counted.connect() as waiter:
        holder.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
        holder.execute("INSERT INTO t VALUES (1, 0)")
        holder.execute("BEGIN")
        holder.execute("UPDATE t SET v = 1")
        thread = threading.Thread(target=lambda: waiter.execute("UPDATE t SET v = 2 WHERE id = 1"))
        thread.start()
        counted.waits(waiter.info.backend_pid)
        holder.execute("SELECT pg_sleep(0.2)")
        holder.execute("COMMIT")
        thread.join()
        waited = only(holder, "UPDATE t SET v = $1 WHERE id = $2")
        assert 0.2 <= waited["lock_wait_s"] <= waited["total_s"]
        assert only(holder, "UPDATE t SET v = $1")["lock_wait_s"] == 0


def test_two_schemas_and_a_role_have_rows_of_their_own(counted: Counted) -> None:
    with counted.connect() as client:
        for schema in ('"a b"', "other"):
            client.execute(f"CREATE SCHEMA {schema}")
            client.execute(f"CREATE TABLE {schema}.t (id INT PRIMARY KEY)")
        for path, times in (('"a b"', 1), ("other", 2), ('other, "a b"', 3)):
            client.execute(f"SET search_path = {path}")
            for _ in range(times):
                client.execute("SELECT id FROM t WHERE id = 1")
        found = {row["query_id"]: row["calls"] for row in rows(client, "SELECT id FROM t%")}
        assert sorted(found.values()) == [1, 5]
        client.execute("CREATE ROLE teller LOGIN SUPERUSER")
        client.execute("SET ROLE teller")
        client.execute("SELECT id FROM t WHERE id = 1")
        found = [(row["user_name"], row["calls"]) for row in rows(client, "SELECT id FROM t%")]
        assert sorted(found) == [("herdpy", 1), ("herdpy", 5), ("teller", 1)]


def test_a_table_made_again_keeps_its_row(counted: Counted) -> None:
    with counted.connect() as client:
        for _ in range(2):
            client.execute("CREATE TABLE t (id INT PRIMARY KEY)")
            client.execute("SELECT id FROM t WHERE id = 1")
            client.execute("DROP TABLE t")
        assert only(client, "SELECT id%")["calls"] == 2


def test_others_texts_are_hidden(counted: Counted) -> None:
    with counted.connect() as client:
        client.execute("CREATE ROLE clerk LOGIN")
        client.execute("SELECT 'hers'")
        client.execute("SET ROLE clerk")
        client.execute("SELECT 'his', 2")
        of_clerk = client.execute("SELECT query, queryid IS NULL FROM pg_stat_statements").fetchall()
        assert ("SELECT $1, $2", False) in of_clerk
        assert {text for text, _ in of_clerk if "CREATE" in text or text == "SELECT $1"} == set()
        assert ("<insufficient privilege>", True) in of_clerk
        assert {row["plan"] for row in rows(client, "<insuff%")} == {None}
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            client.execute("SELECT pg_stat_statements_reset()")
        client.execute("RESET ROLE")
        assert rows(client, "<insuff%") == []
        assert only(client, "SELECT $1, $2")["user_name"] == "clerk"


def test_passwords_are_in_no_row(counted: Counted) -> None:
    with counted.connect() as client:
        client.execute("CREATE ROLE clerk LOGIN PASSWORD 'first-secret'")
        client.execute("ALTER ROLE clerk PASSWORD $$second-secret$$")
        client.execute("SET application_name = 'third-secret'")
        shown = client.execute("SELECT query || coalesce(plan, '') FROM herdpy.statements").fetchall()
        shown += client.execute("SELECT query FROM pg_stat_statements").fetchall()
        assert len(shown) > 6
        assert not [row for row in shown if "secret" in row[0]]


def test_reset_forgets_all_or_some(counted: Counted) -> None:
    with counted.connect() as client:
        client.execute("SELECT 1")
        client.execute("SELECT 'a', 'b'")
        query_id = only(client, "SELECT $1")["query_id"]
        client.execute("SELECT pg_stat_statements_reset(0, 0, %s)", (query_id,))
        assert rows(client, "SELECT $1") == []
        assert len(rows(client, "SELECT $1, $2")) == 1
        client.execute("SELECT pg_stat_statements_reset(4711, 0, 0)")
        assert len(rows(client, "SELECT $1, $2")) == 1
        before = client.execute("SELECT stats_reset FROM pg_stat_statements_info").fetchone()
        client.execute("SELECT pg_stat_statements_reset()")
        left = client.execute("SELECT query FROM pg_stat_statements").fetchall()
        assert left == [("SELECT pg_stat_statements_reset()",)]
        after = client.execute("SELECT stats_reset FROM pg_stat_statements_info").fetchone()
        assert before is not None
        assert after is not None
        assert after[0] > before[0]
        client.execute("SELECT 1")
        assert only(client, "SELECT $1")["calls"] == 1


def test_the_table_keeps_what_is_used(counted: Counted) -> None:
    table = StatementTable(most=100, most_bytes=1 << 20)
    catalog = Catalog()
    often = table.entry("SELECT often", "db", "r", "r", catalog)
    for at in range(1000):
        often.calls += 5
        table.entry(f"SELECT c{at}", "db", "r", "r", catalog).calls += 1
        assert len(table) <= 100
    assert table.entry("SELECT often", "db", "r", "r", catalog) is often
    assert table.dealloc > 10
    assert table.used_bytes == sum(len(str(row["query"])) for row in table.rows())


def test_the_table_keeps_to_its_bytes() -> None:
    table = StatementTable(most=1000, most_bytes=100_000)
    for at in range(200):
        entry = table.entry(f"SELECT {'x' * 3000}{at}a", "db", "r", "r", Catalog())
        table.keep_plan(entry, ["Plan" * 100])
        assert table.used_bytes < 110_000
    assert table.dealloc
    table.limit(0, 100_000)
    assert (len(table), table.used_bytes) == (0, 0)


def test_nothing_is_kept_where_nothing_shall_be(counted: Counted) -> None:
    counted.server.look(lambda: counted.statistics.table.limit(0, 1 << 20))
    with counted.connect() as client:
        client.execute("SELECT 1")
        assert rows(client, "%") == []
        kinds = counted.server.look(lambda: counted.statistics.kinds["SELECT"].ok)
        assert kinds >= 2
