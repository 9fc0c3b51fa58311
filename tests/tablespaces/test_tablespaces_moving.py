"""Leaders that move, nodes that are lost, tablespaces that go: what clients see, and what is left behind."""

from __future__ import annotations

import os
import subprocess
import threading
from collections import Counter

import psycopg
import pytest

import herdpy
from herdpy.testing.process import await_until
from tests.tablespaces.world import PATIENCE_S

WRITERS = 4
NOT_DONE = frozenset({"25006", "40001", "HP003", "57P01", "57P03"})


class Writer(threading.Thread):
    """Inserts numbers, each until it is certain that it was done, or not certain whether it was."""

    def __init__(self, world, name, number, stop):
        super().__init__(name=f"writer {number}")
        self._world, self._name, self._number, self._stop_writing = world, name, number, stop
        self.acknowledged: list[int] = []
        self.unknown: list[int] = []
        self.errors: Counter[str] = Counter()
        self.refused = 0
        self.failure: BaseException | None = None

    def run(self):
        try:
            self._write()
        except BaseException as error:  # noqa: BLE001 - reported by the test
            self.failure = error

    def _write(self):
        conn, value = None, self._number * 1_000_000
        while not self._stop_writing.is_set():
            if conn is None:
                conn = self._world.leader_session(self._name)
            try:
                conn.execute("INSERT INTO t VALUES (%s)", (value,))
                self.acknowledged.append(value)
                value += 1
            except psycopg.Error as error:
                if error.sqlstate in NOT_DONE:
                    self.refused += 1  # the same number again
                else:
                    self.unknown.append(value)
                    self.errors[str(error)] += 1
                    value += 1
                conn.close()
                conn = None
        if conn is not None:
            conn.close()


@pytest.fixture
def written(world, made):
    """A tablespace of three replicas with a table without a key: it would hold a row twice."""
    name = made("WITH (replicas = 'server-1,server-2,server-3', leader = 'server-1')")
    with world.leader_session(name) as conn:
        conn.execute("CREATE TABLE t (value BIGINT)")
    return name


def under_load(world, name, during):
    """The writers' numbers after ``during`` has run beside them: acknowledged, unknown, refused."""
    stop = threading.Event()
    writers = [Writer(world, name, number, stop) for number in range(1, WRITERS + 1)]
    for writer in writers:
        writer.start()
    try:
        assert await_until(lambda: all(writer.acknowledged for writer in writers), PATIENCE_S)
        during(writers)
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    assert [writer.failure for writer in writers] == [None] * WRITERS
    print(*(writer.errors for writer in writers), sep="\n")  # what was not certain, should the test fail
    return (
        [value for writer in writers for value in writer.acknowledged],
        [value for writer in writers for value in writer.unknown],
        sum(writer.refused for writer in writers),
    )


def rows_of(world, name):
    with world.leader_session(name) as conn:
        conn.execute("SET herdpy.engine = 'own'")
        return Counter(value for (value,) in conn.execute("SELECT value FROM t").fetchall())


def test_moving_the_leader_under_load_loses_and_doubles_nothing(world, written):
    def move(writers):
        for node in ("server-2", "server-3", "server-1", "server-2"):
            world.run(f"ALTER TABLESPACE {written} LEADER '{node}'")
            before = [len(writer.acknowledged) for writer in writers]
            assert await_until(
                lambda before=before: all(
                    len(writer.acknowledged) > count for writer, count in zip(writers, before, strict=True)
                ),
                PATIENCE_S,
            )

    acknowledged, unknown, refused = under_load(world, written, move)
    found = rows_of(world, written)
    assert unknown == []  # what is under way is finished before another leads
    assert refused > 0
    assert found == Counter(acknowledged)
    epochs = world.rows(f"SELECT epoch FROM herdpy.tablespaces WHERE name = '{written}'")
    assert epochs == [{"epoch": 5}]


def test_a_leader_that_is_killed_loses_and_doubles_nothing_and_clients_find_the_next(world, written):
    def kill(writers):
        world.cluster.kill("server-1")
        before = [len(writer.acknowledged) for writer in writers]
        assert await_until(
            lambda: all(
                len(writer.acknowledged) > count for writer, count in zip(writers, before, strict=True)
            ),
            PATIENCE_S,
        )

    try:
        acknowledged, unknown, _refused = under_load(world, written, kill)
        found = rows_of(world, written)
        assert not Counter(acknowledged) - found
        assert not found - Counter(acknowledged) - Counter(unknown)
    finally:
        world.restart("server-1")


def test_lost_replicas_are_replaced_on_other_nodes(world, made):
    name = made("WITH (replicas = 'server-2,server-3', leader = 'server-2')")
    with world.leader_session(name) as conn:
        conn.execute("CREATE TABLE t (id INT PRIMARY KEY)")
        conn.execute("INSERT INTO t VALUES (1)")
    world.cluster.kill("server-3")
    try:
        rows = world.await_rows(
            f"SELECT node, state FROM herdpy.replicas WHERE tablespace = '{name}' AND node <> 'server-3'",
            lambda rows: sorted(row["state"] for row in rows) == ["following", "leading"],
        )
        (new,) = [row["node"] for row in rows if row["state"] == "following"]
        assert new in ("server-1", "server-4")
        with world.connect(new, database=name) as conn:
            conn.execute("SET herdpy.read_level = 'bounded'")
            assert conn.execute("SELECT id FROM t WHERE id = 1").fetchone() == (1,)
    finally:
        world.restart("server-3")
    # The one that was away is notified that its replica is somewhere else now.
    place = world.cluster.directory / "server-3" / "tablespaces" / name
    assert await_until(lambda: not place.exists(), PATIENCE_S)


def test_a_dropped_tablespace_leaves_nothing(world, made):
    name = made("WITH (replicas = 'server-1,server-2,server-4', leader = 'server-4', retention_bytes = 0)")
    with world.leader_session(name) as conn:
        conn.execute("CREATE TABLE t (id INT PRIMARY KEY, v TEXT)")
    world.run(f"ALTER TABLESPACE {name} LEADER 'server-1'")
    world.await_states(name, {"server-1": "leading", "server-2": "following", "server-4": "following"})
    with world.leader_session(name) as conn:
        # More than the past may cost, so that the log before it need not be kept.
        conn.execute("INSERT INTO t SELECT g, repeat('x', 1000) FROM generate_series(1, 6000) g")
    # The first ledger is trimmed: no longer in the list, and not deleted while its leader may ask for it.
    query = f"SELECT epoch FROM herdpy.ledgers WHERE tablespace = '{name}'"
    world.await_rows(query, lambda rows: rows == [{"epoch": 2}])
    assert len(world.ledgers(name)) >= 2  # and those that followers keep ready for their terms
    assert len(world.directories(name)) == 3
    world.run(f"DROP TABLESPACE {name}")
    assert world.ledgers(name) == []
    assert not world.znodes(name)
    assert await_until(lambda: world.directories(name) == [], PATIENCE_S)
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        world.connect(database=name)


def test_a_node_that_was_away_removes_its_replica_when_it_is_back(world, made):
    name = made("WITH (replicas = 'server-2,server-4', leader = 'server-2')")
    world.await_states(name, {"server-2": "leading", "server-4": "following"})
    world.cluster.kill("server-4")
    try:
        world.run(f"DROP TABLESPACE {name}")
        assert [path.parts[-3] for path in world.directories(name)][-1:] == ["server-4"]
    finally:
        world.restart("server-4")
    assert await_until(lambda: world.directories(name) == [], PATIENCE_S)


def test_a_name_can_be_used_again(world, made):
    name = made("WITH (expected_replicas = 2)")
    with world.leader_session(name) as conn:
        conn.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    world.run(f"DROP TABLESPACE {name}")
    world.run(f"CREATE TABLESPACE {name} WITH (expected_replicas = 2)")
    with world.leader_session(name) as conn:
        assert conn.execute("SELECT name FROM herdpy.tables").fetchall() == []


def test_the_client_of_a_dropped_tablespace_is_told(world, made):
    name = made("WITH (expected_replicas = 2)")
    with world.leader_session(name) as conn:
        conn.execute("CREATE TABLE t (id INT PRIMARY KEY)")
        world.run(f"DROP TABLESPACE {name}")
        with pytest.raises(psycopg.OperationalError) as raised:
            conn.execute("INSERT INTO t VALUES (1)")
        assert raised.value.sqlstate == "57P01"
        assert f"tablespace {name}" in str(raised.value)


def test_the_client_of_a_leader_that_moved_is_told_where_to(world, made):
    name = made("WITH (replicas = 'server-1,server-2', leader = 'server-1')")
    with world.connect("server-1", database=name) as conn:
        conn.execute("CREATE TABLE t (id INT PRIMARY KEY)")
        conn.execute("BEGIN")
        conn.execute("INSERT INTO t VALUES (1)")
        world.run(f"ALTER TABLESPACE {name} LEADER 'server-2'")
        with pytest.raises(psycopg.errors.SerializationFailure, match="leader of the tablespace changed"):
            conn.execute("COMMIT")
        with pytest.raises(psycopg.Error) as raised:
            conn.execute("INSERT INTO t VALUES (1)")
        assert raised.value.sqlstate == "25006"
        assert "server-2" in str(raised.value.diag.message_detail)
        assert str(world.ports["server-2"]) in str(raised.value.diag.message_hint)
    with world.connect("server-2", database=name) as conn:
        assert conn.execute("SELECT id FROM t WHERE id = 1").fetchone() is None


def test_programs_of_libpq_find_the_leader_unaided(world, made):
    name = made("WITH (replicas = 'server-3,server-4', leader = 'server-3')")
    for node in ("server-3", "server-4"):
        world.run(f"ALTER TABLESPACE {name} LEADER '{node}'")
        where = world.where(attrs="read-write")
        environment = {
            **os.environ, "PGHOST": where["host"], "PGPORT": where["port"], "PGUSER": "ann",
            "PGDATABASE": name, "PGTARGETSESSIONATTRS": "read-write",
        }  # fmt: skip
        script = "DROP TABLE IF EXISTS t; CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1)"
        subprocess.run(["psql", "-qXc", script], env=environment, check=True, capture_output=True)
        shown = subprocess.run(
            ["pgbench", "-n", "-t", "3", "-f", "/dev/stdin"], input="UPDATE t SET id = id + 1;\n",
            env=environment, check=True, capture_output=True, text=True,
        )  # fmt: skip
        assert "number of transactions actually processed: 3/3" in shown.stdout
        listed = subprocess.run(
            ["psql", "-XAtc", "\\l"], env=environment, check=True, capture_output=True, text=True
        )
        names = {line.split("|")[0] for line in listed.stdout.splitlines() if "|" in line}
        assert {name, "herdpy"} <= names


def test_the_driver_goes_on_when_the_leader_moves(world, made):
    name = made("WITH (replicas = 'server-1,server-4', leader = 'server-1')")
    with herdpy.connect(world.url(name), autocommit=True) as conn:
        conn.execute("CREATE TABLE t (id INT PRIMARY KEY)")
        for value, node in enumerate(("server-4", "server-1", "server-4")):
            world.run(f"ALTER TABLESPACE {name} LEADER '{node}'")
            conn.execute("INSERT INTO t VALUES ($1)", (value,))
        assert conn.execute("SELECT id FROM t ORDER BY id").fetchall() == [(0,), (1,), (2,)]
