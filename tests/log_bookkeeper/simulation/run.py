"""One simulated run: a seed in, nothing out, or a BrokenPromiseError with how to see it again."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from herdpy.log import Insert, LogError, LoggedTransaction
from herdpy.log.bookkeeper import FollowedLog, take_over
from herdpy.testing.model import ZOOKEEPER, SimulationError, on_host
from tests.bookkeeper.simulation.faults import Faults
from tests.log_bookkeeper.simulation.history import BrokenPromiseError, Seen
from tests.log_bookkeeper.simulation.programs import Candidate, Follower, archive
from tests.log_bookkeeper.simulation.world import World

PATIENCE_S = 150.0


@contextmanager
def _quiet() -> Iterator[None]:
    """Every fault is warned of; thousands of those tell nobody anything."""
    loggers = [logging.getLogger("herdpy.bookkeeper"), logging.getLogger("herdpy.log")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def simulate(seed: int, *, keep_trace: bool = False) -> World:
    """Run a seed. Raises BrokenPromiseError when a promise was broken."""
    world = World(seed, keep_trace=keep_trace)
    with _quiet():
        try:
            world.cluster.run(lambda: _run(world))
        except (SimulationError, LogError) as error:
            world.history.violations.append(f"{type(error).__name__}: {error}")
    if world.cluster.loop.leaked:
        world.history.violations.append(f"left running: {world.cluster.loop.leaked}")
    if world.history.violations:
        told = "\n  ".join(dict.fromkeys(world.history.violations[:20]))
        trace = "\n".join(world.trace or ())
        raise BrokenPromiseError(
            f"{trace}\nseed {seed}:\n  {told}\n"
            f"to see its trace: python -m tests.log_bookkeeper.simulation {seed}"
        )
    return world


async def _run(world: World) -> None:
    rng = world.rng
    truth = Seen("the archive")
    logs: list[FollowedLog] = []
    archiving = _start("archive", archive(world, truth, logs.append))
    names = [f"node{number}" for number in range(1, rng.randint(2, 4) + 1)]
    candidates = [Candidate(world, name, random.Random(f"{world.seed} {name}")) for name in names]
    followers = [
        Follower(world, f"follower{number}", random.Random(f"{world.seed} follower{number}"), truth)
        for number in range(1, rng.randint(1, 3) + 1)
    ]
    for candidate in candidates:
        candidate.archive = truth
    leading = [_start(one.name, one.run()) for one in candidates]
    following = [_start(one.name, one.run()) for one in followers]
    hosts = names + [one.name for one in followers]
    faults = Faults(world.cluster, rng, hosts, rng.choice((0.2, 0.6, 2.0)), world.tell)
    disturbing = asyncio.create_task(_disturb(world, candidates), name="disturbing")
    try:
        await faults.run(world.trouble_s)
        disturbing.cancel()
        await faults.end()
        world.tell("all is well")
        for candidate in candidates:
            candidate.stopping = True
        await _ended(world, leading, "leaders do not come to an end")
        for follower in followers:
            follower.calm = True
        await _start("judge", _judge(world, truth, followers))
        await logs[0].close()
        await _ended(world, [archiving], "the archive does not come to an end")
        world.history.check(truth)
    finally:
        tasks = [archiving, disturbing, *leading, *following]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.sleep(3)


def _start(host: str, program: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    with on_host(host):
        return asyncio.create_task(program, name=host)


async def _disturb(world: World, candidates: list[Candidate]) -> None:
    """Crashes of nodes, and pauses through which others take over."""
    rng, network = world.rng, world.cluster.network
    while True:
        await asyncio.sleep(rng.expovariate(1.0))
        victim = rng.choice(candidates)
        if rng.random() < 0.5:
            victim.crash()
            continue
        world.tell(f"{victim.name} is paused")
        hosts = [ZOOKEEPER, *(node.host for node in world.cluster.bookies.values())]
        for host in hosts:
            network.partition(victim.name, host)
        try:
            await asyncio.sleep(rng.uniform(0.1, 6.0))
        finally:
            for host in hosts:
                network.heal(victim.name, host)
            world.tell(f"{victim.name} goes on")


async def _ended(world: World, tasks: list[asyncio.Task[None]], what: str) -> None:
    done, waiting = await asyncio.wait(tasks, timeout=PATIENCE_S)
    for task in done:
        if (error := task.exception()) is not None:
            raise error
    if waiting:
        world.history.broken(f"{what}: {[task.get_name() for task in waiting]}")
        raise SimulationError("stuck")


async def _judge(world: World, truth: Seen, followers: list[Follower]) -> None:
    """In a healthy cluster a node takes over and writes, everybody reads it, and nothing is left over."""
    bk, _ = world.client("judge")
    await bk.open()
    world.epoch += 1
    history = world.history
    settings = replace(world.settings, write_patience_s=30.0)
    takeover = await take_over(bk, world.ledger_list(bk), settings, "judge", world.epoch)
    history.taken_over(world.epoch, takeover.end)
    epoch = world.epoch
    log = await takeover.lead(
        lambda appends, error: history.told("judge", epoch, appends, error), clock=world.now
    )
    written = history.appended("judge")
    lsn = await log.append(LoggedTransaction(written.number, [Insert(1, b"key", b"")]))
    deadline_s = world.now() + PATIENCE_S
    everybody = [truth, *(follower.seen for follower in followers)]
    while any(one.assembler.position < lsn for one in everybody) and world.now() < deadline_s:
        await asyncio.sleep(0.5)
        everybody = [truth, *(follower.seen for follower in followers)]
    for one in everybody:
        if one.assembler.position < lsn:
            history.broken(f"{one.name} is at {one.assembler.position} and does not come to {lsn}")
    await asyncio.sleep(world.settings.ownership_s + 1)
    await log.asweep()
    await log.aclose()
    listed = {info.ledger_id for info in log.ledgers()}
    if set(await bk.list_ledgers()) != listed:
        history.broken(f"ledgers {set(await bk.list_ledgers()) ^ listed} are left over or missing")
    if any(not info.closed for info in log.ledgers()):
        history.broken("a ledger of a closed log is open")
    entries = [lsn async for lsn, _ in takeover.log.read(log.state.base)]
    if entries and entries[-1] != log.lac:
        history.broken(f"the closed log reads to {entries[-1]}, not {log.lac}")
    await takeover.log.close()
    await bk.close()
