"""PEP 249, paragraph by paragraph."""

from __future__ import annotations

import datetime
import inspect
import pickle
import time

import pytest

import herdpy
from herdpy.dbapi import errors

ERRORS = [
    "Warning",
    "Error",
    "InterfaceError",
    "DatabaseError",
    "DataError",
    "OperationalError",
    "IntegrityError",
    "InternalError",
    "ProgrammingError",
    "NotSupportedError",
]


@pytest.fixture
def cur(conn):
    with conn.cursor() as cursor:
        cursor.execute("CREATE TABLE fruit (id INTEGER PRIMARY KEY, name TEXT NOT NULL, price NUMERIC(8, 2))")
        cursor.executemany(
            "INSERT INTO fruit VALUES (%s, %s, %s)",
            [(1, "apple", None), (2, "pear", 2), (3, "plum", 3), (4, "fig", 4), (5, "quince", 5)],
        )
        conn.commit()
        yield cursor


# Module interface.


def test_globals():
    assert herdpy.apilevel == "2.0"
    assert herdpy.threadsafety == 2
    assert herdpy.paramstyle == "pyformat"
    assert callable(herdpy.connect)


def test_connect_has_the_keywords_it_promises():
    signature = inspect.signature(herdpy.connect)
    assert signature.parameters["autocommit"].default is False
    assert signature.parameters["create"].default is True


def test_the_hierarchy_of_exceptions():
    assert issubclass(herdpy.Warning, Exception)
    assert issubclass(herdpy.Error, Exception)
    assert not issubclass(herdpy.Warning, herdpy.Error)
    assert issubclass(herdpy.InterfaceError, herdpy.Error)
    assert issubclass(herdpy.DatabaseError, herdpy.Error)
    assert not issubclass(herdpy.InterfaceError, herdpy.DatabaseError)
    for name in ERRORS[4:]:
        assert issubclass(getattr(herdpy, name), herdpy.DatabaseError)


def test_exceptions_are_attributes_of_connections(conn):
    for name in ERRORS:
        assert getattr(conn, name) is getattr(herdpy, name) is getattr(errors, name)


def test_everything_exported_is_there():
    for name in herdpy.__all__:
        assert getattr(herdpy, name) is not None


def test_exceptions_can_be_pickled():
    error = herdpy.IntegrityError("twice", sqlstate="23505", detail="Key (a)=(1).", position=7)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is herdpy.IntegrityError
    assert vars(again) == vars(error)
    assert str(again) == "twice\nDETAIL: Key (a)=(1)."


# Connections.


def test_commit_keeps_and_rollback_undoes(conn, url):
    conn.execute("CREATE TABLE t (a INTEGER)")
    conn.commit()
    conn.execute("INSERT INTO t VALUES (1)")
    conn.rollback()
    conn.execute("INSERT INTO t VALUES (2)")
    with herdpy.connect(url) as other:
        assert other.execute("SELECT a FROM t").fetchall() == []
        other.rollback()
        conn.commit()
        assert other.execute("SELECT a FROM t").fetchall() == [(2,)]


def test_closing_rolls_back(url):
    with herdpy.connect(url, autocommit=True) as watcher:
        watcher.execute("CREATE TABLE t (a INTEGER)")
        connection = herdpy.connect(url)
        connection.execute("INSERT INTO t VALUES (1)")
        connection.close()
        assert watcher.execute("SELECT count(*) FROM t").fetchone() == (0,)


def test_commit_and_rollback_without_a_transaction(conn):
    conn.commit()
    conn.rollback()
    conn.commit()


def test_closing_twice(conn):
    assert not conn.closed
    conn.close()
    conn.close()
    assert conn.closed


def test_a_closed_connection_refuses_everything(conn):
    cursor = conn.execute("SELECT 1")
    conn.close()
    for attempt in (
        conn.commit,
        conn.rollback,
        conn.cursor,
        conn.cancel,
        conn.__enter__,
        cursor.fetchone,
        cursor.fetchall,
        lambda: conn.execute("SELECT 1"),
        lambda: cursor.execute("SELECT 1"),
        lambda: cursor.execute("SELECT %s", (1,)),
        lambda: cursor.executemany("SELECT %s", [(1,)]),
        lambda: setattr(conn, "autocommit", True),
        lambda: conn.transaction().__enter__(),
        cursor.fetchmany,
        cursor.fetch_arrow_table,
        lambda: next(cursor),
    ):
        with pytest.raises(herdpy.InterfaceError, match="the connection is closed"):
            attempt()
    assert conn.info.transaction_status is herdpy.TransactionStatus.UNKNOWN
    assert conn.autocommit is False
    assert "closed" in repr(conn)


# Cursors.


def test_cursors_of_one_connection_see_each_other(conn):
    one, two = conn.cursor(), conn.cursor()
    one.execute("CREATE TABLE t (a INTEGER)")
    one.execute("INSERT INTO t VALUES (1)")
    assert two.execute("SELECT a FROM t").fetchall() == [(1,)]


def test_a_new_cursor(conn):
    cursor = conn.cursor()
    assert cursor.connection is conn
    assert cursor.description is None
    assert cursor.rowcount == -1
    assert cursor.rownumber is None
    assert cursor.arraysize == 1
    assert cursor.lastrowid is None
    assert cursor.statusmessage is None
    assert not cursor.closed
    assert cursor.nextset() is None


def test_description(cur):
    cur.execute("SELECT id, name, price, price > 1 AS dear, 'x'::varchar(5) AS short FROM fruit")
    names = [column[0] for column in cur.description]
    assert names == ["id", "name", "price", "dear", "short"] == [column.name for column in cur.description]
    assert all(isinstance(column, tuple) and len(column) == 7 for column in cur.description)
    ident, name, price, dear, short = cur.description
    assert ident.type_code == herdpy.NUMBER == ident[1]
    assert ident.internal_size == ident[3] == 4
    assert name.type_code == herdpy.STRING
    assert name.internal_size is None
    assert price.type_code == herdpy.NUMBER
    assert (price.precision, price.scale) == (price[4], price[5]) == (8, 2)
    assert dear.type_code == 16
    assert dear.type_code not in (herdpy.STRING, herdpy.BINARY, herdpy.NUMBER, herdpy.DATETIME, herdpy.ROWID)
    assert short.display_size in (5, None)
    assert ident.null_ok is None
    assert "id" in repr(ident)
    assert pickle.loads(pickle.dumps(ident)) == tuple(ident)


def test_description_of_what_returns_no_rows(cur):
    for statement in (
        "INSERT INTO fruit VALUES (6, 'medlar', 1)",
        "UPDATE fruit SET price = 1",
        "DELETE FROM fruit",
        "CREATE TABLE other (a INTEGER)",
        "DROP TABLE other",
    ):
        cur.execute(statement)
        assert cur.description is None
        assert cur.rownumber is None
        for fetch in (cur.fetchone, cur.fetchmany, cur.fetchall, cur.fetch_arrow_table, cur.fetch_df):
            with pytest.raises(herdpy.ProgrammingError, match="returned no rows"):
                fetch()


def test_returning_gives_rows(cur):
    cur.execute("INSERT INTO fruit VALUES (6, 'medlar', 1), (7, 'sloe', 2) RETURNING id, name")
    assert cur.rowcount == 2
    assert cur.fetchall() == [(6, "medlar"), (7, "sloe")]
    cur.execute("DELETE FROM fruit WHERE id >= 6 RETURNING id")
    assert sorted(cur) == [(6,), (7,)]


def test_rowcount(cur):
    assert cur.execute("SELECT * FROM fruit").rowcount == 5
    assert cur.execute("UPDATE fruit SET price = 9 WHERE id > 2").rowcount == 3
    assert cur.execute("DELETE FROM fruit WHERE id = 77").rowcount == 0
    assert cur.execute("INSERT INTO fruit VALUES (8, 'date', 1), (9, 'lime', 1)").rowcount == 2
    assert cur.execute("CREATE TABLE other (a INTEGER)").rowcount == -1


def test_statusmessage(cur):
    assert cur.execute("SELECT * FROM fruit").statusmessage == "SELECT 5"
    assert cur.execute("INSERT INTO fruit VALUES (8, 'date', 1)").statusmessage == "INSERT 0 1"
    assert cur.execute("UPDATE fruit SET price = 9").statusmessage == "UPDATE 6"
    assert cur.execute("CREATE TABLE other (a INTEGER)").statusmessage == "CREATE TABLE"


def test_execute_returns_the_cursor_and_drops_what_was(cur):
    cur.execute("SELECT id FROM fruit")
    assert cur.execute("SELECT name FROM fruit WHERE id = 1") is cur
    assert cur.fetchall() == [("apple",)]
    with pytest.raises(herdpy.ProgrammingError):
        cur.execute("SELECT nothing FROM fruit")
    assert cur.description is None
    with pytest.raises(herdpy.ProgrammingError, match="no statement was executed"):
        cur.fetchone()


@pytest.mark.parametrize(
    ("text", "params"),
    [
        ("SELECT name FROM fruit WHERE id = %s AND name <> %s", (2, "x")),
        ("SELECT name FROM fruit WHERE id = %s AND name <> %s", [2, "x"]),
        ("SELECT name FROM fruit WHERE id = %(id)s AND name <> %(n)s", {"n": "x", "id": 2}),
        ("SELECT name FROM fruit WHERE id = $1 AND name <> $2", (2, "x")),
        ("SELECT name FROM fruit WHERE name <> $2 AND id = $1", (2, "x")),
        ("SELECT name FROM fruit WHERE id %% 10 = %s AND name <> '%%' AND name <> %s", (2, "x")),
        ("SELECT name FROM fruit WHERE id %% 10 = 2", ()),
        ("SELECT name FROM fruit WHERE id % 10 = 2", None),
        (b"SELECT name FROM fruit WHERE id = %s AND name <> 'gr\xc3\xbcn'", (2,)),
        ("SELECT name FROM fruit WHERE name LIKE 'pe%%' AND id = %s", (2,)),
        ("SELECT name FROM fruit WHERE name LIKE 'pe%'", None),
        ("  SELECT name FROM fruit WHERE id = 2 ; ", None),
        ("SELECT name FROM fruit WHERE id = 2 -- the end", None),
    ],
)
def test_parameters(cur, text, params):
    assert cur.execute(text, params).fetchall() == [("pear",)]


def test_a_parameter_is_never_text_of_the_statement(cur):
    evil = "'; DROP TABLE fruit; -- %s $1 \\"
    cur.execute("INSERT INTO fruit VALUES (99, %s, NULL)", (evil,))
    assert cur.execute("SELECT id FROM fruit WHERE name = %(n)s", {"n": evil}).fetchall() == [(99,)]


def test_fetchone(cur):
    cur.execute("SELECT id FROM fruit ORDER BY id")
    assert cur.rownumber == 0
    assert [cur.fetchone() for _ in range(5)] == [(1,), (2,), (3,), (4,), (5,)]
    assert cur.rownumber == 5
    assert cur.fetchone() is None
    assert cur.fetchone() is None


def test_fetchmany(cur):
    cur.execute("SELECT id FROM fruit ORDER BY id")
    assert cur.fetchmany() == [(1,)]
    assert cur.fetchmany(2) == [(2,), (3,)]
    cur.arraysize = 10
    assert cur.fetchmany(0) == []
    assert cur.fetchmany() == [(4,), (5,)]
    assert cur.fetchmany() == []
    with pytest.raises(herdpy.ProgrammingError, match="negative"):
        cur.fetchmany(-1)


def test_fetchall_takes_what_is_left(cur):
    cur.execute("SELECT id FROM fruit ORDER BY id")
    cur.fetchone()
    assert cur.fetchall() == [(2,), (3,), (4,), (5,)]
    assert cur.fetchall() == []
    assert cur.fetchone() is None
    cur.execute("SELECT id FROM fruit WHERE id > 100")
    assert cur.fetchall() == []
    assert cur.description is not None


def test_what_fetchall_gives_is_the_callers(cur):
    cur.execute("SELECT id FROM fruit ORDER BY id")
    rows = cur.fetchall()
    rows.clear()
    cur.scroll(0, "absolute")
    assert len(cur.fetchall()) == 5


def test_iteration(cur):
    cur.execute("SELECT id FROM fruit ORDER BY id")
    assert next(cur) == (1,)
    assert [row[0] for row in cur] == [2, 3, 4, 5]
    with pytest.raises(StopIteration):
        next(cur)


def test_scroll(cur):
    cur.execute("SELECT id FROM fruit ORDER BY id")
    cur.scroll(3)
    assert cur.fetchone() == (4,)
    cur.scroll(-2)
    assert cur.fetchone() == (3,)
    cur.scroll(0, mode="absolute")
    assert cur.fetchone() == (1,)
    for value, mode in ((-2, "relative"), (5, "absolute"), (-1, "absolute"), (10**30, "relative")):
        with pytest.raises(IndexError):
            cur.scroll(value, mode)
    with pytest.raises(herdpy.ProgrammingError, match="mode"):
        cur.scroll(0, "sideways")
    assert cur.fetchone() == (2,)


def test_fetching_before_any_statement(conn):
    cursor = conn.cursor()
    for fetch in (
        cursor.fetchone,
        cursor.fetchmany,
        cursor.fetchall,
        lambda: next(cursor),
        lambda: cursor.scroll(0),
        cursor.fetch_arrow_table,
        cursor.fetch_record_batch,
        cursor.fetch_df,
    ):
        with pytest.raises(herdpy.ProgrammingError, match="no statement was executed"):
            fetch()


def test_a_closed_cursor_refuses_everything(conn):
    cursor = conn.execute("SELECT 1")
    assert cursor.fetchall() == [(1,)]
    cursor.close()
    cursor.close()
    assert cursor.closed
    for attempt in (
        cursor.fetchone,
        cursor.fetchmany,
        cursor.fetchall,
        cursor.fetch_arrow_table,
        cursor.nextset,
        cursor.__enter__,
        lambda: cursor.execute("SELECT 1"),
        lambda: cursor.executemany("SELECT %s", [(1,)]),
        lambda: cursor.scroll(0),
        lambda: cursor.adbc_ingest("t", None),
    ):
        with pytest.raises(herdpy.InterfaceError, match="the cursor is closed"):
            attempt()
    assert conn.execute("SELECT 2").fetchone() == (2,)


def test_with_closes_the_cursor(conn):
    with conn.cursor() as cursor:
        cursor.execute("SELECT 1")
    assert cursor.closed
    with pytest.raises(ZeroDivisionError), conn.cursor() as cursor:
        raise ZeroDivisionError
    assert cursor.closed


def test_executemany(cur):
    assert cur.executemany("INSERT INTO fruit VALUES (%s, %s, 1)", [(10, "a"), (11, "b")]) is cur
    assert cur.rowcount == 2
    cur.executemany("INSERT INTO fruit VALUES (%(i)s, 'x', 1)", ({"i": n} for n in range(20, 23)))
    assert cur.rowcount == 3
    cur.executemany("UPDATE fruit SET name = $2 WHERE id = $1", [(10, "x"), (20, "y"), (1000, "z")])
    assert cur.rowcount == 2
    cur.executemany("DELETE FROM fruit WHERE id = %s", [])
    assert cur.rowcount == 0
    assert cur.description is None
    assert cur.execute("SELECT count(*) FROM fruit WHERE id >= 10").fetchone() == (5,)


def test_executemany_reads_its_parameters_before_it_begins(cur, conn):
    source = conn.execute("SELECT id + 100, name FROM fruit ORDER BY id")
    cur.executemany("INSERT INTO fruit VALUES (%s, %s, 0)", source)
    assert cur.rowcount == 5

    def broken():
        yield (500, "x")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        cur.executemany("INSERT INTO fruit VALUES (%s, %s, 0)", broken())
    assert cur.execute("SELECT count(*) FROM fruit").fetchone() == (10,)
    with pytest.raises(herdpy.ProgrammingError, match="an iterable of parameters"):
        cur.executemany("DELETE FROM fruit WHERE id = %s", 5)
    with pytest.raises(herdpy.ProgrammingError, match="a sequence or a mapping"):
        cur.executemany("DELETE FROM fruit WHERE id = %s", [1, 2])


def test_executemany_is_atomic(auto):
    auto.execute("CREATE TABLE t (a INTEGER PRIMARY KEY)")
    with pytest.raises(herdpy.IntegrityError) as caught:
        auto.cursor().executemany("INSERT INTO t VALUES (%s)", [(n,) for n in [1, 2, 3, 2, 4]])
    assert caught.value.sqlstate == "23505"
    assert auto.execute("SELECT count(*) FROM t").fetchone() == (0,)


def test_several_statements_and_nextset(conn):
    cursor = conn.execute(
        "CREATE TABLE t (a TEXT); INSERT INTO t VALUES ('x;y'), ('z');"
        "SELECT a FROM t ORDER BY a; SELECT 2, 3;"
    )
    assert cursor.statusmessage == "CREATE TABLE"
    assert cursor.nextset() is True
    assert cursor.rowcount == 2
    assert cursor.nextset()
    assert cursor.fetchone() == ("x;y",)
    assert cursor.nextset()
    assert cursor.fetchall() == [(2, 3)]
    assert cursor.nextset() is None
    assert cursor.nextset() is None


def test_several_statements_are_one_transaction(auto):
    with pytest.raises(herdpy.DataError):
        auto.execute("CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (1); SELECT 1 / 0")
    with pytest.raises(herdpy.ProgrammingError) as caught:
        auto.execute("SELECT * FROM t")
    assert caught.value.sqlstate == "42P01"
    auto.execute("CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (1)")
    assert auto.info.transaction_status is herdpy.TransactionStatus.IDLE
    auto.execute("BEGIN; INSERT INTO t VALUES (2)")
    assert auto.info.transaction_status is herdpy.TransactionStatus.INTRANS
    auto.rollback()
    assert auto.execute("SELECT a FROM t").fetchall() == [(1,)]


def test_several_statements_take_no_parameters(conn):
    with pytest.raises(herdpy.ProgrammingError) as caught:
        conn.execute("SELECT %s; SELECT %s", (1, 2))
    assert caught.value.sqlstate == "42601"


@pytest.mark.parametrize("text", ["", "  ", ";", "-- nothing\n", "/* nothing */ ;;"])
def test_empty_statements(conn, text):
    cursor = conn.execute(text)
    assert cursor.description is None
    assert cursor.rowcount in (-1, 0)
    assert conn.execute("SELECT 1").fetchone() == (1,)


def test_callproc_is_not_supported(conn):
    with pytest.raises(herdpy.NotSupportedError) as caught:
        conn.cursor().callproc("f", (1,))
    assert caught.value.sqlstate == "0A000"


def test_sizes_are_ignored(cur):
    cur.setinputsizes([25, None])
    cur.setoutputsize(1000)
    cur.setoutputsize(2000, 0)
    assert cur.execute("SELECT 1").fetchone() == (1,)


# Type objects and constructors.


def test_constructors():
    assert herdpy.Date(2024, 2, 29) == datetime.date(2024, 2, 29)
    assert herdpy.Time(1, 2, 3) == datetime.time(1, 2, 3)
    assert herdpy.Timestamp(2024, 2, 29, 1, 2, 3) == datetime.datetime(2024, 2, 29, 1, 2, 3)
    ticks = time.mktime((2024, 2, 29, 1, 2, 3, 0, 0, -1))
    assert herdpy.DateFromTicks(ticks) == datetime.date(2024, 2, 29)
    assert herdpy.TimeFromTicks(ticks) == datetime.time(1, 2, 3)
    assert herdpy.TimestampFromTicks(ticks) == datetime.datetime(2024, 2, 29, 1, 2, 3)
    assert herdpy.Binary(b"a") == herdpy.Binary(bytearray(b"a")) == herdpy.Binary(memoryview(b"a")) == b"a"
    with pytest.raises(TypeError):
        herdpy.Binary("a")


def test_type_objects(conn):
    conn.execute(
        "CREATE TABLE t (a SMALLINT, b INTEGER, c BIGINT, d REAL, e DOUBLE PRECISION, f NUMERIC, g TEXT,"
        " h VARCHAR(3), i CHAR(3), j BYTEA, k DATE, l TIME, m TIMESTAMP, n TIMESTAMPTZ)"
    )
    codes = [column.type_code for column in conn.execute("SELECT * FROM t").description]
    wanted = [herdpy.NUMBER] * 6 + [herdpy.STRING] * 3 + [herdpy.BINARY] + [herdpy.DATETIME] * 4
    assert codes == wanted
    assert all(code != herdpy.ROWID for code in codes)
    assert len({herdpy.STRING, herdpy.BINARY, herdpy.NUMBER, herdpy.DATETIME, herdpy.ROWID}) == 5
    assert herdpy.STRING == herdpy.STRING
    assert herdpy.STRING != herdpy.BINARY
    assert repr(herdpy.STRING) == "<herdpy.STRING>"


# with, autocommit, transaction().


def test_with_commits_and_closes(url):
    with herdpy.connect(url) as connection:
        connection.execute("CREATE TABLE t (a INTEGER)")
    assert connection.closed
    with pytest.raises(ZeroDivisionError), herdpy.connect(url) as connection:  # noqa: PT012
        connection.execute("INSERT INTO t VALUES (1)")
        raise ZeroDivisionError
    assert connection.closed
    with herdpy.connect(url) as connection:
        assert connection.execute("SELECT * FROM t").fetchall() == []
        connection.close()


def test_transaction_status(conn):
    status = herdpy.TransactionStatus
    assert conn.info.transaction_status is status.IDLE
    conn.execute("SELECT 1")
    assert conn.info.transaction_status is status.INTRANS
    with pytest.raises(herdpy.DataError):
        conn.execute("SELECT 1/0")
    assert conn.info.transaction_status is status.INERROR
    assert "INERROR" in repr(conn)
    conn.rollback()
    assert conn.info.transaction_status is status.IDLE


def test_autocommit(auto, url):
    assert auto.autocommit
    auto.execute("CREATE TABLE t (a INTEGER)")
    assert auto.info.transaction_status is herdpy.TransactionStatus.IDLE
    auto.autocommit = False
    auto.execute("INSERT INTO t VALUES (1)")
    with pytest.raises(herdpy.ProgrammingError, match="within a transaction"):
        auto.autocommit = True
    auto.rollback()
    auto.autocommit = True
    auto.execute("BEGIN")
    auto.execute("INSERT INTO t VALUES (2)")
    auto.execute("COMMIT")
    assert auto.execute("SELECT a FROM t").fetchall() == [(2,)]


def test_transaction_block(auto):
    auto.execute("CREATE TABLE t (a INTEGER)")
    with auto.transaction() as same:
        assert same is auto
        auto.execute("INSERT INTO t VALUES (1)")
        with pytest.raises(ZeroDivisionError), auto.transaction():  # noqa: PT012
            auto.execute("INSERT INTO t VALUES (2)")
            raise ZeroDivisionError
        with auto.transaction():
            auto.execute("INSERT INTO t VALUES (3)")
        with pytest.raises(herdpy.DataError), auto.transaction():
            auto.execute("SELECT 1/0")
    assert auto.execute("SELECT a FROM t ORDER BY a").fetchall() == [(1,), (3,)]
    with pytest.raises(ZeroDivisionError), auto.transaction():  # noqa: PT012
        auto.execute("DELETE FROM t")
        raise ZeroDivisionError
    assert auto.execute("SELECT count(*) FROM t").fetchone() == (2,)


def test_transaction_block_without_autocommit(conn):
    conn.execute("CREATE TABLE t (a INTEGER)")
    conn.commit()
    with conn.transaction():
        conn.execute("INSERT INTO t VALUES (1)")
    conn.rollback()
    assert conn.execute("SELECT a FROM t").fetchall() == [(1,)]


def test_connection_closed_inside_a_transaction_block(url):
    connection = herdpy.connect(url)
    with pytest.raises(ZeroDivisionError), connection.transaction():  # noqa: PT012
        connection.close()
        raise ZeroDivisionError


def test_name_of_the_database(conn, path):
    assert conn.info.dbname == str(path)
    assert str(path) in repr(conn)
