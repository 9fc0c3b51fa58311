"""A server, a proxy before it that cuts connections, and a cluster."""

from __future__ import annotations

import pytest

import herdpy
from herdpy.cli.status import look, session
from herdpy.dev import LocalCluster
from herdpy.testing.process import await_until
from tests.remote.cutting_proxy import CuttingProxy
from tests.support.server_process import RunningServer

# A server that was killed has to follow again, and who avoids a bookie that was late does so for 60 s.
WELL_AGAIN_S = 100.0


def problems_of(cluster):
    """What `herdpy status` finds wrong, or why nobody answers it."""
    try:
        with session(cluster.url) as asked:
            return look(asked)["problems"]
    except herdpy.OperationalError as error:
        return [str(error)]


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
    """Three servers without tables, all of them well whenever a module begins; which one leads may be any."""
    assert await_until(lambda: not problems_of(three_servers), WELL_AGAIN_S), problems_of(three_servers)
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
