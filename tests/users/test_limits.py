"""Beyond each limit there is an error of its own, and everybody else goes on. docs/users.md lists them."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator

import psycopg
import pytest

from herdpy_server.roles import role
from herdpy_server.sessions.limits import SessionLimits
from tests.pgwire.servers import ThreadServer, thread_server
from tests.pgwire.test_authentication import Passwords
from tests.pgwire.test_clients_that_misbehave import served_throughout
from tests.pgwire.wire import SYNC, Wire, bind, message, packet, parse, query, start_up, text

LONGEST = 100_000
STARTING = 5


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadServer]:
    """A server with small limits: herdpy is trusted, ann has a password."""
    found = Passwords(ann="right")
    found.method = lambda user, address: "trust" if user == "herdpy" else "scram-sha-256"  # type: ignore[method-assign]
    path = tmp_path_factory.mktemp("limits") / "data"
    with thread_server(path, found, max_message_bytes=LONGEST, max_starting=STARTING) as server:
        server.database.limits = SessionLimits(
            statement_bytes=1000, statements=2, portals=2, custom_settings=2
        )
        yield server
        server.wait_for(server.is_clean)


@pytest.fixture
def others(small: ThreadServer) -> Iterator[ThreadServer]:
    """The server, while somebody else works on it and gets every answer."""
    with served_throughout(small.dsn):
        yield small


def test_a_start_up_packet_has_a_longest_length(others: ThreadServer) -> None:
    fits = start_up(user="herdpy", application_name="")
    fits = start_up(user="herdpy", application_name="x" * (10_004 - len(fits)))
    assert len(fits) == 10_004
    with Wire(others.address) as wire:
        wire.send(fits)
        assert wire.replies()[-1].kind == "Z"
    with Wire(others.address) as wire:
        wire.send(packet(fits[4:] + b"\0")[:8])  # what it says of itself is enough
        assert wire.rest() == []


def test_an_answer_to_the_authentication_has_a_longest_length(others: ThreadServer) -> None:
    for size in (4096, 4097):
        first = b"n,,n=,r="
        body = text("SCRAM-SHA-256") + struct.pack(">i", size - 18)
        body += first + b"x" * (size - len(body) - len(first))
        assert len(body) == size
        with Wire(others.address) as wire:
            wire.send(start_up(user="ann"), message("p", body))
            if size == 4096:
                replies = [wire.reply(), wire.reply()]
                assert [one.kind for one in replies if one is not None] == ["R", "R"]
            else:
                assert wire.rest()[-1].meaning() == ("E", "FATAL", "08P01")


def test_of_those_who_do_not_say_who_they_are_the_oldest_goes(others: ThreadServer) -> None:
    with contextlib.ExitStack() as opened:
        wires = []
        for count in range(1, STARTING + 1):
            wires.append(opened.enter_context(Wire(others.address)))
            others.wait_for(lambda count=count: others.server.connections == count + 1)  # type: ignore[misc]
        opened.enter_context(Wire(others.address))
        assert [one.meaning() for one in wires[0].rest()] == [("E", "FATAL", "53300")]
        wires[1].start()  # the others may still say it
        wires[1].close()


def test_a_message_has_a_longest_length(others: ThreadServer) -> None:
    with Wire(others.address) as wire:
        wire.start()
        wire.send(b"Q" + struct.pack(">I", LONGEST + 1))
        assert [one.meaning() for one in wire.rest()] == [("E", "FATAL", "54000")]


def state(wire: Wire, *messages: bytes) -> str:
    """The SQLSTATE of what must fail; the session must go on."""
    found = [one.fields for one in wire.ask(*messages) if one.kind == "E"]
    assert [one["V"] for one in found] == ["ERROR"]
    assert [one.kind for one in wire.ask(query("SELECT 1"))][-2:] == ["C", "Z"]
    return found[0]["C"]


def test_what_one_session_may_keep(others: ThreadServer) -> None:
    with Wire(others.address) as wire:
        wire.start()
        assert state(wire, query(f"SELECT '{'x' * 1000}'")) == "54000"
        assert state(wire, parse(f"SELECT '{'x' * 1000}'"), SYNC) == "54000"
        for name in ("one", "two"):
            wire.ask(parse("SELECT 1", name), SYNC)
        assert state(wire, parse("SELECT 1", "three"), SYNC) == "53400"
        assert state(wire, query("PREPARE three AS SELECT 1")) == "53400"
        wire.ask(query("BEGIN"))
        wire.ask(*(bind(statement="one", portal=name) for name in "ab"), SYNC)
        refused = wire.ask(bind(statement="one", portal="c"), SYNC)
        assert [one.fields["C"] for one in refused if one.kind == "E"] == ["53400"]
        wire.ask(query("ROLLBACK"))
        wire.ask(query("BEGIN; DECLARE a CURSOR FOR SELECT 1; DECLARE b CURSOR FOR SELECT 1"))
        refused = wire.ask(query("DECLARE c CURSOR FOR SELECT 1"))
        assert [one.fields["C"] for one in refused if one.kind == "E"] == ["53400"]
        wire.ask(query("ROLLBACK"))
        for name in ("a", "b"):
            wire.ask(query(f"SET own.{name} = 1"))
        assert state(wire, query("SET own.c = 1")) == "53400"
        assert state(wire, query(f"SET own.a = '{'x' * 66_000}'")) == "54000"  # a text, before all


def test_names_and_numbers_of_parameters(others: ThreadServer) -> None:
    with Wire(others.address) as wire:
        wire.start()
        assert state(wire, query(f"CREATE TABLE {'x' * 64} (a int)")) == "42622"
        assert state(wire, query(f"CREATE ROLE {'x' * 64}")) == "42622"
        assert state(wire, parse("SELECT $65536"), SYNC) == "42P02"


def test_there_is_a_limit_to_roles(others: ThreadServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(role, "MAX_ROLES", 1)
    with psycopg.connect(others.dsn, autocommit=True) as connection:
        connection.execute("CREATE ROLE one")
        with pytest.raises(psycopg.errors.ConfigurationLimitExceeded, match="at most 1 roles"):
            connection.execute("CREATE ROLE two")
        connection.execute("DROP ROLE one")
