"""What is done in a run: clients that write and read, checkpoints, an archivist, and trouble.

A client is a session on a node, whichever the seed says; what runs for it runs on the node's host. It gives
up after a while, and then knows nothing of what it had asked for.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

from herdpy.bookkeeper import BookKeeper
from herdpy.log import LSN, START, TransactionAssembler
from herdpy.log.bookkeeper import FollowedLog, LedgerLogSettings, ZnodeLedgerList
from herdpy.testing.model import ModelZnodes
from herdpy_server.replica.guard import ReplicaState
from herdpy_server.sessions import Session
from herdpy_sql.errors import SqlError
from tests.replica.simulation.history import Read, Sample, Told, Write
from tests.replica.simulation.loading import load_row
from tests.replica.simulation.world import ARCHIVE, CLIENT, NAME, Node, World

TABLES = (
    "CREATE TABLE w (id int8 PRIMARY KEY)",
    "CREATE TABLE r (k int8 PRIMARY KEY, v int8, c int8)",
    "INSERT INTO r VALUES (1, 0, 0)",
)
_UNKNOWN = "08007"
_LEVELS = ("linearizable", "linearizable", "linearizable", "bounded", "at_lsn", "any")
_GIVES_UP_S = 6.0


class GoneError(Exception):
    """The node says nothing."""


class Client:
    """One client; everything it does is by ``rng``."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.rng = random.Random(f"{world.seed} client {number}")
        self.session: Session | None = None
        self.node: Node | None = None
        self._last: tuple[int, str] = (0, "")  # its newest write that is done, and a position after it

    async def run(self) -> None:
        """Until cancelled."""
        rng = self.rng
        while True:
            await asyncio.sleep(rng.expovariate(1 / 0.03))
            node = self._node()
            if node.replica is None or node.is_dead:
                continue
            if rng.random() < 0.5:
                await self._write(node)
            else:
                await self._read(node)

    def _node(self) -> Node:
        nodes = self.world.nodes
        leading = [one for one in nodes.values() if one.replica and one.replica.guard.basis is not None]
        if leading and self.rng.random() < 0.7:  # those that believe to lead: there may be two
            return self.rng.choice(leading)
        return nodes[self.rng.choice(self.world.names)]

    def _session(self, node: Node) -> Session:
        assert node.replica is not None
        if (
            self.session is None
            or self.node is not node
            or self.session.waits.is_closed
            or self.rng.random() < 0.2
        ):
            self.node, self.session = node, node.replica.session()
            self.session.settings.set("herdpy.engine", "own")
        return self.session

    async def _ask(
        self, node: Node, *statements: str, pause_s: float = 0.0, loads: int | None = None
    ) -> Sequence[Any]:
        """Run statements on the node, as one client does; the rows of the last. GoneError, SqlError.

        ``loads``: the write whose row is to be loaded before the last of them.
        """

        async def run() -> Sequence[Any]:
            session = self._session(node)
            result = None
            try:
                for at, statement in enumerate(statements):
                    if at and pause_s:
                        await asyncio.sleep(pause_s)
                    if loads is not None and at == len(statements) - 1:
                        await load_row(session, node, loads)
                    result = await session.execute(statement)
            except BaseException:
                await session.rollback()
                raise
            assert result is not None
            return result.rows or []

        task = node.begin(run(), "statement")
        task.add_done_callback(lambda one: one.cancelled() or one.exception())  # if nobody waits any more
        done, _ = await asyncio.wait([task], timeout=_GIVES_UP_S)
        if not done or task.cancelled():
            self.session = None
            raise GoneError
        return task.result()

    async def _write(self, node: Node) -> None:
        write = self.world.history.asked(node.host)
        number = write.number
        slow = self.rng.random() < 0.25
        loads = self.rng.random() < 0.2
        statements = [
            f"SET herdpy.request_id = 'w{number}'",
            "BEGIN",
            f"UPDATE r SET v = {number}, c = c + 1 WHERE k = 1",
            *([] if loads else [f"INSERT INTO w VALUES ({number})"]),
            "COMMIT",
        ]
        pause_s = self.rng.uniform(0, 0.3) if slow else 0.0
        try:
            await self._ask(node, *statements, pause_s=pause_s, loads=number if loads else None)
        except GoneError:
            self.world.history.ended(write, "unknown", "no answer")
        except SqlError as error:
            unknown = error.sqlstate == _UNKNOWN
            self.world.history.ended(write, "unknown" if unknown else "not done", str(error))
        else:
            self.world.history.ended(write, "done")
            await self._remember(node, number)
            return
        if write.outcome == "unknown" and self.rng.random() < 0.7:
            await self._resolve(write)

    async def _remember(self, node: Node, number: int) -> None:
        try:
            rows = await self._ask(node, "SELECT herdpy.commit_position()")
        except (GoneError, SqlError):
            return
        self._last = (number, str(rows[0][0]))

    async def _resolve(self, write: Write) -> None:
        """Ask another node, now and then, what became of a write whose statement is over."""
        if write.error == "no answer":
            return  # it may still be on its way
        for _ in range(5):
            await asyncio.sleep(self.rng.uniform(0, 1.0))
            node = self._node()
            if node.replica is None or node.is_dead:
                continue
            try:
                rows = await self._ask(node, f"SELECT herdpy.commit_outcome('w{write.number}')")
            except (GoneError, SqlError):
                continue
            told = str(rows[0][0])
            if told != "unknown":
                self.world.history.told.append(Told(write.number, told.split(maxsplit=1)[0], node.host))
                self.world.tell(f"{node.host} says that write {write.number} is {told}")
                return

    async def _read(self, node: Node) -> None:
        rng, now = self.rng, self.world.now
        level = rng.choice(_LEVELS)
        last, position = self._last
        if level == "at_lsn" and not position:
            level = "any"
        settings = [f"SET herdpy.read_level = '{level}'"]
        stale_ms = rng.choice((0, 200, 1000))
        if level == "bounded":
            settings.append(f"SET herdpy.max_staleness_ms = {stale_ms}")
        elif level == "at_lsn":
            settings.append(f"SET herdpy.min_lsn = '{position}'")
        try:
            await self._ask(node, *settings)
            asked_s = now()
            rows = await self._ask(node, "SELECT v FROM r WHERE k = 1")
            if not rows and level == "any":
                return  # of a time before the table was filled
            value = rows[0][0] if rows else -1
            read = Read(node.host, level, asked_s, now(), value, stale_ms / 1000, last)
            self.world.history.reads.append(read)
            self.world.tell(f"{node.host}: a {level} read from {asked_s:.6f} saw {value}")
        except GoneError:
            pass
        except SqlError as error:
            if error.sqlstate not in ("HP003", "57P03", "40001", "57P01", "42P01"):
                self.world.history.broken(f"{node.host}: a {level} read failed: {error}")
        finally:
            self.session = None  # and with it the level


async def checkpoints(world: World) -> None:
    """Each node writes its store now and then; and a follower's state is noted."""
    rng = random.Random(f"{world.seed} checkpoints")
    while True:
        await asyncio.sleep(rng.expovariate(1 / 0.1))
        node = world.nodes[rng.choice(world.names)]
        replica = node.replica
        if node.is_dead or node.is_paused or replica is None or replica.opened is None:
            continue
        if rng.random() < 0.3:
            replica.opened.checkpointer.checkpoint(trim=False)
        if replica.state is ReplicaState.FOLLOWING:
            sample(world, node)


def sample(world: World, node: Node) -> Sample | None:
    """Note what a node has; nothing before its tables are there."""
    assert node.replica is not None
    opened = node.replica.opened
    assert opened is not None
    catalog = opened.store.catalog
    if "r" not in catalog.by_name:
        return None
    workspace = opened.tablespace.begin(instant=True).workspace
    table = catalog.by_name["r"]
    registers = list(workspace.scan(table))
    if not registers:
        return None
    rows = sum(1 for _ in workspace.scan(catalog.by_name["w"]))
    decode = workspace.ops(table).decode
    _, value, count = decode(registers[0][1])
    found = Sample(node.host, node.replica.applied, value, count, rows)
    world.history.samples.append(found)
    return found


async def archive(world: World, log_told: list[tuple[LSN, int]], followed: list[FollowedLog]) -> None:
    """Read everything there ever is; the transactions that have a number."""
    znodes = ModelZnodes(world.cluster.zookeeper, ARCHIVE, timeout_s=10.0)
    bk = BookKeeper(znodes=znodes, settings=CLIENT, rng=random.Random(f"{world.seed} archive"))
    await bk.open()
    paths = f"/herdpy/tablespaces/{NAME}/ledgers"
    log = FollowedLog(bk, ZnodeLedgerList(bk.znodes, paths), LedgerLogSettings(tablespace=NAME))
    followed.append(log)
    assembler = TransactionAssembler(START)
    try:
        async for _, entry in log.tail(START):
            for lsn, transaction in assembler.feed(entry):
                if transaction.request_id:
                    log_told.append((lsn, int(transaction.request_id[1:])))
    finally:
        await log.close()
        await bk.close()


class NodeTrouble:
    """Trouble of nodes, one after the other; bookies have theirs beside it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rng = random.Random(f"{world.seed} trouble")
        kinds = [self._kill, self._pause, self._cut_zookeeper, self._cut_bookies, self._cut_all, self._expire]
        kinds.append(self._cut_nodes)
        self._kinds = self.rng.sample(kinds, self.rng.randint(2, len(kinds)))

    async def run(self, until_s: float) -> None:
        while self.world.now() < until_s:
            await asyncio.sleep(self.rng.uniform(0.1, 1.5))
            node = self._victim()
            if not node.is_dead and node.replica is not None:
                await self.rng.choice(self._kinds)(node)

    def _victim(self) -> Node:
        nodes = self.world.nodes
        leading = [one for one in nodes.values() if one.replica and one.replica.guard.basis is not None]
        if leading and self.rng.random() < 0.7:
            return self.rng.choice(leading)
        return nodes[self.rng.choice(self.world.names)]

    async def _later(self) -> None:
        await asyncio.sleep(self.rng.choice((0.05, 0.5, 1.5, 3.0)) * self.rng.uniform(0.5, 2))

    async def _kill(self, node: Node) -> None:
        self.world.tell(f"fault: {node.host} is killed")
        await node.kill()
        await self._later()
        await self.world.start(node.name)

    async def _pause(self, node: Node) -> None:
        self.world.tell(f"fault: {node.host} is paused")
        node.pause()
        await self._later()
        self.world.tell(f"{node.host} goes on")
        node.resume()

    async def _cut(self, node: Node, others: Sequence[str], way: str = "both ways") -> None:
        self.world.tell(f"fault: {node.host} is cut from {', '.join(others)}, {way}")
        network = self.world.cluster.network
        for other in others:
            if way != "received":
                network.cut(node.host, other)
            if way != "sent":
                network.cut(other, node.host)
        await self._later()
        for other in others:
            network.heal(node.host, other)
        self.world.tell(f"{node.host} is healed")

    async def _cut_zookeeper(self, node: Node) -> None:
        await self._cut(node, ["zookeeper"])

    async def _cut_bookies(self, node: Node) -> None:
        hosts = self.world.bookie_hosts
        way = self.rng.choice(("both ways", "both ways", "sent", "received"))
        await self._cut(node, self.rng.sample(hosts, self.rng.randint(1, len(hosts))), way)

    async def _cut_all(self, node: Node) -> None:
        await self._cut(node, ["zookeeper", *self.world.bookie_hosts])

    async def _cut_nodes(self, node: Node) -> None:
        others = [one.host for one in self.world.nodes.values() if one is not node]
        await self._cut(node, others, self.rng.choice(("both ways", "sent", "received")))

    async def _expire(self, node: Node) -> None:
        self.world.tell(f"fault: {node.host}'s session expires")
        node.model.expire()
