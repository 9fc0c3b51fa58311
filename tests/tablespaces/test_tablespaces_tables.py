"""The tables of schema herdpy on a cluster, on a database alone, and while ZooKeeper does not answer."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import psycopg
import pytest

import herdpy
from herdpy.bookkeeper.errors import ZooKeeperUnavailableError
from herdpy.bookkeeper.metadata.znodes import NoNodeError, Znode
from herdpy_server.cluster.layout import Layout, encode
from herdpy_server.cluster.tablespaces import TablespaceInfo
from herdpy_server.replica.facts import ClusterFacts
from herdpy_sql.errors import SqlError
from herdpy_sql.system_relations import HERDPY, relations

NAMES = sorted(name for schema, name in relations() if schema == HERDPY)


@pytest.fixture(scope="module")
def sales(world):
    world.run("CREATE TABLESPACE sales WITH (replicas = 'server-1,server-2', leader = 'server-1')")
    with world.leader_session("sales") as conn:
        conn.execute("CREATE TABLE city (id INT PRIMARY KEY, name TEXT NOT NULL DEFAULT 'x', size BIGINT)")
        conn.execute("CREATE UNIQUE INDEX city_name ON city (name, size DESC)")
    yield "sales"
    world.run("DROP TABLESPACE IF EXISTS sales")


@pytest.mark.parametrize("name", NAMES)
def test_each_is_answered_by_every_replica(world, sales, name):
    for node in ("server-1", "server-2"):
        world.rows(f"SELECT * FROM herdpy.{name}", node, database=sales)


def test_what_is_in_the_tablespace(world, sales):
    assert world.rows(
        "SELECT name, columns, key, indexes FROM herdpy.tables", "server-1", database=sales
    ) == [{"name": "city", "columns": 3, "key": "id", "indexes": 2}]
    query = "SELECT name, type, not_null, default_value, key_position FROM herdpy.columns ORDER BY position"
    assert [tuple(row.values()) for row in world.rows(query, "server-1", database=sales)] == [
        ("id", "integer", True, None, 1),
        ("name", "text", True, "'x'::text", None),
        ("size", "bigint", False, None, None),
    ]
    query = "SELECT name, columns, is_unique, is_key FROM herdpy.indexes ORDER BY name"
    assert [tuple(row.values()) for row in world.rows(query, "server-1", database=sales)] == [
        ("city_name", "name, size", True, False),
        ("city_pkey", "id", True, True),
    ]


def test_where_it_is(world, sales):
    world.await_states(sales, {"server-1": "leading", "server-2": "following"})
    query = f"""
        SELECT r.node, r.is_leader, r.lag_entries, n.sql_address
        FROM herdpy.replicas r JOIN herdpy.nodes n USING (node) WHERE r.tablespace = '{sales}' ORDER BY 1
    """
    assert [tuple(row.values()) for row in world.rows(query)] == [
        ("server-1", True, 0, f"127.0.0.1:{world.ports['server-1']}"),
        ("server-2", False, 0, f"127.0.0.1:{world.ports['server-2']}"),
    ]
    (status,) = world.rows(
        f"SELECT * FROM herdpy.log_status WHERE tablespace = '{sales}'", "server-1", database=sales
    )
    assert (status["node"], status["state"], status["lease_is_valid"]) == ("server-1", "leading", True)
    assert (status["leader"], status["problem"]) == ("server-1", None)
    ledgers = world.rows(f"SELECT * FROM herdpy.ledgers WHERE tablespace = '{sales}'")
    assert [(row["state"], row["epoch"], row["node"]) for row in ledgers] == [("open", 1, "server-1")]
    (bookie,) = world.rows("SELECT bookie, state, open_ledgers > 0 AS is_used FROM herdpy.bookies")
    assert (bookie["state"], bookie["is_used"]) == ("writable", True)
    assert [(row["kept_by"], row["bookies"]) for row in ledgers] == [("open", bookie["bookie"])]


def test_replication_as_postgresql_shows_it(world, sales):
    world.await_states(sales, {"server-1": "leading", "server-2": "following"})
    query = """
        SELECT application_name, client_addr, client_port, state, sync_state,
        replay_lsn = pg_current_wal_lsn() AS is_applied FROM pg_stat_replication
    """
    wanted = [("server-2", "127.0.0.1", world.ports["server-2"], "streaming", "async", True)]

    def fits(rows):
        return [tuple(row.values()) for row in rows] == wanted

    world.await_rows(query, fits, "server-1", database=sales)
    assert world.rows(query.replace("pg_current_wal_lsn()", "''"), "server-2", database=sales) == []
    (receiver,) = world.rows(
        "SELECT status, sender_port, written_lsn = pg_last_wal_replay_lsn() AS is_applied"
        " FROM pg_stat_wal_receiver",
        "server-2",
        database=sales,
    )
    assert receiver == {"status": "streaming", "sender_port": world.ports["server-1"], "is_applied": True}
    assert world.rows("SELECT * FROM pg_stat_wal_receiver", "server-1", database=sales) == []
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
        world.rows("SELECT pg_current_wal_lsn()", "server-2", database=sales)


def test_what_keeps_a_ledger(world, made):
    name = made("WITH (leader = 'server-1', replicas = 'server-1,server-2', expected_replicas = 2)")
    world.await_states(name, {"server-1": "leading", "server-2": "following"})
    world.run(f"ALTER TABLESPACE {name} SET (leader = 'server-2')")
    world.await_states(name, {"server-2": "leading", "server-1": "following"})
    query = f"SELECT kept_by FROM herdpy.ledgers WHERE tablespace = '{name}' ORDER BY ledger_id"
    closed, open_ledger = [row["kept_by"] for row in world.rows(query)]
    assert closed.startswith("retention")
    assert open_ledger == "open"


def test_who_is_connected_and_what_is_open(world, sales):
    with world.leader_session(sales) as conn:
        conn.execute("BEGIN")
        conn.execute("INSERT INTO city VALUES (1), (2)")
        pid = conn.info.backend_pid
        query = f"SELECT tablespace, user_name, state, changes FROM herdpy.transactions WHERE pid = {pid}"
        assert world.rows(query, "server-1", database=sales) == [
            {"tablespace": sales, "user_name": "ann", "state": "idle in transaction", "changes": 2}
        ]
        sessions = world.rows("SELECT pid, tablespace, state FROM herdpy.sessions", "server-1")
        assert {row["tablespace"] for row in sessions} == {sales, "herdpy"}
        conn.execute("ROLLBACK")


def test_others_see_only_that_one_is_there(world, sales):
    with (
        world.role("curious", "server-1"),
        world.leader_session(sales),
        world.connect("server-1", user="curious") as conn,
    ):
        for query in (
            "SELECT query, state FROM herdpy.sessions WHERE user_name = 'ann'",
            "SELECT query, state FROM pg_stat_activity WHERE usename = 'ann'",
        ):
            assert set(conn.execute(query.encode()).fetchall()) == {("<insufficient privilege>", None)}
        own = conn.execute("SELECT state FROM herdpy.sessions WHERE user_name = 'curious'").fetchall()
        assert own == [("active",)]


def test_settings_are_the_sessions_and_the_servers(world):
    query = (
        "SELECT scope, value, is_changeable FROM herdpy.settings WHERE name IN ('timezone', 'cluster.node')"
    )
    found = world.rows(query + " ORDER BY scope", "server-2")
    assert [row["scope"] for row in found] == ["server", "session"]
    assert found[0]["value"] == '"server-2"'
    assert (found[0]["is_changeable"], found[1]["is_changeable"]) == (False, True)


def test_nothing_can_be_written_there(world):
    with world.leader_session("herdpy") as conn:
        for statement in (
            "INSERT INTO herdpy.nodes VALUES ('x')", "DELETE FROM herdpy.replicas", "DROP TABLE herdpy.nodes",
            "CREATE TABLE herdpy.mine (id INT)",
        ):  # fmt: skip
            with pytest.raises(psycopg.Error) as raised:
                conn.execute(statement.encode())
            assert raised.value.sqlstate in {"42501", "3F000"}
        with pytest.raises(psycopg.errors.UndefinedTable):
            conn.execute("SELECT * FROM herdpy.nothing")


def test_a_database_alone_has_one_tablespace(tmp_path):
    with herdpy.connect(tmp_path / "db", autocommit=True) as conn:
        conn.execute("CREATE TABLE t (id INT PRIMARY KEY)")
        counts = {}
        for name in NAMES:
            counts[name] = len(conn.execute(f"SELECT * FROM herdpy.{name}").fetchall())
        assert (counts["tablespaces"], counts["log_status"], counts["ledgers"]) == (1, 1, 1)
        assert (counts["nodes"], counts["replicas"]) == (0, 0)
        assert counts["sessions"] == 1
        row = conn.execute("SELECT name, state, leader FROM herdpy.tablespaces").fetchone()
        assert row == ("herdpy", "alone", None)


# ZooKeeper away.


class Znodes:
    """Holds nothing, until it does not answer."""

    def __init__(self):
        self.answers = True

    async def children(self, path):
        self._look()
        return ["t"] if path == "/herdpy/tablespaces" else []

    async def exists(self, path):
        self._look()
        if path == "/herdpy/tablespaces/t":
            return Znode(encode(TablespaceInfo(name="t", uuid="1", replicas=("a", "b"))), 0, 0, 1)
        return None

    async def get(self, path):
        self._look()
        raise NoNodeError(path)

    def _look(self):
        if not self.answers:
            raise ZooKeeperUnavailableError("it is away")


def facts_over(znodes):
    """Of a node that knows of one tablespace and of itself."""
    record = SimpleNamespace(sql=None, grpc=None, http=None, version="1", started_us=0)
    coordination = SimpleNamespace(
        layout=Layout("/herdpy"),
        membership=SimpleNamespace(nodes={"a": record}),
    )
    bookies = {"usable_bookies": lambda: frozenset("x"), "writable_bookies": lambda: frozenset("xy")}
    host = SimpleNamespace(node="a", bk=SimpleNamespace(znodes=znodes, **bookies), coordination=coordination)
    return ClusterFacts(host, {})


def test_what_was_heard_last_is_said_with_a_warning_while_zookeeper_is_away():
    async def scenario():
        znodes = Znodes()
        facts = facts_over(znodes)
        first, remark = await facts.read()
        assert remark is None
        states = [(row["node"], row["state"], row["is_leader"]) for row in first["replicas"]]
        assert states == [("a", "starting", False), ("b", "away", False)]
        assert first["tablespaces"][0]["state"] == "without leader"
        assert [(row["bookie"], row["state"]) for row in first["bookies"]] == [
            ("x", "writable"),
            ("y", "failing"),
        ]
        znodes.answers = False
        again, remark = await facts.read()
        assert again["replicas"] == first["replicas"]
        assert remark is not None
        assert (remark.severity, remark.sqlstate) == ("WARNING", "01000")
        assert "it is away" in remark.text
        znodes.answers = True
        _facts, remark = await facts.read()
        assert remark is None
        await facts.close()

    asyncio.run(scenario())


def test_who_never_heard_anything_says_so():
    async def scenario():
        znodes = Znodes()
        znodes.answers = False
        facts = facts_over(znodes)
        with pytest.raises(SqlError) as raised:
            await facts.read()
        assert raised.value.sqlstate == "08001"
        await facts.close()

    asyncio.run(scenario())
