"""RowDescription says which table and column a value is from, for the queries that PostgreSQL says it of."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.pgwire.servers import ThreadServer
from tests.pgwire.wire import SYNC, Wire, bind, describe, execute, parse

TABLES = """
CREATE TABLE rd_a (k int PRIMARY KEY, v text, n numeric(5,2));
CREATE TABLE rd_b (k int PRIMARY KEY, w text);
CREATE TABLE rd_c (k bigint PRIMARY KEY, x text);
CREATE TABLE rd_h (b int, c int);
CREATE TABLE rd_d (a int PRIMARY KEY, b int, c int);
ALTER TABLE rd_d DROP COLUMN b;
ALTER TABLE rd_d ADD COLUMN b int;
CREATE VIEW rd_v AS SELECT k, v AS name, n + 1 AS more FROM rd_a;
CREATE VIEW rd_vv (one, two) AS SELECT rd_v.name, rd_b.w FROM rd_v JOIN rd_b USING (k);
CREATE VIEW rd_s AS SELECT v, k FROM rd_a;
"""
QUERIES = [
    "SELECT * FROM rd_a",
    "SELECT * FROM rd_a WHERE k = 1",
    "SELECT v, k, k + 1, 1, NULL FROM rd_a WHERE k = 1",
    "SELECT v AS other, (k), ((n)) FROM rd_a ORDER BY v",
    "SELECT x.k, x.* FROM rd_a AS x",
    "SELECT a.k, b.k, v, w FROM rd_a a JOIN rd_b b ON a.k = b.k",
    "SELECT k, v, w FROM rd_a JOIN rd_b USING (k)",
    "SELECT * FROM rd_a JOIN rd_b USING (k)",
    "SELECT * FROM rd_a LEFT JOIN rd_b USING (k)",
    "SELECT * FROM rd_a RIGHT JOIN rd_b USING (k)",
    "SELECT * FROM rd_a FULL JOIN rd_b USING (k)",
    "SELECT * FROM rd_a NATURAL JOIN rd_b",
    "SELECT * FROM rd_a a LEFT JOIN rd_b b ON a.k = b.k WHERE a.k < 3",
    "SELECT * FROM (SELECT k AS one, v || 'x' AS two, n FROM rd_a) AS s",
    "SELECT s.n FROM (SELECT k, sum(n) AS n FROM rd_a GROUP BY k) AS s",
    "SELECT k, count(*), max(v) FROM rd_a GROUP BY k",
    "SELECT DISTINCT v, k FROM rd_a",
    "SELECT k FROM rd_a UNION SELECT k FROM rd_b",
    "SELECT k FROM rd_a UNION ALL SELECT 1",
    "WITH w AS (SELECT k, v FROM rd_a) SELECT *, k + 1 FROM w",
    "WITH w (one) AS (SELECT v FROM rd_a) SELECT one FROM w JOIN rd_b ON one = w",
    "WITH RECURSIVE r AS (SELECT k FROM rd_a UNION ALL SELECT k + 1 FROM r WHERE k < 3) SELECT k FROM r",
    "SELECT (SELECT v FROM rd_a LIMIT 1)",
    "SELECT k, (SELECT w FROM rd_b WHERE rd_b.k = rd_a.k) FROM rd_a",
    "VALUES (1, 'x')",
    "SELECT * FROM (VALUES (1)) AS v (c)",
    "SELECT coalesce(v, ''), k::text, v || '' FROM rd_a",
    "SELECT row_number() OVER (ORDER BY k), k FROM rd_a",
    "SELECT * FROM rd_h",
    "SELECT c, b FROM rd_h WHERE b > 1 ORDER BY c LIMIT 1",
    "INSERT INTO rd_a VALUES (1, 'x', 1) RETURNING *, k + 1",
    "UPDATE rd_a SET v = 'y' WHERE k = 1 RETURNING v, k AS key",
    "DELETE FROM rd_a WHERE k = 1 RETURNING rd_a.k, n",
    "TABLE rd_b",
    "SELECT * FROM rd_a, rd_b",
    "SELECT * FROM generate_series(1, 2) AS g (i)",
    "SELECT * FROM rd_v",
    "SELECT x.more, name, a + 1 FROM rd_v AS x (a) WHERE a = 1",
    "SELECT a, name FROM rd_v AS x (a)",
    "SELECT * FROM rd_vv",
    "SELECT s.one FROM (SELECT two AS one FROM rd_vv) AS s",
    "SELECT k, w, name FROM rd_b JOIN rd_v USING (k)",
    "SELECT k, w, name FROM rd_v RIGHT JOIN rd_b USING (k)",
    "WITH w AS (SELECT name FROM rd_v) SELECT * FROM w",
    "TABLE rd_v",
    "SELECT max(k), name FROM rd_v GROUP BY name ORDER BY name",
    "SELECT v, k FROM rd_s WHERE k = 1",
    "SELECT l.v FROM rd_b, LATERAL (SELECT v FROM rd_a WHERE rd_a.k = rd_b.k) AS l",
    "SELECT l.name FROM rd_b, LATERAL (SELECT name FROM rd_v WHERE rd_v.k = rd_b.k) AS l",
    "SELECT * FROM rd_d",
]


@pytest.fixture(scope="module")
def both(server: ThreadServer, postgres: str) -> Iterator[list[psycopg.Connection[Any]]]:
    with (
        psycopg.connect(server.dsn, autocommit=True) as ours,
        psycopg.connect(postgres, autocommit=True) as theirs,
    ):
        theirs.execute("CREATE SCHEMA rd")
        theirs.execute("SET search_path = rd")
        for connection in (ours, theirs):
            connection.execute(TABLES)
        yield [ours, theirs]
        theirs.execute("DROP SCHEMA rd CASCADE")


def origins(connection: psycopg.Connection[Any], sql: str) -> list[Any]:
    """Names of tables and columns, as the catalog has them for the numbers of the RowDescription."""
    result = connection.execute(sql).pgresult
    assert result is not None
    found: list[Any] = []
    for i in range(result.nfields):
        table, number = result.ftable(i), result.ftablecol(i)
        if not table:
            found.append((result.fname(i), None, number))
            continue
        row = connection.execute(
            "SELECT c.relname, a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid "
            f"WHERE c.oid = {table} AND a.attnum = {number}"
        ).fetchone()
        found.append((result.fname(i), row, number))
    return found


@pytest.mark.parametrize("sql", QUERIES)
def test_columns_are_from_where_postgres_says(both: list[psycopg.Connection[Any]], sql: str) -> None:
    ours, theirs = both
    assert origins(ours, sql) == origins(theirs, sql)


@pytest.mark.parametrize("engine", ["own", "columnar"])
def test_both_engines_say_the_same(both: list[psycopg.Connection[Any]], engine: str) -> None:
    ours, _ = both
    ours.execute(f"SET herdpy.engine = {engine}")
    try:
        found = origins(ours, "SELECT v, a.k, w, a.k + 1 FROM rd_a a JOIN rd_b b ON a.k = b.k")
    finally:
        ours.execute("RESET herdpy.engine")
    assert [where for _name, where, _number in found] == [("rd_a", "v"), ("rd_a", "k"), ("rd_b", "w"), None]


def test_a_prepared_statement_says_it_too(both: list[psycopg.Connection[Any]], server: ThreadServer) -> None:
    with Wire(server.address) as wire:
        wire.start()
        replies = wire.ask(parse("SELECT v FROM rd_a WHERE k = $1") + describe("S") + SYNC)
        described = next(one.body for one in replies if one.kind == "T")
        table, number = struct.unpack_from(">Ih", described, 2 + len(b"v\0"))
        assert table > 0
        assert number == 2


@pytest.mark.parametrize("source", ["rd_a", "rd_v", "(SELECT k, v, k + 1 FROM rd_a) AS s"])
@pytest.mark.parametrize("hold", ["", "WITH HOLD"])
def test_what_is_fetched_is_from_where_the_query_has_it(
    both: list[psycopg.Connection[Any]], source: str, hold: str
) -> None:
    found = []
    for connection in both:
        with connection.transaction():
            connection.execute(f"DECLARE c CURSOR {hold} FOR SELECT * FROM {source}")
            found.append(
                [origins(connection, "FETCH 1 FROM c"), origins(connection, "FETCH BACKWARD ALL FROM c")]
            )
            connection.execute("CLOSE c")
    assert found[0] == found[1]


def test_described_portals_say_it(both: list[psycopg.Connection[Any]], server: ThreadServer) -> None:
    with Wire(server.address) as wire:
        wire.start()
        asked = parse("SELECT name FROM rd_v") + bind() + describe("P") + SYNC
        described = next(one.body for one in wire.ask(asked) if one.kind == "T")
        statement = parse("DECLARE c CURSOR FOR SELECT name FROM rd_v", "d") + bind(statement="d") + execute()
        fetched = parse("FETCH 1 FROM c", "f") + describe("S", "f") + SYNC
        begun = parse("BEGIN", "b") + bind(statement="b") + execute()
        again = next(one.body for one in wire.ask(begun + statement + fetched) if one.kind == "T")
    place = 2 + len(b"name\0")
    assert described[place : place + 6] == again[place : place + 6]
    table, number = struct.unpack_from(">Ih", described, place)
    assert table > 0
    assert number == 2
