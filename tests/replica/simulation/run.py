"""One simulated run: a seed in, nothing out, or a BrokenPromiseError with how to see it again."""

from __future__ import annotations

import asyncio
import logging
import random
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest.mock import patch

from herdpy.log import LSN, ChainError
from herdpy.log.bookkeeper import FollowedLog
from herdpy.testing.model import ZOOKEEPER, SimulationError, on_host
from herdpy_server.replica.guard import ReplicaState
from herdpy_server.tablespace import Checkpointer
from herdpy_sql.errors import SqlError
from tests.bookkeeper.simulation.faults import Faults
from tests.replica.simulation.history import BrokenPromiseError
from tests.replica.simulation.programs import TABLES, Client, NodeTrouble, archive, checkpoints, sample
from tests.replica.simulation.world import ARCHIVE, Node, World

assert ZOOKEEPER == "zookeeper"
PATIENCE_S = 30.0
"""Virtual time: the longest scenario takes 19 s, and one that a bug brings to a halt takes all of it."""
Script = Callable[[World], Awaitable[None]]


@contextmanager
def arranged(seed: int) -> Iterator[None]:
    """No thread of the checkpointer; and of thousands of faults nobody is warned.

    What has no generator of its own (pauses before another attempt) draws from the same seed, too.
    """
    with ExitStack() as stack:
        stack.callback(random.setstate, random.getstate())
        random.seed(seed)
        stack.enter_context(patch.object(Checkpointer, "start", lambda _self: None))
        stack.enter_context(patch.object(Checkpointer, "stop", lambda _self: None))
        logger = logging.getLogger("herdpy")
        level = logger.level
        logger.setLevel(logging.CRITICAL)
        try:
            yield
        finally:
            logger.setLevel(level)


def simulate(seed: int, script: Script | None = None, *, keep_trace: bool = False) -> World:
    """Run a seed: at random, or a script. Raises BrokenPromiseError when a promise was broken."""
    with tempfile.TemporaryDirectory(prefix="herdpy-replicas-") as directory, arranged(seed):
        world = World(seed, Path(directory), keep_trace=keep_trace)
        try:
            world.cluster.run(lambda: _run(world, script or _at_random))
        except BrokenPromiseError as error:
            world.history.violations.append(str(error))
        except (SimulationError, ChainError) as error:
            world.history.violations.append(f"{type(error).__name__}: {error}")
    if world.history.violations:
        told = "\n  ".join(dict.fromkeys(world.history.violations[:20]))
        trace = "\n".join(world.trace or ())
        raise BrokenPromiseError(
            f"{trace}\nseed {seed}:\n  {told}\nto see its trace: python -m tests.replica.simulation {seed}"
        )
    return world


async def _at_random(world: World) -> None:
    """Clients and trouble, for a while."""
    clients = [Client(world, number) for number in range(world.rng.choice((3, 6)))]
    tasks = [asyncio.create_task(one.run(), name="client") for one in clients]
    faults = Faults(world.cluster, random.Random(f"{world.seed} faults"), [], 2.0, world.tell)
    faults._kinds = [faults._crash, faults._pause] if world.rng.random() < 0.5 else []
    trouble = [NodeTrouble(world).run(world.now() + world.trouble_s)]
    if faults._kinds:
        trouble.append(faults.run(world.now() + world.trouble_s))
    try:
        await asyncio.gather(*trouble)
        await faults.end()
        await _heal(world)
        await asyncio.sleep(1.0)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _heal(world: World) -> None:
    world.cluster.heal()
    for node in list(world.nodes.values()):
        node.resume()
        if node.is_dead:
            await world.start(node.name)
    world.tell("all is well")


async def _run(world: World, script: Script) -> None:
    history = world.history
    truth: list[tuple[LSN, int]] = []
    logs: list[FollowedLog] = []
    tasks = []
    try:
        for name in world.names:
            await world.start(name)
        await make_tables(world)
        with on_host(ARCHIVE):
            archiving = asyncio.create_task(archive(world, truth, logs), name="archive")
        tasks.append(archiving)
        tasks.append(asyncio.create_task(checkpoints(world), name="checkpoints"))
        try:
            async with asyncio.timeout(PATIENCE_S):
                await script(world)
        except TimeoutError:
            raise BrokenPromiseError(f"seed {world.seed}: the script does not come to an end") from None
        await _heal(world)
        for task in tasks[1:]:
            task.cancel()
        await asyncio.gather(*tasks[1:], return_exceptions=True)
        await until(world, lambda: not _statements(), "statements do not come to an end")
        await _calm(world)
        await until(world, lambda: len(truth) >= _most(world), "the archive does not get everything")
        await logs[0].close()
        await archiving
        history.check(truth)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        world.cluster.heal()
        for node in world.nodes.values():
            if node.is_dead:
                continue
            node.resume()
            closing = node.begin(node.close(), "close")
            done, _ = await asyncio.wait([closing], timeout=30)
            if not done:
                history.broken(f"{node.host} does not come to an end")
                await node.kill()
            elif not closing.cancelled() and (error := closing.exception()) is not None:
                history.broken(f"{node.host} did not close: {error!r}")


def _statements() -> list[str]:
    """What still runs for clients, if only to its end."""
    return [name for task in asyncio.all_tasks() if (name := task.get_name()).endswith(" statement")]


async def make_tables(world: World) -> None:
    leader = await _leader(world)
    for statement in TABLES:
        await execute(leader, statement)


async def execute(node: Node, statement: str) -> None:
    async def run() -> None:
        assert node.replica is not None
        await node.replica.session().execute(statement)

    await node.begin(run(), "statement")


async def _leader(world: World) -> Node:
    def leading() -> list[Node]:
        return [
            one
            for one in world.nodes.values()
            if one.replica is not None and one.replica.state is ReplicaState.LEADING
        ]

    await until(world, lambda: len(leading()) == 1, "nobody leads")
    return leading()[0]


async def until(world: World, condition: object, what: str) -> None:
    assert callable(condition)
    until_s = world.now() + PATIENCE_S
    while not condition():
        if world.now() > until_s:
            states = [
                f"{one.host}: {one.replica and (one.replica.state, one.replica.applied, one.replica.problem)}"
                for one in world.nodes.values()
            ]
            raise BrokenPromiseError(f"seed {world.seed}: {what}: {states}")
        await asyncio.sleep(0.05)


async def _calm(world: World) -> None:
    """All replicas come to the same state, which is the leader's, and writing works."""
    for _ in range(20):
        leader = await _leader(world)
        try:
            await execute(leader, "UPDATE r SET c = c WHERE k = 1")
            break
        except SqlError as error:
            world.tell(f"{leader.host}: {error}")
            await asyncio.sleep(1.0)
    else:
        raise BrokenPromiseError(f"seed {world.seed}: nothing can be written in the end")
    assert leader.replica is not None
    end = leader.replica.applied

    def all_there() -> bool:
        return all(one.replica is not None and one.replica.applied >= end for one in world.nodes.values())

    await until(world, all_there, f"not all replicas come to {end}")
    states = {}
    for name, node in world.nodes.items():
        found = sample(world, node)
        assert found is not None
        states[name] = (found.value, found.count, found.rows)
    if len(set(states.values())) != 1:
        world.history.broken(f"replicas differ in the end: {states}")


def _most(world: World) -> int:
    """How many writes there are in the end."""
    return max(one.rows for one in world.history.samples)
