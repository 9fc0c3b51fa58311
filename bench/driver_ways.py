"""The driver's benchmark: one row by its key, awaited by tasks of a loop, or by threads that share a pool."""

from __future__ import annotations

import asyncio
import queue
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from statistics import median
from typing import Any

import psycopg
from cluster_bed import DATABASE, Bed
from driver_points import ROWS, STATEMENTS, make_points
from measure import Line, in_turn
from postgresql import connect

import herdpy
from herdpy import aio

CLIENTS = 32
CONNECTIONS = 8
"""In a pool."""


def measure_tasks(bed: Bed) -> list[Line]:
    """herdpy.aio beside psycopg's AsyncConnection: a connection for each of the tasks of one loop."""
    make_points(bed)
    lines = []
    for what in ("SELECT", "UPDATE"):
        run = partial(_tasks, what, bed.seconds)
        runs, peers = in_turn(
            bed.rounds,
            lambda run=run: asyncio.run(run(_ours(bed.cluster.url))),
            lambda run=run: asyncio.run(run(_psycopg(bed.peer))),
        )
        lines.append(_line(f"{what} by key, {CLIENTS} tasks of herdpy.aio", runs, peers))
    return lines


def measure_pools(bed: Bed) -> list[Line]:
    """herdpy.Pool beside the least that a pool can be: psycopg's connections in a queue."""
    make_points(bed)
    lines = []
    for what in ("SELECT", "UPDATE"):
        with (
            herdpy.Pool(bed.cluster.url, min_size=CONNECTIONS, max_size=CONNECTIONS, autocommit=True) as pool,
            _queued(bed.peer) as peer,
        ):
            run = partial(_threads, what, bed.seconds)
            runs, peers = in_turn(
                bed.rounds, partial(run, pool.connection, {}), partial(run, peer, _PREPARED)
            )
        lines.append(_line(f"{what} by key, {CLIENTS} threads, a pool of {CONNECTIONS}", runs, peers))
    return lines


_PREPARED = {"prepare": True}


def _ours(url: str) -> Callable[[], Any]:
    return partial(aio.connect, url, autocommit=True)


def _psycopg(port: int) -> Callable[[], Any]:
    return partial(
        psycopg.AsyncConnection.connect,
        host="127.0.0.1", port=port, user="herdpy", dbname=DATABASE, autocommit=True,
    )  # fmt: skip


async def _tasks(what: str, seconds: float, open_one: Callable[[], Any]) -> float:
    connections = [await open_one() for _ in range(CLIENTS)]
    options = _PREPARED if isinstance(connections[0], psycopg.AsyncConnection) else {}
    until_s = time.monotonic() + seconds

    async def work(connection: Any) -> int:
        count = 0
        while time.monotonic() < until_s:
            cursor = await connection.execute(STATEMENTS[what], (random.randint(1, ROWS),), **options)
            if what == "SELECT":
                await cursor.fetchone()
            count += 1
        return count

    try:
        return sum(await asyncio.gather(*map(work, connections))) / seconds
    finally:
        for connection in connections:
            await connection.close()


def _threads(what: str, seconds: float, borrow: Callable[[], Any], options: dict[str, bool]) -> float:
    counts: list[int] = []
    until_s = time.monotonic() + seconds

    def work() -> None:
        count = 0
        while time.monotonic() < until_s:
            with borrow() as connection:
                cursor = connection.execute(STATEMENTS[what], (random.randint(1, ROWS),), **options)
                if what == "SELECT":
                    cursor.fetchone()
            count += 1
        counts.append(count)

    workers = [threading.Thread(target=work) for _ in range(CLIENTS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if len(counts) != CLIENTS:
        raise RuntimeError("a thread failed")
    return sum(counts) / seconds


@contextmanager
def _queued(port: int) -> Iterator[Callable[[], Any]]:
    """What lends one of psycopg's connections."""
    free: queue.LifoQueue[Any] = queue.LifoQueue()

    @contextmanager
    def borrow() -> Iterator[Any]:
        connection = free.get()
        try:
            yield connection
        finally:
            free.put(connection)

    with ExitStack() as stack:
        for _ in range(CONNECTIONS):
            free.put(stack.enter_context(closing(connect(port, DATABASE))))
        yield borrow


def _line(name: str, runs: list[float], peers: list[float]) -> Line:
    return Line(name, median(runs), "/s", median(peers), runs=runs, peer_runs=peers)
