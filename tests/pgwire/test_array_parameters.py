"""Arrays as parameters: lists of psycopg in both formats, ANY and ALL on both engines, as in PostgreSQL."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from tests.pgwire.servers import ThreadServer

VALUES: dict[str, list[Any]] = {
    "int2": [1, -7, 32767],
    "int4": [1, -7, 2**31 - 1],
    "int8": [1, -7, 2**62],
    "float8": [1.5, -2.25, 1e300],
    "numeric": [Decimal("1.50"), Decimal("-7"), Decimal("12345678901234567890.5")],
    "text": ["", 'a "b" \\ {c}, NULL', "grüße", "NULL"],
    "varchar": ["x", "y z"],
    "bool": [True],
    "uuid": [uuid.UUID(int=1), uuid.UUID(int=2**100)],
    "date": [dt.date(1999, 12, 31), dt.date(2026, 2, 28)],
    "timestamp": [dt.datetime(2026, 2, 28, 1, 2, 3, 4), dt.datetime(1969, 1, 1)],
    "timestamptz": [dt.datetime(2026, 2, 28, 1, 2, 3, tzinfo=dt.UTC)],
    "time": [dt.time(1, 2, 3)],
}
CONDITIONS = ["{} = ANY(%{})", "{} <> ALL(%{})", "NOT {} = ANY(%{})", "{} < ANY(%{})", "{} >= ALL(%{})"]


@pytest.fixture(scope="module")
def both(server: ThreadServer, postgres: str) -> Iterator[list[psycopg.Connection[Any]]]:
    with (
        psycopg.connect(server.dsn, autocommit=True) as ours,
        psycopg.connect(postgres, autocommit=True) as theirs,
    ):
        theirs.execute("CREATE SCHEMA ap")
        theirs.execute("SET search_path = ap")
        for connection in (ours, theirs):
            for name, values in VALUES.items():
                connection.execute(f"CREATE TABLE ap_{name} (k {name} PRIMARY KEY, v {name}, n int)")
                for at, value in enumerate(values):
                    connection.execute(f"INSERT INTO ap_{name} VALUES (%s, %s, %s)", [value, value, at])
            connection.execute("CREATE TABLE ap_pair (a int, b int, PRIMARY KEY (a, b))")
            connection.execute(
                "INSERT INTO ap_pair SELECT i / 10, i % 10 FROM generate_series(0, 99) AS g (i)"
            )
            connection.execute("CREATE INDEX ON ap_pair (b)")
        yield [ours, theirs]
        theirs.execute("DROP SCHEMA ap CASCADE")


def answers(connection: psycopg.Connection[Any], sql: str, parameters: list[Any]) -> Any:
    try:
        return sorted(connection.execute(sql, parameters).fetchall(), key=repr)
    except psycopg.Error as error:
        return error.sqlstate


@pytest.mark.parametrize("engine", ["auto", "columnar"])
@pytest.mark.parametrize("form", ["t", "b"])
@pytest.mark.parametrize("name", VALUES)
def test_lists_are_compared_with_as_in_postgres(
    both: list[psycopg.Connection[Any]], name: str, form: str, engine: str
) -> None:
    ours, theirs = both
    values = VALUES[name]
    arrays: list[list[Any]] = [values[:1], [*values, values[-1], None], [None]]
    ours.execute(f"SET herdpy.engine = {engine}")
    try:
        for column in ("k", "v"):
            for condition in CONDITIONS:
                sql = f"SELECT n FROM ap_{name} WHERE {condition.format(column, form)}"
                for array in arrays:
                    found = answers(ours, sql, [array])
                    assert found == answers(theirs, sql, [array]), (sql, array)
    finally:
        ours.execute("RESET herdpy.engine")


@pytest.mark.parametrize("engine", ["auto", "columnar"])
@pytest.mark.parametrize(
    ("sql", "parameters"),
    [
        ("SELECT n FROM ap_int4 WHERE k = ANY(%s::int[])", [[]]),
        ("SELECT n FROM ap_int4 WHERE k <> ALL(%s::int[])", [[]]),
        ("SELECT n FROM ap_int4 WHERE k = ANY(%s::int[])", [None]),
        ("SELECT n FROM ap_int4 WHERE k <> ALL(%s::int[])", [None]),
        ("SELECT n FROM ap_int4 WHERE k = ANY(%s)", [[]]),
        ("SELECT n FROM ap_int4 WHERE k = ANY(%s)", ["{1,-7}"]),
        ("SELECT n FROM ap_int4 WHERE k = ANY(%s::bigint[])", [[1, 2**40]]),
        ("SELECT n FROM ap_int8 WHERE k = ANY(%s)", [[1, 2**62]]),
        ("SELECT n FROM ap_int2 WHERE k = ANY(%s)", [[1, 70000]]),
        ("SELECT n FROM ap_int4 WHERE k = ANY('{1, -7 ,NULL}')", []),
        ("SELECT n FROM ap_int4 WHERE k = ANY('{1,-7}'::int[])", []),
        ("SELECT n FROM ap_int4 WHERE k = ANY('{}')", []),
        ("SELECT n FROM ap_int4 WHERE k <> ALL('{}'::int[])", []),
        ("SELECT n FROM ap_int4 WHERE k = ANY(ARRAY[1, 2])", []),
        ("SELECT n FROM ap_int4 WHERE k = ANY(ARRAY[]::int[])", []),
        ("SELECT n FROM ap_int4 WHERE k = ANY('{1,x}')", []),
        ("SELECT n FROM ap_int4 WHERE k = ANY('1')", []),
        ("SELECT n FROM ap_int4 WHERE k = ANY(%s)", ["{1"]),
        ("SELECT n FROM ap_int4 WHERE k = ANY(k)", []),
        ("SELECT n FROM ap_text WHERE k = ANY(%s)", [["grüße", "NULL", None]]),
        ("SELECT n FROM ap_varchar WHERE k = ANY(%s)", [["x"]]),
        ("SELECT a, b FROM ap_pair WHERE a = 3 AND b = ANY(%s)", [[1, 5, 5, 77]]),
        ("SELECT a, b FROM ap_pair WHERE a = ANY(%s) AND b = 3", [[1, 5, 5, 77]]),
        ("SELECT a, b FROM ap_pair WHERE a = ANY(%s) AND b = ANY(%s)", [[1, 5], [2, 9]]),
        ("SELECT a, b FROM ap_pair WHERE b = ANY(%s) AND a <> ALL(%s)", [[1], [2, 9]]),
        ("SELECT count(*) FROM ap_pair WHERE a = ANY(%s)", [[1, 2]]),
        ("SELECT u FROM unnest(%s::int[]) AS u", [[3, 1, None]]),
        ("SELECT a, b FROM ap_pair JOIN unnest(%s::int[]) AS u (x) ON a = u.x WHERE b = 1", [[3, 1]]),
        ("SELECT NULL = ANY(%s::int[])", [[]]),
        ("SELECT NULL = ANY(%s::int[]), 1 = ANY(%s::int[])", [[1], [2, None]]),
        ("SELECT 1 <> ALL(%s::int[]), 1 <> ALL(%s::int[])", [[2, None], [1, None]]),
    ],
)
def test_arrays_mean_what_they_mean_in_postgres(
    both: list[psycopg.Connection[Any]], sql: str, parameters: list[Any], engine: str
) -> None:
    ours, theirs = both
    ours.execute(f"SET herdpy.engine = {engine}")
    try:
        found = answers(ours, sql, parameters)
    finally:
        ours.execute("RESET herdpy.engine")
    assert found == answers(theirs, sql, parameters)


def test_keys_are_looked_up(both: list[psycopg.Connection[Any]]) -> None:
    ours, _ = both

    def plan(sql: str) -> str:
        array: list[Any] = ["x"] if "text" in sql else [1]
        return "\n".join(row[0] for row in ours.execute(f"EXPLAIN {sql}", [array]))

    assert "Key Gets on ap_int4" in plan("SELECT n FROM ap_int4 WHERE k = ANY(%s::int[])")
    assert "Key Gets on ap_text" in plan("SELECT n FROM ap_text WHERE k = ANY(%s::text[])")
    assert "Index" in plan("SELECT a FROM ap_pair WHERE b = ANY(%s::int[])")


def test_changes_by_arrays(both: list[psycopg.Connection[Any]]) -> None:
    found = []
    for connection in both:
        with connection.transaction(force_rollback=True):
            rows = [
                connection.execute("UPDATE ap_pair SET b = b + 100 WHERE a = ANY(%s)", [[1, 2]]).rowcount,
                connection.execute("DELETE FROM ap_pair WHERE b <> ALL(%s)", [[1, 101]]).rowcount,
                connection.execute("SELECT * FROM ap_pair ORDER BY a, b").fetchall(),
            ]
        found.append(rows)
    assert found[0] == found[1]


def _as_text(value: Any) -> str:
    if not isinstance(value, list):
        return str(value)
    texts = ["NULL" if one is None else json.dumps(str(one)) for one in value]
    return f"{{{','.join(texts)}}}"


@pytest.mark.parametrize("engine", ["auto", "columnar"])
@pytest.mark.parametrize("form", ["t", "b", "without types"])
def test_arrays_in_stages(both: list[psycopg.Connection[Any]], form: str, engine: str) -> None:
    """Their types come from whichever stage says them, and strings of JSON are its texts."""
    claim = (
        "UPDATE ap_pair SET b = b + 100 WHERE (a, b) IN (SELECT a, b FROM ap_pair WHERE a = ANY(%{0}::int[])"
        " AND b < %{0} ORDER BY a, b LIMIT %{0}::int FOR UPDATE SKIP LOCKED) RETURNING a, b"
    )
    move = (
        "WITH gone AS (DELETE FROM ap_pair WHERE b = ANY(%{0}::int[]) AND a IN (1, %{0}) RETURNING a),"
        " kept AS (INSERT INTO ap_text SELECT (%{0}::text[])[a], 'v', a FROM gone RETURNING k, n)"
        " SELECT k, x FROM kept JOIN unnest(%{0}::jsonb[]) WITH ORDINALITY AS u (x, at) ON at = n"
    )
    upsert = (
        "INSERT INTO ap_int4 SELECT a, b, 0 FROM ap_pair WHERE a = %{0} AND b = %{0}"
        " ON CONFLICT (k) DO UPDATE SET n = ap_int4.k + %{0} RETURNING n, (%{0}::jsonb[])[1]"
    )
    texts = ['{"a": 1}', "[]", None]
    given: list[tuple[str, list[Any]]] = [
        (claim, [[3, 1], 2, 3]),
        (move, [[5, 77], 2, ["x", "y", "z"], texts]),
        (upsert, [1, 4, 7, texts]),
        ("SELECT (%{0}::jsonb[])[1], %{0}::json[]", [texts, texts]),
    ]
    if form == "without types":  # psycopg declares none for texts
        given = [(sql.replace("%{0}", "%s"), [*map(_as_text, parameters)]) for sql, parameters in given]
    found: list[list[Any]] = []
    for connection in both:
        with connection.transaction(force_rollback=True):
            if connection is both[0]:
                connection.execute(f"SET LOCAL herdpy.engine = {engine}")
            found.append([answers(connection, sql.format(form[0]), parameters) for sql, parameters in given])
    assert found[0] == found[1]
    assert all(isinstance(one, list) and one for one in found[0]), found[0]
