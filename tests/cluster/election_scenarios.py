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

    async def start(self, node: str, lease_s: float = 0.5, rate: float = 1.0, *, life: str = "") -> Process:
        host = await self.cluster.host(node + life, rate)
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

    def kill(self, process: Process) -> None:
        """End it; nobody attests that."""
        process.is_dead = True
        self.cluster.loop.pause(process.host.name)
        process.host.model.abandon()

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


async def attested_before_it_was_alone(stage: Stage) -> None:
    """A leader is killed, and attested, while it waits for its predecessor's lease."""
    first = await stage.start("a", 6.0)
    await stage.until(lambda: first.leading)
    second = await stage.start("b", 0.3)
    await stage.depose(first)
    await stage.until(lambda: second.election.term)
    third = await stage.start("c", 0.3)
    stage.kill(second)
    stage.world.attest(second)
    await stage.until(lambda: third.leading)
    await stage.for_s(1)


async def an_older_process_was_attested(stage: Stage) -> None:
    """The node's former process is attested to have ended; its present one leads, and cannot be heard."""
    former = await stage.start("a", 2.0)
    await stage.until(lambda: former.leading)
    stage.kill(former)
    stage.world.attest(former)
    first = await stage.start("a", 2.0, life="2")
    await stage.until(lambda: first.leading)
    second = await stage.start("b", 2.0)
    await stage.depose(first)
    stage.world.attest(former)  # again
    await stage.until(lambda: second.leading)
    await stage.for_s(1)


async def attested_hours_late(stage: Stage) -> None:
    """A supervisor sleeps through the session's expiry and the next two terms; then it attests."""
    first = await stage.start("a", 2.0)
    await stage.until(lambda: first.leading)
    second = await stage.start("b", 2.0)
    stage.kill(first)
    await stage.until(lambda: second.leading)
    again = await stage.start("a", 2.0, life="2")
    await stage.depose(second)
    await stage.until(lambda: again.leading)
    third = await stage.start("c", 2.0)
    stage.world.attest(first, between_s=0.5)
    await stage.for_s(1)
    await stage.depose(again)
    await stage.until(lambda: third.leading)
    await stage.for_s(1)


async def closed_before_it_is_attested(stage: Stage) -> None:
    """A supervisor closes the session, pauses, and attests while the successor waits for the lease."""
    first = await stage.start("a", 2.0)
    await stage.until(lambda: first.leading)
    second = await stage.start("b", 2.0)
    stage.kill(first)
    stage.world.attest(first, between_s=0.5, closes_first=True)
    await stage.until(lambda: second.leading)
    await stage.for_s(1)


async def a_living_process_is_attested(stage: Stage) -> None:
    """A supervisor lies: the leader lives, and cannot be heard. No scenario of those that must hold."""
    first = await stage.start("a", 2.0)
    await stage.until(lambda: first.leading)
    second = await stage.start("b", 2.0)
    first.idle = True
    first.host.cut()
    stage.world.attest(first)
    await stage.until(lambda: second.leading)
    await stage.for_s(1)


async def elected_and_gone_while_it_was_away(stage: Stage) -> None:
    """A leader is cut off from ZooKeeper alone; another is elected, counts, and gives its term back."""
    first = await stage.start("a")
    await stage.until(lambda: first.leading)
    second = await stage.start("b")
    first.idle = True  # or it met the fence
    first.host.cut()
    await stage.until(lambda: second.leading)
    await stage.for_s(1)
    second.able = False
    second.call(lambda: second.spawn(second.election.close()))
    await stage.for_s(1)
    first.host.heal()
    await stage.for_s(2)


async def _away(stage: Stage, away_s: float, *, hears: bool) -> None:
    """ZooKeeper is silent for all, and ends their sessions: the leader goes on, and its term too."""
    first = await stage.start("a")
    await stage.until(lambda: first.leading)
    second = await stage.start("b")
    second.hears = hears
    term = first.leading
    for process in (first, second):
        process.host.cut()
    await stage.for_s(away_s)
    world = stage.world
    counted, answered = world.log.acknowledged, world.by_log
    await stage.for_s(1)
    if world.log.acknowledged - counted < 20 or world.by_log - answered < 20:
        world.violated("the leader does not go on without ZooKeeper")
    # Mostly another's connection is back first.
    second.host.heal()
    await stage.for_s(0.3)
    first.host.heal()
    await stage.for_s(1)
    if hears and not (first.leading is term and term is not None and term.lease.is_held):
        world.violated("the leader did not keep its term, or has no lease a second after")
    if not hears and second.election.term is None:
        world.violated("a leader that nobody hears was left in its place")


async def away_for_seconds(stage: Stage) -> None:
    """ZooKeeper is silent for longer than a session."""
    await _away(stage, 4, hears=True)


async def away_for_minutes(stage: Stage) -> None:
    """ZooKeeper is silent for some minutes."""
    await _away(stage, 180, hears=True)


async def away_and_nobody_hears_the_leader(stage: Stage) -> None:
    """As far as the others know, it may have died."""
    await _away(stage, 4, hears=False)


async def carried_over_in_pieces(stage: Stage) -> None:
    """The connection breaks again and again while a term is carried over."""
    first = await stage.start("a")
    await stage.until(lambda: first.leading)
    term, zookeeper = first.leading, stage.cluster.zookeeper
    for _ in range(20):
        zookeeper.lost_request_share = zookeeper.lost_reply_share = 0.4
        first.host.model.expire()
        await stage.for_s(0.7)
    zookeeper.lost_request_share = zookeeper.lost_reply_share = 0.0
    await stage.for_s(2)
    if first.leading is not term or term is None or not term.lease.is_held:
        stage.world.violated("nobody else was elected, and the term is over")
    if len(first.election._ballot.tags) != 1:
        stage.world.violated(f"znodes are remembered that are none: {first.election._ballot.tags}")


SCENARIOS = (
    elected_and_gone_while_it_was_away,
    away_for_seconds,
    away_for_minutes,
    away_and_nobody_hears_the_leader,
    carried_over_in_pieces,
    clocks_apart,
    a_leader_nobody_saw,
    a_short_term_between,
    given_back_too_soon,
    cut_off_between_the_steps,
    answered_late,
    attested_before_it_was_alone,
    an_older_process_was_attested,
    attested_hours_late,
    closed_before_it_is_attested,
)
