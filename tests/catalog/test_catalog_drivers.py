"""What psycopg 3 and asyncpg ask of the catalog when they connect and when types are looked up."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest
from psycopg.types import TypeInfo
from psycopg.types.composite import CompositeInfo
from psycopg.types.enum import EnumInfo
from psycopg.types.range import RangeInfo

from tests.pgwire.servers import ThreadServer

asyncpg = pytest.importorskip("asyncpg", reason="asyncpg is not installed")


@pytest.mark.parametrize("name", ["uuid", "int4", "numeric", "timestamp with time zone", "varchar", "nosuch"])
def test_psycopg_looks_up_types(served: ThreadServer, postgres: str, name: str) -> None:
    with psycopg.connect(served.dsn) as connection, psycopg.connect(postgres) as reference:
        found, expected = TypeInfo.fetch(connection, name), TypeInfo.fetch(reference, name)
    assert (found is None) == (expected is None)
    if found is not None and expected is not None:
        assert (found.name, found.oid, found.array_oid, found.regtype, found.delimiter) == (
            expected.name, expected.oid, expected.array_oid, expected.regtype, expected.delimiter,
        )  # fmt: skip


def test_psycopg_looks_up_types_that_are_not_there(served: ThreadServer) -> None:
    with psycopg.connect(served.dsn) as connection:
        assert EnumInfo.fetch(connection, "nosuch") is None
        assert RangeInfo.fetch(connection, "int4") is None
        assert CompositeInfo.fetch(connection, "nosuch") is None


def test_psycopg_binds_names_and_ids(served: ThreadServer) -> None:
    query = "SELECT relname, oid, %s::regclass FROM pg_class WHERE relname = %s OR oid = %s ORDER BY 1"
    with psycopg.connect(served.dsn) as connection:
        for binary in (False, True):
            cursor = connection.cursor(binary=binary)
            rows = cursor.execute(query, ("pg_type", "pg_type", 1259)).fetchall()
            shown = (
                b"\0\0\x04\xdf" if binary else "pg_type"
            )  # regclass in binary is its id, as PostgreSQL sends it
            assert rows == [("pg_class", 1259, shown), ("pg_type", 1247, shown)]


def test_a_session_sees_the_others(served: ThreadServer) -> None:
    query = "SELECT application_name, state, query FROM pg_stat_activity WHERE pid = %s"
    with (
        psycopg.connect(served.dsn, application_name="one", autocommit=True) as one,
        psycopg.connect(served.dsn, application_name="two", autocommit=True) as two,
    ):
        [pid] = two.execute("SELECT pg_backend_pid()").fetchone() or [0]
        assert pid == two.info.backend_pid
        two.execute("SELECT 'last'")
        assert one.execute(query, (pid,)).fetchall() == [("two", "idle", "SELECT 'last'")]
        assert one.execute("SELECT pg_terminate_backend(%s)", (pid,)).fetchone() == (True,)
        with pytest.raises(psycopg.OperationalError) as caught:
            two.execute("SELECT 1")
        assert caught.value.sqlstate == "57P01"
        assert one.execute("SELECT pg_cancel_backend(%s)", (pid,)).fetchone() == (False,)


def test_asyncpg(served: ThreadServer) -> None:
    async def ask() -> list[Any]:
        connection = await asyncpg.connect(
            host="127.0.0.1", port=served.port, user="herdpy", database="herdpy"
        )
        try:
            found = [
                await connection.fetchval(
                    "SELECT oid::regclass::text FROM pg_class WHERE relname = $1", "pg_type"
                ),
                await connection.fetchval("SELECT relname FROM pg_class WHERE oid = $1::oid", 1259),
            ]
            await connection.set_type_codec("json", encoder=str, decoder=str, schema="pg_catalog")
            with pytest.raises(ValueError, match="unknown type"):
                await connection.set_type_codec("hstore", encoder=str, decoder=str)
            await connection.reset()
        finally:
            await connection.close()
        return found

    assert asyncio.run(ask()) == ["pg_type", "pg_class"]
