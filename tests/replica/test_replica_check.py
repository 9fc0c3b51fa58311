"""CHECK TABLESPACE: replicas are compared at one position; one that differs is found and made anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lmdb
import psycopg
import pytest
from xxhash import xxh3_64_intdigest

from herdpy.dev import LocalCluster
from herdpy.testing.process import await_until
from herdpy_server.store import Store
from tests.replica.replicas import (
    PATIENCE_S,
    assert_equal,
    await_follower,
    await_leader,
    await_status,
    connect,
    followers,
    load,
    replica_status,
    run,
)

CHECK = "CHECK TABLESPACE herdpy"


@pytest.fixture(scope="module", autouse=True)
def table(cluster: LocalCluster) -> None:
    run(
        cluster,
        await_leader(cluster),
        "CREATE TABLE c (id INT PRIMARY KEY, v TEXT)",
        "CREATE INDEX c_v ON c (v)",
        "INSERT INTO c SELECT n, 'v' || n FROM generate_series(1, 2000) AS s (n)",
        "CREATE TABLE empty (id INT PRIMARY KEY)",
    )


def check(cluster: LocalCluster) -> tuple[list[tuple[Any, ...]], list[str]]:
    """The rows of CHECK TABLESPACE, and what else is reported."""
    told: list[str] = []
    with connect(cluster, await_leader(cluster)) as connection:
        connection.add_notice_handler(lambda notice: told.append(str(notice.message_primary)))
        return connection.execute(CHECK).fetchall(), told


def published_state(cluster: LocalCluster, node: str) -> str:
    """The state of a replica as ZooKeeper has it, by which a check knows whose result to wait for."""
    query = f"SELECT state FROM herdpy.replicas WHERE tablespace = 'herdpy' AND node = '{node}'"
    ((state,),) = run(cluster, await_leader(cluster), query)
    return str(state)


def corrupt(directory: Path) -> None:
    """Change a row of table c in a store that is closed, behind its back."""
    with lmdb.open(str(directory), max_dbs=1000, map_size=1 << 30) as env:
        with env.begin() as reading:
            (name,) = [
                key
                for key, _value in reading.cursor()
                if key.startswith(b"t")
                and 2000 <= reading.stat(env.open_db(key, txn=reading))["entries"] < 20_000
            ]
        database = env.open_db(name)
        with env.begin(write=True) as writing:
            cursor = writing.cursor(database)
            assert cursor.first()
            key, value = cursor.item()
            assert writing.put(key, value[:-1] + bytes([value[-1] ^ 1]), db=database)


def test_equal_replicas_are_the_same_under_load(cluster: LocalCluster):
    with load(cluster, "c"):
        rows, told = check(cluster)
    assert not told
    assert {(row[0], row[1]) for row in rows} == {
        (relation, node)
        for relation in ("(definitions)", "t", "c", "c_v", "empty")
        for node in ("server-1", "server-2", "server-3")
    }
    assert all(row[4] for row in rows)
    assert len({row[3] for row in rows if row[0] == "c"}) == 1
    assert {row[2] for row in rows if row[0] == "empty"} == {0}


def test_a_follower_that_differs_is_made_anew(cluster: LocalCluster):
    leader = await_leader(cluster)
    wrong = followers(cluster, leader)[0]
    seedings = 0
    cluster.stop(wrong)
    corrupt(cluster.directory / wrong / "tablespaces" / "herdpy" / "store")
    cluster.start(wrong)
    await_follower(cluster, wrong)
    open_there = connect(cluster, wrong)
    open_there.execute("SET herdpy.read_level = 'any'")
    assert open_there.execute("SELECT count(*) FROM empty").fetchone() == (0,)
    rows, told = check(cluster)
    assert told == [f"the replica on {wrong} differs: it is quarantined, and made anew"]
    assert {(row[0], row[1]) for row in rows if not row[4]} == {("c", wrong)}
    found = await_follower(cluster, wrong, seedings=seedings + 1)
    assert "differs" in found["problem"]
    assert await_until(lambda: published_state(cluster, wrong) == "following", PATIENCE_S)
    with pytest.raises(psycopg.errors.AdminShutdown, match="gets another one's state"):
        open_there.execute("SELECT count(*) FROM empty")
    assert open_there.broken
    rows, told = check(cluster)
    assert all(row[4] for row in rows)
    assert not told
    assert_equal(cluster, "c", [wrong])


def test_a_leader_that_differs_steps_down(cluster: LocalCluster):
    wrong = followers(cluster, await_leader(cluster))[0]
    cluster.stop(wrong)
    corrupt(cluster.directory / wrong / "tablespaces" / "herdpy" / "store")
    cluster.start(wrong)
    await_follower(cluster, wrong)
    run(cluster, wrong, f"ALTER TABLESPACE herdpy LEADER '{wrong}'")
    await_status(cluster, wrong, lambda one: one["role"] == "leader", "leads")
    run(cluster, wrong, "ALTER TABLESPACE herdpy LEADER NONE")
    rows, _told = check(cluster)
    assert {(row[0], row[1]) for row in rows if not row[4]} == {("c", wrong)}
    await_leader(cluster, other_than=wrong)
    await_follower(cluster, wrong, seedings=1)
    rows, told = check(cluster)
    assert all(row[4] for row in rows)
    assert not told


def test_a_replica_that_has_more_than_the_others_is_kept(cluster: LocalCluster):
    leader = await_leader(cluster)
    run(cluster, leader, "CREATE TABLE more (id INT PRIMARY KEY)", "INSERT INTO more VALUES (1), (2), (3)")
    assert_equal(cluster, "more", followers(cluster, leader))
    poorer = followers(cluster, leader)
    for node in poorer:
        cluster.stop(node)
        lose_a_row(cluster.directory / node / "tablespaces" / "herdpy" / "store")
        cluster.start(node)
    for node in poorer:
        await_follower(cluster, node)
    rows, told = check(cluster)
    assert told == [
        f"the replica on {leader} differs, and has rows that the others have not: it is quarantined and"
        f" unchanged until an operator decides"
    ]
    assert {(row[0], row[1], row[2]) for row in rows if not row[4]} == {("more", leader, 3)}
    other = await_leader(cluster, other_than=leader)
    cluster.kill(leader)  # and its next life knows
    cluster.start(leader, wait=False)
    found = await_status(cluster, leader, lambda one: one["state"] == "quarantined", "is not kept")
    assert "has rows that they have not" in found["problem"]
    with pytest.raises(psycopg.OperationalError, match="it is quarantined"):
        run(cluster, leader, "SELECT count(*) FROM more")
    both = ",".join(f"'{one}'" for one in poorer)
    run(cluster, other, f"ALTER TABLESPACE herdpy REPLICAS {both}")
    kept = cluster.directory / leader / "kept"
    assert await_until(lambda: kept.is_dir() and any(kept.iterdir()), PATIENCE_S)
    run(cluster, other, f"ALTER TABLESPACE herdpy REPLICAS {both}, '{leader}'")
    await_follower(cluster, leader, seedings=1)
    rows, told = check(cluster)
    assert all(row[4] for row in rows)
    (path,) = kept.iterdir()
    store = Store.open(path / "store", read_only=True)
    try:
        assert 3 in [count for count, _checksum in store.table_checksums().values()]
    finally:
        store.close()


def lose_a_row(directory: Path) -> None:
    """Take a row of table `more` out of a store that is closed, as if it had never been there."""
    with lmdb.open(str(directory), max_dbs=1000, map_size=1 << 30) as env:
        with env.begin() as reading:
            (name,) = [
                key
                for key, _value in reading.cursor()
                if key.startswith(b"t") and reading.stat(env.open_db(key, txn=reading))["entries"] == 3
            ]
        database, meta = env.open_db(name), env.open_db(b"meta")
        with env.begin(write=True) as writing:
            cursor = writing.cursor(database)
            assert cursor.first()
            key, value = cursor.item()
            assert cursor.delete()
            sums = json.loads(writing.get(b"checksums", db=meta))
            rows, checksum = sums[name[1:].decode()]
            gone = xxh3_64_intdigest(len(key).to_bytes(4, "little") + key + value)
            left = (int(checksum, 16) - gone) & ((1 << 64) - 1)
            sums[name[1:].decode()] = [rows - 1, f"{left:016x}"]
            assert writing.put(b"checksums", json.dumps(sums).encode(), db=meta)


def test_refusals(cluster: LocalCluster):
    leader = await_leader(cluster)
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction, match="does not lead"):
        run(cluster, followers(cluster, leader)[0], CHECK)
    with pytest.raises(psycopg.errors.InvalidCatalogName, match='"nosuch" does not exist'):
        run(cluster, leader, "CHECK TABLESPACE nosuch")
    with pytest.raises(psycopg.errors.ActiveSqlTransaction, match="transaction block"):
        run(cluster, leader, "BEGIN", CHECK)
    with pytest.raises(psycopg.errors.SyntaxError):
        run(cluster, leader, "CHECK TABLESPACE")
    assert replica_status(cluster, leader)["role"] == "leader"
