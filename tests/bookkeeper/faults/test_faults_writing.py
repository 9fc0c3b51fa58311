"""Bookies and ZooKeeper fail while a ledger is written and tailed."""

from __future__ import annotations

import asyncio

import pytest

from herdpy.bookkeeper import LedgerFencedError, NotEnoughBookiesError
from tests.bookkeeper.faults.workload import Tailing, appending
from tests.bookkeeper.faults.world import LOUD, all_but, expire_session, run


@pytest.mark.parametrize("fault", all_but("pause"))
def test_a_bookie_fails_while_a_ledger_is_written_and_tailed(world, fault):
    async def program():
        async with world.client() as bk, world.client() as other, appending(bk) as work:
            tail = Tailing(await other.open_ledger(work.writer.ledger_id), work.history, "tail")
            await tail.caught_up(20)
            victim = work.writer.metadata.last_segment.members[1]
            world.hurt(fault, world.bookie(victim))
            await work.without(victim)
            await work.more(100)
            await tail.caught_up(work.acknowledged_to - 50)
            await work.close()
            await tail.finished()
            assert len(work.writer.metadata.segments) == 2
            await world.judged(work.history)

    run(program())


@pytest.mark.parametrize("direction", ["mute", pytest.param("deaf", marks=pytest.mark.soak)])
def test_a_bookie_is_cut_off_in_one_direction(world, direction):
    async def program():
        async with world.client() as bk, world.client() as other, appending(bk, 3, 2, 2) as work:
            tail = Tailing(await other.open_ledger(work.writer.ledger_id), work.history, "tail")
            victim = work.writer.metadata.last_segment.members[0]
            world.hurt(direction, world.bookie(victim))
            await work.without(victim)
            await work.more(100)
            await work.close()
            await tail.finished()
            await world.judged(work.history)

    run(program())


@pytest.mark.soak
def test_one_bookie_after_another_is_killed_and_comes_back(world):
    async def program():
        async with world.client(LOUD) as bk, appending(bk) as work:
            for _ in range(2):
                victim = work.writer.metadata.last_segment.members[0]
                world.hurt("kill", world.bookie(victim))
                await work.without(victim)
                await work.more(50)
                await asyncio.to_thread(world.heal)
            await work.close()
            assert len(work.writer.metadata.segments) == 3
            await world.judged(work.history)

    run(program())


def test_too_few_bookies_are_left(world):
    async def program():
        async with world.client() as bk, appending(bk) as work:
            first, second, _ = work.writer.metadata.last_segment.members
            world.hurt("kill", world.bookie(first))
            world.hurt("pause", world.bookie(second))
            assert isinstance(await work.failed(), NotEnoughBookiesError)
            await work.stop()
            await work.writer.close()
            work.history.ended("writer", work.writer.last_add_confirmed, work.writer.length_bytes)
            await world.judged(work.history)

    run(program())


@pytest.mark.parametrize("fault", all_but("cut", "pause"))
def test_zookeeper_is_away_while_a_ledger_is_written_and_tailed(world, fault):
    async def program():
        async with world.client() as bk, world.client() as other, appending(bk) as work:
            tail = Tailing(await other.open_ledger(work.writer.ledger_id), work.history, "tail")
            world.hurt(fault, world.cluster.zookeeper)
            await work.more(300)
            await tail.caught_up(work.acknowledged_to)
            await asyncio.to_thread(world.restore, world.cluster.zookeeper)
            await work.close()
            await tail.finished()
            assert len(work.writer.metadata.segments) == 1
            await world.judged(work.history)

    run(program())


def test_zookeeper_restarts_during_an_ensemble_change(world):
    async def program():
        async with world.client(LOUD) as bk, appending(bk) as work:
            victim = work.writer.metadata.last_segment.members[2]
            world.hurt("kill", world.cluster.zookeeper)
            world.hurt("kill", world.bookie(victim))
            # The change has begun once nothing is confirmed any more.
            await work.signal.until(lambda: work.writer._pipeline.changing)
            confirmed = work.acknowledged_to
            await asyncio.to_thread(world.restore, world.cluster.zookeeper)
            await work.without(victim)
            await work.more(100)
            assert work.writer.metadata.last_segment.first_entry_id == confirmed + 1
            await work.close()
            await world.judged(work.history)

    run(program())


def test_the_session_expires_while_a_ledger_is_written(world):
    async def program():
        async with world.client() as bk, world.client() as other, appending(bk) as work:
            await expire_session(bk)
            await work.more(100)
            # The watch lives on in the new session: a fenced ledger is noticed there.
            reader = await other.open_ledger(work.writer.ledger_id, recover=True)
            work.history.ended("recoverer", reader.last_add_confirmed, reader.length_bytes)
            assert isinstance(await work.failed(), LedgerFencedError)
            await work.stop()
            await world.judged(work.history)

    run(program())


def test_a_bookie_changes_while_the_session_is_expired(world):
    async def program():
        async with world.client(LOUD) as bk, appending(bk) as work:
            await expire_session(bk)
            victim = work.writer.metadata.last_segment.members[0]
            world.hurt("kill", world.bookie(victim))
            await work.without(victim)
            await work.more(100)
            await work.close()
            await world.judged(work.history)

    run(program())
