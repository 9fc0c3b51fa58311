"""Backups of a cluster on schedule: one node makes each, another goes on when that one dies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from herdpy.backup.checking import verify
from herdpy.backup.expiry import read_state
from herdpy.backup.repository import Repository
from herdpy.dev import LocalCluster
from herdpy.testing.process import await_until
from tests.replica.replicas import PATIENCE_S, await_leader, run

pytestmark = pytest.mark.soak  # a cluster of its own


def test_one_node_makes_what_is_due_and_another_goes_on(tmp_path: Path) -> None:
    url = str(tmp_path / "repository")
    settings = {
        "backup.url": url,
        "backup.archive_interval_s": 0.5,
        "backup.full_interval_s": 3600.0,
        "backup.incremental_interval_s": 2.0,
        "backup.keep_last": 3,
    }
    with LocalCluster(tmp_path / "c", servers=3, bookies=1, server_settings=settings) as cluster:
        leader = await_leader(cluster)
        run(cluster, leader, "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)", "INSERT INTO t VALUES (1, 'x')")

        def rows(node: str) -> list[Any]:
            return run(
                cluster,
                node,
                "SELECT id, made_by FROM herdpy.backups WHERE state = 'whole' AND tablespace = 'herdpy' "
                "ORDER BY begun",
            )

        def made_by() -> str | None:
            """The node that made the newest one, as that node itself says."""
            for one in cluster.status().servers:
                found = rows(one.id)
                if found and found[-1][1] == one.id != leader and len(found) >= 3:
                    return one.id
            return None

        assert await_until(made_by, PATIENCE_S * 2)
        maker = made_by()
        assert maker is not None  # a follower
        before = rows(maker)[-1][0]
        cluster.kill(maker)
        try:
            others = [one.id for one in cluster.status().servers if one.id != maker]

            def goes_on() -> bool:
                return any(found and found[-1][0] > before for found in map(rows, others))

            assert await_until(goes_on, PATIENCE_S * 2)
        finally:
            cluster.start(maker)
    repository = Repository.open(url)
    catalog = read_state(repository).catalog
    mine = [one for one in catalog.backups if one.tablespace == "herdpy"]
    assert 3 <= len(mine) <= 4
    assert {one.node for one in mine} <= {"server-1", "server-2", "server-3"}
    assert verify(repository).problems == []
