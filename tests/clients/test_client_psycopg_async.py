"""psycopg's AsyncConnection on a server: rows as they come, pipelines, COPY, cancelling, many at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg

from tests.support.server_process import RunningServer

Work = Callable[[psycopg.AsyncConnection[Any]], Awaitable[None]]


def _run(server: RunningServer, work: Work) -> None:
    async def main() -> None:
        async with await psycopg.AsyncConnection.connect(
            host="127.0.0.1", port=server.port, user="ann", dbname="test", autocommit=True
        ) as connection:
            await work(connection)

    asyncio.run(main())


def test_rows_transactions_and_pipelines(clients_server: RunningServer) -> None:
    async def work(connection: psycopg.AsyncConnection[Any]) -> None:
        await connection.execute("CREATE TABLE pa (id int PRIMARY KEY, name text)")
        async with connection.pipeline(), connection.cursor() as cursor:
            await cursor.executemany("INSERT INTO pa VALUES (%s, %s)", [(n, f"n{n}") for n in range(50)])
        try:
            async with connection.transaction():
                await connection.execute("DELETE FROM pa")
                raise ZeroDivisionError
        except ZeroDivisionError:
            pass
        async with connection.transaction(), connection.cursor("named") as cursor:
            await cursor.execute("SELECT id FROM pa ORDER BY id")
            assert [row[0] async for row in cursor] == list(range(50))

    _run(clients_server, work)


def test_copy_both_ways(clients_server: RunningServer) -> None:
    async def work(connection: psycopg.AsyncConnection[Any]) -> None:
        await connection.execute("CREATE TABLE pac (id int PRIMARY KEY, name text)")
        async with connection.cursor() as cursor:
            async with cursor.copy("COPY pac FROM STDIN") as copy:
                for n in range(100):
                    await copy.write_row((n, None if n % 2 else f"tab\t{n}"))
            async with cursor.copy("COPY (SELECT * FROM pac ORDER BY id) TO STDOUT") as copy:
                copy.set_types(["int4", "text"])
                rows = [row async for row in copy.rows()]
        assert rows == [(n, None if n % 2 else f"tab\t{n}") for n in range(100)]

    _run(clients_server, work)


def test_a_cancelled_task_leaves_a_connection_that_serves(clients_server: RunningServer) -> None:
    async def work(connection: psycopg.AsyncConnection[Any]) -> None:
        watcher = clients_server.connect()
        running = asyncio.create_task(connection.execute("SELECT pg_sleep(600)"))
        sleeps = "SELECT count(*) FROM pg_stat_activity WHERE pid = %s AND state = 'active'"
        while not watcher.execute(sleeps, (connection.info.backend_pid,)).fetchone()[0]:  # type: ignore[index]
            await asyncio.sleep(0)
        running.cancel()
        [ended] = await asyncio.gather(running, return_exceptions=True)
        assert isinstance(ended, asyncio.CancelledError | psycopg.errors.QueryCanceled)
        assert await (await connection.execute("SELECT 1")).fetchone() == (1,)

    _run(clients_server, work)


def test_many_connections_at_a_time(clients_server: RunningServer) -> None:
    async def work(connection: psycopg.AsyncConnection[Any]) -> None:
        await connection.execute("CREATE TABLE pam (id int PRIMARY KEY, n int)")
        await connection.execute("INSERT INTO pam VALUES (1, 0)")

        async def add() -> None:
            async with await psycopg.AsyncConnection.connect(
                host="127.0.0.1", port=clients_server.port, user="ann", dbname="test"
            ) as own:
                for _ in range(5):
                    await own.execute("UPDATE pam SET n = n + 1 WHERE id = 1")
                    await own.commit()

        await asyncio.gather(*(add() for _ in range(8)))
        assert await (await connection.execute("SELECT n FROM pam")).fetchone() == (40,)

    _run(clients_server, work)
