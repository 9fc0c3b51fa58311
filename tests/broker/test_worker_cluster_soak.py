"""Workers on a cluster whose leader is killed again and again: each task's effect is there exactly once."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from herdpy_broker import types
from herdpy_broker.schema import migrate

import herdpy
from herdpy.dev import LocalCluster
from herdpy.testing.process import await_until
from tests.support.broker_workers import add_tasks, await_value, effects, worker_process

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]

KILLS, A_ROUND = 4, 300


def test_leader_kills_lose_no_task_and_double_none(tmp_path: Path) -> None:
    with contextlib.ExitStack() as ends:
        cluster = ends.enter_context(LocalCluster(tmp_path / "c", servers=3, bookies=3))
        cluster.await_leader()
        db = ends.enter_context(contextlib.closing(herdpy.connect(cluster.url, autocommit=True)))
        migrate(db)
        db.execute("CREATE TABLE effect (task BIGINT, process BIGINT)")
        types.define(db, "effect", max_attempts=20, backoff_s=0.05)
        for kind in ("threads", "coroutines", "processes"):
            ends.enter_context(worker_process(kind, cluster.url, lease_s=10.0, capacity=4))
        tasks: list[int] = []
        for _ in range(KILLS):
            done = len(tasks)
            tasks += add_tasks(db, "effect", A_ROUND)
            assert await_until(lambda done=done: len(effects(db)) > done + A_ROUND // 5, 120.0)
            leader = cluster.await_leader()
            cluster.kill(leader)
            cluster.await_leader(other_than=leader)
            cluster.start(leader)
        await_value(db, "SELECT count(*) FROM broker.task", 0)
        assert effects(db) == tasks
        assert db.execute("SELECT count(*) FROM broker.dead").fetchone() == (0,)
        assert db.execute("SELECT count(*) FROM broker.finished").fetchone() == (len(tasks),)
