"""A server, a proxy before it that cuts connections, and a cluster."""

from __future__ import annotations

import pytest

from herdpy.dev import LocalCluster
from tests.remote.cutting_proxy import CuttingProxy
from tests.support.server_process import RunningServer


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    running = RunningServer(tmp_path_factory.mktemp("server") / "data").ready()
    yield running
    running.close()


@pytest.fixture
def proxy(server):
    proxy = CuttingProxy(server.port)
    yield proxy
    proxy.close()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """Three servers that all run whenever a test begins; which one leads may be any."""
    with LocalCluster(tmp_path_factory.mktemp("cluster") / "c", servers=3, bookies=3) as cluster:
        yield cluster
