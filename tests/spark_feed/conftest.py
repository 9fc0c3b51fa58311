"""The testing kit's cluster, for tests that read the feed from bookies."""

from herdpy.testing.pytest_plugin import bookkeeper_cluster

__all__ = ["bookkeeper_cluster"]
