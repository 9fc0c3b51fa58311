"""Pools for tasks: the same rules, awaited, and what a task that is cancelled leaves."""

from __future__ import annotations

import asyncio
import contextlib
import gc

import pytest

import herdpy
from herdpy import aio


async def until(condition) -> None:
    while not condition():
        await asyncio.sleep(0.002)


def test_lending_and_taking_back(url):
    async def main():
        async with aio.AsyncPool(url, max_size=2) as pool:
            async with pool.connection() as conn:
                await conn.execute("CREATE TABLE t (a INTEGER)")
            with contextlib.suppress(ZeroDivisionError):
                async with pool.connection() as conn:
                    await conn.execute("INSERT INTO t VALUES (1)")
                    await conn.execute("INSERT INTO t VALUES (%s)", (1 / 0,))
            conn = await pool.getconn()
            await conn.execute("INSERT INTO t VALUES (1)")
            await pool.putconn(conn)
            with pytest.raises(herdpy.ProgrammingError, match="lent"):
                await pool.putconn(conn)
            async with pool.connection() as conn:
                assert await (await conn.execute("SELECT count(*) FROM t")).fetchone() == (0,)
            stats = pool.stats()
            assert (stats.size, stats.made, stats.asked, stats.rolled_back) == (1, 1, 4, 1)
        assert conn.closed

    asyncio.run(main())


def test_in_line(url):
    async def main():
        async with aio.AsyncPool(url, max_size=1, timeout_s=60) as pool:
            served: list[int] = []

            async def use(n):
                async with pool.connection():
                    served.append(n)

            async with pool.connection():
                tasks = [asyncio.create_task(use(n)) for n in range(6)]
                await until(lambda: pool.stats().waiting == 6)
                tasks[2].cancel()
                with pytest.raises(herdpy.PoolTimeout) as caught:
                    await pool.getconn(0.01)
                assert caught.value.sqlstate == "53300"
            await asyncio.gather(*tasks, return_exceptions=True)
            assert served == [0, 1, 3, 4, 5]
            assert pool.stats().timeouts == 2

    asyncio.run(main())


def test_cancelled_at_any_moment_nothing_is_lost(url):
    """Tasks are cancelled wherever they are; afterwards all connections are there, and fit."""

    async def main():
        async with aio.AsyncPool(url, 1, 3, timeout_s=60) as pool:
            async with pool.connection() as conn:
                await conn.execute("CREATE TABLE t (a INTEGER)")

            async def use(n):
                async with pool.connection() as conn:
                    await conn.execute("INSERT INTO t VALUES (%s)", (n,))
                    await conn.execute("SELECT pg_sleep(0.001)")

            tasks = []
            for n in range(40):
                tasks.append(asyncio.create_task(use(n)))
                if n % 3 == 0:
                    await asyncio.sleep(0.001)
                    tasks[n // 2].cancel()
            answers = await asyncio.gather(*tasks, return_exceptions=True)
            assert [one for one in answers if not isinstance(one, asyncio.CancelledError | None)] == []
            stats = pool.stats()
            assert (stats.lent, stats.waiting) == (0, 0)
            assert stats.size == stats.idle <= 3
            async with pool.connection() as conn:
                (count,) = await (await conn.execute("SELECT count(*) FROM t")).fetchone()
            assert count >= answers.count(None)

    asyncio.run(main())


def test_a_broken_one_and_a_forgotten_one_are_replaced(url):
    async def main():
        async with aio.AsyncPool(url, max_size=1) as pool:
            async with pool.connection() as conn:
                await conn.close()
            kept = [await pool.getconn()]
            task = asyncio.create_task(pool.getconn())
            await until(lambda: pool.stats().waiting == 1)
            with pytest.warns(ResourceWarning):
                kept.clear()
            await pool.putconn(await task)
            assert (pool.stats().broken, pool.stats().made) == (2, 3)

    asyncio.run(main())


def test_what_expires(url):
    async def main():
        async with aio.AsyncPool(url, 2, 4, max_idle_s=0.05) as pool:
            await pool.open()
            held = [await pool.getconn() for _ in range(4)]
            for conn in held:
                await pool.putconn(conn)
            await until(lambda: pool.stats().size == 2)
            await until(lambda: sum(conn.closed for conn in held) == 2)
            assert pool.stats().expired == 2

    asyncio.run(main())


def test_check_configure_and_reset(url):
    wrong: list[object] = []

    async def check(conn):
        await conn.execute("SELECT 1")
        if conn in wrong:
            raise herdpy.OperationalError("no good")

    async def configure(conn):
        await conn.execute("SET statement_timeout = 1000")
        await conn.commit()

    async def reset(conn):
        if conn in wrong:
            raise ValueError("will not")

    async def main():
        async with aio.AsyncPool(url, 0, 1, check=check, configure=configure, reset=reset) as pool:
            async with pool.connection() as conn:
                assert await (await conn.execute("SHOW statement_timeout")).fetchone() == ("1s",)
            wrong.append(conn)
            async with pool.connection() as other:
                assert other is not conn
                wrong.append(other)
            assert other.closed
            assert pool.stats().broken == 2

    asyncio.run(main())


def test_closing(url):
    async def main():
        pool = aio.AsyncPool(url, max_size=1)
        conn = await pool.getconn()
        task = asyncio.create_task(pool.getconn())
        await until(lambda: pool.stats().waiting == 1)
        assert await pool.close(0.01) == 1
        with pytest.raises(herdpy.PoolClosed):
            await task
        await conn.execute("SELECT 1")
        await pool.putconn(conn)
        assert conn.closed
        with pytest.raises(herdpy.PoolClosed):
            await pool.getconn()
        assert await aio.AsyncPool(url).close() == 0

    asyncio.run(main())


async def used(pool):
    async with pool.connection() as conn:
        await conn.execute("SELECT 1")


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_another_loop(url):
    pool = aio.AsyncPool(url)
    asyncio.run(used(pool))
    with pytest.raises(herdpy.InterfaceError, match="another event loop"):
        asyncio.run(used(pool))
    pools = [pool]
    del pool
    with pytest.warns(ResourceWarning, match="AsyncPool"):
        pools.clear() or gc.collect()
