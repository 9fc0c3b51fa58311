"""Two schemas with the same names: each statement means the one that it says, and none is half moved."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import herdpy

SETUP = """
CREATE SCHEMA s1; CREATE SCHEMA s2;
CREATE TABLE s1.t (a int PRIMARY KEY, b int); CREATE TABLE s2.t (a int PRIMARY KEY, c int);
INSERT INTO s1.t VALUES (1, 10), (2, 20); INSERT INTO s2.t VALUES (1, 100), (3, 300)
"""

POSTGRES: list[tuple[str, list[tuple[Any, ...]] | str]] = [
    ("SELECT s1.t.a, s2.t.a FROM s1.t, s2.t ORDER BY 1, 2", [(1, 1), (1, 3), (2, 1), (2, 3)]),
    ("SELECT t.a FROM s1.t, s2.t", "42P09"),
    ("SELECT a FROM s1.t, s2.t", "42702"),
    ("SELECT * FROM s1.t JOIN s2.t ON s2.t.a = s1.t.a", [(1, 10, 1, 100)]),
    ("SELECT s1.t.*, s2.t.c FROM s1.t JOIN s2.t ON s1.t.a = s2.t.a", [(1, 10, 100)]),
    ("SELECT t.* FROM s1.t, s2.t", "42P09"),
    ("SELECT b, c FROM s1.t, s2.t ORDER BY 1, 2", [(10, 100), (10, 300), (20, 100), (20, 300)]),
    ("SELECT s1.t.a FROM s1.t, s1.t", "42712"),
    ("SELECT 1 FROM s1.t, s2.t AS t", "42712"),
    ("SELECT s1.t.a FROM s2.t AS t, s1.t", "42712"),
    ("SELECT s1.t.a FROM s1.t AS x", "42P01"),
    ("SELECT s1.t.a FROM s1.t, (SELECT 1 a) t", "42712"),
    ("WITH t AS (SELECT 5 a) SELECT t.a, s1.t.b FROM t, s1.t", "42712"),
    ("SELECT s2.t.a FROM s1.t", "42P01"),
    ("SELECT s3.t.a FROM s1.t", "42P01"),
    ("SELECT 1 FROM (s1.t CROSS JOIN s2.t) JOIN s1.t ON true", "42712"),
    (
        "SELECT (SELECT max(s2.t.a) FROM s2.t WHERE s2.t.a = s1.t.a), t.b FROM s1.t ORDER BY 2",
        [(1, 10), (None, 20)],
    ),
    ("SELECT s1.t.a FROM s1.t WHERE EXISTS (SELECT 1 FROM s2.t WHERE t.a = s1.t.a)", [(1,)]),
    ("SELECT s1.t.a FROM s1.t WHERE NOT EXISTS (SELECT 1 FROM s2.t WHERE t.a = s1.t.a)", [(2,)]),
    ("SELECT s2.t.a FROM s1.t, s2.t GROUP BY s2.t.a ORDER BY s2.t.a", [(1,), (3,)]),
    ("SELECT a, b, c FROM s1.t JOIN s2.t USING (a)", [(1, 10, 100)]),
    ("SELECT a, b, c FROM s1.t NATURAL JOIN s2.t", [(1, 10, 100)]),
    ("SELECT s1.t.a, s2.t.a FROM s1.t LEFT JOIN s2.t ON s2.t.a = s1.t.a ORDER BY 1", [(1, 1), (2, None)]),
    ("SELECT s1.t.b FROM s1.t, s2.t WHERE s1.t.a = s2.t.a FOR UPDATE OF t", [(10,)]),
    ("UPDATE s1.t SET b = s2.t.c FROM s2.t WHERE s1.t.a = s2.t.a RETURNING s1.t.a, s2.t.a, b", [(1, 1, 100)]),
    ("UPDATE s1.t SET b = 0 WHERE EXISTS (SELECT 1 FROM s2.t WHERE s2.t.a = s1.t.a) RETURNING a", [(1,)]),
    ("DELETE FROM s1.t WHERE a IN (SELECT s2.t.a FROM s2.t WHERE s2.t.a = s1.t.a) RETURNING a", [(1,)]),
    ("DELETE FROM s1.t USING s2.t WHERE s1.t.a = s2.t.a RETURNING s1.t.*", [(1, 10)]),
    ("MERGE INTO s1.t USING s2.t ON s1.t.a = s2.t.a WHEN MATCHED THEN DELETE", "42712"),
    ("INSERT INTO s1.t SELECT s2.t.a + 10, s2.t.c FROM s2.t RETURNING s1.t.a", [(11,), (13,)]),
    ("INSERT INTO s1.t VALUES (1, 5) ON CONFLICT (a) DO UPDATE SET b = s1.t.b + 1 RETURNING s1.t.b", [(11,)]),
    ("SELECT pg_catalog.pg_class.relname FROM pg_catalog.pg_class WHERE false", []),
    ("SELECT public.k.a FROM k", [(7,)]),
]
"""What PostgreSQL 15 answers: rows, or the SQLSTATE."""


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[herdpy.Connection]:
    with herdpy.connect(f"herdpy://{tmp_path}", autocommit=True) as made:
        _do(made, SETUP)
        yield made


def _do(connection: herdpy.Connection, statements: str) -> None:
    for one in statements.split(";"):
        connection.execute(one)


def _answer(connection: herdpy.Connection, sql: str) -> list[tuple[Any, ...]] | str:
    try:
        cursor = connection.execute(sql)
        return [] if cursor.description is None else [tuple(row) for row in cursor.fetchall()]
    except herdpy.Error as error:
        return str(error.sqlstate)


def test_two_tables_of_one_name(connection: herdpy.Connection) -> None:
    _do(connection, "CREATE TABLE k (a int); INSERT INTO k VALUES (7)")
    for sql, answer in POSTGRES:
        connection.autocommit = False
        assert (sql, _answer(connection, sql)) == (sql, answer)
        connection.rollback()


def test_a_view_of_two_tables_of_one_name(connection: herdpy.Connection) -> None:
    connection.execute("CREATE VIEW v AS SELECT s1.t.a, s2.t.c FROM s1.t, s2.t WHERE s1.t.a = s2.t.a")
    connection.execute("CREATE VIEW w AS SELECT * FROM s1.t JOIN s2.t USING (a)")
    assert _answer(connection, "SELECT * FROM v") == [(1, 100)]
    assert _answer(connection, "SELECT * FROM w") == [(1, 10, 100)]
    assert _answer(connection, "SELECT v.c, s2.t.c FROM v, s2.t WHERE s2.t.a = v.a") == [(100, 100)]


@pytest.mark.parametrize(
    "there",
    [
        "CREATE TABLE s4.m (a int)",
        "CREATE VIEW s4.m AS SELECT 1 AS a",
        "CREATE SEQUENCE s4.m",
        "CREATE TABLE s4.m_pkey (a int)",
        "CREATE TABLE s4.y (a int); CREATE INDEX m_pkey ON s4.y (a)",
        "CREATE TABLE s4.y (a int CONSTRAINT m_pkey PRIMARY KEY)",
        "CREATE TABLE s4.y (a int); CREATE INDEX mi ON s4.y (a)",
        "CREATE TABLE s4.y (a int CONSTRAINT mi PRIMARY KEY)",
        "CREATE SEQUENCE s4.m_b_key",
        "CREATE SEQUENCE s4.m_n_seq",
        "CREATE VIEW s4.m_n_seq AS SELECT 1 AS a",
    ],
)
def test_a_table_does_not_move_over_others(connection: herdpy.Connection, there: str) -> None:
    _do(connection, "CREATE SCHEMA s4; CREATE TABLE m (a int PRIMARY KEY, b int UNIQUE, n serial)")
    _do(connection, "CREATE INDEX mi ON m (b); INSERT INTO m VALUES (1, 2)")
    _do(connection, there)
    names = "SELECT relname, relnamespace FROM pg_class WHERE relname LIKE 'm%' ORDER BY 1, 2"
    before = _answer(connection, names)
    assert _answer(connection, "ALTER TABLE m SET SCHEMA s4") == "42P07"
    assert _answer(connection, names) == before
    assert _answer(connection, "INSERT INTO public.m (a, b) VALUES (2, 3) RETURNING n") == [(2,)]


def test_a_type_and_a_table_do_not_share_a_name(connection: herdpy.Connection) -> None:
    _do(connection, "CREATE TYPE e AS ENUM ('a'); CREATE TYPE s1.e AS ENUM ('b'); CREATE TABLE s2.e (a int)")
    assert _answer(connection, "ALTER TYPE e SET SCHEMA s1") == "42710"
    assert _answer(connection, "ALTER TYPE e SET SCHEMA s2") == "42710"
    assert _answer(connection, "ALTER TABLE s2.e SET SCHEMA s1") == "42710"
    assert _answer(connection, "CREATE TABLE s1.e (a int)") == "42710"
    assert _answer(connection, "CREATE TYPE s2.e AS ENUM ('c')") == "42710"
    assert _answer(connection, "ALTER TYPE e SET SCHEMA public") == []
    assert _answer(connection, "SELECT 'a'::public.e, 'b'::s1.e") == [("a", "b")]


def test_names_of_keys_are_taken(connection: herdpy.Connection) -> None:
    assert _answer(connection, "CREATE INDEX t_pkey ON s1.t (b)") == "42P07"
    assert _answer(connection, "CREATE TABLE s1.t_pkey (a int)") == "42P07"
    assert _answer(connection, "CREATE SEQUENCE s1.t_pkey") == "42P07"
    assert _answer(connection, "CREATE VIEW s1.t_pkey AS SELECT 1 AS a") == "42P07"
    assert _answer(connection, "CREATE TABLE s1.u (a int CONSTRAINT t_pkey PRIMARY KEY)") == "42P07"
    assert _answer(connection, "CREATE TABLE t_pkey (a int)") == []


def test_made_up_names_are_those_of_the_schema(connection: herdpy.Connection) -> None:
    _do(connection, "CREATE INDEX ON s1.t (b); CREATE INDEX ON s1.t (b); CREATE INDEX ON s2.t (c)")
    _do(connection, "ALTER TABLE s1.t ADD UNIQUE (b); ALTER TABLE s1.t ADD UNIQUE (b)")
    names = "SELECT schemaname || '.' || indexname FROM pg_indexes ORDER BY 1"
    assert _answer(connection, names) == [
        (one,)
        for one in (
            "s1.t_b_idx",
            "s1.t_b_idx1",
            "s1.t_b_key",
            "s1.t_b_key1",
            "s1.t_pkey",
            "s2.t_c_idx",
            "s2.t_pkey",
        )
    ]


def test_each_goes_its_own_way(connection: herdpy.Connection) -> None:
    _do(connection, "CREATE SEQUENCE s1.n START 5; CREATE SEQUENCE s2.n START 50")
    assert _answer(connection, "SELECT nextval('s1.n'), nextval('s2.n'), nextval('s1.n')") == [(5, 50, 6)]
    _do(connection, "DROP SEQUENCE s1.n; CREATE INDEX ki ON s1.t (b); CREATE INDEX ki ON s2.t (c)")
    _do(connection, "DROP INDEX s1.ki; ALTER INDEX s2.ki RENAME TO kj")
    assert _answer(connection, "SELECT nextval('s2.n')") == [(51,)]
    kept = "SELECT schemaname, indexname FROM pg_indexes WHERE indexname LIKE 'k%'"
    assert _answer(connection, kept) == [("s2", "kj")]
    _do(connection, "ALTER TABLE s1.t ADD CONSTRAINT c CHECK (b > 0)")
    _do(connection, "ALTER TABLE s2.t ADD CONSTRAINT c CHECK (c > 50); ALTER TABLE s1.t DROP CONSTRAINT c")
    assert _answer(connection, "INSERT INTO s1.t VALUES (9, -1)") == []
    assert _answer(connection, "INSERT INTO s2.t VALUES (9, 1)") == "23514"
