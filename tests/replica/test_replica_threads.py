"""What an election waits for does not wait behind checkpoints, however many there are."""

from __future__ import annotations

import asyncio
import socket
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from herdpy_server.replica.base import ReplicaBase
from herdpy_server.replica.guard import ReplicaState
from herdpy_server.replica.host import Host
from herdpy_server.replica.open_replica import OpenReplica, StandbyLog
from herdpy_server.serving.driver import Driver, LoopTurn
from herdpy_server.store import Store
from herdpy_server.tablespace import Checkpointer
from herdpy_server.tablespace_host import DatabaseSettings
from herdpy_sql.errors import SqlError

MANY = 40
PATIENCE_S = 90.0


def host_of(directory: Path) -> Host:
    """A node without a cluster."""
    loop = asyncio.get_running_loop()
    return Host(
        node="n",
        directory=directory,
        bk=cast(Any, None),
        coordination=cast(Any, None),
        driver=Driver(loop),
        turn=LoopTurn(loop),
        settings=DatabaseSettings(),
        seed=cast(Any, None),
    )


async def open_replica(host: Host, name: str) -> OpenReplica:
    def standby(store: Store) -> StandbyLog:
        return StandbyLog(lambda: SqlError("25006", "it only follows"), lambda: store.applied)

    return await OpenReplica.open(host, host.path(name), standby, cast(Any, None))


class Stuck:
    """Checkpoints that do not end before they are let go."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.go = threading.Event()
        self.begun = threading.Semaphore(0)
        patch.setattr(Checkpointer, "checkpoint", self._checkpoint)

    def _checkpoint(self, *, trim: bool) -> list[int]:
        self.begun.release()
        assert self.go.wait(PATIENCE_S)
        return []


async def _checkpoints_and_an_election(tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
    host = host_of(tmp_path)
    opened = await open_replica(host, "busy")
    opened.tablespace.guard = None
    stuck = Stuck(patch)
    replica = SimpleNamespace(
        opened=opened, host=host, state=ReplicaState.FOLLOWING, checkpointed=lambda: None
    )
    replica.readable = lambda: ReplicaBase.readable(cast(ReplicaBase, replica))
    asked = [asyncio.create_task(ReplicaBase.checkpoint(cast(ReplicaBase, replica))) for _ in range(MANY)]
    sessions = [opened.session() for _ in range(MANY)]
    asked += [asyncio.create_task(host.driver.call(one.execute("CHECKPOINT"))) for one in sessions]  # type: ignore[arg-type]
    try:
        while not stuck.begun.acquire(blocking=False):
            await asyncio.sleep(0)
        async with asyncio.timeout(PATIENCE_S / 3):
            other = await open_replica(host, "elected")  # so that it can follow and lead
            loop = asyncio.get_running_loop()
            await loop.getaddrinfo("localhost", 3181, type=socket.SOCK_STREAM)  # as for a bookie
        assert not any(one.done() for one in asked)
    finally:
        stuck.go.set()
        await asyncio.gather(*asked)
    for one in (opened, other):
        await one.close(SqlError("57P01", "it is closed"))
    host.threads.close()


def test_a_replica_is_opened_while_checkpoints_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(_checkpoints_and_an_election(tmp_path, monkeypatch))
