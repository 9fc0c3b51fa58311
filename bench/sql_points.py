"""The SQL benchmark's short statements, and what many different texts leave in memory."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

from measure import Line
from postgresql import connect, postgres
from sql_data import load_herdpy, load_postgres, tables

import herdpy
from herdpy_sql.values.styles import PLAIN

_POINTS: tuple[tuple[str, str, str, float, str], ...] = (
    ("SELECT by key", "SELECT customer, amount FROM sale WHERE id = {0}", "key", 25.0, "us"),
    ("lookup by index", "SELECT id, amount FROM sale WHERE code = {0}", "code", 25.0, "us"),
    (
        "key join, one row",
        "SELECT s.amount, c.name FROM sale s JOIN customer c ON c.id = s.customer WHERE s.id = {0}",
        "key",
        25.0,
        "us",
    ),
    (
        "ORDER BY ... LIMIT 10 along an index",
        "SELECT id, day, amount FROM sale WHERE (day, id) > ({0}, {1}) ORDER BY day, id LIMIT 10",
        "page",
        1000.0,
        "us",
    ),
)
_RUNS = 4_000


def points(directory: Path, rows: int, rounds: int) -> list[Line]:
    """Time of the engine for one statement, the median of the rounds' means."""
    made = tables(rows)
    with herdpy.connect(f"{directory}/points", autocommit=True) as ours, postgres(directory) as port:
        load_herdpy(ours, made)
        with connect(port) as theirs:
            load_postgres(theirs, made)
            return [_point(ours, theirs, rows, rounds, *one) for one in _POINTS]


def _point(
    ours: herdpy.Connection, theirs: Any, rows: int, rounds: int, name: str, sql: str, kind: str,
    most: float, unit: str,
) -> Line:  # fmt: skip
    count = min(_RUNS, rows)
    keys = [(i * 7919) % rows for i in range(count)]
    values: Sequence[tuple[object, ...]]
    if kind == "key":
        values = [(key,) for key in keys]
    elif kind == "code":
        values = [(f"code {key:08d}",) for key in keys]
    else:
        values = [(date.fromordinal(719163 + 19_000 + key * 700 // rows), key) for key in keys]
    runs = [_engine_us(ours, sql.format("$1", "$2"), values) for _ in range(rounds)]
    theirs_us = [_executor_us(theirs, sql, values[:200]) for _ in range(rounds)]
    line = Line(name, statistics.median(runs), unit, runs=runs, peer_runs=theirs_us)
    line.peer = statistics.median(theirs_us)
    line.wanted, line.met = f"<= {most:g} {unit}", line.ours <= most
    return line


def _engine_us(connection: herdpy.Connection, sql: str, values: Sequence[tuple[object, ...]]) -> float:
    """Microseconds of ``plan.run`` over a view, for each of ``values``."""
    session: Any = connection.shared_link.link.session  # type: ignore[attr-defined]
    ((prepared,),) = (session.plans.statements(sql),)
    bound = [prepared.bound(session.catalog, "auto", one) for one in values]
    transaction = session.tablespace.begin(instant=True)
    try:
        view, clock = transaction.workspace, transaction.clock(PLAIN)
        assert bound[0][0].plan.engine == "own", sql
        began = time.perf_counter()
        for ready, datums in bound:
            ready.plan.run(view, datums, clock)
        took = time.perf_counter() - began
    finally:
        session.tablespace.rollback(transaction)
    return took / len(values) * 1e6


def _executor_us(connection: Any, sql: str, values: Sequence[tuple[object, ...]]) -> float:
    """Microseconds that PostgreSQL says its executor took, with its own clock's cost in them."""
    text = sql.format("%s", "%s")
    times = []
    for one in values:
        plan = connection.execute(f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {text}", one).fetchone()[0]
        times.append(float(plan[0]["Execution Time"]) * 1000)
    return statistics.median(times)


def memory(directory: Path, texts: int) -> list[Line]:
    """How much the process grows by ever other statements, after as many have been through already."""
    with herdpy.connect(f"{directory}/memory", autocommit=True) as connection:
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v TEXT)")

        def pour(first: int) -> int:
            for i in range(first, first + texts):
                connection.execute(f"SELECT k AS c{i}, v FROM t WHERE k = {i} AND v <> 'text {i}'").fetchall()
            return _resident_bytes()

        before = pour(0)
        after = pour(texts)
    grown = (after - before) / 2**20
    line = Line(f"growth by {texts:,} more statement texts", grown, "MiB", runs=[grown])
    line.wanted, line.met = "<= 16 MiB", grown <= 16
    return [line]


def _resident_bytes() -> int:
    for text in Path("/proc/self/status").read_text().splitlines():
        if text.startswith("VmRSS:"):
            return int(text.split()[1]) * 1024
    raise RuntimeError("no VmRSS in /proc/self/status")
