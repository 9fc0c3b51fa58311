"""One ZooKeeper for all tests of a process, which each have a root of their own in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from herdpy.testing import ZooKeeperServer
from tests.support.znode_worlds import ModelWorld, RealWorld, World


@pytest.fixture(scope="package")
def running_zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.fixture
def server(running_zookeeper: ZooKeeperServer) -> ZooKeeperServer:
    """The server; it runs, and may be paused, stopped and started, but has to run on when it was paused."""
    running_zookeeper.start()  # the test before may have stopped it
    return running_zookeeper


@pytest.fixture(params=["model", "real"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """A root of the test's own, in the model and in the server."""
    world = ModelWorld() if request.param == "model" else RealWorld(request.getfixturevalue("server"))
    yield world
    world.close()
