"""The testing kit's fixtures and a ZooKeeper, for tests of the BookKeeper client."""

from herdpy.testing.pytest_plugin import bookkeeper_cluster, network, own_cluster, own_zookeeper
from tests.support.zookeepers import running_zookeeper, server, world

__all__ = [
    "bookkeeper_cluster",
    "network",
    "own_cluster",
    "own_zookeeper",
    "running_zookeeper",
    "server",
    "world",
]
