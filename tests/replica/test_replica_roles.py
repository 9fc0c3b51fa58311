"""Roles and rights hold on every node, after each failover; nodes know each other where none is trusted."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import grpc
import psycopg
import pytest

from herdpy.dev import LocalCluster
from herdpy.rpc import snapshots_pb2, snapshots_pb2_grpc
from herdpy.testing.process import await_until
from tests.replica.changing_rights import HELD, Churn, Watch, held_after
from tests.replica.replicas import PATIENCE_S, await_follower, await_leader, channel, followers, server

PASSWORD = "a long one, and better than that"
RULES = '[{ method = "trust", user = "admin", network = "loopback" }, { method = "scram-sha-256" }]'


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three servers that trust nobody, on this machine neither, but "admin", who is no role."""
    directory = tmp_path_factory.mktemp("roles") / "c"
    settings = {"authentication.rules": RULES, "storage.checkpoint_interval_s": 0.1}
    settings["storage.max_ledger_age_s"] = 1.0
    settings["storage.flashback_s"] = 0.0  # it would keep what is to be trimmed
    with LocalCluster(directory, servers=3, bookies=1, server_settings=settings) as running:
        await_leader(running)
        yield running


def connect(cluster: LocalCluster, node: str, user: str = "admin", password: str | None = None) -> Any:
    """A connection to one node that reads what is there."""
    return psycopg.connect(
        host="127.0.0.1",
        port=server(cluster, node).sql_port,
        dbname="herdpy",
        user=user,
        password=password,
        autocommit=True,
        options="-c herdpy.read_level=any",
    )


def run(cluster: LocalCluster, node: str, statement: str) -> None:
    with connect(cluster, node) as connection:
        connection.execute(statement)


def may_come_in(cluster: LocalCluster, node: str, user: str, password: str = PASSWORD) -> bool:
    """Whether a password opens a session there; other errors than a refusal are raised."""
    try:
        connection = connect(cluster, node, user, password)
    except psycopg.OperationalError as error:
        if "password authentication failed" not in str(error):
            raise
        return False
    with connection:
        assert connection.execute("SELECT current_user").fetchone() == (user,)
    return True


def soon(condition: Any) -> bool:
    return await_until(condition, PATIENCE_S)


def roles(cluster: LocalCluster, node: str) -> set[str]:
    with connect(cluster, node) as connection:
        return {row[0] for row in connection.execute("SELECT rolname FROM pg_roles")} - {"admin"}


def knows_of_closed(cluster: LocalCluster, node: str) -> bool:
    """Whether a node has the role ann, and that she may not read the table "closed"."""
    with connect(cluster, node) as connection:
        known = connection.execute("SELECT to_regrole('ann'), to_regclass('closed')").fetchone()
        return None not in known and not may_read(cluster, node, "closed")


def held(cluster: LocalCluster, node: str) -> Any:
    with connect(cluster, node) as connection:
        return connection.execute(HELD).fetchone()


def is_used(cluster: LocalCluster, node: str) -> bool:
    """Whether a node knows that ann may read the table "used"."""
    query = "SELECT 1 FROM information_schema.table_privileges WHERE grantee = 'ann' AND table_name = 'used'"
    with connect(cluster, node) as connection:
        return connection.execute(query).fetchone() is not None


def may_read(cluster: LocalCluster, node: str, table: str) -> bool:
    """Whether ann gets rows of a table from a node."""
    with connect(cluster, node, "ann", PASSWORD) as connection:
        try:
            connection.execute(f"SELECT a FROM {table}")
        except psycopg.errors.InsufficientPrivilege:
            return False
    return True


def test_roles_and_rights_hold_after_the_leader_is_killed_while_they_change(guarded: LocalCluster) -> None:
    """What was acknowledged holds; what was not happened wholly or not at all; nothing comes back."""
    leader = await_leader(guarded)
    run(guarded, leader, f"CREATE ROLE ann LOGIN PASSWORD '{PASSWORD}'")
    run(guarded, leader, f"CREATE ROLE bob LOGIN PASSWORD '{PASSWORD}'")
    run(guarded, leader, "CREATE ROLE eve LOGIN PASSWORD 'weak'")
    run(guarded, leader, "DROP ROLE bob")
    run(guarded, leader, f"ALTER ROLE eve PASSWORD '{PASSWORD}'")
    for statement in (
        "CREATE ROLE crew",
        "CREATE TABLE told (a int)",
        "CREATE TABLE closed (a int)",
        "GRANT SELECT ON closed TO ann",
        "REVOKE SELECT ON closed FROM ann",
    ):
        run(guarded, leader, statement)
    for node in followers(guarded, leader):
        assert soon(lambda node=node: knows_of_closed(guarded, node))
    watch = Watch(lambda node: connect(guarded, node, "ann", PASSWORD), [leader, *followers(guarded, leader)])
    churn = Churn(connect(guarded, leader))
    watch.start()
    churn.start()
    try:
        assert churn.going.wait(PATIENCE_S)
        guarded.kill(leader)
        churn.join(PATIENCE_S)
        new = await_leader(guarded, other_than=leader)
        found = held(guarded, new)
        assert found in [held_after(churn.done), held_after(churn.done + 1)]
        assert may_read(guarded, new, "told") == found[0]
        assert not may_read(guarded, new, "closed")
        assert roles(guarded, new) >= {"ann", "eve", "crew"}
        assert may_come_in(guarded, new, "ann")
        assert may_come_in(guarded, new, "eve")
        assert not may_come_in(guarded, new, "eve", "weak")
        assert not may_come_in(guarded, new, "bob")
        run(guarded, new, "DROP ROLE eve")
    finally:
        guarded.start(leader)
        await_follower(guarded, leader)
        watch.end()
    assert (watch.rows, watch.others) == (0, [])
    assert watch.refused > 0
    assert soon(lambda: "eve" not in roles(guarded, leader))
    assert soon(lambda: held(guarded, leader) == found)
    assert not may_come_in(guarded, leader, "eve")
    assert may_come_in(guarded, leader, "ann")
    assert not may_read(guarded, leader, "closed")
    for node in (leader, new):
        files = [path for path in (guarded.directory / node).rglob("*") if path.is_file()]
        assert all(PASSWORD.encode() not in path.read_bytes() for path in files)


def test_a_follower_names_the_leader_instead(guarded: LocalCluster) -> None:
    leader = await_leader(guarded)
    run(guarded, leader, "CREATE TABLE IF NOT EXISTS used (id INT PRIMARY KEY)")
    run(guarded, leader, "GRANT SELECT ON used TO ann")  # for which the leader would not drop her
    other = followers(guarded, leader)[0]
    assert soon(lambda: is_used(guarded, other))
    for statement in ("CREATE ROLE tom", "DROP ROLE IF EXISTS ann", "ALTER ROLE ann NOLOGIN"):
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction, match="does not lead") as caught:
            run(guarded, other, statement)
        assert leader in (caught.value.diag.message_detail or "")
    with connect(guarded, leader) as connection:
        with pytest.raises(psycopg.errors.DuplicateObject):
            connection.execute("CREATE ROLE ann")
        with pytest.raises(psycopg.errors.UndefinedObject):
            connection.execute("ALTER ROLE nobody LOGIN")


def test_a_new_replica_gets_them_with_the_snapshot(guarded: LocalCluster) -> None:
    """From nodes that trust no address: those that prove to be of the cluster may take it."""
    leader = await_leader(guarded)
    run(guarded, leader, f"CREATE ROLE uma LOGIN PASSWORD '{PASSWORD}'")
    new = followers(guarded, leader)[0]
    assert soon(lambda: roles(guarded, new) >= {"uma"})
    guarded.stop(new)
    shutil.rmtree(guarded.directory / new)
    with connect(guarded, leader) as connection:
        connection.execute("ALTER TABLESPACE herdpy SET (retention = '0s', retention_bytes = 0)")
        connection.execute("CREATE TABLE IF NOT EXISTS filler (id INT PRIMARY KEY)")

        def trimmed() -> bool:
            connection.execute("INSERT INTO filler SELECT count(*) FROM filler")
            return oldest() > first

        def oldest() -> int:
            rows = connection.execute("SELECT min(ledger_id) FROM herdpy.ledgers").fetchall()
            return int(rows[0][0])

        first = oldest()
        assert soon(trimmed)
    guarded.start(new, wait=False)
    await_follower(guarded, new, seedings=1)
    assert may_come_in(guarded, new, "uma")


def test_who_does_not_prove_to_be_a_node_gets_no_snapshot(guarded: LocalCluster) -> None:
    leader = await_leader(guarded)
    for metadata in ((), (("authorization", "HerdPy-Node server-9 0 00"),)):
        with channel(guarded, leader) as opened:
            stub: Any = snapshots_pb2_grpc.SnapshotsStub(opened)
            with pytest.raises(grpc.RpcError) as caught:
                stub.Describe(snapshots_pb2.SnapshotId(id="x"), metadata=metadata, timeout=20)
            assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
