"""Statements are ended from outside: by ``cancel`` of another thread and by ``statement_timeout``.

Each way ends with 57014, leaves nothing of the statement behind, and the connection goes on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import herdpy

ROWS = 3000
COLUMNAR = "SELECT count(*) FROM big AS a, big AS b, big AS c WHERE a.n + b.n + c.n < 0"
OWN = "SELECT a.id FROM big AS a JOIN big AS b ON a.n + b.n < 0 LIMIT 1"
ENDLESS = (
    "WITH RECURSIVE w AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM w WHERE n > 0) SELECT count(*) FROM w"
)
CHANGE = (
    "UPDATE big SET n = 1 WHERE EXISTS (SELECT 1 FROM big AS b, big AS c, big AS d WHERE b.n + c.n + d.n < 0)"
)


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[Callable[[], herdpy.Connection]]:
    made: list[herdpy.Connection] = []

    def make() -> herdpy.Connection:
        made.append(herdpy.connect(tmp_path, autocommit=True))
        return made[-1]

    first = make()
    first.execute("CREATE TABLE big (id integer PRIMARY KEY, n integer NOT NULL)")
    first.cursor().executemany("INSERT INTO big VALUES ($1, $1)", [(n,) for n in range(ROWS)])
    yield make
    for connection in made:
        connection.close()


def unharmed(connection: herdpy.Connection) -> None:
    assert connection.execute("SELECT 1").fetchall() == [(1,)]
    assert connection.execute("SELECT count(*), sum(n) FROM big").fetchall() == [
        (ROWS, ROWS * (ROWS - 1) // 2)
    ]


def cancelled(connection: herdpy.Connection, statement: str) -> herdpy.Error:
    """Run a statement that never ends, and cancel it until it does."""
    done = threading.Event()

    def cancel() -> None:
        while not done.wait(0.02):  # it may not have begun yet
            connection.cancel()

    thread = threading.Thread(target=cancel)
    thread.start()
    try:
        with pytest.raises(herdpy.OperationalError) as caught:
            connection.execute(statement)
    finally:
        done.set()
        thread.join()
    return caught.value


@pytest.mark.parametrize("statement", [COLUMNAR, CHANGE])
def test_cancel_of_a_columnar_query(statement: str, connect: Callable[[], herdpy.Connection]) -> None:
    connection = connect()
    assert cancelled(connection, statement).sqlstate == "57014"
    unharmed(connection)


def test_cancel_of_an_own_plan(connect: Callable[[], herdpy.Connection]) -> None:
    connection = connect()
    connection.execute("SET herdpy.engine = 'own'")
    assert cancelled(connection, OWN).sqlstate == "57014"
    connection.execute("RESET herdpy.engine")
    unharmed(connection)


def test_cancel_of_a_wait_for_a_lock(connect: Callable[[], herdpy.Connection]) -> None:
    holder, waiter = connect(), connect()
    holder.execute("BEGIN")
    holder.execute("UPDATE big SET n = n WHERE id = 1")
    assert cancelled(waiter, "UPDATE big SET n = 7 WHERE id = 1").sqlstate == "57014"
    assert waiter.execute("SELECT 1").fetchall() == [(1,)]
    holder.execute("COMMIT")
    unharmed(waiter)
    waiter.execute("UPDATE big SET n = n WHERE id = 1")


def test_cancel_within_a_transaction_fails_it(connect: Callable[[], herdpy.Connection]) -> None:
    connection = connect()
    connection.execute("BEGIN")
    connection.execute("DELETE FROM big WHERE id < 10")
    assert cancelled(connection, COLUMNAR).sqlstate == "57014"
    with pytest.raises(herdpy.InternalError) as caught:
        connection.execute("SELECT 1")
    assert caught.value.sqlstate == "25P02"
    connection.execute("ROLLBACK")
    unharmed(connection)


def test_cancel_of_nothing_ends_nothing(connect: Callable[[], herdpy.Connection]) -> None:
    connection = connect()
    connection.cancel()
    assert connection.info.transaction_status == herdpy.TransactionStatus.IDLE
    unharmed(connection)


SERIES = (
    "SELECT sum(a.x * b.x % 7) FROM generate_series(1, 300000) AS a (x), generate_series(1, 300000) AS b (x)"
)


@pytest.mark.parametrize(
    ("engine", "statement"),
    [
        ("auto", COLUMNAR),
        ("auto", CHANGE),
        ("own", OWN),
        ("auto", ENDLESS),
        ("auto", SERIES),
    ],
)  # fmt: skip
def test_statement_timeout(engine: str, statement: str, connect: Callable[[], herdpy.Connection]) -> None:
    connection = connect()
    connection.execute(f"SET herdpy.engine = '{engine}'")
    connection.execute("SET statement_timeout = '100ms'")
    with pytest.raises(herdpy.OperationalError) as caught:
        connection.execute(statement)
    assert (caught.value.sqlstate, caught.value.message) == (
        "57014",
        "canceling statement due to statement timeout",
    )
    connection.execute("RESET statement_timeout")
    connection.execute("RESET herdpy.engine")
    unharmed(connection)


def test_statement_timeout_of_a_wait_for_a_lock(connect: Callable[[], herdpy.Connection]) -> None:
    holder, waiter = connect(), connect()
    waiter.execute("SET statement_timeout = '50ms'")
    holder.execute("BEGIN")
    holder.execute("UPDATE big SET n = n WHERE id = 1")
    with pytest.raises(herdpy.OperationalError) as caught:
        waiter.execute("UPDATE big SET n = 7 WHERE id = 1")
    assert caught.value.sqlstate == "57014"
    holder.execute("ROLLBACK")
    waiter.execute("SET statement_timeout = 0")
    unharmed(waiter)
