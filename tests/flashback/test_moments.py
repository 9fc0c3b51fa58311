"""What may stand after AS OF SYSTEM TIME, which moment it means, and what is refused with which SQLSTATE."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lmdb
import pytest

from herdpy.log import LastWait
from herdpy.log.lsn import LSN
from herdpy.log.wait import run_blocking
from herdpy_server.embedded import Database, opened
from herdpy_server.serving.database import ServedDatabase
from herdpy_server.sessions import Session
from herdpy_server.sessions.flashback import resolved
from herdpy_server.store import marks as store_marks
from herdpy_server.tablespace import tablespace as state_machine
from herdpy_server.tablespace.past import AtPosition, AtTime, BeforeTransaction, PastState, TransactionPlace
from herdpy_server.tablespace_host import DatabaseSettings
from herdpy_server.workers.scheduler import WorkerSettings
from herdpy_sql.clock import Clock
from herdpy_sql.errors import SqlError
from herdpy_sql.parse.as_of import AsOf
from herdpy_sql.values.styles import in_zone

NOON = 1_767_268_800_000_000  # 2026-01-01 12:00:00 UTC
SECOND = 1_000_000


class Client:
    """A database and one session of it."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.session: Session = database.session()

    def run(self, sql: str, *params: object) -> Any:
        return self.database.run(self.session.execute(sql, params), self.session)

    def rows(self, sql: str, *params: object) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = self.run(sql, *params).rows
        return rows

    def refused(self, sql: str, *params: object) -> SqlError:
        with pytest.raises(SqlError) as refusal:
            self.run(sql, *params)
        return refusal.value

    @property
    def now(self) -> str:
        """The position of the newest commit."""
        return str(self.database.store.applied)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Client]:
    with opened(tmp_path / "db", flashback_s=3600, checkpoint_interval_s=3600) as database:
        client = Client(database)
        client.run("CREATE TABLE t (id int PRIMARY KEY, v text)")
        client.run("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
        yield client


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What commits have for the time: the item, which they add a microsecond to."""
    now = [NOON]

    def tick() -> int:
        now[0] += 1
        return now[0]

    monkeypatch.setattr(state_machine, "now_us", tick)
    return now


# Which moment.


@pytest.mark.parametrize(
    ("text", "kind", "zone", "seconds"),
    [
        ("-5 min", "", "UTC", -300),
        ("-10s", "", "UTC", -10),
        ("-01:30:00", "", "UTC", -5400),
        ("-1 day", "", "Europe/Berlin", -86400),
        ("5 min ago", "interval", "UTC", -300),
        ("2026-01-01 11:00:00", "", "UTC", -3600),
        ("2026-01-01 11:00:00", "", "Asia/Kolkata", -3600 - 19800),
        ("2026-01-01 03:00:00", "", "America/New_York", -14400),
        ("2026-01-01 11:00:00+01", "", "Asia/Kolkata", -7200),
        ("2026-01-01 13:00:00", "timestamptz", "Europe/Berlin", 0),
        ("2026-01-01 13:00:00+05", "timestamp", "Europe/Berlin", 0),
        ("2026-01-01T12:00:00Z", "", "America/New_York", 0),
    ],
)
def test_a_time_is_of_the_sessions_zone(text: str, kind: str, zone: str, seconds: int) -> None:
    moment = resolved(AsOf(text, kind), Clock(NOON, NOON, in_zone(zone)), LSN(3, 7))
    assert moment == AtTime(NOON + seconds * SECOND)


def test_a_position_is_one_that_there_is() -> None:
    clock = Clock(NOON, NOON)
    assert resolved(AsOf("3:7"), clock, LSN(3, 7)) == AtPosition(LSN(3, 7))
    with pytest.raises(SqlError) as refusal:
        resolved(AsOf("3:8"), clock, LSN(3, 7))
    assert refusal.value.sqlstate == "22023"


@pytest.mark.parametrize(
    ("text", "kind", "sqlstate"),
    [
        ("1 s", "", "22023"),
        ("2026-01-01 12:00:00.000001", "", "22023"),
        ("infinity", "", "22023"),
        ("yesterday's news", "", "22007"),
        ("", "", "22007"),
        ("3:7", "interval", None),  # three hours and seven minutes, and so in the future
        ("2026-13-01", "", "22008"),
        ("soon", "timestamptz", "22007"),
    ],
)
def test_what_is_no_moment_of_the_past(text: str, kind: str, sqlstate: str | None) -> None:
    with pytest.raises(SqlError) as refusal:
        resolved(AsOf(text, kind), Clock(NOON, NOON), LSN(3, 7))
    assert refusal.value.sqlstate == (sqlstate or "22023")


def test_times_of_statements_in_three_zones(clock: list[int], db: Client) -> None:
    clock[0] = NOON
    db.run("UPDATE t SET v = 'noon' WHERE id = 1")
    clock[0] = NOON + 3600 * SECOND
    db.run("UPDATE t SET v = 'one' WHERE id = 1")
    for zone, noon in (
        ("UTC", "2026-01-01 12:30"),
        ("Asia/Kolkata", "2026-01-01 18:00"),
        ("America/New_York", "2026-01-01 07:30"),
    ):
        db.run(f"SET timezone = '{zone}'")
        assert db.rows(f"SELECT v FROM t AS OF SYSTEM TIME '{noon}' WHERE id = 1") == [("noon",)]
        assert db.rows("SELECT v FROM t AS OF SYSTEM TIME '2026-01-01 12:30+00' WHERE id = 1") == [("noon",)]


# Transactions of one entry, and entries of one transaction.


def test_a_moment_may_be_in_the_midst_of_an_entry(clock: list[int], db: Client) -> None:
    db.run("CREATE INDEX by_v ON t (v)")
    before = db.now
    changes = (
        "INSERT INTO t VALUES (10, 'x')",
        "DELETE FROM t WHERE id = 1",
        *("INSERT INTO t VALUES (%d)",) * 2,
    )
    texts = [text % (10 + n) if "%" in text else text for n, text in enumerate(changes)]
    commits = [db.database.session().execute(text) for text in texts]
    assert all(isinstance(commit.send(None), LastWait) for commit in commits)
    db.database.log.flush()
    for commit in commits:
        with pytest.raises(StopIteration):
            commit.send(None)
    lsn, past = db.database.store.applied, db.database.tablespace.past

    def ids(moment: AtTime | AtPosition | BeforeTransaction) -> list[int]:
        state: PastState = run_blocking(past.at(moment, lambda: None))
        snapshot = state.snapshot()
        table = state.catalog.by_name["t"]
        return [snapshot.ops(table).decode(image)[0] for image in snapshot.images(table)]

    assert ids(AtTime(clock[0] - 2)) == [2, 10]
    assert ids(BeforeTransaction(TransactionPlace(lsn, 1))) == [1, 2, 10]
    assert ids(AtTime(clock[0] - 1)) == [2, 10, 12]  # made of the one before, which ends within the entry
    assert ids(AtPosition(lsn)) == [2, 10, 12, 13]
    assert ids(BeforeTransaction(TransactionPlace(lsn, 3))) == [2, 10, 12]
    assert ids(AtPosition(LSN.parse(before))) == [1, 2]
    assert ids(AtTime(clock[0] - 4)) == [1, 2]


def test_a_transaction_of_many_entries_is_there_at_its_last(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"flashback_s": 3600, "transaction_memory_bytes": 1 << 20}
    with opened(tmp_path / "db", **settings) as database:
        db = Client(database)
        db.run("CREATE TABLE t (id int PRIMARY KEY, v text)")
        before = database.store.applied
        db.run("INSERT INTO t SELECT g, repeat('x', 1000) FROM generate_series(1, 5000) g")
        after = database.store.applied
        assert after.entry_id - before.entry_id > 2
        db.run("DELETE FROM t")
        for entry_id in range(before.entry_id, after.entry_id + 1):
            expected = 5000 if entry_id == after.entry_id else 0
            position = LSN(after.ledger_id, entry_id)
            assert db.rows(f"SELECT count(*) FROM t AS OF SYSTEM TIME '{position}'") == [(expected,)]


# What a statement may do with it.


def test_rows_come_back_by_insert_and_by_create_table(db: Client) -> None:
    db.run("CREATE TABLE seen (id int REFERENCES t, v text)")
    before = db.now
    db.run("DELETE FROM t")
    past = f"AS OF SYSTEM TIME '{before}'"
    assert db.run(f"INSERT INTO t SELECT * FROM t {past} WHERE id = 2").rowcount == 1
    assert db.rows(f"INSERT INTO t SELECT * FROM t {past} WHERE id = 1 RETURNING v") == [("a",)]
    again = f"INSERT INTO t (id, v) SELECT * FROM t {past} ON CONFLICT (id) DO UPDATE SET v = t.v || '!'"
    assert db.run(again).rowcount == 2
    assert db.rows("SELECT * FROM t ORDER BY id") == [(1, "a!"), (2, "b!")]
    assert db.run(f"CREATE TABLE copy AS SELECT id, v || '?' AS v FROM t {past}").rowcount == 2
    assert db.run(f"SELECT * INTO other FROM t {past}").rowcount == 2
    assert db.rows("SELECT * FROM copy UNION ALL SELECT * FROM other ORDER BY 1, 2") == [
        (1, "a"), (1, "a?"), (2, "b"), (2, "b?"),
    ]  # fmt: skip
    named = f"WITH old AS (SELECT id + 100 AS id, v FROM t) INSERT INTO t SELECT * FROM old {past}"
    assert db.run(named).rowcount == 2
    assert db.refused(f"INSERT INTO seen SELECT id + 7, v FROM t {past}").sqlstate == "23503"


def test_all_of_a_statement_reads_the_moment(db: Client) -> None:
    db.run("CREATE TABLE u (id int, w int); CREATE VIEW names AS SELECT v FROM t")
    db.run("INSERT INTO u VALUES (1, 10), (2, 20)")
    past = f"AS OF SYSTEM TIME '{db.now}'"
    db.run(
        "UPDATE t SET v = 'late'; DELETE FROM u WHERE id = 1; CREATE OR REPLACE VIEW names AS SELECT 'x' AS v"
    )
    assert db.rows(f"SELECT v, w FROM t JOIN u USING (id) {past} ORDER BY 1") == [("a", 10), ("b", 20)]
    assert db.rows(f"SELECT v FROM t {past} WHERE id IN (SELECT id FROM u WHERE w = 10)") == [("a",)]
    assert db.rows(f"SELECT v FROM t WHERE id = (SELECT min(id) FROM u {past})") == [("a",)]
    assert db.rows(f"SELECT count(*) FROM (SELECT * FROM t, u {past}) x") == [(4,)]
    assert db.rows(f"SELECT max(w) FROM u {past} UNION ALL SELECT count(*) FROM t {past}") == [(20,), (2,)]
    assert db.rows(f"SELECT string_agg(v, ',' ORDER BY v) FROM names {past}") == [("a,b",)]
    assert db.rows(f"WITH x AS (SELECT * FROM u) SELECT sum(w) FROM x {past}") == [(30,)]


def test_definitions_are_those_of_the_moment(db: Client) -> None:
    db.run("CREATE TYPE mood AS ENUM ('sad', 'glad')")
    db.run("CREATE TABLE m (id int PRIMARY KEY, is_in mood DEFAULT 'sad'); INSERT INTO m VALUES (1)")
    past = f"AS OF SYSTEM TIME '{db.now}'"
    db.run("ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'")
    db.run("ALTER TABLE m ADD more int DEFAULT 3; ALTER TABLE m RENAME TO n")
    assert db.rows(f"SELECT is_in::text FROM m {past}") == [("sad",)]
    assert db.refused(f"SELECT * FROM n {past}").sqlstate == "42P01"
    assert db.refused(f"SELECT more FROM m {past}").sqlstate == "42703"
    assert db.rows("SELECT is_in::text, more FROM n") == [("blue", 3)]


def test_two_schemas_have_tables_of_the_same_name(db: Client) -> None:
    db.run(
        "CREATE SCHEMA other; CREATE TABLE other.t (id int, odd text); INSERT INTO other.t VALUES (7, 'o')"
    )
    past = f"AS OF SYSTEM TIME '{db.now}'"
    db.run("DROP TABLE other.t; UPDATE t SET v = 'late'")
    assert db.rows(f"SELECT * FROM other.t {past}") == [(7, "o")]
    assert db.rows(f"SELECT * FROM t {past} ORDER BY 1") == [(1, "a"), (2, "b")]
    db.run("SET search_path = other, public")
    assert db.rows(f"SELECT * FROM t {past}") == [(7, "o")]
    assert db.rows("SELECT v FROM t WHERE id = 1") == [("late",)]


def test_parameters_beside_the_moment(db: Client) -> None:
    past = f"AS OF SYSTEM TIME '{db.now}'"
    db.run("UPDATE t SET v = 'late'")
    for engine in ("own", "columnar"):
        db.run(f"SET herdpy.engine = '{engine}'")
        assert db.rows(f"SELECT v FROM t {past} WHERE id = $1", 2) == [("b",)]
        assert db.rows(f"SELECT v FROM t {past} WHERE id = $1", 1) == [("a",)]
    assert db.rows("SELECT v FROM t WHERE id = $1", 1) == [("late",)]


def test_within_a_transaction_block(db: Client) -> None:
    past = f"AS OF SYSTEM TIME '{db.now}'"
    db.run("BEGIN; UPDATE t SET v = 'own'")
    assert db.rows(f"SELECT v FROM t {past} WHERE id = 1") == [("a",)]
    assert db.rows("SELECT v FROM t WHERE id = 1") == [("own",)]
    assert db.rows(f"SELECT count(*), max(v) FROM t {past}") == [(2, "b")]
    assert db.refused(f"SELECT 1 / (id - 1) FROM t {past} WHERE id = 1").sqlstate == "22012"
    assert db.refused("SELECT 1").sqlstate == "25P02"
    db.run("ROLLBACK; BEGIN ISOLATION LEVEL REPEATABLE READ")
    assert db.refused(f"SELECT v FROM t {past}").sqlstate == "0A000"
    db.run("ROLLBACK")


def test_cursors_explain_prepare_and_copy(db: Client) -> None:
    past = f"AS OF SYSTEM TIME '{db.now}'"
    db.run("UPDATE t SET v = 'late'")
    db.run(f"BEGIN; DECLARE c CURSOR FOR SELECT v FROM t {past} ORDER BY id")
    assert db.rows("FETCH ALL FROM c") == [("a",), ("b",)]
    db.run("COMMIT")
    lines = db.rows(f"EXPLAIN ANALYZE SELECT v FROM t {past} WHERE id = 1")
    assert any("Key Get on t" in line for (line,) in lines)
    db.run(f"PREPARE p (int) AS SELECT v FROM t {past} WHERE id = $1")
    assert db.rows("EXECUTE p (2)") == [("b",)]
    db.run("DROP TABLE t")
    assert db.rows("EXECUTE p (1)") == [("a",)]
    db.run(f"PREPARE q AS SELECT count(*) FROM t {past}")
    assert db.rows("EXECUTE q") == [(2,)]


@pytest.mark.parametrize(
    ("statement", "sqlstate"),
    [
        ("UPDATE t SET v = u.v FROM t u {past}", "25006"),
        ("DELETE FROM t USING t u {past}", "25006"),
        ("MERGE INTO t USING (SELECT * FROM t {past}) u ON t.id = u.id WHEN MATCHED THEN DELETE", "25006"),
        ("WITH gone AS (DELETE FROM t RETURNING *) SELECT * FROM gone {past}", "25006"),
        ("WITH gone AS (DELETE FROM t RETURNING *) INSERT INTO t SELECT * FROM gone {past}", "25006"),
        ("SELECT * FROM t {past} FOR UPDATE", "0A000"),
        ("SELECT * FROM t {past} FOR KEY SHARE", "0A000"),
        ("INSERT INTO t SELECT * FROM (SELECT * FROM t FOR UPDATE) x {past}", "0A000"),
        ("SELECT nextval('s') FROM t {past}", "25006"),
        ("SELECT * FROM pg_class {past}", "0A000"),
        ("SELECT v, current_user FROM t {past}", "0A000"),
        ("SELECT * FROM t {past} AS OF SYSTEM TIME '-1 s'", "42601"),
        ("SELECT * FROM t {past} WHERE id IN (SELECT id FROM t AS OF SYSTEM TIME '-1 s')", "0A000"),
        ("SELECT * FROM t AS OF SYSTEM TIME $1", "0A000"),
        ("SELECT * FROM t AS OF SYSTEM TIME now()", "0A000"),
        ("SELECT * FROM t AS OF SYSTEM TIME '-1 s' || ''", "0A000"),
        ("SELECT * FROM t AS OF SYSTEM TIME now() - interval '1 s'", "0A000"),
        ("SELECT * FROM t AS OF SYSTEM TIME -10", "0A000"),
        ("SELECT * FROM t AS OF SYSTEM TIME '-1s'::date", "0A000"),
        ("SELECT * FROM t AS OF SYSTEM TIME", "42601"),
        ("SELECT 1 {past}", "42601"),
        ("SELECT * FROM t WHERE id = 1 {past}", "42601"),
        ("SELECT * FROM t {past}, t u", "42601"),
        ("SELECT * FROM t JOIN t u {past} ON true", "42601"),
        ("SELECT * FROM t {past} NATURAL JOIN t u", "42601"),
        ("CREATE VIEW w AS SELECT * FROM t {past}", "0A000"),
        ("CREATE TABLE w (id int CHECK (id IN (SELECT id FROM t {past})))", "0A000"),
        ("INSERT INTO t SELECT * FROM t {past} RETURNING (SELECT count(*) FROM t)", "0A000"),
        ("SELECT * FROM nowhere {past}", "42P01"),
    ],
)
def test_what_is_refused(db: Client, statement: str, sqlstate: str) -> None:
    params = (1,) if "$1" in statement else ()
    text = statement.format(past=f"AS OF SYSTEM TIME '{db.now}'")
    assert db.refused(text, *params).sqlstate == sqlstate
    assert db.rows("SELECT * FROM t ORDER BY id") == [(1, "a"), (2, "b")]


def test_a_name_may_be_one_of_the_words(db: Client) -> None:
    db.run("CREATE TABLE system (time int); INSERT INTO system VALUES (4)")
    assert db.rows("SELECT time AS of FROM system") == [(4,)]
    assert db.rows("SELECT 'AS OF SYSTEM TIME' AS v /* AS OF SYSTEM TIME */") == [("AS OF SYSTEM TIME",)]


# What is kept.


def test_nothing_is_kept_where_nobody_wants_it(tmp_path: Path) -> None:
    with opened(tmp_path / "db") as database:
        db = Client(database)
        db.run("CREATE TABLE t (id int)")
        refusal = db.refused("SELECT * FROM t AS OF SYSTEM TIME '-0 s'")
    assert (refusal.sqlstate, "flashback_s" in str(refusal.hint)) == ("72000", True)


def test_after_a_restart_what_came_before_the_checkpoint_is_gone(tmp_path: Path, clock: list[int]) -> None:
    with opened(tmp_path / "db", flashback_s=3600) as database:
        db = Client(database)
        db.run("CREATE TABLE t (id int)")
        first = db.now
        database.checkpoint()
        db.run("INSERT INTO t VALUES (1)")
        time_us = clock[0]
        assert db.rows(f"SELECT * FROM t AS OF SYSTEM TIME '{first}'") == []
    with opened(tmp_path / "db", flashback_s=3600) as database:
        db = Client(database)
        assert database.store.committed_us == time_us  # known from the disk
        refusal = db.refused(f"SELECT * FROM t AS OF SYSTEM TIME '{first}'")
        assert refusal.sqlstate == "72000"
        assert f"at {database.store.durable}" in str(refusal.detail)
        kept = db.now
        clock[0] += SECOND
        db.run("INSERT INTO t VALUES (2)")
        assert db.rows(f"SELECT * FROM t AS OF SYSTEM TIME '{kept}'") == [(1,)]
        with pytest.raises(SqlError, match="not kept as far back"):
            run_blocking(database.tablespace.past.at(AtTime(time_us - 1), lambda: None))
        assert (
            run_blocking(database.tablespace.past.at(AtTime(time_us), lambda: None)).committed_us == time_us
        )


def test_marks_go_when_too_much_was_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings: dict[str, Any] = {
        "flashback_s": 3600,
        "flashback_bytes": 1 << 20,
        "checkpoint_interval_s": 3600,
    }
    with opened(tmp_path / "db", **settings) as database:
        db, marks = Client(database), database.store.marks
        db.run("CREATE TABLE t (id int PRIMARY KEY, v text)")
        first = db.now
        most = 0
        for turn in range(24):
            db.run(f"INSERT INTO t SELECT g, repeat('x', 100) FROM generate_series({turn}000, {turn}500) g")
            database.checkpoint()
            limit = {one.name: one for one in database.store.limits()}["flashback_bytes"]
            assert limit.used <= limit.most == 1 << 20
            most = max(most, marks.count)
            assert database.store.floor == marks.oldest.lsn
        assert 4 < most <= 20
        assert most > marks.count - 2
        refusal = db.refused(f"SELECT * FROM t AS OF SYSTEM TIME '{first}'")
        assert refusal.sqlstate == "72000"
        oldest = marks.oldest.lsn
        assert str(oldest) in str(refusal.detail)
        rows = db.rows(f"SELECT count(*) FROM t AS OF SYSTEM TIME '{oldest}'")[0][0]
        assert 0 < rows < 24 * 501
        log = [one.last for one in database.log.ledgers() if one.closed]
        assert all(last > oldest or last == oldest for last in log[1:])
    warnings = [one for one in caplog.messages if "old states" in one]
    assert len(warnings) == 1


def test_marks_go_when_they_are_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [1000.0]
    monkeypatch.setattr(store_marks.time, "monotonic", lambda: now_s[0])
    with opened(tmp_path / "db", flashback_s=80, checkpoint_interval_s=3600) as database:
        db, marks = Client(database), database.store.marks
        db.run("CREATE TABLE t (id int)")
        seen: list[tuple[float, LSN, int]] = []
        for number in range(100):
            db.run(f"INSERT INTO t VALUES ({number})")
            seen.append((now_s[0], database.store.applied, number + 1))
            database.checkpoint()
            now_s[0] += 5
            assert marks.count <= 11
        monkeypatch.undo()
        for at_s, lsn, count in seen:
            if at_s >= now_s[0] - 80:
                assert db.rows(f"SELECT count(*) FROM t AS OF SYSTEM TIME '{lsn}'") == [(count,)]
        assert db.refused(f"SELECT * FROM t AS OF SYSTEM TIME '{seen[50][1]}'").sqlstate == "72000"


def test_states_that_are_kept_go_with_their_marks(db: Client) -> None:
    past = db.database.tablespace.past
    before = db.now
    db.database.checkpoint()
    db.run("INSERT INTO t VALUES (3, 'c')")
    db.database.checkpoint()
    db.rows(f"SELECT * FROM t AS OF SYSTEM TIME '{before}'")
    assert len(past._kept) == 1
    states = db.database.store.disk.states
    db.database.store.let_go_of_marks()
    assert past._kept == []
    assert db.database.store.disk.states < states
    assert db.refused(f"SELECT * FROM t AS OF SYSTEM TIME '{before}'").sqlstate == "72000"


def test_marks_go_when_there_is_no_space(db: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    database, failed = db.database, threading.Event()
    for number in range(3, 6):
        db.run(f"INSERT INTO t VALUES ({number}, 'c')")
        database.checkpoint()
    marks = database.store.marks
    assert marks.count > 1

    def full() -> None:
        raise lmdb.MapFullError("MDB_MAP_FULL")

    with monkeypatch.context() as patched:
        patched.setattr(database.store, "flush", full)
        patched.setattr(database.checkpointer, "on_progress", failed.set)
        db.run("INSERT INTO t VALUES (6, 'd')")
        database.checkpointer.request()
        assert failed.wait(20)
    assert marks.count == 1
    database.checkpoint()
    assert db.rows("SELECT count(*) FROM t") == [(6,)]


def test_where_workers_answer_the_past_is_read_here(tmp_path: Path) -> None:
    async def run() -> None:
        settings = DatabaseSettings(flashback_s=60)
        database = await ServedDatabase.open(tmp_path / "db", settings, WorkerSettings(maximum=1))
        session = database.session()

        async def rows(sql: str) -> Any:
            return (await database.call(session.execute(sql))).rows

        try:
            await rows("CREATE TABLE t (id int, v int)")
            await rows("INSERT INTO t SELECT g, g % 10 FROM generate_series(1, 20000) g")
            before = database.store.applied
            await rows("UPDATE t SET v = 0")
            await rows("DELETE FROM t WHERE id > 10000")
            question = "SELECT sum(v), count(*), max(id) FROM t"
            assert await rows(question) == [(0, 10_000, 10_000)]
            past = f"{question} AS OF SYSTEM TIME '{before}'"
            assert await rows(past) == [(90_000, 20_000, 20_000)]
            await rows("DROP TABLE t")
            await rows("UNDROP TABLE t")
            assert await rows(question) == [(0, 10_000, 10_000)]
            assert await rows(past) == [(90_000, 20_000, 20_000)]
        finally:
            await database.close()

    asyncio.run(run())


def test_a_moment_is_made_once_for_the_next_statement(db: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    past, before = db.database.tablespace.past, db.now
    db.run("UPDATE t SET v = 'late'")
    read, reads = past.read, []
    assert read is not None
    monkeypatch.setattr(past, "read", lambda after, end: reads.append(after) or read(after, end))
    for _ in range(3):
        assert db.rows(f"SELECT v FROM t AS OF SYSTEM TIME '{before}' WHERE id = 1") == [("a",)]
    assert len(reads) == 1


def test_the_log_is_kept_after_the_oldest_mark(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"flashback_s": 3600, "max_ledger_bytes": 20_000, "log_retention_bytes": 0}
    with opened(tmp_path / "db", checkpoint_interval_s=3600, **settings) as database:
        db = Client(database)
        db.run("CREATE TABLE t (id int, v text)")
        database.checkpoint()
        first = db.now
        for turn in range(8):
            db.run(f"INSERT INTO t SELECT {turn}, repeat('x', 100) FROM generate_series(1, 300)")
            database.checkpoint()
        assert db.rows(f"SELECT count(*) FROM t AS OF SYSTEM TIME '{first}'") == [(0,)]
        ledgers = len(database.log.ledgers())
        database.store.let_go_of_marks()
        database.checkpoint()
        assert len(database.log.ledgers()) < ledgers
