"""Backups of a cluster, made by a follower while clients write, define and load, and while nodes die."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import herdpy
from herdpy.backup.manifest import BackupManifest, read_catalog, read_cluster
from herdpy.backup.repository import Repository
from herdpy.dev import LocalCluster
from herdpy.testing.process import await_until
from tests.replica.replicas import PATIENCE_S, await_follower, await_leader, followers, load, run, server
from tests.replica.test_replica_loads import ROWS, _load
from tests.support.backups import put_together


def command(cluster: LocalCluster, *arguments: object) -> list[str]:
    """The command line of a backup of the cluster, which is named by all of its servers."""
    places = ",".join(f"127.0.0.1:{one.sql_port}" for one in cluster.status().servers)
    url = f"herdpy://herdpy@{places}/herdpy"
    return [sys.executable, "-m", "herdpy.cli", "backup", url, *map(str, arguments), "--json"]


def backup(cluster: LocalCluster, *arguments: object) -> Any:
    done = subprocess.run(
        command(cluster, *arguments), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


@contextmanager
def slow(cluster: LocalCluster, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A backup that takes a few seconds."""
    line = command(cluster, *arguments, "--rate", "30KB", "--jobs", "1")
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def manifest_of(repository: Repository, backup_id: str) -> BackupManifest:
    return next(one for one in read_catalog(repository).backups if one.id == backup_id)


def rows(path: Path, sql: str) -> list[Any]:
    with herdpy.connect(str(path)) as connection:
        return connection.execute(sql).fetchall()


def test_a_follower_backs_up_what_clients_were_answered(cluster: LocalCluster, tmp_path: Path) -> None:
    leader = await_leader(cluster)
    run(
        cluster,
        leader,
        "CREATE TABLE backed (id INT PRIMARY KEY, v TEXT)",
        "CREATE ROLE keeper",
        "GRANT SELECT ON backed TO keeper",
    )
    to = tmp_path / "repository"
    found = []
    with load(cluster, "backed") as made:
        for number in range(2):
            run(cluster, leader, f"CREATE TABLE more{number} AS SELECT {number} AS n")
            least = set(made.acknowledged)
            found.append((least, backup(cluster, "--to", to)))
    run(cluster, leader, "DROP TABLE more0, more1")
    assert found[0][1]["kind"] == "full"
    assert [one["parent"] for _, one in found] == [None, found[0][1]["id"]]
    assert {one["node"] for _, one in found} <= set(followers(cluster, leader))
    repository = Repository.open(str(to))
    for number, (least, one) in enumerate(found):
        copy = put_together(repository, manifest_of(repository, one["id"]), tmp_path / one["id"])
        assert least <= {key for (key,) in rows(copy, "SELECT id FROM backed")}
        assert rows(copy, f"SELECT n FROM more{number}") == [(number,)]
        assert rows(copy, "SELECT count(*) FROM t") == [(20_000,)]
    run(cluster, leader, "DROP TABLE backed", "DROP ROLE keeper")
    settings = manifest_of(repository, found[0][1]["id"]).settings
    assert (settings["retention_s"], settings["write_quorum"]) == (0.0, 1)
    assert sorted(settings["replicas"]) == sorted(one.id for one in cluster.status().servers)


def test_rows_of_loads_are_in_an_increment(cluster: LocalCluster, tmp_path: Path) -> None:
    leader = await_leader(cluster)
    to = tmp_path / "repository"
    run(cluster, leader, "ALTER TABLESPACE herdpy SET (retention_bytes = 268435456)")
    try:
        assert backup(cluster, "--to", to)["kind"] == "full"
        run(
            cluster, leader, "DROP TABLE IF EXISTS loaded", "CREATE TABLE loaded (id INT PRIMARY KEY, v TEXT)"
        )
        _load(cluster, leader, "backed up")
        made = backup(cluster, "--to", to, "--tablespace", "herdpy")
        assert made["kind"] == "log"
    finally:
        run(cluster, leader, "ALTER TABLESPACE herdpy SET (retention_bytes = 0)")
    repository = Repository.open(str(to))
    copy = put_together(repository, manifest_of(repository, made["id"]), tmp_path / "copy")
    assert rows(copy, "SELECT count(*) FROM loaded") == [(ROWS,)]
    run(cluster, leader, "DROP TABLE loaded")


@pytest.mark.soak  # it goes slowly, so that there is a middle
def test_a_backup_goes_on_over_a_failover(cluster: LocalCluster, tmp_path: Path) -> None:
    leader = await_leader(cluster)
    run(cluster, leader, "CREATE TABLE over (id INT PRIMARY KEY, v TEXT)")
    with load(cluster, "over") as before:
        pass
    to = tmp_path / "repository"
    with slow(cluster, "--to", to) as process:
        assert await_until(lambda: any(to.glob("logs/*/backups/*/*")), PATIENCE_S)
        cluster.kill(leader)
        try:
            new = await_leader(cluster, other_than=leader)
            run(cluster, new, "ALTER TABLE over ADD COLUMN late INT DEFAULT 7")
            with load(cluster, "over (id, v)") as after:
                pass
            out, notes = process.communicate(timeout=120)
        finally:
            cluster.start(leader)
            await_follower(cluster, leader)
        assert process.returncode == 0, out + notes
    made = [json.loads(out), backup(cluster, "--to", to)]
    repository = Repository.open(str(to))
    copies = [
        put_together(repository, manifest_of(repository, one["id"]), tmp_path / one["id"]) for one in made
    ]
    found = [{key for (key,) in rows(copy, "SELECT id FROM over")} for copy in copies]
    assert set(before.acknowledged) <= found[0]
    assert {*before.acknowledged, *after.acknowledged} <= found[1]
    assert rows(copies[1], "SELECT DISTINCT late FROM over") == [(7,)]
    run(cluster, await_leader(cluster), "DROP TABLE over")


@pytest.mark.soak  # it goes slowly, so that there is a middle
def test_all_tablespaces_and_a_node_that_dies_in_the_middle(cluster: LocalCluster, tmp_path: Path) -> None:
    leader = await_leader(cluster)
    run(cluster, leader, "CREATE TABLESPACE aside")
    to = tmp_path / "repository"
    first = min(followers(cluster, leader))
    with slow(cluster, "--to", to, "--all") as process:
        assert await_until(lambda: any(to.glob("logs/*/backups/*/*")), PATIENCE_S)
        cluster.kill(first)
        try:
            out, notes = process.communicate(timeout=120)
        finally:
            cluster.start(first)
            await_follower(cluster, first)
        assert process.returncode == 0, out + notes
    found = json.loads(out)
    assert "Trying on" in notes
    assert {one["tablespace"] for one in found["backups"]} == {"herdpy", "aside"}
    repository = Repository.open(str(to))
    joined = read_cluster(repository, found["cluster"])
    assert {one.backup for one in joined.members} == {one["id"] for one in found["backups"]}
    (ours,) = [one for one in found["backups"] if one["tablespace"] == "herdpy"]
    copy = put_together(repository, manifest_of(repository, ours["id"]), tmp_path / "copy")
    assert rows(copy, "SELECT count(*) FROM t") == [(20_000,)]
    run(cluster, await_leader(cluster), "DROP TABLESPACE aside")
    assert server(cluster, first) is not None
