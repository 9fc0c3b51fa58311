"""Partitions in the log, over restarts, beside other transactions, and by every way that rows come in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

import herdpy
from herdpy.log.records import DropTable
from herdpy.log.wait import run_blocking
from herdpy_server.embedded import Database, opened
from herdpy_server.loading.load import BulkLoad, LoadMode
from herdpy_server.tablespace.locks import LockWait
from herdpy_sql.errors import SqlError
from tests.sessions.stepping import ask, until
from tests.support.server_process import RunningServer

MAKE = (
    "CREATE TABLE t (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)",
    "CREATE INDEX ON t (v)",
    "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (100)",
    "CREATE TABLE t2 PARTITION OF t FOR VALUES FROM (100) TO (200)",
)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with opened(tmp_path / "db", flashback_s=3600) as database:
        session = database.session()
        for one in MAKE:
            ask(session, one)
        ask(session, "INSERT INTO t SELECT i, 'v' || i % 7 FROM generate_series(0, 199) AS s (i)")
        yield database


def refused(session: Any, sql: str) -> SqlError:
    with pytest.raises(SqlError) as refusal:
        ask(session, sql)
    return refusal.value


@pytest.mark.parametrize("checkpoint", [False, True])
def test_recovery_has_definitions_and_rows(tmp_path: Path, *, checkpoint: bool) -> None:
    with opened(tmp_path / "db") as database:
        session = database.session()
        for one in MAKE:
            ask(session, one)
        ask(session, "INSERT INTO t VALUES (1, 'a'), (150, 'b')")
        if checkpoint:
            ask(session, "CHECKPOINT")
        ask(session, "UPDATE t SET id = 151 WHERE id = 1")
    with opened(tmp_path / "db") as database:
        session = database.session()
        assert ask(session, "SELECT * FROM t2 ORDER BY id") == [(150, "b"), (151, "a")]
        assert ask(session, "SELECT id FROM t WHERE v = 'a'") == [(151,)]
        ask(session, "INSERT INTO t VALUES (2, 'c')")
        assert ask(session, "SELECT id FROM t1") == [(2,)]
        assert refused(session, "INSERT INTO t VALUES (200, 'd')").sqlstate == "23514"


def test_the_drop_of_a_partition_is_one_record(database: Database) -> None:
    session = database.session()
    ask(session, "BEGIN")
    ask(session, "DROP TABLE t1")
    assert session.transaction is not None
    records = session.transaction.workspace.records
    assert [type(one) for one in records] == [DropTable]
    ask(session, "COMMIT")
    assert ask(session, "SELECT count(*), min(id) FROM t") == [(100, 100)]


def test_a_snapshot_reads_partitions_as_they_were(database: Database) -> None:
    one, other = database.session(), database.session()
    ask(one, "BEGIN ISOLATION LEVEL REPEATABLE READ")
    assert ask(one, "SELECT count(*) FROM t") == [(200,)]
    ask(other, "DELETE FROM t WHERE id < 50")
    ask(other, "INSERT INTO t VALUES (10, 'new')")
    ask(other, "CREATE TABLE t3 PARTITION OF t FOR VALUES FROM (200) TO (300)")
    ask(other, "INSERT INTO t VALUES (250, 'third')")
    assert ask(one, "SELECT count(*) FROM t") == [(200,)]
    assert ask(one, "SELECT v FROM t WHERE id = 10") == [("v3",)]
    assert ask(one, "SELECT * FROM t WHERE id = 250") == []
    assert refused(one, "UPDATE t SET v = 'mine' WHERE id = 10").sqlstate == "40001"
    ask(one, "ROLLBACK")
    ask(one, "BEGIN ISOLATION LEVEL SERIALIZABLE")
    ask(one, "UPDATE t SET id = 11, v = 'moved' WHERE id = 150")
    ask(one, "DELETE FROM t WHERE id = 151")
    ask(one, "INSERT INTO t VALUES (12, 'x'), (152000 % 1000, 'y') ON CONFLICT DO NOTHING")
    ask(one, "COMMIT")
    assert ask(one, "SELECT id FROM t WHERE id IN (11, 12, 150, 151) ORDER BY id") == [(11,), (12,)]


def test_a_row_that_is_locked_keeps_others_waiting(database: Database) -> None:
    one, other = database.session(), database.session()
    ask(one, "BEGIN")
    ask(one, "SELECT * FROM t WHERE id = 5 FOR UPDATE")
    steps = other.execute("UPDATE t1 SET v = 'direct' WHERE id = 5")
    wait = until(steps, LockWait)
    ask(one, "UPDATE t SET v = 'first' WHERE id = 5")
    ask(one, "COMMIT")
    wait.block()
    assert run_blocking(steps).rowcount == 1
    assert ask(one, "SELECT v FROM t WHERE id = 5") == [("direct",)]
    assert ask(one, "SELECT id FROM t WHERE id < 3 FOR UPDATE SKIP LOCKED") == [(0,), (1,), (2,)]


def test_who_waits_for_a_definition_meets_the_new_one(database: Database) -> None:
    """A partition that is detached, or made, while an INSERT waits."""
    one, other = database.session(), database.session()
    ask(one, "CREATE TABLE rest PARTITION OF t DEFAULT")
    ask(one, "BEGIN")
    ask(one, "CREATE TABLE t3 PARTITION OF t FOR VALUES FROM (200) TO (300)")
    steps = other.execute("INSERT INTO t VALUES (250, 'where')")
    wait = until(steps, LockWait)
    ask(one, "COMMIT")
    wait.block()
    assert run_blocking(steps).rowcount == 1
    assert ask(one, "SELECT id FROM t3") == [(250,)]
    assert ask(one, "SELECT id FROM rest") == []


def test_a_plan_that_is_kept_sees_new_partitions(database: Database) -> None:
    one, other = database.session(), database.session()
    for engine in ("own", "columnar"):
        ask(one, f"SET herdpy.engine = '{engine}'")
        ask(one, f"PREPARE q{engine} AS SELECT id FROM t WHERE id >= 198 ORDER BY id")
        assert ask(one, f"EXECUTE q{engine}") == [(198,), (199,)]
    ask(other, "CREATE TABLE t3 PARTITION OF t FOR VALUES FROM (200) TO (300)")
    ask(other, "INSERT INTO t VALUES (200, 'new')")
    for engine in ("own", "columnar"):
        assert ask(one, f"EXECUTE q{engine}") == [(198,), (199,), (200,)]
    ask(other, "ALTER TABLE t DETACH PARTITION t3")
    for engine in ("own", "columnar"):
        assert ask(one, f"EXECUTE q{engine}") == [(198,), (199,)]


def test_an_error_in_a_load_leaves_nothing(database: Database) -> None:
    session = database.session()
    assert refused(
        session, "INSERT INTO t SELECT i, 'x' FROM generate_series(150, 400) AS s (i)"
    ).sqlstate in {
        "23505",
        "23514",
    }
    rows = "INSERT INTO t1 SELECT i + 50, 'x' FROM generate_series(1000, 1400) AS s (i)"
    assert refused(session, rows).sqlstate == "23514"
    assert ask(session, "SELECT count(*) FROM t") == [(200,)]


def test_explain_names_the_partitions_that_are_read(database: Database) -> None:
    session = database.session()

    def plan(sql: str) -> str:
        return "\n".join(line for (line,) in ask(session, f"EXPLAIN {sql}"))

    assert "Partitions: t1 of 2" in plan("SELECT * FROM t WHERE id > 10 AND id < 20")
    assert "Partitions: none of 2" in plan("SELECT * FROM t WHERE id > 1000 AND id < 2000")
    grouped = plan("SELECT v, count(*) FROM t WHERE id >= 120 GROUP BY v")
    assert "Arrow Scan on t2" in grouped
    assert "Arrow Scan on t1" not in grouped
    assert "Partitions: t2 of 2" in plan("DELETE FROM t WHERE id >= 120")


def test_the_past_has_its_partitions(database: Database) -> None:
    session = database.session()
    ((then,),) = ask(session, "SELECT clock_timestamp()::text")
    ask(session, "DROP TABLE t1")
    ask(session, "UPDATE t SET v = 'now'")
    assert ask(session, f"SELECT count(*) FROM t AS OF SYSTEM TIME '{then}'") == [(200,)]
    assert ask(session, f"SELECT count(*) FROM t AS OF SYSTEM TIME '{then}' WHERE v = 'now'") == [(0,)]
    ask(session, "UNDROP TABLE t1")
    assert ask(session, "SELECT count(*) FROM t1") == [(100,)]
    assert ask(session, "SELECT count(*) FROM t") == [(100,)]
    ask(session, "ALTER TABLE t ATTACH PARTITION t1 FOR VALUES FROM (0) TO (100)")
    assert ask(session, "SELECT count(*) FROM t") == [(200,)]
    assert ask(session, "SELECT id FROM t WHERE v = 'v3' ORDER BY id LIMIT 2") == [(3,), (10,)]


@pytest.mark.parametrize(
    ("sql", "sqlstate"),
    [
        ("SELECT * FROM ONLY t", "0A000"),
        ("DELETE FROM ONLY t", "0A000"),
        ("SELECT * FROM t TABLESAMPLE BERNOULLI (50)", "0A000"),
        ("CREATE TABLE c (id int REFERENCES t)", "0A000"),
        ("CREATE TABLE c (id int REFERENCES t1)", "0A000"),
        ("ALTER TABLE t ADD FOREIGN KEY (id) REFERENCES t1", "0A000"),
        ("ALTER TABLE t1 ADD FOREIGN KEY (id) REFERENCES t1", "0A000"),
        ("ALTER TABLE t1 ADD CHECK (id > 0)", "0A000"),
        ("ALTER TABLE t DROP CONSTRAINT t_pkey", "0A000"),
        ("ALTER TABLE t1 DROP CONSTRAINT t1_pkey", "0A000"),
        ("ALTER TABLE t ADD COLUMN s serial", "0A000"),
        ("ALTER TABLE ONLY t ADD COLUMN s int", "0A000"),
        ("ALTER TABLE t DETACH PARTITION t1 CONCURRENTLY", "0A000"),
        ("CREATE TABLE x PARTITION OF t FOR VALUES FROM (300) TO (400) PARTITION BY RANGE (id)", "0A000"),
        ("CREATE TABLE x PARTITION OF t (v DEFAULT 'x') FOR VALUES FROM (300) TO (400)", "0A000"),
        ("CREATE TEMP TABLE x PARTITION OF t FOR VALUES FROM (300) TO (400)", "0A000"),
        ("CREATE TEMP TABLE x (id int) PARTITION BY RANGE (id)", "0A000"),
        ("CREATE TABLE x (id int) PARTITION BY RANGE ((id + 1))", "0A000"),
        ("CREATE INDEX ON t1 (lower(v))", "0A000"),
        ("CREATE TABLE x PARTITION OF t FOR VALUES FROM (now()) TO (400)", "42804"),
        ("CREATE TABLE x PARTITION OF t FOR VALUES WITH (MODULUS 99999999999, REMAINDER 0)", "42P16"),
    ],
)
def test_what_is_refused_leaves_the_connection_usable(database: Database, sql: str, sqlstate: str) -> None:
    session = database.session()
    assert refused(session, sql).sqlstate == sqlstate
    assert ask(session, "SELECT count(*) FROM t") == [(200,)]


def test_a_schema_takes_partitions_in_other_schemas_with_it(database: Database) -> None:
    session = database.session()
    ask(session, "CREATE SCHEMA s")
    ask(session, "CREATE TABLE s.t (id int PRIMARY KEY) PARTITION BY RANGE (id)")
    ask(session, "CREATE TABLE elsewhere PARTITION OF s.t FOR VALUES FROM (0) TO (10)")
    ask(session, "INSERT INTO s.t VALUES (5)")
    ask(session, "DROP SCHEMA s CASCADE")
    assert ask(session, "SELECT to_regclass('elsewhere')") == [(None,)]


def test_there_may_be_so_many_partitions(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("herdpy_sql.plan.partitions.MAX_PARTITIONS", 2)
    session = database.session()
    error = refused(session, "CREATE TABLE t3 PARTITION OF t FOR VALUES FROM (300) TO (400)")
    assert (error.sqlstate, error.message) == ("54000", "tables can have at most 2 partitions")
    ask(session, "CREATE TABLE alone (id int PRIMARY KEY, v text)")
    attach = "ALTER TABLE t ATTACH PARTITION alone FOR VALUES FROM (300) TO (400)"
    assert refused(session, attach).sqlstate == "54000"


def test_servers_that_know_no_partitions_meet_none(database: Database) -> None:
    session = database.session()
    database.tablespace.store.level = lambda: 1
    for sql in (
        "CREATE TABLE p (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE t3 PARTITION OF t FOR VALUES FROM (300) TO (400)",
    ):
        assert refused(session, sql).sqlstate == "0A000"
    ask(session, "CREATE TABLE plain (id int PRIMARY KEY)")


def test_a_staged_load_does_not_pass_the_bounds_by(database: Database) -> None:
    for table in ("t", "t1"):
        with pytest.raises(SqlError) as refusal:
            BulkLoad("one", table, LoadMode.APPEND).find(database.session().catalog)
        assert refusal.value.sqlstate == "0A000"


def test_what_replaces_tables_does_not_replace_partitions(tmp_path: Path) -> None:
    data = pa.table({"id": pa.array([150], pa.int32()), "v": ["x"]})
    with herdpy.connect(tmp_path / "db", autocommit=True) as connection:
        cursor = connection.cursor()
        for one in MAKE:
            cursor.execute(one)
        for table in ("t", "t1"):
            with pytest.raises(herdpy.NotSupportedError):
                cursor.adbc_ingest(table, data, mode="replace")
        assert cursor.adbc_ingest("t", data, mode="append") == 1
        with pytest.raises(herdpy.IntegrityError):
            cursor.adbc_ingest("t1", data, mode="append")
        cursor.execute("SELECT id FROM t2")
        assert cursor.fetchall() == [(150,)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    running = RunningServer(tmp_path_factory.mktemp("partitions") / "data").ready()
    yield running
    running.close()


def test_every_way_in(server: RunningServer) -> None:
    with server.connect() as connection:
        for one in MAKE:
            connection.execute(one)
        with connection.cursor() as cursor:
            with cursor.copy("COPY t FROM STDIN") as copy:
                for id_ in range(0, 200, 2):
                    copy.write_row((id_, f"c{id_}"))
            cursor.executemany(
                "INSERT INTO t VALUES (%s, %s)", [(id_, f"e{id_}") for id_ in range(1, 199, 2)]
            )
            for _ in range(8):  # until it is prepared, and once it is
                cursor.execute("INSERT INTO t VALUES (199, 'p') ON CONFLICT (id) DO UPDATE SET v = 'q'")
                cursor.execute("UPDATE t SET v = %s WHERE id = %s", ("u", 10), prepare=True)
                cursor.execute("SELECT v FROM t WHERE id = %s", (10,), prepare=True)
                assert cursor.fetchall() == [("u",)]
                cursor.execute("DELETE FROM t WHERE id = %s", (11,), prepare=True)
                cursor.execute("INSERT INTO t VALUES (%s, %s)", (11, "back"), prepare=True)
            with pytest.raises(psycopg.errors.CheckViolation), cursor.copy("COPY t1 FROM STDIN") as copy:
                copy.write_row((100, "not here"))
            with pytest.raises(psycopg.errors.CheckViolation), cursor.copy("COPY t FROM STDIN") as copy:
                copy.write_row((1000, "nowhere"))
            with pytest.raises(psycopg.errors.WrongObjectType), cursor.copy("COPY t TO STDOUT"):
                pass
            cursor.execute("SELECT count(*), count(DISTINCT id) FROM t")
            assert cursor.fetchall() == [(200, 200)]
            cursor.execute("SELECT count(*) FROM t1")
            assert cursor.fetchall() == [(100,)]
            cursor.execute("ANALYZE t")
            cursor.execute("SELECT v FROM t WHERE id = 11")
            assert cursor.fetchall() == [("back",)]
            cursor.execute("DROP TABLE t")


def test_rights_are_those_of_the_table_that_is_named(server: RunningServer) -> None:
    with server.connect() as connection:
        for one in MAKE:
            connection.execute(one)
        connection.execute("INSERT INTO t VALUES (1, 'a')")
        connection.execute("CREATE ROLE reader")
        connection.execute("GRANT SELECT ON t TO reader")
        connection.execute("SET ROLE reader")
        assert connection.execute("SELECT v FROM t WHERE id = 1").fetchall() == [("a",)]
        assert connection.execute("SELECT count(*) FROM t GROUP BY v").fetchall() == [(1,)]
        for sql in ("SELECT * FROM t1", "INSERT INTO t VALUES (2, 'b')", "DELETE FROM t"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(sql)
        connection.execute("RESET ROLE")
        connection.execute("DROP TABLE t")
        connection.execute("DROP ROLE reader")
