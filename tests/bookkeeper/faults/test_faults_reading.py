"""Bookies and ZooKeeper fail while a ledger is read, and while it is closed."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from herdpy.bookkeeper import BookieUnavailableError, ReadOnlyBookieError, TimedOutError
from tests.bookkeeper.faults.history import content_of
from tests.bookkeeper.faults.workload import Tailing, appending
from tests.bookkeeper.faults.world import FAULTS, LOUD, QUICK, all_but, expire_session, lost_zookeeper, run

pytestmark = pytest.mark.soak  # real processes for minutes: not with every commit

SHORT_SIGHTED = replace(QUICK, read_ahead_entries=4)
"""Most of the ledger is yet to be read when a bookie fails."""


@pytest.mark.parametrize("fault", FAULTS)
def test_bookies_fail_while_a_ledger_is_read(world, fault):
    async def program():
        async with world.client() as bk, world.client(SHORT_SIGHTED) as other, appending(bk) as work:
            await work.more(300)
            await work.close()
            ledger_id, last = work.writer.ledger_id, work.acknowledged_to
            reader = await other.open_ledger(ledger_id)
            members = reader.metadata.last_segment.members
            victims = {50: members[0], 150: members[2]}  # one replica is left
            expected = 0
            async for entry in reader.read(0, last):
                assert (entry.entry_id, entry.data) == (expected, content_of(ledger_id, expected))
                if entry.entry_id in victims:
                    world.hurt(fault, world.bookie(victims[entry.entry_id]))
                expected += 1
            assert expected == last + 1
            await world.judged(work.history)

    run(program())


def test_all_replicas_fail_while_a_ledger_is_read_and_one_comes_back(world):
    async def program():
        async with world.client() as bk, world.client(SHORT_SIGHTED) as other, appending(bk) as work:
            await work.more(100)
            reader = await other.open_ledger(work.writer.ledger_id)
            tail = Tailing(reader, work.history, "tail")
            await work.stop()
            await tail.caught_up(work.acknowledged_to)
            await tail.cancel()
            members = reader.metadata.last_segment.members
            for member in members:
                world.hurt("pause", world.bookie(member))
            with pytest.raises((TimedOutError, BookieUnavailableError)):
                await reader.get(0)
            tail = Tailing(reader, work.history, "later tail")
            await asyncio.to_thread(world.restore, world.bookie(members[1]))
            await tail.caught_up(work.acknowledged_to)
            await asyncio.to_thread(world.heal)
            await work.close()
            await tail.finished()
            await world.judged(work.history)

    run(program())


@pytest.mark.parametrize("fault", FAULTS)
def test_a_bookie_fails_while_a_ledger_is_closed(world, fault):
    async def program():
        async with world.client() as bk, appending(bk) as work:
            victim = work.writer.metadata.last_segment.members[0]
            for _ in range(200):
                work.append()
            world.hurt(fault, world.bookie(victim))
            await work.close()
            assert not work.has_failed
            assert work.acknowledged_to == work.history.appended_to
            await world.judged(work.history)

    run(program())


@pytest.mark.parametrize("fault", all_but("pause"))
def test_zookeeper_is_away_while_a_ledger_is_closed(world, fault):
    async def program():
        async with world.client() as bk, appending(bk) as work:
            world.hurt(fault, world.cluster.zookeeper)
            await work.stop()
            closing = asyncio.create_task(work.close())
            # The client must have noticed: the change of the metadata is under way, and in doubt.
            await lost_zookeeper(bk)
            assert not closing.done()
            await asyncio.to_thread(world.restore, world.cluster.zookeeper)
            await closing
            assert work.writer.is_closed
            await world.judged(work.history)

    run(program())


def test_the_session_expires_while_ledgers_are_closed(world):
    async def program():
        async with (
            world.client() as bk,
            appending(bk) as one,
            appending(bk) as two,
            appending(bk) as three,
        ):
            works = (one, two, three)
            await asyncio.gather(expire_session(bk), *[work.close() for work in works])
            for work in works:
                assert work.writer.is_closed
                await world.judged(work.history)

    run(program())


def test_a_bookie_turns_read_only(world):
    async def program():
        async with world.client(LOUD) as bk, appending(bk) as work:
            victim = work.writer.metadata.last_segment.members[1]
            await work.stop()
            await asyncio.to_thread(world.restart_read_only, world.bookie(victim))
            # The writer finds out by what the bookie answers: no add was in flight when it restarted.
            work.go_on()
            await work.without(victim)
            assert isinstance(work.writer._pipeline.cause, ReadOnlyBookieError)
            await work.more(50)
            created = await bk.create_ledger(3, 3, 2)
            assert victim not in created.metadata.last_segment.members
            await created.close()
            await work.close()
            # A read-only bookie is read.
            reader = await bk.open_ledger(work.writer.ledger_id)
            assert [entry.entry_id async for entry in reader.read(0, 40)] == list(range(41))
            await world.judged(work.history)

    run(program())
