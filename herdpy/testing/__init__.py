"""A testing kit for programs that use Apache BookKeeper: real ZooKeeper and bookies, started for a test.

    with BookKeeperCluster(bookies=3) as cluster:
        ...                        # cluster.uri is for BookKeeper(...)
        cluster.bookies[0].kill()

Servers listen on free loopback ports, and die with the process that started them. Java 17 and Maven are
needed; the jars are fetched once. Linux only.
"""

from herdpy.testing.bookie import AutoRecovery, BookieServer
from herdpy.testing.cluster import BookKeeperCluster, ClusterView
from herdpy.testing.errors import (
    KitError,
    MissingSoftwareError,
    NetworkUnavailableError,
    PortTakenError,
    StartError,
)
from herdpy.testing.java import JavaProgram, JavaProgramError, jars
from herdpy.testing.network import Network
from herdpy.testing.tls import Certificates
from herdpy.testing.zookeeper import ZooKeeperServer

__all__ = [
    "AutoRecovery",
    "BookKeeperCluster",
    "BookieServer",
    "Certificates",
    "ClusterView",
    "JavaProgram",
    "JavaProgramError",
    "KitError",
    "MissingSoftwareError",
    "Network",
    "NetworkUnavailableError",
    "PortTakenError",
    "StartError",
    "ZooKeeperServer",
    "jars",
]
