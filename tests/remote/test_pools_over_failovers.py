"""Pools whose server is killed, and whose leader changes: nothing lost, nothing twice, none left over."""

from __future__ import annotations

import asyncio
import signal
import threading

import pytest

import herdpy
from herdpy import aio
from tests.remote.test_killed_server import free_port
from tests.support.server_process import RunningServer

pytestmark = pytest.mark.timeout(120)
WORKERS = 4
MORE = 5
"""So many more transactions show that work goes on."""


class Counted:
    """Transactions that were acknowledged, by threads and by tasks, and waiting for more of them."""

    def __init__(self) -> None:
        self.told: list[int] = []
        self.stop = False
        self._progress = threading.Semaphore(0)
        self._numbers = iter(range(10**9))
        self._lock = threading.Lock()
        self.failed: list[BaseException] = []

    def number(self) -> int:
        with self._lock:
            return next(self._numbers)

    def done(self, number: int) -> None:
        self.told.append(number)
        self._progress.release()

    def fail(self, error: BaseException) -> None:
        self.failed.append(error)
        self._progress.release()

    def more(self) -> None:
        for _ in range(MORE * WORKERS):
            assert self._progress.acquire(timeout=60)
            assert not self.failed, self.failed


def write(pool: herdpy.Pool, counted: Counted) -> None:
    """A thread's work."""
    try:
        while not counted.stop:
            number = counted.number()
            herdpy.run_transaction(
                pool, lambda conn, number=number: conn.execute("INSERT INTO written VALUES (%s)", (number,))
            )
            counted.done(number)
    except BaseException as error:
        counted.fail(error)
        raise


def write_in_tasks(url: str, counted: Counted, stats: list) -> None:
    """A thread with a loop and tasks."""

    async def work(pool):
        while not counted.stop:
            number = counted.number()

            async def insert(conn, number=number):
                await conn.execute("INSERT INTO written VALUES (%s)", (number,))

            await aio.run_transaction(pool, insert)
            counted.done(number)

    async def main():
        async with aio.AsyncPool(url, 1, 2, timeout_s=60) as pool:
            await asyncio.gather(*(work(pool) for _ in range(WORKERS)))
            stats.append(pool.stats())

    try:
        asyncio.run(main())
    except BaseException as error:
        counted.fail(error)
        raise


def run_over(url: str, change) -> None:
    """Write by both kinds of pools while ``change(more)`` does its worst, and judge."""
    with herdpy.connect(url, autocommit=True) as conn:
        conn.execute("DROP TABLE IF EXISTS written")
        conn.execute("CREATE TABLE written (n INTEGER)")
    counted = Counted()
    stats: list = []
    before = threading.active_count()
    with herdpy.Pool(url, 1, 2, timeout_s=60) as pool:
        threads = [threading.Thread(target=write, args=(pool, counted)) for _ in range(WORKERS)]
        threads.append(threading.Thread(target=write_in_tasks, args=(url, counted, stats)))
        for thread in threads:
            thread.start()
        try:
            counted.more()
            change(counted.more)
        finally:
            counted.stop = True
            for thread in threads:
                thread.join(60)
        assert not counted.failed
        stats.append(pool.stats())
        with pool.connection() as conn:
            there = [n for (n,) in conn.execute("SELECT n FROM written").fetchall()]
    for one in stats:
        assert (one.lent, one.waiting) == (0, 0)
        assert one.size <= 2
    assert sorted(there) == sorted(counted.told)
    assert threading.active_count() == before


@pytest.mark.soak
def test_the_server_is_killed(tmp_path):
    port = free_port()
    url = f"herdpy://ann@127.0.0.1:{port}/test?failover_timeout=60&connect_timeout=60"
    servers = [RunningServer(tmp_path / "data", "--port", port).ready()]

    def kill(more):
        servers[0].signal(signal.SIGKILL)
        servers[0].wait()
        servers[0].close()
        servers[0] = RunningServer(tmp_path / "data", "--port", port).ready()
        more()

    try:
        run_over(url, kill)
    finally:
        servers[0].close()


def test_the_leader_changes(cluster):
    def hand_over(more):
        old = cluster.await_leader()
        cluster.kill(old)
        more()
        cluster.start(old)

    run_over(cluster.url, hand_over)
