"""The embedded benchmark's writes: rows one at a time, from one thread and from many, and in bulk."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing

from databases import INSERT, SQLITE_INSERT, Databases, arrow_rows, judged, rows
from measure import Line, in_turn, rate

import herdpy


def insert_one_thread(made: Databases) -> Line:
    """One row a statement, one thread."""
    count = 4000 // made.scale
    ours, peer = made.herdpy(), made.sqlite()
    at = iter(range(0, 10**9, count))
    with closing(ours), closing(peer):
        cursor = ours.cursor()

        def insert(execute: Callable[[str, tuple[object, ...]], object], sql: str) -> float:
            batch = rows(next(at), count)
            return rate(count, lambda: [execute(sql, row) for row in batch])

        a, b = in_turn(
            made.rounds,
            lambda: insert(cursor.execute, INSERT),
            lambda: insert(peer.execute, SQLITE_INSERT),
        )
    return judged("autocommit INSERT, 1 thread", a, b, "rows/s", 0.8)


def insert_threads(made: Databases, threads: int = 16) -> Line:
    """One row a statement, many threads, which share syncs."""
    each = 500 // made.scale + 1
    ours, peer = made.herdpy(), made.sqlite()
    path = peer.execute("PRAGMA database_list").fetchone()[2]
    at = iter(range(0, 10**9, each))

    def run(connect: Callable[[], object], sql: str) -> float:
        ready = threading.Barrier(threads + 1)

        def work(first: int) -> None:
            with closing(connect()) as connection:  # type: ignore[type-var]
                batch = rows(first, each)
                execute = connection.cursor().execute  # type: ignore[attr-defined]
                ready.wait()
                for row in batch:
                    execute(sql, row)

        workers = [threading.Thread(target=work, args=(next(at),)) for _ in range(threads)]
        for worker in workers:
            worker.start()
        ready.wait()
        began = time.perf_counter()
        for worker in workers:
            worker.join()
        return threads * each / (time.perf_counter() - began)

    with closing(ours), closing(peer):
        a, b = in_turn(
            made.rounds,
            lambda: run(lambda: herdpy.connect(made.path, autocommit=True), INSERT),
            lambda: run(lambda: made.reopen_sqlite(path), SQLITE_INSERT),
        )
    return judged(f"autocommit INSERT, {threads} threads", a, b, "rows/s", 2.0)


def executemany(made: Databases) -> Line:
    """Rows as Python objects, one transaction."""
    count = 200_000 // made.scale
    data = rows(0, count)

    def ours() -> float:
        with closing(made.herdpy()) as connection:
            return rate(count, lambda: connection.cursor().executemany(INSERT, data))

    def peer() -> float:
        with closing(made.sqlite()) as connection:
            connection.execute("BEGIN")

            def load() -> None:
                connection.executemany(SQLITE_INSERT, data)
                connection.execute("COMMIT")

            return rate(count, load)

    a, b = in_turn(made.rounds, ours, peer)
    return judged("executemany, 200,000 x 6", a, b, "rows/s", None, at_least=100_000)


def ingest(made: Databases) -> Line:
    """Rows as Arrow, one transaction."""
    count = 200_000 // made.scale
    data = arrow_rows(0, count)
    runs = []
    for _ in range(made.rounds):
        with closing(made.herdpy()) as connection:
            cursor = connection.cursor()
            runs.append(rate(count, lambda: cursor.adbc_ingest("t", data, mode="append")))  # noqa: B023
    return judged("adbc_ingest, 200,000 x 6", runs, [], "rows/s", None, at_least=250_000)
