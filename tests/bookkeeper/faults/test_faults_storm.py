"""Faults of all kinds, by chance and several at once, for minutes; each round's choices follow from its seed.

One round again: ``pytest -m soak tests/bookkeeper/faults/test_faults_storm.py -k "[17]"``. What the servers
make of a choice depends on their timing, so a round may have to be played several times.
"""

from __future__ import annotations

import asyncio
import random

import pytest

from herdpy.bookkeeper import BookKeeper, BookKeeperError
from tests.bookkeeper.faults.workload import PATIENCE_S, Appending, Tailing, appending
from tests.bookkeeper.faults.world import CUTS, World, expire_session, run

ROUNDS = 60
QUORUMS = [(3, 3, 2), (3, 2, 2), (3, 2, 1), (4, 3, 2), (4, 2, 2), (2, 2, 2), (4, 4, 3), (1, 1, 1)]
BREATH_S = 1.0
"""How long the writer may go on between two faults: no more than a pace, nothing is expected of it."""


class Storm:
    """One round: a ledger that is written and tailed while servers fail."""

    def __init__(self, world: World, seed: int) -> None:
        self._world = world
        self._rng = random.Random(seed)
        self._steps: list[str] = []

    async def play(self) -> None:
        """Play the round; its steps are part of what a failure says."""
        world, rng = self._world, self._rng
        quorums = rng.choice(QUORUMS)
        self._note(f"quorums {quorums}")
        try:
            async with world.client() as bk, world.client() as other, appending(bk, *quorums) as work:
                tail = Tailing(await other.open_ledger(work.writer.ledger_id), work.history, "tail")
                for _ in range(rng.randint(1, 6)):
                    await self._hurt_something(bk, other)
                    await self._breathe(work)
                await self._end(other, work)
                await world.judged(work.history, tail)
        except BaseException as failed:
            failed.add_note("; ".join(self._steps))
            raise

    async def _hurt_something(self, bk: BookKeeper, other: BookKeeper) -> None:
        world, rng = self._world, self._rng
        bookie = rng.choice(world.cluster.bookies)
        fault = rng.choice(["kill", "pause", *(CUTS if world.cannot_cut is None else ["pause"])])
        what = rng.choice(["bookie"] * 5 + ["zookeeper", "restart", "writer's session", "reader's session"])
        what = rng.choice([what, what, what, "heal"])
        self._note(f"{what} {fault} {bookie.name}")
        zookeeper = world.cluster.zookeeper
        if what == "bookie":
            world.hurt(fault, bookie)
        elif what == "zookeeper":
            world.hurt(fault, zookeeper)
        elif what == "restart":
            world.hurt("kill", zookeeper)
            await asyncio.to_thread(world.restore, zookeeper)
        elif what == "heal":
            await asyncio.to_thread(world.heal)
        elif not world.is_hurt(zookeeper):  # a session can only be ended where ZooKeeper answers
            await expire_session(bk if what == "writer's session" else other)

    async def _breathe(self, work: Appending) -> None:
        goal = work.acknowledged_to + self._rng.randint(20, 200)
        try:
            async with asyncio.timeout(BREATH_S):
                await work.signal.until(lambda: work.has_failed or work.acknowledged_to >= goal)
        except TimeoutError:
            self._note("no progress")

    async def _end(self, other: BookKeeper, work: Appending) -> None:
        """The writer closes, or another client recovers, healthy servers or not; or nobody does."""
        how = self._rng.choice(["close", "recover", "both", "abandon"])
        healed = self._rng.random() < 0.5
        self._note(f"{how}, {'healed' if healed else 'as it is'}")
        if healed:
            await asyncio.to_thread(self._world.heal)
        ways = []
        if how in ("close", "both"):
            ways.append(self._closed(work))
        if how in ("recover", "both"):
            ways.append(self._recovered(other, work))
        await asyncio.gather(*ways)
        await work.give_up()

    async def _closed(self, work: Appending) -> None:
        try:
            await work.close()
        except BookKeeperError as error:
            self._note(f"not closed: {error!r}")

    async def _recovered(self, other: BookKeeper, work: Appending) -> None:
        try:
            reader = await other.open_ledger(work.writer.ledger_id, recover=True)
        except BookKeeperError as error:
            self._note(f"not recovered: {error!r}")
            return
        work.history.ended("recoverer", reader.last_add_confirmed, reader.length_bytes)
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(BookKeeperError):
                await work.writer.append(b"too late")

    def _note(self, step: str) -> None:
        self._steps.append(step)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_everything_acknowledged_outlives_a_storm(world, seed):
    run(Storm(world, seed).play())
