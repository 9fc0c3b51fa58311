"""A type before a literal binds closer than the operators behind it, as in PostgreSQL."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

import herdpy

QUERIES = [
    "SELECT date '2024-01-02'::text",
    "SELECT date '2024-01-02'::timestamp::text",
    "SELECT timestamptz '2024-01-02 03:04:05+00'::timestamp",
    "SELECT timestamp with time zone '2024-01-02 03:04:05+00'::date",
    "SELECT timestamp '2024-01-02 03:04:05'::date::text, time '01:02:03'::text",
    "SELECT numeric '1.5'::int, numeric(5,2) '1.256'::text, double precision '2.5'::int",
    "SELECT bool 't'::text || 'x', int '3'::text || '4', uuid '00000000-0000-0000-0000-000000000001'::text",
    "SELECT '2024-01-02'::date::text, ('7' || '8')::int, 'a'::text",
    "SELECT count(*) FROM (VALUES (date '2024-01-02'::text)) v(x) WHERE x = '2024-01-02'",
    "SELECT interval '1 day'::text",
    "SELECT numeric '1.5'::smallint + 1, 'date'::text",
]


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with herdpy.connect(tmp_path_factory.mktemp("typed") / "db", autocommit=True) as connection:
        yield connection


@pytest.mark.parametrize("engine", ["auto", "columnar"])
@pytest.mark.parametrize("query", QUERIES)
def test_typed_literals_are_postgresqls(ours: Any, postgres: str, query: str, engine: str) -> None:
    ours.execute(f"SET herdpy.engine = '{engine}'")
    with psycopg.connect(postgres, autocommit=True) as reference:
        reference.execute("SET timezone = 'UTC'")
        assert ours.execute(query).fetchall() == reference.execute(query).fetchall()  # type: ignore[arg-type]
