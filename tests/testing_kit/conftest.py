"""The testing kit's fixtures, which test themselves here."""

from herdpy.testing.pytest_plugin import bookkeeper_cluster, network, own_cluster, own_zookeeper

__all__ = ["bookkeeper_cluster", "network", "own_cluster", "own_zookeeper"]
