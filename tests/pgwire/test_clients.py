"""Real drivers, each through what it is used for: psycopg 3 and asyncpg."""

from __future__ import annotations

import asyncio
import datetime as dt
import io
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import asyncpg
import psycopg
import pyarrow as pa
import pytest
from psycopg import sql
from psycopg.rows import dict_row

from tests.pgwire.servers import ThreadServer

COLUMNS = (
    "k int PRIMARY KEY, b boolean, s smallint, i int, l bigint, r real, d double precision, "
    "n numeric, m numeric(12,3), t text, v varchar(10), y bytea, a date, e time, p timestamp, "
    "z timestamptz, u uuid, j json"
)
VALUES: list[Any] = [
    1, True, -7, 2**31 - 1, -(2**63), 1.5, -2.25e-300, Decimal("12345678901234567890.123456789"),
    Decimal("-99.125"), "grüße \U0001f418", "ten", b"\0\xff'", dt.date(2026, 2, 28),
    dt.time(23, 59, 59, 999999),
    dt.datetime(2026, 2, 28, 1, 2, 3, 4), dt.datetime(2026, 2, 28, 1, 2, 3, tzinfo=dt.UTC),
    uuid.UUID(int=2**100 + 5),
]  # fmt: skip


@pytest.fixture
def connection(server: ThreadServer) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(server.dsn, autocommit=True) as found:
        found.execute("DROP TABLE IF EXISTS everything")
        found.execute(f"CREATE TABLE everything ({COLUMNS})")
        yield found


@pytest.mark.parametrize("parameters", ["%t", "%b"])
@pytest.mark.parametrize("binary", [False, True])
def test_psycopg_carries_every_type(
    connection: psycopg.Connection[Any], parameters: str, binary: bool
) -> None:
    marks = ", ".join([parameters] * len(VALUES))
    insert = sql.SQL("INSERT INTO everything VALUES ({}, %s)".format(marks))  # noqa: UP032
    connection.execute(insert, [*VALUES, '{"a": [1, null]}'])
    connection.execute(insert, [2, *[None] * len(VALUES)])
    cursor = connection.cursor(binary=binary)
    rows = cursor.execute("SELECT * FROM everything ORDER BY k").fetchall()
    assert rows == [(*VALUES, {"a": [1, None]}), (2, *[None] * len(VALUES))]
    assert cursor.description is not None
    assert [column.type_code for column in cursor.description] == [
        23, 16, 21, 23, 20, 700, 701, 1700, 1700, 25, 1043, 17, 1082, 1083, 1114, 1184, 2950, 114,
    ]  # fmt: skip


def test_psycopg_prepares_and_pipelines(connection: psycopg.Connection[Any]) -> None:
    with connection.pipeline() as pipeline:
        for k in range(50):
            connection.execute("INSERT INTO everything (k, t) VALUES (%s, %s)", (k, str(k)), prepare=True)
        pipeline.sync()
        found = [
            connection.execute("SELECT t FROM everything WHERE k = %s", (k,), prepare=True) for k in range(50)
        ]
        assert [one.fetchone() for one in found] == [(str(k),) for k in range(50)]


def test_an_error_in_a_pipeline_ends_its_transaction(connection: psycopg.Connection[Any]) -> None:
    with pytest.raises(psycopg.errors.UniqueViolation), connection.pipeline():  # noqa: PT012
        connection.execute("INSERT INTO everything (k) VALUES (1)")
        connection.execute("INSERT INTO everything (k) VALUES (1)")
        connection.execute("INSERT INTO everything (k) VALUES (2)")
    assert connection.execute("SELECT count(*) FROM everything").fetchone() == (0,)
    with pytest.raises(psycopg.errors.DivisionByZero) as caught:
        connection.execute("SELECT 1 / %s::int", (0,))
    assert caught.value.diag.sqlstate == "22012"
    assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def test_every_field_of_an_error_arrives(connection: psycopg.Connection[Any]) -> None:
    connection.execute("INSERT INTO everything (k) VALUES (1)")
    with pytest.raises(psycopg.errors.UniqueViolation) as caught:
        connection.execute("INSERT INTO everything (k) VALUES (1)")
    diagnosis = caught.value.diag
    assert diagnosis.severity == diagnosis.severity_nonlocalized == "ERROR"
    assert diagnosis.message_primary == 'duplicate key value violates unique constraint "everything_pkey"'
    assert diagnosis.message_detail == "Key (k)=(1) already exists."
    assert (diagnosis.schema_name, diagnosis.table_name) == ("public", "everything")
    assert diagnosis.constraint_name == "everything_pkey"
    assert diagnosis.source_file
    assert diagnosis.source_line
    assert diagnosis.source_function
    with pytest.raises(psycopg.errors.SyntaxError) as syntax:
        connection.execute("SELECT 1 FROM FROM")
    assert syntax.value.diag.statement_position == "15"


def test_notices_arrive(connection: psycopg.Connection[Any]) -> None:
    codes: list[str | None] = []
    connection.add_notice_handler(lambda diagnosis: codes.append(diagnosis.sqlstate))
    connection.execute("BEGIN")
    connection.execute("BEGIN")
    connection.execute("ROLLBACK")
    assert codes == ["25001"]


@pytest.mark.parametrize("binary", [False, True])
def test_psycopg_reads_a_cursor_of_the_server(connection: psycopg.Connection[Any], binary: bool) -> None:
    connection.execute("INSERT INTO everything (k) SELECT i FROM generate_series(1, 1000) AS g(i)")
    with connection.transaction(), connection.cursor("c", binary=binary) as cursor:
        cursor.itersize = 70
        cursor.execute("SELECT k FROM everything WHERE k > %s ORDER BY k", (10,))
        assert [k for (k,) in cursor] == list(range(11, 1001))
    with connection.transaction(), connection.cursor("c", scrollable=True) as cursor:
        cursor.execute("SELECT k FROM everything ORDER BY k")
        cursor.scroll(500)
        assert cursor.fetchone() == (501,)


def test_psycopg_streams_rows(connection: psycopg.Connection[Any]) -> None:
    cursor = connection.cursor(row_factory=dict_row)
    rows = cursor.stream("SELECT i FROM generate_series(1, 5000) AS g(i) ORDER BY i")
    assert [row["i"] for row in rows] == list(range(1, 5001))


def test_a_statement_is_bound_in_changing_ways(connection: psycopg.Connection[Any]) -> None:
    """The same prepared statement, with other formats, values, zones and NULLs each time."""
    connection.execute("INSERT INTO everything (k, z) VALUES (1, '2026-01-01 12:00+00'), (2, NULL)")
    connection.prepare_threshold = 0
    sql = "SELECT k, z::text, z FROM everything WHERE z = %s OR k = %s ORDER BY k"
    noon = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
    for zone, shown in [("UTC", "12:00:00+00"), ("Asia/Tokyo", "21:00:00+09"), ("UTC", "12:00:00+00")]:
        connection.execute(f"SET TIME ZONE '{zone}'")
        for binary in (False, True, False):
            for k in (None, 2, 7):
                rows = connection.execute(sql, (noon, k), binary=binary).fetchall()
                first = (1, f"2026-01-01 {shown}", noon)
                assert rows == ([first, (2, None, None)] if k == 2 else [first])
            for text in ("2026-01-01 12:00", "2026-01-01 21:00"):
                found = connection.execute("SELECT k FROM everything WHERE z = %s", (text,)).fetchall()
                assert found == ([(1,)] if text[11:] == shown[:5] else [])


def test_psycopg_makes_transactions(connection: psycopg.Connection[Any]) -> None:
    with connection.transaction():
        connection.execute("INSERT INTO everything (k) VALUES (1)")
        with pytest.raises(psycopg.errors.UniqueViolation), connection.transaction():
            connection.execute("INSERT INTO everything (k) VALUES (1)")
        connection.execute("INSERT INTO everything (k) VALUES (2)")
    assert connection.execute("SELECT count(*) FROM everything").fetchone() == (2,)


def test_many_rows_arrive_whole(connection: psycopg.Connection[Any]) -> None:
    for count in (63, 64, 65, 100_000):
        for binary in (False, True):
            rows = connection.execute(
                "SELECT i, 'row ' || i FROM generate_series(1, %s) AS g(i) ORDER BY i",
                (count,),
                binary=binary,
            ).fetchall()
            assert rows == [(i, f"row {i}") for i in range(1, count + 1)]


def test_a_large_parameter_goes_in_and_out(connection: psycopg.Connection[Any]) -> None:
    large = bytes(range(256)) * 20_000
    connection.execute("INSERT INTO everything (k, y, t) VALUES (1, %b, %s)", (large, "x" * 1_000_000))
    found = connection.execute("SELECT y, t FROM everything", binary=True).fetchone()
    assert found == (large, "x" * 1_000_000)


def test_psycopg_copies(connection: psycopg.Connection[Any]) -> None:
    rows = [(k, None if k % 7 == 0 else f"t\t{k}\n\\") for k in range(3000)]
    with connection.cursor().copy("COPY everything (k, t) FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)
    with connection.cursor().copy("COPY (SELECT k, t FROM everything ORDER BY k) TO STDOUT") as copy:
        copy.set_types(["int4", "text"])
        assert list(copy.rows()) == rows
    connection.execute("DELETE FROM everything")
    with connection.cursor().copy("COPY everything (k, t) FROM STDIN (FORMAT binary)") as copy:
        copy.set_types(["int4", "text"])
        for row in rows:
            copy.write_row(row)
    with connection.cursor().copy(
        "COPY (SELECT k, t FROM everything ORDER BY k) TO STDOUT (FORMAT binary)"
    ) as copy:
        copy.set_types(["int4", "text"])
        assert list(copy.rows()) == rows


def test_an_arrow_stream_goes_through_copy(connection: psycopg.Connection[Any]) -> None:
    table = pa.table({"k": pa.array(range(10_000), pa.int32()), "t": [f"t{k}" for k in range(10_000)]})
    buffer = io.BytesIO()
    with pa.ipc.new_stream(buffer, table.schema) as writer:
        writer.write_table(table, max_chunksize=1000)
    stream = buffer.getvalue()
    with connection.cursor().copy("COPY everything (k, t) FROM STDIN (FORMAT arrow)") as copy:
        for at in range(0, len(stream), 7001):
            copy.write(stream[at : at + 7001])
    query = "COPY (SELECT k, t FROM everything ORDER BY k) TO STDOUT (FORMAT arrow)"
    with connection.cursor().copy(query) as copy:
        found = pa.ipc.open_stream(b"".join(bytes(part) for part in copy)).read_all()
    assert found.to_pylist() == table.to_pylist()


def test_a_copy_that_is_given_up_leaves_nothing(connection: psycopg.Connection[Any]) -> None:
    with (  # noqa: PT012
        pytest.raises(psycopg.errors.QueryCanceled),
        connection.cursor().copy("COPY everything (k) FROM STDIN") as copy,
    ):
        copy.write_row((1,))
        raise psycopg.errors.QueryCanceled("no more")
    with (
        pytest.raises(psycopg.errors.UniqueViolation),
        connection.cursor().copy("COPY everything (k) FROM STDIN") as copy,
    ):
        copy.write("1\n1\n")
    assert connection.execute("SELECT count(*) FROM everything").fetchone() == (0,)


def test_asyncpg_does_its_work(server: ThreadServer) -> None:
    async def main() -> None:
        connection = await asyncpg.connect(
            host="127.0.0.1", port=server.port, user="herdpy", database="herdpy", ssl=False
        )
        try:
            await connection.execute("DROP TABLE IF EXISTS async_things")
            await connection.execute(f"CREATE TABLE async_things ({COLUMNS})")
            marks = ", ".join(f"${i}" for i in range(1, len(VALUES) + 2))
            await connection.execute(f"INSERT INTO async_things VALUES ({marks})", *VALUES, '{"a": 1}')
            row = await connection.fetchrow("SELECT * FROM async_things WHERE k = $1", 1)
            assert list(row) == [*VALUES, '{"a": 1}']
            await connection.executemany(
                "INSERT INTO async_things (k, t) VALUES ($1, $2)", [(k, str(k)) for k in range(10, 60)]
            )
            async with connection.transaction():
                found = [
                    one["k"]
                    async for one in connection.cursor(
                        "SELECT k FROM async_things WHERE k >= $1 ORDER BY k", 10, prefetch=7
                    )
                ]
            assert found == list(range(10, 60))
            statement = await connection.prepare("SELECT t FROM async_things WHERE k = $1")
            assert [await statement.fetchval(k) for k in (10, 11)] == ["10", "11"]
            with pytest.raises(asyncpg.UniqueViolationError):  # noqa: PT012
                async with connection.transaction():
                    await connection.execute("INSERT INTO async_things (k) VALUES (99)")
                    await connection.execute("INSERT INTO async_things (k) VALUES (1)")
            assert await connection.fetchval("SELECT count(*) FROM async_things") == 51
            await connection.reset()
        finally:
            await connection.close()

    asyncio.run(main())
