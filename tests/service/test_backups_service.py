"""Backups that a server makes by itself: over gRPC, and by ``herdpy backup``."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from typer.testing import CliRunner

import herdpy
from herdpy.backup.manifest import BackupManifest, read_catalog, read_cluster
from herdpy.backup.repository import Repository, new_key_file, read_key
from herdpy.cli.app import app
from herdpy.rpc import backups_pb2
from herdpy_server.service.backups import MAX_BACKUPS
from tests.service.calls import TIMEOUT_S, backups, basic, refused, run
from tests.support.backups import put_together
from tests.support.server_process import RunningServer

Make = backups_pb2.MakeBackupRequest


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("backups")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[RunningServer]:
    """One that has a repository and its key, and keeps no more of the log than it must."""
    new_key_file(folder / "key")
    running = RunningServer(
        folder / "data",
        *("--set", f"backup.url={folder / 'own'}", "--set", f"backup.key_file={folder / 'key'}"),
        *("--set", "storage.log_retention_bytes=0", "--set", "backup.archive_interval_s=0"),
        *("--set", f"grpc.port={free_port()}"),
    ).ready()
    run(running, "CREATE TABLE t (x int PRIMARY KEY, s text)")
    run(running, "CREATE ROLE herdpy LOGIN SUPERUSER", "CREATE ROLE guest LOGIN PASSWORD 'x'")
    run(running, "CREATE ROLE copier LOGIN REPLICATION PASSWORD 'x'")
    yield running
    running.close()


def make(channel: grpc.Channel, **request: Any) -> Any:
    """The backup that a call was answered with."""
    *_, last = backups(channel).Make(Make(**request), timeout=TIMEOUT_S)
    assert last.read_bytes <= last.total_bytes
    return last.done


def command(*arguments: object, code: int = 0) -> Any:
    """``herdpy backup``, in this process."""
    done = CliRunner().invoke(app, ["backup", *map(str, arguments)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.stdout + done.stderr
    return done


def manifest_of(repository: Repository, backup: str) -> BackupManifest:
    return next(one for one in read_catalog(repository).backups if one.id == backup)


def rows(path: Path, sql: str) -> list[Any]:
    with herdpy.connect(str(path)) as connection:
        return connection.execute(sql).fetchall()


def test_a_server_makes_backups_into_its_own_repository(
    server: RunningServer, channel: grpc.Channel, folder: Path, tmp_path: Path
) -> None:
    run(server, "INSERT INTO t VALUES (1, 'Zebrafish')")
    first = make(channel)
    run(server, "INSERT INTO t VALUES (2, 'Quagga')", "CREATE TABLE u AS SELECT 5 AS five")
    second = make(channel)
    assert (first.kind, second.parent) == ("full", first.id)
    assert (first.url, first.node) == (str(folder / "own"), "")
    repository = Repository.open(str(folder / "own"), read_key(folder / "key"))
    copies = [
        put_together(repository, manifest_of(repository, one.id), tmp_path / one.id)
        for one in (first, second)
    ]
    assert rows(copies[0], "SELECT * FROM t") == [(1, "Zebrafish")]
    assert rows(copies[1], "SELECT * FROM t ORDER BY x") == [(1, "Zebrafish"), (2, "Quagga")]
    assert rows(copies[1], "SELECT five FROM u") == [(5,)]
    files = manifest_of(repository, second.id).files
    assert b"copier" in files["users.json"]
    for file in (folder / "own").rglob("*"):
        assert file.is_dir() or b"Zebrafish" not in file.read_bytes()


def test_a_backup_while_clients_write_has_what_they_were_answered(
    server: RunningServer, channel: grpc.Channel, tmp_path: Path
) -> None:
    run(server, "CREATE TABLE w (n int PRIMARY KEY)")
    done: list[int] = []
    enough, stop = threading.Event(), threading.Event()

    def write() -> None:
        with server.connect(user="herdpy", autocommit=True) as connection:
            while not stop.is_set():
                connection.execute("INSERT INTO w VALUES (%s)", (len(done),))
                done.append(1)
                if len(done) >= 200:
                    enough.set()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        assert enough.wait(TIMEOUT_S)
        found = []
        for _ in range(3):
            least = len(done)
            found.append((least, make(channel, url=str(tmp_path / "repository"))))
    finally:
        stop.set()
        thread.join()
    repository = Repository.open(str(tmp_path / "repository"), read_key(server.data.parent / "key"))
    for least, one in found:
        copy = put_together(repository, manifest_of(repository, one.id), tmp_path / one.id)
        numbers = [n for (n,) in rows(copy, "SELECT n FROM w ORDER BY n")]
        assert numbers == list(range(len(numbers)))
        assert len(numbers) >= least


def test_who_may_not_and_what_makes_no_sense_is_refused(
    server: RunningServer, channel: grpc.Channel, tmp_path: Path
) -> None:
    stub = backups(channel)

    def made(metadata: Any = (), **request: Any) -> Any:
        return lambda: list(stub.Make(Make(**request), timeout=TIMEOUT_S, metadata=metadata))

    assert refused(made(basic("guest", "x")))[:2] == (grpc.StatusCode.PERMISSION_DENIED, "42501")
    join = backups_pb2.JoinBackupsRequest()
    guest = basic("guest", "x")
    assert refused(lambda: stub.Join(join, timeout=TIMEOUT_S, metadata=guest))[1] == "42501"
    assert refused(lambda: stub.Join(join, timeout=TIMEOUT_S))[1] == "22023"
    assert refused(made(tablespace="no"))[1] == "3D000"
    assert refused(made(jobs=65))[:2] == (grpc.StatusCode.INVALID_ARGUMENT, "22023")
    assert refused(made(scope=9))[1] == "22023"
    _code, state, text = refused(made(url=str(tmp_path / "fresh"), scope=backups_pb2.BACKUP_SCOPE_INCREMENT))
    assert (state, "no backup of this log to continue" in text) == ("55000", True)
    (tmp_path / "file").write_text("in the way")
    assert refused(made(url=str(tmp_path / "file" / "below")))[1] == "58030"
    Repository.create(str(tmp_path / "other"), bytes(32))
    assert "the key is not the one" in refused(made(url=str(tmp_path / "other")))[2]
    assert list(stub.Make(Make(url=str(tmp_path / "may")), timeout=TIMEOUT_S, metadata=basic("copier", "x")))


def test_another_repository_that_is_not_encrypted_stays_so(channel: grpc.Channel, tmp_path: Path) -> None:
    repository = Repository.create(str(tmp_path / "plain"))
    made = make(channel, url=repository.url, scope=backups_pb2.BACKUP_SCOPE_FULL, jobs=1, rate_bytes=1 << 30)
    assert manifest_of(repository, made.id).kind == "full"
    joined = backups(channel).Join(
        backups_pb2.JoinBackupsRequest(url=repository.url, backups=[made]), timeout=TIMEOUT_S
    )
    assert [one.backup for one in read_cluster(repository, joined.id).members] == [made.id]


def test_a_call_that_is_given_up_leaves_no_backup_and_no_process(
    server: RunningServer, channel: grpc.Channel, tmp_path: Path
) -> None:
    url = str(tmp_path / "slow")
    run(server, "CREATE TABLE big AS SELECT g AS n, md5(g::text) AS v FROM generate_series(1, 30000) g")
    run(server, "CHECKPOINT")
    slow = Make(url=url, rate_bytes=1000, jobs=1)
    calls = [backups(channel).Make(slow, timeout=TIMEOUT_S) for _ in range(MAX_BACKUPS)]
    for call in calls:
        next(progress for progress in call if progress.read_bytes)
    assert refused(lambda: list(backups(channel).Make(slow, timeout=TIMEOUT_S)))[1] == "53400"
    for call in calls:
        call.cancel()
    assert _gone(server.pid)
    assert read_catalog(Repository.open(url, read_key(server.data.parent / "key"))).backups == []
    assert _made_once_there_is_room(channel, url).kind == "full"
    run(server, "DROP TABLE big")


def _made_once_there_is_room(channel: grpc.Channel, url: str) -> Any:
    """A backup; the calls that were given up count until the server has seen that their processes ended."""
    ends = time.monotonic() + TIMEOUT_S
    while True:
        try:
            return make(channel, url=url)
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.RESOURCE_EXHAUSTED or time.monotonic() > ends:
                raise


def _gone(parent: int) -> bool:
    """Once no process of a backup is a child of the server any more."""
    wait = threading.Event()
    for _ in range(600):
        found = []
        for status in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                is_ours = b"herdpy_server.backup.child" in status.read_bytes()
                stat = (status.parent / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if is_ours and int(stat[1]) == parent:
                found.append(status)
        if not found:
            return True
        wait.wait(0.1)
    return False


def test_the_command(server: RunningServer, tmp_path: Path) -> None:
    url, to = f"grpc://herdpy@127.0.0.1:{server.grpc_port}", tmp_path / "by-command"
    first = json.loads(command(url, "--to", to, "--full", "--jobs", "1", "--rate", "100MB", "--json").stdout)
    assert (first["kind"], first["repository"], first["tablespace"]) == ("full", str(to), "default")
    text = command(f"herdpy://herdpy@127.0.0.1:{server.port}/default", "--to", to, "--incremental").stdout
    assert text.startswith("Backup ")
    assert "the log since" in text
    every = command(f"herdpy://herdpy@127.0.0.1:{server.port}/default", "--to", to, "--all", "--json").stdout
    found = json.loads(every)
    assert [one["tablespace"] for one in found["backups"]] == ["default"]
    repository = Repository.open(str(to), read_key(server.data.parent / "key"))
    assert read_cluster(repository, found["cluster"]).members[0].backup == found["backups"][0]["id"]
    copy, key = tmp_path / "restored", server.data.parent / "key"
    done = CliRunner().invoke(app, ["restore", str(to), str(copy), "--key-file", str(key)])
    assert done.exit_code == 0, done.stderr
    with server.connect(user="herdpy") as connection:
        there = connection.execute("SELECT x FROM t ORDER BY x").fetchall()
    assert rows(copy, "SELECT x FROM t ORDER BY x") == there
    assert json.loads(command(copy, "--to", to, "--key-file", key, "--json").stdout)["kind"] == "full"
    catalog = read_catalog(repository)
    assert {one.parent for one in catalog.logs.values()} == {None, first["log_id"]}
    assert "--incremental" in command("--help").stdout
    assert "its own key" in command(url, "--to", to, "--key-file", "x", code=2).stderr
    assert "for directories" in command(url, "--to", to, "--dry-run", code=2).stderr
    assert "--all needs" in command(url, "--to", to, "--all", code=2).stderr
    assert "exclude" in command(url, "--to", to, "--full", "--incremental", code=2).stderr
    assert "55000" in command(url, "--to", tmp_path / "new", "--incremental", code=1).stderr


def test_the_command_without_a_server(tmp_path: Path) -> None:
    with herdpy.connect(str(tmp_path / "db"), autocommit=True) as connection:
        connection.execute("CREATE TABLE t (x int)")
    assert "no repository is named" in command(tmp_path / "db", code=2).stderr
    planned = command(tmp_path / "db", "--to", tmp_path / "r", "--dry-run").stdout
    assert planned.startswith("It would be a full backup, ")
    assert not (tmp_path / "r").exists()
    assert (
        "to continue"
        in command(tmp_path / "db", "--to", tmp_path / "r", "--dry-run", "--incremental", code=1).stderr
    )
    assert "--patience are for" in command(tmp_path / "db", "--to", "r", "--patience", 5, code=2).stderr
    assert "--all, --ca" in command(tmp_path / "db", "--to", tmp_path / "r", "--all", code=2).stderr
    assert "--rate fast" in command(tmp_path / "db", "--to", tmp_path / "r", "--rate", "fast", code=2).stderr
    assert "no database" in command(tmp_path / "none", "--to", tmp_path / "r", code=1).stderr
    new_key_file(tmp_path / "key")
    made = command(tmp_path / "db", "--to", tmp_path / "r", "--key-file", tmp_path / "key", "--json").stdout
    assert json.loads(made)["kind"] == "full"
    before = sorted((tmp_path / "r").rglob("*"))
    plan = command(
        *(tmp_path / "db", "--to", tmp_path / "r", "--key-file", tmp_path / "key", "--dry-run", "--json")
    ).stdout
    assert json.loads(plan) == {"kind": "log", "parent": json.loads(made)["id"], "read_bytes": 0}
    assert sorted((tmp_path / "r").rglob("*")) == before
    assert "is encrypted" in command(tmp_path / "db", "--to", tmp_path / "r", code=1).stderr
