"""The SQL benchmark's long queries: HerdPy over its rows, DuckDB over tables of its own, both warm."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
from measure import Line, in_turn
from sql_data import load_duckdb, load_herdpy, tables

import herdpy

sys.path.insert(0, str(Path(__file__).parent / "tpch"))

import tpch_data

_QUERIES = (
    ("sums by group, 100 groups", "SELECT pieces, count(*), sum(amount) FROM sale GROUP BY pieces"),
    (
        "sums by group, a tenth of the rows groups",
        "SELECT customer, count(*), sum(amount), max(day) FROM sale GROUP BY customer",
    ),
    (
        "filter and sum",
        "SELECT sum(amount), avg(amount), count(*) FROM sale WHERE day >= DATE '2022-06-01' AND pieces < 50",
    ),
    (
        "join and sums by group",
        "SELECT c.region, sum(s.amount), count(*) FROM sale s JOIN customer c ON c.id = s.customer"
        " GROUP BY c.region ORDER BY 2 DESC",
    ),
    (
        "window",
        "SELECT max(r) FROM"
        " (SELECT rank() OVER (PARTITION BY customer ORDER BY amount DESC) AS r FROM sale) x",
    ),
    ("the 100 largest", "SELECT id, amount FROM sale ORDER BY amount DESC, id LIMIT 100"),
    ("count of different values", "SELECT count(DISTINCT customer), count(DISTINCT day) FROM sale"),
)


def aggregates(directory: Path, rows: int, rounds: int) -> list[Line]:
    """Milliseconds of each query, rows fetched, and of all of them together."""
    made = tables(rows)
    with herdpy.connect(f"{directory}/analytics", autocommit=True) as ours, duckdb.connect() as theirs:
        load_herdpy(ours, made)
        load_duckdb(theirs, made)
        lines = [_warm(name, sql, ours, theirs, rounds) for name, sql in _QUERIES]
    return [*lines, _together("aggregates and joins, all", lines, 2)]


def _warm(
    name: str, sql: str, ours: herdpy.Connection, theirs: duckdb.DuckDBPyConnection, rounds: int
) -> Line:
    """One query, its rows fetched: both once for nothing, then in turn."""

    def here() -> float:
        return _ms(lambda: ours.execute(sql).fetchall())

    def there() -> float:
        return _ms(lambda: theirs.execute(sql).fetchall())

    here(), there()
    a, b = in_turn(rounds, here, there)
    return Line(name, statistics.median(a), "ms", statistics.median(b), runs=a, peer_runs=b)


def _together(name: str, lines: list[Line], at_most: float) -> Line:
    """The sums of the rounds; aimed at: ``at_most`` times DuckDB's."""
    a = [sum(turn) for turn in zip(*(line.runs for line in lines), strict=True)]
    b = [sum(turn) for turn in zip(*(line.peer_runs for line in lines), strict=True)]
    line = Line(name, statistics.median(a), "ms", statistics.median(b), runs=a, peer_runs=b)
    line.wanted, line.met = f"<= {at_most:g} of DuckDB", (line.ratio or 9) <= at_most
    return line


def _ms(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def tpch(directory: Path, scale: float, rounds: int) -> list[Line]:
    """Milliseconds of the 22 queries of TPC-H, those that stand out and all of them together."""
    made = tpch_data.make(directory / "tpch", scale)
    with herdpy.connect(f"{directory}/tpch-db", autocommit=True) as ours, duckdb.connect() as theirs:
        tpch_data.load_herdpy(ours, made)
        tpch_data.load_duckdb(theirs, made)
        ours.execute("ANALYZE")
        lines = [
            _warm(f"TPC-H {scale:g}, query {number}", sql, ours, theirs, rounds)
            for number, sql in tpch_data.queries(scale).items()
        ]
    slowest = sorted(lines, key=lambda line: -line.ours)[:5]
    return [*slowest, _together(f"TPC-H {scale:g}, all 22", lines, 1.2)]
