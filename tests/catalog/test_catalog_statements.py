"""Statements that administrators and pgbench send: ALTER TABLE ADD, VACUUM, ANALYZE, storage parameters."""

# ruff: noqa: E501 - statements are easier to read in long lines
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import herdpy
from herdpy.dbapi import Connection


def rows(database: Connection, query: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in database.execute(query).fetchall()]


def fails(database: Connection, statement: str) -> str | None:
    with pytest.raises(herdpy.Error) as caught:
        database.execute(statement)
    return caught.value.sqlstate


def test_a_key_is_added_to_rows(tmp_path: Path) -> None:
    with herdpy.connect(tmp_path / "data", autocommit=True) as database:
        database.execute("CREATE TABLE t (a int, b text DEFAULT 'x', c int, UNIQUE (c))")
        database.execute("CREATE INDEX t_b ON t (b DESC)")
        database.execute("INSERT INTO t SELECT 1000 - n, 'b' || n, n FROM generate_series(1, 1000) AS n")
        database.execute("ALTER TABLE t ADD PRIMARY KEY (a)")
        plan = rows(database, "EXPLAIN SELECT * FROM t WHERE a = 1")
        assert "t_pkey" in str(plan)
        assert fails(database, "INSERT INTO t VALUES (1, 'y', 5000)") == "23505"
        assert fails(database, "INSERT INTO t VALUES (NULL, 'y', 5000)") == "23502"
        assert fails(database, "INSERT INTO t VALUES (5000, 'y', 1)") == "23505"
        database.execute("INSERT INTO t (a, c) VALUES (5000, 5000)")
    with herdpy.connect(tmp_path / "data", autocommit=True) as database:
        assert rows(database, "SELECT count(*), min(a), max(a) FROM t") == [(1001, 0, 5000)]
        assert rows(database, "SELECT * FROM t WHERE a = 999") == [(999, "b1", 1)]
        assert rows(database, "SELECT a FROM t WHERE b = 'b7'") == [(993,)]
        assert rows(database, "SELECT a FROM t WHERE c = 8") == [(992,)]
        assert rows(database, "SELECT b FROM t WHERE a = 5000") == [("x",)]
        names = "SELECT indexname FROM pg_indexes WHERE tablename = 't' ORDER BY 1"
        assert rows(database, names) == [("t_b",), ("t_c_key",), ("t_pkey",)]


def test_columns_of_every_kind_of_type_have_its_name(empty: Connection) -> None:
    empty.execute("CREATE TYPE mood AS ENUM ('low')")
    empty.execute("CREATE TABLE t (a vector(3), b mood, c mood[], d int[], e numeric(4, 1)[], f text)")
    query = "SELECT udt_schema, udt_name FROM information_schema.columns WHERE table_name = 't' ORDER BY ordinal_position"
    assert rows(empty, query) == [
        ("public", "vector"), ("public", "mood"), ("public", "_mood"),
        ("pg_catalog", "_int4"), ("pg_catalog", "_numeric"), ("pg_catalog", "text"),
    ]  # fmt: skip


def test_a_refused_key_leaves_the_table_as_it_was(empty: Connection) -> None:
    empty.execute("CREATE TABLE t (a int, b int)")
    empty.execute("INSERT INTO t VALUES (1, 1), (1, 2), (NULL, 3)")
    assert fails(empty, "ALTER TABLE t ADD PRIMARY KEY (b, a)") == "23502"
    empty.execute("DELETE FROM t WHERE a IS NULL")
    assert fails(empty, "ALTER TABLE t ADD PRIMARY KEY (a)") == "23505"
    assert rows(empty, "SELECT * FROM t ORDER BY b") == [(1, 1), (1, 2)]
    assert rows(empty, "SELECT * FROM pg_indexes WHERE tablename = 't'") == []
    empty.execute("BEGIN")
    empty.execute("ALTER TABLE t ADD CONSTRAINT both PRIMARY KEY (a, b)")
    assert rows(empty, "SELECT indexname FROM pg_indexes WHERE tablename = 't'") == [("both",)]
    empty.execute("ROLLBACK")
    empty.execute("INSERT INTO t VALUES (1, 2)")
    assert rows(empty, "SELECT count(*) FROM t") == [(3,)]


def test_a_unique_constraint_is_added(empty: Connection) -> None:
    empty.execute("CREATE TABLE t (a int PRIMARY KEY, b int)")
    empty.execute("INSERT INTO t VALUES (1, 1), (2, 1), (3, NULL), (4, NULL)")
    assert fails(empty, "ALTER TABLE t ADD UNIQUE (b)") == "23505"
    empty.execute("UPDATE t SET b = 2 WHERE a = 2")
    empty.execute("ALTER TABLE t ADD UNIQUE (b)")
    assert fails(empty, "INSERT INTO t VALUES (5, 2)") == "23505"
    kinds = "SELECT conname, contype FROM pg_constraint WHERE conrelid = 't'::regclass ORDER BY 1"
    assert rows(empty, kinds) == [("t_b_key", "u"), ("t_pkey", "p")]


ERRORS = [
    "ALTER TABLE nosuch ADD PRIMARY KEY (a)",
    "ALTER TABLE t ADD PRIMARY KEY (a)",
    "ALTER TABLE u ADD PRIMARY KEY (nosuch)",
    "ALTER TABLE u ADD PRIMARY KEY (a, a)",
    "ALTER TABLE u ADD PRIMARY KEY (j)",
    "ALTER TABLE u ADD CONSTRAINT t PRIMARY KEY (a)",
    "ALTER TABLE u ADD PRIMARY KEY",
    "ALTER TABLE u ADD PRIMARY KEY ()",
    "ALTER TABLE",
    "VACUUM nosuch",
    "VACUUM (nosuch)",
    "VACUUM t,",
    "ANALYZE nosuch",
    "BEGIN; VACUUM t",
    "CREATE TABLE x (a int) WITH (nosuch = 1)",
    "TRUNCATE t, nosuch",
    "DROP TABLE t, nosuch",
]


@pytest.mark.parametrize("text", ERRORS)
def test_errors_as_postgres(empty: Connection, postgres_catalog: str, text: str) -> None:
    import psycopg

    prepare = ["CREATE TABLE t (a int PRIMARY KEY, b int)", "CREATE TABLE u (a int, j json)"]
    *before, last = text.split("; ")
    with psycopg.connect(postgres_catalog, autocommit=True) as reference:
        reference.execute("CREATE SCHEMA own")
        try:
            reference.execute("SET search_path = own")
            for statement in prepare + before:
                reference.execute(statement)
            with pytest.raises(psycopg.Error) as expected:
                reference.execute(last)
            reference.execute("ROLLBACK")
        finally:
            reference.execute("DROP SCHEMA own CASCADE")
    for statement in prepare + before:
        empty.execute(statement)
    assert fails(empty, last) == expected.value.sqlstate
    empty.rollback()


@pytest.mark.parametrize(
    "statement",
    [
        "VACUUM", "VACUUM t", "VACUUM ANALYZE t", "VACUUM (VERBOSE, ANALYZE) public.t (a, b)",
        "VACUUM FULL FREEZE VERBOSE t, u", "VACUUM (FULL off, PARALLEL 2)", "ANALYZE", "ANALYZE VERBOSE t (a)", "ANALYSE u",
        "ALTER TABLE IF EXISTS nosuch ADD PRIMARY KEY (a)", "ALTER TABLE ONLY u ADD PRIMARY KEY (a) WITH (fillfactor = 90)",
        "CREATE UNLOGGED TABLE x (a int)", "CREATE TABLE x (a int) WITH (fillfactor=100, autovacuum_enabled = false)",
        "TRUNCATE TABLE t, u", "DROP TABLE IF EXISTS nosuch, t, u, nosuch",
    ],
)  # fmt: skip
def test_accepted(empty: Connection, statement: str) -> None:
    empty.execute("CREATE TABLE t (a int PRIMARY KEY, b int)")
    empty.execute("CREATE TABLE u (a int)")
    assert empty.execute(statement).description is None


def test_vacuum_checkpoints(tmp_path: Path) -> None:
    with herdpy.connect(tmp_path / "data", autocommit=True) as database:
        database.execute("CREATE TABLE t (a int PRIMARY KEY)")
        database.execute("INSERT INTO t SELECT n FROM generate_series(1, 5000) AS n")
        store = tmp_path / "data"
        before = sum(f.stat().st_size for f in store.rglob("*.mdb"))
        database.execute("VACUUM t")
        assert sum(f.stat().st_size for f in store.rglob("*.mdb")) > before


@pytest.mark.parametrize("parameter", ["$0.05", "$0", "$x", "$99999999999"])
def test_a_parameter_that_cannot_be_is_refused(tmp_path: Path, parameter: str) -> None:
    with herdpy.connect(tmp_path / "data", autocommit=True) as database:
        assert fails(database, f"SELECT pg_sleep({parameter})") in {"42601", "42P02"}


def test_labels_of_an_enum_are_labels_in_a_query_about_the_session(empty: Connection) -> None:
    empty.execute("CREATE TYPE size AS ENUM ('small', 'large')")
    empty.execute("CREATE TABLE goods (id int PRIMARY KEY, size size)")
    empty.execute("INSERT INTO goods VALUES (1, 'small'), (2, 'large'), (3, NULL)")
    asked = "SELECT size, current_user IS NOT NULL FROM goods "
    assert rows(empty, asked + "ORDER BY size") == [("small", True), ("large", True), (None, True)]
    assert rows(empty, asked + "WHERE size = 'large'") == [("large", True)]
    assert rows(empty, asked + "WHERE size > 'small'::size") == [("large", True)]
    for text in ("size > 'small'", "'small' < size", "size BETWEEN 'large' AND 'large'"):
        assert rows(empty, asked + f"WHERE {text}") == [("large", True)], text
    assert rows(empty, "SELECT 1") == [(1,)]


@pytest.mark.parametrize(
    ("statement", "left"),
    [
        ("UPDATE kept SET name = current_user", [(1, "herdpy")]),
        ("INSERT INTO kept VALUES (2, current_user)", [(1, "one"), (2, "herdpy")]),
        ("DELETE FROM kept WHERE name <> current_setting('work_mem')", []),
        (
            "MERGE INTO kept USING (SELECT 1 AS x) s ON id = x WHEN MATCHED THEN UPDATE SET name = current_user",
            [(1, "herdpy")],
        ),
        ("UPDATE kept SET id = 'pg_class'::regclass::oid::bigint", [(1259, "one")]),
    ],
)
def test_a_change_asks_about_the_session(
    empty: Connection, statement: str, left: list[tuple[int, str]]
) -> None:
    empty.execute("CREATE TABLE kept (id bigint PRIMARY KEY, name text)")
    empty.execute("INSERT INTO kept VALUES (1, 'one')")
    empty.execute(statement)
    assert rows(empty, "SELECT * FROM kept ORDER BY id") == left
