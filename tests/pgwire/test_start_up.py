"""The beginning of a connection: packets that PostgreSQL takes or refuses, settings, and what is reported."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from tests.pgwire.servers import ThreadServer
from tests.pgwire.wire import GSS_REQUEST, SSL_REQUEST, TERMINATE, Wire, message, packet, query, start_up

PROTOCOL = 3 << 16

# The packets of a connection, each with the number of single bytes that answer it.
OPENINGS: dict[str, list[tuple[bytes, int]]] = {
    "ordinary": [(start_up(user="herdpy", database="postgres"), 0)],
    "tls, then in plain": [(SSL_REQUEST, 1), (start_up(user="herdpy", database="postgres"), 0)],
    "gss, tls, then in plain": [
        (GSS_REQUEST, 1),
        (SSL_REQUEST, 1),
        (start_up(user="herdpy", database="postgres"), 0),
    ],
    "tls, gss, then in plain": [
        (SSL_REQUEST, 1),
        (GSS_REQUEST, 1),
        (start_up(user="herdpy", database="postgres"), 0),
    ],
    "tls twice": [(SSL_REQUEST, 1), (SSL_REQUEST, 0)],
    "version 4": [(start_up(4 << 16, user="herdpy"), 0)],
    "version 3.1": [(start_up(PROTOCOL + 1, user="herdpy", database="postgres"), 0)],
    "an extension": [(start_up(PROTOCOL, user="herdpy", database="postgres", **{"_pq_.nothing": "1"}), 0)],
    "no user": [(start_up(database="postgres"), 0)],
    "empty user": [(start_up(user="", database="postgres"), 0)],
    "unknown setting": [(start_up(user="herdpy", database="postgres", no_such_setting="1"), 0)],
    "bad value of a setting": [(start_up(user="herdpy", database="postgres", statement_timeout="x"), 0)],
    "options": [(start_up(user="herdpy", database="postgres", options="-c statement_timeout=5s"), 0)],
    "bad options": [(start_up(user="herdpy", database="postgres", options="-c nothing"), 0)],
    "no terminator": [(packet(struct.pack(">I", PROTOCOL) + b"user\0herdpy\0"), 0)],
    "rest after terminator": [(packet(struct.pack(">I", PROTOCOL) + b"user\0herdpy\0\0x"), 0)],
    "too short": [(struct.pack(">I", 4), 0)],
    "length of zero": [(struct.pack(">II", 0, PROTOCOL), 0)],
    "too long": [(struct.pack(">II", 10_005, PROTOCOL), 0)],
    "cancel of nobody": [(packet(struct.pack(">III", 80877102, 1, 1)), 0)],
    "cancel too short": [(packet(struct.pack(">II", 80877102, 1)), 0)],
    "http": [(b"GET / HTTP/1.1\r\n\r\n", 0)],
}


def open_up(address: Any, steps: list[tuple[bytes, int]]) -> list[Any]:
    found: list[Any] = []
    with Wire(address) as wire:
        for data, count in steps:
            wire.send(data)
            found += [wire.byte() for _ in range(count)]
        last = wire.replies()
        if last and last[-1].kind == "Z":
            wire.send(TERMINATE)
            last += wire.rest()
        # ParameterStatus is looked at below; keys are any.
        return found + [one.meaning() for one in last if one.kind not in "SK"]


@pytest.mark.parametrize("name", OPENINGS)
def test_an_opening_is_answered_as_postgres_does(
    name: str, server: ThreadServer, postgres_address: str
) -> None:
    assert open_up(server.address, OPENINGS[name]) == open_up(postgres_address, OPENINGS[name])


def test_an_old_version_is_refused(server: ThreadServer) -> None:
    assert open_up(server.address, [(start_up(2 << 16, user="x"), 0)]) == [("E", "FATAL", "0A000")]


def reported(replies: list[Any]) -> dict[str, str]:
    pairs = [one.body.split(b"\0")[:2] for one in replies if one.kind == "S"]
    return {name.decode(): value.decode() for name, value in pairs}


def test_the_settings_that_postgres_reports_are_reported(server: ThreadServer, postgres_address: str) -> None:
    with Wire(server.address) as ours, Wire(postgres_address) as theirs:
        found, expected = reported(ours.start()), reported(theirs.start(database="postgres"))
        for each in (found, expected):
            assert each.pop("server_version").startswith("15.")
        assert found == expected


def test_settings_of_the_packet_hold_and_are_reported(server: ThreadServer) -> None:
    with Wire(server.address) as wire:
        replies = wire.start(application_name="tests", TimeZone="Europe/Berlin", client_encoding="'utf-8'")
        found = reported(replies)
        assert found["application_name"] == "tests"
        assert found["TimeZone"] == "Europe/Berlin"
        assert found["client_encoding"] == "UTF8"
        shown = wire.ask(query("SHOW timezone"))
        assert shown[1].body.endswith(b"Europe/Berlin")


SETS = [
    "SET application_name = 'x'",
    "SET application_name = 'x'; SET application_name = 'y'",
    "SET TIME ZONE 'Europe/Berlin'",
    "BEGIN; SET LOCAL TIME ZONE 'Europe/Berlin'; COMMIT",
    "SET statement_timeout = '1s'",
    "SET nothing_known = 1",
]


@pytest.mark.parametrize("sql", SETS)
def test_changes_are_reported_as_postgres_does(sql: str, server: ThreadServer, postgres_address: str) -> None:
    found = []
    for address in (server.address, postgres_address):
        with Wire(address) as wire:
            wire.start(database="postgres")
            replies = wire.ask(query(sql))
            found.append((reported(replies), [one.kind for one in replies if one.kind == "S"]))
    assert found[0] == found[1]


def test_a_change_that_is_undone_is_reported_twice(server: ThreadServer, postgres_address: str) -> None:
    found = []
    for address in (server.address, postgres_address):
        with Wire(address) as wire:
            wire.start(database="postgres")
            steps = ["BEGIN", "SET application_name = 'x'", "ROLLBACK", "SELECT 1"]
            found.append([reported(wire.ask(query(sql))) for sql in steps])
    assert found[0] == found[1]
    assert found[0][1:3] == [{"application_name": "x"}, {"application_name": ""}]


def test_a_message_before_the_start_ends_the_connection(server: ThreadServer) -> None:
    with Wire(server.address) as wire:
        wire.send(message("Q", b"SELECT 1\0"))
        assert wire.rest() == []
