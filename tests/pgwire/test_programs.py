"""Functions on a server: a program without an end leaves turns to others, and is cancelled."""

from __future__ import annotations

import threading

import psycopg
import pytest

from tests.pgwire.servers import ThreadServer, waits
from tests.pgwire.wire import Wire, cancel_request, key_of, query


def dsn(server: ThreadServer) -> str:
    host, port = server.address
    return f"host={host} port={port} user=herdpy dbname=postgres"


@pytest.mark.parametrize(
    "text",
    [
        "DO $$ BEGIN LOOP NULL; END LOOP; END $$",
        "DO $$ DECLARE n int := 0; BEGIN LOOP n := n + 1; PERFORM n FROM generate_series(1, 2);"
        " END LOOP; END $$",
    ],
    ids=["statements", "queries"],
)
def test_a_program_without_an_end_leaves_turns_and_is_cancelled(server: ThreadServer, text: str) -> None:
    with Wire(server.address) as wire, Wire(server.address) as other, Wire(server.address) as canceller:
        key = key_of(wire.start())
        other.start()
        wire.send(query(text))
        for at in range(20):
            assert other.ask(query(f"SELECT {at}"))[1].body.endswith(b"%d" % at)
        canceller.send(cancel_request(*key))
        replies = [one.meaning() for one in wire.replies()]
        assert replies[-2:] == [("E", "ERROR", "57014"), ("Z", b"I")]
        assert wire.ask(query("SELECT 1"))[-1].meaning() == ("Z", b"I")


def test_statement_timeout_ends_a_program(server: ThreadServer) -> None:
    with Wire(server.address) as wire:
        wire.start()
        wire.ask(query("SET statement_timeout = '50ms'"))
        replies = [one.meaning() for one in wire.ask(query("DO $$ BEGIN LOOP NULL; END LOOP; END $$"))]
        assert replies[-2:] == [("E", "ERROR", "57014"), ("Z", b"I")]


def test_a_function_waits_for_a_lock_and_goes_on(server: ThreadServer) -> None:
    with (
        psycopg.connect(dsn(server), autocommit=True) as one,
        psycopg.connect(dsn(server), autocommit=True) as two,
    ):
        one.execute("CREATE TABLE counted (id int PRIMARY KEY, n int)")
        one.execute("INSERT INTO counted VALUES (1, 0), (2, 0)")
        one.execute(
            "CREATE FUNCTION add_both() RETURNS int LANGUAGE plpgsql AS $$ BEGIN"
            " UPDATE counted SET n = n + 1 WHERE id = 2; UPDATE counted SET n = n + 1 WHERE id = 1;"
            " RETURN (SELECT sum(n) FROM counted); END $$"
        )
        one.execute("BEGIN")
        one.execute("UPDATE counted SET n = 10 WHERE id = 1")
        given: list[object] = []
        thread = threading.Thread(
            target=lambda: given.append(two.execute("SELECT add_both() AS sum").fetchone())
        )
        thread.start()
        waits(server)
        one.execute("COMMIT")
        thread.join(30)
        assert given == [(12,)]
        assert one.execute("SELECT id, n FROM counted ORDER BY id").fetchall() == [(1, 11), (2, 1)]


def test_a_prepared_call_follows_its_function(server: ThreadServer) -> None:
    with psycopg.connect(dsn(server), autocommit=True, prepare_threshold=0) as connection:
        made = "CREATE OR REPLACE FUNCTION answer(a int) RETURNS int LANGUAGE sql AS 'SELECT a + {}'"
        for added in (1, 2):
            connection.execute(made.format(added))
            for _ in range(3):
                found = connection.execute("SELECT answer(%s::int), answer(0)", (40,)).fetchone()
                assert found == (40 + added, added)
