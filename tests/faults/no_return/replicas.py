"""The doors of a replica: ZooKeeper, bookies, disk. And what replicas do while the error comes.

In the simulated world, so a step is the same each time. What nodes do is counted, not what the archive does.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import msgspec

from herdpy.bookkeeper import BookKeeper, TimedOutError, ZooKeeperUnavailableError
from herdpy.bookkeeper.write import LedgerWriter
from herdpy.testing.model import current_host
from herdpy_sql.errors import SqlError
from tests.cluster.simulated import HostZnodes
from tests.faults.no_return.doors import Doors
from tests.replica.simulation.run import simulate
from tests.replica.simulation.scenarios import _written_and_trimmed
from tests.replica.simulation.steps import another, followers_have, leader_of, write
from tests.replica.simulation.world import ARCHIVE, World

SEED = 1


class Cancelled(Exception):  # noqa: N818 - it stands for what is no error
    """The step's task is cancelled, in place of an error."""


CANCELLED = (" statement", "-retire", "-prepare", "-replace", "-prove")
"""Tasks that clients and leaders give up: nobody cancels another but who ends the replica."""
ERRORS: dict[str, Callable[[], BaseException]] = {
    "MemoryError": MemoryError,
    "ENOSPC": lambda: OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
    "RuntimeError": lambda: RuntimeError("injected"),  # a library's own, where it is one's
    "cancelled": Cancelled,
}


class ReplicaDoors(Doors):
    """With those to ZooKeeper and BookKeeper."""

    def __enter__(self) -> ReplicaDoors:
        super().__enter__()
        for name in ("create", "set", "delete"):
            self._put_awaited(HostZnodes, name, lambda: ZooKeeperUnavailableError("injected"))
        for name in ("create_ledger", "delete_ledger"):
            self._put_awaited(BookKeeper, name, lambda: TimedOutError("injected"))
        for name in ("append", "close"):
            self._put_awaited(LedgerWriter, name, lambda: TimedOutError("injected"))
        return self

    def stepped(self, name: str, own: Callable[[], BaseException] | None = None) -> None:
        if current_host() == ARCHIVE:
            return
        try:
            super().stepped(name, own)
        except Cancelled:
            task = asyncio.current_task()
            if task is not None and (task.get_name().endswith(CANCELLED) or _closes(task)):
                task.cancel()

    def _put_awaited(self, owner: Any, name: str, own: Callable[[], BaseException]) -> None:
        call = getattr(owner, name)

        async def through(*args: Any, **options: Any) -> Any:
            done = await call(*args, **options)
            self.stepped(name, own)
            return done

        self.patch(owner, name, through)


def _closes(task: asyncio.Task[Any]) -> bool:
    """Whether it closes a ledger for its writer."""
    return getattr(task.get_coro(), "__qualname__", "") == LedgerWriter._close.__qualname__


Script = Callable[[World, Doors], Awaitable[None]]
SCENARIOS: dict[str, Script] = {}


def _scenario(script: Script) -> Script:
    SCENARIOS[script.__name__] = script
    return script


@_scenario
async def writes_and_rolls(world: World, _doors: Doors) -> None:
    """Ledgers follow one another."""
    leader = leader_of(world)
    for _ in range(3):
        await write(world, leader)
        if leader.replica is not None and leader.replica.log is not None:
            with suppress(Exception):
                await leader.replica.log.aroll()


@_scenario
async def loads(world: World, _doors: Doors) -> None:
    """Rows are staged in ledgers of their own."""
    leader = leader_of(world)
    await write(world, leader, loads=True)
    await write(world, leader)


@_scenario
async def trims(world: World, _doors: Doors) -> None:
    """Checkpoints, and the ledgers before them."""
    leader = leader_of(world)
    assert leader.replica is not None
    info = msgspec.structs.replace(leader.replica.info, retention_bytes=0)
    with suppress(Exception):
        async with asyncio.timeout(10):
            await _written_and_trimmed(world, leader, info)


@_scenario
async def takes_over(world: World, _doors: Doors) -> None:
    """The leader's session ends, and another leads."""
    old = leader_of(world)
    await write(world, old)
    old.model.expire()
    with suppress(TimeoutError):
        async with asyncio.timeout(10):
            await write(world, await another(world, old))


@_scenario
async def makes_way(world: World, _doors: Doors) -> None:
    """It is asked to."""
    old = leader_of(world)
    assert old.replica is not None
    await write(world, old)
    await followers_have(world, old)
    old.replica.hand_over()
    with suppress(TimeoutError):
        async with asyncio.timeout(10):
            await write(world, await another(world, old))


@_scenario
async def tablespaces(world: World, _doors: Doors) -> None:
    """One is made, altered and dropped."""
    leader = leader_of(world)
    known = leader.coordination.tablespaces
    info = msgspec.structs.replace(world.info, name="other", replicas=("n1",))

    async def work() -> None:
        made = await known.create(info)
        await known.alter("other", lambda now: msgspec.structs.replace(now, leader="n1"), uuid=made.uuid)
        await known.drop("other")

    await leader.begin(work(), "statement")


def tolerate(world: World, doors: Doors) -> None:
    """That the error is reported to the loop is as it should be: it is one that nobody has foreseen."""
    told = world.loop._note_unhandled

    def tell(loop: Any, context: dict[str, Any]) -> None:
        error = context.get("exception")
        while error is not None and error is not doors.raised:
            error = error.__cause__ or error.__context__
        if error is None:
            told(loop, context)

    world.loop.set_exception_handler(tell)


async def _acted(script: Awaitable[None], doors: Doors) -> None:
    """Clients get the error where it struck them: then nothing is known of what they had asked for."""
    try:
        await script
    except (SqlError, asyncio.CancelledError):
        pass
    except Exception as error:
        if error is not doors.raised:
            raise


def steps_of(name: str) -> list[str]:
    """The steps that a scenario has."""
    doors = ReplicaDoors()
    strike(name, 1_000_000, "RuntimeError", doors)
    return doors.steps


def strike(name: str, nth: int, kind: str, doors: ReplicaDoors | None = None) -> str | None:
    """Run a scenario with an error after its nth step; the step, None when there are not so many."""
    doors = doors or ReplicaDoors()

    async def script(world: World) -> None:
        tolerate(world, doors)
        await asyncio.sleep(1.0)
        doors.arm(nth, ERRORS[kind])
        try:
            await _acted(SCENARIOS[name](world, doors), doors)
            await asyncio.sleep(1.0)
        finally:
            doors.disarm()

    with doors:
        try:
            simulate(SEED, script)
        except Exception as error:
            error.add_note(f"{name}, {kind} after step {nth}, {doors.struck}")
            raise
    return doors.struck
