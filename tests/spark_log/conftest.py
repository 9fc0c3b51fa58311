"""The testing kit's clusters, for tests of reading ledgers from bookies."""

from herdpy.testing.pytest_plugin import bookkeeper_cluster, own_cluster

__all__ = ["bookkeeper_cluster", "own_cluster"]
