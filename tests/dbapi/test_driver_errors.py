"""Errors: the class and SQLSTATE of each, what they carry, and a connection that goes on."""

from __future__ import annotations

import pytest

import herdpy
from herdpy.dbapi import errors
from herdpy_sql.errors import SqlError

TABLES = """
    CREATE TABLE p (a INTEGER PRIMARY KEY, b TEXT NOT NULL, c SMALLINT CHECK (c > 0), d TEXT UNIQUE);
    INSERT INTO p VALUES (1, 'x', 1, 'one')
"""

FAILURES = [
    ("SELEC 1", (), herdpy.ProgrammingError, "42601"),
    ("SELECT FROM WHERE", (), herdpy.ProgrammingError, "42601"),
    ("SELECT 'abc", (), herdpy.ProgrammingError, "42601"),
    ("SELECT * FROM nowhere", (), herdpy.ProgrammingError, "42P01"),
    ("SELECT nothing FROM p", (), herdpy.ProgrammingError, "42703"),
    ("SELECT nofunction(1)", (), herdpy.ProgrammingError, "42883"),
    ("SELECT 1 + true", (), herdpy.ProgrammingError, "42883"),
    ("CREATE TABLE p (a INTEGER)", (), herdpy.ProgrammingError, "42P07"),
    ("INSERT INTO p (a, a) VALUES (1, 2)", (), herdpy.ProgrammingError, "42701"),
    ("INSERT INTO p VALUES (1, 'y')", (), herdpy.IntegrityError, "23505"),
    ("INSERT INTO p VALUES (%s, %s)", (1, "y"), herdpy.IntegrityError, "23505"),
    ("INSERT INTO p VALUES (2, 'y', 1, 'one')", (), herdpy.IntegrityError, "23505"),
    ("INSERT INTO p VALUES (2, NULL)", (), herdpy.IntegrityError, "23502"),
    ("INSERT INTO p VALUES (2, %s)", (None,), herdpy.IntegrityError, "23502"),
    ("INSERT INTO p VALUES (2, 'y', 0)", (), herdpy.IntegrityError, "23514"),
    ("SELECT 1 / 0", (), herdpy.DataError, "22012"),
    ("SELECT 1 / %s", (0,), herdpy.DataError, "22012"),
    ("SELECT 2147483647 + 1", (), herdpy.DataError, "22003"),
    ("SELECT 'x'::integer", (), herdpy.DataError, "22P02"),
    ("SELECT %s::date", ("2023-02-30",), herdpy.DataError, "22008"),
    ("INSERT INTO p VALUES (2, 'y', 40000)", (), herdpy.DataError, "22003"),
    ("SET no_such_setting = 1", (), herdpy.ProgrammingError, "42704"),
    ("SELECT %s, %s", (1,), herdpy.ProgrammingError, "08P01"),
    ("CREATE TRIGGER x BEFORE INSERT ON p EXECUTE FUNCTION f()", (), herdpy.NotSupportedError, "0A000"),
]


@pytest.mark.parametrize(("statement", "params", "error", "sqlstate"), FAILURES)
def test_autocommit_goes_on_after_an_error(auto, statement, params, error, sqlstate):
    auto.execute(TABLES)
    with pytest.raises(errors.DatabaseError) as caught:
        auto.execute(statement, params)
    assert (caught.value.sqlstate, type(caught.value)) == (sqlstate, error)
    assert caught.value.message
    assert caught.value.outcome == "not done"
    assert not caught.value.retryable
    assert auto.info.transaction_status is herdpy.TransactionStatus.IDLE
    assert auto.execute("SELECT a, b, c, d FROM p").fetchall() == [(1, "x", 1, "one")]


@pytest.mark.parametrize(("statement", "params", "error", "sqlstate"), FAILURES[:16:3])
def test_a_transaction_fails_until_it_is_rolled_back(conn, statement, params, error, sqlstate):
    conn.execute(TABLES)
    conn.commit()
    conn.execute("INSERT INTO p VALUES (7, 'seven')")
    with pytest.raises(error):
        conn.execute(statement, params)
    for attempt in ("SELECT 1", "INSERT INTO p VALUES (8, 'eight')", "nonsense"):
        with pytest.raises(herdpy.Error) as caught:
            conn.execute(attempt)
        if attempt != "nonsense":
            assert (caught.value.sqlstate, type(caught.value)) == ("25P02", herdpy.InternalError)
    conn.rollback()
    assert conn.execute("SELECT a FROM p").fetchall() == [(1,)]


def test_committing_a_failed_transaction_says_so(conn):
    conn.execute("CREATE TABLE t (a INTEGER)")
    with pytest.raises(herdpy.DataError):
        conn.execute("SELECT 1/0")
    with pytest.raises(herdpy.InternalError, match="rolled back, not committed") as caught:
        conn.commit()
    assert caught.value.sqlstate == "25P02"
    with pytest.raises(herdpy.ProgrammingError):
        conn.execute("SELECT * FROM t")
    conn.rollback()


def test_commit_as_a_statement_is_postgresqls(conn):
    with pytest.raises(herdpy.DataError):
        conn.execute("SELECT 1/0")
    assert conn.execute("COMMIT").statusmessage == "ROLLBACK"
    assert conn.execute("SELECT 1").fetchone() == (1,)


def test_a_failed_statement_leaves_nothing(auto):
    auto.execute(TABLES)
    with pytest.raises(herdpy.IntegrityError):
        auto.execute("INSERT INTO p VALUES (2, 'a'), (3, 'b'), (1, 'c')")
    with pytest.raises(herdpy.IntegrityError):
        auto.execute("INSERT INTO p VALUES (2, 'a', 1), (3, 'b', -1)")
    with pytest.raises(herdpy.DataError):
        auto.execute("UPDATE p SET c = 10 / (a - 1)")
    assert auto.execute("SELECT a, c FROM p").fetchall() == [(1, 1)]


def test_what_an_error_carries(auto):
    auto.execute(TABLES)
    with pytest.raises(herdpy.IntegrityError) as caught:
        auto.execute("INSERT INTO p VALUES (1, 'y')")
    error = caught.value
    assert error.message == 'duplicate key value violates unique constraint "p_pkey"'
    assert error.detail == "Key (a)=(1) already exists."
    assert error.fields["constraint"] == "p_pkey"
    assert str(error) == f"{error.message}\nDETAIL: {error.detail}"
    assert error.__cause__ is None
    assert error.__suppress_context__


@pytest.mark.parametrize("text", ["SELECT %s, 1 FROM nowhere", "SELECT %(name)s, 'a%%b', 1 FROM nowhere"])
def test_positions_are_in_the_text_of_the_caller(auto, text):
    params = (1,) if "(" not in text else {"name": 1}
    with pytest.raises(herdpy.ProgrammingError) as caught:
        auto.execute(text, params)
    if caught.value.position is not None:
        assert text[caught.value.position - 1 :].startswith("nowhere")


def test_duplicates_across_two_connections(auto, url):
    auto.execute("CREATE TABLE t (a INTEGER PRIMARY KEY)")
    with herdpy.connect(url, autocommit=True) as other:
        other.execute("INSERT INTO t VALUES (1)")
        with pytest.raises(herdpy.IntegrityError):
            auto.execute("INSERT INTO t VALUES (1)")


@pytest.mark.parametrize(
    ("sqlstate", "error"),
    [
        ("0A000", herdpy.NotSupportedError),
        ("08006", herdpy.OperationalError),
        ("08007", herdpy.OperationalError),
        ("22003", herdpy.DataError),
        ("23505", herdpy.IntegrityError),
        ("25P02", herdpy.InternalError),
        ("40001", herdpy.OperationalError),
        ("40P01", herdpy.OperationalError),
        ("42601", herdpy.ProgrammingError),
        ("53100", herdpy.OperationalError),
        ("54001", herdpy.OperationalError),
        ("55P03", herdpy.OperationalError),
        ("57014", herdpy.OperationalError),
        ("58030", herdpy.OperationalError),
        ("XX000", herdpy.InternalError),
        ("XX001", herdpy.InternalError),
        ("ZZ999", herdpy.DatabaseError),
    ],
)
def test_class_of_a_sqlstate(sqlstate, error):
    made = errors.translated(
        SqlError(sqlstate, "m", detail="d", hint="h", position=3, outcome="unknown", table="t")
    )
    assert type(made) is error
    assert (made.sqlstate, made.message, made.detail, made.hint) == (sqlstate, "m", "d", "h")
    assert (made.position, made.outcome, made.fields) == (3, "unknown", {"table": "t"})
    assert str(made) == "m\nDETAIL: d\nHINT: h"
    assert made.retryable == (sqlstate in {"40001", "40P01", "55P03", "57P03"})


@pytest.mark.parametrize(
    ("raised", "error", "sqlstate"),
    [
        (KeyError("x"), herdpy.InternalError, "XX000"),
        (RecursionError("deep"), herdpy.OperationalError, "54001"),
        (MemoryError(), herdpy.OperationalError, "53200"),
        (OSError(28, "No space left on device"), herdpy.OperationalError, "53100"),
        (OSError(5, "Input/output error"), herdpy.OperationalError, "58030"),
    ],
)
def test_what_the_engine_should_not_let_out(raised, error, sqlstate):
    made = errors.translated(raised)
    assert (type(made), made.sqlstate) == (error, sqlstate)


@pytest.mark.parametrize("statement", [5, None, ["SELECT 1"], object()])
def test_what_is_no_statement(conn, statement):
    for attempt in (
        lambda: conn.execute(statement),
        lambda: conn.execute(statement, ()),
        lambda: conn.cursor().executemany(statement, [()]),
    ):
        with pytest.raises(herdpy.ProgrammingError, match="a statement is text"):
            attempt()
    assert conn.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.parametrize("statement", [b"SELECT '\xff'", b"\xc3", "SELECT '\ud800'", "SELECT 1\0", "\0"])
@pytest.mark.parametrize("params", [None, ()])
def test_statements_that_are_no_utf8(conn, statement, params):
    with pytest.raises(herdpy.DataError) as caught:
        conn.execute(statement, params)
    assert caught.value.sqlstate == "22021"
    assert conn.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT " + "(" * 3000 + "1" + ")" * 3000,
        "SELECT " + "1+" * 20000 + "1",
        "SELECT " + "-" * 5000 + "1",
        "(" * 50000,
        "SELECT " + "'x' || " * 5000 + "'x'",
        "\N{REPLACEMENT CHARACTER}" * 1000,
        "SELECT 'x'" * 1000,
        ";" * 5000,
        "/*" * 5000,
        "$" * 1001,
    ],
    ids=lambda text: text[:12],
)
def test_hostile_statements(auto, statement):
    try:
        auto.execute(statement)
    except herdpy.DatabaseError as error:
        assert error.sqlstate[:2] in {"42", "54", "0A", "22"}  # noqa: PT017 - it may also pass
    assert auto.execute("SELECT 1").fetchone() == (1,)
