"""Statements that bring the name of their commit: a name is done just where rows say so, however it went.

Random conversations write rows that tell under which name they were committed. At the end every name is asked
for: it is done if there are such rows, and was used once. Both ways of answering are led.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator

import pytest

from herdpy_server.pgwire import queries
from herdpy_server.sessions.settings import Settings
from tests.pgwire.servers import ThreadServer
from tests.pgwire.test_round_trip import without_the_short_way
from tests.pgwire.wire import SYNC, Reply, Wire, bind, describe, execute, parse, query

SEEDS = range(3)
STEPS = 60
PLAIN = "INSERT INTO named VALUES ($1, $2)"
STATEMENTS = {
    "put": "AS REQUEST $3 " + PLAIN,
    "nothing": "AS REQUEST $2 UPDATE named SET name = 'changed' WHERE k = -$1",
    "read": "AS REQUEST $2 SELECT name FROM named WHERE k = $1",
    "commit": "AS REQUEST $1 COMMIT",
    "plain": PLAIN,
    "begin": "BEGIN",
    "end": "COMMIT",
}
INT8, TEXT = 20, 25
_numbers = itertools.count()
"""No name is used in two conversations."""
OIDS = {"put": (INT8, TEXT, TEXT), "nothing": (INT8, TEXT), "read": (INT8, TEXT), "plain": (INT8, TEXT)}


WAYS = (
    *("put", "put", "put", "pipeline", "transaction", "transaction"),
    *("rolled back", "nothing", "pipeline of nothing"),
)


def run(name: str, *values: str) -> bytes:
    return bind([one.encode() for one in values], statement=name) + describe() + execute()


def steps(rng: random.Random, names: Iterator[str], used: list[str]) -> Iterator[bytes]:
    """The messages of one way to commit something, or nothing, under a name."""
    name = rng.choice(used) if used and rng.random() < 0.15 else next(names)
    used.append(name)
    way = rng.choice(WAYS)
    keys = [str(rng.randrange(1, 400)) for _ in range(3)]
    if way == "put":
        yield run("put", keys[0], name, name) + SYNC
    elif way == "pipeline":
        first = rng.choice((run("put", keys[0], name, name), run("nothing", keys[0], name)))
        yield first + run("plain", keys[1], name) + SYNC
    elif way == "pipeline of nothing":
        yield run("nothing", keys[0], name) + run("read", keys[0], name) + SYNC
    elif way == "nothing":
        yield run(rng.choice(("nothing", "read")), keys[0], name) + SYNC
    else:
        yield run("begin") + SYNC
        yield run("plain", keys[0], name) + SYNC
        if rng.random() < 0.5:
            yield run("put", keys[1], name, name) + SYNC  # the transaction's commit has it then
        yield (query("ROLLBACK") if way == "rolled back" else run("commit", name) + SYNC)
        yield query("ROLLBACK")  # of one that had failed: its COMMIT was refused for its parameter
    if rng.random() < 0.6:
        yield run("plain", keys[2], "-") + SYNC  # which has no name, and is to get none


def led(server: ThreadServer, seed: int) -> tuple[int, set[str], list[str]]:
    """A conversation; how many were done, the refusals' SQLSTATEs, and what of it is not as it must be."""
    rng = random.Random(seed)
    used: list[str] = []
    names = (f"{seed} {number}" for number in _numbers)
    refusals: set[str] = set()
    with Wire(server.address) as wire:
        wire.start()
        wire.ask(query("DROP TABLE IF EXISTS named"))
        wire.ask(query("CREATE TABLE named (k BIGINT PRIMARY KEY, name TEXT)"))
        for name, sql in STATEMENTS.items():
            said = wire.ask(parse(sql, name, OIDS.get(name, ())), SYNC)
            assert said[0].kind == "1", said
        for _ in range(STEPS):
            for message in steps(rng, names, used):
                refusals |= {one.fields["C"] for one in wire.ask(message) if one.kind == "E"}
        there = [row.split()[1] for row in rows(wire, "SELECT 'x ' || replace(name, ' ', '_') FROM named")]
        wrong, done = [], 0
        for name in sorted(set(used)):
            (outcome,) = rows(wire, f"SELECT herdpy.commit_outcome('{name}')")
            if outcome.startswith("done") != (name.replace(" ", "_") in there):
                wrong.append(f"{name}: {outcome}")
            done += outcome.startswith("done")
    return done, refusals, wrong


def rows(wire: Wire, sql: str) -> list[str]:
    return [one.body[6:].decode() for one in wire.ask(query(sql)) if one.kind == "D"]


@pytest.mark.parametrize("way", ["short", "long"])
def test_a_name_is_done_where_its_rows_are(
    server: ThreadServer, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "long":
        without_the_short_way(monkeypatch)
    refused: set[str] = set()
    for seed in SEEDS:
        done, refusals, wrong = led(server, seed)
        assert not wrong
        assert done > STEPS // 4
        refused |= refusals
    assert {"23505", "HP001"} <= refused <= {"23505", "HP001", "25P02"}


def _forgetful(self: Settings) -> bytes:
    return self.request_id


_name_commit = Settings.name_commit


def _as_by_set(self: Settings, request_id: bytes) -> None:
    _name_commit(self, request_id)
    self.is_statements_name = False


BUGS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "the short way gives it another name": lambda patch: patch.setattr(
        queries, "name_of", lambda _value: b"another"
    ),
    "both ways leave it out": lambda patch: patch.setattr(
        Settings, "name_commit", lambda self, request_id: None
    ),
    "the next pipeline gets it too": lambda patch: patch.setattr(Settings, "name_commit", _as_by_set),
    "the next commit gets it too": lambda patch: patch.setattr(Settings, "take_request_id", _forgetful),
}


@pytest.mark.parametrize("bug", BUGS)
def test_what_goes_wrong_is_seen(server: ThreadServer, bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    BUGS[bug](monkeypatch)
    assert any(led(server, seed)[2] for seed in SEEDS)


@pytest.mark.parametrize(
    ("sql", "values", "state"),
    [
        ("AS REQUEST $3 INSERT INTO named VALUES ($1, 'x')", ["1", "a"], "08P01"),
        ("AS REQUEST $1 INSERT INTO named VALUES ($1, 'x')", ["a"], "08P01"),
        ("AS REQUEST $2 INSERT INTO named VALUES ($1, 'x')", ["1", ""], "22023"),
        ("AS REQUEST $2 INSERT INTO named VALUES ($1, 'x')", ["1", "x" * 65], "22023"),
        ("AS REQUEST $2 INSERT INTO named VALUES ($1, 'x')", ["1", None], "22023"),
        ("AS REQUEST $2 INSERT INTO named VALUES ($1, 'x')", ["1"], "08P01"),
        ("AS REQUEST 2 INSERT INTO named VALUES ($1, 'x')", ["1", "a"], "42601"),
    ],
)
def test_what_is_no_name_is_refused(
    server: ThreadServer, sql: str, values: list[str | None], state: str
) -> None:
    with Wire(server.address) as wire:
        wire.start()
        wire.ask(query("CREATE TABLE IF NOT EXISTS named (k BIGINT PRIMARY KEY, name TEXT)"))
        wire.ask(query("DELETE FROM named"))
        sent = [None if one is None else one.encode() for one in values]
        for _ in range(2):  # also where the message's shape is known
            said: list[Reply] = wire.ask(parse(sql), bind(sent), describe(), execute(), SYNC)
            assert [one.fields["C"] for one in said if one.kind == "E"] == [state]
        assert rows(wire, "SELECT name FROM named") == []


def test_execute_of_sql_cannot_name_it(server: ThreadServer) -> None:
    with Wire(server.address) as wire:
        wire.start()
        wire.ask(query("CREATE TABLE IF NOT EXISTS named (k BIGINT PRIMARY KEY, name TEXT)"))
        wire.ask(parse(STATEMENTS["put"], "put", OIDS["put"]), SYNC)
        said = wire.ask(query("EXECUTE put (1, 'a', 'b')"))
        assert [one.fields["C"] for one in said if one.kind == "E"] == ["0A000"]
