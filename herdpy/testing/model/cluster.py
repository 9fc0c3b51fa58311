"""A whole BookKeeper cluster in one process and in virtual time: what a simulation starts from.

A `ModelCluster` owns the loop, the network, a model ZooKeeper with BookKeeper's layout, and model bookies
registered in it. Programs run with `run`; a client on some host is `BookKeeper(znodes=cluster.znodes(host))`
made inside `on_host(host)`. Everything random comes from one seed.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from herdpy.testing.model.loop import VirtualLoop
from herdpy.testing.model.network import Delay, SimulatedLinks, SimulatedNetwork
from herdpy.testing.model.node import BookieNode
from herdpy.testing.model.zookeeper import ModelZnodes, ModelZooKeeper

T = TypeVar("T")

_LAYOUT = b"2\norg.apache.bookkeeper.meta.LongHierarchicalLedgerManagerFactory:1"


class ModelCluster:
    """`bookies` model bookies, by id in `bookies`; `root` is their znode.

    `sync_s`: range of a journal sync in seconds. `limit_s`: the virtual time a run may take.
    `session_timeout_s`: of every ZooKeeper session made here. `make_loop`: makes the loop, where it is to be
    of another class; called with the seed and `limit_s`.
    """

    def __init__(
        self,
        seed: int,
        bookies: int = 5,
        *,
        root: str = "/ledgers",
        delay: Delay | None = None,
        split_share: float = 0.02,
        sync_s: tuple[float, float] = (0.0005, 0.003),
        session_timeout_s: float = 10.0,
        limit_s: float = 10_000.0,
        make_loop: Callable[..., VirtualLoop] = VirtualLoop,
    ) -> None:
        self.seed = seed
        self.root = root
        self.session_timeout_s = session_timeout_s
        self.loop = make_loop(seed, limit_s=limit_s)
        # One stream each, so that a change of the one leaves the others as they were.
        self.rng = random.Random(f"{seed} cluster")
        self.network = SimulatedNetwork(
            self.loop, random.Random(f"{seed} network"), SimulatedLinks(delay, split_share)
        )
        self.zookeeper = ModelZooKeeper(self.loop, random.Random(f"{seed} zookeeper"), self.network.links)
        self._sync_s = sync_s
        self._lay_out()
        self.bookies: dict[str, BookieNode] = {}
        for number in range(1, bookies + 1):
            self.add_bookie(f"bookie{number}")

    def _lay_out(self) -> None:
        tree, now_ms = self.zookeeper.tree, self.zookeeper.now_ms()
        tree.create(self.root, b"", now_ms=now_ms, make_parents=True)
        for name, data in (
            ("LAYOUT", _LAYOUT),
            ("INSTANCEID", b"00000000-0000-4000-8000-000000000000"),
            ("available", b""),
            ("available/readonly", b""),
            ("cookies", b""),
            ("idgen", b""),
            ("underreplication", b""),
        ):
            tree.create(f"{self.root}/{name}", data, now_ms=now_ms)

    def add_bookie(self, host: str) -> BookieNode:
        """One more bookie, on a host of its own; `await node.start()` where the cluster runs already."""
        node = BookieNode(
            self.network,
            self.zookeeper,
            host,
            root=self.root,
            rng=random.Random(f"{self.seed} {host}"),
            sync_s=self._sync_s,
            session_timeout_s=self.session_timeout_s,
        )
        self.bookies[node.bookie_id] = node
        return node

    def znodes(self, host: str) -> ModelZnodes:
        """A session with ZooKeeper for a client on `host`; whoever gets it starts and closes it."""
        return ModelZnodes(self.zookeeper, host, timeout_s=self.session_timeout_s)

    def run(self, program: Callable[[], Awaitable[T]]) -> T:
        """Start the bookies, run `program`, stop the bookies; see `VirtualLoop.run`. Once only."""

        async def main() -> T:
            for node in list(self.bookies.values()):
                await node.start()
            try:
                return await program()
            finally:
                for node in self.bookies.values():
                    await node.stop()

        return self.loop.run(main())

    def heal(self) -> None:
        """End every fault of the network and of ZooKeeper, and let paused bookies go on."""
        self.zookeeper.lost_reply_share = self.zookeeper.lost_request_share = 0.0
        self.network.heal()
        for node in self.bookies.values():
            node.resume()
