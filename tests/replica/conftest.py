"""One cluster of three servers and one bookie: the bookies' redundancy is not what is tested here.

Its log is archived to `repository` beside it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from herdpy.dev import LocalCluster
from herdpy.log.detached import close_clients
from tests.replica.replicas import assert_equal, await_leader, followers, run

SETTINGS = {
    "storage.max_ledger_age_s": 1.0,  # so that there is soon something to be trimmed
    "storage.checkpoint_interval_s": 0.1,
    "backup.archive_interval_s": 0.5,
    "storage.flashback_s": 0.0,  # it would keep what is to be trimmed
}


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """The cluster; each test leaves it with three servers that run, and tables of its own."""
    directory = tmp_path_factory.mktemp("replica") / "c"
    settings = {**SETTINGS, "backup.url": str(directory.parent / "repository")}
    with LocalCluster(directory, servers=3, bookies=1, server_settings=settings) as running:
        leader = await_leader(running)
        run(
            running,
            leader,
            "ALTER TABLESPACE herdpy SET (retention = '0s', retention_bytes = 0)",  # keep what is needed only
            "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)",
            "INSERT INTO t SELECT n, repeat('x', 500) FROM generate_series(1, 20000) AS s (n)",
        )
        assert_equal(running, "t", followers(running, leader))  # every donor has all of it
        yield running
        close_clients()  # of tests that read the log here: it would look for the cluster when that is gone
