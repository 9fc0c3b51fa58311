"""A server, a proxy before it that cuts connections, and a cluster."""

from __future__ import annotations

import pytest

import herdpy
from herdpy.dev import LocalCluster
from tests.remote.cutting_proxy import CuttingProxy
from tests.support.server_process import RunningServer


@pytest.fixture(scope="package")
def server(tmp_path_factory):
    running = RunningServer(tmp_path_factory.mktemp("server") / "data").ready()
    yield running
    running.close()


@pytest.fixture
def proxy(server):
    proxy = CuttingProxy(server.port)
    yield proxy
    proxy.close()


@pytest.fixture(scope="package")
def three_servers(tmp_path_factory):
    with LocalCluster(tmp_path_factory.mktemp("cluster") / "c", servers=3, bookies=3) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def cluster(three_servers):
    """Three servers without tables, that all run whenever a module begins; which one leads may be any."""
    yield three_servers
    for server in three_servers.status().servers:  # also when a test failed in the middle
        if server.state == "paused":
            three_servers.resume(server.id)
        elif server.pid is None:
            three_servers.start(server.id)
    with herdpy.connect(three_servers.url, autocommit=True) as conn:
        left = conn.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        for (table,) in left:
            conn.execute(f'DROP TABLE "{table}" CASCADE')
