"""Tasks that are cancelled, and what else ends a statement."""

from __future__ import annotations

import asyncio
import threading

import pytest

import herdpy
from herdpy import aio
from herdpy.aio import worker


def run(coroutine):
    """Run it on a new loop, as a program does."""
    return asyncio.run(coroutine)


async def awaits(conn: aio.AsyncConnection) -> None:
    """Until a statement runs in its thread."""
    while conn.info.transaction_status != herdpy.TransactionStatus.ACTIVE:
        await asyncio.sleep(0)


async def cancelled(task: asyncio.Task) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_task_that_is_cancelled_ends_its_statement(url):
    async def main():
        async with aio.connect(url, autocommit=True) as conn:
            task = asyncio.create_task(conn.execute("SELECT pg_sleep(600)"))
            await awaits(conn)
            await cancelled(task)
            assert conn.info.transaction_status == herdpy.TransactionStatus.IDLE
            assert await (await conn.execute("SELECT 1")).fetchone() == (1,)

    run(main())


def test_within_a_transaction_it_has_failed(url):
    async def main():
        async with aio.connect(url, autocommit=True) as conn:
            await conn.execute("CREATE TABLE t (a INTEGER)")

            async def work():
                async with conn.transaction():
                    await conn.execute("INSERT INTO t VALUES (1)")
                    began.set()
                    await conn.execute("SELECT pg_sleep(600)")

            began = asyncio.Event()
            task = asyncio.create_task(work())
            await began.wait()
            await cancelled(task)
            assert conn.info.transaction_status == herdpy.TransactionStatus.IDLE
            assert await (await conn.execute("SELECT count(*) FROM t")).fetchone() == (0,)

            await conn.execute("BEGIN")
            task = asyncio.create_task(conn.execute("SELECT pg_sleep(600)"))
            await awaits(conn)
            await cancelled(task)
            assert conn.info.transaction_status == herdpy.TransactionStatus.INERROR
            with pytest.raises(herdpy.InternalError):
                await conn.execute("SELECT 1")
            await conn.rollback()

    run(main())


def test_a_timeout_of_asyncio(url):
    async def main():
        async with aio.connect(url, autocommit=True) as conn:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await conn.execute("SELECT pg_sleep(600)")
            assert await (await conn.execute("SELECT 1")).fetchone() == (1,)
            with pytest.raises(herdpy.OperationalError) as caught:
                await conn.execute("SELECT pg_sleep(600)", timeout_s=0.05)
            assert caught.value.sqlstate == "57014"

    run(main())


def test_another_task_cancels_the_statement(url):
    async def main():
        async with aio.connect(url, autocommit=True) as conn:
            task = asyncio.create_task(conn.execute("SELECT pg_sleep(600)"))
            while not task.done():  # what it does at the first call may not be what can be ended
                await asyncio.wait({task}, timeout=0.02)
                await conn.cancel()
            with pytest.raises(herdpy.OperationalError) as caught:
                await task
            assert caught.value.sqlstate == "57014"
            assert await (await conn.execute("SELECT 1")).fetchone() == (1,)

    run(main())


def test_who_waits_for_the_turn_is_cancelled_without_harm(url):
    async def main():
        async with aio.connect(url, autocommit=True) as conn:
            await conn.execute("CREATE TABLE t (a INTEGER)")
            first = asyncio.create_task(conn.execute("SELECT pg_sleep(0.2)"))
            while not (conn._calls.is_busy or first.done()):
                await asyncio.sleep(0)
            second = asyncio.create_task(conn.execute("INSERT INTO t VALUES (1)"))
            await asyncio.sleep(0)
            await cancelled(second)
            await first
            assert await (await conn.execute("SELECT count(*) FROM t")).fetchone() == (0,)

    run(main())


def test_the_next_statement_is_never_the_one_that_is_cancelled(url):
    async def main():
        async with aio.connect(url, autocommit=True) as conn:
            for _ in range(10):
                task = asyncio.create_task(conn.execute("SELECT pg_sleep(600)"))
                await awaits(conn)
                task.cancel()
                assert await (await conn.execute("SELECT pg_sleep(0.01), 1")).fetchall()
                with pytest.raises(asyncio.CancelledError):
                    await task

    run(main())


def test_one_that_does_not_end_costs_the_connection(tmp_path, monkeypatch):
    """A call that cannot be cancelled: after a while the connection is given up, and says so."""
    monkeypatch.setattr(worker, "CANCEL_PATIENCE_S", 0.05)
    released = threading.Event()

    async def main():
        conn = await aio.connect(tmp_path / "db", autocommit=True)
        task = asyncio.create_task(conn._calls.run(released.wait))
        await awaits(conn)
        await cancelled(task)
        assert conn.closed
        with pytest.raises(herdpy.InterfaceError, match="the connection is closed") as caught:
            await conn.execute("SELECT 1")
        assert caught.value.sqlstate == "08003"
        released.set()
        await conn.close()

    run(main())


def test_cancelled_twice(tmp_path):
    """Who is cancelled again while his statement is being ended does not wait for that."""
    released = threading.Event()

    async def main():
        conn = await aio.connect(tmp_path / "db", autocommit=True)
        task = asyncio.create_task(conn._calls.run(released.wait))
        await awaits(conn)
        task.cancel()
        await asyncio.sleep(0.01)
        assert not task.done()
        await cancelled(task)
        assert conn.closed
        released.set()

    run(main())


def test_cancelled_while_it_connects(tmp_path):
    async def main():
        task = asyncio.ensure_future(aio.connect(tmp_path / "db")._connect())
        await asyncio.sleep(0)
        await cancelled(task)
        assert task.cancelled()

    run(main())
    worker.settle()  # what came of it is closed by its thread, without a warning
    assert not [one.name for one in threading.enumerate() if one.name.startswith("herdpy-aio")]


def test_the_loop_goes_on_while_a_statement_runs(url):
    async def main():
        async with aio.connect(url, autocommit=True) as conn:
            task = asyncio.create_task(
                conn.execute(
                    "SELECT sum(a * b) FROM generate_series(1, 2000) s (a), generate_series(1, 2000) t (b)"
                )
            )
            turns = 0
            while not task.done():
                await asyncio.sleep(0)
                turns += 1
            await task
            assert turns > 100

    run(main())
