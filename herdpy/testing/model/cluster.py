"""A whole BookKeeper cluster in one process and in virtual time: what a simulation starts from.

A `ModelCluster` owns the loop, the network, a model ZooKeeper with BookKeeper's layout, and model bookies
registered in it. Programs run with `run`; a client on some host is `BookKeeper(znodes=cluster.znodes(host))`
made inside `on_host(host)`. Everything random comes from one seed. A BookieNode is one bookie as a machine
that crashes, pauses and comes back: what it does (`ModelBookie`), where it listens (the simulated network)
and how it is known, its cookie in ZooKeeper and an ephemeral znode while it lives (`Registration`; format:
BookKeeper's discover/ZKRegistrationManager.java and BookieServiceInfoFormat). One whose session expired
registers anew.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from herdpy.bookkeeper.errors import BookKeeperError
from herdpy.bookkeeper.metadata.znodes import NodeExistsError, NoNodeError, ZooKeeperState
from herdpy.testing.model.bookie import ModelBookie
from herdpy.testing.model.loop import VirtualLoop
from herdpy.testing.model.network import Delay, SimulatedLinks, SimulatedNetwork
from herdpy.testing.model.zookeeper import ModelZnodes, ModelZooKeeper

_RETRY_S = 0.5


class Registration:
    """Keeps `available/<id>` or `available/readonly/<id>` there for as long as the bookie runs."""

    def __init__(self, znodes: ModelZnodes, root: str, bookie_id: str) -> None:
        self._znodes = znodes
        self._root = root
        self._bookie_id = bookie_id
        self._is_readonly = False
        self._task: asyncio.Task[None] | None = None
        self._registered: tuple[int, bool] | None = None  # the session that owns the znode, and its kind
        self._wanted = asyncio.Event()
        self._wanted.set()
        self._there = asyncio.Event()

    async def start(self) -> None:
        """Register; returns when the znode is there, or the process is gone."""
        self._znodes.on_session(self._session_changed)
        self._task = asyncio.create_task(self._keep(), name=f"registration of {self._bookie_id}")
        await self._there.wait()

    def set_readonly(self, is_readonly: bool) -> None:
        """Move between the writable and the read-only bookies."""
        if is_readonly != self._is_readonly:
            self._is_readonly = is_readonly
            self._wanted.set()

    async def close(self) -> None:
        """A clean end: the znode goes at once."""
        self.die()
        await self._znodes.close()

    def pause(self) -> None:
        """The process is stopped, so the session hears nothing of it."""
        self._znodes.freeze()

    def resume(self) -> None:
        """The process goes on, maybe to find that its session is over."""
        self._znodes.thaw()

    def die(self) -> None:
        """The process is gone: the znode goes when the session expires."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self._there.set()
        self._znodes.abandon()

    def _session_changed(self, state: ZooKeeperState) -> None:
        if state is ZooKeeperState.CONNECTED:
            self._wanted.set()

    async def _keep(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            try:
                await self._znodes.start()
                await self._register()
            except BookKeeperError:
                await asyncio.sleep(_RETRY_S)
                self._wanted.set()

    async def _register(self) -> None:
        available, readonly = f"{self._root}/available", f"{self._root}/available/readonly"
        now = (self._znodes.session, self._is_readonly)
        if now == self._registered:
            return
        with suppress(NodeExistsError):
            await self._znodes.create(f"{self._root}/cookies/{self._bookie_id}", b"5\n")
        self._registered = None  # until all of what follows is done
        here, there = (readonly, available) if self._is_readonly else (available, readonly)
        # An old znode of a session that has not expired yet would take this one with it.
        for path in (f"{there}/{self._bookie_id}", f"{here}/{self._bookie_id}"):
            try:
                await self._znodes.delete(path)
            except NoNodeError:
                continue
        try:
            await self._znodes.create(f"{here}/{self._bookie_id}", ephemeral=True)
        except NodeExistsError:
            self._wanted.set()
            return
        self._registered = now
        self._there.set()


PORT = 3181


class BookieNode:
    """A bookie on the host `host`, known as `bookie_id` (host:port)."""

    def __init__(
        self,
        network: SimulatedNetwork,
        zookeeper: ModelZooKeeper,
        host: str,
        *,
        root: str,
        rng: random.Random,
        sync_s: tuple[float, float],
        session_timeout_s: float,
    ) -> None:
        self.host = host
        self.bookie_id = f"{host}:{PORT}"
        self.bookie = ModelBookie(network.loop, rng, sync_s=sync_s)
        self._network = network
        self._zookeeper = zookeeper
        self._root = root
        self._session_timeout_s = session_timeout_s
        self._registration: Registration | None = None
        self._paused = False

    @property
    def is_running(self) -> bool:
        """Whether the process exists, paused or not."""
        return self._registration is not None

    @property
    def is_paused(self) -> bool:
        """Whether the process is stopped (SIGSTOP)."""
        return self._paused

    def holds(self, ledger_id: int, entry_id: int) -> bool:
        """Whether the entry is on this bookie's disk, where a crash leaves it."""
        return self.bookie.storage.is_durable(ledger_id, entry_id)

    async def start(self) -> None:
        """Start the process, on what its disk holds; nothing when it runs."""
        if self._registration is not None:
            return
        znodes = ModelZnodes(self._zookeeper, self.host, timeout_s=self._session_timeout_s)
        self._registration = Registration(znodes, self._root, self.bookie_id)
        self._registration.set_readonly(self.bookie.is_readonly)
        self._network.listen(self.host, PORT, self.bookie.protocol)
        await self._registration.start()

    async def stop(self) -> None:
        """End the process in order: everything is synced, and the registration goes at once."""
        registration, self._registration = self._registration, None
        if registration is None:
            return
        self.resume()
        self._network.kill_host(self.host)
        self.bookie.shut_down()
        await registration.close()

    def crash(self) -> None:
        """The machine loses power: what was not synced is lost, the rest is there after `start`."""
        registration, self._registration = self._registration, None
        if registration is None:
            return
        registration.die()
        self._network.kill_host(self.host)
        self.bookie.crash()
        self._paused = False

    def pause(self) -> None:
        """Stop the process where it is: it takes bytes, and answers nothing."""
        if self._registration is not None and not self._paused:
            self._paused = True
            self.bookie.pause()
            self._registration.pause()

    def resume(self) -> None:
        """Let a paused process go on."""
        if self._paused:
            self._paused = False
            self.bookie.resume()
            if self._registration is not None:
                self._registration.resume()

    def wipe(self) -> None:
        """Empty the disk of a bookie that does not run, and its cookie: it comes back as a new one with the
        old id."""
        if self._registration is not None:
            raise RuntimeError(f"{self.bookie_id} runs")
        self.bookie.wipe()
        with suppress(NoNodeError):
            self._zookeeper.tree.delete(f"{self._root}/cookies/{self.bookie_id}")

    def set_readonly(self, is_readonly: bool) -> None:
        """Refuse writes, and say so in ZooKeeper."""
        self.bookie.is_readonly = is_readonly
        if self._registration is not None:
            self._registration.set_readonly(is_readonly)


# The cluster.

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
