"""An operand that is another value each time, as random() is, is computed once where SQL names it once."""

# ruff: noqa: E501 - a condition is one line
from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import herdpy

ROWS = "FROM generate_series(1, 5000) AS g"
NEVER = [
    "CASE (random()*3)::int WHEN 0 THEN false WHEN 1 THEN false WHEN 2 THEN false WHEN 3 THEN false ELSE true END",
    "CASE (random()*3)::int WHEN 0 THEN 1.50 WHEN 1 THEN 2 WHEN 2 THEN 3.125 WHEN 3 THEN 4 END IS NULL",
    "CASE (random()*1)::int WHEN 0 THEN CASE (random()*1)::int WHEN 0 THEN false WHEN 1 THEN false ELSE true END END",
    "(random()*3)::int NOT IN (0, 1, 2, 3)",
    "(random()*3)::numeric(3, 0) NOT IN (0, 1.0, 2, 3.00)",
    "(random()*3)::int NOT IN (0, g - g + 1, 2, 3)",
    "chr(65 + (random()*3)::int) NOT IN ('A', 'B', 'C', 'D')",
    "(random()*3)::int <> ALL(ARRAY[0, 1, 2, 3])",
    "(random()*3)::int <> ALL('{0,1,2,3}'::int[])",
    "((random()*3)::int = ANY('{{0,1},{2,3}}'::int[])) IS NOT TRUE",
    "(random()*3)::int <> ANY(ARRAY[0, 1]) IS NOT TRUE",
    "((random()*3)::int = ANY('{9,NULL}'::int[])) IS NOT NULL",
    "((random()*3)::int = ANY('{}'::int[])) IS DISTINCT FROM false",
    "((random()*3)::int <> ALL('{}'::int[])) IS DISTINCT FROM true",
    "((random()*3)::int = ANY(NULL::int[])) IS NOT NULL",
    "coalesce(nullif((random()*1)::int, 0), 0) NOT IN (0, 1)",
    "gen_random_uuid()::text NOT IN ('a') IS NOT TRUE",
]
SCALES = {
    "CASE WHEN random() < 0.5 THEN 1.50 ELSE 2 END": ["1.50", "2"],
    "CASE (random()*1)::int WHEN 0 THEN 1.50 ELSE 2 END": ["1.50", "2"],
    "CASE (random()*1)::int WHEN 0 THEN 1.50 ELSE 2 END + 1": ["2.50", "3"],
    "coalesce(CASE WHEN random() < 0.5 THEN 1.50::numeric END, 2)": ["1.50", "2"],
    "least(CASE WHEN random() < 0.5 THEN 1.50 ELSE 2 END, 3.000)": ["1.50", "2"],
}


@pytest.fixture(scope="module")
def conn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    place: Path = tmp_path_factory.mktemp("volatile") / "db"
    with herdpy.connect(place, autocommit=True) as made:
        yield made


@pytest.mark.parametrize("condition", NEVER)
def test_what_can_not_be_is_never(conn: Any, condition: str) -> None:
    assert conn.execute(f"SELECT count(*) {ROWS} WHERE {condition}").fetchall() == [(0,)]


@pytest.mark.parametrize("expression", SCALES)
def test_a_number_has_the_digits_of_its_own_draw(conn: Any, expression: str) -> None:
    found = conn.execute(f"SELECT DISTINCT ({expression})::text AS x {ROWS} ORDER BY x").fetchall()
    assert [text for (text,) in found] == SCALES[expression]
    values = conn.execute(f"SELECT DISTINCT {expression} AS x {ROWS} ORDER BY x").fetchall()
    assert values == [(Decimal(text),) for text in SCALES[expression]]


@pytest.mark.parametrize(
    "expression",
    ["CASE (random()*0)::int WHEN 0 THEN sum(g) END", "CASE (random()*0)::int WHEN 0 THEN (SELECT 1) END"],
)
def test_beside_aggregates_and_subqueries_it_is_refused(conn: Any, expression: str) -> None:
    with pytest.raises(herdpy.NotSupportedError) as refused:
        conn.execute(f"SELECT ({expression}) {ROWS}")
    assert refused.value.sqlstate == "0A000"
    assert "in FROM" in (refused.value.hint or "")
