"""Random histories of servers that archive their log, with backups, kills and failovers between.

In the end everything is lost but the repository, which is in a store of objects or in a directory, and
restores of it equal the model.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest

import herdpy
from herdpy.dbapi.remote.commits import NamedCommits
from herdpy.dev import LocalCluster
from herdpy.log.lsn import LSN
from herdpy_server.backup.log_part import continuous_end
from tests.backup.histories import History
from tests.backup.vaults import Vault, await_true, check_restores
from tests.support.object_store import s3_store
from tests.support.server_process import RunningServer

INTERVAL_S = 0.2


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Where a repository is to be."""
    if request.param == "directory":
        yield str(tmp_path / "vault")
        return
    with s3_store("vault"):
        yield f"s3://vault/{tmp_path.name}/deep"  # the store's contents outlive it in this process


def run(history: History, between: list[Callable[[], object]], chance: random.Random, steps: int = 4) -> None:
    """Do everything once, in any order, with some transactions before each."""
    history.begin()
    chance.shuffle(between)
    for do in between:
        for _ in range(steps):
            history.step()
        do()
    history.step()


@contextmanager
def names_of(history: History) -> Iterator[None]:
    """The driver, which names commits by itself, takes the history's names."""
    with patch.object(NamedCommits, "new_name", lambda _self, _wire: history.name):
        yield


def await_archived(vault: Vault, history: History) -> None:
    """Return when the archive has the newest commit."""
    first = vault.manifests[0]
    image = LSN.parse(first["lsn"])
    newest = history.moments[-1].lsn
    await_true(
        lambda: continuous_end(vault.repository, first["log_id"], image) >= newest, f"{newest} in the archive"
    )


def check(vault: Vault, history: History, directory: Path, count: int = 5) -> None:
    """Restore some moments since the oldest backup, and the end."""
    vault.verify()
    able = [one for one in history.moments[:-1] if vault.has(one.lsn, one.lsn)]
    drawn = vault.chance.sample(able, min(count, len(able)))
    check_restores(vault, history, directory, drawn, history.moments[-1])


@pytest.mark.parametrize(
    ("seed", "place"),
    [
        (1, "s3"),
        *(pytest.param(seed, "directory", marks=pytest.mark.soak) for seed in range(2, 7)),
        *(pytest.param(seed, "s3", marks=pytest.mark.soak) for seed in range(7, 10)),
    ],
    indirect=["place"],
)
@pytest.mark.timeout(600)
def test_a_server_that_is_alone(seed: int, place: str, tmp_path: Path) -> None:
    chance = random.Random(seed)
    data = tmp_path / "server"
    settings = {
        "backup.url": place,
        "backup.archive_interval_s": INTERVAL_S,
        "storage.checkpoint_interval_s": 0.5,
        "storage.max_ledger_age_s": 1.0,
    }
    arguments = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    servers = [RunningServer(data, *arguments).ready()]

    def connect() -> herdpy.Connection:
        return herdpy.connect(f"herdpy://herdpy@127.0.0.1:{servers[-1].port}/herdpy", autocommit=True)

    history = History(seed, connect())
    vault = Vault(f"grpc://127.0.0.1:{servers[-1].grpc_port}", place, chance, archived=True)

    def crash() -> None:
        history.connection.close()
        servers[-1].close()
        servers.append(RunningServer(data, *arguments).ready())
        vault.source = f"grpc://127.0.0.1:{servers[-1].grpc_port}"
        history.connection = connect()

    try:
        history.connection.execute("CREATE ROLE reader PASSWORD 'secret' LOGIN")
        vault.back_up("--full")
        between = [
            vault.back_up,
            vault.back_up_and_kill,
            lambda: vault.back_up_beside(history.step, "--full"),
            crash,
            lambda: history.connection.execute("CHECKPOINT"),
            lambda: vault.expire(2),
        ]
        with names_of(history):
            run(history, between, chance, 2 if seed == 1 else 4)
        await_archived(vault, history)
    finally:
        history.connection.close()
        servers[-1].close()
    shutil.rmtree(data)
    check(vault, history, tmp_path, 3 if seed == 1 else 5)
    assert b'"reader"' in (tmp_path / "restored-0" / "users.json").read_bytes()


@pytest.mark.soak
@pytest.mark.parametrize(
    ("seed", "place"), [(1, "directory"), (2, "s3"), (3, "directory")], indirect=["place"]
)
@pytest.mark.timeout(900)
def test_a_cluster(seed: int, place: str, tmp_path: Path) -> None:
    chance = random.Random(seed)
    settings = {
        "backup.url": place,
        "backup.archive_interval_s": INTERVAL_S,
        "storage.checkpoint_interval_s": 0.5,
        "storage.max_ledger_age_s": 1.0,
    }
    with LocalCluster(tmp_path / "cluster", servers=3, bookies=3, server_settings=settings) as cluster:
        connection = herdpy.connect(cluster.url.replace("//", "//herdpy@"), autocommit=True)
        history = History(seed, connection, roles=True)
        vault = Vault(cluster.url, place, chance, archived=True)

        def fail_over() -> None:
            leader = cluster.await_leader()
            cluster.kill(leader)
            cluster.await_leader(other_than=leader)
            cluster.start(leader)

        def pause() -> None:
            leader = cluster.await_leader()
            cluster.pause(leader)
            cluster.await_leader(other_than=leader)
            cluster.resume(leader)

        try:
            vault.back_up("--full")
            between = [
                vault.back_up,
                vault.back_up_and_kill,
                lambda: vault.back_up_beside(history.step, "--full"),
                fail_over,
                fail_over,
                pause,
                lambda: vault.expire(2),
            ]
            with names_of(history):
                run(history, between, chance)
            await_archived(vault, history)
        finally:
            connection.close()
        for one in cluster.status().processes:
            cluster.kill(one.id)
    shutil.rmtree(tmp_path / "cluster")
    check(vault, history, tmp_path)
