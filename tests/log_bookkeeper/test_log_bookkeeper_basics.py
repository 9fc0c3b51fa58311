"""One leader, followers, a successor: what must hold when nothing fails."""

from __future__ import annotations

import asyncio

import pytest

from herdpy.log import START, LedgerListConflictError, LogClosedError, LogError
from tests.log_bookkeeper.kit import Place, numbers, transaction


def test_what_is_appended_is_read_by_everybody():
    place = Place(max_ledger_bytes=1500)

    async def program():
        a, b = await place.node("a"), await place.node("b")
        seen = []
        log = await a.lead(1, lambda appends, error: seen.extend((one.lsn, error) for one in appends))
        appends = [log.append(transaction(number)) for number in range(100)]
        lsns = [await one for one in appends]
        assert lsns == sorted(lsns)
        assert seen == [(lsn, None) for lsn in lsns]
        assert log.lac == lsns[-1] == log.end
        assert await numbers(log.read(START)) == list(range(100))
        await log.aclose()
        assert await b.contents() == list(range(100))
        assert all(info.closed for info in (await b.list.read()).ledgers)

    place.run(program)


def test_a_follower_goes_along_over_ledgers_and_leaders():
    place = Place(max_ledger_bytes=600)

    async def program():
        a, b, c = [await place.node(name) for name in "abc"]
        follower = c.follow()
        following = asyncio.create_task(numbers(follower.tail(START)))
        log = await a.lead(1)
        for number in range(40):
            await log.append(transaction(number))
        assert len(log.ledgers()) > 3
        other = await b.lead(2)
        for number in range(40, 60):
            await other.append(transaction(number))
        with pytest.raises(LogError):
            await log.append(transaction(1000))
        await asyncio.sleep(1)
        assert follower.lac == other.lac == await follower.position()
        await follower.close()
        assert await following == list(range(60))

    place.run(program)


def test_a_large_transaction_goes_in_parts():
    place = Place(max_entry_bytes=300)

    async def program():
        a, b = await place.node("a"), await place.node("b")
        log = await a.lead(1)
        appends = [log.append(transaction(number, 10 if number % 2 else 2000)) for number in range(10)]
        for append in appends:
            await append
        assert log.lac.entry_id > 30
        assert await b.contents() == list(range(10))

    place.run(program)


def test_a_few_transactions_gather_while_an_entry_is_under_way():
    place = Place(enough_transactions=5)

    async def program():
        log = await (await place.node("a")).lead(1)

        async def shares(*turns):
            """How many of the transactions of these sizes, appended turn after turn, each entry has."""
            appends = []
            for sizes in turns:
                appends += [log.append(transaction(0, size)) for size in sizes]
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            entries = [await one for one in appends]
            return [entries.count(entry) for entry in sorted(set(entries))]

        one, two, five, large = [8], [8] * 2, [8] * 5, [100_000]
        assert await shares(one) == [1]
        assert await shares(one, one, two) == [1, 3]
        assert await shares(one, two, two, one, one) == [1, 5, 1]
        assert await shares(one, one, large, one) == [1, 2, 1]
        assert await shares(one, five, five, five, five, one) == [1, 5, 5, 5, 6]  # four are out

    place.run(program)


def test_what_waited_is_sent_before_the_entry_ahead_of_it_is_acknowledged():
    place = Place()

    async def program():
        sent = []
        log = await (await place.node("a")).lead(1, lambda appends, error: sent.append(log.end))
        first = log.append(transaction(0))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        second = log.append(transaction(1))
        assert await first < await second
        assert sent == [await second] * 2
        assert log.lac == log.end

    place.run(program)


def test_a_tail_ends_although_it_is_closed_while_a_ledger_is_opened():
    place = Place()

    async def program():
        a, b = await place.node("a"), await place.node("b")
        log = await a.lead(1)
        await log.append(transaction(0))
        follower, opened, go = b.follow(), asyncio.Event(), asyncio.Event()
        open_ledger = b.bk.open_ledger

        async def open_slowly(*arguments):
            reader = await open_ledger(*arguments)
            opened.set()
            await go.wait()
            return reader

        b.bk.open_ledger = open_slowly
        following = asyncio.create_task(numbers(follower.tail(START)))
        await opened.wait()
        await follower.close()
        go.set()
        async with asyncio.timeout(5):
            assert await following == []

    place.run(program)


def test_the_earlier_epoch_and_the_same_epoch_of_another_node_are_refused():
    place = Place()

    async def program():
        a, b = await place.node("a"), await place.node("b")
        await a.lead(5)
        for epoch in (4, 5):
            with pytest.raises(LedgerListConflictError):
                await b.take_over(epoch)
        await b.lead(6)

    place.run(program)


def test_a_closed_log_takes_nothing():
    place = Place()

    async def program():
        a, b = await place.node("a"), await place.node("b")
        log = await a.lead(1)
        last = log.append(transaction(1))
        await log.aclose()
        await log.aclose()
        assert last.result() == log.lac
        with pytest.raises(LogClosedError):
            log.append(transaction(2))
        takeover = await b.take_over(2)
        assert takeover.end == last.result()

    place.run(program)
