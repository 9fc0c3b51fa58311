"""A backup comes into a running cluster: one server has it on its disk, leads, and seeds the others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psycopg
import pytest
from msgspec import structs
from typer.testing import CliRunner, Result

from herdpy.backup.manifest import (
    ClusterManifest,
    ClusterMember,
    LogRecord,
    read_catalog,
    write_cluster,
    write_manifest,
)
from herdpy.backup.repository import Repository
from herdpy.cli.app import app
from herdpy.dev import LocalCluster
from herdpy.log.entry import START_CRC, LogEntry, decode_entry, encode_entry, encode_part
from herdpy.log.lsn import LSN, START
from herdpy.testing.process import await_until
from herdpy_server.backup import adopting
from tests.backup.restore_histories import BackupMaker, History, history_of
from tests.replica.replicas import PATIENCE_S, await_leader, replica_status, run, server

MADE = [
    "CREATE TABLE item (id serial PRIMARY KEY, v text)",
    "INSERT INTO item (v) SELECT 'v' || g FROM generate_series(1, 500) g",
    "CREATE TABLE other AS SELECT 1 AS x",
    "DELETE FROM item WHERE id > 400",
]
OLD_LEDGER = 5_000_000_000
"""Ledger ids of the old cluster: far above those of the new one."""


def renumbered(history: History) -> None:
    """The same entries, in ledgers as a BookKeeper of many years has."""
    found: list[LogEntry] = []
    before, crc = START, START_CRC
    for entry in history.entries:
        lsn = LSN(OLD_LEDGER + entry.lsn.ledger_id, entry.lsn.entry_id)
        parts = [encode_part(one.data) for one in entry.parts]
        data, crc = encode_entry(lsn, before, crc, lsn.entry_id - 1, parts)
        found.append(decode_entry(data))
        before = lsn
    history.entries = found


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cluster's backup of two tablespaces with tables of the same names."""
    place = tmp_path_factory.mktemp("origin")
    opened = Repository.create(str(place / "repo"))
    members = []
    for number, name in enumerate(("first", "second")):
        history = history_of(place / name, [*MADE, f"UPDATE item SET v = '{name}' WHERE id <= 10"])
        renumbered(history)
        record = LogRecord(name, f"{number}" * 32, 1)
        maker = BackupMaker(opened, history, place / f"{name} stores", record.log_id, record)
        settings = {
            "expected_replicas": 2,
            "ensemble": 5,
            "write_quorum": 3,
            "ack_quorum": 2,
            "retention_s": 60.0,
        }
        made = maker.back_up(history.entries[1].lsn, history.entries[-1].lsn)
        write_manifest(opened, structs.replace(made, tablespace=name, settings=settings))
        members.append(ClusterMember(name, maker.log_id, made.id))
    write_cluster(opened, ClusterManifest("20260101T000000Z-abcdef", 1, tuple(members)))
    return place / "repo"


def restore(
    cluster: LocalCluster, repository: Path, name: str, node: str, *more: str, code: int = 0
) -> Result:
    url = f"herdpy+zk://{cluster.zookeeper}/herdpy" + (f"?tablespace={name}" if name else "")
    where = ["--node", str(cluster.directory / node)]
    done = CliRunner().invoke(app, ["restore", str(repository), url, *where, *more])
    assert done.exit_code == code, f"{done.stdout}\n{done.stderr}\n{done.exception!r}"
    return done


def query(cluster: LocalCluster, node: str, tablespace: str, text: str) -> Any:
    port = server(cluster, node).sql_port
    address = f"host=127.0.0.1 port={port} dbname={tablespace} user=herdpy"
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("SET herdpy.read_level = 'any'")
        return connection.execute(text.encode()).fetchall()


def await_replicas(cluster: LocalCluster, tablespace: str, count: int) -> list[str]:
    """The nodes that lead or follow, the leader first, when there are so many."""
    found: dict[str, str] = {}

    def fits() -> bool:
        found.clear()
        for one in cluster.status().servers:
            status = replica_status(cluster, one.id, tablespace)
            if status.get("role") in ("leader", "follower"):
                found[one.id] = status["role"]
        return len(found) == count and "leader" in found.values()

    assert await_until(fits, PATIENCE_S), found
    return sorted(found, key=lambda node: found[node] != "leader")


def await_rows(cluster: LocalCluster, node: str, tablespace: str, expected: list[Any]) -> None:
    """Wait until the node has so many rows, and so many that say of which tablespace they are."""
    counted = f"SELECT count(*), count(*) FILTER (WHERE v = '{tablespace}') FROM item"
    assert await_until(lambda: query(cluster, node, tablespace, counted) == expected, PATIENCE_S)


def test_a_cluster_gets_all_tablespaces_of_another(
    cluster: LocalCluster, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = cluster.status().servers[0].id

    async def dies(*_arguments: Any, **_more: Any) -> None:
        raise OSError("the machine went away")

    for owner, name in (
        (adopting, "publish"),
        (adopting.Tablespaces, "create"),
        (adopting.ZnodeLedgerList, "write"),
        (adopting.Tablespaces, "alter"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, dies)
            assert "went away" in restore(cluster, repository, "", node, code=1).stderr
    done = restore(cluster, repository, "", node, "--json")
    assert "an entry has 1 copies, and had 3" in done.stderr
    facts = json.loads(done.stdout)
    assert [(one["tablespace"], one["leader"]) for one in facts] == [("first", node), ("second", node)]
    assert {(one["expected_replicas"], one["ensemble"], one["write_quorum"]) for one in facts} == {(2, 1, 1)}
    for name in ("first", "second"):
        leader, follower = await_replicas(cluster, name, 2)
        assert leader == node
        (row,) = query(cluster, leader, name, "INSERT INTO item (v) VALUES ('new') RETURNING id")
        assert row == (501,)
        for one in (leader, follower):
            await_rows(cluster, one, name, [(401, 10)])
        applied = LSN.parse(replica_status(cluster, leader, name)["applied"])
        assert applied.ledger_id > OLD_LEDGER
    again = restore(cluster, repository, "first", node, "--tablespace", "first", code=1).stderr
    assert "was restored here already" in again
    assert "nothing is left" in again
    other = restore(cluster, repository, "herdpy", node, "--tablespace", "first", code=1).stderr
    assert "42710" in other


def test_one_tablespace_comes_under_another_name(cluster: LocalCluster, repository: Path) -> None:
    node = cluster.status().servers[1].id
    options = ("--tablespace", "second", "--to-lsn", f"{OLD_LEDGER + 3}:0")
    shown = json.loads(restore(cluster, repository, "third", node, *options, "--dry-run", "--json").stdout)
    assert shown["tablespace"] == "second"
    restore(cluster, repository, "third", node, *options)
    leader, _follower = await_replicas(cluster, "third", 2)
    rows = query(cluster, leader, "third", "SELECT count(*), count(*) FILTER (WHERE v = 'second') FROM item")
    assert rows in ([(400, 0)], [(500, 0)])
    wrong = restore(cluster, repository, "fourth", "nowhere", "--tablespace", "second", code=1).stderr
    assert "is not the data directory of a node" in wrong
    query(cluster, leader, "third", "INSERT INTO item (v) VALUES ('branched') RETURNING id")
    port = server(cluster, leader).sql_port
    done = CliRunner().invoke(
        app, ["backup", f"herdpy://herdpy@127.0.0.1:{port}/third", "--to", str(repository)]
    )
    assert done.exit_code == 0, done.stderr
    records = read_catalog(Repository.open(str(repository))).logs
    (record,) = [one for one in records.values() if one.tablespace == "third"]
    assert (record.parent, record.branched) == ("1" * 32, f"{OLD_LEDGER + 3}:0")
    restore(cluster, repository, "fourth", node, "--tablespace", "third")
    leader, _follower = await_replicas(cluster, "fourth", 2)
    assert query(cluster, leader, "fourth", "SELECT count(*) FROM item WHERE v = 'branched'") == [(1,)]
    herdpy_leader = await_leader(cluster)
    run(cluster, herdpy_leader, "DROP TABLESPACE third", "DROP TABLESPACE fourth")
