"""herdpy.polars: queries and tables as polars' frames, of directories and of servers alike."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal

import polars as pl
import pytest
import sqlalchemy as sa

import herdpy
from herdpy.polars import read_database, write_database

SCHEMA = {
    "id": pl.Int32,
    "small": pl.Int16,
    "big": pl.Int64,
    "flag": pl.Boolean,
    "half": pl.Float32,
    "twice": pl.Float64,
    "price": pl.Decimal(18, 2),
    "exact": pl.Decimal(38, 3),
    "name": pl.String,
    "day": pl.Date,
    "at": pl.Datetime("us"),
    "at_zone": pl.Datetime("us", "UTC"),
    "code": pl.String,
    "data": pl.Binary,
}
VALUES = {
    "id": 1,
    "small": 2,
    "big": 3_000_000_000,
    "flag": True,
    "half": 0.5,
    "twice": 0.25,
    "price": Decimal("3.50"),
    "exact": Decimal("12345678901234567890.125"),
    "name": "pear",
    "day": dt.date(2024, 2, 29),
    "at": dt.datetime(2024, 2, 29, 12, 30, 0, 1),
    "at_zone": dt.datetime(2024, 2, 29, 10, 30, tzinfo=dt.UTC),
    "code": str(uuid.UUID(int=42)),
    "data": b"\0\xff",
}


def test_every_type_comes_whole(kinds):
    frame = read_database("kinds", kinds).sort("id")
    assert frame.schema == SCHEMA
    assert frame.row(0, named=True) == VALUES
    assert set(frame.drop("id").row(1)) == {None}


def test_parameters_and_overrides(kinds):
    frame = read_database(
        "SELECT id, name FROM kinds WHERE id < %s",
        kinds,
        params=(2,),
        schema_overrides={"name": pl.Categorical},
    )
    assert frame.rows() == [(1, "pear")]
    assert frame.schema == {"id": pl.Int32, "name": pl.Categorical()}


def test_batches(conn):
    conn.execute("CREATE TABLE n AS SELECT i FROM generate_series(1, 1000) AS g(i)")
    batches = read_database("SELECT i FROM n", conn, iter_batches=True, batch_size=400)
    assert [len(batch) for batch in batches] == [400, 400, 200]


def test_the_way_back(url, kinds):
    frame = read_database("kinds", kinds).sort("id")
    assert write_database(frame.lazy(), "again", url) == 2
    assert read_database("again", url).sort("id").equals(frame)


def test_what_exists(conn):
    frame = pl.DataFrame({"a": [1, 2]})
    write_database(frame, "t", conn)
    with pytest.raises(herdpy.ProgrammingError) as refused:
        write_database(frame, "t", conn)
    assert refused.value.sqlstate == "42P07"
    write_database(frame, "t", conn, if_table_exists="append")
    assert len(read_database("t", conn)) == 4
    write_database(frame, "public.t", conn, if_table_exists="replace")
    assert len(read_database("public.t", conn)) == 2


@pytest.mark.parametrize(
    "call",
    [
        lambda conn: read_database("SELECT 1", 7),
        lambda conn: read_database("SELECT 1", conn, iter_batches=True, batch_size=0),
        lambda conn: write_database(pl.DataFrame({"a": [1]}), "t", conn, if_table_exists="upsert"),
    ],
)
def test_misuse_is_told(conn, call):
    with pytest.raises(herdpy.InterfaceError):
        call(conn)


def test_an_engine(url, conn):
    engine = sa.create_engine(url)
    write_database(pl.DataFrame({"a": [1, 2]}), "t", engine)
    t = sa.table("t", sa.column("a"))
    assert read_database(sa.select(t.c.a).where(t.c.a > 1), engine).rows() == [(2,)]
    engine.dispose()


def test_polars_own_functions(url, conn):
    """polars takes rows from any connection, and writes by SQLAlchemy."""
    engine = sa.create_engine(url)
    frame = pl.DataFrame({"a": [1, 2], "b": ["x", None]})
    frame.write_database("t", engine, engine="sqlalchemy")
    assert pl.read_database("SELECT * FROM t ORDER BY a", conn).equals(frame)
    assert pl.read_database("SELECT * FROM t ORDER BY a", engine).equals(frame)
    engine.dispose()
