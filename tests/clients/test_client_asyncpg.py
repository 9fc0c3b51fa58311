"""asyncpg looks up what types are when it meets them: ENUMs, arrays, JSONB, vectors; and again after DDL.

It asks the catalog in the middle of a statement, with a query that recurses and parameters that are arrays of
object ids; what comes back must be of the types that it expects, or it gives up.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from collections.abc import Coroutine
from typing import Any

import pytest

from tests.support.server_process import RunningServer

asyncpg = pytest.importorskip("asyncpg", reason="asyncpg is not installed")


async def _connect(server: RunningServer) -> Any:
    return await asyncpg.connect(
        host="127.0.0.1", port=server.port, user="ann", database="test", ssl=False, timeout=30
    )


def _run(server: RunningServer, work: Any) -> None:
    async def main() -> None:
        connection = await _connect(server)
        try:
            steps: Coroutine[Any, Any, None] = work(connection)
            await steps
        finally:
            await connection.close()

    asyncio.run(main())


def test_values_of_every_new_type(clients_server: RunningServer) -> None:
    async def work(connection: Any) -> None:
        row = await connection.fetchrow("SELECT * FROM lib_book WHERE id = 1")
        assert row["tags"] == ["a", "b c", None]
        assert row["counts"] == [1, 2, None]
        assert row["meta"] == '{"a": [1, null]}'
        assert row["lent"] == dt.timedelta(days=32, hours=3, seconds=0.5)  # a month is 30 days to it
        assert row["state"] == "fine"
        assert row["place"] == "[1,2.5,-3]"
        assert await connection.fetchval("SELECT $1::lib_state[]", ["torn", "fine"]) == ["torn", "fine"]
        assert await connection.fetch("SELECT id FROM lib_book WHERE state = $1", "torn") == []
        found = await connection.fetchval("SELECT $1::interval", dt.timedelta(days=3, seconds=5))
        assert found == dt.timedelta(days=3, seconds=5)
        with pytest.raises(asyncpg.InvalidTextRepresentationError):
            await connection.fetchval("SELECT $1::lib_state", "lost")

    _run(clients_server, work)


def test_codecs_are_registered_by_name(clients_server: RunningServer) -> None:
    async def work(connection: Any) -> None:
        await connection.set_type_codec(
            "jsonb", encoder=json.dumps, decoder=json.loads, schema="pg_catalog", format="text"
        )
        await connection.set_type_codec("lib_state", encoder=str, decoder=str.upper, schema="public")
        await connection.set_type_codec(
            "vector",
            encoder=lambda numbers: "[" + ",".join(map(str, numbers)) + "]",
            decoder=lambda text: [float(part) for part in text[1:-1].split(",")],
            schema="pg_catalog",
            format="text",
        )
        assert await connection.fetchval("SELECT $1::jsonb", {"a": [1]}) == {"a": [1]}
        row = await connection.fetchrow("SELECT state, place FROM lib_book WHERE id = 1")
        assert tuple(row) == ("FINE", [1.0, 2.5, -3.0])
        assert await connection.fetchval("SELECT $1::vector", [4.0, 5.0]) == [4.0, 5.0]

    _run(clients_server, work)


def test_records_are_copied_into_columns_of_new_types(clients_server: RunningServer) -> None:
    async def work(connection: Any) -> None:
        columns = ["id", "title", "tags", "counts", "lent"]
        rows = [(k, f"t{k}", ["x", None], [k], dt.timedelta(days=k)) for k in range(100, 300)]
        await connection.copy_records_to_table("lib_book", records=rows, columns=columns)
        query = "SELECT id, title, tags, counts, lent FROM lib_book WHERE id >= 100 ORDER BY id"
        assert [tuple(row) for row in await connection.fetch(query)] == rows
        assert await connection.execute("DELETE FROM lib_book WHERE id >= 100") == "DELETE 200"

    _run(clients_server, work)


def test_a_statement_is_prepared_again_after_ddl(clients_server: RunningServer) -> None:
    async def work(connection: Any) -> None:
        await connection.execute("CREATE TABLE grown (a int PRIMARY KEY)")
        assert await connection.fetch("SELECT * FROM grown") == []
        await connection.execute("ALTER TABLE grown ADD COLUMN b text DEFAULT 'x'")
        await connection.execute("INSERT INTO grown VALUES (1)")
        assert [tuple(row) for row in await connection.fetch("SELECT * FROM grown")] == [(1, "x")]
        statement = await connection.prepare("SELECT * FROM grown")
        await connection.execute("ALTER TABLE grown ADD COLUMN c int")
        with pytest.raises(asyncpg.InvalidCachedStatementError):
            await statement.fetch()
        assert len(await connection.fetchrow("SELECT * FROM grown")) == 3

    _run(clients_server, work)


def test_errors_are_told_before_sync(clients_server: RunningServer) -> None:
    """asyncpg sends Parse and Flush, and waits for the answer before it says Sync: an error is one."""

    async def work(connection: Any) -> None:
        for query, error in (
            ("SELECT (", asyncpg.PostgresSyntaxError),
            ("SELECT * FROM nosuch", asyncpg.UndefinedTableError),
            ("SELECT nosuch($1)", asyncpg.UndefinedFunctionError),
        ):
            with pytest.raises(error):
                await asyncio.wait_for(connection.prepare(query), 30)
        assert await connection.fetchval("SELECT pg_backend_pid() = $1", connection.get_server_pid())

    _run(clients_server, work)
