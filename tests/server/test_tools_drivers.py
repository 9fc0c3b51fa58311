"""psycopg 3 and asyncpg against a whole server, over its TCP port, as programs use them.

What each does with a type or a message is tested with pgwire; here it is what a program does from its
connection to its end, beside others, with the server's own configuration.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import uuid
from collections.abc import Coroutine
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from tests.support.server_process import RunningServer

asyncpg = pytest.importorskip("asyncpg", reason="asyncpg is not installed")

COLUMNS = (
    "k int PRIMARY KEY, n numeric(12,3), t text, y bytea, d date, z timestamptz, u uuid, f double precision"
)
NAMES = ["k", "n", "t", "y", "d", "z", "u", "f"]


def records(count: int) -> list[tuple[Any, ...]]:
    """Rows for COLUMNS, with NULLs in them."""
    zone = dt.UTC
    return [
        (
            k,
            None if k % 7 == 0 else Decimal(k) / 8,
            f"t\t{k}\n\\",
            bytes([k % 256, 0, 255]),
            dt.date(2000, 1, 1) + dt.timedelta(days=k),
            dt.datetime(2026, 2, 28, 1, 2, 3, k, tzinfo=zone),
            None if k % 5 == 0 else uuid.UUID(int=k),
            k * 0.1,
        )
        for k in range(count)
    ]


async def _connect(server: RunningServer, **more: Any) -> Any:
    return await asyncpg.connect(
        host="127.0.0.1", port=server.port, user="ann", database="test", ssl=False, timeout=30, **more
    )


def test_psycopg_in_one_pipeline_of_everything(shared_server: RunningServer) -> None:
    rows = records(200)
    marks = ", ".join(["%s"] * len(NAMES))
    with shared_server.connect(autocommit=False) as connection:
        connection.execute(f"CREATE TABLE piped ({COLUMNS})")
        with connection.pipeline(), connection.cursor() as cursor:
            cursor.executemany(f"INSERT INTO piped VALUES ({marks})", rows)
            found = connection.execute("SELECT * FROM piped ORDER BY k", binary=True)
            counted = connection.execute("SELECT count(*) FROM piped WHERE n IS NULL")
            assert found.fetchall() == rows
            assert counted.fetchone() == (29,)
        with connection.cursor("big", binary=True) as reader:
            reader.itersize = 64
            reader.execute("SELECT * FROM piped ORDER BY k")
            assert list(reader) == rows
        connection.commit()
        with pytest.raises(psycopg.errors.UniqueViolation), connection.pipeline():  # noqa: PT012
            connection.execute("UPDATE piped SET t = 'x'")
            connection.execute("INSERT INTO piped (k) VALUES (1)")
            connection.execute("DELETE FROM piped")
        connection.rollback()
        assert connection.execute("SELECT count(*) FROM piped WHERE t <> 'x'").fetchone() == (200,)


@pytest.mark.parametrize("form", ["text", "binary"])
def test_psycopg_copies_from_one_table_to_another(shared_server: RunningServer, form: str) -> None:
    rows = records(5000)
    with shared_server.connect() as source, shared_server.connect() as target:
        for name in ("copied", "copied_again"):
            source.execute(f"DROP TABLE IF EXISTS {name}")
            source.execute(f"CREATE TABLE {name} ({COLUMNS})")
        types = ["int4", "numeric", "text", "bytea", "date", "timestamptz", "uuid", "float8"]
        with source.cursor().copy(f"COPY copied FROM STDIN (FORMAT {form})") as copy:
            copy.set_types(types)
            for row in rows:
                copy.write_row(row)
        with (
            source.cursor().copy(f"COPY copied TO STDOUT (FORMAT {form})") as out,
            target.cursor().copy(f"COPY copied_again FROM STDIN (FORMAT {form})") as into,
        ):
            for part in out:
                into.write(part)
        assert target.execute("SELECT * FROM copied_again ORDER BY k", binary=True).fetchall() == rows


def test_asyncpg_copies_records_both_ways(shared_server: RunningServer) -> None:
    rows = records(5000)

    async def main() -> None:
        connection = await _connect(shared_server)
        try:
            await connection.execute(f"CREATE TABLE recorded ({COLUMNS})")
            assert await connection.copy_records_to_table("recorded", records=rows) == "COPY 5000"
            assert [tuple(row) for row in await connection.fetch("SELECT * FROM recorded ORDER BY k")] == rows
            part = [(5000, "only"), (5001, None)]
            await connection.copy_records_to_table("recorded", records=part, columns=["k", "t"])
            parts: list[bytes] = []

            async def keep(data: bytes) -> None:
                parts.append(data)

            query = "SELECT k, t FROM recorded WHERE k >= $1 ORDER BY k"
            assert await connection.copy_from_query(query, 5000, output=keep, format="csv") == "COPY 2"
            assert b"".join(parts) == b"5000,only\n5001,\n"
            with pytest.raises(asyncpg.UniqueViolationError):
                await connection.copy_records_to_table("recorded", records=rows)
            assert await connection.fetchval("SELECT count(*) FROM recorded") == 5002
        finally:
            await connection.close()

    asyncio.run(main())


def test_asyncpg_prepares_and_scrolls(shared_server: RunningServer) -> None:
    rows = records(300)

    async def main() -> None:
        connection = await _connect(shared_server)
        try:
            await connection.execute(f"CREATE TABLE prepared ({COLUMNS})")
            marks = ", ".join(f"${i}" for i in range(1, len(NAMES) + 1))
            await connection.executemany(f"INSERT INTO prepared VALUES ({marks})", rows)
            statement = await connection.prepare("SELECT * FROM prepared WHERE k = $1")
            assert [one.name for one in statement.get_attributes()] == NAMES
            assert [one.name for one in statement.get_parameters()] == ["int4"]
            for k in (0, 150, 299):
                assert tuple(await statement.fetchrow(k)) == rows[k]
            assert await statement.fetchrow(300) is None
            async with connection.transaction():
                cursor = await connection.cursor("SELECT k FROM prepared ORDER BY k")
                assert [row["k"] for row in await cursor.fetch(10)] == list(range(10))
                await cursor.forward(100)
                assert (await cursor.fetchrow())["k"] == 110
            # An error leaves the connection, and the statement, as they were.
            with pytest.raises(asyncpg.DivisionByZeroError):
                await connection.fetchval("SELECT $1::int / 0", 1)
            assert tuple(await statement.fetchrow(7)) == rows[7]
        finally:
            await connection.close()

    asyncio.run(main())


def test_a_pool_of_asyncpg_does_not_lose_updates(shared_server: RunningServer) -> None:
    async def main() -> None:
        pool = asyncpg.create_pool(
            host="127.0.0.1",
            port=shared_server.port,
            user="ann",
            database="test",
            ssl=False,
            min_size=2,
            max_size=8,
        )
        async with pool:
            await pool.execute("CREATE TABLE counters (k int PRIMARY KEY, n int NOT NULL)")
            await pool.execute("INSERT INTO counters SELECT i, 0 FROM generate_series(0, 3) AS g(i)")

            async def add(k: int) -> None:
                async with pool.acquire() as connection, connection.transaction():
                    n = await connection.fetchval("SELECT n FROM counters WHERE k = $1 FOR UPDATE", k)
                    await connection.execute("UPDATE counters SET n = $2 WHERE k = $1", k, n + 1)

            work: list[Coroutine[Any, Any, None]] = [add(i % 4) for i in range(200)]
            await asyncio.gather(*work)
            assert [tuple(row) for row in await pool.fetch("SELECT k, n FROM counters ORDER BY k")] == [
                (k, 50) for k in range(4)
            ]

    asyncio.run(main())
