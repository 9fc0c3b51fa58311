"""Snapshot transactions: reads of every kind, writes against it, definitions, and how old it may be."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from herdpy_server.embedded import Database, opened
from herdpy_server.sessions import Session
from herdpy_server.store.history import History, _joined
from herdpy_server.store.layers import Delta
from herdpy_server.store.snapshot_transaction import MAX_KEYS, MAX_RANGES, Reads
from herdpy_sql.errors import SqlError

LEVELS = ("REPEATABLE READ", "SERIALIZABLE")


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with opened(tmp_path_factory.mktemp("snapshots") / "db") as database:
        yield database


class Client:
    """A session that is asked texts."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.session: Session = database.session()

    def __call__(self, sql: str, *params: object) -> list[tuple[Any, ...]]:
        answer = self.database.run(self.session.execute(sql, params))
        return [] if answer.columns is None else [tuple(row) for row in answer.rows]

    def fails(self, sql: str, *params: object) -> str:
        with pytest.raises(SqlError) as caught:
            self(sql, *params)
        return f"{caught.value.sqlstate} {caught.value.message}"


@pytest.fixture
def a(database: Database) -> Iterator[Client]:
    client = Client(database)
    client("DROP TABLE IF EXISTS t")
    client("CREATE TABLE t (k int PRIMARY KEY, v int, w text UNIQUE)")
    client("INSERT INTO t SELECT k, k * 10, 'w' || k FROM generate_series(1, 2000) AS s(k)")
    yield client
    database.run(client.session.close())


@pytest.fixture
def b(database: Database, a: Client) -> Iterator[Client]:
    client = Client(database)
    yield client
    database.run(client.session.close())


READS = {
    "key": "SELECT v FROM t WHERE k = 5",
    "range": "SELECT sum(v) FROM (SELECT v FROM t WHERE k BETWEEN 3 AND 9 LIMIT 20) AS s",
    "index": "SELECT k, v FROM t WHERE w = 'w5'",
    "columnar": "SELECT count(*), sum(v) FROM t",
    "columnar range": "SELECT sum(v) FROM t WHERE k < 100",
    "backward": "SELECT k, v FROM t ORDER BY k DESC LIMIT 3",
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("flushed", [False, True], ids=["in memory", "after a checkpoint"])
def test_every_way_to_read_shows_the_same_state(a: Client, b: Client, level: str, *, flushed: bool) -> None:
    a(f"BEGIN ISOLATION LEVEL {level}")
    before = {name: a(sql) for name, sql in READS.items()}
    b("UPDATE t SET v = v + 1")
    b("DELETE FROM t WHERE k % 2 = 1")
    b("INSERT INTO t VALUES (5000, 1, 'new')")
    if flushed:
        b("CHECKPOINT")
        b("UPDATE t SET v = v + 1")
    assert {name: a(sql) for name, sql in READS.items()} == before
    a("COMMIT")
    assert a(READS["key"]) == []


@pytest.mark.parametrize("level", LEVELS)
def test_own_changes_are_seen_in_both_engines(a: Client, b: Client, level: str) -> None:
    a(f"BEGIN ISOLATION LEVEL {level}")
    a("SELECT 1")
    b("UPDATE t SET v = 0 WHERE k = 1")
    a("UPDATE t SET v = -7 WHERE k = 2")
    a("DELETE FROM t WHERE k = 3")
    a("INSERT INTO t VALUES (3000, 5, 'x'), (3001, 6, 'y')")
    assert a("SELECT k, v FROM t WHERE k <= 3 ORDER BY k LIMIT 5") == [(1, 10), (2, -7)]
    assert a("SELECT count(*), min(v), sum(v) FROM t") == [(2001, -7, 20010000 + 11 - 27 - 30)]
    assert a("SELECT k FROM t WHERE w = 'y'") == [(3001,)]
    a("SAVEPOINT s")
    a("DELETE FROM t WHERE k > 2999")
    a("ROLLBACK TO s")
    assert a("SELECT count(*) FROM t") == [(2001,)]
    a("ROLLBACK")


@pytest.mark.parametrize(
    "write",
    [
        "UPDATE t SET v = 1 WHERE k = 5",
        "UPDATE t SET v = v + 1",
        "UPDATE t SET k = 7000 WHERE k = 5",
        "UPDATE t SET v = 1 FROM (VALUES (5), (6)) AS s(k) WHERE t.k = s.k",
        "DELETE FROM t WHERE w = 'w5'",
        "DELETE FROM t",
        "INSERT INTO t VALUES (5, 0, 'z') ON CONFLICT (k) DO UPDATE SET v = 0",
        "SELECT * FROM t WHERE k = 5 FOR KEY SHARE",
        "SELECT * FROM t ORDER BY v LIMIT 10 FOR UPDATE SKIP LOCKED",
        "TRUNCATE t",
        "CREATE INDEX ON t (v)",
    ],
)
def test_who_comes_second_is_told(a: Client, b: Client, write: str) -> None:
    a("BEGIN ISOLATION LEVEL REPEATABLE READ")
    a("SELECT 1")
    b("UPDATE t SET v = 3 WHERE k = 5")
    assert a.fails(write) == "40001 could not serialize access due to concurrent update"
    a("ROLLBACK")
    assert a("SELECT v FROM t WHERE k = 5") == [(3,)]


def test_a_row_that_is_gone(a: Client, b: Client) -> None:
    a("BEGIN ISOLATION LEVEL REPEATABLE READ")
    a("SELECT 1")
    b("DELETE FROM t WHERE k = 5")
    assert a.fails("UPDATE t SET v = 1 WHERE k = 5").startswith(
        "40001 could not serialize access due to concurrent del"
    )
    a("ROLLBACK")
    a("BEGIN ISOLATION LEVEL REPEATABLE READ")
    a("SELECT 1")
    b("DELETE FROM t WHERE k = 6")
    assert a.fails("INSERT INTO t VALUES (6, 6, 'six')").startswith("40001")
    a("ROLLBACK")


def test_loads_are_held_against_the_snapshot(a: Client, b: Client, database: Database) -> None:
    rows = pa.table({"k": pa.array([9001, 9002], pa.int32()), "v": pa.array([1, 2], pa.int32())})
    a("BEGIN ISOLATION LEVEL SERIALIZABLE")
    assert a("SELECT count(*) FROM t") == [(2000,)]
    database.run(a.session.ingest("t", rows.to_batches(), rows.schema, "append"))
    assert a("SELECT count(*) FROM t") == [(2002,)]
    b("INSERT INTO t VALUES (8000, 1, 'q')")
    assert a.fails("COMMIT").startswith("40001")
    assert a("SELECT count(*) FROM t") == [(2001,)]


def test_on_conflict_with_a_row_that_the_snapshot_has_not(a: Client, b: Client) -> None:
    for what in ("DO NOTHING", "DO UPDATE SET v = 0"):
        a("BEGIN ISOLATION LEVEL REPEATABLE READ")
        a("SELECT 1")
        b("INSERT INTO t VALUES (9000, 1, 'n')")
        assert a.fails(f"INSERT INTO t VALUES (9000, 2, 'm') ON CONFLICT (k) {what}").startswith("40001")
        a("ROLLBACK")
        b("DELETE FROM t WHERE k = 9000")


def test_definitions_are_those_of_the_snapshot(a: Client, b: Client) -> None:
    a("BEGIN ISOLATION LEVEL REPEATABLE READ")
    a("SELECT 1")
    b("DROP TABLE IF EXISTS other")
    b("CREATE TABLE other (x int)")
    assert a.fails("SELECT * FROM other").startswith("42P01")
    a("ROLLBACK")
    a("BEGIN ISOLATION LEVEL REPEATABLE READ")
    a("SELECT 1")
    b("ALTER TABLE t ADD COLUMN extra int")
    assert a("SELECT * FROM t WHERE k = 1") == [(1, 10, "w1")]
    assert a.fails("UPDATE t SET v = 1 WHERE k = 1").startswith("40001")
    a("ROLLBACK")
    a("BEGIN ISOLATION LEVEL REPEATABLE READ")
    a("SELECT 1")
    b("DROP TABLE other")
    assert a.fails("CREATE TABLE mine (x int)").startswith("40001")
    a("ROLLBACK")


def test_a_serializable_transaction_that_only_reads_never_fails(a: Client, b: Client) -> None:
    a("BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE")
    for _ in range(3):
        assert a("SELECT v FROM t WHERE k = 5") == [(50,)]
        b("UPDATE t SET v = v + 1 WHERE k = 5")
    a("COMMIT")


def test_what_a_scan_has_not_come_to_is_not_read(a: Client, b: Client) -> None:
    for change, outcome in (("k = 9", None), ("k = 2", "40001")):
        a("BEGIN ISOLATION LEVEL SERIALIZABLE")
        assert a("SELECT k FROM t ORDER BY k LIMIT 3") == [(1,), (2,), (3,)]
        a("INSERT INTO t VALUES (9500, 0, NULL)")
        b(f"UPDATE t SET v = 0 WHERE {change}")
        if outcome is None:
            a("COMMIT")
            a("DELETE FROM t WHERE k = 9500")
        else:
            assert a.fails("COMMIT").startswith(outcome)


def test_statements_alone_are_serializable(a: Client, database: Database) -> None:
    a("SET default_transaction_isolation = serializable")
    a("UPDATE t SET v = (SELECT max(v) FROM t) WHERE k = 1")
    a("INSERT INTO t SELECT 9100, count(*), 'c' FROM t")
    assert a("SELECT v FROM t WHERE k IN (1, 9100) ORDER BY k") == [(20000,), (2000,)]
    assert not database.store.history.is_kept


def test_a_snapshot_that_is_too_old_is_given_up(a: Client, b: Client, database: Database) -> None:
    history = database.store.history
    before, history.limit_bytes = history.limit_bytes, 100_000
    try:
        a("BEGIN ISOLATION LEVEL REPEATABLE READ")
        assert a("SELECT v FROM t WHERE k = 5") == [(50,)]
        b("UPDATE t SET v = v + 1")
        assert not history.is_kept
        assert a.fails("SELECT v FROM t WHERE k = 5") == "72000 snapshot too old"
        a("ROLLBACK")
        assert a("SELECT v FROM t WHERE k = 5") == [(51,)]
    finally:
        history.limit_bytes = before


def test_nothing_is_kept_when_nobody_stands_on_a_snapshot(a: Client, b: Client, database: Database) -> None:
    history = database.store.history
    for end in ("COMMIT", "ROLLBACK"):
        a("BEGIN ISOLATION LEVEL SERIALIZABLE")
        a("UPDATE t SET v = 0 WHERE k = 1")
        b("UPDATE t SET v = 0 WHERE k = 2")
        assert history.is_kept
        a(end)
        assert not history.is_kept
    a("BEGIN ISOLATION LEVEL SERIALIZABLE")
    a("SELECT 1")
    database.run(a.session.close())
    assert not history.is_kept


def test_a_large_statement_in_slices_stands_on_the_snapshot(tmp_path: Path) -> None:
    import asyncio

    with opened(tmp_path / "db") as database:
        client = Client(database)
        client("CREATE TABLE big (k int PRIMARY KEY, v int)")
        client("INSERT INTO big SELECT k, 0 FROM generate_series(1, 20000) AS s(k)")
        other = Client(database)

        async def sliced() -> str:
            client.session.waits.runs_on(asyncio.get_running_loop())
            await client.session.execute("BEGIN ISOLATION LEVEL SERIALIZABLE")
            await client.session.execute("SELECT 1")
            other("UPDATE big SET v = 9 WHERE k = 19999")
            try:
                await client.session.execute("UPDATE big SET v = v + 1 WHERE v >= 0")
            except SqlError as error:
                return error.sqlstate
            return ""

        assert asyncio.run(sliced()) == "40001"


# The parts.


def layer(*keys: bytes, cleared: bool = False) -> dict[int, Delta]:
    delta = Delta(cleared=cleared)
    delta.rows = dict.fromkeys(keys, b"")
    delta.nbytes = 100
    return {1: delta}


class Closable:
    """In the place of a snapshot."""

    closed = False

    def close(self) -> None:
        self.closed = True


def test_the_history_knows_what_came_after_a_state() -> None:
    history = History()
    first = history.pin(10, Closable())
    history.pushed(11, layer(b"a"))
    second = history.pin(11, Closable())
    history.pushed(12, layer(b"b", b"m"))
    assert history.changed(1, b"a", first.since)
    assert not history.changed(1, b"a", second.since)
    assert history.any_changed(1, [b"a", b"x", b"m"], second.since) == b"m"
    assert history.changed_within(1, [(b"c", b"f"), (b"k", None)], second.since)
    assert not history.changed_within(1, [(b"c", b"m"), (b"m\0", None)], first.since)
    history.unpin(first)
    assert not history.changed(1, b"a", 10)  # forgotten: nobody can ask
    history.pushed(13, layer(cleared=True))
    assert history.changed(1, b"zzz", second.since)
    history.unpin(second)
    assert first.snapshot.closed
    assert second.snapshot.closed
    assert not history.is_kept


def test_ranges_are_joined() -> None:
    assert _joined([(b"c", b"d"), (None, b"b"), (b"a", b"c"), (b"x", None), (b"y", b"z")]) == (
        [b"", b"x"],
        [b"d", None],
    )


def test_reads_that_are_too_many_count_as_all() -> None:
    reads = Reads()
    for i in range(MAX_KEYS + 1):
        reads.key(1, b"%d" % i)
    assert reads.covers(1, b"never read")
    for i in range(MAX_RANGES + 1):
        reads.range(2, b"%05d" % i, b"%05d!" % i)
    assert reads.covers(2, b"never read")
