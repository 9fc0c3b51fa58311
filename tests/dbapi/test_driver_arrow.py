"""Arrow in and out, by ADBC's names."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import herdpy


def flights(count: int, start: int = 0) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(range(start, start + count), pa.int64()),
            "carrier": pa.array([None if n % 7 == 0 else f"C{n % 5}" for n in range(count)], pa.string()),
            "delay": pa.array([n / 4 for n in range(count)], pa.float64()),
            "day": pa.array([dt.date(2013, 1, 1) + dt.timedelta(n % 365) for n in range(count)]),
        }
    )


class Stream:
    """Something of another library that speaks Arrow's C stream."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


class Array:
    """Something of another library that speaks Arrow's C array."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch

    def __arrow_c_array__(self, requested_schema=None):
        return self.batch.__arrow_c_array__(requested_schema)


@pytest.mark.parametrize(
    "shape",
    [
        lambda table: table,
        lambda table: table.combine_chunks().to_batches()[0],
        lambda table: table.to_reader(max_chunksize=7),
        lambda table: pa.RecordBatchReader.from_batches(
            table.schema, iter(table.to_batches(max_chunksize=9))
        ),
        lambda table: table.to_pandas(),
        lambda table: table.to_pandas().set_index(pd.Index(range(100, 200))),
        Stream,
        lambda table: Array(table.combine_chunks().to_batches()[0]),
    ],
    ids=["Table", "RecordBatch", "Reader", "GeneratedReader", "DataFrame", "IndexedFrame", "stream", "array"],
)
def test_what_can_be_ingested(auto, shape):
    table = flights(100)
    cursor = auto.cursor()
    assert cursor.adbc_ingest("flights", shape(table)) == 100
    assert cursor.rowcount == 100
    assert cursor.description is None
    rows = auto.execute("SELECT id, carrier, delay, day FROM flights ORDER BY id").fetchall()
    assert rows == [tuple(row.values()) for row in table.to_pylist()]
    names = [column.name for column in auto.execute("SELECT * FROM flights").description]
    assert names == ["id", "carrier", "delay", "day"]


def test_modes(auto):
    cursor = auto.cursor()
    count = "SELECT count(*), max(id) FROM flights"
    with pytest.raises(herdpy.ProgrammingError) as caught:
        cursor.adbc_ingest("flights", flights(3), mode="append")
    assert caught.value.sqlstate == "42P01"
    assert cursor.adbc_ingest("flights", flights(3)) == 3
    with pytest.raises(herdpy.ProgrammingError) as caught:
        cursor.adbc_ingest("flights", flights(3), mode="create")
    assert caught.value.sqlstate == "42P07"
    assert cursor.adbc_ingest("flights", flights(4, 10), mode="append") == 4
    assert auto.execute(count).fetchone() == (7, 13)
    assert cursor.adbc_ingest("flights", flights(2, 20), mode="create_append") == 2
    assert auto.execute(count).fetchone() == (9, 21)
    assert cursor.adbc_ingest("flights", flights(5, 50), mode="replace") == 5
    assert auto.execute(count).fetchone() == (5, 54)
    assert cursor.adbc_ingest("other", flights(1), mode="create_append") == 1
    assert cursor.adbc_ingest("third", flights(1), mode="replace") == 1


def test_appending_matches_columns_by_name(auto):
    auto.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT DEFAULT 'none', c NUMERIC(6, 2))")
    cursor = auto.cursor()
    cursor.adbc_ingest("t", pa.table({"c": [1.5, None], "a": [1, 2]}), mode="append")
    assert auto.execute("SELECT a, b, c FROM t ORDER BY a").fetchall() in (
        [(1, "none", Decimal("1.50")), (2, "none", None)],
        [(1, None, Decimal("1.50")), (2, None, None)],
    )
    with pytest.raises(herdpy.ProgrammingError) as caught:
        cursor.adbc_ingest("t", pa.table({"a": [3], "nothing": [1]}), mode="append")
    assert caught.value.sqlstate == "42703"


@pytest.fixture
def schema(auto):
    auto.execute('CREATE SCHEMA "the other"')
    yield "the other"
    auto.execute('DROP SCHEMA "the other" CASCADE')


def numbers(*those: int) -> pa.Table:
    return pa.table({"n": pa.array(those, pa.int32())})


def test_tables_of_one_name_in_several_schemas(auto, schema):
    """Each mode looks at the table that is meant, and at no other of its name."""
    cursor = auto.cursor()
    cursor.adbc_ingest("t", numbers(1), db_schema_name=schema)
    cursor.adbc_ingest("t", numbers(2))
    with pytest.raises(herdpy.ProgrammingError) as caught:
        cursor.adbc_ingest("t", numbers(0), db_schema_name=schema)
    assert caught.value.sqlstate == "42P07"
    cursor.adbc_ingest("t", numbers(3), mode="append", db_schema_name=schema)
    cursor.adbc_ingest("t", numbers(4), mode="create_append", db_schema_name=schema)
    cursor.adbc_ingest("t", numbers(5), mode="replace")
    cursor.adbc_ingest("u", numbers(6), mode="create_append", db_schema_name=schema)
    auto.execute(f'SET search_path = "{schema}", public')
    cursor.adbc_ingest("v", numbers(7))
    auto.execute("RESET search_path")
    found = {
        name: [n for (n,) in auto.execute(f"SELECT n FROM {name} ORDER BY n").fetchall()]
        for name in ("public.t", f'"{schema}".t', f'"{schema}".u', f'"{schema}".v')
    }
    assert list(found.values()) == [[5], [1, 3, 4], [6], [7]]


def test_temporary_tables(auto):
    """They hide others of their name from SQL and from appending, and are made only when asked for."""
    cursor = auto.cursor()
    cursor.adbc_ingest("t", numbers(1))
    cursor.adbc_ingest("t", numbers(2), temporary=True)
    with pytest.raises(herdpy.ProgrammingError) as caught:
        cursor.adbc_ingest("t", numbers(0), temporary=True)
    assert caught.value.sqlstate == "42P07"
    cursor.adbc_ingest("t", numbers(3), mode="append")
    cursor.adbc_ingest("t", numbers(4), mode="append", db_schema_name="pg_temp")
    cursor.adbc_ingest("t", numbers(5), mode="append", db_schema_name="public")
    assert auto.execute("SELECT n FROM t ORDER BY n").fetchall() == [(2,), (3,), (4,)]
    assert auto.execute("SELECT n FROM public.t ORDER BY n").fetchall() == [(1,), (5,)]
    cursor.adbc_ingest("t", numbers(6), mode="replace")
    cursor.adbc_ingest("t", numbers(7), mode="replace", temporary=True)
    assert auto.execute("SELECT n FROM t").fetchall() == [(7,)]
    auto.execute("DISCARD TEMP")
    assert auto.execute("SELECT n FROM t").fetchall() == [(6,)]


def test_the_catalog_is_the_database(conn):
    ((database,),) = conn.execute("SELECT current_database()").fetchall()
    conn.rollback()
    cursor = conn.cursor()
    with pytest.raises(herdpy.NotSupportedError, match="cross-database") as caught:
        cursor.adbc_ingest("t", numbers(1), catalog_name="another")
    assert caught.value.sqlstate == "0A000"
    assert conn.info.transaction_status == herdpy.TransactionStatus.IDLE
    assert cursor.adbc_ingest("t", numbers(1), catalog_name=database) == 1
    with pytest.raises(herdpy.NotSupportedError):
        cursor.adbc_ingest("t", numbers(1), catalog_name="another")
    conn.commit()
    assert conn.execute("SELECT n FROM t").fetchall() == [(1,)]


def test_ingest_is_atomic_and_checks(auto):
    auto.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT NOT NULL)")
    auto.execute("INSERT INTO t VALUES (500, 'there')")
    cursor = auto.cursor()
    for table, sqlstate in (
        (pa.table({"a": range(1000), "b": ["x"] * 1000}), "23505"),
        (pa.table({"a": [1, 2, 1], "b": ["x"] * 3}), "23505"),
        (pa.table({"a": [1, 2], "b": ["x", None]}), "23502"),
        (pa.table({"a": [1, 2**40], "b": ["x", "y"]}), "22"),
    ):
        with pytest.raises((herdpy.IntegrityError, herdpy.DataError)) as caught:
            cursor.adbc_ingest("t", table, mode="append")
        assert caught.value.sqlstate.startswith(sqlstate)
        assert auto.execute("SELECT a, b FROM t").fetchall() == [(500, "there")]


def test_ingest_within_a_transaction(conn):
    cursor = conn.cursor()
    cursor.adbc_ingest("flights", flights(10))
    conn.commit()
    cursor.adbc_ingest("flights", flights(10, 10), mode="append")
    assert conn.execute("SELECT count(*) FROM flights").fetchone() == (20,)
    conn.rollback()
    assert conn.execute("SELECT count(*) FROM flights").fetchone() == (10,)


def test_ingest_of_an_answer_of_the_same_database(auto):
    cursor = auto.cursor()
    cursor.adbc_ingest("flights", flights(50))
    reader = auto.execute("SELECT * FROM flights WHERE id < 20").fetch_record_batch()
    assert cursor.adbc_ingest("few", reader) == 20
    assert auto.execute("SELECT count(*) FROM few").fetchone() == (20,)


def test_ingest_of_no_rows(auto):
    assert auto.cursor().adbc_ingest("flights", flights(0)) == 0
    assert auto.execute("SELECT * FROM flights").fetchall() == []
    assert len(auto.execute("SELECT * FROM flights").description) == 4


@pytest.mark.parametrize("data", [None, 5, "text", [(1, 2)], {"a": [1]}, object()])
def test_what_is_no_arrow(auto, data):
    with pytest.raises(herdpy.ProgrammingError, match="Arrow data is needed"):
        auto.cursor().adbc_ingest("t", data)


def test_a_stream_that_breaks(auto):
    schema = pa.schema({"a": pa.int64()})

    def batches():
        yield pa.record_batch({"a": [1, 2]}, schema)
        raise OSError("the network is gone")

    for data in (
        pa.RecordBatchReader.from_batches(schema, batches()),
        pd.DataFrame({"a": [1, "x", object()]}),
    ):
        with pytest.raises((herdpy.DataError, OSError)):
            auto.cursor().adbc_ingest("t", data)
        with pytest.raises(herdpy.ProgrammingError):
            auto.execute("SELECT * FROM t")


@pytest.mark.parametrize(
    ("arguments", "keywords", "error"),
    [
        (("t", flights(1), "upsert"), {}, herdpy.ProgrammingError),
        (("", flights(1)), {}, herdpy.ProgrammingError),
        ((5, flights(1)), {}, herdpy.ProgrammingError),
        (("t", flights(1)), {"catalog_name": "c"}, herdpy.NotSupportedError),
        (("t", flights(1)), {"db_schema_name": "nonesuch"}, herdpy.ProgrammingError),
        (("t", flights(1), "append"), {"db_schema_name": "nonesuch"}, herdpy.ProgrammingError),
        (("t", flights(1)), {"db_schema_name": ""}, herdpy.ProgrammingError),
        (("t", flights(1)), {"db_schema_name": 5}, herdpy.ProgrammingError),
        (("t", flights(1)), {"db_schema_name": "pg_catalog"}, herdpy.ProgrammingError),
        (("t", flights(1)), {"temporary": True, "db_schema_name": "public"}, herdpy.ProgrammingError),
        (("t", flights(1), "append"), {"temporary": True}, herdpy.ProgrammingError),
        (("t", pa.table({"a": [[1]]})), {}, herdpy.Error),
        (("t", pa.table([[1], [2]], names=["a", "a"])), {}, herdpy.Error),
        (("t", pa.table({})), {}, herdpy.Error),
    ],
)
def test_wrong_ingests(auto, arguments, keywords, error):
    with pytest.raises(error) as caught:
        auto.cursor().adbc_ingest(*arguments, **keywords)
    assert caught.value.sqlstate
    assert caught.value.sqlstate != "XX000"
    assert auto.execute("SELECT 1").fetchone() == (1,)


def test_fetching_arrow(auto):
    table = flights(1000)
    cursor = auto.cursor()
    cursor.adbc_ingest("flights", table)
    for text in ("SELECT * FROM flights ORDER BY id", "SELECT * FROM flights WHERE id >= 0 ORDER BY id"):
        got = cursor.execute(text).fetch_arrow_table()
        assert isinstance(got, pa.Table)
        assert got.to_pylist() == table.to_pylist()
        assert cursor.fetch_arrow_table().num_rows == 0
        assert cursor.fetchone() is None
        reader = cursor.execute(text).fetch_record_batch()
        assert isinstance(reader, pa.RecordBatchReader)
        assert reader.read_all().to_pylist() == table.to_pylist()
        frame = cursor.execute(text).fetch_df()
        assert isinstance(frame, pd.DataFrame)
        assert list(frame.columns) == ["id", "carrier", "delay", "day"]
        assert frame["delay"].sum() == sum(n / 4 for n in range(1000))


def test_rows_then_arrow(auto):
    cursor = auto.cursor()
    cursor.adbc_ingest("flights", flights(10))
    cursor.execute("SELECT id FROM flights ORDER BY id")
    assert cursor.fetchmany(3) == [(0,), (1,), (2,)]
    assert cursor.fetch_arrow_table().column("id").to_pylist() == [3, 4, 5, 6, 7, 8, 9]
    assert cursor.fetchall() == []


def test_one_row_by_key_as_arrow(auto):
    auto.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b NUMERIC(6, 2), c UUID, d JSON, e TIMESTAMPTZ)")
    row = (1, Decimal("2.50"), uuid.UUID(int=7), {"x": 1}, dt.datetime(2024, 1, 2, 3, tzinfo=dt.UTC))
    auto.execute("INSERT INTO t VALUES (%s, %s, %s, %s, %s)", row)
    point = auto.execute("SELECT * FROM t WHERE a = %s", (1,)).fetch_arrow_table()
    scan = auto.execute("SELECT * FROM t WHERE a + 0 = %s", (1,)).fetch_arrow_table()
    assert point.schema == scan.schema
    assert point.to_pylist() == scan.to_pylist()
    assert point.column("b").to_pylist() == [Decimal("2.50")]
    assert point.column("e").to_pylist() == [row[4]]
    empty = auto.execute("SELECT * FROM t WHERE a = %s", (2,)).fetch_arrow_table()
    assert empty.schema == point.schema
    assert empty.num_rows == 0


values = {
    pa.bool_(): st.booleans(),
    pa.int16(): st.integers(-(2**15), 2**15 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float64(): st.floats(allow_nan=False),
    pa.string(): st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
    pa.binary(): st.binary(),
    pa.date32(): st.dates(),
    pa.time64("us"): st.times(),
    pa.timestamp("us"): st.datetimes(),
    pa.timestamp("us", "UTC"): st.datetimes(timezones=st.just(dt.UTC)),
    pa.decimal128(12, 3): st.decimals(-(10**8), 10**8, places=3),
}


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_arrow_comes_back_as_it_went(shared, data):
    kinds = data.draw(st.lists(st.sampled_from(list(values)), min_size=1, max_size=6))
    rows = data.draw(st.integers(0, 20))
    table = pa.table(
        {
            f"c{number}": pa.array(
                data.draw(st.lists(st.none() | values[kind], min_size=rows, max_size=rows)), kind
            )
            for number, kind in enumerate(kinds)
        }
    )
    table = table.append_column("n", pa.array(range(rows), pa.int32()))
    cursor = shared.cursor()
    cursor.adbc_ingest("there", table, mode="replace")
    back = cursor.execute("SELECT * FROM there ORDER BY n").fetch_arrow_table()
    assert back.schema.names == table.schema.names
    assert back.to_pylist() == table.to_pylist()
