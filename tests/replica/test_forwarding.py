"""``herdpy.forward``: a plain driver with one address, at a server that follows, writes and goes on.

Real servers and bookies. The leader is killed under clients of a follower; what they were answered is held
against what is there in the end.
"""

from __future__ import annotations

import shutil
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import tuple_row

from herdpy.dev import LocalCluster
from herdpy.testing.process import await_until
from tests.pgwire.wire import Wire
from tests.replica.replicas import (
    PATIENCE_S,
    await_follower,
    await_leader,
    await_status,
    followers,
    run,
    server,
)
from tests.server.pgjdbc import run as run_java

SETTINGS = {"cluster.write_quorum": 2, "cluster.ack_quorum": 2}
ROLES = ("leader", "follower")
FORWARD = "-c herdpy.forward=on"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three servers and three bookies; each test leaves the servers running."""
    directory = tmp_path_factory.mktemp("forwarding") / "c"
    with LocalCluster(directory, servers=3, bookies=3, server_settings=SETTINGS) as running:
        leader = await_leader(running)
        run(running, leader, "CREATE TABLE w (id int8 PRIMARY KEY, v text)")
        for node in followers(running, leader):
            await_follower(running, node)
        yield running


@pytest.fixture
def follower(cluster: LocalCluster) -> str:
    """A server that does not lead."""
    return followers(cluster, await_leader(cluster))[0]


def forwarded(cluster: LocalCluster, node: str, *, autocommit: bool = True, user: str = "herdpy") -> Any:
    port = server(cluster, node).sql_port
    dsn = f"host=127.0.0.1 port={port} dbname=herdpy user={user} options='{FORWARD}'"
    return psycopg.connect(dsn, autocommit=autocommit, row_factory=tuple_row)


def test_a_session_without_the_setting_is_refused(cluster: LocalCluster, follower: str) -> None:
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        run(cluster, follower, "INSERT INTO w VALUES (-1, '')")


def test_a_follower_answers_as_the_leader_does(cluster: LocalCluster, follower: str) -> None:
    with forwarded(cluster, follower) as there, forwarded(cluster, await_leader(cluster)) as here:
        for number, connection in enumerate((there, here)):
            assert connection.info.parameter_status("in_hot_standby") == "off"
            with connection.cursor() as cursor:
                cursor.execute(f"CREATE TABLE a{number} (id int8 PRIMARY KEY, v text NOT NULL)".encode())
        answers = [list(_answers(connection, f"a{n}")) for n, connection in enumerate((there, here))]
    for at_follower, at_leader in zip(*answers, strict=True):
        assert repr(at_follower) == repr(at_leader).replace("a1", "a0")


def test_a_role_has_its_sessions_forwarded(cluster: LocalCluster, follower: str) -> None:
    """ALTER ROLE ... SET herdpy.forward: a driver that knows nothing of it writes at a follower."""
    leader = await_leader(cluster)
    run(cluster, leader, "CREATE ROLE app LOGIN", "GRANT ALL ON w TO app")
    run(
        cluster, leader, "ALTER ROLE app SET herdpy.forward = on", "ALTER ROLE app SET my.own = 'of the role'"
    )
    run(cluster, leader, "ALTER ROLE app SET timezone = 'Europe/Berlin'")
    run(cluster, follower, "SELECT count(*) FROM w")  # the follower has applied that
    dsn = f"host=127.0.0.1 port={server(cluster, follower).sql_port} dbname=herdpy user=app"
    with psycopg.connect(dsn, autocommit=True, row_factory=tuple_row) as connection:
        both = "current_setting('my.own') || current_setting('timezone')"
        connection.execute(f"INSERT INTO w VALUES (1250, {both})".encode())
        with connection.transaction():
            connection.execute("DELETE FROM w WHERE id = 1251")  # the rest is the leader's
            connection.execute("SET my.own = 'other'")
            connection.execute("SET timezone = 'UTC'")
            connection.execute("RESET ALL")
            connection.execute(f"INSERT INTO w VALUES (1251, {both})".encode())
        found = connection.execute("SELECT v FROM w WHERE id IN (1250, 1251)").fetchall()
        assert found == [("of the roleEurope/Berlin",)] * 2
        assert connection.info.parameter_status("TimeZone") == "Europe/Berlin"
        connection.execute("ALTER ROLE app RESET ALL")
    run(cluster, follower, "SELECT count(*) FROM w")
    with psycopg.connect(dsn, autocommit=True) as connection, pytest.raises(psycopg.Error) as refused:
        connection.execute("INSERT INTO w VALUES (1252, '')")
    assert refused.value.sqlstate == "25006"
    run(cluster, leader, "REVOKE ALL ON w FROM app", "DROP ROLE app")


STATEMENTS = [
    "INSERT INTO {t} VALUES (1, 'a'), (2, 'b')",
    "INSERT INTO {t} VALUES (3, 'c') RETURNING id, v",
    "INSERT INTO {t} VALUES (1, 'again')",
    "INSERT INTO {t} VALUES (1, 'again') ON CONFLICT (id) DO UPDATE SET v = excluded.v",
    "INSERT INTO {t} VALUES (9, NULL)",
    "UPDATE {t} SET v = v || '!' WHERE id < 3",
    "DELETE FROM {t} WHERE id = 3",
    "SELECT * FROM {t} ORDER BY id",
    "SELECT count(*), max(v) FROM {t}",
    "SELECT * FROM {t} WHERE id = 1 FOR UPDATE",
    "SELECT 1/0",
    "SELECT * FROM nothing_here",
    "INSERT INTO nothing_here VALUES (1)",
    "INSERT INTO {t} (SELECT id + 100, v FROM {t})",
    "BEGIN; INSERT INTO {t} VALUES (50, 'x'); SAVEPOINT s; DELETE FROM {t}; ROLLBACK TO s; COMMIT",
    "ALTER TABLE {t} ADD COLUMN more int4 DEFAULT 7",
    "SELECT * FROM {t} ORDER BY id",
    "CREATE SEQUENCE {t}_s",
    "SELECT nextval('{t}_s'), nextval('{t}_s')",
    "SELECT currval('{t}_s')",
    "SELECT pg_try_advisory_lock(42)",
    "SELECT pg_advisory_unlock(42)",
    "TRUNCATE {t}",
    "EXPLAIN INSERT INTO {t} VALUES (1, '')",
    "CREATE TEMP TABLE {t}_tmp AS SELECT 5 AS five",
    "SELECT * FROM {t}_tmp",
    "MERGE INTO {t} USING (SELECT 1 AS id) s ON {t}.id = s.id WHEN NOT MATCHED "
    "THEN INSERT VALUES (s.id, 'm')",
    "ANALYZE {t}",
    "SET statement_timeout = '7s'",
    "SHOW statement_timeout",
    "CREATE SCHEMA {t}_schema",
    "CREATE TABLE {t}_schema.t (a int4)",
    "INSERT INTO {t}_schema.t VALUES (1)",
    "SET search_path = {t}_schema",
    "SELECT * FROM t",
    "INSERT INTO t VALUES (2) RETURNING a",
    "SELEC 1",
]


def _answers(connection: Any, table: str) -> Iterator[list[object]]:
    """What each statement is answered, by the simple and by the extended protocol, in text and in binary."""
    for statement in STATEMENTS:
        text = statement.format(t=table)
        yield _answer(connection.cursor(), text)
        if ";" not in text and text.startswith(("SELECT", "UPDATE", "SHOW")):
            yield _answer(connection.cursor(binary=True), text)
            yield _answer(psycopg.ClientCursor(connection), text)


def _answer(cursor: Any, text: str) -> list[object]:
    try:
        cursor.execute(text)
    except psycopg.Error as error:
        diag = error.diag
        return [error.sqlstate, diag.message_primary, diag.message_detail, diag.table_name, diag.column_name]
    described = [(one.name, one.type_code, one.display_size) for one in cursor.description or ()]
    return [cursor.statusmessage, described, cursor.fetchall() if cursor.description else None]


def test_drivers_ways_work_at_a_follower(cluster: LocalCluster, follower: str) -> None:
    with forwarded(cluster, follower) as connection:
        cursor = connection.cursor()
        cursor.executemany("INSERT INTO w VALUES (%s, %s)", [(n, "many") for n in range(1000, 1050)])
        assert cursor.rowcount == 50
        with cursor.copy("COPY w FROM STDIN") as copy:
            for number in range(1100, 1120):
                copy.write_row((number, "copied"))
        assert cursor.statusmessage == "COPY 20"
        copied = "SELECT id FROM w WHERE id BETWEEN 1100 AND 1119 ORDER BY id"
        with cursor.copy(f"COPY ({copied}) TO STDOUT".encode()) as copy:
            assert [int(row[0]) for row in copy.rows()] == list(range(1100, 1120))
        with connection.pipeline():
            first = connection.execute("INSERT INTO w VALUES (1200, 'p') RETURNING id")
            second = connection.execute("SELECT count(*) FROM w WHERE id = 1200")
            assert (first.fetchone(), second.fetchone()) == ((1200,), (1,))
        with connection.transaction():
            connection.execute("UPDATE w SET v = 'named' WHERE id = 1200")
            with connection.cursor(name="server_side") as named:
                named.itersize = 7
                named.execute("SELECT id FROM w WHERE id BETWEEN 1000 AND 1019 ORDER BY id")
                assert [row[0] for row in named] == list(range(1000, 1020))
        for _ in range(8):  # from the fifth time on it is prepared
            connection.execute("UPDATE w SET v = %s WHERE id = %s", ("often", 1200))
        connection.execute("PREPARE mine (text) AS UPDATE w SET v = $1 WHERE id = 1200")
        assert connection.execute("EXECUTE mine('by sql')").statusmessage == "UPDATE 1"
        assert connection.execute("SELECT v FROM w WHERE id = 1200").fetchone() == ("by sql",)


@pytest.mark.parametrize("properties", [(), ("prepareThreshold=1",)], ids=["as it comes", "prepared at once"])
def test_a_java_program_finds_at_a_follower_what_it_finds_at_the_leader(
    cluster: LocalCluster, follower: str, tmp_path: Path, properties: tuple[str, ...]
) -> None:
    expected = run_java(server(cluster, await_leader(cluster)).sql_port, "herdpy", tmp_path, *properties)
    assert expected[-1] == "end"
    port = server(cluster, follower).sql_port
    assert run_java(port, "herdpy", tmp_path, f"options={FORWARD}", *properties) == expected


SCRIPT = """
CREATE TABLE p (id int PRIMARY KEY, v text);
INSERT INTO p VALUES (1, 'a') RETURNING *;
\\copy p from stdin
2\tb
3\tc
\\.
BEGIN;
UPDATE p SET v = 'x' WHERE id = 2;
SAVEPOINT a;
INSERT INTO p VALUES (1, 'again');
ROLLBACK TO a;
COMMIT;
SELECT * FROM p ORDER BY id;
\\copy (SELECT * FROM p ORDER BY id) to stdout
INSERT INTO p VALUES (7, '7') \\; SELECT count(*) FROM p;
\\d p
DROP TABLE p;
"""


def test_a_script_of_psql_prints_at_a_follower_what_it_prints_at_the_leader(
    cluster: LocalCluster, follower: str
) -> None:
    program = shutil.which("psql")
    if program is None:
        pytest.skip("psql is not installed")
    printed = []
    for node in (await_leader(cluster), follower):
        port = server(cluster, node).sql_port
        dsn = f"host=127.0.0.1 port={port} dbname=herdpy user=herdpy options='{FORWARD}'"
        done = subprocess.run(
            [program, "-X", "-a", dsn], input=SCRIPT, capture_output=True, text=True, check=False, timeout=60
        )
        printed.append(done.stdout + done.stderr)
    assert "INSERT 0 1" in printed[0]
    assert printed[1] == printed[0]


def test_settings_of_both_ends_are_the_same(cluster: LocalCluster, follower: str) -> None:
    with forwarded(cluster, follower) as connection:
        connection.execute("SET TimeZone = 'Europe/Berlin'")
        connection.execute("SET my.own = 'kept'")
        shown = "INSERT INTO w VALUES (1300, current_setting('my.own') || current_setting('timezone'))"
        connection.execute(shown + " ON CONFLICT (id) DO NOTHING")
        with connection.transaction():
            connection.execute("UPDATE w SET v = v WHERE id = 1300")
            connection.execute("SET TimeZone = 'Asia/Tokyo'")
            connection.execute("SET LOCAL my.own = 'for now'")
            assert connection.info.parameter_status("TimeZone") == "Asia/Tokyo"
        assert connection.execute("SHOW timezone").fetchone() == ("Asia/Tokyo",)
        assert connection.execute("SHOW my.own").fetchone() == ("kept",)
        with connection.transaction(force_rollback=True):
            connection.execute("UPDATE w SET v = v WHERE id = 1300")
            connection.execute("SET TimeZone = 'UTC'")
        assert connection.info.parameter_status("TimeZone") == "Asia/Tokyo"
        row = connection.execute("SELECT v FROM w WHERE id = 1300").fetchone()
        assert row == ("keptEurope/Berlin",)


def test_local_reads_see_what_the_session_wrote(cluster: LocalCluster, follower: str) -> None:
    with forwarded(cluster, follower) as connection:
        connection.execute("SET herdpy.read_level = 'any'")
        for number in range(1400, 1440):
            connection.execute("INSERT INTO w VALUES (%s, 'own')", (number,))
            found = connection.execute("SELECT v FROM w WHERE id = %s", (number,)).fetchone()
            assert found == ("own",)


def test_a_transaction_that_reads_here_first_goes_on_at_the_leader(
    cluster: LocalCluster, follower: str
) -> None:
    with forwarded(cluster, follower) as connection:
        connection.execute("SET herdpy.read_level = 'any'")
        with connection.transaction():
            connection.execute("SELECT count(*) FROM w")
            with connection.transaction():  # a savepoint
                connection.execute("INSERT INTO w VALUES (1500, 'after a read')")
        with connection.transaction():
            connection.execute("SET TRANSACTION READ ONLY")
            with pytest.raises(psycopg.errors.ReadOnlySqlTransaction, match="read-only transaction"):
                connection.execute("INSERT INTO w VALUES (1501, '')")
            raise psycopg.Rollback
        with connection.transaction(force_rollback=True):
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            connection.execute("SELECT count(*) FROM w")
            with pytest.raises(psycopg.errors.ActiveSqlTransaction):
                connection.execute("INSERT INTO w VALUES (1502, '')")
    with forwarded(cluster, follower) as connection:
        found = connection.execute("SELECT id FROM w WHERE id BETWEEN 1500 AND 1510").fetchall()
        assert found == [(1500,)]


def test_a_role_has_its_rights_at_the_leader(cluster: LocalCluster, follower: str) -> None:
    with forwarded(cluster, follower) as connection:
        connection.execute("CREATE ROLE reader LOGIN")
        connection.execute("GRANT SELECT ON w TO reader")
        connection.execute("SELECT 1 FROM w LIMIT 1")
        connection.execute("SET ROLE reader")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("INSERT INTO w VALUES (1600, '')")
        connection.execute("RESET ROLE")
        assert connection.execute("INSERT INTO w VALUES (1600, '')").rowcount == 1


def test_a_forwarded_statement_is_cancelled_and_times_out(cluster: LocalCluster, follower: str) -> None:
    with forwarded(cluster, follower) as connection, forwarded(cluster, await_leader(cluster)) as other:
        connection.execute("INSERT INTO w VALUES (1700, 'locked')")
        with other.transaction():
            other.execute("UPDATE w SET v = 'mine' WHERE id = 1700")
            timer = threading.Timer(0.3, connection.cancel)
            timer.start()
            with pytest.raises(psycopg.errors.QueryCanceled, match="user request"):
                connection.execute("UPDATE w SET v = 'late' WHERE id = 1700")
            timer.join()
            connection.execute("SET statement_timeout = '100ms'")
            with pytest.raises(psycopg.errors.QueryCanceled, match="timeout"):
                connection.execute("UPDATE w SET v = 'late' WHERE id = 1700")
        assert connection.execute("UPDATE w SET v = 'free' WHERE id = 1700").rowcount == 1
        shown = other.execute(
            "SELECT client_port FROM pg_stat_activity WHERE query LIKE 'UPDATE w SET v = ''free''%'"
        ).fetchall()
        with socket.fromfd(connection.fileno(), socket.AF_INET, socket.SOCK_STREAM) as own:
            assert shown == [(own.getsockname()[1],)]


@pytest.mark.parametrize("body", [b"\0" * 32 + b"{}", b""], ids=["a wrong signature", "none"])
def test_a_stranger_forwards_nothing(cluster: LocalCluster, body: bytes) -> None:
    port = server(cluster, await_leader(cluster)).sql_port
    with Wire(("127.0.0.1", port)) as wire:
        wire.send(struct.pack(">II", 24, 0x48440002) + b"n" * 16)
        question = wire.reply()
        assert question is not None
        assert (question.kind, len(question.body)) == ("h", 48)
        wire.send(b"h" + struct.pack(">I", 4 + len(body)) + body)
        refusal = wire.reply()
        assert refusal is not None
        assert (refusal.kind, refusal.fields["C"]) == ("E", "28000")


class Client:
    """Increments a counter of its own by single statements, or in transactions, until it is stopped."""

    def __init__(self, cluster: LocalCluster, node: str, name: str, *, single: bool) -> None:
        self.name = name
        self.done = 0
        self.errors: list[str | None] = []
        self.wrong: list[object] = []
        self._single = single
        self._stop = threading.Event()
        self._connection = forwarded(cluster, node, autocommit=single)
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._connection.close()

    def go_on(self, count: int = 20) -> None:
        goal = self.done + count
        assert await_until(lambda: self.done >= goal or not self._thread.is_alive(), PATIENCE_S)

    def _run(self) -> None:
        statement = "UPDATE counters SET n = n + 1 WHERE name = %s RETURNING n"
        while not self._stop.is_set():
            try:
                row = self._connection.execute(statement, (self.name,)).fetchone()
                if not self._single:
                    self._connection.commit()
            except psycopg.Error as error:
                self.errors.append(error.sqlstate)
                if self._single or error.sqlstate != "40001":
                    self.wrong.append(error)
                    return
                self._connection.rollback()
                continue
            self.done += 1
            if row != (self.done,):
                self.wrong.append((row, self.done))
                return


def _leads_elsewhere(cluster: LocalCluster, node: str) -> str:
    """See to it that another node leads; which."""
    leader = await_leader(cluster)
    if leader != node:
        return leader
    other = followers(cluster, node)[0]
    run(cluster, node, f"ALTER TABLESPACE herdpy SET (leader = '{other}')")
    return await_leader(cluster, other_than=node)


def test_nothing_is_lost_or_doubled_when_leaders_are_killed(cluster: LocalCluster) -> None:
    leader = await_leader(cluster)
    node = followers(cluster, leader)[0]
    clients = [
        Client(cluster, node, "single", single=True),
        Client(cluster, node, "transactions", single=False),
    ]
    with forwarded(cluster, node) as idle:
        idle.execute("CREATE TABLE counters (name text PRIMARY KEY, n int8)")
        for client in clients:
            idle.execute("INSERT INTO counters VALUES (%s, 0)", (client.name,), prepare=True)
            client.start()
        idle.execute("SET application_name = 'patient'")
        try:
            for _round in range(2):
                leader = _leads_elsewhere(cluster, node)
                cluster.kill(leader)
                await_leader(cluster, other_than=leader)
                for client in clients:
                    client.go_on()
                cluster.start(leader)
                await_status(
                    cluster, leader, lambda one: one["role"] in ("leader", "follower"), "is not back"
                )
        finally:
            for client in clients:
                client.stop()
        assert [client.wrong for client in clients] == [[], []]
        rows = dict(idle.execute("SELECT name, n FROM counters").fetchall())
        assert rows == {client.name: client.done for client in clients}
        idle.execute("INSERT INTO counters VALUES (%s, 0)", ("late",), prepare=True)
        assert idle.execute("SHOW application_name").fetchone() == ("patient",)
