"""A HerdPy cluster on one machine: ZooKeeper, bookies and servers on free loopback ports.

    with LocalCluster("/tmp/c", servers=3, bookies=3) as cluster:
        ...                        # cluster.url is for herdpy.connect(...)
        cluster.kill("server-1")
        cluster.start("server-1")

`herdpy dev` is the same on the command line. Java 17 and Maven are needed, as by herdpy.testing; Linux only.
"""

from herdpy.dev.cluster import LocalCluster
from herdpy.dev.directory import (
    BusyError,
    DevError,
    ForeignDirectoryError,
    NoClusterError,
    NotRunningError,
    UnknownNameError,
)
from herdpy.dev.report import BookieStatus, ClusterStatus, ProcessStatus, ServerProcessStatus, ZooKeeperStatus
from herdpy.testing.errors import MissingSoftwareError, PortTakenError, StartError

__all__ = [
    "BookieStatus",
    "BusyError",
    "ClusterStatus",
    "DevError",
    "ForeignDirectoryError",
    "LocalCluster",
    "MissingSoftwareError",
    "NoClusterError",
    "NotRunningError",
    "PortTakenError",
    "ProcessStatus",
    "ServerProcessStatus",
    "StartError",
    "UnknownNameError",
    "ZooKeeperStatus",
]
