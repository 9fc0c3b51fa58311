"""ZooKeeper for the tests of a cluster: the model and a real server, and a network to be cut."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from herdpy.testing import ZooKeeperServer
from herdpy.testing.pytest_plugin import network, own_zookeeper
from tests.support.znode_worlds import ModelWorld, RealWorld, World

__all__ = ["network", "own_zookeeper", "server", "world"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.fixture(params=["model", "real"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    world = ModelWorld() if request.param == "model" else RealWorld(request.getfixturevalue("server"))
    yield world
    world.close()
