"""AS OF SYSTEM TIME over PostgreSQL's protocol: prepared statements, cancels, COPY; with a role's rights."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from herdpy_server.tablespace.past import _Making
from tests.pgwire.servers import ThreadServer, thread_server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ThreadServer]:
    with thread_server(tmp_path / "db") as server:
        server.look(lambda: setattr(server.database.store.marks, "keep_s", 3600.0))
        yield server


@pytest.fixture
def conn(server: ThreadServer) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(server.dsn, autocommit=True) as conn:
        conn.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
        conn.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
        yield conn


def position(server: ThreadServer) -> str:
    return server.look(lambda: str(server.database.store.applied))


def rows(conn: psycopg.Connection[Any], sql: str, *params: object, **options: Any) -> list[tuple[Any, ...]]:
    return conn.execute(sql.encode(), params or None, **options).fetchall()


def test_statements_that_are_prepared(server: ThreadServer, conn: psycopg.Connection[Any]) -> None:
    past = f"AS OF SYSTEM TIME '{position(server)}'"
    by_key = f"SELECT v, id FROM t {past} WHERE id = %s"
    assert rows(conn, by_key, 1, prepare=True) == [("a", 1)]
    conn.execute("UPDATE t SET v = 'late'")
    for _ in range(3):
        assert rows(conn, by_key, 2, prepare=True) == [("b", 2)]
    conn.execute("DROP TABLE t")
    assert rows(conn, by_key, 1, prepare=True) == [("a", 1)]
    assert rows(conn, f"SELECT count(*) FROM t {past} WHERE id < %s", 9, binary=True) == [(2,)]
    conn.execute("CREATE TABLE t (id text)")
    assert rows(conn, by_key, 1, prepare=True) == [("a", 1)]
    with conn.pipeline():
        one = conn.execute(by_key.encode(), (1,))
        other = conn.execute(f"SELECT max(v) FROM t {past}".encode(), prepare=True)
        present = conn.execute("SELECT count(*) FROM t", prepare=True)
    assert (one.fetchall(), other.fetchall(), present.fetchall()) == ([("a", 1)], [("b",)], [(0,)])


def test_a_moment_that_moves(server: ThreadServer, conn: psycopg.Connection[Any]) -> None:
    moving = "SELECT count(*) FROM t AS OF SYSTEM TIME '-0.000001 s' WHERE id > %s"
    assert rows(conn, moving, 0, prepare=True) == [(2,)]
    conn.execute("INSERT INTO t VALUES (3, 'c')")
    assert rows(conn, moving, 0, prepare=True) == [(3,)]
    conn.execute("ALTER TABLE t RENAME TO u")
    with pytest.raises(psycopg.errors.UndefinedTable):
        rows(conn, moving, 0, prepare=True)


def test_copy_and_cursors(server: ThreadServer, conn: psycopg.Connection[Any]) -> None:
    past = f"AS OF SYSTEM TIME '{position(server)}'"
    conn.execute("DELETE FROM t")
    with conn.cursor().copy(f"COPY (SELECT * FROM t {past} ORDER BY id) TO STDOUT".encode()) as copy:
        assert b"".join(map(bytes, copy)) == b"1\ta\n2\tb\n"
    with conn.transaction(), conn.cursor("c") as cursor:
        cursor.execute(f"SELECT v FROM t {past} ORDER BY id".encode())
        assert cursor.fetchall() == [("a",), ("b",)]
    with conn.transaction():
        assert rows(conn, f"INSERT INTO t SELECT * FROM t {past} RETURNING id", binary=True) == [(1,), (2,)]
    with psycopg.ServerCursor(conn, "h", withhold=True) as held:
        held.execute(f"SELECT count(*) FROM t {past}".encode())
        assert held.fetchall() == [(2,)]


def test_errors_end_the_statement_alone(server: ThreadServer, conn: psycopg.Connection[Any]) -> None:
    for sql, error in (
        ("SELECT * FROM t AS OF SYSTEM TIME %s", psycopg.errors.FeatureNotSupported),
        ("SELECT * FROM t AS OF SYSTEM TIME '1 day' WHERE id = %s", psycopg.errors.InvalidParameterValue),
        ("SELECT * FROM gone AS OF SYSTEM TIME '-1 us' WHERE id = %s", psycopg.errors.UndefinedTable),
        ("SELECT v / 0 FROM t AS OF SYSTEM TIME '-1 us' WHERE id = %s", psycopg.errors.UndefinedFunction),
    ):
        with pytest.raises(error):
            conn.execute(sql.encode(), (1,), prepare=True)
        assert rows(conn, "SELECT 1") == [(1,)]
    with pytest.raises(psycopg.errors.UndefinedTable), conn.transaction():
        conn.execute("SELECT * FROM gone AS OF SYSTEM TIME '-1 us'")
    assert rows(conn, "SELECT 1") == [(1,)]
    server.wait_for(lambda: not server.database.driver.waiting)


def test_a_cancel_comes_while_the_past_is_made(
    server: ThreadServer, conn: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = position(server)
    for number in range(3, 6):
        conn.execute(
            "INSERT INTO t SELECT g, 'x' FROM generate_series(%s::int, %s) g",
            (number * 1000, number * 1000 + 900),
        )
    steps, begun = _Making.steps, threading.Event()

    def endless(self: _Making, *arguments: Any) -> Iterator[None]:
        yield from steps(self, *arguments)
        begun.set()
        while True:
            yield

    after = position(server)
    with monkeypatch.context() as patched:
        patched.setattr(_Making, "steps", endless)
        thread = threading.Thread(target=lambda: (begun.wait(20), conn.cancel_safe()))
        thread.start()
        with pytest.raises(psycopg.errors.QueryCanceled):
            rows(conn, f"SELECT count(*) FROM t AS OF SYSTEM TIME '{after}'")
        thread.join()
        conn.execute("SET statement_timeout = 200")
        with pytest.raises(psycopg.errors.QueryCanceled, match="timeout"):
            rows(conn, f"SELECT count(*) FROM t AS OF SYSTEM TIME '{after}' WHERE id > %s", 0)
        conn.execute("RESET statement_timeout")
    assert rows(conn, f"SELECT count(*) FROM t AS OF SYSTEM TIME '{after}'") == [(2 + 3 * 901,)]
    assert rows(conn, f"SELECT count(*) FROM t AS OF SYSTEM TIME '{before}'") == [(2,)]
    server.wait_for(lambda: not server.database.driver.waiting)


def test_rights_are_those_of_now(server: ThreadServer, conn: psycopg.Connection[Any]) -> None:
    conn.execute("CREATE ROLE ann LOGIN; CREATE ROLE bob LOGIN")
    conn.execute("GRANT CREATE ON SCHEMA public TO ann")
    by = {name: server.dsn.replace("user=herdpy", f"user={name}") for name in ("ann", "bob")}
    with (
        psycopg.connect(by["ann"], autocommit=True) as ann,
        psycopg.connect(by["bob"], autocommit=True) as bob,
    ):
        ann.execute("CREATE TABLE hers (id int); INSERT INTO hers VALUES (1); CREATE TABLE kept (id int)")
        ann.execute("CREATE VIEW seen AS SELECT * FROM hers")
        ann.execute("GRANT SELECT ON hers, seen TO bob")
        conn.execute("GRANT SELECT ON t TO bob")
        granted = f"AS OF SYSTEM TIME '{position(server)}'"
        for table in ("hers", "t", "seen"):
            assert rows(bob, f"SELECT count(*) FROM {table} {granted}") == [(1 + (table == "t"),)]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            rows(bob, f"SELECT * FROM kept {granted}")
        ann.execute("GRANT SELECT ON kept TO bob")
        assert rows(bob, f"SELECT * FROM kept {granted}") == []  # by what he may now
        conn.execute("REVOKE SELECT ON t FROM bob")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            rows(bob, f"SELECT * FROM t {granted}")
        ann.execute("ALTER TABLE kept RENAME TO renamed")
        assert rows(bob, f"SELECT * FROM kept {granted}") == []
        ann.execute("DROP VIEW seen; DROP TABLE hers")
        for table in ("hers", "seen"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                rows(bob, f"SELECT * FROM {table} {granted}")
            assert rows(ann, f"SELECT * FROM {table} {granted}") == [(1,)]
            assert rows(conn, f"SELECT * FROM {table} {granted}") == [(1,)]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            bob.execute(f"CREATE TABLE x AS SELECT * FROM kept {granted}".encode())
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            bob.execute(f"INSERT INTO renamed SELECT * FROM kept {granted}".encode())
