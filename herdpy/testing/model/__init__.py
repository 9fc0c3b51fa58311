"""A BookKeeper cluster in one process, in virtual time: for simulations, and for tests without servers.

    cluster = ModelCluster(seed=7, bookies=5)

    async def program():
        async with BookKeeper(znodes=cluster.znodes("client"), rng=random.Random(7)) as bk:
            ...
            cluster.bookies["bookie1:3181"].crash()

    cluster.run(program)

One seed is one run, always the same: the loop has no clock but its own, the network no delay but what its
generator draws. From the bottom: `loop` (virtual time), `links`, `transport` and `network` (connections
with faults), `znode_tree`, `zookeeper` and `znodes` (metadata and sessions), `storage`, `bookie` and
`serving` (one bookie), `registration` and `node` (a bookie as a machine), `cluster` (all of it). The same
suite of tests runs against the model and against real servers.
"""

from herdpy.testing.model.bookie import ModelBookie
from herdpy.testing.model.cluster import ModelCluster
from herdpy.testing.model.links import Delay, Link, Links
from herdpy.testing.model.loop import (
    DeadlockError,
    SimulationError,
    TimeLimitError,
    UnhandledError,
    VirtualLoop,
)
from herdpy.testing.model.network import SimulatedNetwork, current_host, on_host
from herdpy.testing.model.node import BookieNode
from herdpy.testing.model.znodes import ModelZnodes
from herdpy.testing.model.zookeeper import ZOOKEEPER, ModelZooKeeper

__all__ = [
    "ZOOKEEPER",
    "BookieNode",
    "DeadlockError",
    "Delay",
    "Link",
    "Links",
    "ModelBookie",
    "ModelCluster",
    "ModelZnodes",
    "ModelZooKeeper",
    "SimulatedNetwork",
    "SimulationError",
    "TimeLimitError",
    "UnhandledError",
    "VirtualLoop",
    "current_host",
    "on_host",
]
