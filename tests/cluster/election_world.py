"""A replicated counter under elections: what must hold whatever happens to processes and connections.

Each process is a replica: when elected it fences the log, waits to be alone, then counts up and answers
reads. The log is one number that only the newest fencer may raise, which is what fencing gives. Ends of
processes are attested: at once, late, again, or not at all. Judged are: never two valid leases; no read older
than what had been acknowledged when it was asked; no epoch twice; a leader soon after the last fault.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from herdpy.bookkeeper.metadata.znodes import ANY_VERSION
from herdpy.log.lsn import START
from herdpy.testing.model.network import Delay, on_host
from herdpy_server.cluster.coordination import Coordination
from herdpy_server.cluster.election import Candidate, Election
from herdpy_server.cluster.errors import TermLostError
from herdpy_server.cluster.layout import EndedRecord, Layout, NodeRecord, encode
from herdpy_server.cluster.lease import Term
from herdpy_server.cluster.tablespaces import TablespaceInfo
from tests.cluster.simulated import NOWHERE, Host, SimulatedCluster

SESSION_S = 1.5
LEASES_S = (0.3, 0.5, 0.5, 2.0)
PATIENCE_S = 9.0
"""A session's end, the longest lease, grace, repetitions, and all of it once more."""


@dataclass
class Log:
    """The replicated log: its fencing epoch and what is acknowledged."""

    fenced: int = 0
    acknowledged: int = 0

    def fence(self, epoch: int) -> bool:
        self.fenced = max(self.fenced, epoch)
        return self.fenced == epoch

    def append(self, epoch: int) -> int | None:
        """One more, acknowledged; None when another leads."""
        if self.fenced != epoch:
            return None
        self.acknowledged += 1
        return self.acknowledged

    def confirm(self, epoch: int) -> bool:
        """Whether an entry without content is acknowledged."""
        return self.fenced == epoch


@dataclass
class World:
    """One run's state and verdict."""

    cluster: SimulatedCluster
    checks_first: bool = False  # a seeded bug: the lease is checked when a transaction begins
    lies: bool = False  # a seeded bug: a process that is paused is taken for one that has ended
    confirms_first: bool = False  # a seeded bug: the entry that confirms a read is sent before the read
    log: Log = field(default_factory=Log)
    processes: list[Process] = field(default_factory=list)
    terms: list[tuple[Host, Term]] = field(default_factory=list)
    current: list[tuple[Host, Term]] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)
    answers: int = 0
    by_log: int = 0  # of them those without a lease
    last_fault_s: float = 0.0

    def now(self) -> float:
        return self.cluster.loop.time()

    def tell(self, what: str) -> None:
        self.trace.append(f"{self.now():9.4f} {what}")

    def violated(self, what: str) -> None:
        self.tell(f"VIOLATION {what}")
        self.violations.append(what)

    def holders(self) -> list[tuple[Host, Term]]:
        self.current = [one for one in self.current if one[1].lease.until_s > 0 or one[1].loss is None]
        dead = {process.host.name for process in self.processes if process.is_dead}
        return [(host, term) for host, term in self.current if host.name not in dead and term.lease.is_held]

    def attest(
        self, process: Process, *, after_s: float = 0.0, between_s: float = 0.0, closes_first: bool = False
    ) -> None:
        """What a supervisor does when it takes a process for one that has ended: it attests, and closes.

        Args:
            after_s, between_s: its pauses before the two steps.
            closes_first: it does them in the other order.
        """
        session = process.host.model.session
        record = encode(EndedRecord(node=process.node, instance=process.host.name))
        path = Layout("/herdpy").ended_of(process.node)
        zookeeper = self.cluster.zookeeper

        def write() -> None:
            self.trace_attestation(process)
            if zookeeper.tree.find(path) is None:
                zookeeper.tree.create(path, record, now_ms=zookeeper.now_ms(), make_parents=True)
            else:
                zookeeper.tree.set(path, record, ANY_VERSION)

        steps: list[Callable[[], None]] = [write, lambda: zookeeper.end_session(session)]
        if closes_first:
            steps.reverse()
        with on_host(NOWHERE):
            self.cluster.loop.call_later(after_s, steps[0])
            self.cluster.loop.call_later(after_s + between_s, steps[1])

    def trace_attestation(self, process: Process) -> None:
        self.tell(f"{process.host.name} is attested to have ended")

    def check(self) -> None:
        holders = self.holders()
        if len(holders) > 1:
            self.violated(f"leases valid at once: {[(host.name, term.epoch) for host, term in holders]}")


class Process:
    """One life of a node."""

    def __init__(self, world: World, host: Host, node: str, lease_s: float, rng: random.Random) -> None:
        self.world = world
        self.host = host
        self.node = node
        self.value = 0
        self.leading: Term | None = None
        self.able = True
        self.idle = False  # writes nothing, and so does not meet the fence
        self.hears = False  # whether it is connected to whoever leads, without ZooKeeper
        self.is_dead = False
        self.is_away = False
        self._rng = rng
        self._lease_s = lease_s
        self._tasks: list[asyncio.Task[None]] = []
        self.election: Election

    def start(self, info: TablespaceInfo) -> None:
        """Begin, on its host."""
        with on_host(self.host.name):
            self._tasks.append(asyncio.get_running_loop().create_task(self._main(info), name=self.host.name))

    def call(self, what: Callable[[], object]) -> None:
        """Run something on its host."""
        with on_host(self.host.name):
            asyncio.get_running_loop().call_soon(what)

    def spawn(self, work: object) -> None:
        task = asyncio.get_running_loop().create_task(work)  # type: ignore[arg-type]
        self._tasks.append(task)

    async def _main(self, info: TablespaceInfo) -> None:
        record = NodeRecord(node=self.node, instance=self.host.name, session_timeout_s=SESSION_S)
        parts = Coordination(
            self.host.znodes,
            "/herdpy",
            record,
            lease_s=self._lease_s,
            refused=lambda error: self.world.violated(str(error)),
            clock=self.host.clock,
        )
        candidate = Candidate(
            lambda: START,
            self._lacks,
            self._won,
            self._lost,
            heard_until_s=lambda _leader: self.host.clock() + 0.5 if self.hears else -math.inf,
        )
        self.election = parts.election(info, candidate)
        self.election.start()
        while True:
            await self._read()

    async def _lacks(self) -> str | None:
        return None if self.able else "told not to"

    def _won(self, term: Term) -> None:
        world = self.world
        world.tell(f"{self.host.name} won epoch {term.epoch}")
        if any(term.epoch == other.epoch for _, other in world.terms):
            world.violated(f"two terms have epoch {term.epoch}")
        world.terms.append((self.host, term))
        world.current.append((self.host, term))
        self.spawn(self._lead(term))

    def _lost(self, term: Term) -> None:
        self.world.tell(f"{self.host.name} lost epoch {term.epoch}: {term.loss}")

    async def _lead(self, term: Term) -> None:
        log, rng = self.world.log, self._rng
        await asyncio.sleep(rng.uniform(0, 0.1))
        if not log.fence(term.epoch):
            self.world.tell(f"{self.host.name} is fenced")
            return
        value = log.acknowledged
        try:
            await term.alone()
        except TermLostError:
            return
        self.value, self.leading = value, term
        self.world.tell(f"{self.host.name} leads epoch {term.epoch}")
        self.world.check()
        while term.loss is None:
            await asyncio.sleep(rng.uniform(0.002, 0.04))
            if self.idle:
                continue
            appended = log.append(term.epoch)
            if appended is None:
                break
            self.value = appended
        if self.leading is term:
            self.leading = None
        await self.election.resign()

    async def _read(self) -> None:
        world, rng = self.world, self._rng
        asked = world.log.acknowledged
        await asyncio.sleep(rng.uniform(0, 0.02))
        term = self.leading
        if term is None:
            return
        if world.checks_first:
            valid = term.lease.valid()
            await asyncio.sleep(rng.uniform(0, 0.2))
            asked = world.log.acknowledged  # the transaction's next statement comes
            value = self.value
        else:
            confirmed = world.confirms_first and world.log.confirm(term.epoch)
            if confirmed:
                await asyncio.sleep(rng.uniform(0, 4))
                asked = world.log.acknowledged
            value = self.value
            await asyncio.sleep(rng.uniform(0, 0.002))
            valid = term.lease.valid()
            if not valid:
                await asyncio.sleep(rng.uniform(0, 0.01))
                valid = confirmed or (not world.confirms_first and world.log.confirm(term.epoch))
                world.by_log += valid
        if valid:
            world.answers += 1
            if value < asked:
                world.violated(f"{self.host.name} answers {value}, and {asked} was acknowledged before")


FAULTS = (
    "pause",
    "cut",
    "deafen",
    "expire",
    "cut and expire",
    "pause and expire",
    "disconnect",
    "zookeeper away",
    "kill",
    "attest again",
    "resign",
)


class Faults:
    """What happens to processes, drawn from one seed."""

    def __init__(self, world: World, rng: random.Random, restart: Callable[[str], object]) -> None:
        self._world = world
        self._rng = rng
        self._restart = restart

    async def run(self, until_s: float) -> None:
        rng, world = self._rng, self._world
        while world.now() < until_s:
            await asyncio.sleep(rng.choice((0.05, 0.3, 1.0, 3.0)) * rng.random())
            living = [one for one in world.processes if not one.is_dead]
            if not living:
                continue
            process = rng.choice(living)
            if rng.random() < 0.6:
                process = rng.choice([one for one in living if one.leading] or living)
            if not process.is_away:
                self._strike(process, rng.choice(FAULTS))

    def _strike(self, process: Process, kind: str) -> None:
        world, host = self._world, process.host
        world.last_fault_s = world.now()
        world.tell(f"{kind} {host.name}")
        process.idle = self._rng.random() < 0.5
        lasting_s = self._rng.choice((0.2, 0.6, 1.0, 2.0, 5.0)) * self._rng.uniform(0.5, 1.2)
        if kind == "pause":
            host.pause()
            self._later(process, lasting_s, lambda: self._wake(host))
            if world.lies:
                world.attest(process)
        elif kind == "cut":
            host.cut()
            self._later(process, lasting_s, host.heal)
        elif kind == "deafen":
            world.cluster.network.cut("zookeeper", host.name)
            self._later(process, lasting_s, host.heal)
        elif kind in ("cut and expire", "pause and expire"):
            # ZooKeeper gives up a session sooner than its holder can know.
            self._strike(process, kind.partition(" ")[0])
            host.model.expire()
        elif kind == "zookeeper away":
            self._all_away(lasting_s)
        elif kind == "expire":
            host.model.expire()
        elif kind == "disconnect":
            host.model.disconnect()
        elif kind == "resign":
            process.call(lambda: process.spawn(process.election.resign()))
        elif kind == "attest again":
            dead = [one for one in world.processes if one.is_dead]
            if dead:
                world.attest(self._rng.choice(dead))
        else:
            self._kill(process, lasting_s)

    def _kill(self, process: Process, lasting_s: float) -> None:
        """End a process; its supervisor attests that, unless it is killed, too."""
        world, rng = self._world, self._rng
        process.is_dead = True
        world.cluster.loop.pause(process.host.name)
        process.host.model.abandon()
        asyncio.get_running_loop().call_later(lasting_s, self._restart, process.node)
        if rng.random() < 0.7:
            world.attest(
                process,
                after_s=rng.choice((0.0, 0.02, 0.5, 4.0)),
                between_s=rng.choice((0.0, 0.02, 1.0)),
                closes_first=rng.random() < 0.2,
            )

    def _all_away(self, lasting_s: float) -> None:
        """ZooKeeper is silent for everybody; often it ends all sessions when it is back."""
        for process in self._world.processes:
            if not process.is_dead and not process.is_away:
                process.host.cut()
                if self._rng.random() < 0.5:
                    process.host.model.expire()
                self._later(process, lasting_s, process.host.heal)

    def _wake(self, host: Host) -> None:
        """Go on; often it takes a while until the connection is there again, and with it the news."""
        if self._rng.random() < 0.5:
            host.cut()
            asyncio.get_running_loop().call_later(self._rng.uniform(0.05, 1.0), host.heal)
        host.resume(self._rng.choice((0.0, 0.3)))

    def strike_soon(self, process: Process) -> None:
        """Strike a candidate between its two steps, or soon after."""

        def strike() -> None:
            if not process.is_away and not process.is_dead:
                self._strike(process, self._rng.choice(("cut", "cut and expire", "expire", "resign")))

        asyncio.get_running_loop().call_later(self._rng.choice((0.0, 0.01, 0.2)), strike)

    def _later(self, process: Process, lasting_s: float, undo: Callable[[], None]) -> None:
        process.is_away = True

        def end() -> None:
            process.is_away = False
            self._world.last_fault_s = self._world.now()
            if not process.is_dead:
                self._world.tell(f"{process.host.name} is well")
                undo()

        asyncio.get_running_loop().call_later(lasting_s, end)


def simulate(
    seed: int,
    *,
    checks_first: bool = False,
    confirms_first: bool = False,
    lies: bool = False,
    trouble_s: float = 15.0,
) -> World:
    """Run a seed; what was violated is in the result."""
    rng = random.Random(f"{seed} shape")
    delay = Delay(0.0002, rng.choice((0.002, 0.02)), late_s=rng.choice((0.05, 0.6)), late_share=0.03)
    cluster = SimulatedCluster(seed, session_s=SESSION_S, delay=delay, limit_s=trouble_s + 100)
    world = World(cluster, checks_first, lies, confirms_first)
    lost_share = rng.choice((0.0, 0.0, 0.02))
    nodes = ["a", "b", "c"][: rng.choice((2, 3, 3))]
    info = TablespaceInfo(name="t", uuid="1", replicas=tuple(nodes), leader=rng.choice((None, *nodes)))
    leases_s = {node: rng.choice(LEASES_S) for node in nodes}
    lives = dict.fromkeys(nodes, 0)

    async def start(node: str) -> None:
        lives[node] += 1
        host = await cluster.host(f"{node}{lives[node]}", rng.uniform(0.9902, 1.0098))
        process = Process(world, host, node, leases_s[node], random.Random(f"{seed} {host.name}"))
        former = [one for one in world.processes if one.node == node]
        if former and rng.random() < 0.5:
            world.attest(former[-1], after_s=rng.choice((0.0, 0.3)))
        process.hears = rng.random() < 0.3
        world.processes.append(process)
        process.start(info)

    starting: set[asyncio.Task[None]] = set()

    def restart(node: str) -> None:
        world.last_fault_s = world.now()
        starting.add(asyncio.get_running_loop().create_task(start(node)))

    async def program() -> None:
        faults = Faults(world, random.Random(f"{seed} faults"), restart)
        for node in nodes:
            await start(node)
        original = cluster.zookeeper.tree.create

        def create(path: str, data: bytes, **options: object) -> str:
            made = original(path, data, **options)  # type: ignore[arg-type]
            if path.endswith("/leader") and world.now() < trouble_s and rng.random() < 0.3:
                node = data.partition(b'"node":"')[2][:1].decode()
                process = [one for one in world.processes if one.node == node][-1]
                with on_host(NOWHERE):
                    faults.strike_soon(process)
            return made

        cluster.zookeeper.tree.create = create  # type: ignore[method-assign]
        cluster.zookeeper.lost_request_share = cluster.zookeeper.lost_reply_share = lost_share
        judging = asyncio.get_running_loop().create_task(_judge(world))
        await faults.run(trouble_s)
        cluster.zookeeper.lost_request_share = cluster.zookeeper.lost_reply_share = 0.0
        await asyncio.sleep(6 + PATIENCE_S)  # the longest fault, and what follows
        elections = [one.election for one in world.processes if not one.is_dead]
        terms = [election.term for election in elections if election.term is not None]
        if len(terms) != 1 or any(one.leader is None or one.leader.tag != terms[0].tag for one in elections):
            world.violated(f"{len(terms)} lead in a healthy cluster, or not all know who does")
        judging.cancel()

    cluster.run(program)
    return world


async def _judge(world: World) -> None:
    led_s = 0.0
    while True:
        await asyncio.sleep(0.004)
        world.check()
        if world.holders():
            led_s = world.now()
        elif world.now() - max(led_s, world.last_fault_s) > PATIENCE_S:
            world.violated("nobody leads")
            return
