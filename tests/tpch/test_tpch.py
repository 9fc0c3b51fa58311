"""TPC-H's 22 queries: HerdPy's answers are DuckDB's over the same rows."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

import herdpy

sys.path.insert(0, str(Path(__file__).parents[2] / "bench" / "tpch"))

from tpch_data import load_duckdb, load_herdpy, make, queries

SMALL, LARGE = 0.01, 0.1
# Of these DuckDB's answer is a floating-point number where PostgreSQL's, and HerdPy's, is NUMERIC.
EXACT_HERE = {1, 8, 14, 17}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Any]]:
    yield from both(tmp_path_factory.mktemp("tpch"), SMALL)


def both(directory: Path, scale: float) -> Iterator[tuple[Any, Any]]:
    """Connections to HerdPy and DuckDB with the same tables."""
    tables = make(directory / "made", scale)
    with herdpy.connect(directory / "db", autocommit=True) as ours, duckdb.connect() as theirs:
        load_herdpy(ours, tables)
        load_duckdb(theirs, tables)
        yield ours, theirs


def compare(number: int, scale: float, connections: tuple[Any, Any]) -> int:
    """Ask both, fail where they differ; how many rows they answer."""
    ours, theirs = connections
    sql = queries(scale)[number]
    one, other = ours.execute(sql).fetchall(), theirs.execute(sql).fetchall()
    for mine, yours in zip(one, other, strict=True):
        for a, b in zip(mine, yours, strict=True):
            assert alike(a, b, number), (number, mine, yours)
    return len(one)


def alike(a: Any, b: Any, number: int) -> bool:
    """Whether two values are the same; CHAR(n) comes without its blanks from DuckDB."""
    if isinstance(b, str):
        return bool(a.rstrip(" ") == b.rstrip(" "))
    if isinstance(b, float):
        assert number in EXACT_HERE
        assert isinstance(a, Decimal)
        return bool(abs(float(a) - b) <= 1e-9 * max(1.0, abs(b)))
    return bool(a == b)


@pytest.mark.parametrize("number", range(1, 23))
def test_a_query_answers_as_duckdb(number: int, small: tuple[Any, Any]) -> None:
    compare(number, SMALL, small)


def test_most_queries_find_rows(small: tuple[Any, Any]) -> None:
    found = {number: len(small[1].execute(sql).fetchall()) for number, sql in queries(SMALL).items()}
    assert sum(count > 0 for count in found.values()) >= 20, found


@pytest.mark.soak
def test_all_queries_at_a_tenth(tmp_path: Path) -> None:
    for connections in both(tmp_path, LARGE):
        for number in queries(LARGE):
            compare(number, LARGE, connections)
