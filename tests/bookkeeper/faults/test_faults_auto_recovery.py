"""A bookie is lost for good, and auto recovery rewrites the ensembles of closed ledgers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from herdpy.bookkeeper import BookKeeper
from herdpy.testing import BookKeeperCluster
from tests.bookkeeper.faults.history import content_of
from tests.bookkeeper.faults.workload import PATIENCE_S, Tailing, appending
from tests.bookkeeper.faults.world import World, run

pytestmark = pytest.mark.soak  # real processes for minutes: not with every commit


@pytest.fixture
def world() -> Iterator[World]:
    """Four bookies and an auto recovery daemon, for one test: a disk is lost."""
    with BookKeeperCluster(4, auto_recovery=True) as cluster:
        yield World(cluster, "nothing is cut off here")


async def moved_from(bk: BookKeeper, ledger_id: int, bookie_id: str) -> None:
    """Wait until no segment of the ledger names the bookie any more."""
    moved = asyncio.Event()

    def changed(versioned):
        if all(bookie_id not in segment.members for segment in versioned.metadata.segments):
            moved.set()

    watch = bk._open_parts().store.watch(ledger_id, changed)
    async with asyncio.timeout(PATIENCE_S):
        await moved.wait()
    watch.cancel()


def test_a_bookie_is_lost_and_its_entries_move(world):
    async def program():
        async with (
            world.client() as bk,
            world.client() as other,
            appending(bk, 3, 2, 2) as striped,
            appending(bk) as whole,
        ):
            works = (striped, whole)
            await striped.more(200)
            for work in works:
                await work.close()
            lost = striped.writer.metadata.last_segment.members[0]
            readers = [await other.open_ledger(work.writer.ledger_id) for work in works]
            half_read = readers[0].read(0, striped.acknowledged_to)
            for expected in range(20):
                assert (await anext(half_read)).entry_id == expected

            world.bookie(lost).kill()
            world.bookie(lost).wipe()
            hurt = [one for one in works if lost in one.writer.metadata.last_segment.members]
            for work in hurt:
                await moved_from(bk, work.writer.ledger_id, lost)

            # Readers that know the old ensembles only go on, also without the other old replicas.
            rest = [entry async for entry in half_read]
            assert [entry.entry_id for entry in rest] == list(range(20, striped.acknowledged_to + 1))
            for reader, work in zip(readers, works, strict=True):
                tail = Tailing(reader, work.history, "old reader")
                await tail.finished()
            second = striped.writer.metadata.last_segment.members[1]
            world.bookie(second).pause()
            assert (await readers[0].get(0)).data == content_of(striped.writer.ledger_id, 0)
            world.bookie(second).resume()

            await asyncio.to_thread(world.bookie(lost).start)
            for work in works:
                await world.judged(work.history, resealed=True)

    run(program())
