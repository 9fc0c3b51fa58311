"""What a session's time zone decides: HerdPy's two engines and PostgreSQL are asked the same, in several zones."""

# ruff: noqa: E501 - a statement is one line
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import herdpy
from herdpy_sql.types import Base
from herdpy_sql.values import to_text
from herdpy_sql.values.moment_output import styled_timestamptz
from herdpy_sql.values.styles import in_zone
from tests.differential.diff_run import Answer, Statement, on_postgres

ZONES = ["America/Los_Angeles", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kolkata", "UTC"]

MOMENTS = [
    "2020-02-11 15:44:17+00", "2020-03-08 09:59:59.999999+00", "2020-03-08 10:30:00+00", "2020-11-01 08:30:00+00",
    "2020-11-01 09:30:00.25+00", "2020-10-25 00:30:00+00", "2020-10-25 01:30:00+00", "2020-03-29 00:30:00+00",
    "2020-04-04 14:45:00+00", "2020-04-04 15:15:00+00", "2020-10-03 15:20:00+00", "1969-12-31 23:59:59.999999+00",
    "1880-01-01 00:00:00+00", "0044-03-15 12:00:00+00 BC", "2079-07-01 12:00:00+00", "2079-01-01 12:00:00+00",
    "infinity", "-infinity",
]  # fmt: skip
LOCALS = [
    "2020-03-08 02:30:00", "2020-11-01 01:30:00", "2020-11-01 01:59:59.999999", "2020-10-25 02:30:00",
    "2020-03-29 02:30:00", "2020-04-05 01:45:00", "2020-10-04 02:10:00", "2020-02-11 15:44:17",
    "1880-01-01 00:00:00", "2079-07-01 12:00:00", "infinity", "-infinity",
]  # fmt: skip

QUERIES = [
    "SELECT id, at::text FROM moments",
    "SELECT id, at::timestamp FROM moments",
    "SELECT id, at::date FROM moments",
    "SELECT id, at::time FROM moments",
    "SELECT id, local::timestamptz FROM locals",
    "SELECT id, local::date::timestamptz FROM locals",
    "SELECT id, local::text::timestamptz FROM locals",
    "SELECT id, local AT TIME ZONE 'America/New_York' FROM locals",
    "SELECT id, local AT TIME ZONE 'Europe/Berlin' FROM locals",
    "SELECT id, at AT TIME ZONE 'Australia/Lord_Howe' FROM moments",
    "SELECT id, at AT TIME ZONE z FROM moments, (VALUES ('Asia/Tokyo'), ('America/Los_Angeles')) AS v(z)",
    *[
        f"SELECT id, at {sign} interval '{step}' FROM moments"
        for sign in "+-"
        for step in ("24 hours", "1 day", "1 month", "1 mon 1 day 25:00:00", "90 minutes", "1 year -36:00:00")
    ],
    *[
        f"SELECT id, date_trunc('{unit}', at) FROM moments"
        for unit in ("second", "minute", "hour", "day", "week", "month", "quarter", "year", "decade", "century")
    ],
    *[
        f"SELECT id, extract({field} FROM at) FROM moments WHERE isfinite(at)"
        for field in ("year", "month", "day", "hour", "minute", "second", "dow", "isodow", "doy", "week", "isoyear", "epoch", "quarter")
    ],
    "SELECT id, extract(timezone FROM at) FROM moments WHERE isfinite(at) AND at > '1900-01-01'",
    "SELECT id, to_char(at, 'YYYY-MM-DD HH24:MI:SS.US TZH') FROM moments WHERE at > '1900-01-01' AND isfinite(at)",
    "SELECT id FROM moments WHERE at > timestamptz '2020-11-01 01:00'",
    "SELECT id FROM moments WHERE at > '2020-11-01 01:00'",
    "SELECT id FROM moments WHERE at < '2020-02-11 15:44:18'",
    "SELECT id FROM moments WHERE at IN ('2020-02-11 15:44:17', '2020-02-11 07:44:17', '2020-02-11 16:44:17')",
    "SELECT id FROM moments WHERE at = ANY ('{2020-02-11 15:44:17,2020-02-11 07:44:17}')",
    "SELECT id FROM moments WHERE at = ANY ('{2020-02-11 15:44:17,2020-02-11 07:44:17}'::timestamptz[])",
    "SELECT id FROM moments WHERE at = ANY (ARRAY['2020-02-11 15:44:17', '2020-02-11 07:44:17']::timestamptz[])",
    "SELECT id FROM moments WHERE at BETWEEN '2020-02-11 07:00' AND '2020-02-11 16:00'",
    "SELECT id FROM moments WHERE at > date '2020-11-01'",
    "SELECT id FROM moments WHERE at < timestamp '2020-02-11 15:44:18'",
    "SELECT id FROM moments WHERE at::date = '2020-10-31'",
    "SELECT m.id, l.id FROM moments m JOIN locals l ON m.at = l.local",
    "VALUES (timestamptz '2020-02-11 15:44:17')",
    "SELECT timestamptz '2020-02-11 15:44:17' UNION ALL SELECT at FROM moments",
    "SELECT at FROM moments UNION SELECT '2020-02-11 15:44:17'",
    "WITH c AS (SELECT timestamptz '2020-02-11 15:44:17' AS a) SELECT a FROM c",
    "WITH c AS (SELECT '2020-02-11 15:44:17'::timestamptz AS a) SELECT c.a, m.id FROM c LEFT JOIN moments m ON m.at = c.a",
    "SELECT coalesce(at, '2020-02-11 15:44:17') FROM moments",
    "SELECT CASE WHEN id < 3 THEN at ELSE '2020-02-11 15:44:17' END FROM moments",
    "SELECT nullif(at, '2020-02-11 15:44:17') FROM moments",
    "SELECT greatest(at, '2020-11-01 01:30:00') FROM moments",
    "SELECT '2020-11-01 01:30:00'::timestamptz, '2020-03-08 02:30'::timestamptz, '2020-10-25 02:30'::timestamptz",
    "SELECT CAST('2020-02-11' AS timestamptz), timestamptz '2020-02-11 01:02:03.4', timestamptz '2020-02-11T01:02:03Z'",
    "SELECT ARRAY['2020-02-11 15:44:17'::timestamptz]::text, '{2020-02-11 15:44:17}'::timestamptz[]::text",
    "SELECT array_agg(at ORDER BY id)::text FROM moments",
    "SELECT max(at) FILTER (WHERE isfinite(at)), min(at) FROM moments WHERE at > '2020-01-01'",
    "SELECT count(*), date_trunc('day', at) AS d FROM moments GROUP BY d",
    "SELECT count(*), at::date AS d FROM moments GROUP BY at::date",
    "SELECT to_json(at), to_jsonb(at) FROM moments WHERE at > '1900-01-01' AND isfinite(at)",
    "SELECT row_to_json(moments) FROM moments WHERE at > '1900-01-01' AND isfinite(at)",
    "SELECT moments::text, (at, at::date)::text FROM moments",
    "SELECT json_agg(at ORDER BY id) FROM moments WHERE at > '1900-01-01' AND isfinite(at)",
    "SELECT at || '', concat(at, '!') FROM moments",
    "SELECT generate_series(timestamptz '2020-10-31 00:00', '2020-11-03', '1 day')",
    "SELECT generate_series(timestamptz '2020-10-31 00:00', '2020-11-03', '24 hours')",
    "SELECT * FROM generate_series('2020-03-07 02:30'::timestamptz, '2020-03-30 02:30', interval '1 day') AS g",
    "SELECT * FROM generate_series(date '2020-10-20', date '2020-11-03', '24 hours') AS g",
    "SELECT * FROM generate_series(timestamptz '2020-01-31 02:30', '2020-08-30 02:30', interval '1 month') AS g",
    "SELECT * FROM generate_series(timestamptz '2020-11-03', '2020-10-30', interval '-1 day') AS g",
    "SELECT age(at, '2020-02-11 15:44:17') FROM moments WHERE isfinite(at)",
    "SELECT at - timestamptz '2020-02-11 15:44:17' FROM moments WHERE isfinite(at)",
    "SELECT at - '2020-02-11 15:44:17' FROM moments WHERE isfinite(at)",
    "SELECT at - local FROM moments m JOIN locals l USING (id) WHERE isfinite(at) AND isfinite(local)",
    "SELECT make_timestamptz(2020, 11, 1, 1, 30, 0), make_timestamptz(2020, 3, 8, 2, 30, 0)",
    "SELECT to_timestamp('2020-11-01 01:30', 'YYYY-MM-DD HH24:MI'), to_timestamp(1604219400)",
    "SELECT id FROM moments WHERE (at, id) > (timestamptz '2020-02-11 15:44:17', 0)",
    "SELECT (SELECT '2020-02-11 15:44:17'::timestamptz), EXISTS (SELECT 1 FROM moments WHERE at = '2020-02-11 15:44:17')",
    "SELECT sum(id) OVER (ORDER BY at RANGE BETWEEN '24 hours' PRECEDING AND CURRENT ROW), id FROM moments WHERE isfinite(at)",
    "SELECT timestamptz '2020-02-11 15:44:17' IN (SELECT at FROM moments)",
    "SELECT timestamp '2020-02-11 15:44:17' = timestamptz '2020-02-11 15:44:17'",
    "SELECT date '2020-02-11' = timestamptz '2020-02-11', timestamptz '2020-02-11' = timestamptz '2020-02-11 08:00+00'",
    "SELECT timestamptz '2020-10-31 12:00' + interval '1 day', timestamptz '2020-10-31 12:00' + interval '24:00'",
    "SELECT at + i FROM moments, (VALUES (interval '1 day'), ('24:00'), ('-1 mon 36:00')) AS v(i)",
    "SELECT local - i FROM locals, (VALUES (interval '1 day'), ('24:00'), ('1 mon 1 day 36:00')) AS v(i)",
    "SELECT date '2020-03-31' - interval '1 mon 1 day 25:00:00', timestamp '2020-03-31' - interval '1 mon 1 day'",
    "SELECT id, date_trunc('century', local), date_trunc('millennium', local), date_trunc('decade', local) FROM locals",
    "SELECT at::date - local::date FROM moments JOIN locals USING (id) WHERE isfinite(at) AND isfinite(local)",
    "SELECT extract(hour FROM timestamptz '2020-02-11 15:44:17+00')",
    "SELECT (timestamptz '2020-02-11 15:44:17', 1) = (SELECT '2020-02-11 15:44:17'::timestamptz, 1)",
    "SELECT 'not a time'::timestamptz",
    "SELECT '2020-02-30'::timestamptz",
]  # fmt: skip


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with herdpy.connect(tmp_path_factory.mktemp("zones") / "db", autocommit=True) as connection:
        _fill(connection)
        yield connection


@pytest.fixture(scope="module")
def reference(postgres: str) -> Iterator[Any]:
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA IF NOT EXISTS zones")
        connection.execute("SET search_path = zones")
        connection.execute("DROP TABLE IF EXISTS moments, locals")
        _fill(connection)
        yield connection


def _fill(connection: Any) -> None:
    connection.execute("SET timezone = 'UTC'")
    for table, column, type_, texts in (
        ("moments", "at", "timestamptz", MOMENTS),
        ("locals", "local", "timestamp", LOCALS),
    ):
        connection.execute(f"CREATE TABLE {table} (id integer PRIMARY KEY, {column} {type_})")
        rows = ", ".join(f"({i}, '{text}')" for i, text in enumerate(texts, 1))
        connection.execute(f"INSERT INTO {table} VALUES {rows}")


def _rows(answer: Any) -> Any:
    return [answer.state] if answer.state else sorted(answer.rows, key=str)


def _ask(own: Any, sql: str, zone: str) -> Answer:
    """HerdPy's answer, with moments as a session of that zone shows them."""
    with own.cursor() as cursor:
        try:
            result = cursor.execute(sql)._result
        except herdpy.Error as error:
            return Answer(state=error.sqlstate or "?????", message=error.message)
        shown = [
            (lambda v: styled_timestamptz(v, in_zone(zone))) if c.type.base is Base.TIMESTAMPTZ else
            to_text(c.type) for c in result.columns
        ]  # fmt: skip
        rows = [
            tuple(None if v is None else f(v) for v, f in zip(row, shown, strict=True)) for row in result.rows
        ]
    return Answer([c.name for c in result.columns], [c.type.oid for c in result.columns], rows)


def _differing(own: Any, reference: Any, engine: str, zone: str) -> tuple[list[str], int]:
    own.execute(f"SET herdpy.engine = '{engine}'")
    found, asked = [], 0
    for sql in QUERIES:
        got, want = _ask(own, sql, zone), on_postgres(reference, Statement(sql))
        if engine == "own" and got.state == "0A000":
            continue
        asked += 1
        if _rows(got) != _rows(want) or got.oids != want.oids:
            pairs = [f"    {a} / {b}" for a, b in zip(_rows(got), _rows(want), strict=False) if a != b]
            found.append("\n".join([sql, f"  {got.message[:200]}/{want.message[:200]}", *pairs[:4]]))
    own.execute("SET herdpy.engine = 'auto'")
    return found, asked


WRITES = """
CREATE TABLE t (id integer PRIMARY KEY, at timestamptz, CHECK (at > '1900-01-01 00:00'));
INSERT INTO t SELECT n, timestamptz '2020-02-11 15:44:17' FROM generate_series(1, 1) AS n;
INSERT INTO t SELECT n, '2020-02-11 15:44:18' FROM generate_series(2, 3) AS n;
INSERT INTO t SELECT n, date '2020-11-01' FROM generate_series(4, 4) AS n;
INSERT INTO t SELECT n, timestamp '2020-11-01 01:30' FROM generate_series(5, 5) AS n;
INSERT INTO t VALUES (6, '2020-11-01 01:30'), (7, timestamp '2020-03-08 02:30'), (8, date '2020-10-25');
INSERT INTO t SELECT 9, v FROM (VALUES ('2020-11-01 01:30'::timestamptz)) AS s(v);
INSERT INTO t SELECT 10, '2020-11-01 01:30' UNION ALL SELECT 11, at FROM t WHERE id = 1;
UPDATE t SET at = s.v FROM (SELECT 2 AS id, timestamptz '2020-06-01 00:00' AS v) AS s WHERE s.id = t.id;
UPDATE t SET at = at + interval '24 hours' FROM generate_series(5, 6) AS s(n) WHERE t.id = s.n;
UPDATE t SET at = '2020-07-01 12:00' WHERE at = ANY ('{2020-02-11 15:44:18}');
WITH c AS (SELECT 12 AS id, '2020-10-25 02:30'::timestamptz AS v) INSERT INTO t SELECT id, v FROM c;
CREATE VIEW w AS SELECT id, at, at::text AS shown, at::date AS day, date_trunc('day', at) AS start FROM t;
MERGE INTO t USING (VALUES (1, '2020-12-01 00:00'::timestamptz), (20, '2020-12-02')) AS s(id, v) ON t.id = s.id
  WHEN MATCHED THEN UPDATE SET at = s.v WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.v);
DELETE FROM t USING (SELECT '2020-10-25 00:00'::timestamptz AS v) AS s WHERE t.at = s.v;
CREATE TABLE u (at timestamptz PRIMARY KEY, of_day date);
INSERT INTO u SELECT at, at::date FROM t GROUP BY at;
CREATE TABLE k AS SELECT at, at::text AS shown, '2020-01-01 00:00'::timestamptz AS first FROM t;
"""
READS = [
    "SELECT * FROM t", "SELECT * FROM w", "SELECT * FROM u", "SELECT * FROM k",
    "SELECT count(*) FROM u WHERE at > '2020-11-01 01:30'", "SELECT count(*) FROM u WHERE at = '2020-07-01 12:00'",
    "SELECT at, of_day FROM u WHERE at BETWEEN '2020-11-01' AND '2020-12-01 00:00'", "SELECT * FROM w WHERE day = '2020-11-01'",
    "SELECT id FROM t WHERE at IN (SELECT at FROM u WHERE at < '2020-10-25 02:30')",
]  # fmt: skip


@pytest.mark.parametrize("zone", ZONES[:3])
def test_what_is_written_in_a_zone_is_what_postgresql_writes(own: Any, reference: Any, zone: str) -> None:
    for connection in (own, reference):
        connection.execute("SET timezone = 'UTC'; DROP VIEW IF EXISTS w; DROP TABLE IF EXISTS t, u, k")
        connection.execute(f"SET timezone = '{zone}'")
        for sql in WRITES.strip().split(";\n"):
            connection.execute(sql)
    for shown in (zone, "UTC"):
        for connection in (own, reference):
            connection.execute(f"SET timezone = '{shown}'")
        for engine in ("columnar", "auto"):
            own.execute(f"SET herdpy.engine = '{engine}'")
            for sql in READS:
                got, want = _ask(own, sql, shown), on_postgres(reference, Statement(sql))
                assert _rows(got) == _rows(want), (sql, shown, engine)


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("engine", ["columnar", "own"])
def test_a_zone_means_what_it_means_to_postgresql(own: Any, reference: Any, zone: str, engine: str) -> None:
    for connection in (own, reference):
        connection.execute(f"SET timezone = '{zone}'")
    found, asked = _differing(own, reference, engine, zone)
    assert asked > 20
    assert not found, "\n".join(found)
