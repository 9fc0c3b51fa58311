"""The world of a simulated run: model ZooKeeper and bookies, and nodes with real replicas, in virtual time.

A node's tasks run on its host: a paused host runs nothing while its clock goes on, as after SIGSTOP, although
what it had sent arrives, and what is sent to it waits for it. A node that is killed leaves its store as LMDB
has it; its next life is on a host of another name. Stores are real, in a temporary directory; threads are
not: what a replica has done in an executor is done at once, and checkpoints are made when the run says so.
"""

from __future__ import annotations

import asyncio
import random
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context, copy_context
from pathlib import Path
from typing import Any, TypeVar

from herdpy.bookkeeper import BookKeeper
from herdpy.bookkeeper.errors import ClosedClientError
from herdpy.bookkeeper.settings import ClientSettings
from herdpy.testing.model import ModelCluster, ModelZnodes, on_host
from herdpy.testing.model.network import Delay, SimulatedTransport, current_host
from herdpy_server.cluster.coordination import Coordination
from herdpy_server.cluster.layout import Address, NodeRecord
from herdpy_server.cluster.tablespaces import TablespaceInfo
from herdpy_server.replica.host import Host
from herdpy_server.replica.lac_reports import Reports
from herdpy_server.replica.replica import Replica
from herdpy_server.serving.driver import Driver, LoopTurn
from herdpy_server.tablespace_host import DatabaseSettings
from herdpy_sql.errors import SqlError
from tests.cluster.simulated import NOWHERE, HostZnodes, PausingLoop
from tests.replica.simulation.history import History
from tests.replica.simulation.reports import simulated_reports

T = TypeVar("T")
NAME = "t"
ARCHIVE = "archive"
CLIENT = ClientSettings(
    request_timeout_s=1.0,
    connect_timeout_s=1.0,
    speculative_read_s=0.2,
    long_poll_s=0.5,
    explicit_lac_interval_s=0.05,
    backoff_first_s=0.05,
    backoff_max_s=0.5,
    quarantine_s=2.0,
)


class HostLoop(PausingLoop):
    """A virtual loop of hosts that pause: what comes over the network waits until its receiver runs.

    ``hosts`` tells on which host each task runs.
    """

    def __init__(self, seed: int, **options: Any) -> None:
        super().__init__(seed, **options)
        self.hosts: weakref.WeakKeyDictionary[asyncio.Task[Any], str] = weakref.WeakKeyDictionary()

    def create_task(self, coro: Any, **options: Any) -> Any:
        task = super().create_task(coro, **options)
        self.hosts[task] = current_host()
        return task

    def call_at(self, when: float, callback: Any, *args: Any, context: Context | None = None) -> Any:
        if isinstance(getattr(callback, "__self__", None), SimulatedTransport):
            with on_host(NOWHERE):  # what is under way arrives, whatever becomes of its sender
                context = copy_context()
        return super().call_at(when, callback, *args, context=context)

    async def create_connection(
        self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any
    ) -> Any:
        doors: list[_Receiver] = []

        def make() -> asyncio.Protocol:
            doors.append(_Receiver(self, protocol_factory()))
            return doors[0]

        transport, _ = await super().create_connection(make, host, port, **options)
        return transport, doors[0].inner

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:
        """At once: nothing that is done in threads here takes any time."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - whoever awaits it gets it
            future.set_exception(error)
        return future


class _Receiver(asyncio.Protocol):
    """A client's end of a connection: what happens to it is heard of on the client's host."""

    def __init__(self, loop: HostLoop, inner: asyncio.Protocol) -> None:
        self.inner = inner
        self._loop = loop
        self._context = copy_context()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self._loop.call_soon(self.inner.data_received, data, context=self._context)

    def eof_received(self) -> bool | None:
        self._loop.call_soon(self.inner.eof_received, context=self._context)
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        self._loop.call_soon(self.inner.connection_lost, exc, context=self._context)

    def pause_writing(self) -> None:
        self.inner.pause_writing()

    def resume_writing(self) -> None:
        self.inner.resume_writing()


class MortalZnodes(HostZnodes):
    """Of a process that may be killed: nothing leaves it after that."""

    is_dead = False

    async def _wire(self, operation: Callable[[], Awaitable[T]]) -> T:
        if self.is_dead:
            raise ClosedClientError
        return await super()._wire(operation)


class Node:
    """One life of a server: its host, and the replica on it.

    Attributes:
        name: the node's id; ``host`` is the name of its host in this life.
        replica: None before it has started.
    """

    def __init__(self, world: World, name: str, life: int) -> None:
        self.world = world
        self.name = name
        self.host = f"{name}.{life}"
        self.replica: Replica | None = None
        self.is_dead = self.is_paused = False
        self.rate = world.rng.uniform(0.999, 1.001)
        self._offset_s = world.rng.uniform(0, 1e6)
        self._tasks: set[asyncio.Task[Any]] = set()

    def clock(self) -> float:
        """Its own CLOCK_BOOTTIME: it runs while the node is paused."""
        return self._offset_s + self.world.now() * self.rate

    def begin(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """Start something on this host."""
        with on_host(self.host):
            return asyncio.get_running_loop().create_task(work, name=f"{self.host} {name}")

    async def start(self) -> None:
        """As a server process starts, without its front ends."""
        world = self.world
        model = ModelZnodes(world.cluster.zookeeper, self.host, timeout_s=world.session_s)
        self.model, self.znodes = model, MortalZnodes(model, self.host)
        self.bk = BookKeeper(
            znodes=self.znodes,
            settings=CLIENT,
            clock=lambda: 1_700_000_000 + world.now(),
            rng=random.Random(f"{world.seed} {self.host}"),
        )
        await self.bk.open()
        own = NodeRecord(
            node=self.name,
            instance=self.host,
            sql=Address(self.name, 5432),
            grpc=Address(self.name, 8481),
            session_timeout_s=world.session_s,
        )
        coordination = self.coordination = Coordination(
            self.znodes, "/herdpy", own, lease_s=world.lease_s, refused=lambda _error: None, clock=self.clock
        )
        await coordination.start()
        loop = asyncio.get_running_loop()
        host = Host(
            node=self.name,
            directory=world.directory / self.name,
            bk=self.bk,
            coordination=coordination,
            driver=Driver(loop),
            turn=LoopTurn(loop),
            settings=world.settings,
            least_free_bytes=1 << 20,
            seed=_no_seed,
            reports=self._reports(),
        )
        self.replica = Replica(host, await self._tablespace(coordination))
        self.replica.start()

    def _reports(self) -> Reports | None:
        """What it hears from leaders: in every third run nothing, so that bookies alone are asked."""
        world = self.world
        if world.seed % 3 == 0:
            return None
        rng = random.Random(f"{world.seed} {self.host} reports")
        return simulated_reports(world.nodes, world.cluster.network, self.host, rng)

    async def _tablespace(self, coordination: Coordination) -> TablespaceInfo:
        try:
            return await coordination.tablespaces.create(self.world.info)
        except SqlError as error:
            if error.sqlstate != "42710":
                raise
        return await coordination.tablespaces.get(NAME)

    def pause(self) -> None:
        self.is_paused = True
        self.world.loop.pause(self.host)
        self.model.freeze()

    def resume(self) -> None:
        """It goes on; of its connection it hears a little later."""
        if self.is_paused and not self.is_dead:
            self.is_paused = False
            self.world.loop.resume(self.host)
            self.world.loop.call_later(self.world.rng.uniform(0, 0.2), self.model.thaw)

    async def kill(self) -> None:
        """SIGKILL: nothing of it is heard of any more; what LMDB has is there."""
        world = self.world
        self.is_dead = self.znodes.is_dead = True
        self.model.freeze()
        for other in [*world.bookie_hosts, "zookeeper"]:
            world.cluster.network.partition(self.host, other)
        world.cluster.network.reset_connections(self.host)
        world.loop.resume(self.host)
        while tasks := [task for task in asyncio.all_tasks() if self._is_mine(task)]:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=0.01)
        self.model.abandon()
        self.znodes.is_dead = True
        if self.replica is not None and self.replica.opened is not None:
            self.replica.opened.store.close()
        with on_host(self.host):
            closing = asyncio.create_task(self.bk.close())
        await asyncio.wait([closing], timeout=1.0)
        closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)

    def _is_mine(self, task: asyncio.Task[Any]) -> bool:
        return task.get_name().startswith(f"{self.host} ") or self.world.loop.hosts.get(task) == self.host

    async def close(self) -> None:
        """As a server that is asked to end."""
        if self.replica is not None:
            await self.replica.close()
        await self.coordination.close()
        await self.bk.close()


async def _no_seed(*_arguments: object) -> Any:
    raise SqlError("57P03", "nothing is seeded here: every replica is to get everything from the log")


class World:
    """All that a run has."""

    def __init__(self, seed: int, directory: Path, *, keep_trace: bool = False) -> None:
        self.seed = seed
        self.directory = directory
        rng = self.rng = random.Random(f"{seed} replicas")
        self.trace: list[str] | None = [] if keep_trace else None
        ensemble, write, ack = rng.choice(((3, 3, 2), (3, 3, 2), (3, 2, 2)))
        self.session_s = rng.choice((1.0, 1.5, 2.0))
        self.lease_s = self.session_s / 3
        self.trouble_s = rng.choice((6.0, 10.0))
        self.settings = DatabaseSettings(
            max_ledger_bytes=rng.choice((400, 3000, 64 << 20)), max_ledger_age_s=rng.choice((0.5, 3600.0))
        )
        self.cluster = ModelCluster(
            seed,
            rng.choice((3, 4)),
            delay=Delay(0.0001, rng.choice((0.001, 0.01)), late_s=rng.choice((0.1, 0.6)), late_share=0.01),
            session_timeout_s=2.0,
            limit_s=self.trouble_s + 900,
            make_loop=HostLoop,
        )
        self.loop: HostLoop = self.cluster.loop  # type: ignore[assignment]
        self.names = [f"n{number}" for number in (1, 2, 3)]
        self.info = TablespaceInfo(
            name=NAME,
            uuid="",
            replicas=tuple(self.names),
            ensemble=ensemble,
            write_quorum=write,
            ack_quorum=ack,
            leader=rng.choice((None, None, "n1")),
        )
        self.history = History(self.now, self.tell)
        self.nodes: dict[str, Node] = {}
        self._lives = dict.fromkeys(self.names, 0)
        self.tell(f"seed {seed}: {ensemble}-{write}-{ack}, session {self.session_s}, {self.settings}")

    @property
    def bookie_hosts(self) -> list[str]:
        return [bookie.host for bookie in self.cluster.bookies.values()]

    def now(self) -> float:
        """Virtual seconds."""
        return self.cluster.loop.time()

    def tell(self, what: str) -> None:
        """Write a line of the trace."""
        if self.trace is not None:
            self.trace.append(f"{self.now():10.6f} {what}")

    async def start(self, name: str) -> Node:
        """Start a node, again perhaps."""
        self._lives[name] += 1
        node = self.nodes[name] = Node(self, name, self._lives[name])
        self.tell(f"{node.host} starts")
        starting = node.begin(node.start(), "start")
        await asyncio.wait([starting])
        if starting.cancelled():
            return node
        starting.result()
        return node
