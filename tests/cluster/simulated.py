"""Nodes of a cluster in virtual time: processes that pause as a whole, clocks that run unevenly.

A node's tasks, timers and callbacks run on its host; while the host is paused none of them runs, and all that
became due runs when it goes on, as after SIGSTOP and SIGCONT. ZooKeeper's side of an operation goes on.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextvars import Context, copy_context
from typing import Any, TypeVar

from herdpy.bookkeeper.metadata.znodes import ANY_VERSION, SessionKey, Watch, Znode, ZooKeeperState
from herdpy.testing.model.loop import VirtualLoop
from herdpy.testing.model.network import Delay, SimulatedLinks, SimulatedNetwork, host_in, on_host
from herdpy.testing.model.zookeeper import ZOOKEEPER, ModelZnodes, ModelZooKeeper

T = TypeVar("T")
NOWHERE = "client"  # the host of code that is on none


class PausingLoop(VirtualLoop):
    """A virtual loop on which whole hosts can be paused."""

    def __init__(self, seed: int, **options: Any) -> None:
        super().__init__(seed, **options)
        self.paused: dict[str, list[Callable[[], object]]] = {}

    def pause(self, host: str) -> None:
        self.paused.setdefault(host, [])

    def resume(self, host: str) -> None:
        for call in self.paused.pop(host, []):
            super().call_soon(call)

    def call_soon(self, callback: Any, *args: Any, context: Context | None = None) -> Any:
        context = context or copy_context()
        gate = self._gate(callback, context)
        gate.handle = super().call_soon(gate, *args, context=context)
        return gate.handle

    def call_at(self, when: float, callback: Any, *args: Any, context: Context | None = None) -> Any:
        context = context or copy_context()
        gate = self._gate(callback, context)
        gate.handle = super().call_at(when, gate, *args, context=context)
        return gate.handle

    def _gate(self, callback: Any, context: Context) -> _Gate:
        return _Gate(self, callback, context, host_in(context))


class _Gate:
    """A callback that waits while its host is paused; what is cancelled meanwhile does not run."""

    def __init__(self, loop: PausingLoop, callback: Any, context: Context, host: str) -> None:
        self.handle: asyncio.Handle | None = None
        self._loop = loop
        self._callback = callback
        self._context = context
        self._host = host

    def __call__(self, *args: Any) -> None:
        parked = self._loop.paused.get(self._host)
        if parked is None:
            self._callback(*args)
        else:
            parked.append(lambda: self._resumed(*args))

    def _resumed(self, *args: Any) -> None:
        if self.handle is None or not self.handle.cancelled():
            self._context.run(self, *args)


class HostZnodes:
    """ModelZnodes for a host that may be paused: requests that were sent take effect all the same."""

    def __init__(self, inner: ModelZnodes, host: str) -> None:
        self.inner = inner
        self._host = host

    async def _wire(self, operation: Callable[[], Awaitable[T]]) -> T:
        async def run() -> T:
            return await operation()

        with on_host(NOWHERE):
            task = asyncio.get_running_loop().create_task(run(), name="on the wire")
        task.add_done_callback(lambda one: one.cancelled() or one.exception())  # if nobody waits any more
        return await asyncio.shield(task)

    def _here(self, callback: Callable[[Any], None]) -> Callable[[Any], None]:
        """A callback that runs on the host, in order with everything else there."""
        with on_host(self._host):
            context = copy_context()
        loop = asyncio.get_running_loop()
        return lambda told: loop.call_soon(callback, told, context=context) and None

    @property
    def session_key(self) -> SessionKey | None:
        return self.inner.session_key

    async def start(self) -> None:
        await self._wire(self.inner.start)

    async def close(self) -> None:
        await self._wire(self.inner.close)

    async def create(self, path: str, data: bytes = b"", **flags: bool) -> str:
        return await self._wire(lambda: self.inner.create(path, data, **flags))

    async def get(self, path: str) -> Znode:
        return await self._wire(lambda: self.inner.get(path))

    async def set(self, path: str, data: bytes, version: int) -> int:
        return await self._wire(lambda: self.inner.set(path, data, version))

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self._wire(lambda: self.inner.delete(path, version))

    async def children(self, path: str) -> list[str]:
        return await self._wire(lambda: self.inner.children(path))

    async def exists(self, path: str) -> Znode | None:
        return await self._wire(lambda: self.inner.exists(path))

    def watch_data(self, path: str, callback: Callable[[Znode | None], None]) -> Watch:
        with on_host(NOWHERE):
            return self.inner.watch_data(path, self._here(callback))

    def watch_children(self, path: str, callback: Callable[[list[str] | None], None]) -> Watch:
        with on_host(NOWHERE):
            return self.inner.watch_children(path, self._here(callback))

    def on_session(self, callback: Callable[[ZooKeeperState], None]) -> Watch:
        return self.inner.on_session(self._here(callback))


class Host:
    """One machine: its ZooKeeper client, its clock, which runs at ``rate``, and whether it is paused."""

    def __init__(self, world: SimulatedCluster, name: str, rate: float) -> None:
        self.name = name
        self._world = world
        self._rate = rate
        self._offset_s = world.rng.uniform(0, 1e6)
        self.model: ModelZnodes
        self.znodes: HostZnodes

    async def connect(self) -> None:
        """A new ZooKeeper session, as a process has that has just started."""
        self.model = ModelZnodes(self._world.zookeeper, self.name, timeout_s=self._world.session_s)
        self.znodes = HostZnodes(self.model, self.name)
        await self.znodes.start()

    def clock(self) -> float:
        """Its own CLOCK_BOOTTIME."""
        return self._offset_s + self._world.loop.time() * self._rate

    def pause(self) -> None:
        self._world.loop.pause(self.name)
        self.model.freeze()

    def resume(self, hears_after_s: float = 0.0) -> None:
        """Go on; of its connection it hears a little later."""
        self._world.loop.resume(self.name)
        self._world.loop.call_later(hears_after_s, self.model.thaw)

    def cut(self) -> None:
        """From ZooKeeper."""
        self._world.network.partition(self.name, ZOOKEEPER)

    def heal(self) -> None:
        self._world.network.heal(self.name, ZOOKEEPER)


class SimulatedCluster:
    """A model ZooKeeper and hosts."""

    def __init__(
        self, seed: int, *, session_s: float = 1.5, limit_s: float = 1000.0, delay: Delay | None = None
    ) -> None:
        self.rng = random.Random(f"{seed} world")
        self.session_s = session_s
        self.loop = PausingLoop(seed, limit_s=limit_s)
        self.network = SimulatedNetwork(
            self.loop, random.Random(f"{seed} net"), SimulatedLinks(delay or Delay())
        )
        self.zookeeper = ModelZooKeeper(self.loop, random.Random(f"{seed} zk"), self.network.links)
        self.hosts: dict[str, Host] = {}
        self.zookeeper.tree.create("/herdpy/tablespaces/t", b"", now_ms=0, make_parents=True)

    async def host(self, name: str, rate: float = 1.0) -> Host:
        """A machine with a session."""
        host = self.hosts[name] = Host(self, name, rate)
        await host.connect()
        return host

    def run(self, program: Callable[[], Awaitable[None]]) -> None:
        """Run to the end; all clients are closed after it."""

        async def main() -> None:
            try:
                await program()
            finally:
                for host in list(self.loop.paused):
                    self.loop.resume(host)
                for client in list(self.zookeeper.clients):
                    client.abandon()

        self.loop.run(main())
