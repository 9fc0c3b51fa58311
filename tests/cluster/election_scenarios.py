"""Coincidences that a random run meets too seldom, arranged: each returns what went wrong."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from herdpy.testing.model.network import Delay
from herdpy_server.cluster.tablespaces import TablespaceInfo
from tests.cluster.election_world import Process, World
from tests.cluster.simulated import SimulatedCluster

SLOW, FAST = 0.9902, 1.0098


class Stage:
    """Processes that are started, struck and awaited one by one."""

    def __init__(self) -> None:
        self.cluster = SimulatedCluster(1, delay=Delay(0.0001, 0.0002, late_share=0.0))
        self.world = World(self.cluster)

    async def start(self, node: str, lease_s: float = 0.5, rate: float = 1.0) -> Process:
        host = await self.cluster.host(node, rate)
        process = Process(self.world, host, node, lease_s, random.Random(node))
        self.world.processes.append(process)
        process.start(TablespaceInfo(name="t", uuid="1"))
        await asyncio.sleep(0.05)
        return process

    async def until(self, condition: Callable[[], object]) -> None:
        """Look every millisecond; leases are judged at each."""
        while not condition():
            await asyncio.sleep(0.001)
            self.world.check()

    async def for_s(self, time_s: float) -> None:
        end_s = self.world.now() + time_s
        await self.until(lambda: self.world.now() >= end_s)

    async def depose(self, process: Process) -> None:
        """Cut it off just after a proof, and end its session: it cannot know."""
        term = process.leading or process.election.term
        assert term is not None
        before_s = term.lease._proved_until_s
        await self.until(lambda: term.lease._proved_until_s > before_s)
        process.idle = True
        process.host.cut()
        process.host.model.expire()

    def run(self, scenario: Callable[[Stage], Awaitable[None]]) -> list[str]:
        self.cluster.run(lambda: scenario(self))
        return self.world.violations


async def clocks_apart(stage: Stage) -> None:
    """The holder's clock is slow and the successor's is fast."""
    first = await stage.start("a", 2.0, SLOW)
    await stage.until(lambda: first.leading)
    second = await stage.start("b", 2.0, FAST)
    await stage.depose(first)
    await stage.until(lambda: second.leading)
    await stage.for_s(1)


async def a_leader_nobody_saw(stage: Stage) -> None:
    """A candidate saw the first leader go, was cut off, and slept through the second one's whole term."""
    first = await stage.start("a", 2.0)
    await stage.until(lambda: first.leading)
    third = await stage.start("c", 2.0)
    third.able = False
    first.call(lambda: first.spawn(first.election.close()))
    await stage.until(lambda: third.election.leader is None)
    third.host.cut()
    second = await stage.start("b", 2.0)
    await stage.until(lambda: second.leading)
    await stage.for_s(3)
    await stage.depose(second)
    third.able = True
    third.host.heal()
    await stage.until(lambda: third.leading)
    await stage.for_s(1)


async def a_short_term_between(stage: Stage) -> None:
    """A leader with a short lease follows one with a long lease, and is deposed before that is over."""
    first = await stage.start("a", 6.0)
    await stage.until(lambda: first.leading)
    second = await stage.start("b", 0.3)
    await stage.depose(first)
    await stage.until(lambda: second.election.term)
    third = await stage.start("c", 0.3)
    await stage.depose(second)
    await stage.until(lambda: third.leading)
    await stage.for_s(1)


async def given_back_too_soon(stage: Stage) -> None:
    """A leader resigns while its predecessor's lease still runs."""
    first = await stage.start("a", 6.0)
    await stage.until(lambda: first.leading)
    second = await stage.start("b", 0.3)
    await stage.depose(first)
    await stage.until(lambda: second.election.term)
    third = await stage.start("c", 0.3)
    second.call(lambda: second.spawn(second.election.close()))
    await stage.until(lambda: third.leading)
    await stage.for_s(1)


async def cut_off_between_the_steps(stage: Stage) -> None:
    """A candidate makes its ``leader`` znode, sleeps through two terms, and goes on to raise the term."""
    tree = stage.cluster.zookeeper.tree
    original = tree.create
    first = await stage.start("a")

    def create(path: str, data: bytes, **options: object) -> str:
        made = original(path, data, **options)  # type: ignore[arg-type]
        if path.endswith("/leader") and b'"node":"b"' in data and not cut:
            cut.append(second)
            asyncio.get_running_loop().call_later(0.0003, second.host.cut)
        return made

    cut: list[Process] = []
    await stage.until(lambda: first.leading)
    second = await stage.start("b")
    tree.create = create  # type: ignore[method-assign]
    first.call(lambda: first.spawn(first.election.close()))
    await stage.until(lambda: cut)
    third = await stage.start("c")
    await stage.until(lambda: third.leading)
    third.call(lambda: third.spawn(third.election.close()))
    fourth = await stage.start("d")
    await stage.until(lambda: fourth.leading)
    second.host.heal()
    await stage.for_s(2)
    fourth.call(lambda: fourth.spawn(fourth.election.close()))
    await stage.for_s(3)


async def answered_late(stage: Stage) -> None:
    """A proof is answered while the leader is stopped; it wakes without a connection."""
    first = await stage.start("a", 1.0)
    await stage.until(lambda: first.leading)
    second = await stage.start("b", 1.0)
    calls = stage.cluster.zookeeper.tree
    original = calls.set
    proofs: list[str] = []

    def set_(path: str, data: bytes, version: int) -> int:
        if "/beats/a-" in path and not proofs:
            proofs.append(path)
            first.host.pause()
        return original(path, data, version)

    calls.set = set_  # type: ignore[method-assign]
    await stage.until(lambda: proofs)
    first.host.model.expire()
    await stage.until(lambda: second.leading)
    first.idle = True
    first.host.cut()
    first.host.resume(hears_after_s=0.1)
    await stage.for_s(2)


SCENARIOS = (
    clocks_apart,
    a_leader_nobody_saw,
    a_short_term_between,
    given_back_too_soon,
    cut_off_between_the_steps,
    answered_late,
)
