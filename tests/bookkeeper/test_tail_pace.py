"""What following a ledger costs: how often bookies are asked, by whom, and for how much."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tests.bookkeeper.reader_fakes import SETTINGS, Ledger, data_of, run, sealed
from tests.bookkeeper.tail_follower import Follower, now


def test_waiting_costs_little() -> None:
    async def program() -> None:
        ledger = Ledger()
        empty = Ledger()
        ledger.write(0, 9)
        readers = [ledger.reader(), empty.reader()]
        followers = [Follower(reader) for reader in readers]
        await asyncio.sleep(100)
        assert sum(bookie.polls for bookie in ledger.bookies) <= 350
        assert sum(bookie.polls for bookie in empty.bookies) <= 3 * 450
        for follower in followers:
            await follower.stop()
        for reader in readers:
            await reader.close()

    run(program)


def test_news_of_many_entries_take_as_long_as_those_of_one() -> None:
    """The poll is answered; then proof, entries and the next poll are asked for at once."""

    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 0)
        for bookie in ledger.bookies:
            bookie.delay_s = 0.1
        reader = ledger.reader()
        follower = Follower(reader)
        await asyncio.sleep(0.5)
        for first in range(1, 200, 20):
            ledger.write(first, first + 19)
            written = now()
            await follower.until(first + 19)
            assert now() - written < 0.1 + 0.01
            await asyncio.sleep(0.37)
        await follower.stop()
        await reader.close()

    run(program)


def test_a_follower_that_rests_asks_nothing() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 0)
        reader = ledger.reader()
        entries = reader.tail(0)
        taking = asyncio.ensure_future(anext(entries))
        await asyncio.sleep(0.1)
        ledger.write(1, 1)
        assert (await taking).entry_id == 0
        polls = sum(bookie.polls for bookie in ledger.bookies)
        for entry_id in range(2, 30):
            ledger.write(entry_id, entry_id)
            await asyncio.sleep(0.1)
        # Each of two had one poll under way, and may have been polled once more before the entry was taken.
        assert sum(bookie.polls for bookie in ledger.bookies) <= polls + 2
        assert [(await anext(entries)).entry_id for _ in range(28)] == list(range(1, 29))
        await entries.aclose()
        await reader.close()

    run(program)


def test_news_that_come_all_the_time_are_asked_for_at_intervals() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 0)
        reader = ledger.reader(replace(SETTINGS, tail_interval_s=0.1))
        follower = Follower(reader)
        await asyncio.sleep(0.5)
        polls = sum(bookie.polls for bookie in ledger.bookies)
        written = [now()]
        for entry_id in range(1, 501):
            ledger.write(entry_id, entry_id)
            written.append(now())
            await asyncio.sleep(0.01)
        await follower.until(500)
        # One question each time, and the polls that were under way at first, as it had waited.
        assert sum(bookie.polls for bookie in ledger.bookies) <= polls + 4
        assert 40 <= sum(bookie.lac_requests for bookie in ledger.bookies) <= 60
        # What is written at one moment is confirmed with the entry after it.
        late = [seen - at for seen, at in zip(follower.at, written[1:], strict=False)]
        assert max(late) < 0.1 + 0.02
        assert late[0] < 0.01  # the first after a silence comes at once
        await follower.stop()
        await reader.close()

    run(program)


def test_who_waits_for_news_has_a_follower_that_rests_look_at_once() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 0)
        reader = ledger.reader(replace(SETTINGS, tail_interval_s=10.0))
        follower = Follower(reader)
        await asyncio.sleep(0.1)
        ledger.write(1, 1)
        await follower.until(1)
        for entry_id in range(2, 20):
            ledger.write(entry_id, entry_id)
            await asyncio.sleep(0.1)
            assert len(follower.ids) < entry_id  # what is confirmed is not asked for yet
            reader.hurry()
            written = now()
            await follower.until(entry_id)
            assert now() - written < 0.05
        await follower.stop()
        await reader.close()

    run(program)


@pytest.mark.parametrize("fault", ["down", "silent", "behind"])
def test_a_bookie_that_is_no_help_is_not_looked_at_again_and_again(fault: str) -> None:
    async def program() -> None:
        ledger = Ledger()
        reader = ledger.reader(replace(SETTINGS, tail_interval_s=0.1))
        follower = Follower(reader)
        for entry_id in range(100):
            for bookie in ledger.bookies:
                if entry_id < 20 or fault != "behind" or bookie is not ledger.bookies[0]:
                    bookie.store(entry_id, sealed(entry_id, entry_id - 1))
            if entry_id == 20:
                ledger.bookies[0].down, ledger.bookies[0].silent = fault == "down", fault == "silent"
            await asyncio.sleep(0.02)
            late_s = 0.2 + (SETTINGS.speculative_read_s if fault == "silent" else 0.0)
            assert len(follower.ids) >= entry_id - 1 - late_s / 0.02
        assert len(follower.ids) >= 98 - 0.2 / 0.02
        await follower.stop()
        await reader.close()

    run(program)


def test_large_entries_are_not_fetched_beyond_the_bound() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 0, size_bytes=1000)
        for bookie in ledger.bookies:
            bookie.delay_s = 0.1
        reader = ledger.reader(replace(SETTINGS, read_ahead_bytes=10_000))
        follower = Follower(reader)
        await asyncio.sleep(0.5)
        ledger.write(1, 59, size_bytes=1000)
        await asyncio.sleep(0.05)
        assert sum(len(bookie.asked) for bookie in ledger.bookies) <= 10_000 // len(data_of(0, 1000)) + 1
        await follower.until(59)
        await follower.stop()
        await reader.close()

    run(program)


def test_who_keeps_silent_while_others_have_news_is_not_counted_on() -> None:
    """Two are polled; when one has been silent for a while, losing the other must not be noticed late."""

    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 0)
        reader = ledger.reader()
        follower = Follower(reader)
        delays = []
        for entry_id in range(1, 80):
            await asyncio.sleep(0.02)
            ledger.write(entry_id, entry_id)
            written = now()
            await follower.until(entry_id)
            delays.append(now() - written)
            if entry_id == 10:
                ledger.bookies[1].silent = True
            if entry_id == 60:
                ledger.bookies[1].silent = False
                ledger.bookies[2].silent = True
        assert max(delays) < 0.1
        await follower.stop()
        await reader.close()

    run(program)
