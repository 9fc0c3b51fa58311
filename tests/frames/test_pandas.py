"""herdpy.pandas: queries and tables as pandas' frames, of directories and of servers alike."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal

import pandas as pd
import pyarrow as pa
import pytest
import sqlalchemy as sa

import herdpy
from herdpy.pandas import ingest, read_sql, to_sql

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
    "at": pd.Timestamp("2024-02-29 12:30:00.000001"),
    "at_zone": pd.Timestamp("2024-02-29 10:30:00", tz="UTC"),
    "code": uuid.UUID(int=42),
    "data": b"\0\xff",
}


@pytest.mark.parametrize("backend", ["numpy", "numpy_nullable", "pyarrow"])
def test_every_type_comes_whole(kinds, backend):
    frame = read_sql("kinds", kinds, dtype_backend=backend).sort_values("id", ignore_index=True)
    assert {name: frame[name][0] for name in frame} == VALUES
    assert frame.drop(columns="id").iloc[1].isna().all()


def test_the_backend_chooses_types(kinds):
    columns = "SELECT id, big, price, name FROM kinds"
    assert list(read_sql(columns, kinds).dtypes.astype(str)) == ["int32", "float64", "object", "object"]
    nullable = read_sql(columns, kinds, dtype_backend="numpy_nullable").dtypes.astype(str)
    assert list(nullable) == ["Int32", "Int64", "object", "string"]
    arrow = read_sql(columns, kinds, dtype_backend="pyarrow").dtypes
    assert list(arrow) == [
        pd.ArrowDtype(t) for t in (pa.int32(), pa.int64(), pa.decimal128(18, 2), pa.string())
    ]


def test_sums_are_decimals(kinds):
    query = "SELECT sum(price) AS total, sum(price) / 3 AS third, 1e40::numeric AS huge FROM kinds"
    row = read_sql(query, kinds).iloc[0]
    assert (row.total, row.third, row.huge) == (Decimal("3.50"), Decimal("1.16666666666666666667"), 10**40)
    arrow = read_sql(query, kinds, dtype_backend="pyarrow").dtypes
    assert arrow["third"] == pd.ArrowDtype(pa.decimal128(38, 20))
    assert arrow["huge"] == pd.ArrowDtype(pa.string())


def test_parameters_index_and_dtype(kinds):
    query = "SELECT id, name FROM kinds WHERE id < %s"
    frame = read_sql(query, kinds, params=(2,), index_col="id", dtype={"name": "category"})
    assert frame.to_dict() == {"name": {1: "pear"}}
    assert frame["name"].dtype == "category"
    assert frame.index.name == "id"


def test_chunks(conn):
    conn.execute("CREATE TABLE n AS SELECT i FROM generate_series(1, 1000) AS g(i)")
    chunks = read_sql("SELECT i FROM n ORDER BY i", conn, chunksize=300)
    assert [len(chunk) for chunk in chunks] == [300, 300, 300, 100]
    (empty,) = read_sql("SELECT i FROM n WHERE i < 0", conn, chunksize=300)
    assert list(empty.columns) == ["i"]


def test_the_way_back(url, kinds):
    """A frame that is written, by a URL, and read again is the same."""
    frame = read_sql("kinds", kinds, dtype_backend="pyarrow")
    assert to_sql(frame, "again", url, index=False) == 2
    again = read_sql("again", url, dtype_backend="pyarrow")
    assert again.drop(columns="exact").equals(frame.drop(columns="exact"))
    assert [value and value.normalize() for value in again["exact"].replace({pd.NA: None})] == [
        VALUES["exact"],
        None,
    ]


def test_what_exists(conn):
    frame = pd.DataFrame({"a": [1, 2]})
    assert to_sql(frame, "t", conn, index=False) == 2
    with pytest.raises(herdpy.ProgrammingError) as refused:
        to_sql(frame, "t", conn, index=False)
    assert refused.value.sqlstate == "42P07"
    to_sql(frame, "t", conn, index=False, if_exists="append")
    assert len(read_sql("t", conn)) == 4
    to_sql(frame, "t", conn, index=False, if_exists="replace")
    assert len(read_sql("t", conn)) == 2


def test_indexes_are_columns(conn):
    to_sql(pd.DataFrame({"a": [1]}), "plain", conn)
    to_sql(pd.DataFrame({"a": [1]}, index=pd.Index(["x"], name="key")), "named", conn)
    levels = pd.MultiIndex.from_tuples([("x", 1)])
    to_sql(pd.DataFrame({"a": [1]}, index=levels), "levels", conn, index_label=["p", "q"])
    to_sql(pd.DataFrame({0: [1]}), "numbered", conn, index=False)
    names = {name: list(read_sql(name, conn)) for name in ("plain", "named", "levels", "numbered")}
    assert names == {
        "plain": ["index", "a"],
        "named": ["key", "a"],
        "levels": ["p", "q", "a"],
        "numbered": ["0"],
    }


def test_a_frame_is_written_whole_or_not(conn):
    conn.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)")
    with pytest.raises(herdpy.IntegrityError):
        to_sql(pd.DataFrame({"id": [*range(5000), 7]}), "t", conn, index=False, if_exists="append")
    with pytest.raises(herdpy.DataError):
        to_sql(pd.DataFrame({"id": [1, "two"]}), "t", conn, index=False, if_exists="append")
    assert read_sql("SELECT count(*) AS n FROM t", conn)["n"][0] == 0


def test_the_callers_transaction_stays_the_callers(url, conn):
    with herdpy.connect(url) as mine:
        to_sql(pd.DataFrame({"a": [1]}), "t", mine, index=False)
        assert len(read_sql("t", mine)) == 1
        mine.rollback()
    with pytest.raises(herdpy.ProgrammingError):
        read_sql("t", conn)


@pytest.mark.parametrize(
    "call",
    [
        lambda conn: read_sql("SELECT 1", object()),
        lambda conn: read_sql(sa.text("SELECT 1"), conn),
        lambda conn: read_sql("SELECT 1", conn, dtype_backend="cudf"),
        lambda conn: read_sql("SELECT 1", conn, chunksize=0),
        lambda conn: to_sql(pd.DataFrame({"a": [1]}), "t", conn, if_exists="upsert"),
    ],
)
def test_misuse_is_told(conn, call):
    with pytest.raises(herdpy.InterfaceError):
        call(conn)


# SQLAlchemy.


@pytest.fixture
def engine(url):
    engine = sa.create_engine(url)
    yield engine
    engine.dispose()


def test_an_engine_a_connection_a_session(engine, conn):
    from sqlalchemy.orm import Session

    frame = pd.DataFrame({"a": [1, 2], "b": ["x", None]})
    assert to_sql(frame, "t", engine, index=False) == 2
    t = sa.table("t", sa.column("a"), sa.column("b"))
    query = sa.select(t.c.a).where(t.c.a > sa.bindparam("least"))
    assert read_sql(query, engine, params={"least": 1})["a"].tolist() == [2]
    with Session(engine) as session:
        assert read_sql(query, session, params={"least": 0})["a"].tolist() == [1, 2]
    with engine.connect() as connection:
        to_sql(frame, "t", connection, index=False, if_exists="append")
        assert len(read_sql("t", connection)) == 4
        connection.rollback()
        to_sql(frame, "u", connection, index=False)
        connection.commit()
    assert (len(read_sql("t", conn)), len(read_sql("u", conn))) == (2, 2)


def test_pandas_own_functions_on_an_engine(engine, conn):
    """The slow way works as well, and its ``method`` takes the fast one."""
    frame = pd.DataFrame({"a": [1, 2, 3], "b": ["x", None, "z"], "c": [0.5, 1.5, 2.5]})
    frame.to_sql("slow", engine, index=False)
    kinds = {"b": sa.String(5), "c": sa.Numeric(6, 3)}
    frame.to_sql("fast", engine, index=False, dtype=kinds, method=ingest, chunksize=2)
    assert pd.read_sql("slow", engine).equals(frame)
    assert pd.read_sql_query("SELECT * FROM fast ORDER BY a", engine).equals(frame)
    assert conn.execute("SELECT sum(c) FROM fast").fetchone() == (Decimal("4.500"),)


def test_another_databases_engine_is_refused():
    with pytest.raises(herdpy.InterfaceError, match="sqlite"):
        read_sql("SELECT 1", sa.create_engine("sqlite://"))
