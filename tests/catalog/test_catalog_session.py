"""pg_cursors and pg_prepared_statements: what the session has, as PostgreSQL tells it."""

# ruff: noqa: E501 - queries are easier to read in long lines
from __future__ import annotations

from typing import Any

import psycopg
from psycopg import generators, waiting

from tests.catalog.alike import Asked, Both

PREPARED = "SELECT name, statement, parameter_types, from_sql, generic_plans, custom_plans FROM pg_prepared_statements ORDER BY 1"
CURSORS = "SELECT name, statement, is_holdable, is_binary, is_scrollable FROM pg_cursors ORDER BY 1"


def test_statements_by_sql(both: Both) -> None:
    both.define(
        "CREATE TABLE t (a int PRIMARY KEY, b text)",
        "PREPARE p1 AS SELECT * FROM t WHERE a = $1",
        "PREPARE p2 (text, numeric(10,2)) AS INSERT INTO t(b) VALUES ($1 || $2)",
        '  prepare "P 3" as select 1 ; ',
        "SELECT 1 AS one ; /* two */ PREPARE p5 AS SELECT 5",
    )
    questions = [PREPARED, "EXECUTE p1(1)", "EXECUTE p1(2)", 'EXECUTE "P 3"', PREPARED]
    questions += [
        "SELECT prepare_time <= now(), prepare_time > now() - interval '1 h' FROM pg_prepared_statements"
    ]
    questions += [
        "BEGIN",
        "PREPARE p4 AS SELECT 1",
        "SELECT prepare_time > now() FROM pg_prepared_statements WHERE name = 'p4'",
    ]
    questions += ["ROLLBACK", "SELECT count(*) FROM pg_prepared_statement()", "DEALLOCATE p1", PREPARED]
    questions += ["DEALLOCATE ALL", PREPARED]
    assert both.differences(questions) == []


def test_statements_of_messages(both: Both) -> None:
    for one in (both.herdpy, both.postgres):
        connection = one.connection
        for work in (
            lambda connection=connection: connection.send_prepare(b"named", b"SELECT $1::int, $2::text[]"),
            lambda connection=connection: connection.send_query_prepared(b"named", [b"1", b"{x}"]),
        ):
            work()
            waiting.wait(generators.execute(connection), connection.socket)
    assert both.differences([PREPARED]) == []


def test_five_plans_are_for_their_parameters(both: Both) -> None:
    both.define("PREPARE p AS SELECT $1::int")
    assert both.differences([*(f"EXECUTE p({n})" for n in range(8)), PREPARED]) == []


def test_cursors(both: Both) -> None:
    both.define("CREATE TABLE t (a int PRIMARY KEY, b text)", "BEGIN")
    declared = [
        "DECLARE c1 CURSOR FOR SELECT * FROM t",
        "DECLARE c2 SCROLL CURSOR WITH HOLD FOR SELECT 1",
        'declare "C 3" binary no scroll cursor for select 2',
        "DECLARE c4 CURSOR FOR SELECT count(*) FROM t",
        "DECLARE c5 CURSOR FOR SELECT * FROM t ORDER BY b",
        "DECLARE c6 CURSOR FOR SELECT * FROM t FOR UPDATE",
        "DECLARE c7 CURSOR FOR SELECT 1 UNION ALL SELECT 2",
        "DECLARE c8 CURSOR FOR SELECT * FROM t, t t2",
        "DECLARE c9 CURSOR FOR VALUES (1)",
        "DECLARE d1 CURSOR FOR SELECT generate_series(1, 2)",
        "DECLARE d2 CURSOR FOR SELECT * FROM generate_series(1, 2)",
        "DECLARE d3 CURSOR FOR SELECT a FROM (SELECT a FROM t) AS s LIMIT 3",
        "SELECT 1; DECLARE d4 CURSOR FOR SELECT 1",
    ]
    both.define(*declared)
    now = "SELECT creation_time > now() FROM pg_cursors"
    questions = [
        CURSORS,
        now,
        "CLOSE c1",
        "COMMIT",
        CURSORS,
        "SELECT count(*) FROM pg_cursor()",
        "CLOSE c2",
        CURSORS,
    ]
    assert both.differences(questions) == []


def test_portals_of_messages_are_cursors(both: Both) -> None:
    def seen(one: Asked) -> list[Any]:
        connection = one.connection
        connection.send_query_params(
            b"SELECT name, statement, is_holdable, is_scrollable FROM pg_cursors", []
        )
        (result,) = waiting.wait(generators.execute(connection), connection.socket)
        return [[result.get_value(row, i) for i in range(4)] for row in range(result.ntuples)]

    assert seen(both.herdpy) == seen(both.postgres)


def test_a_statement_that_psycopg_prepares(both: Both) -> None:
    own = both.herdpy.connection
    with psycopg.connect(
        f"host=127.0.0.1 port={own.port.decode()} user=ann dbname=alike", autocommit=True
    ) as conn:
        for _ in range(3):
            conn.execute("SELECT %s::int", (1,), prepare=True)
        row = conn.execute(
            "SELECT from_sql, custom_plans, parameter_types FROM pg_prepared_statements"
        ).fetchone()
    assert row is not None
    assert row[:2] == (False, 3)
