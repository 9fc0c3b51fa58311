"""Statements over many rows give up the loop: as a question to the columnar engine, or in slices."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import psycopg
import pytest

from herdpy.log.wait import Pause
from herdpy_server.sessions import time_slices
from tests.pgwire.fed import Fed, feeding
from tests.pgwire.servers import ThreadServer

ROWS = 6000


@pytest.fixture(autouse=True)
def no_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """No statement over some thousands of rows may run in one go, or go on without a pause."""
    monkeypatch.setattr(time_slices, "SHARE_S", 0.0)
    monkeypatch.setattr(time_slices, "SLICE_S", 0.0)
    monkeypatch.setattr(time_slices, "_LOOKS", 1)


@pytest.fixture
def client(server: ThreadServer) -> Iterator[psycopg.Connection]:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS many")
        connection.execute("CREATE TABLE many (k int PRIMARY KEY, v int CHECK (v < 1000000), g int)")
        connection.execute("CREATE INDEX many_g ON many (g)")
        with connection.cursor().copy("COPY many FROM STDIN") as copy:
            copy.write("".join(f"{k}\t0\t{k % 3}\n" for k in range(ROWS)))
        yield connection


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """One for each time that a statement gave up the loop."""
    taken: list[None] = []

    class Counted(Pause):
        def __init__(self) -> None:
            taken.append(None)
            super().__init__()

    monkeypatch.setattr(time_slices, "Pause", Counted)
    return taken


RANGE = "SELECT k, v FROM many WHERE k >= %s AND k < %s"


@pytest.mark.parametrize(
    ("condition", "order"),
    [
        ("k >= 1 AND k < 5999", ""),
        ("k >= 1 AND k < 5999 AND v = 0", "ORDER BY g, k DESC"),
        ("g = 1", "ORDER BY k"),
    ],
)
def test_a_long_range_is_answered_as_by_its_own_plan(
    client: psycopg.Connection, condition: str, order: str
) -> None:
    sql = f"SELECT k, v + 1, g FROM many WHERE {condition} {order}"
    assert "Columnar" not in client.execute(f"EXPLAIN {sql}").fetchall()[0][0]
    found = client.execute(sql).fetchall()
    client.execute("SET herdpy.engine = 'own'")
    own = client.execute(sql).fetchall()
    assert (found if order else sorted(found)) == own
    with client.transaction():
        client.execute("RESET herdpy.engine")
        client.execute("UPDATE many SET v = 5 WHERE k = 2000")
        mine = client.execute(sql).fetchall()
        assert len(mine) == len(own) - ("v = 0" in condition)


@pytest.mark.parametrize("prepare", [True, False])
@pytest.mark.parametrize("autocommit", [True, False])
def test_a_long_range_is_asked_of_the_columnar_engine(
    server: ThreadServer, client: psycopg.Connection, *, prepare: bool, autocommit: bool
) -> None:
    with (
        feeding(server, Fed(ROWS)) as fed,
        psycopg.connect(server.dsn, autocommit=autocommit) as connection,
    ):
        assert len(connection.execute(RANGE, (0, 100), prepare=prepare).fetchall()) == 100
        assert fed.opened == 0  # a short one is not
        assert connection.execute(RANGE, (0, ROWS), prepare=prepare).fetchall() == [
            (k, k) for k in range(ROWS)
        ]
        assert fed.opened == 1
        cursor = connection.cursor()
        with cursor.copy(f"COPY (SELECT k FROM many WHERE k >= 0 AND k < {ROWS}) TO STDOUT") as copy:
            assert len(list(copy.rows())) == ROWS
        assert fed.opened == 2


@pytest.mark.parametrize("block", [True, False])
@pytest.mark.parametrize(
    ("sql", "left"),
    [
        ("UPDATE many SET v = v + 7 WHERE k < 5000", (ROWS, 35_000)),
        ("UPDATE many SET v = v + 7 WHERE g = 1", (ROWS, 14_000)),
        ("UPDATE many SET k = k + 10000, g = g + 1", (ROWS, 0)),
        ("DELETE FROM many WHERE k < 5000", (1000, 0)),
        ("DELETE FROM many", (0, None)),
    ],
)
def test_a_long_change_is_made_in_slices(
    client: psycopg.Connection, pauses: list[None], sql: str, left: tuple[int, int | None], *, block: bool
) -> None:
    if block:
        with client.transaction():
            changed = client.execute(sql).rowcount
    else:
        changed = client.execute(sql).rowcount
    assert len(pauses) > changed // 64
    assert client.execute("SELECT count(*), sum(v) FROM many").fetchone() == left
    assert client.execute("SELECT count(*) FROM many WHERE g >= 0").fetchone() == (left[0],)
    returned = client.execute("UPDATE many SET v = v RETURNING k").fetchall()
    assert len(returned) == left[0]


@pytest.mark.parametrize(
    ("sql", "sqlstate"),
    [
        ("UPDATE many SET v = 10 / (5999 - k)", "22012"),
        ("UPDATE many SET v = 170 * k", "23514"),
        ("UPDATE many SET k = 6000 - k / 6000", "23505"),
        ("DELETE FROM many WHERE 10 / (5999 - k) > -1", "22012"),
    ],
)
def test_a_long_change_that_fails_leaves_nothing(
    server: ThreadServer, client: psycopg.Connection, pauses: list[None], sql: str, sqlstate: str
) -> None:
    before = client.execute("SELECT k, v, g FROM many ORDER BY k").fetchall()
    with pytest.raises(psycopg.Error) as refused:
        client.execute(sql)
    assert refused.value.sqlstate == sqlstate
    assert pauses
    assert client.execute("SELECT k, v, g FROM many ORDER BY k").fetchall() == before
    server.wait_for(lambda: len(server.database.tablespace.locks) == 0)


def test_a_long_change_can_be_cancelled(
    server: ThreadServer, client: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses = 0

    class Cancelling(Pause):
        """In the middle of the statement its session is cancelled."""

        def __init__(self) -> None:
            nonlocal pauses
            pauses += 1
            if pauses == 100:
                for session in server.database.sessions:
                    session.cancel()
            super().__init__()

    monkeypatch.setattr(time_slices, "Pause", Cancelling)
    with pytest.raises(psycopg.errors.QueryCanceled):
        client.execute("UPDATE many SET v = v + 1")
    monkeypatch.undo()
    assert client.execute("SELECT count(*) FROM many WHERE v = 0").fetchone() == (ROWS,)
    server.wait_for(lambda: len(server.database.tablespace.locks) == 0)


def test_others_change_rows_between_the_slices_and_nothing_is_lost(
    server: ThreadServer, client: psycopg.Connection
) -> None:
    added, over = [], threading.Event()

    def others() -> None:
        with psycopg.connect(server.dsn, autocommit=True) as other:
            k = 0
            while not over.is_set():
                k = (k + 1237) % ROWS
                other.execute("UPDATE many SET v = v + 1 WHERE k = %s", (k,))
                added.append(k)

    thread = threading.Thread(target=others)
    thread.start()
    try:
        for _ in range(5):
            assert client.execute("UPDATE many SET v = v + 100").rowcount == ROWS
    finally:
        over.set()
        thread.join()
    assert added
    expected = [500] * ROWS
    for k in added:
        expected[k] += 1
    assert [v for (v,) in client.execute("SELECT v FROM many ORDER BY k")] == expected
