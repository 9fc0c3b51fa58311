"""Large answers: made no faster than they are read, in parts where parts are wanted, and always let go of."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from tests.pgwire.fed import BATCH_ROWS, Fed, feeding
from tests.pgwire.servers import ThreadServer, thread_server
from tests.pgwire.wire import (
    SYNC,
    Reply,
    Wire,
    bind,
    cancel_request,
    close,
    execute,
    parse,
    query,
)

NUMBERS = "SELECT count(*) AS n, count(*) AS m FROM pairs"
MANY = 5_000_000
WRITE_AHEAD_BYTES = 1 << 17
SOCKET_BYTES = 8 << 20
"""More than the kernel keeps for both ends of a connection."""


@pytest.fixture(scope="module")
def streaming(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadServer]:
    path: Path = tmp_path_factory.mktemp("streams") / "data"
    with thread_server(path, write_ahead_bytes=WRITE_AHEAD_BYTES) as found:
        with Wire(found.address) as wire:
            wire.start()
            wire.ask(query("CREATE TABLE pairs (a int PRIMARY KEY, b int)"))
        yield found
        found.wait_for(found.is_clean)


def numbers(replies: list[Reply]) -> list[int]:
    """The first column of DataRow messages."""
    found = []
    for one in replies:
        if one.kind == "D":
            (length,) = struct.unpack_from(">i", one.body, 2)
            found.append(int(one.body[6 : 6 + length]))
    return found


def is_stuck(server: ThreadServer) -> Callable[[], bool]:
    """Whether the connections of a server wait until their clients read."""
    return lambda: all(
        conversation.connection.is_full and conversation.blocked
        for conversation in server.server.admission.conversations
    )


ASKS = {
    "simple": [query(NUMBERS)],
    "simple of several": [query(f"SELECT 1; {NUMBERS}")],
    "extended": [parse(NUMBERS), bind(), execute(), SYNC],
    "binary": [parse(NUMBERS), bind(results=[1]), execute(), SYNC],
    "portal": [parse(NUMBERS), bind(), execute(rows=MANY - 1), SYNC],
    "cursor": [query(f"BEGIN; DECLARE c NO SCROLL CURSOR FOR {NUMBERS}; FETCH ALL FROM c")],
    "default cursor": [query(f"BEGIN; DECLARE c CURSOR FOR {NUMBERS}; FETCH ALL FROM c")],
    "prepared": [query(f"PREPARE p AS {NUMBERS}; EXECUTE p")],
    "copy text": [query(f"COPY ({NUMBERS}) TO STDOUT")],
    "copy csv": [query(f"COPY ({NUMBERS}) TO STDOUT (FORMAT csv)")],
    "copy binary": [query(f"COPY ({NUMBERS}) TO STDOUT (FORMAT binary)")],
    "copy arrow": [query(f"COPY ({NUMBERS}) TO STDOUT (FORMAT arrow)")],
}


@pytest.mark.parametrize("asked", ASKS)
def test_a_client_that_does_not_read_stops_what_makes_rows(streaming: ThreadServer, asked: str) -> None:
    with feeding(streaming, Fed(MANY)) as fed:
        with Wire(streaming.address) as wire, Wire(streaming.address) as other:
            wire.start()
            wire.send(*ASKS[asked])
            streaming.wait_for(lambda: fed.made > 0 and is_stuck(streaming)())
            made = fed.made
            other.start()
            assert other.ask(query("SELECT 1"))[1].kind == "D"  # others are served
            assert fed.made == made
            assert made * BATCH_ROWS * 8 < SOCKET_BYTES  # 8 bytes are less than any format has for a row
            assert made < MANY // BATCH_ROWS
        streaming.wait_for(lambda: fed.closed == fed.opened == 1)  # the client went away


@pytest.mark.parametrize("asked", [name for name in ASKS if "copy" not in name and name != "binary"])
def test_all_rows_come_in_order(streaming: ThreadServer, asked: str) -> None:
    with feeding(streaming, Fed(25 * BATCH_ROWS + 3)) as fed, Wire(streaming.address) as wire:
        wire.start()
        replies = wire.ask(*ASKS[asked])
        found = numbers(replies)
        if asked == "simple of several":
            assert found.pop(0) == 1
        assert found == list(range(fed.rows))
        assert replies[-2].kind == "C"
        assert replies[-2].body.split()[-1] == b"%d\0" % fed.rows


def test_rows_come_before_the_last_is_made(streaming: ThreadServer) -> None:
    with feeding(streaming, Fed(MANY)) as fed, Wire(streaming.address) as wire:
        wire.start()
        wire.send(query(NUMBERS))
        assert [one.kind for one in (wire.reply(), wire.reply()) if one is not None] == ["T", "D"]
        assert fed.made < MANY // BATCH_ROWS


def test_a_portal_makes_what_is_fetched(streaming: ThreadServer) -> None:
    with feeding(streaming, Fed(MANY)) as fed, Wire(streaming.address) as wire:
        wire.start()
        wire.ask(query("BEGIN"))
        wire.ask(parse(NUMBERS), bind(portal="p"), SYNC)
        for start in range(0, 3 * BATCH_ROWS, 250):
            replies = wire.ask(execute("p", 250), SYNC)
            assert numbers(replies) == list(range(start, start + 250))
            assert replies[-2].kind == "s"
            assert fed.made == start // BATCH_ROWS + 1
        portal = streaming.look(
            lambda: next(iter(streaming.server.admission.conversations)).session.portals["p"]
        )
        assert portal.buffer is not None
        assert portal.buffer.first >= 2 * BATCH_ROWS  # what was passed is gone


def test_a_portal_ends_as_postgresql_s(streaming: ThreadServer) -> None:
    with feeding(streaming, Fed(BATCH_ROWS)), Wire(streaming.address) as wire:
        wire.start()
        half = BATCH_ROWS // 2
        replies = wire.ask(
            parse(NUMBERS), bind(), execute(rows=half), execute(rows=half), execute(rows=5), SYNC
        )
        assert [(one.kind, one.body) for one in replies if one.kind in "sC"] == [
            ("s", b""),
            ("s", b""),
            ("C", b"SELECT 0\0"),
        ]


@pytest.mark.parametrize(
    "ends",
    [
        [close("P", "p"), SYNC],
        [query("CLOSE ALL")],
        [query("ROLLBACK")],
        [query("COMMIT")],
        [query("SELECT nothing"), query("ROLLBACK")],
        [query("ROLLBACK TO s")],
    ],
    ids=["close", "close all", "rollback", "commit", "error", "savepoint"],
)
def test_a_portal_that_was_half_read_is_let_go_of(streaming: ThreadServer, ends: list[bytes]) -> None:
    with feeding(streaming, Fed(MANY)) as fed, Wire(streaming.address) as wire:
        wire.start()
        wire.ask(query("BEGIN; SAVEPOINT s"))
        wire.ask(parse(NUMBERS), bind(portal="p"), execute("p", 10), SYNC)
        assert (fed.opened, fed.closed) == (1, 0)
        for one in ends:
            wire.send(one)
        wire.replies()
        streaming.wait_for(lambda: fed.closed >= 1)


def test_a_portal_ends_with_the_pipeline(streaming: ThreadServer) -> None:
    with feeding(streaming, Fed(MANY)) as fed, Wire(streaming.address) as wire:
        wire.start()
        wire.ask(parse(NUMBERS), bind(), execute(rows=10), SYNC)
        assert (fed.opened, fed.closed) == (1, 1)
        wire.ask(parse(NUMBERS), bind(), execute(rows=10), bind(), execute(rows=10), SYNC)
        assert (fed.opened, fed.closed) == (3, 3)


@pytest.mark.parametrize("asked", ["simple", "extended", "portal", "cursor", "copy csv", "copy arrow"])
def test_an_error_comes_after_the_rows_before_it(streaming: ThreadServer, asked: str) -> None:
    with feeding(streaming, Fed(MANY, fails_at=20)) as fed, Wire(streaming.address) as wire:
        wire.start()
        replies = wire.ask(*ASKS[asked])
        assert "".join(dict.fromkeys(one.kind for one in replies if one.kind in "dDEZ"))[1:] == "EZ"
        assert replies[-2].fields["C"] == "22012"
        assert fed.made == 20
        if "copy" not in asked:
            assert numbers(replies) == list(range(20 * BATCH_ROWS))
        wire.ask(query("ROLLBACK"))
        assert wire.ask(query("SELECT 1"))[-1].body == b"I"


@pytest.mark.parametrize("asked", ["simple", "extended", "portal", "copy text"])
def test_a_large_answer_is_cancelled(streaming: ThreadServer, asked: str) -> None:
    with feeding(streaming, Fed(MANY)) as fed, Wire(streaming.address) as wire:
        started = wire.start()
        key = next(one.body for one in started if one.kind == "K")
        wire.send(*ASKS[asked])
        streaming.wait_for(lambda: fed.made > 0 and is_stuck(streaming)())
        with Wire(streaming.address) as canceller:
            canceller.send(cancel_request(*struct.unpack(">II", key)))
            assert canceller.rest() == []
        replies = wire.replies()
        assert replies[-2].fields["C"] == "57014"
        assert replies[-1].body == b"I"
        assert fed.made < MANY // BATCH_ROWS
        assert wire.ask(query("SELECT 1"))[1].kind == "D"


def test_a_transaction_fails_with_its_answer(streaming: ThreadServer) -> None:
    with feeding(streaming, Fed(MANY, fails_at=1)), Wire(streaming.address) as wire:
        wire.start()
        wire.ask(query("BEGIN"))
        assert wire.ask(query(NUMBERS))[-1].body == b"E"
        assert wire.ask(query("COMMIT"))[0].body == b"ROLLBACK\0"
        replies = wire.ask(query(f"INSERT INTO pairs VALUES (1, 1); {NUMBERS}"))
        assert [one.kind for one in replies[-2:]] == ["E", "Z"]
        assert replies[-1].body == b"I"
        assert numbers(wire.ask(query("SELECT a FROM pairs WHERE a = 1"))) == []  # it was undone


def test_a_statement_of_several_is_committed_with_its_rows(streaming: ThreadServer) -> None:
    with feeding(streaming, Fed(10)), Wire(streaming.address) as wire:
        wire.start()
        replies = wire.ask(query(f"INSERT INTO pairs VALUES (2, 2); {NUMBERS}"))
        assert replies[-1].body == b"I"
        assert numbers(wire.ask(query("SELECT a FROM pairs WHERE a = 2"))) == [2]


def test_a_session_keeps_the_engine_busy_once(streaming: ThreadServer) -> None:
    with feeding(streaming, Fed(20 * BATCH_ROWS)) as fed, Wire(streaming.address) as wire:
        wire.start()
        wire.ask(query("BEGIN"))
        for name in "pqr":
            assert numbers(wire.ask(parse(NUMBERS), bind(portal=name), execute(name, 10), SYNC)) == [
                *range(10)
            ]
            assert fed.opened == fed.closed + 1
        wire.ask(query(NUMBERS))
        assert (fed.opened, fed.closed) == (4, 4)
        for name in "rpq":
            assert numbers(wire.ask(execute(name), SYNC)) == list(range(10, fed.rows))


def test_what_a_portal_fails_with_is_its_own(streaming: ThreadServer) -> None:
    with feeding(streaming, Fed(MANY, fails_at=5)), Wire(streaming.address) as wire:
        wire.start()
        wire.ask(query("BEGIN"))
        wire.ask(parse(NUMBERS), bind(portal="p"), execute("p", 10), SYNC)
        assert wire.ask(parse(NUMBERS), bind(portal="q"), execute("q", 10), SYNC)[-1].body == b"T"
        replies = wire.ask(execute("p"), SYNC)
        assert numbers(replies) == list(range(10, 5 * BATCH_ROWS))
        assert replies[-2].fields["C"] == "22012"


def test_too_many_portals_with_large_answers_are_refused(streaming: ThreadServer) -> None:
    with feeding(streaming, Fed(2 * BATCH_ROWS)) as fed, Wire(streaming.address) as wire:
        wire.start()
        wire.ask(query("BEGIN"))
        for at in range(64):
            wire.ask(parse(NUMBERS), bind(portal=f"p{at}"), execute(f"p{at}", 1), SYNC)
        assert (fed.opened, fed.closed) == (64, 63)
        replies = wire.ask(parse(NUMBERS), bind(portal="more"), execute("more", 1), SYNC)
        assert replies[-2].fields["C"] == "53400"


COLUMNS = (
    "id, id % 7 = 0 AS flag, CASE WHEN id % 5 > 0 THEN 'word ' || id END AS word, id / 4.0 AS part, "
    "DATE '2020-01-01' + id AS day, ARRAY[id, NULL] AS both, TIMESTAMPTZ '2020-01-01 UTC' AS moment"
)


@pytest.mark.parametrize("binary", [False, True])
def test_fetched_rows_are_those_of_the_whole_answer(server: ThreadServer, binary: bool) -> None:
    host, port = server.address
    asked = f"SELECT {COLUMNS} FROM generate_series(1, 3000) AS s (id) WHERE id % 2 = 0"
    with psycopg.connect(host=host, port=port, user="herdpy", dbname="default") as connection:
        connection.execute("SET TIME ZONE 'Asia/Tokyo'")
        whole = connection.cursor(binary=binary).execute(f"{asked} ORDER BY id").fetchall()
        assert len(whole) == 1500
        for size in (10, 65, 3000):  # few rows are made one by one, more by columns
            with connection.cursor("c", binary=binary) as cursor:
                cursor.itersize = size
                assert list(cursor.execute(f"{asked} ORDER BY id")) == whole
