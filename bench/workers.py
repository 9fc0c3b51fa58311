"""What worker processes cost the others, and what they are worth: a part of ``bench/server.py``.

The times of SELECTs by key, of one client, while nothing else runs and while a worker computes; and an
aggregate over a million rows, the first time (a worker starts, and reads the table) and again.
"""

from __future__ import annotations

import threading
import time
from statistics import median, quantiles
from typing import Any

import psycopg
from measure import Line

LONG = (
    "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 1000000) b WHERE (a * b) % 7 = 3"
)
"""Longer than anybody waits."""
GROUPED = "SELECT g, count(*), sum(a), max(c) FROM counted GROUP BY g ORDER BY g"
WANTED = 1.5
"""The p99 of SELECTs by key while a worker computes, to that without."""


def connect(port: int) -> psycopg.Connection[Any]:
    """A connection to either, in autocommit mode."""
    return psycopg.connect(host="127.0.0.1", port=port, user="herdpy", dbname="postgres", autocommit=True)


def p99_ms(connection: psycopg.Connection[Any], seconds: float) -> float:
    """Of SELECTs by key, one after the other, for so long."""
    times = []
    until = time.perf_counter() + seconds
    row = 0
    while (began := time.perf_counter()) < until:
        row = (row + 7919) % 10_000
        connection.execute("SELECT c FROM counted WHERE id = %s", (row,), prepare=True).fetchone()
        times.append((time.perf_counter() - began) * 1000)
    return quantiles(times, n=100)[98]


def while_busy(port: int, seconds: float) -> float:
    """The p99 while a query that computes runs beside."""
    with connect(port) as busy, connect(port) as connection:
        pid = busy.execute("SELECT pg_backend_pid()").fetchone()

        def run() -> None:
            try:
                busy.execute(LONG)
            except psycopg.errors.QueryCanceled:
                pass

        beside = threading.Thread(target=run)
        beside.start()
        time.sleep(0.5)
        try:
            found = p99_ms(connection, seconds)
            if not beside.is_alive():
                raise SystemExit("the query beside was over too soon")
            return found
        finally:
            connection.execute("SELECT pg_cancel_backend(%s)", pid)
            beside.join()


def seconds_of(connection: psycopg.Connection[Any], text: str) -> float:
    """How long a statement takes."""
    began = time.perf_counter()
    connection.execute(text).fetchall()
    return time.perf_counter() - began


def filled(port: int, count: int) -> None:
    """Make the table of this part."""
    with connect(port) as connection:
        connection.execute("DROP TABLE IF EXISTS counted")
        connection.execute("CREATE TABLE counted (id INTEGER PRIMARY KEY, a INTEGER, c TEXT, g INTEGER)")
        with connection.cursor().copy("COPY counted FROM STDIN (FORMAT csv)") as copy:
            for start in range(0, count, 10_000):
                rows = range(start, min(start + 10_000, count))
                copy.write("".join(f"{i},{i % 1000},name of {i},{i % 100}\n" for i in rows))
        connection.execute("CHECKPOINT")


def measure_workers(ours: int, peer: int, *, quick: bool) -> list[Line]:
    """Latency beside a query that computes; the same query again and again."""
    rounds, seconds, count = (1, 2.0, 50_000) if quick else (3, 10.0, 1_000_000)
    found: dict[str, dict[int, list[float]]] = {}

    def note(name: str, port: int, value: float) -> None:
        found.setdefault(name, {}).setdefault(port, []).append(value)

    for port in (ours, peer):
        filled(port, count)
        with connect(port) as connection:
            note("first", port, seconds_of(connection, GROUPED) * 1000)
            for _ in range(5):
                note("again", port, seconds_of(connection, GROUPED) * 1000)
    for _ in range(rounds):
        for port in (ours, peer):
            with connect(port) as connection:
                idle = p99_ms(connection, seconds)
            busy = while_busy(port, seconds)
            note("idle", port, idle)
            note("busy", port, busy)
            note("ratio", port, busy / idle)
    names = {
        "idle": ("p99 of SELECT by key, idle", "ms"),
        "busy": ("p99 of SELECT by key, a query beside", "ms"),
        "ratio": ("p99 with a query beside, to idle", "x"),
        "first": (f"GROUP BY over {count:,} rows, first", "ms"),
        "again": (f"GROUP BY over {count:,} rows, again", "ms"),
    }
    lines = []
    for key, (name, unit) in names.items():
        runs, peer_runs = found[key][ours], found[key][peer]
        lines.append(Line(name, median(runs), unit, median(peer_runs), runs=runs, peer_runs=peer_runs))
    ratio = lines[2]
    ratio.wanted, ratio.met = f"<= {WANTED}", ratio.ours <= WANTED
    return lines
