"""The cluster's benchmark: how far followers are behind, and a takeover of much data."""

from __future__ import annotations

import io
import threading
import time
from pathlib import Path
from statistics import median
from typing import Any

import psycopg
import pyarrow as pa
from cluster_bed import DATABASE, PATIENCE_S, Bed, at_most, percentile, prepare_written
from cluster_failover import HerdPySide, killed_s
from measure import Line
from postgresql import connect, pgbench, transactions_per_s

_PROBE_S = 0.005
_LOOK_S = 0.001
_TABLES, _ROWS = 1000, 10_000_000
_BATCH = 5_000


def measure_lag(bed: Bed) -> list[Line]:
    """From the answer to a commit until a follower shows it, while eight clients run TPC-B on the leader."""
    followers = [bed.port(name) for name in bed.followers]
    ours, peer = _lags_ms(bed, bed.ours, followers, "SET herdpy.read_level = 'any'"), []
    peer = _lags_ms(bed, bed.peer, bed.peer_standbys[:1], "SELECT 1")
    line = Line("follower's lag under TPC-B, p99", percentile(ours, 0.99), "ms", percentile(peer, 0.99))
    middle = Line("follower's lag under TPC-B, p50", percentile(ours, 0.5), "ms", percentile(peer, 0.5))
    return [middle, at_most(line, 50.0)]


def _lags_ms(bed: Bed, leader: int, followers: list[int], setting: str) -> list[float]:
    pgbench(leader, "-i", "-q", "-s", "1", database=DATABASE)
    prepare_written(leader)
    answered_s: dict[int, float] = {}
    seen_s: list[dict[int, float]] = [{} for _ in followers]
    over = threading.Event()
    ready = threading.Barrier(1 + len(followers) + 1)  # the tables filled, and all of it followed

    def write() -> None:
        with connect(leader, DATABASE) as connection:
            number = 0
            ready.wait()
            while not over.wait(_PROBE_S):
                number += 1
                connection.execute("UPDATE written SET n = %s WHERE id = 1", (number,), prepare=True)
                answered_s[number] = time.perf_counter()

    def look(port: int, seen: dict[int, float]) -> None:
        with connect(port, DATABASE) as connection:
            connection.execute(setting)
            _await_row(connection)
            ready.wait()
            while not over.wait(_LOOK_S):
                row = connection.execute("SELECT n FROM written WHERE id = 1", prepare=True).fetchone()
                if row is not None:
                    seen.setdefault(int(row[0]), time.perf_counter())

    threads = [threading.Thread(target=write)]
    threads += [threading.Thread(target=look, args=one) for one in zip(followers, seen_s, strict=True)]
    for thread in threads:
        thread.start()
    ready.wait()
    try:
        transactions_per_s(leader, "tpcb-like", "prepared", 8, 4 * bed.seconds, DATABASE)
    finally:
        over.set()
        for thread in threads:
            thread.join()
    lags_ms = []
    for seen in seen_s:
        shown = sorted(seen.items())
        at = 0
        for number, moment in sorted(answered_s.items()):
            while at < len(shown) and shown[at][0] < number:
                at += 1
            if at < len(shown):  # this one, or a newer one, is what was seen first
                lags_ms.append(max(0.0, shown[at][1] - moment) * 1e3)
    if not lags_ms:
        raise SystemExit("no follower showed anything")
    return lags_ms


def _await_row(connection: psycopg.Connection[Any]) -> None:
    """Return when the row is there as it was prepared: whatever was written before it is."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            if connection.execute("SELECT n FROM written WHERE id = 1").fetchall() == [(0,)]:
                return
        except psycopg.errors.UndefinedTable:
            pass
        if time.monotonic() > until:
            raise SystemExit("a follower does not show what was written")
        time.sleep(0.05)


def measure_big(bed: Bed) -> list[Line]:
    """A replica with many tables and rows takes over. Long: it is only run when it is named."""
    tables, rows = (20, 100_000) if bed.quick else (_TABLES, _ROWS)
    port = bed.ours
    with connect(port, DATABASE) as connection:
        began = time.perf_counter()
        for number in range(tables):
            connection.execute(f"CREATE TABLE big_{number} (id BIGINT PRIMARY KEY, a INTEGER, c TEXT)")
        made_s = time.perf_counter() - began
        data = _numbered_rows(rows // tables)
        began = time.perf_counter()
        for number in range(tables):
            with connection.cursor().copy(f"COPY big_{number} FROM STDIN (FORMAT arrow)") as copy:
                copy.write(data)
        loaded_s = time.perf_counter() - began
    prepare_written(port)
    herdpy = HerdPySide(bed)
    taken_s, back_s = [], []
    for _ in range(1 if bed.quick else 3):
        bed.await_followers()
        taken_s.append(killed_s(herdpy))
        began = time.perf_counter()
        bed.await_followers()
        back_s.append(time.perf_counter() - began)
    name = f"{tables:,} tables and {rows:,} rows"
    most = max(_resident_mib(one.pid) for one in bed.cluster.status().servers if one.pid is not None)
    return [
        Line("CREATE TABLE, one after the other", tables / made_s, "tables/s"),
        Line(f"COPY of Arrow into {tables:,} tables", rows / loaded_s, "rows/s"),
        at_most(Line(f"takeover with {name}", median(taken_s), "s", runs=taken_s), 10.0),
        Line("the killed server follows again", median(back_s), "s", runs=back_s),
        Line(f"memory of a server with {name}, most", most, "MiB"),
    ]


def _numbered_rows(count: int) -> bytes:
    """An Arrow IPC stream for a table of ``measure_big``."""
    numbers = range(1, count + 1)
    columns = [
        pa.array(numbers, pa.int64()),
        pa.array([number % 100 for number in numbers], pa.int32()),
        pa.array([f"row {number}" for number in numbers], pa.string()),
    ]
    table = pa.table(columns, names=["id", "a", "c"])
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=_BATCH)
    return sink.getvalue()


def _resident_mib(pid: int) -> float:
    """What a process has to itself in memory: the pages of LMDB's file are the system's."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon:")) / 1024
