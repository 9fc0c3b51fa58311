"""The driver's benchmark: one row by its key, from threads of several processes."""

from __future__ import annotations

import itertools
import multiprocessing
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from functools import partial
from multiprocessing.synchronize import Barrier
from statistics import median
from typing import Any

from cluster_bed import DATABASE, Bed, at_least
from measure import Line, in_turn
from postgresql import connect

import herdpy

ROWS = 100_000
THREADS, PROCESSES = (1, 8, 32), (1, 2, 4)
STATEMENTS = {
    "SELECT": "SELECT a, c FROM points WHERE id = %s",
    "INSERT": "INSERT INTO points VALUES (%s, 7, 'some words')",
    "UPDATE": "UPDATE points SET a = a + 1 WHERE id = %s",
}
_together: list[Barrier] = []
"""In each process: where it meets the others."""
_firsts = itertools.count(10**9, 10**9)


def measure_selects(bed: Bed) -> list[Line]:
    """SELECT of one row by its key."""
    return _measure(bed, "SELECT")


def measure_inserts(bed: Bed) -> list[Line]:
    """INSERT of one row, each a commit."""
    return _measure(bed, "INSERT", aim_at=32)


def measure_updates(bed: Bed) -> list[Line]:
    """UPDATE of one row by its key, each a commit."""
    return _measure(bed, "UPDATE", aim_at=32)


def make_points(bed: Bed) -> None:
    """The table, anew in both."""
    for connection in (herdpy.connect(bed.cluster.url), connect(bed.peer, DATABASE)):
        with closing(connection):
            connection.execute("DROP TABLE IF EXISTS points")
            connection.execute("CREATE TABLE points (id BIGINT PRIMARY KEY, a INTEGER, c TEXT)")
            fill = "INSERT INTO points SELECT n, mod(n, 100), 'words' FROM generate_series(1, %s) AS s (n)"
            connection.execute(fill, (ROWS,))
            connection.commit()


def _measure(bed: Bed, what: str, aim_at: int = 0) -> list[Line]:
    url, peer = bed.cluster.url, bed.peer
    make_points(bed)
    lines = []
    context = multiprocessing.get_context("spawn")
    for processes in PROCESSES:
        with ProcessPoolExecutor(processes, context, _remember, (context.Barrier(processes),)) as pool:
            for threads in THREADS:
                if threads < processes:
                    continue
                run = partial(_run, pool, what, threads, processes, bed.seconds)
                runs, peers = in_turn(bed.rounds, partial(run, url), partial(run, peer))
                name = f"{what} by key, {threads} thread{'s' if threads > 1 else ''} in {processes}"
                line = Line(name, median(runs), "/s", median(peers), runs=runs, peer_runs=peers)
                lines.append(at_least(line, 1.0) if threads == aim_at else line)
    return lines


def _run(
    pool: ProcessPoolExecutor, what: str, threads: int, processes: int, seconds: float, target: Any
) -> float:
    tasks = [
        pool.submit(_work, target, what, threads // processes, next(_firsts), seconds)
        for _ in range(processes)
    ]
    return sum(task.result() for task in tasks) / seconds


def _remember(together: Barrier) -> None:
    _together.append(together)


def _connect(target: str | int) -> tuple[Any, dict[str, bool]]:
    """A connection by the driver to a URL, by psycopg to a port; what execute gets besides."""
    if isinstance(target, str):
        return herdpy.connect(target, autocommit=True), {}
    connection = connect(target, DATABASE)
    connection.autocommit = True
    return connection, {"prepare": True}


def _work(target: str | int, what: str, threads: int, first: int, seconds: float) -> int:
    """In a process of its own: run statements for so long, beginning with the others; how many."""
    counts: list[int] = []
    ready, begun = threading.Barrier(threads + 1), threading.Event()

    def work(at: int) -> None:
        connection, options = _connect(target)
        key: Callable[[], int]
        key = itertools.count(at).__next__ if what == "INSERT" else partial(random.randint, 1, ROWS)
        statement, count = STATEMENTS[what], 0
        with closing(connection):
            cursor = connection.cursor()
            ready.wait()
            begun.wait()
            until_s = time.monotonic() + seconds
            while time.monotonic() < until_s:
                cursor.execute(statement, (key(),), **options)
                if what == "SELECT":
                    cursor.fetchone()
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
