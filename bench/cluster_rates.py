"""The cluster's benchmark: how much, and how fast. pgbench, rows one by one, rows in bulk."""

from __future__ import annotations

import io
import multiprocessing
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from functools import partial
from multiprocessing.synchronize import Barrier
from statistics import median

import psycopg
import pyarrow as pa
from cluster_bed import DATABASE, Bed, at_least, percentile
from measure import Line, in_turn, rate
from postgresql import connect, rate_and_count, warm
from processor_time import Measured, measured, median_costs

import herdpy

PGBENCH: dict[tuple[str, int], float | None] = {
    ("tpcb-like", 1): 0.8,
    ("tpcb-like", 8): 1.5,
    ("tpcb-like", 32): 2.2,
    ("simple-update", 32): 1.3,
    ("select-only", 1): None,
    ("select-only", 8): None,
    ("select-only", 32): None,
}
"""Script and clients, and how many times PostgreSQL's rate is wanted."""

TABLE = (
    "CREATE TABLE loaded (id BIGINT PRIMARY KEY, a INTEGER, b DOUBLE PRECISION, c TEXT, d BIGINT, g INTEGER)"
)
_BATCH = 20_000
_PROCESSES = 4
_together: list[Barrier] = []
"""In each process that inserts: where it meets the others."""


def measure_pgbench(bed: Bed) -> list[Line]:
    """pgbench's own scripts at scale 1, prepared, against the leader and against the primary."""
    ours, peer = bed.ours, bed.peer
    warm((ours, peer), bed.warm_s, DATABASE)
    families = {ours: bed.processes, peer: bed.peer_processes}
    lines = []
    for (script, clients), wanted in PGBENCH.items():

        def run(port: int, script: str = script, clients: int = clients) -> Measured:
            load = partial(rate_and_count, port, script, "prepared", clients, bed.seconds, DATABASE)
            return measured(families[port], load)

        runs, peer_runs = in_turn(bed.rounds, partial(run, ours), partial(run, peer))
        name = f"pgbench {script}, {clients} client{'s' if clients > 1 else ''}"
        line = _line(name, "tx/s", [one.rate for one in runs], [one.rate for one in peer_runs])
        line.costs, line.peer_costs = median_costs(runs), median_costs(peer_runs)
        lines.append(line if wanted is None else at_least(line, wanted))
    return lines


def measure_inserts(bed: Bed) -> list[Line]:
    """INSERT of one row, autocommit, from psycopg in 32 threads of four processes."""
    ours, peer = bed.ours, bed.peer
    for port in (ours, peer):
        with connect(port, DATABASE) as connection:
            connection.execute("CREATE TABLE inserted (id BIGINT PRIMARY KEY, a INTEGER, c TEXT)")
    firsts = iter(range(0, 10**15, 10**9))
    context = multiprocessing.get_context("spawn")
    together = context.Barrier(_PROCESSES)
    with ProcessPoolExecutor(_PROCESSES, context, _remember, (together,)) as pool:

        def run(port: int) -> float:
            tasks = [
                pool.submit(_insert, port, 32 // _PROCESSES, next(firsts), bed.seconds)
                for _ in range(_PROCESSES)
            ]
            return sum(task.result() for task in tasks) / bed.seconds

        runs, peer_runs = in_turn(bed.rounds, partial(run, ours), partial(run, peer))
    return [at_least(_line("psycopg INSERT, 32 threads in 4 processes", "rows/s", runs, peer_runs), 1.0)]


def _remember(together: Barrier) -> None:
    _together.append(together)


def _insert(port: int, threads: int, first: int, seconds: float) -> int:
    """In a process of its own: insert for so long, beginning with the others; how many rows."""
    counts: list[int] = []
    ready = threading.Barrier(threads + 1)
    begun = threading.Event()

    def work(at: int) -> None:
        count = 0
        with closing(connect(port, DATABASE)) as connection:
            cursor = connection.cursor()
            ready.wait()
            begun.wait()
            until_s = time.monotonic() + seconds
            while time.monotonic() < until_s:
                cursor.execute(
                    "INSERT INTO inserted VALUES (%s, %s, %s)",
                    (at + count, count, "some words"),
                    prepare=True,
                )
                count += 1
        counts.append(count)

    workers = [threading.Thread(target=work, args=(first + nth * 10**7,)) for nth in range(threads)]
    for worker in workers:
        worker.start()
    ready.wait()
    _together[0].wait()
    begun.set()
    for worker in workers:
        worker.join()
    if len(counts) != threads:
        raise RuntimeError("a thread failed")
    return sum(counts)


def measure_commit(bed: Bed) -> list[Line]:
    """One client's autocommit UPDATE, beside a bare append of about its size, and beside PostgreSQL's."""
    ours, peer = bed.ours, bed.peer
    for port in (ours, peer):
        with connect(port, DATABASE) as connection:
            connection.execute("CREATE TABLE committed (id INT PRIMARY KEY, n BIGINT)")
            connection.execute("INSERT INTO committed VALUES (1, 0)")

    def run(port: int) -> float:
        latencies_ms = []
        with connect(port, DATABASE) as connection:
            cursor = connection.cursor()
            until = time.perf_counter() + bed.seconds
            while (began := time.perf_counter()) < until:
                cursor.execute("UPDATE committed SET n = n + 1 WHERE id = 1", prepare=True)
                latencies_ms.append((time.perf_counter() - began) * 1e3)
        return percentile(latencies_ms, 0.5)

    def append() -> float:
        answer = bed.bookkeeper.request(
            "write", in_flight=1, entry_bytes=150, seconds=bed.seconds,
            ensemble_size=3, write_quorum=3, ack_quorum=2, digest="CRC32C",
        )  # fmt: skip
        return float(answer["p50_ms"])

    runs, appends = in_turn(bed.rounds, partial(run, ours), append)
    line = _line("one client's commit, p50 (peer: bare append)", "ms", runs, appends)
    line.wanted, line.met = "<= 1.5 of the peer", (line.ratio or 9.0) <= 1.5
    runs, peer_runs = in_turn(bed.rounds, partial(run, ours), partial(run, peer))
    return [line, _line("one client's commit, p50", "ms", runs, peer_runs)]


def measure_bulk(bed: Bed) -> list[Line]:
    """Rows of six columns by one client, in one transaction: as Python's objects, and as Arrow."""
    count = 10_000 if bed.quick else 200_000
    rows = [(i, i % 1000, i * 0.5, f"name of {i}", i * 7, i % 100) for i in range(count)]
    insert = "INSERT INTO loaded VALUES (%s, %s, %s, %s, %s, %s)"
    ours, peer = bed.ours, bed.peer

    def fresh(port: int) -> None:
        with connect(port, DATABASE) as connection:
            connection.execute("DROP TABLE IF EXISTS loaded")
            connection.execute(TABLE)

    def driver() -> float:
        fresh(ours)
        with closing(herdpy.connect(bed.cluster.url)) as connection:
            cursor = connection.cursor()

            def load() -> None:
                cursor.executemany(insert, rows)
                connection.commit()

            return rate(count, load)

    def psycopg_many(port: int) -> float:
        fresh(port)
        with psycopg.connect(host="127.0.0.1", port=port, user="herdpy", dbname=DATABASE) as connection:
            cursor = connection.cursor()

            def load() -> None:
                cursor.executemany(insert, rows)
                connection.commit()

            return rate(count, load)

    def arrow() -> float:
        fresh(ours)
        return _copied(ours, "arrow", _stream(rows), count)

    text = "".join("\t".join(map(str, row)) + "\n" for row in rows).encode()

    def copy_text() -> float:
        fresh(peer)
        return _copied(peer, "text", text, count)

    lines = []
    pairs: list[tuple[str, Callable[[], float], Callable[[], float], int]] = [
        ("executemany, 200,000 x 6 (peer: psycopg's)", driver, partial(psycopg_many, peer), 100_000),
        ("COPY of Arrow, 200,000 x 6 (peer: COPY of text)", arrow, copy_text, 150_000),
    ]
    for name, run, peer_run, wanted in pairs:
        line = _line(name, "rows/s", *in_turn(bed.rounds, run, peer_run))
        line.wanted, line.met = f">= {wanted:,} rows/s", line.ours >= wanted
        lines.append(line)
    return lines


def _stream(rows: list[tuple[int, int, float, str, int, int]]) -> bytes:
    """Rows as an Arrow IPC stream, in batches."""
    types: list[pa.DataType] = [pa.int64(), pa.int32(), pa.float64(), pa.string(), pa.int64(), pa.int32()]
    schema = pa.schema(list(zip(("id", "a", "b", "c", "d", "g"), types, strict=True)))
    columns = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), types, strict=True)]
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_table(pa.table(columns, schema=schema), max_chunksize=_BATCH)
    return sink.getvalue()


def _copied(port: int, form: str, data: bytes, count: int) -> float:
    with connect(port, DATABASE) as connection:

        def work() -> None:
            with connection.cursor().copy(f"COPY loaded FROM STDIN (FORMAT {form})") as copy:
                for at in range(0, len(data), 1 << 16):
                    copy.write(data[at : at + (1 << 16)])

        return rate(count, work)


def _line(name: str, unit: str, runs: list[float], peer_runs: list[float]) -> Line:
    return Line(name, median(runs), unit, median(peer_runs), runs=runs, peer_runs=peer_runs)
