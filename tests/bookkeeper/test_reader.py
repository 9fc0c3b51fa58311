"""Reading entries: order, bounds, read-ahead, and what is refused."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from herdpy.bookkeeper.digest import Entry
from herdpy.bookkeeper.errors import (
    ClosedClientError,
    NoSuchEntryError,
)
from tests.bookkeeper.reader_fakes import SETTINGS, Ledger, data_of, length_at, run


async def ids(entries: AsyncIterator[Entry]) -> list[int]:
    return [entry.entry_id async for entry in entries]


@pytest.mark.parametrize(("ensemble_size", "write_quorum", "ack_quorum"), [(3, 3, 2), (5, 2, 2), (1, 1, 1)])
def test_a_closed_ledger_is_read_in_order(ensemble_size: int, write_quorum: int, ack_quorum: int) -> None:
    async def program() -> None:
        ledger = Ledger(ensemble_size, write_quorum, ack_quorum)
        ledger.write(0, 299)
        ledger.close(299)
        reader = ledger.reader()
        assert reader.is_closed
        assert (reader.last_add_confirmed, reader.length_bytes) == (299, length_at(299))
        entries = [entry async for entry in reader.read(0, 299)]
        assert [entry.entry_id for entry in entries] == list(range(300))
        assert [entry.data for entry in entries] == [data_of(one) for one in range(300)]
        assert entries[-1].length == length_at(299)
        # Load is spread: each bookie served its share, and nothing was asked twice.
        assert sum(len(bookie.asked) for bookie in ledger.bookies) == 300
        assert max(len(bookie.asked) for bookie in ledger.bookies) <= 300 // ensemble_size + 1
        await reader.close()

    run(program)


def test_bounds_are_checked_when_reading_is_asked_for() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 9)
        ledger.close(9)
        reader = ledger.reader()
        with pytest.raises(NoSuchEntryError, match="ends at entry 9"):
            reader.read(0, 10)
        with pytest.raises(NoSuchEntryError, match="ends at entry 9"):
            reader.read_unconfirmed(0, 10)
        for first, last in ((-1, 3), (5, 3), (-2, -1)):
            with pytest.raises(ValueError, match="no range"):
                reader.read(first, last)
        with pytest.raises(ValueError, match="no range"):
            await reader.get(-1)
        assert await ids(reader.read(10, 9)) == []
        assert await ids(reader.read(9, 9)) == [9]
        await reader.close()
        with pytest.raises(ClosedClientError):
            reader.read(0, 9)

    run(program)


def test_what_is_not_known_to_be_confirmed_is_refused() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 9)
        reader = ledger.reader()
        assert reader.last_add_confirmed == -1
        with pytest.raises(NoSuchEntryError, match="read_last_add_confirmed"):
            await reader.get(0)
        assert await reader.read_last_add_confirmed() == 8
        assert await ids(reader.read(0, 8)) == list(range(9))
        with pytest.raises(NoSuchEntryError, match="not known to be confirmed"):
            reader.read(0, 9)
        assert await ids(reader.read_unconfirmed(0, 9)) == list(range(10))
        with pytest.raises(NoSuchEntryError, match="no replica gave"):
            await ids(reader.read_unconfirmed(0, 10))
        await reader.close()

    run(program)


def test_entries_read_prove_what_is_confirmed() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 9)
        for bookie in ledger.bookies:
            bookie.hint = 1_000_000
        reader = ledger.reader()
        await ids(reader.read_unconfirmed(0, 5))
        assert reader.last_add_confirmed == 4  # what entry 5 says, not what the bookies say beside it
        assert reader.length_bytes == length_at(5)
        await reader.close()

    run(program)


def test_reading_ahead_is_bounded_by_count_and_by_bytes() -> None:
    async def program() -> None:
        ledger = Ledger(1, 1, 1)
        ledger.write(0, 199, size_bytes=500)
        ledger.store.change(ledger.metadata.closed(199, 10**6))
        (bookie,) = ledger.bookies
        by_count = ledger.reader(replace(SETTINGS, read_ahead_entries=16))
        entries = by_count.read(0, 199)
        await anext(entries)
        await asyncio.sleep(1)
        assert len(bookie.asked) <= 17  # a consumer that stops is not run over
        assert await ids(entries) == list(range(1, 200))
        assert bookie.most_under_way <= 16

        bookie.asked.clear()
        bookie.most_under_way = 0
        by_bytes = ledger.reader(replace(SETTINGS, read_ahead_bytes=10_000))
        entries = by_bytes.read(100, 199)
        await anext(entries)
        await asyncio.sleep(1)
        assert 4 <= len(bookie.asked) <= 10_000 // len(data_of(100, 500)) + 4
        assert await ids(entries) == list(range(101, 200))
        await by_count.close()
        await by_bytes.close()

    run(program)


def test_an_entry_larger_than_the_window_is_read_alone() -> None:
    async def program() -> None:
        ledger = Ledger(1, 1, 1)
        ledger.write(0, 9, size_bytes=1000)
        ledger.store.change(ledger.metadata.closed(9, 10**6))
        reader = ledger.reader(replace(SETTINGS, read_ahead_bytes=100))
        assert await ids(reader.read(0, 9)) == list(range(10))
        await reader.close()

    run(program)


def test_a_loop_that_stops_early_leaves_nothing_running() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 99)
        ledger.close(99)
        reader = ledger.reader()
        async for entry in reader.read(0, 99):
            if entry.entry_id == 10:
                break
        gc.collect()
        await asyncio.sleep(1)
        asked = sum(len(bookie.asked) for bookie in ledger.bookies)
        await asyncio.sleep(10)
        assert sum(len(bookie.asked) for bookie in ledger.bookies) == asked
        assert asyncio.all_tasks() == {asyncio.current_task()}
        await reader.close()

    run(program)


def test_closing_the_reader_ends_what_waits_for_it() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 9)
        ledger.close(9)
        for bookie in ledger.bookies:
            bookie.silent = True
        reader = ledger.reader()
        getting = asyncio.ensure_future(reader.get(0))
        ranging = asyncio.ensure_future(ids(reader.read(0, 9)))
        await asyncio.sleep(0.1)
        await reader.close()
        for waiting in (getting, ranging):
            with pytest.raises(ClosedClientError):
                await waiting
        await reader.close()

    run(program)


def test_a_cancelled_read_can_be_repeated() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 0)
        ledger.close(0)
        for bookie in ledger.bookies:
            bookie.silent = True
        reader = ledger.reader()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.get(0), 0.1)
        for bookie in ledger.bookies:
            bookie.silent = False
        assert (await reader.get(0)).entry_id == 0
        await reader.close()

    run(program)
