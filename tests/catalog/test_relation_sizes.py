"""Sizes of relations: pages of LMDB as of the last checkpoint, by PostgreSQL's functions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import herdpy


@pytest.fixture
def conn(tmp_path: Path) -> Iterator[herdpy.Connection]:
    with herdpy.connect(tmp_path, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA other")
        for schema, rows in (("public", 5000), ("other", 10)):
            connection.execute(f"CREATE TABLE {schema}.t (id int PRIMARY KEY, a text, b int)")
            connection.execute(f"CREATE INDEX t_a ON {schema}.t (a)")
            connection.execute(f"CREATE INDEX t_b ON {schema}.t (b)")
            connection.execute(
                f"INSERT INTO {schema}.t SELECT i, repeat('x', 50) || i, i"
                f" FROM generate_series(1, {rows}) g(i)"
            )
        yield connection


def sizes(conn: herdpy.Connection, *calls: str) -> tuple[int, ...]:
    (row,) = conn.execute(f"SELECT {', '.join(calls)}").fetchall()
    return row


def test_a_size_is_that_of_the_last_checkpoint(conn: herdpy.Connection) -> None:
    assert sizes(conn, "pg_total_relation_size('t')") == (0,)
    conn.execute("CHECKPOINT")
    table, other = sizes(conn, "pg_relation_size('t')", "pg_relation_size('other.t')")
    assert 5000 * 50 < table < 5000 * 50 * 4
    assert 0 < other < table
    assert table % 4096 == 0


def test_a_tables_whole_is_it_and_its_indexes(conn: herdpy.Connection) -> None:
    conn.execute("CHECKPOINT")
    table, whole, indexes, a, b = sizes(
        conn,
        "pg_table_size('t')",
        "pg_total_relation_size('t')",
        "pg_indexes_size('t')",
        "pg_relation_size('t_a')",
        "pg_relation_size('t_b')",
    )
    assert a > b > 0
    assert indexes == a + b
    assert whole == table + indexes
    (database,) = sizes(conn, "pg_database_size(current_database())")
    assert database > whole


def test_sizes_of_all_tables_by_their_oids(conn: herdpy.Connection) -> None:
    conn.execute("CHECKPOINT")
    rows = conn.execute(
        "SELECT n.nspname, pg_total_relation_size(c.oid) FROM pg_class c JOIN pg_namespace n"
        " ON n.oid = c.relnamespace WHERE c.relname = 't' AND c.relkind = 'r' ORDER BY 2"
    ).fetchall()
    assert [schema for schema, _ in rows] == ["other", "public"]
    assert rows[0][1] < rows[1][1]


def test_truncate_gives_the_pages_back(conn: herdpy.Connection) -> None:
    conn.execute("CHECKPOINT")
    conn.execute("TRUNCATE t")
    conn.execute("CHECKPOINT")
    assert sizes(conn, "pg_total_relation_size('t')") == (0,)


def test_forks_and_names_that_are_none(conn: herdpy.Connection) -> None:
    conn.execute("CHECKPOINT")
    main, whole, rest = sizes(
        conn, "pg_relation_size('t', 'main')", "pg_relation_size('t')", "pg_relation_size('t', 'vm')"
    )
    assert main == whole
    assert rest == 0
    assert sizes(conn, "pg_relation_size(99999999)", "pg_database_size('elsewhere')") == (None, None)
    with pytest.raises(herdpy.Error, match="invalid fork name") as caught:
        sizes(conn, "pg_relation_size('t', 'x')")
    assert caught.value.sqlstate == "22023"
    with pytest.raises(herdpy.Error) as caught:
        sizes(conn, "pg_relation_size('nowhere')")
    assert caught.value.sqlstate == "42P01"
