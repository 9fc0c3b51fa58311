"""The examples of docs/drivers.md that need servers, in order, on a cluster whose leader is killed."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

import herdpy
from tests.docs.test_examples import blocks_of, run_python

pytestmark = pytest.mark.timeout(180)

PAGE = Path(__file__).parents[2] / "docs" / "drivers.md"
SERVERS = "db1:5432,db2:5432,db3:5432"
ZOOKEEPER = "zk1:2181,zk2:2181,zk3:2181"
FOLLOWER = "@db2:5432"
KILLED = "# Here the server that leads is killed.\n"


def follower_of(cluster):
    """The address of a server that runs and does not lead."""
    leader = cluster.await_leader()
    running = [server for server in cluster.status().servers if server.pid is not None]
    return next(f"127.0.0.1:{server.sql_port}" for server in running if server.id != leader)


def test_examples_of_the_page(cluster):
    hosts = re.sub(r"^herdpy://|/.*$", "", cluster.url)
    stopped = []

    def kill_the_leader():
        stopped.append(cluster.await_leader())
        cluster.kill(stopped[0])

    with herdpy.connect(cluster.url, autocommit=True) as conn:
        conn.execute("DROP TABLE IF EXISTS lime")
        conn.execute("DROP TABLE IF EXISTS orders")
    names = {"__name__": "__main__", "kill_the_leader": kill_the_leader}
    blocks = blocks_of(PAGE.read_text())
    ran = 0
    try:
        for block, following in zip(blocks, [*blocks[1:], None], strict=True):
            if block.runs or block.language != "python":
                continue
            text = block.text.replace(SERVERS, hosts).replace(ZOOKEEPER, cluster.zookeeper)
            if FOLLOWER in text:
                text = text.replace(FOLLOWER, f"@{follower_of(cluster)}")
            output = following.text if following is not None and following.language == "output" else None
            run_python(replace(block, text=text.replace(KILLED, "kill_the_leader()\n")), output, names, PAGE)
            ran += 1
    finally:
        for name in stopped:
            cluster.start(name)
    assert ran == PAGE.read_text().count("<!-- not run: tests/remote/test_drivers_page.py")
    assert stopped
