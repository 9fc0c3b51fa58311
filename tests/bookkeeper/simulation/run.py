"""One simulated run: a seed in, nothing out, or a BrokenPromiseError with how to see it again."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from herdpy.bookkeeper.errors import BookKeeperError
from herdpy.testing.model import ZOOKEEPER, SimulationError, on_host
from tests.bookkeeper.simulation import programs
from tests.bookkeeper.simulation.checker import check
from tests.bookkeeper.simulation.faults import Faults
from tests.bookkeeper.simulation.history import BrokenPromiseError, LedgerHistory
from tests.bookkeeper.simulation.world import World

# Once all is well again, everybody has to come to an end within this much virtual time.
PATIENCE_S = 120.0


@contextmanager
def _quiet() -> Iterator[None]:
    """The client warns of every fault; thousands of those tell nobody anything."""
    logger = logging.getLogger("herdpy.bookkeeper")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def simulate(
    seed: int, *, most_appends: int = 40, keep_trace: bool = False, disk_is_lost: bool = False
) -> World:
    """Run a seed; with `disk_is_lost` one bookie that crashes comes back empty under its name. Raises
    BrokenPromiseError when a promise was broken."""
    world = World(seed, most_appends=most_appends, keep_trace=keep_trace, disk_is_lost=disk_is_lost)
    with _quiet():
        try:
            world.cluster.run(lambda: _run(world))
        except SimulationError as error:
            world.violations.append(f"{type(error).__name__}: {error}")
    for history in world.ledgers:
        world.violations.extend(history.violations)
    if world.violations:
        told = "\n  ".join(dict.fromkeys(world.violations))
        trace = "\n".join(world.trace or ())
        raise BrokenPromiseError(
            f"{trace}\nseed {seed}:\n  {told}\nto see its trace: python -m tests.bookkeeper.simulation {seed}"
        )
    return world


async def _run(world: World) -> None:
    rng = world.rng
    plan: list[tuple[str, Any]] = [("writer1", programs.write)]
    if rng.random() < 0.2:
        plan.append(("writer2", programs.write))
    plan += [(f"tailer{number}", programs.tail) for number in range(rng.randint(0, 2))]
    plan += [(f"reader{number}", programs.read) for number in range(rng.randint(0, 2))]
    plan += [(f"recoverer{number}", programs.recover) for number in range(rng.choice((0, 1, 1, 2, 3)))]
    hosts = [host for host, _ in plan]
    tasks = [
        _start(host, program(world, random.Random(f"{world.seed} {host}"), host)) for host, program in plan
    ]
    pause_s = 0.1 if world.is_storm else rng.choice((0.2, 0.6, 2.0))
    faults = Faults(world.cluster, rng, hosts, pause_s, world.tell, is_storm=world.is_storm)
    faults.loses_disk = world.disk_is_lost
    if world.is_coup:
        # The writer hears nothing of its loss but from bookies.
        faults.cut_at(world.common_moment(), "writer1", ZOOKEEPER)
    try:
        await faults.run(world.trouble_s)
        await faults.end()
        world.tell("all is well")
        await _finish(world, hosts, tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _start(host: str, program: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    with on_host(host):
        return asyncio.create_task(program, name=host)


async def _finish(world: World, hosts: list[str], tasks: list[asyncio.Task[None]]) -> None:
    active = [task for task in tasks if not task.get_name().startswith("tailer")]
    await _all_end(world, active, "in a healthy cluster")
    await _start("judge", _judge(world))
    await _all_end(world, tasks, "though the ledger is closed")
    for history in world.ledgers:
        metadata = world.metadata_now(history.ledger_id)
        assert metadata is not None
        check(history, metadata, world.final[history.ledger_id])
        world.check_kept(history, metadata)
    await asyncio.sleep(1)
    world.check_leftovers()


async def _all_end(world: World, tasks: list[asyncio.Task[None]], when: str) -> None:
    if not tasks:
        return
    done, waiting = await asyncio.wait(tasks, timeout=PATIENCE_S)
    for task in done:
        error = task.exception()
        if error is not None:
            raise error
    if waiting:
        names = sorted(task.get_name() for task in waiting)
        stacks = "; ".join(_where(task) for task in waiting)
        world.violations.append(f"{names} do not come to an end {when}: {stacks}")
        raise SimulationError("stuck")


def _where(task: asyncio.Task[None]) -> str:
    """Where a task waits, innermost frame last."""
    lines = []
    awaiting: Any = task.get_coro()
    while awaiting is not None and getattr(awaiting, "cr_frame", None) is not None:
        frame = awaiting.cr_frame
        lines.append(f"{frame.f_code.co_qualname}:{frame.f_lineno}")
        awaiting = awaiting.cr_await
    return f"{task.get_name()} in {' > '.join(lines)}"


async def _judge(world: World) -> None:
    """Close every ledger as anybody can, and read it to its end."""
    client = await programs.open_client(world, "judge")
    try:
        for history in world.ledgers:
            await _judge_ledger(world, client, history)
    finally:
        await client.close()


async def _judge_ledger(world: World, client: Any, history: LedgerHistory) -> None:
    deadline_s = world.now() + PATIENCE_S
    history.recovery_began_s = history.recovery_began_s or world.now()
    while True:
        try:
            reader = await client.open_ledger(history.ledger_id, b"secret", recover=True)
            metadata = reader.metadata
            history.ended("judge", metadata.last_entry_id, metadata.length_bytes)
            entries = [entry async for entry in reader.read(0, metadata.last_entry_id)]
        except BookKeeperError as error:
            world.tell(f"judge: {error!r}")
            if world.now() > deadline_s:
                history.break_promise(f"can not be read to its end in a healthy cluster: {error!r}")
                world.final[history.ledger_id] = []
                return
            await asyncio.sleep(1)
            continue
        world.final[history.ledger_id] = entries
        return
