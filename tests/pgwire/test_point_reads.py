"""A read by key that is one function (``sessions.point_reads``) says byte for byte what the long way does.

Random conversations are led on two servers, one of which has the short ways taken out: reads in many forms,
and between them whatever must end the use of a resolved statement: definitions, rights, settings,
transactions, portals, other rows.
"""

from __future__ import annotations

import contextlib
import random
import struct
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from herdpy_server.pgwire import backend, queries
from herdpy_server.process.statements import StatementStatistics
from herdpy_server.sessions import Session
from herdpy_server.sessions.point_reads import PointRead
from herdpy_server.store.layers import Delta
from herdpy_server.tablespace.cluster import Basis
from tests.pgwire.servers import ThreadServer, thread_server
from tests.pgwire.test_round_trip import without_the_short_way
from tests.pgwire.wire import SYNC, Reply, Wire, bind, describe, execute, parse, query

SEEDS = range(8)
STEPS = 220
KEYS = 6
TABLE = """CREATE TABLE reads (id INT PRIMARY KEY, flag BOOLEAN, small SMALLINT, big BIGINT, real REAL,
    double DOUBLE PRECISION, amount NUMERIC(10, 2), exact NUMERIC, words TEXT, fixed CHAR(4), raw BYTEA,
    day DATE, moment TIMESTAMP, zoned TIMESTAMPTZ, span INTERVAL, key UUID, list INT[], doc JSONB,
    document JSON)"""
ROWS = (
    """INSERT INTO reads VALUES (1, true, -3, 1234567890123, 1.5, -2.25, 12.30, 1e30, 'wörds', 'ab',
    '\\x00ff', '2024-02-29', '2024-02-29 12:34:56.789', '2024-02-29 12:34:56+02', '1 mon 2 days 03:04:05',
    '6e4e8a3c-0f6d-4bd5-8b5e-0c2a0e6f1d11', '{1,NULL,3}', '{"a": [1, "b"]}', '[1 , 2]')""",
    "INSERT INTO reads (id) VALUES (2)",
    "INSERT INTO reads (id, words, big) VALUES (3, repeat('long ', 300), 0), (4, '', -1), (-5, NULL, 5)",
)
STATEMENTS = {
    "all": "SELECT * FROM reads WHERE id = $1",
    "few": "SELECT words, id, words FROM reads WHERE $1 = id",
    "one": "SELECT big FROM reads WHERE id = $1",
    "wide": "SELECT day, zoned FROM reads WHERE id = $1::bigint",
    "pair": "SELECT note FROM pairs WHERE a = $1 AND b = $2",
    "text": "SELECT n FROM texts WHERE name = $1",
    "sum": "SELECT big + 1 FROM reads WHERE id = $1",
    "view": "SELECT words FROM seen WHERE id = $1",
}
TEXTS = (
    "SELECT words, big FROM reads WHERE id = {0}",
    "SELECT * FROM reads WHERE id = {0}",
    "SELECT note FROM pairs WHERE a = {0} AND b = 2",
    "SELECT zoned FROM public.reads WHERE id={0}",
)
EVENTS = (
    "SET TimeZone = 'Asia/Tokyo'",
    "SET TimeZone = 'UTC'",
    "SET search_path = other, public",
    "SET search_path = public",
    "RESET search_path",
    "SET statement_timeout = '10s'",
    "SET herdpy.engine = 'own'",
    "RESET herdpy.engine",
    "BEGIN",
    "BEGIN",
    "COMMIT",
    "UPDATE reads SET big = big + 1",
    "CREATE TEMPORARY TABLE IF NOT EXISTS reads (id INT PRIMARY KEY, big INT, words TEXT)",
    "SET ROLE reader",
    "SELECT 1 / 0",
    "DECLARE c CURSOR WITH HOLD FOR SELECT 1",
    "DEALLOCATE one",
    "PREPARE one AS SELECT 7::bigint",
    "ALTER TABLE reads ADD COLUMN IF NOT EXISTS more INT DEFAULT 7",
    "ALTER TABLE reads DROP COLUMN IF EXISTS more",
    "CREATE TABLE IF NOT EXISTS other.reads (id INT PRIMARY KEY, big BIGINT DEFAULT 8, words TEXT)",
    "INSERT INTO other.reads VALUES (1, 5, 'elsewhere') ON CONFLICT DO NOTHING",
    "DROP TABLE IF EXISTS other.reads",
    "DELETE FROM reads WHERE id = 2",
    "INSERT INTO reads (id) VALUES (2) ON CONFLICT DO NOTHING",
)
ENDS = ("ROLLBACK", "CLOSE ALL", "RESET ROLE", "DROP TABLE IF EXISTS pg_temp.reads")
RIVALS = (
    "UPDATE reads SET words = words || 'x', big = 9 WHERE id = 1",
    "DELETE FROM reads WHERE id = 4",
    "INSERT INTO reads (id, words) VALUES (4, 'again') ON CONFLICT DO NOTHING",
    "REVOKE SELECT ON reads FROM reader",
    "GRANT SELECT ON reads TO reader",
    "TRUNCATE pairs",
    "INSERT INTO pairs VALUES (1, 2, 'pair') ON CONFLICT DO NOTHING",
    "ALTER TABLE pairs RENAME COLUMN note TO remark",
    "ALTER TABLE pairs RENAME COLUMN remark TO note",
    "ALTER TABLE texts ALTER COLUMN n TYPE BIGINT",
    "ALTER TABLE texts ALTER COLUMN n TYPE INT",
    "CREATE OR REPLACE VIEW seen AS SELECT id, words FROM reads",
)


def a_read(rng: random.Random, name: str, *, binary: bool) -> bytes:
    """Bind, Describe, Execute and Sync of a statement, mostly as it was bound before."""
    key = rng.choice((*range(1, KEYS), -5))
    values: list[bytes | None]
    if name == "pair":
        values, formats = [b"%d" % (key % 2), b"2"], (0, 0) if binary else ()
    elif name == "text":
        values, formats = [rng.choice((b"a", b"b", "ä".encode(), b"\xff"))], (int(binary),)
    elif not binary:
        values, formats = [b"%d" % key], ()
    else:
        values, formats = [struct.pack(">q" if name == "wide" else ">i", key)], (1,)
    if rng.random() < 0.08:
        values[0] = rng.choice((None, b"no", b"", b"99999999999999999999"))
    return (
        bind(values, statement=name, formats=formats, results=(1,) if binary else ())
        + describe()
        + execute()
        + SYNC
    )


def a_step(rng: random.Random, *, binary: bool) -> bytes:
    chance = rng.random()
    if chance < 0.06:
        return query(rng.choice(EVENTS))
    if chance < 0.1:
        return query(rng.choice(ENDS))
    if chance < 0.4:
        return query(rng.choice(TEXTS).format(rng.choice((*range(KEYS), 2147483648))))
    if chance < 0.44:
        return parse(STATEMENTS["one"]) + bind([b"1"]) + describe() + execute() + SYNC
    return a_read(rng, rng.choice(("few", "few", "one", "one", *STATEMENTS)), binary=binary)


def led(path: Path, seed: int) -> list[Any]:
    """A conversation with a server of its own: all that it says, and what it counted."""
    rng = random.Random(seed)
    statistics = StatementStatistics()
    with thread_server(path) as server:
        server.look(lambda: setattr(server.database, "observer_of", statistics.of_session))
        with Wire(server.address) as wire, Wire(server.address) as rival:
            wire.start()
            rival.start()
            said = prepared(wire)
            binary = False
            for at in range(STEPS):
                if at % 25 == 24:
                    said += [reply for sql in ENDS for reply in wire.ask(query(sql))]
                if rng.random() < 0.05:
                    binary = not binary
                if rng.random() < 0.06:
                    rival.ask(query("SET lock_timeout = '20ms'"))
                    said += rival.ask(query(rng.choice(RIVALS)))
                step = a_step(rng, binary=binary)
                for _ in range(rng.choice((1, 1, 3))):
                    said += wire.ask(step)
                if rng.random() < 0.05:
                    said += activity(rival)
            said += wire.ask(query("ROLLBACK"))
            said += wire.ask(query("SELECT name, generic_plans, custom_plans FROM pg_prepared_statements"))
    counts = {name: (one.ok, one.failed, one.rows) for name, one in statistics.kinds.items()}
    return [*((one.kind, known(one)) for one in said), counts]


def known(reply: Reply) -> Any:
    """What two servers say alike: not the line of the code that raised an error."""
    return reply.meaning() if reply.kind in "EN" else reply.body


def prepared(wire: Wire) -> list[Reply]:
    said = wire.ask(query("CREATE ROLE reader; CREATE SCHEMA other; GRANT USAGE ON SCHEMA other TO reader"))
    for sql in (TABLE, *ROWS, "CREATE VIEW seen AS SELECT id, words FROM reads"):
        said += wire.ask(query(sql))
    said += wire.ask(query("CREATE TABLE pairs (a INT, b INT, note VARCHAR(9), PRIMARY KEY (b, a))"))
    said += wire.ask(query("INSERT INTO pairs VALUES (1, 2, 'pair'), (0, 2, NULL)"))
    said += wire.ask(query("CREATE TABLE texts (name TEXT PRIMARY KEY, n INT)"))
    said += wire.ask(query("INSERT INTO texts VALUES ('a', 1), ('ä', 2)"))
    said += wire.ask(query("GRANT SELECT ON reads, pairs TO reader"))
    for name, sql in STATEMENTS.items():
        said += wire.ask(parse(sql, name), SYNC)
    assert not [one.meaning() for one in said if one.kind == "E"]
    return said


def activity(rival: Wire) -> list[Reply]:
    """What others see of the session."""
    return rival.ask(query("SELECT state, query FROM pg_stat_activity WHERE query NOT LIKE '%activity%'"))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_resolved_read_says_what_the_long_way_does(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolved = 0
    send = queries._send_point

    def counted(*arguments: Any) -> None:
        nonlocal resolved
        resolved += 1
        send(*arguments)

    monkeypatch.setattr(queries, "_send_point", counted)
    short = led(tmp_path / "short", seed)
    assert resolved > STEPS // 4, resolved
    without_the_short_way(monkeypatch)
    long = led(tmp_path / "long", seed)
    assert short == long


@pytest.mark.parametrize(
    "bug",
    [
        lambda patch: patch.setattr(PointRead, "is_of", lambda self, ready: True),
        lambda patch: patch.setattr(PointRead, "run", lambda self, ready, values, *_: self._read(values)),
        lambda patch: patch.setattr(queries, "_send_point", _says_that_there_is_none),
    ],
    ids=["outlives definitions", "looks at nothing", "has no rows"],
)
def test_a_resolved_read_that_differs_is_seen(
    tmp_path: Path, bug: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in SEEDS:
        with monkeypatch.context() as patch:
            bug(patch)
            short = led(tmp_path / f"short{seed}", seed)
        with monkeypatch.context() as patch:
            without_the_short_way(patch)
            if short != led(tmp_path / f"long{seed}", seed):
                return
    pytest.fail("no conversation differs")


def _says_that_there_is_none(conversation: Any, answer: bytes) -> None:
    _send(conversation, backend.command_complete("SELECT 0"))


_send = queries._send_point


ROLLED_BACK = (
    "BEGIN",
    "DROP TABLE t",
    "CREATE TABLE t (a INT PRIMARY KEY, b INT)",
    "INSERT INTO t VALUES (1, 5)",
)


def test_a_read_that_was_prepared_in_a_transaction_is_not_resolved_for_its_definitions(
    server: ThreadServer,
) -> None:
    """They may be taken back, with the catalog of before as the one in force again."""
    with Wire(server.address) as wire:
        wire.start()
        wire.ask(query("CREATE TABLE t (a INT PRIMARY KEY, b INT)"))
        wire.ask(query("INSERT INTO t VALUES (1, 4)"))
        for sql in ROLLED_BACK:
            wire.ask(query(sql))
        wire.ask(parse("SELECT b FROM t WHERE a = $1", "get"), SYNC)
        read = bind([b"1"], statement="get") + describe() + execute() + SYNC
        for _ in range(3):
            assert rows(wire.ask(read)) == [b"\0\1\0\0\0\0015"]
        wire.ask(query("ROLLBACK"))
        for _ in range(4):
            assert rows(wire.ask(read)) == [b"\0\1\0\0\0\0014"]
        wire.ask(query("DROP TABLE t"))


def rows(replies: list[Reply]) -> list[bytes]:
    return [one.body for one in replies if one.kind == "D"]


@contextlib.contextmanager
def session_with_a_read(server: ThreadServer) -> Iterator[Session]:
    """A session that has prepared a read of a table ``t`` of two rows, as "unsettled"."""
    with Wire(server.address) as wire:
        wire.start()
        wire.ask(query("CREATE TABLE t (a INT PRIMARY KEY, b INT)"))
        wire.ask(query("INSERT INTO t VALUES (1, 4), (2, 5)"))
        wire.ask(parse("SELECT b FROM t WHERE a = $1", "unsettled"), SYNC)
        sessions = server.look(lambda: list(server.database.sessions))
        yield next(one for one in sessions if "unsettled" in one.prepared)
        wire.ask(query("DEALLOCATE unsettled; DROP TABLE t"))


def test_a_row_that_is_not_durable_is_read_in_the_long_way(server: ThreadServer) -> None:
    with session_with_a_read(server) as session:

        def look() -> list[bytes | None]:
            ready, store = session.prepared["unsettled"].ready, server.database.tablespace.store
            point = PointRead(session, ready, lambda image: image, b"none")
            table = ready.plan.get.table
            key = ready.plan.get.key((), (1,), None)
            seen = [point.run(ready, (1,), "", "")]
            delta = Delta()
            delta.rows[key] = b"later"
            token = store.push_pending({table.id: delta}, None)
            seen += [point.run(ready, (1,), "", ""), point.run(ready, (7,), "", "")]
            store.pop_pending(token)
            return [*seen, point.run(ready, (1,), "", "")]

        before, pending, missing, after = server.look(look)
        assert before is not None
        assert (pending, missing, after) == (None, b"none", before)


class Guard:
    """Says of a replica whether it may be read, before and after."""

    basis: Basis | None = None
    leads = False

    def __init__(self, *, before: bool, after: bool) -> None:
        self._before, self._after = before, after

    def is_open(self, _level: object) -> bool:
        return self._before

    def holds(self, _level: object, _basis: object) -> bool:
        return self._after


class LeadingGuard(Guard):
    """That of a replica that leads, whose lease alone is asked for."""

    leads = True

    def __init__(self, *, after: bool) -> None:
        super().__init__(before=False, after=not after)
        self.basis = SimpleNamespace(valid=lambda: after)


def test_a_replica_that_must_be_asked_is_read_in_the_long_way(
    server: ThreadServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with session_with_a_read(server) as session:

        def look(guard: Guard) -> bytes | None:
            ready = session.prepared["unsettled"].ready
            point = PointRead(session, ready, lambda image: image, b"none")
            with monkeypatch.context() as patch:
                patch.setattr(session.tablespace, "guard", guard)
                return point.run(ready, (7,), "", "")

        for before in (True, False):
            for after in (True, False):
                found = server.look(partial(look, Guard(before=before, after=after)))
                assert found == (b"none" if before and after else None)
        for after in (True, False):
            found = server.look(partial(look, LeadingGuard(after=after)))
            assert found == (b"none" if after else None)
