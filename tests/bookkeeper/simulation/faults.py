"""Trouble for a model cluster: at random times, of random kinds, each undone after a while."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress

from herdpy.testing.model.cluster import BookieNode, ModelCluster
from herdpy.testing.model.zookeeper import ZOOKEEPER

Undo = Callable[[], Awaitable[None]]


class Faults:
    """Makes trouble for the bookies and for the clients on `hosts`, one fault every `pause_s` or so."""

    def __init__(
        self,
        cluster: ModelCluster,
        rng: random.Random,
        hosts: list[str],
        pause_s: float,
        tell: Callable[[str], None],
        *,
        is_storm: bool = False,
    ) -> None:
        self._cluster = cluster
        self._rng = rng
        self._hosts = hosts
        self._pause_s = pause_s
        self._tell = tell
        self._undoing: dict[asyncio.Task[None], None] = {}
        self._over = asyncio.Event()
        self.loses_disk = False  # the next bookie that crashes loses its disk
        self._down: set[str] = set()  # bookies that are dead, paused or cut off
        self._most_down = rng.choice((1, 1, 2, 2, 3))
        bookie_faults = [self._crash, self._pause, self._cut, self._cut_from_zookeeper]
        client_faults = [self._reset, self._expire, self._lose_replies, self._client_cut, self._slow]
        # Swarm testing: each run has its own few kinds of trouble, and so more of each.
        kinds = [*bookie_faults, *client_faults, self._readonly]
        self._kinds = rng.sample(kinds, rng.randint(2, len(kinds)))
        if is_storm:
            self._kinds = [self._crash, self._reset, self._reset, self._readonly]

    async def run(self, until_s: float) -> None:
        """Make trouble until then."""
        while (now := self._cluster.loop.time()) < until_s:
            await asyncio.sleep(min(self._rng.expovariate(1 / self._pause_s), until_s - now))
            self._rng.choice(self._kinds)()

    def cut_at(self, moment_s: float, one: str, other: str) -> None:
        """Cut two hosts from each other at a moment, until the end of all trouble."""

        def cut() -> None:
            if not self._over.is_set():
                self._tell(f"fault: cut between {one} and {other} to the end")
                self._cluster.network.partition(one, other)

        self._cluster.loop.call_later(moment_s, cut)

    async def end(self) -> None:
        """Undo everything; every bookie runs, every link works."""
        self._over.set()
        await asyncio.gather(*self._undoing)
        self._cluster.network.links.calm()
        self._cluster.heal()
        for node in self._cluster.bookies.values():
            node.set_readonly(False)
            await node.start()

    def _later(self, what: str, longest_s: float, undo: Undo) -> None:
        delay_s = self._rng.uniform(0.05, longest_s)
        self._tell(f"fault: {what} for {delay_s:.2f} s")

        async def wait() -> None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), delay_s)
            await undo()
            self._tell(f"undone: {what}")

        task = asyncio.create_task(wait(), name=what)
        self._undoing[task] = None
        task.add_done_callback(lambda done: self._undoing.pop(done, None))

    def _victim(self) -> BookieNode | None:
        fit = [
            node for node in self._cluster.bookies.values() if node.is_running and node.host not in self._down
        ]
        if not fit or len(self._down) >= self._most_down:
            return None
        node = self._rng.choice(fit)
        self._down.add(node.host)
        return node

    def _crash(self) -> None:
        if node := self._victim():
            node.crash()
            if self.loses_disk:
                self.loses_disk = False
                node.wipe()
                self._tell(f"{node.host} has lost its disk")

            async def undo() -> None:
                self._down.discard(node.host)
                await node.start()

            self._later(f"crash of {node.host}", 8, undo)

    def _pause(self) -> None:
        if node := self._victim():
            node.pause()

            async def undo() -> None:
                self._down.discard(node.host)
                node.resume()

            self._later(f"pause of {node.host}", 8, undo)

    def _cut(self) -> None:
        if node := self._victim():
            host = self._rng.choice(self._hosts)
            self._cut_between(host, node.host, 6, lambda: self._down.discard(node.host))

    def _cut_from_zookeeper(self) -> None:
        if node := self._victim():
            self._cut_between(node.host, ZOOKEEPER, 12, lambda: self._down.discard(node.host))

    def _client_cut(self) -> None:
        self._cut_between(self._rng.choice(self._hosts), ZOOKEEPER, 8, lambda: None)

    def _cut_between(self, one: str, other: str, longest_s: float, after: Callable[[], None]) -> None:
        network = self._cluster.network
        ways = self._rng.choice(("there", "back", "both"))
        if ways != "back":
            network.cut(one, other)
        if ways != "there":
            network.cut(other, one)

        async def undo() -> None:
            network.heal(one, other)
            after()

        self._later(f"cut between {one} and {other} ({ways})", longest_s, undo)

    def _reset(self) -> None:
        host = self._rng.choice([node.host for node in self._cluster.bookies.values()])
        count = self._cluster.network.reset_connections(host)
        self._tell(f"fault: reset of {count} connections of {host}")

    def _expire(self) -> None:
        if not self._cluster.zookeeper.clients:
            return
        client = self._rng.choice(self._cluster.zookeeper.clients)
        self._tell(f"fault: the session of {client.host} expires")
        client.expire()

    def _lose_replies(self) -> None:
        zookeeper = self._cluster.zookeeper
        zookeeper.lost_reply_share = self._rng.uniform(0, 0.6)
        zookeeper.lost_request_share = self._rng.uniform(0, 0.2)

        async def undo() -> None:
            zookeeper.lost_reply_share = zookeeper.lost_request_share = 0.0

        self._later("ZooKeeper loses messages", 4, undo)

    def _slow(self) -> None:
        node = self._rng.choice(list(self._cluster.bookies.values()))
        link = self._cluster.network.links.between(self._rng.choice(self._hosts), node.host)
        link.bytes_per_s = self._rng.uniform(500, 50_000)

        async def undo() -> None:
            link.bytes_per_s = None

        self._later(f"slow link to {node.host}", 6, undo)

    def _readonly(self) -> None:
        node = self._rng.choice(list(self._cluster.bookies.values()))
        node.set_readonly(True)

        async def undo() -> None:
            node.set_readonly(False)

        self._later(f"{node.host} read-only", 6, undo)
