"""ZooKeeper for the tests of a cluster: the model and a real server, and a network to be cut."""

from herdpy.testing.pytest_plugin import network, own_zookeeper
from tests.support.zookeepers import running_zookeeper, server, world

__all__ = ["network", "own_zookeeper", "running_zookeeper", "server", "world"]
