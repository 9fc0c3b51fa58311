"""Rows that are wanted as Arrow alone: the same from a directory and from a server."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal

import pytest

import herdpy

PARAMETERS = [
    None,
    True,
    7,
    -7,
    2**62,
    -2.5,
    float("inf"),
    Decimal("-1.10"),
    "it's \\ $1 %s",
    b"a'\\\0b",
    dt.date(2024, 2, 29),
    dt.time(1, 2, 3),
    dt.datetime(2024, 2, 29, 1, 2),
    dt.datetime(2024, 2, 29, 1, 2, tzinfo=dt.UTC),
    uuid.UUID(int=77),
]


def test_every_type_of_column(auto):
    auto.execute(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, b BOOLEAN, i BIGINT, s SMALLINT, r REAL, d DOUBLE PRECISION,"
        " n NUMERIC(12, 3), t TEXT, y BYTEA, da DATE, ti TIME, ts TIMESTAMP, tz TIMESTAMPTZ, u UUID)"
    )
    row = (
        1,
        True,
        2**62,
        -5,
        1.5,
        2.25,
        Decimal("1.230"),
        "ü",
        b"\0x",
        dt.date(1, 1, 1),
        dt.time(1, 2, 3, 4),
    )
    row += (dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, tzinfo=dt.UTC), uuid.UUID(int=5))
    cursor = auto.cursor()
    cursor.executemany(f"INSERT INTO t VALUES ({', '.join(['%s'] * 14)})", [row, (2, *[None] * 13)])
    table = cursor.execute("SELECT * FROM t ORDER BY id", arrow=True).fetch_arrow_table()
    assert cursor.rowcount == 2
    assert [tuple(one.values()) for one in table.to_pylist()] == [row, (2, *[None] * 13)]
    assert [str(field.type) for field in table.schema] == [
        *("int32", "bool", "int64", "int16", "float", "double", "decimal128(18, 3)", "string", "binary"),
        *("date32[day]", "time64[us]", "timestamp[us]", "timestamp[us, tz=UTC]", "extension<arrow.uuid>"),
    ]
    assert [c.type_code for c in cursor.description] == [
        *(23, 16, 20, 21, 700, 701, 1700, 25, 17, 1082, 1083, 1114, 1184, 2950)
    ]
    plain = cursor.execute("SELECT * FROM t ORDER BY id").fetch_arrow_table()
    assert plain.equals(table)


@pytest.mark.parametrize("value", PARAMETERS, ids=repr)
def test_parameters(auto, value):
    (back,) = auto.execute("SELECT %s AS a, 'x$1'", (value,), arrow=True).fetch_arrow_table()["a"].to_pylist()
    assert back == (str(value) if isinstance(value, Decimal) else value)  # of no scale: text
    (plain,) = auto.execute("SELECT %s AS a, 'x$1'", (value,)).fetch_arrow_table()["a"].to_pylist()
    assert (type(plain), plain) == (type(back), back)


def test_what_has_no_rows_and_what_is_no_query(auto):
    cursor = auto.execute("CREATE TABLE t (a INTEGER)", arrow=True)
    assert cursor.description is None
    cursor.execute("INSERT INTO t VALUES (1), (2)", arrow=True)
    assert cursor.rowcount == 2
    cursor.execute("INSERT INTO t VALUES (3) RETURNING a", arrow=True)
    assert cursor.fetch_arrow_table().to_pylist() == [{"a": 3}]
    assert auto.execute("SHOW statement_timeout", arrow=True).fetch_arrow_table().num_rows == 1
    assert auto.execute("VALUES (1), (2);", arrow=True).fetch_arrow_table().num_rows == 2
    assert (
        auto.execute("WITH a AS (SELECT 1 AS b) SELECT * FROM a -- x", arrow=True)
        .fetch_arrow_table()["b"][0]
        .as_py()
        == 1
    )
    with pytest.raises(herdpy.ProgrammingError, match="as Arrow"):
        auto.execute("SELECT 1", arrow=True).fetchone()


def test_within_a_transaction_it_sees_what_was_written(conn):
    conn.execute("CREATE TABLE t (a INTEGER)")
    conn.execute("INSERT INTO t VALUES (1)")
    assert conn.execute("SELECT a FROM t", arrow=True).fetch_arrow_table().num_rows == 1
    with pytest.raises(herdpy.ProgrammingError) as caught:
        conn.execute("SELECT nonesuch FROM t", arrow=True)
    assert caught.value.sqlstate == "42703"
    assert conn.info.transaction_status == herdpy.TransactionStatus.INERROR
    conn.rollback()


def test_an_error_in_the_middle_of_many_rows(auto):
    with pytest.raises(herdpy.DataError) as caught:
        auto.execute("SELECT 1 / (100000 - n) FROM generate_series(1, 200000) AS s (n)", arrow=True)
    assert caught.value.sqlstate == "22012"
    with pytest.raises(herdpy.OperationalError) as caught:
        auto.execute("SELECT pg_sleep(60)", arrow=True, timeout_s=0.1)
    assert caught.value.sqlstate == "57014"
    table = auto.execute("SELECT n FROM generate_series(1, 200000) AS s (n)", arrow=True).fetch_arrow_table()
    assert table.num_rows == 200_000
