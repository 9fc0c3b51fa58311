"""Transactions of many changes give up the loop: while they write, before their commit, and after it."""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

import psycopg
import pytest

from herdpy.log.entry import LoggedTransaction
from herdpy.log.wait import Pause
from herdpy_server.sessions import time_slices
from tests.pgwire.servers import ThreadServer

ROWS = 6000


@pytest.fixture
def client(server: ThreadServer) -> Iterator[psycopg.Connection]:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS big, copy")
        connection.execute("CREATE TABLE big (k int PRIMARY KEY, v int CHECK (v < 1000000), g int)")
        connection.execute("CREATE TABLE copy (k int PRIMARY KEY, v int CHECK (v < 1000000), g int)")
        with connection.cursor().copy("COPY big FROM STDIN") as copy:
            copy.write("".join(f"{k}\t{k}\t{k % 3}\n" for k in range(ROWS)))
        yield connection


@pytest.fixture
def other(server: ThreadServer) -> Iterator[psycopg.Connection]:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        yield connection


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The functions in which statements gave up the loop, which they do at every step."""
    taken: list[str] = []

    class Counted(Pause):
        def __init__(self) -> None:
            taken.append(sys._getframe(1).f_code.co_name)
            super().__init__()

    monkeypatch.setattr(time_slices, "SLICE_S", 0.0)
    monkeypatch.setattr(time_slices, "Pause", Counted)
    monkeypatch.setattr(time_slices, "SHARE_S", 0.0)
    monkeypatch.setattr(time_slices, "_LOOKS", 1)
    return taken


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Of each transaction that goes into the log: its records, and those encoded before."""
    found: list[tuple[int, int]] = []
    encode = LoggedTransaction._encode

    def watched(self: LoggedTransaction) -> bytes:
        found.append((len(self.records), self.encoded_count))
        return encode(self)

    monkeypatch.setattr(LoggedTransaction, "_encode", watched)
    return found


@pytest.mark.parametrize("block", [True, False])
@pytest.mark.parametrize(
    ("sql", "rows_a_record"),
    [
        ("UPDATE big SET v = v + 1", 1),
        ("DELETE FROM big WHERE k >= 10", 1),
        # An Arrow batch each, by the columnar engine and by a plan of our own.
        ("INSERT INTO copy SELECT k, v + 1, g FROM big", 2048),
        ("INSERT INTO copy SELECT k, v, g FROM big WHERE k >= 10 AND k < 5990", 2048),
    ],
)
def test_a_commit_only_joins_what_was_encoded(
    client: psycopg.Connection,
    pauses: list[str],
    encoded: list[tuple[int, int]],
    sql: str,
    rows_a_record: int,
    *,
    block: bool,
) -> None:
    if block:
        with client.transaction():
            changed = client.execute(sql).rowcount
    else:
        changed = client.execute(sql).rowcount
    records = math.ceil(changed / rows_a_record)
    assert (records, records) in encoded
    assert pauses.count("_in_slices") > records // 200
    assert pauses.count("_in_steps") > records // 300


def test_what_was_encoded_is_what_is_recovered(server: ThreadServer, client: psycopg.Connection) -> None:
    with client.transaction():
        client.execute("UPDATE big SET v = v + 1")
        with suppress(psycopg.errors.CheckViolation), client.transaction():
            client.execute("UPDATE big SET v = v * 1000")
        client.execute("DELETE FROM big WHERE g = 1")
    wanted = client.execute("SELECT count(*), sum(v) FROM big").fetchone()
    assert wanted == (4000, sum(k + 1 for k in range(ROWS) if k % 3 != 1))


def test_a_long_statement_that_fails_is_taken_back_in_steps(
    client: psycopg.Connection, pauses: list[str]
) -> None:
    with client.transaction():
        with pytest.raises(psycopg.errors.UniqueViolation), client.transaction():
            client.execute("UPDATE big SET v = v + 1, k = CASE WHEN k = 5999 THEN 0 ELSE k END")
        assert client.execute("SELECT sum(v), max(k) FROM big").fetchone() == (17_997_000, 5999)
        client.execute("UPDATE big SET v = 1")
    assert client.execute("SELECT sum(v), max(k) FROM big").fetchone() == (6000, 5999)


@pytest.mark.parametrize(
    ("sql", "sqlstate"),
    [
        ("INSERT INTO copy SELECT k - k / 5999, v, g FROM big", "23505"),
        ("INSERT INTO copy SELECT k, v * 170, g FROM big", "23514"),
        ("CREATE UNIQUE INDEX big_g ON big (g)", "23505"),
    ],
)
def test_one_that_fails_leaves_nothing(
    client: psycopg.Connection, pauses: list[str], sql: str, sqlstate: str
) -> None:
    with pytest.raises(psycopg.Error) as caught:
        client.execute(sql)
    assert caught.value.sqlstate == sqlstate
    assert client.execute("SELECT count(*) FROM copy").fetchone() == (0,)
    client.execute("CREATE INDEX big_g ON big (g)")
    assert client.execute("UPDATE copy SET v = 1").rowcount == 0


def test_rows_that_were_inserted_come_back(client: psycopg.Connection, pauses: list[str]) -> None:
    found = client.execute("INSERT INTO copy SELECT k, v, g FROM big RETURNING k, g").fetchall()
    assert sorted(found) == [(k, k % 3) for k in range(ROWS)]
    assert client.execute("INSERT INTO big SELECT k + 10000, v, g FROM big").rowcount == ROWS


def test_an_index_is_filled_while_others_have_their_turn(
    server: ThreadServer,
    client: psycopg.Connection,
    other: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other.execute("INSERT INTO copy VALUES (1, 1, 1)")
    inside, go = threading.Event(), threading.Event()
    holds: list[Pause] = []

    class Held(Pause):
        def add_done_callback(self, callback, *, context=None):  # type: ignore[no-untyped-def]
            if holds:
                super().add_done_callback(callback, context=context)
                return
            holds.append(self)
            inside.set()

            def go_on() -> None:
                go.wait(60)
                server.loop.call_soon_threadsafe(
                    partial(Pause.add_done_callback, self, callback, context=context)
                )

            threading.Thread(target=go_on).start()

    monkeypatch.setattr(time_slices, "SLICE_S", 0.0)
    monkeypatch.setattr(time_slices, "Pause", Held)
    creating = threading.Thread(target=client.execute, args=("CREATE INDEX big_v ON big (v)",))
    creating.start()
    try:
        assert inside.wait(30)
        assert other.execute("SELECT v FROM big WHERE k = 7").fetchone() == (7,)
        assert other.execute("UPDATE copy SET v = 2 WHERE k = 1").rowcount == 1
        assert other.execute("UPDATE big SET v = -1 WHERE k = 7").rowcount == 1
        other.execute("CREATE TABLE late (k int PRIMARY KEY)")
    finally:
        go.set()
        creating.join()
    assert other.execute("SELECT k FROM big WHERE v = -1").fetchall() == [(7,)]
    assert other.execute("SELECT k FROM big WHERE v = 8").fetchall() == [(8,)]
