"""A BookKeeper cluster in one process, in virtual time: for simulations, and for tests without servers.

    cluster = ModelCluster(seed=7, bookies=5)

    async def program():
        async with BookKeeper(znodes=cluster.znodes("client"), rng=random.Random(7)) as bk:
            ...
            cluster.bookies["bookie1:3181"].crash()

    cluster.run(program)

One seed is one run, always the same: the loop has no clock but its own, the network no delay but what its
generator draws. From the bottom: `loop` (virtual time), `network` (connections with faults), `zookeeper`
(metadata and sessions), `bookie` (one bookie, with what it keeps), `cluster` (bookies as machines, and all of
it). The same suite of tests runs against the model and against real servers.
"""

from herdpy.testing.model.bookie import ModelBookie
from herdpy.testing.model.cluster import BookieNode, ModelCluster
from herdpy.testing.model.loop import (
    DeadlockError,
    SimulationError,
    TimeLimitError,
    UnhandledError,
    VirtualLoop,
)
from herdpy.testing.model.network import (
    Delay,
    SimulatedLink,
    SimulatedLinks,
    SimulatedNetwork,
    current_host,
    on_host,
)
from herdpy.testing.model.zookeeper import ZOOKEEPER, ModelZnodes, ModelZooKeeper

__all__ = [
    "ZOOKEEPER",
    "BookieNode",
    "DeadlockError",
    "Delay",
    "ModelBookie",
    "ModelCluster",
    "ModelZnodes",
    "ModelZooKeeper",
    "SimulatedLink",
    "SimulatedLinks",
    "SimulatedNetwork",
    "SimulationError",
    "TimeLimitError",
    "UnhandledError",
    "VirtualLoop",
    "current_host",
    "on_host",
]
