"""Following a ledger: as entries are confirmed, to the end of the ledger and not beyond."""

from __future__ import annotations

import asyncio

import pytest

from herdpy.bookkeeper.errors import ClosedClientError, NoSuchLedgerError
from herdpy.bookkeeper.metadata.ledger_metadata import LedgerState
from tests.bookkeeper.reader_fakes import DIGEST, LEDGER, Ledger, run, sealed
from tests.bookkeeper.tail_follower import Follower, now


@pytest.mark.parametrize(("ensemble_size", "write_quorum", "ack_quorum"), [(3, 3, 2), (5, 2, 2), (3, 1, 1)])
def test_each_entry_comes_once_it_is_confirmed_and_not_before(
    ensemble_size: int, write_quorum: int, ack_quorum: int
) -> None:
    async def program() -> None:
        ledger = Ledger(ensemble_size, write_quorum, ack_quorum)
        reader = ledger.reader()
        follower = Follower(reader)
        await asyncio.sleep(1)
        for entry_id in range(20):
            ledger.write(entry_id, entry_id)
            if entry_id:
                await follower.until(entry_id)
            await asyncio.sleep(0.2)
            assert follower.ids == list(range(entry_id))  # the last one is not known to be confirmed
        ledger.close(19)
        await asyncio.wait_for(follower.task, 1)
        assert follower.ids == list(range(20))
        await reader.close()

    run(program)


def test_news_come_at_once() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 0)
        reader = ledger.reader()
        follower = Follower(reader)
        await asyncio.sleep(0.3)
        for entry_id in range(1, 30):
            written = now()
            ledger.write(entry_id, entry_id)
            await follower.until(entry_id)
            assert now() - written < 0.01
            await asyncio.sleep(0.07)
        await follower.stop()
        await reader.close()

    run(program)


def test_an_explicit_lac_brings_the_last_entry() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 5)
        reader = ledger.reader()
        follower = Follower(reader)
        await follower.until(5)
        for bookie in ledger.bookies:
            bookie.explicit_lac = DIGEST.seal_lac(LEDGER, 5)
            bookie.tell()
        told = now()
        await follower.until(6)
        assert now() - told < 0.01
        await follower.stop()
        await reader.close()

    run(program)


def test_a_tail_catches_up_from_where_it_is_told_to_start() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 499)
        reader = ledger.reader()
        follower = Follower(reader, 400)
        await follower.until(99)
        assert follower.ids == list(range(400, 499))
        await follower.stop()
        with pytest.raises(ValueError, match="no entry has the id -1"):
            reader.tail(-1)
        await reader.close()

    run(program)


def test_a_start_beyond_the_end_waits_for_its_entry_and_ends_with_the_ledger() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 2)
        reader = ledger.reader()
        follower = Follower(reader, 5)
        beyond = Follower(reader, 100)
        await asyncio.sleep(3)
        ledger.write(3, 8)
        await follower.until(3)
        ledger.close(8)
        await asyncio.wait_for(follower.task, 1)
        await asyncio.wait_for(beyond.task, 1)
        assert (follower.ids, beyond.ids) == ([5, 6, 7, 8], [])
        await reader.close()

    run(program)


def test_new_ensembles_are_followed() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 9)
        reader = ledger.reader()
        follower = Follower(reader)
        await follower.until(9)
        for bookie in ledger.bookies:
            bookie.silent = True
        ledger.replace(10, ("b3", "b4", "b5"))
        ledger.bookies[0].silent = False
        ledger.write(10, 20)
        await follower.until(20)
        for bookie in ledger.bookies:
            bookie.silent = False
        ledger.replace(21, ("b6", "b7", "b8"))
        ledger.write(21, 30)
        await follower.until(30)
        ledger.close(30)
        await asyncio.wait_for(follower.task, 1)
        assert follower.ids == list(range(31))
        await reader.close()

    run(program)


def test_in_recovery_it_waits_for_the_end() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 9)
        reader = ledger.reader()
        follower = Follower(reader)
        await follower.until(9)
        ledger.set_state(LedgerState.IN_RECOVERY)
        await asyncio.sleep(0.01)
        polls = sum(bookie.polls for bookie in ledger.bookies)
        # A recoverer (Java's) seals anew with a higher last add confirmed, and then another one wins.
        for bookie in ledger.bookies:
            bookie.store(10, sealed(10, lac=9))
        await asyncio.sleep(20)
        assert follower.ids == list(range(9))
        assert sum(bookie.polls for bookie in ledger.bookies) == polls
        ledger.close(8)
        await asyncio.wait_for(follower.task, 1)
        assert follower.ids == list(range(9))
        await reader.close()

    run(program)


def test_deletion_and_closing_the_reader_end_it() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 9)
        reader = ledger.reader()
        follower = Follower(reader)
        await follower.until(9)
        ledger.store.change(None)
        with pytest.raises(NoSuchLedgerError):
            await asyncio.wait_for(follower.task, 1)
        await reader.close()

        ledger = Ledger()
        ledger.write(0, 9)
        reader = ledger.reader()
        follower = Follower(reader)
        await follower.until(9)
        await reader.close()
        with pytest.raises(ClosedClientError):
            await asyncio.wait_for(follower.task, 1)

    run(program)


def test_a_loop_that_stops_early_leaves_nothing_running() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 99)
        reader = ledger.reader()
        async for entry in reader.tail(0):
            if entry.entry_id == 98:
                break
        await asyncio.sleep(1)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        polls = sum(bookie.polls for bookie in ledger.bookies)
        follower = Follower(reader, 98)
        await asyncio.sleep(0.2)
        await follower.stop()  # while it waits for news
        await asyncio.sleep(10)
        assert sum(bookie.polls for bookie in ledger.bookies) <= polls + 2  # W - A + 1
        assert asyncio.all_tasks() == {asyncio.current_task()}
        await reader.close()

    run(program)
