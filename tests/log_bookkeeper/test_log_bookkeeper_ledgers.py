"""Ledgers: bookies that go and return, rolling, trimming, deleting, and who owns the log."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from herdpy.log import (
    LSN,
    START,
    ChainError,
    CorruptLedgerError,
    LogClosedError,
    LogError,
    LogTrimmedError,
)
from herdpy.log.bookkeeper import LedgerLogSettings, own_ledgers
from herdpy.log.bookkeeper.settings import Quorums, quorums_for
from herdpy.log.bookkeeper.walk import ChainPosition as ChainPlace
from herdpy.log.bookkeeper.walk import next_ledger
from herdpy.log.entry import decode_entry
from herdpy.log.errors import LogBusyError
from herdpy.log.ledger_list import LedgerInfo, LedgerListState
from tests.log_bookkeeper.kit import Place, numbers, transaction


async def quorums_of(node, log):
    """The sizes of the ledger that is written to."""
    metadata = await node.bk.ledger_metadata(log.ledgers()[-1].ledger_id)
    return metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum


@pytest.mark.parametrize(
    ("asked", "strict", "bookies", "given"),
    [
        ((3, 3, 2), False, 5, (3, 3, 2)),
        ((3, 3, 2), False, 2, (2, 2, 2)),
        ((3, 3, 2), False, 1, None),
        ((3, 3, 2), True, 2, None),
        ((3, 2, 2), True, 2, (2, 2, 2)),
        ((5, 3, 2), True, 4, (4, 3, 2)),
        ((5, 3, 2), False, 2, (2, 2, 2)),
        ((1, 1, 1), False, 0, None),
    ],
)
def test_how_ledgers_shrink(asked, strict, bookies, given):
    ensemble, write, ack = asked
    settings = LedgerLogSettings(ensemble=ensemble, write_quorum=write, ack_quorum=ack, strict=strict)
    assert quorums_for(settings, bookies) == (Quorums(*given) if given else None)


@pytest.mark.parametrize("quorums", [(3, 3, 2), (3, 2, 2)])
def test_writing_goes_on_when_a_bookie_is_gone_for_good_and_grows_when_one_comes(quorums):
    ensemble, write, ack = quorums
    place = Place(bookies=3, ensemble=ensemble, write_quorum=write, ack_quorum=ack)

    async def program():
        a, b = await place.node("a"), await place.node("b")
        told = []
        log = await a.lead(
            1, lambda appends, error: told.extend(one.transaction.timestamp_us for one in appends)
        )
        for number in range(10):
            await log.append(transaction(number))
        next(iter(place.cluster.bookies.values())).crash()
        appends = [log.append(transaction(number)) for number in range(10, 50)]
        for append in appends:
            await append
        assert await quorums_of(a, log) == (2, 2, 2)
        await asyncio.sleep(30)
        with pytest.raises(LogError):
            await b.take_over(1)
        await place.cluster.add_bookie("bookie9").start()
        while await quorums_of(a, log) != quorums:
            await asyncio.sleep(0.1)
            await log.append(transaction(len(told)))
        assert told == await numbers(log.read(START))
        assert told == list(range(len(told)))

    place.run(program)


def test_a_log_whose_ledgers_never_shrink_is_noticed(monkeypatch):
    make = own_ledgers.create_ledger

    async def never_shrinks(bk, settings, *of_whom):
        return await make(bk, replace(settings, strict=True), *of_whom)

    monkeypatch.setattr(own_ledgers, "create_ledger", never_shrinks)
    with pytest.raises(LogError):
        test_writing_goes_on_when_a_bookie_is_gone_for_good_and_grows_when_one_comes((3, 3, 2))


def test_a_log_is_begun_with_fewer_bookies_than_asked():
    place = Place(bookies=2)

    async def program():
        a = await place.node("a")
        log = await a.lead(1)
        assert await quorums_of(a, log) == (2, 2, 2)

    place.run(program)


def test_strict_stops_instead_and_says_not_done():
    place = Place(bookies=3, strict=True, write_patience_s=3.0)

    async def program():
        a, b = await place.node("a"), await place.node("b")
        lost = []
        log = await a.lead(1, on_lost=lost.append)
        await log.append(transaction(1))
        next(iter(place.cluster.bookies.values())).crash()
        appends = [log.append(transaction(number)) for number in (2, 3)]
        for append in appends:
            with pytest.raises(LogError) as caught:
                await append
            assert caught.value.outcome == "not done"
        with pytest.raises(LogClosedError):
            log.append(transaction(4))
        await asyncio.sleep(0)
        assert lost == [log.failure]
        takeover = await b.take_over(2)
        assert await numbers(takeover.log.read(START, takeover.end)) == [1]

    place.run(program)


def test_trimming_takes_ledgers_from_the_list_and_deletes_them():
    place = Place(max_ledger_bytes=500, ownership_s=6.0)

    async def program():
        a, b = await place.node("a"), await place.node("b")
        log = await a.lead(1)
        lsns = [await log.append(transaction(number)) for number in range(40)]
        before = [info.ledger_id for info in log.ledgers()]
        gone = await log.atrim(lsns[20])
        assert gone == before[: len(gone)] != []
        assert log.state.base < lsns[20]
        assert not set(gone) & set(await a.bk.list_ledgers())
        follower = b.follow()
        with pytest.raises(LogTrimmedError):
            await numbers(follower.read(lsns[0]))
        with pytest.raises(LogTrimmedError):
            await numbers(follower.tail(START))
        assert await numbers(log.read(lsns[20]), lsns[20]) == list(range(21, 40))
        # What another leader wrote is deleted only when it cannot believe any more to lead.
        await log.aroll()
        other = await b.lead(2)
        await other.append(transaction(40))
        gone = await other.atrim(lsns[-1])
        assert set(gone) <= set(await a.bk.list_ledgers())
        assert gone
        await asyncio.sleep(10)
        assert not set(gone) & set(await a.bk.list_ledgers())

    place.run(program)


def test_a_leader_that_cannot_prove_that_it_owns_the_log_acknowledges_nothing():
    """Its ledger may be deleted and forgotten by the bookies, which then take what it sends."""
    place = Place(ownership_s=6.0)

    async def program():
        a, b = await place.node("a"), await place.node("b")
        clock_s = [0.0]
        log = await (await a.take_over(1)).lead(clock=lambda: clock_s[0])
        a.logs.append(log)
        await log.append(transaction(1))
        clock_s[0] += 100  # the process was stopped for so long
        await log.append(transaction(2))  # the list is written first, and was still its own
        place.cluster.network.partition("a", "zookeeper")
        clock_s[0] += 100
        append = log.append(transaction(3))
        await asyncio.sleep(2)
        assert not append.done()
        other = await b.take_over(2)
        place.cluster.network.heal("a", "zookeeper")
        with pytest.raises(LogError) as caught:
            await append
        assert caught.value.outcome == "unknown"
        assert await numbers(other.log.read(START, other.end)) == [1, 2, 3]

    place.run(program)


def test_what_the_bookies_have_is_unknown_when_the_log_is_lost():
    """Behind it there may be what they do not have, and that is as the caller says."""
    place = Place(ownership_s=6.0)

    async def program():
        a = await place.node("a")
        clock_s = [0.0]
        log = await (await a.take_over(1)).lead(clock=lambda: clock_s[0])
        a.logs.append(log)
        await log.append(transaction(1))
        place.cluster.network.partition("a", "zookeeper")
        clock_s[0] += 100  # it cannot be proved any more that the ledger is its own
        stored = log.append(transaction(2))
        await asyncio.sleep(2)
        assert [entry.done for entry in log._sender.flights] == [True]
        behind = log.append(transaction(3))
        log.lose(LogError("lost"), "not done")
        outcomes = []
        for append in (stored, behind):
            with pytest.raises(LogError) as caught:
                await append
            outcomes.append(caught.value.outcome)
        assert outcomes == ["unknown", "not done"]
        place.cluster.network.heal("a", "zookeeper")

    place.run(program)


def test_orphans_are_swept():
    place = Place(ownership_s=6.0)

    async def program():
        a, b = await place.node("a"), await place.node("b")
        log = await a.lead(1)
        custom = (await a.bk.ledger_metadata(log.ledgers()[0].ledger_id)).custom_metadata
        assert custom["log"] == log.state.log_id.encode()
        assert (custom["tablespace"], custom["node"], custom["epoch"]) == (b"herdpy", b"a", b"1")
        orphan = await a.bk.create_ledger(3, 3, 2, custom_metadata=dict(custom))
        foreign = await a.bk.create_ledger(3, 3, 2, custom_metadata={**custom, "log": b"another"})
        other = await b.lead(2)
        assert await other.asweep() == []
        await asyncio.sleep(7)
        assert await other.asweep() == [orphan.ledger_id]
        assert foreign.ledger_id in await a.bk.list_ledgers()

    place.run(program)


def test_a_hole_in_the_list_is_told_and_not_skipped():
    place = Place(max_ledger_bytes=500)

    async def program():
        a, b = await place.node("a"), await place.node("b")
        log = await a.lead(1)
        for number in range(40):
            await log.append(transaction(number))
        await log.aclose()
        state = await a.list.read()
        whole = state.ledgers
        state = await a.list.write(replace(state, ledgers=whole[:1] + whole[2:]), state.version)
        for reading in (b.follow().read(START), b.follow().tail(START)):
            with pytest.raises(ChainError):
                await numbers(reading)
        with pytest.raises(ChainError):
            await numbers(b.follow().read(LSN(whole[1].ledger_id, 0)))
        state = await a.list.write(replace(state, ledgers=whole), state.version)
        await a.bk.delete_ledger(whole[1].ledger_id)
        with pytest.raises(CorruptLedgerError):
            await numbers(b.follow().read(START))

    place.run(program)


def test_it_is_the_chain_that_tells_of_a_hole(monkeypatch):
    """Without its check the entries behind the hole are given out as if nothing were missing."""

    def take(self, raw):
        entry = decode_entry(raw.data)
        self.position, self.crc = entry.lsn, entry.header.crc
        return entry

    monkeypatch.setattr(ChainPlace, "take", take)
    place = Place(max_ledger_bytes=500)

    async def program():
        a, b = await place.node("a"), await place.node("b")
        log = await a.lead(1)
        for number in range(40):
            await log.append(transaction(number))
        await log.aclose()
        state = await a.list.read()
        await a.list.write(replace(state, ledgers=state.ledgers[:1] + state.ledgers[2:]), state.version)
        found = [entry async for _, entry in b.follow().read(START)]
        assert sum(len(entry.parts) for entry in found) < 40

    place.run(program)


def test_an_end_that_the_list_does_not_have_is_told():
    place = Place(max_ledger_bytes=500)

    async def program():
        a, b = await place.node("a"), await place.node("b")
        log = await a.lead(1)
        for number in range(20):
            await log.append(transaction(number))
        await log.aclose()
        state = await a.list.read()
        first = state.ledgers[0]
        shorter = replace(first, last_entry_id=first.last_entry_id - 1)
        state = await a.list.write(replace(state, ledgers=(shorter, *state.ledgers[1:])), state.version)
        with pytest.raises(ChainError):
            await numbers(b.follow().read(START))

    place.run(program)


def test_more_than_may_be_queued_is_refused():
    place = Place(max_queued_bytes=1000)

    async def program():
        a = await place.node("a")
        log = await a.lead(1)
        taken = [log.append(transaction(number, 100)) for number in range(8)]
        with pytest.raises(LogBusyError) as caught:
            log.append(transaction(8, 100))
        assert caught.value.outcome == "not done"
        assert log.is_full
        roomy = asyncio.Event()
        log.when_roomy(roomy.set)
        await log.room()
        await roomy.wait()
        assert not log.is_full
        log.append(transaction(len(taken), 100))
        for one in taken:
            await one
        await log.aflush()

    place.run(program)


def test_who_waits_for_room_is_told_when_the_log_is_lost():
    place = Place(max_queued_bytes=1000)

    async def program():
        a = await place.node("a")
        log = await a.lead(1)
        taken = [log.append(transaction(number, 100)) for number in range(8)]
        roomy = asyncio.Event()
        log.when_roomy(roomy.set)
        log.abandon()
        await roomy.wait()
        assert all(one.done() for one in taken)
        with pytest.raises(LogClosedError):
            log.append(transaction(8, 100))

    place.run(program)


def test_a_hook_that_raises_ends_the_log():
    place = Place()

    async def program():
        a = await place.node("a")

        def hook(appends, error):
            if appends[0].transaction.timestamp_us == 2:
                raise ZeroDivisionError

        log = await a.lead(1, hook)
        await log.append(transaction(1))
        appends = [log.append(transaction(2))]
        with pytest.raises(LogError) as caught:
            await appends[0]
        assert caught.value.outcome == "unknown"
        with pytest.raises(LogClosedError):
            log.append(transaction(3))
        place.cluster.loop.unhandled.clear()

    place.run(program)


@pytest.mark.parametrize("moment", range(1, 60, 3))
def test_a_takeover_is_repeated_after_any_moment(moment):
    place = Place(seed=moment)

    async def program():
        a, b = await place.node("a"), await place.node("b")
        log = await a.lead(1)
        lsns = [await log.append(transaction(number)) for number in range(5)]
        log.abandon()
        attempt = asyncio.create_task(b.take_over(2))
        await asyncio.sleep(moment * 0.0007)
        attempt.cancel()
        await asyncio.gather(attempt, return_exceptions=True)
        for _ in range(2):
            takeover = await b.take_over(2)
            assert takeover.end == lsns[-1]
            assert await numbers(takeover.log.read(START, takeover.end)) == list(range(5))

    place.run(program)


def test_a_position_is_known_in_the_newest_ledger_while_the_one_before_is_not_closed_in_the_list():
    first, second = LedgerInfo(20, 0), LedgerInfo(21, 0)
    state = LedgerListState(1, "log", ledgers=(first, second))
    assert next_ledger(state, LSN(21, 2)) is second
    assert next_ledger(state, LSN(20, 2)) is first
    assert next_ledger(state, START) is first
    for unknown in (LSN(19, 0), LSN(22, 0)):
        with pytest.raises(ChainError):
            next_ledger(state, unknown)
