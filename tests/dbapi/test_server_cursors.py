"""Cursors of the server and streams: rows come as they are asked for, whoever answers."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

import herdpy
from herdpy.rows import dict_row, scalar_row


@pytest.fixture
def table(conn):
    conn.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)")
    conn.cursor().executemany("INSERT INTO t VALUES (%s, %s)", [(n, f"row {n}") for n in range(100)])
    conn.commit()
    return conn


def test_rows_in_order_by_every_way_to_fetch(table):
    with table.cursor("c") as cursor:
        cursor.itersize = 7
        cursor.execute("SELECT id FROM t WHERE id >= %s ORDER BY id", (10,))
        assert cursor.rownumber == 0
        assert cursor.fetchone() == (10,)
        assert cursor.fetchmany(10) == [(n,) for n in range(11, 21)]
        assert list(itertools.islice(cursor, 9)) == [(n,) for n in range(21, 30)]
        assert cursor.rownumber == 20
        assert cursor.fetchmany() == [(30,)]
        assert cursor.fetchall() == [(n,) for n in range(31, 100)]
        assert (cursor.fetchone(), cursor.fetchmany(3), cursor.fetchall()) == (None, [], [])
        assert cursor.rownumber == 90


def test_what_it_says_of_itself(table):
    cursor = table.cursor("c", row_factory=dict_row)
    assert (cursor.description, cursor.rownumber, cursor.statusmessage) == (None, None, None)
    with pytest.raises(herdpy.ProgrammingError, match="no query"):
        cursor.fetchone()
    cursor.execute("SELECT id AS a, name FROM t ORDER BY id")
    assert [(column.name, column.type_code) for column in cursor.description] == [("a", 23), ("name", 25)]
    assert cursor.rowcount == -1
    assert cursor.fetchone() == {"a": 0, "name": "row 0"}
    cursor.execute("SELECT 5 AS b")  # in place of the query before
    assert cursor.fetchall() == [{"b": 5}]
    cursor.close()
    for use in (cursor.fetchone, cursor.fetchall, lambda: cursor.execute("SELECT 1")):
        with pytest.raises(herdpy.InterfaceError, match="closed"):
            use()


def test_other_statements_between_two_fetches(table):
    with table.stream("SELECT id FROM t ORDER BY id", size=10, row_factory=scalar_row) as rows:
        for id in rows:
            table.execute("UPDATE t SET name = %s WHERE id = %s", (f"seen {id}", id))
    table.commit()
    assert table.execute("SELECT count(*) FROM t WHERE name LIKE 'seen%'").fetchone() == (100,)


def test_going_back_needs_a_scrollable_cursor(table):
    with table.cursor("c", scrollable=True, row_factory=scalar_row) as cursor:
        cursor.itersize = 5
        cursor.execute("SELECT id FROM t ORDER BY id")
        for to, mode, wanted in [
            (50, "absolute", 50),
            (-21, "relative", 30),
            (2, "relative", 33),
            (0, "absolute", 0),
        ]:
            cursor.scroll(to, mode)
            assert cursor.fetchone() == wanted
        with pytest.raises(IndexError):
            cursor.scroll(1000)
        assert cursor.fetchone() is None
        with pytest.raises(IndexError):
            cursor.scroll(-1, "absolute")
        cursor.scroll(99, "absolute")
        assert cursor.fetchall() == [99]
    with table.cursor("d", row_factory=scalar_row) as cursor:
        cursor.itersize = 5
        cursor.execute("SELECT id FROM t ORDER BY id")
        cursor.scroll(40)
        assert cursor.fetchone() == 40
        cursor.scroll(-1)  # still in the buffer
        assert cursor.fetchone() == 40
        with pytest.raises(IndexError):
            cursor.scroll(1000)
        with pytest.raises(herdpy.Error) as caught:
            cursor.scroll(0, "absolute")
        assert caught.value.sqlstate == "55000"
    table.rollback()


def test_it_ends_with_its_transaction_unless_it_is_held(auto):
    with pytest.raises(herdpy.Error) as caught:
        auto.cursor("c").execute("SELECT 1")
    assert caught.value.sqlstate == "25P01"
    held = auto.cursor("held", withhold=True).execute("SELECT generate_series(1, 3)")
    assert held.fetchall() == [(1,), (2,), (3,)]
    held.close()
    with auto.transaction():
        cursor = auto.cursor("c").execute("SELECT generate_series(1, 3)")
        cursor.itersize = 1
        assert cursor.fetchone() == (1,)
    with pytest.raises(herdpy.Error) as caught:
        cursor.fetchone()
    assert caught.value.sqlstate == "34000"
    with auto.transaction():  # closing one that is gone does no harm
        auto.execute("CREATE TABLE kept (a INTEGER)")
        cursor.close()
    assert auto.execute("SELECT count(*) FROM kept").fetchone() == (0,)


def test_positions_of_errors_are_the_querys_own(conn):
    for params, end in [(None, ""), ((1,), "%s")]:
        query = f"SELECT 1 AS a FROM t WHERE WHERE {end}"
        with pytest.raises(herdpy.ProgrammingError) as plain:
            conn.execute(query, params)
        conn.rollback()
        with pytest.raises(herdpy.ProgrammingError) as caught:
            conn.cursor("c").execute(query, params)
        assert caught.value.position == plain.value.position is not None
        conn.rollback()


@pytest.mark.parametrize("name", ['we"ird', "ünï", "select", "a;b"])
def test_any_name(conn, name):
    with conn.cursor(name) as cursor:
        assert cursor.execute("SELECT 1").fetchall() == [(1,)]


def test_names_and_statements_that_cannot_be(conn):
    for name in ("", 5):
        with pytest.raises(herdpy.ProgrammingError):
            conn.cursor(name)
    with pytest.raises(herdpy.ProgrammingError):
        conn.cursor("c").execute("INSERT INTO t VALUES (1)")
    conn.rollback()
    with pytest.raises(herdpy.InterfaceError):
        conn.cursor("c").executemany("SELECT %s", [(1,)])


# Streams.


def test_with_autocommit_the_block_can_only_read(auto):
    auto.execute("CREATE TABLE t (a INTEGER)")
    with auto.stream("SELECT 1") as rows:
        with pytest.raises(herdpy.InternalError) as caught:
            auto.execute("INSERT INTO t VALUES (1)")
        assert caught.value.sqlstate == "25006"
        with pytest.raises(herdpy.InternalError):  # and the transaction has failed
            next(rows)
    auto.execute("INSERT INTO t VALUES (2)")
    with auto.transaction(), auto.stream("SELECT a FROM t") as rows:
        assert list(rows) == [(2,)]
        auto.execute("INSERT INTO t VALUES (3)")
    assert auto.execute("SELECT count(*) FROM t").fetchone() == (2,)


def test_a_stream_is_read_in_its_block_and_once(auto):
    stream = auto.stream("SELECT 1")
    with pytest.raises(herdpy.ProgrammingError, match="block"):
        iter(stream)
    with stream as rows:
        assert rows.description[0].type_code == 23
        assert rows.fetchmany() == [(1,)]
    with pytest.raises(herdpy.ProgrammingError, match="once"), stream:
        pass
    with pytest.raises(herdpy.ProgrammingError, match="at least 1"):
        auto.stream("SELECT 1", size=0)
    with pytest.raises(herdpy.ProgrammingError), auto.stream("SELECT nonesuch"):
        pass
    assert auto.info.transaction_status == herdpy.TransactionStatus.IDLE


def test_arrow_batch_by_batch(auto):
    with auto.stream("SELECT n, n::text AS t FROM generate_series(1, 2500) AS s (n)") as rows:
        reader = rows.fetch_record_batch()
        assert isinstance(reader, pa.RecordBatchReader)
        assert reader.read_next_batch().num_rows <= 1000
        table = reader.read_all()
    assert table.column("t").to_pylist() == [str(n) for n in range(2501 - table.num_rows, 2501)]
    with auto.transaction(), auto.cursor("c") as cursor:
        cursor.execute("SELECT generate_series(1, 3)")
        assert cursor.fetchone() == (1,)
        with pytest.raises(herdpy.ProgrammingError, match="2 more were fetched"):
            cursor.fetch_arrow_table()
