"""executemany of statements that return rows: one result, alike on a directory and a server."""

from __future__ import annotations

import asyncio
import datetime as dt
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import herdpy
import herdpy.aio
from herdpy.dbapi.remote.requests import FEW_ROWS
from herdpy.dbapi.types import dict_row

TABLE = "CREATE TABLE t (k INTEGER PRIMARY KEY, v TEXT, n NUMERIC(8, 2), at TIMESTAMPTZ, i INTERVAL)"
STATEMENTS = [
    "INSERT INTO t (k, v) VALUES (%s, %s) ON CONFLICT (k) DO UPDATE SET v = t.v || excluded.v RETURNING k, v",
    "INSERT INTO t (k, v) VALUES (%s, %s) ON CONFLICT DO NOTHING RETURNING *",
    "UPDATE t SET n = k / 2.0, at = 'epoch', i = '1 mon' WHERE k >= %s AND v <> %s RETURNING k, n, at, i",
    "DELETE FROM t WHERE k = %s OR v = %s RETURNING v",
    "WITH gone AS (DELETE FROM t WHERE k = %s RETURNING k) SELECT k + 1 AS next, %s::text AS word FROM gone",
    "SELECT k, v, count(*) OVER () AS n FROM t WHERE k < %s AND v <> %s ORDER BY k",
]
ROWS = st.lists(st.tuples(st.integers(0, 5), st.text("ab'é", max_size=2)), min_size=1, max_size=2 * FEW_ROWS)


@pytest.fixture(scope="module")
def table(shared):
    shared.execute(f"DROP TABLE IF EXISTS t; {TABLE}")
    return shared


def begun(conn):
    """The rows that each run of a test begins with; ROLLBACK takes back what it does."""
    conn.execute("BEGIN")
    conn.execute("INSERT INTO t (k, v) VALUES (0, 'a'), (2, ''), (4, 'b')")


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sql=st.sampled_from(STATEMENTS), rows=ROWS)
def test_the_rows_are_those_of_one_execute_after_another(table, sql, rows):
    expected: list[tuple[object, ...]] = []
    begun(table)
    for row in rows:
        one = table.execute(sql, row)
        expected += one.fetchall()
    stored = table.execute("SELECT * FROM t ORDER BY k").fetchall()
    table.execute("ROLLBACK")
    begun(table)
    many = table.cursor().executemany(sql, rows)
    columns = [(column.name, column.type_code) for column in many.description]
    assert columns == [(column.name, column.type_code) for column in one.description]
    assert many.fetchall() == expected
    assert many.rowcount == len(expected)
    assert many.statusmessage.split()[-1] == str(len(expected))
    many.scroll(0, "absolute")
    arrow = many.fetch_arrow_table()
    assert arrow.num_rows == len(expected)
    assert arrow.column(0).to_pylist() == [row[0] for row in expected]
    assert many.nextset() is None
    assert table.execute("SELECT * FROM t ORDER BY k").fetchall() == stored
    table.execute("ROLLBACK")


MANY = [(k, "ab"[k % 2]) for k in range(10, 10 + 20 * FEW_ROWS)]


def test_each_commits_once_and_is_fetched_bit_by_bit(url):
    with herdpy.connect(url, autocommit=True) as conn:
        conn.execute(TABLE)
        cursor = conn.cursor(row_factory=dict_row)
        cursor.executemany(
            "INSERT INTO t VALUES (%s, %s, 1.5, 'epoch', make_interval(months => %s)) RETURNING *",
            [(k, v, k) for k, v in MANY],
        )
        arrow = cursor.fetch_arrow_table()
        assert arrow.to_pylist() == conn.execute("SELECT * FROM t ORDER BY k").fetch_arrow_table().to_pylist()
        cursor.scroll(0, "absolute")
        epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
        first = {"k": 10, "v": "a", "n": Decimal("1.50"), "at": epoch, "i": herdpy.Interval(10, 0, 0)}
        assert cursor.fetchone() == first
        assert [row["k"] for row in cursor.fetchmany(3)] == [11, 12, 13]
        assert [row["k"] for row in cursor] == [k for k, _ in MANY[4:]]
        assert conn.execute("SELECT count(*) FROM t").fetchone() == (len(MANY),)


def test_after_an_error_there_are_no_rows(url):
    with herdpy.connect(url, autocommit=True) as conn:
        conn.execute(TABLE)
        cursor = conn.cursor()
        with pytest.raises(herdpy.IntegrityError):
            cursor.executemany("INSERT INTO t (k, v) VALUES (%s, %s) RETURNING k", [*MANY, MANY[7]])
        assert cursor.description is None
        with pytest.raises(herdpy.ProgrammingError, match="no statement was executed"):
            cursor.fetchall()
        assert conn.execute("SELECT count(*) FROM t").fetchone() == (0,)


def test_without_parameters_there_is_no_result(conn):
    cursor = conn.cursor().executemany("DELETE FROM t WHERE k = %s RETURNING k", [])
    assert (cursor.rowcount, cursor.description) == (0, None)
    with pytest.raises(herdpy.ProgrammingError, match="returned no rows"):
        cursor.fetchall()


def test_the_tag_is_of_all_rows(auto):
    auto.execute(TABLE)
    for rows in (MANY[:3], MANY[3:]):  # one by one, and as columns
        cursor = auto.cursor().executemany("INSERT INTO t (k, v) VALUES (%s, %s)", rows)
        assert (cursor.description, cursor.statusmessage) == (None, f"INSERT 0 {len(rows)}")


def test_asynchronous_cursors_have_them_too(url):
    async def main():
        async with await herdpy.aio.connect(url, autocommit=True) as conn:
            await conn.execute(TABLE)
            cursor = conn.cursor()
            await cursor.executemany("INSERT INTO t (k, v) VALUES (%s, %s) RETURNING v, k", MANY)
            assert await cursor.fetchone() == ("a", 10)
            assert [k async for _, k in cursor] == [k for k, _ in MANY[1:]]
            assert cursor.rowcount == len(MANY)

    asyncio.run(main())
