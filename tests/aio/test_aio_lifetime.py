"""How asynchronous connections end: closed, forgotten, at exit, with their loop, and after a fork."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import warnings

import pytest

import herdpy
from herdpy import aio
from herdpy.aio import worker
from tests.dbapi.test_driver_lifetime import in_child


def own_threads() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name.startswith("herdpy-aio")]


def program(code: str, path) -> str:
    """What a program prints that ends well, without a word on stderr."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", "-c", code, str(path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_with_commits_and_closes_and_its_thread_ends(url):
    async def main():
        async with aio.connect(url) as conn:
            assert len(own_threads()) == 1
            await conn.execute("CREATE TABLE t (a INTEGER)")
        assert conn.closed
        assert not own_threads()
        with pytest.raises(ZeroDivisionError):
            async with aio.connect(url) as conn:
                await conn.execute("INSERT INTO t VALUES (%s)", (1 // len(own_threads()[1:]),))
        async with await aio.connect(url) as conn:
            assert await (await conn.execute("SELECT count(*) FROM t")).fetchone() == (0,)
        await conn.close()
        with pytest.raises(herdpy.InterfaceError, match="closed") as caught:
            await conn.execute("SELECT 1")
        assert caught.value.sqlstate == "08003"

    asyncio.run(main())


def test_nothing_is_left_of_one_that_cannot_connect(tmp_path):
    async def main():
        with pytest.raises(herdpy.OperationalError):
            await aio.connect(tmp_path / "none", create=False)
        worker.settle()
        assert not own_threads()

    asyncio.run(main())


def test_a_forgotten_connection_warns_and_is_closed(url):
    async def main():
        async with aio.connect(url, autocommit=True) as watcher:
            await watcher.execute("CREATE TABLE t (a INTEGER PRIMARY KEY)")
            conn = await aio.connect(url)
            await conn.execute("INSERT INTO t VALUES (1)")
            with pytest.warns(ResourceWarning, match="AsyncConnection .* was deleted without being closed"):
                del conn
            await watcher.execute("INSERT INTO t VALUES (1)")  # the lock becomes free: it was never there
            assert await (await watcher.execute("SELECT a FROM t")).fetchall() == [(1,)]

    asyncio.run(main())


def test_one_that_is_terminated_ends_by_itself(url):
    async def main():
        async with aio.connect(url, autocommit=True) as watcher:
            await watcher.execute("CREATE TABLE t (a INTEGER PRIMARY KEY)")
            conn = await aio.connect(url)
            await conn.execute("INSERT INTO t VALUES (1)")
            conn.terminate()
            conn.terminate()
            assert conn.closed
            with pytest.raises(herdpy.InterfaceError, match="terminated") as caught:
                await conn.execute("SELECT 1")
            assert caught.value.sqlstate == "08003"
            await conn.close()
            await watcher.execute("INSERT INTO t VALUES (1)")  # the lock becomes free: it was never there
            assert await (await watcher.execute("SELECT a FROM t")).fetchall() == [(1,)]

    asyncio.run(main())


def test_one_that_outlives_its_loop(url):
    async def opened():
        conn = await aio.connect(url, autocommit=True)
        await conn.execute("CREATE TABLE t (a INTEGER)")
        return conn

    conn = asyncio.run(opened())

    async def used():
        for use in (lambda: conn.execute("SELECT 1"), conn.commit, conn.transaction().__aenter__):
            with pytest.raises(herdpy.InterfaceError, match="another event loop") as caught:
                await use()
            assert caught.value.sqlstate == "55000"
        assert not conn.closed
        await conn.close()
        assert conn.closed

    asyncio.run(used())


def test_its_loop_is_closed_while_a_statement_runs(url):
    async def main():
        conn = await aio.connect(url, autocommit=True)
        tasks.append(asyncio.create_task(conn.execute("SELECT pg_sleep(600)")))
        while conn.info.transaction_status != herdpy.TransactionStatus.ACTIVE:
            await asyncio.sleep(0)
        return conn

    tasks: list[asyncio.Task] = []
    conn = asyncio.run(main())  # which cancels the task
    assert tasks[0].cancelled()

    async def close():
        await conn.close()

    asyncio.run(close())
    assert conn.closed


def test_two_tasks_take_turns(url):
    async def main():
        async with aio.connect(url, autocommit=True) as conn:
            await conn.execute("CREATE TABLE t (a INTEGER)")
            done: list[int] = []

            async def insert(n):
                await conn.execute("INSERT INTO t VALUES (%s)", (n,))
                done.append(n)

            await asyncio.gather(*map(insert, range(20)))
            assert done == list(range(20))
            assert await (await conn.execute("SELECT count(*) FROM t")).fetchone() == (20,)

    asyncio.run(main())


def test_open_at_exit(tmp_path):
    code = """
import asyncio, sys
from herdpy import aio
async def main():
    one = await aio.connect(sys.argv[1], autocommit=True)
    await one.execute("CREATE TABLE t (a INTEGER PRIMARY KEY)")
    await one.execute("INSERT INTO t VALUES (1)")
    two = await aio.connect(sys.argv[1])
    await two.execute("INSERT INTO t VALUES (2)")
    busy = await aio.connect(sys.argv[1])
    loop, calls = asyncio.get_running_loop(), busy._calls
    calls._worker.submit(loop, calls.connection.execute, ("SELECT pg_sleep(600)",))
    return one, two, busy
kept = asyncio.run(main())
print("end")
"""
    assert program(code, tmp_path / "db") == "end\n"
    with herdpy.connect(tmp_path / "db") as conn:
        assert conn.execute("SELECT a FROM t").fetchall() == [(1,)]


def test_no_thread_is_left_and_no_descriptor(tmp_path):
    code = """
import asyncio, os, sys, threading
from herdpy import aio
async def main():
    async with aio.connect(sys.argv[1], autocommit=True) as first:
        await first.execute("CREATE TABLE t (a INTEGER)")
        def there():
            return len(os.listdir("/proc/self/fd")), threading.active_count(), len(asyncio.all_tasks())
        before = there()
        for _ in range(3):
            async with aio.AsyncPool(sys.argv[1], 1, 4) as pool:
                async def work():
                    async with pool.connection() as conn:
                        await conn.execute("INSERT INTO t VALUES (1)")
                await asyncio.gather(*(work() for _ in range(20)))
        assert there() == before
asyncio.run(main())
print([thread.name for thread in threading.enumerate()])
"""
    assert program(code, tmp_path / "db") == "['MainThread']\n"


def test_a_forked_child_must_not_use_it(url):
    async def main():
        async with aio.connect(url, autocommit=True) as conn:
            cursor = await conn.execute("SELECT 1")

            def in_the_child() -> str:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    asyncio._set_running_loop(None)
                    said = []
                    for use in (conn.execute("SELECT 1"), cursor.fetchone(), conn.commit()):
                        try:
                            asyncio.new_event_loop().run_until_complete(use)
                        except herdpy.InterfaceError as error:
                            said.append(str(error)[:43])
                    return repr(set(said)) + str(len(said))

            answer = in_child(in_the_child)
            assert answer == "{'the connection was opened before a fork, in'}3"
            assert await (await conn.execute("SELECT 1")).fetchone() == (1,)

    asyncio.run(main())
    assert os.getpid()


def test_notices_come_on_the_loop_before_the_answer(url):
    async def main():
        async with aio.connect(url, autocommit=True) as conn:
            told: list[tuple[str, str]] = []
            conn.add_notice_handler(lambda one: told.append((one.message, threading.current_thread().name)))
            await conn.execute("DROP TABLE IF EXISTS none")
            ((message, thread),) = told
            assert "none" in message
            assert thread == threading.current_thread().name
            assert [one.message for one in conn.notices] == [message]

    asyncio.run(main())


def test_streams_and_batches_as_they_come(url):
    async def main():
        async with aio.connect(url, autocommit=True) as conn:
            query = "SELECT n FROM generate_series(1, 2500) AS s (n)"
            async with conn.stream(query, size=100) as rows:
                assert [row[0] async for row in rows] == list(range(1, 2501))
            async with conn.stream(query) as rows:
                batches = await rows.fetch_record_batch()
                assert batches.schema.names == ["n"]
                sizes = [batch.num_rows async for batch in batches]
                assert sum(sizes) == 2500
                assert max(sizes) <= 1000
            cursor = await conn.execute(query)
            assert len([row async for row in cursor]) == 2500  # more than the loop makes by itself
            await cursor.scroll(2, "absolute")
            assert await cursor.fetchone() == (3,)

    asyncio.run(main())


def test_executemany_takes_what_is_awaited(url):
    async def rows():
        for n in range(30):
            yield (n,)

    async def main():
        async with aio.connect(url, autocommit=True) as conn:
            await conn.execute("CREATE TABLE t (a INTEGER)")
            cursor = await conn.cursor().executemany("INSERT INTO t VALUES (%s)", rows())
            assert cursor.rowcount == 30
            await cursor.executemany("INSERT INTO t VALUES (%s)", ((n,) for n in range(3)))
            assert cursor.rowcount == 3

    asyncio.run(main())
