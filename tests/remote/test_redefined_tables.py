"""Statements that were prepared, of a table that is another one by now."""

from __future__ import annotations

import pytest

import herdpy


def connected(server):
    return herdpy.connect(f"herdpy://ann@127.0.0.1:{server.port}/test")


@pytest.fixture
def conn(server):
    with connected(server) as conn:
        conn.execute("DROP TABLE IF EXISTS redefined, redefined_too")
        make(conn, "TEXT")
        conn.commit()
        yield conn


def make(conn, sql_type):
    conn.execute(f"CREATE TABLE redefined (v {sql_type})")
    conn.execute("INSERT INTO redefined VALUES ('7')")


def read(conn, times=3):
    """What it holds, read so often that the statement is prepared."""
    (value,) = {conn.execute("SELECT v FROM redefined").fetchone()[0] for _ in range(times)}
    return value


def test_made_anew_in_the_midst_of_a_transaction(conn):
    assert read(conn) == "7"
    conn.execute("DROP TABLE redefined")
    make(conn, "BIGINT")
    assert read(conn) == 7


def test_a_definition_that_is_rolled_back(conn):
    assert read(conn) == "7"
    conn.execute("ALTER TABLE redefined ALTER COLUMN v TYPE BIGINT USING v::bigint")
    assert read(conn) == 7
    conn.rollback()
    conn.execute("SAVEPOINT one")
    assert read(conn) == "7"
    conn.execute("ALTER TABLE redefined ALTER COLUMN v TYPE BIGINT USING v::bigint")
    assert read(conn) == 7
    conn.execute("ROLLBACK TO SAVEPOINT one")
    assert read(conn) == "7"


def test_made_anew_by_another_fails_one_transaction_at_most(conn, server):
    assert read(conn) == "7"
    conn.commit()
    with connected(server) as other:
        other.execute("ALTER TABLE redefined ALTER COLUMN v TYPE BIGINT USING v::bigint")
    conn.execute("SELECT 1")
    with pytest.raises(herdpy.NotSupportedError, match="cached plan must not change result type"):
        read(conn)
    conn.rollback()
    conn.execute("SELECT 1")
    assert read(conn) == 7


def prepared(conn):
    """The statements on the table that the driver has prepared in its session."""
    named = "SELECT statement FROM pg_prepared_statements WHERE statement LIKE '%%redefined'"
    return [row[0] for row in conn.execute(named).fetchall()]


def read_in_transactions(conn):
    for _ in range(3):
        with conn.transaction():
            conn.execute("SELECT v FROM redefined")


@pytest.mark.parametrize("last", ["commit", "rollback", "refused"])
def test_statements_are_prepared_after_a_transaction_that_has_redefined(conn, last):
    conn.autocommit = True
    conn.execute("BEGIN")
    conn.execute("CREATE TABLE redefined_too (id INT PRIMARY KEY)")
    deferred = "REFERENCES redefined_too DEFERRABLE INITIALLY DEFERRED"
    conn.execute(f"ALTER TABLE redefined_too ADD COLUMN needs INT {deferred}")
    if last == "commit":
        conn.commit()
    elif last == "rollback":
        conn.rollback()
    else:
        conn.execute("INSERT INTO redefined_too VALUES (1, 2)")
        with pytest.raises(herdpy.IntegrityError):
            conn.commit()
    read_in_transactions(conn)
    assert prepared(conn) == ["SELECT v FROM redefined"]
