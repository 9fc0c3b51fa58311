"""The short ways of ``pgwire.queries`` (``_run_alone``, ``_plain``) say byte for byte what the long one does.

Random conversations are led twice: once as the server is, once with the short way taken out. Others hold rows
that are wanted, so statements wait, fail and are undone in both.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

import pytest

from herdpy_server.pgwire import queries
from herdpy_server.sessions import Session
from tests.pgwire.servers import ThreadServer
from tests.pgwire.wire import SYNC, Reply, Wire, bind, describe, execute, parse, query

SEEDS = range(40)
STEPS = 60
STATEMENTS = {
    "get": "SELECT a, b, c FROM rt WHERE a = $1",
    "add": "UPDATE rt SET c = c + $2 WHERE a = $1",
    "put": "INSERT INTO rt VALUES ($1, 'new', $2)",
    "del": "DELETE FROM rt WHERE a = $1",
    "back": "UPDATE rt SET c = 0 WHERE a = $1 RETURNING a, c",
    "all": "SELECT count(*) FROM rt WHERE c > $1",
    "begin": "BEGIN",
    "commit": "COMMIT",
    "rollback": "ROLLBACK",
}
PARAMETERS = {"get": 1, "add": 2, "put": 2, "del": 1, "back": 1, "all": 1}
TEXTS = (
    "SELECT a, b, c FROM rt WHERE a = {0}",
    "select c from rt where a={0};",
    "UPDATE rt SET c = c + -{1} WHERE a = {0} ;",
    "UPDATE rt SET c = {1} / ({0} - {0}) WHERE a = {0}",
    "INSERT INTO rt VALUES ({0}, 'text', {1})",
    "INSERT INTO rt (a, c) VALUES ({0}, {1})",
    "INSERT INTO rt (a, c) VALUES ({0}, 99999999999)",
    "INSERT INTO rt (a, c) VALUES ({0}, 2147483647), (-{0}, 1)",
    "DELETE FROM rt WHERE a = {0}",
    "SELECT a FROM rt WHERE a = {0} ORDER BY 1 LIMIT {1}",
    "SELECT {0}, a FROM rt WHERE a = {1}",
    "SELECT nothing FROM rt WHERE a = {0}",
    "SELECT a FROM rt WHERE a = {0}; SELECT b FROM rt WHERE a = {1}",
    "SELECT a FROM rt WHERE a = {0} -- {1}",
    "SELECT b::char(1) FROM rt WHERE a = {0}",
    "SELECT c FROM rt WHERE a = {0} AND c = 1{1}",
    "SET TIME ZONE 'UTC'",
    "BEGIN", "BEGIN", "begin;", "COMMIT", "END", "ROLLBACK", "SAVEPOINT s", "ROLLBACK TO s",
    "BEGIN READ ONLY",
)  # fmt: skip


def a_message(rng: random.Random) -> bytes:
    key, number = rng.randrange(1, 8), rng.choice((0, 1, 5, 2147483647, 70000))
    if rng.random() < 0.45:
        return query(rng.choice(TEXTS).format(key, number))
    name = rng.choice((*STATEMENTS, "get", "add", "begin", "commit"))
    count = PARAMETERS.get(name, 0)
    if rng.random() < 0.5:
        values = [str(one).encode() for one in (key, number)[:count]]
        formats: tuple[int, ...] = ()
    else:
        values = [struct.pack(">i", one) for one in (key, number)[:count]]
        formats = (1,)
    if rng.random() < 0.05:
        values = values[:-1] or [b"x"]
    elif rng.random() < 0.05 and values:
        values[0] = b"no"
    steps = bind(values, statement=name, formats=formats, results=rng.choice(((), (0,), (1,))))
    steps += rng.choice((describe() + execute(), describe() + execute(), execute(), execute(rows=1)))
    if rng.random() < 0.2:
        steps += rng.choice((execute(), bind([b"1"], statement="get") + describe() + execute(), describe()))
    if rng.random() < 0.1:
        steps = parse(STATEMENTS[name]) + bind(values, formats=formats) + describe() + execute()
    return steps + SYNC


def led(server: ThreadServer, seed: int) -> list[tuple[str, bytes]]:
    """A conversation about a table of its own; all that the server says."""
    rng = random.Random(seed)
    said: list[Reply] = []
    with Wire(server.address) as wire:
        wire.start()
        wire.ask(query("CREATE TABLE IF NOT EXISTS rt (a INT PRIMARY KEY, b TEXT, c INT)"))
        wire.ask(query("DELETE FROM rt"))  # each row comes with its id
        wire.ask(query("INSERT INTO rt VALUES (1, 'one', 1), (2, NULL, 2), (3, 'three', NULL)"))
        wire.ask(query("SET lock_timeout = '20ms'"))
        for name, sql in STATEMENTS.items():
            wire.ask(parse(sql, name), SYNC)
        with Wire(server.address) as rival:
            rival.start()
            for step in range(STEPS):
                said += wire.ask(a_message(rng))
                if step % 20 == 10 and said[-1].body == b"I":
                    rival.ask(query(f"BEGIN; UPDATE rt SET c = 7 WHERE a = {rng.randrange(1, 4)}"))
                elif step % 20 == 19:
                    rival.ask(query("COMMIT"))
        said += wire.ask(query("ROLLBACK")) + wire.ask(query("SELECT * FROM rt ORDER BY a"))
    return [(one.kind, one.body) for one in said]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_short_way_says_what_the_long_one_does(
    server: ThreadServer, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = led(server, seed)
    without_the_short_way(monkeypatch)
    long = led(server, seed)
    assert short == long


def without_the_short_way(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(queries, "_run_alone", lambda *_: False)
    patch.setattr(queries, "_plain", lambda *_: None)


def test_the_short_way_is_taken(server: ThreadServer, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[str] = []
    send = queries._send_alone

    def counted(*arguments: object) -> None:
        taken.append(arguments[2].tag)  # type: ignore[attr-defined]
        send(*arguments)  # type: ignore[arg-type]

    def resolved(*arguments: object) -> None:
        taken.append("resolved")
        send_point(*arguments)  # type: ignore[arg-type]

    send_point = queries._send_point
    monkeypatch.setattr(queries, "_send_alone", counted)
    monkeypatch.setattr(queries, "_send_point", resolved)
    with Wire(server.address) as wire:
        wire.start()
        wire.ask(query("DROP TABLE IF EXISTS rt"))
        wire.ask(query("CREATE TABLE rt (a INT PRIMARY KEY, b TEXT, c INT)"))
        for name in ("get", "add", "put", "del", "begin", "commit"):
            wire.ask(parse(STATEMENTS[name], name), SYNC)
        for _ in range(2):  # the first time the pattern of the message is learnt
            for name in ("begin", "put", "get", "add", "del", "commit"):
                values = [b"4", b"1"][: PARAMETERS.get(name, 0)]
                wire.ask(bind(values, statement=name), describe(), execute(), SYNC)
        assert taken == ["BEGIN", "INSERT 0 1", "SELECT 1", "UPDATE 1", "DELETE 1", "COMMIT"] * 2
        taken.clear()
        for number in (5, 6):
            wire.ask(query(f"SELECT c FROM rt WHERE a = {number}"))
        assert taken == ["SELECT 0", "resolved"]


@pytest.mark.parametrize(
    "bug",
    [
        lambda patch: patch.setattr(Session, "runs_alone", lambda self, statement: True),
        lambda patch: patch.setattr(queries, "_send_alone", _forgets_the_rows),
    ],
)
def test_a_short_way_that_differs_is_seen(
    server: ThreadServer, bug: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    differ = 0
    for seed in list(SEEDS)[:8]:
        with monkeypatch.context() as patch:
            bug(patch)
            short = led(server, seed)
        with monkeypatch.context() as patch:
            without_the_short_way(patch)
            differ += short != led(server, seed)
    assert differ


_send = queries._send_alone


def _forgets_the_rows(talk, form, result) -> None:
    _send(talk, form._replace(encode=None), result)
