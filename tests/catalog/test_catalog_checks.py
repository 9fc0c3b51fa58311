"""CHECK constraints are printed as PostgreSQL prints them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.pgwire.servers import ThreadServer, thread_server

CHECKS = [
    "k > 0", "0 < k", "k <> x", "k >= -1", "(k > 0)", "k = 1 OR k = 2 OR k = 3", "k > 0 AND x > 0 AND b",
    "(k > 0 OR x > 0) AND k < 100", "NOT k = 3", "NOT (k > 3 AND x > 3)", "b", "NOT b",
    "b IS NOT NULL", "v IS NULL",
    "k BETWEEN 1 AND 10", "k IN (1, 2, 3)", "w IN ('a', 'b')", "n > 0", "n >= 0 AND n < 100", "n < 1.5",
    "f > 0",
    "w LIKE 'a%'", "v LIKE 'a%'", "v <> ''", "w = 'it''s'", "length(w) > 3", "length(v) > 3", "lower(w) = w",
    "upper(v) <> 'X' OR length(v) > 2", "d >= '2020-01-01'", "d >= date '2020-01-01'",
    "at > '2020-01-01 10:00:00'",
    "u <> 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", "y <> 'ab'", "m > '0800.2b01.0203'",
    "i < '24 hours 1 month'", "j <> '{\"b\":1,  \"a\":2}'",
    "k::text <> w", "f::int > 0", "\"Odd\" > 0", "k > 3000000000", "k + x > 0", "coalesce(k, 0) > 0",
]  # fmt: skip
KEPT = {"k > 3000000000", "k + x > 0", "coalesce(k, 0) > 0"}
"""Of these it is only asked that they are shown at all."""
TABLE = (
    "CREATE TABLE chk (k int, x int, b boolean, v varchar(10), w text, n numeric(6,2), f float8, d date, "
    'at timestamp, "Odd" int, u uuid, y bytea, m macaddr, i interval, j jsonb, {})'
)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory, postgres: str) -> Iterator[list[psycopg.Connection[Any]]]:
    server: ThreadServer
    with (
        thread_server(tmp_path_factory.mktemp("checks") / "data") as server,
        psycopg.connect(server.dsn, autocommit=True) as ours,
        psycopg.connect(postgres, autocommit=True) as theirs,
    ):
        theirs.execute("CREATE SCHEMA chk")
        theirs.execute("SET search_path = chk")
        definition = ", ".join(f"CONSTRAINT c{at} CHECK ({check})" for at, check in enumerate(CHECKS))
        for connection in (ours, theirs):
            connection.execute(TABLE.format(definition))
        yield [ours, theirs]
        theirs.execute("DROP SCHEMA chk CASCADE")


@pytest.mark.parametrize("pretty", [False, True])
def test_checks_are_printed_as_postgres_does(both: list[psycopg.Connection[Any]], pretty: bool) -> None:
    texts = [
        dict(
            connection.execute(
                f"SELECT conname, pg_get_constraintdef(oid, {pretty}) FROM pg_constraint "
                "WHERE conrelid = 'chk'::regclass AND contype = 'c'"
            ).fetchall()
        )
        for connection in both
    ]
    assert texts[0].keys() == texts[1].keys()
    differing = {
        check: (texts[0][f"c{at}"], texts[1][f"c{at}"])
        for at, check in enumerate(CHECKS)
        if check not in KEPT and texts[0][f"c{at}"] != texts[1][f"c{at}"]
    }
    assert not differing
    assert all(texts[0][f"c{at}"].startswith("CHECK (") for at in range(len(CHECKS)))


def test_a_condition_of_many_parts_is_shown(both: list[psycopg.Connection[Any]]) -> None:
    ours, _ = both
    condition = " AND ".join(f"k <> {number}" for number in range(3000))
    ours.execute(f"CREATE TABLE many (k int, CHECK ({condition}))")
    shown = ours.execute(
        "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'many'::regclass"
    ).fetchone()
    assert shown is not None
    assert "k <> 2999" in shown[0]
