"""Which replica of an entry is read: bookies that lack it, falsify it, are late or gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from herdpy.bookkeeper.digest import Entry
from herdpy.bookkeeper.errors import (
    BookieIOError,
    BookieUnavailableError,
    DigestMismatchError,
    NoSuchEntryError,
    NoSuchLedgerError,
    TooManyRequestsError,
    ZooKeeperUnavailableError,
)
from tests.bookkeeper.reader_fakes import DIGEST, LEDGER, SETTINGS, Ledger, data_of, length_at, run, sealed
from tests.bookkeeper.sealing import sealed_body


async def ids(entries: AsyncIterator[Entry]) -> list[int]:
    return [entry.entry_id async for entry in entries]


def test_an_unreachable_or_lacking_replica_is_passed_over() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 29)
        ledger.close(29)
        ledger.bookies[0].down = True
        del ledger.bookies[1].entries[4]
        reader = ledger.reader()
        assert await ids(reader.read(0, 29)) == list(range(30))
        # Found out with the first reads, then asked no more.
        assert len(ledger.bookies[0].asked) <= 4
        await reader.close()

    run(program)


@pytest.mark.parametrize("forgery", ["flipped bit", "other entry", "other ledger", "truncated", "empty"])
def test_a_falsified_replica_is_passed_over_and_counted(forgery: str) -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 5)
        ledger.close(5)
        good = sealed(3)
        forged = {
            "flipped bit": good[:-1] + bytes([good[-1] ^ 1]),
            "other entry": sealed(4),
            "other ledger": sealed_body(DIGEST, LEDGER + 1, 3, 2, length_at(3), data_of(3)),
            "truncated": good[:20],
            "empty": b"",
        }[forgery]
        first, *others = ledger.holders(3)
        first.entries[3] = forged
        reader = ledger.reader()
        assert (await reader.get(3)).data == data_of(3)
        assert reader.digest_mismatches == 1
        for bookie in others:
            bookie.entries[3] = forged
        with pytest.raises(DigestMismatchError) as caught:
            await reader.get(3)
        assert all(bookie.id in str(caught.value) for bookie in ledger.bookies)
        await reader.close()

    run(program)


def test_a_late_replica_is_joined_by_the_next_one_and_then_asked_last() -> None:
    async def program() -> float:
        ledger = Ledger()
        ledger.write(0, 5)
        ledger.close(5)
        slow, _, third = ledger.holders(0)
        slow.delay_s = 3.0
        reader = ledger.reader()
        loop = asyncio.get_running_loop()
        started = loop.time()
        assert (await reader.get(0)).data == data_of(0)
        took_s = loop.time() - started
        assert reader.speculative_reads == 1
        assert third.asked == []
        started = loop.time()
        await reader.get(0)
        assert loop.time() - started < 0.01
        assert slow.asked == [0]
        await reader.close()
        return took_s

    assert 0.5 <= run(program) < 0.6


def test_the_speculative_delay_doubles_and_the_first_good_answer_wins() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 0)
        ledger.close(0)
        first, second, third = ledger.holders(0)
        first.delay_s, second.silent, third.delay_s = 1.7, True, 4.0
        reader = ledger.reader()
        loop = asyncio.get_running_loop()
        started = loop.time()
        reading = asyncio.ensure_future(reader.get(0))
        await asyncio.sleep(1.6)
        assert [len(bookie.asked) for bookie in ledger.holders(0)] == [1, 1, 1]
        assert (await reading).entry_id == 0
        assert loop.time() - started == pytest.approx(1.7, abs=0.01)
        await reader.close()

    run(program)


def test_doubt_passes() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 0)
        ledger.close(0)
        first = ledger.holders(0)[0]
        first.down = True
        reader = ledger.reader()
        await reader.get(0)
        await reader.get(0)
        assert len(first.asked) == 1
        first.down = False
        await asyncio.sleep(SETTINGS.quarantine_s)
        await reader.get(0)
        assert len(first.asked) == 2
        await reader.close()

    run(program)


def test_a_preferred_bookie_is_asked_first() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 8)
        ledger.close(8)
        reader = ledger.reader(preferred=["b1"])
        assert await ids(reader.read(0, 8)) == list(range(9))
        assert [len(bookie.asked) for bookie in ledger.bookies] == [0, 9, 0]
        await reader.close()

    run(program)


def test_one_lacking_replica_proves_nothing_while_another_is_out_of_reach() -> None:
    async def program() -> None:
        ledger = Ledger(3, 3, 2)
        ledger.write(0, 5)
        ledger.close(5)
        first, second, third = ledger.holders(3)
        del first.entries[3]
        second.down = third.down = True
        reader = ledger.reader()
        with pytest.raises(BookieUnavailableError) as caught:
            await reader.get(3)
        assert not isinstance(caught.value, NoSuchEntryError)
        assert "b0: no such entry" in str(caught.value)
        assert "b1: the bookie cannot be reached" in str(caught.value)
        assert (caught.value.ledger_id, caught.value.entry_id) == (LEDGER, 3)
        second.down = False
        del second.entries[3]
        with pytest.raises(BookieUnavailableError):  # the third may have lost its disk, and may not
            await reader.get(3)
        third.down = False
        assert (await reader.get(3)).entry_id == 3
        del third.entries[3]
        with pytest.raises(NoSuchEntryError):
            await reader.get(3)
        await reader.close()

    run(program)


def test_what_may_pass_is_what_is_raised() -> None:
    async def program() -> None:
        ledger = Ledger(3, 3, 2)
        ledger.write(0, 0)
        ledger.close(0)
        ledger.bookies[0].entries[0] = sealed(1)
        ledger.bookies[1].refusing = TooManyRequestsError()
        ledger.bookies[2].refusing = BookieIOError()
        reader = ledger.reader()
        with pytest.raises(TooManyRequestsError):
            await reader.get(0)
        await reader.close()

    run(program)


def test_the_ensemble_of_a_closed_ledger_is_read_again_when_its_bookies_are_gone() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 99)
        ledger.close(99)
        reader = ledger.reader()
        for number in range(3):  # auto recovery moves everything
            ledger.pool.get(f"n{number}").entries = dict(ledger.bookies[number].entries)
        ledger.store.change(
            replace(
                ledger.store.metadata,
                segments=(replace(ledger.store.metadata.segments[0], members=("n0", "n1", "n2")),),
            )
        )
        for bookie in ledger.bookies:
            bookie.down = True
        assert await ids(reader.read(0, 99)) == list(range(100))
        assert reader.metadata.last_segment.members == ("n0", "n1", "n2")
        assert ledger.store.reads == 1  # once for all entries
        await reader.close()

    run(program)


def test_a_confirmed_entry_is_not_missing_by_metadata_that_may_be_old() -> None:
    """The bookies of the first ensemble lack what was written to the next one, which is not known of."""

    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 9)
        ledger.bookies[0].explicit_lac = DIGEST.seal_lac(LEDGER, 9)
        reader = ledger.reader()
        assert await reader.read_last_add_confirmed() == 9
        ledger.store.callbacks.clear()  # the watch is late
        ledger.replace(9, ("b3", "b4", "b5"))
        ledger.write(9, 9)
        for bookie in ledger.bookies:
            del bookie.entries[9]
        ledger.store.cut_off = True
        for reading in (reader.get(9), ids(reader.read(0, 9))):
            with pytest.raises(ZooKeeperUnavailableError) as caught:
                await reading
            assert isinstance(caught.value.__cause__, NoSuchEntryError)
        ledger.store.cut_off = False
        assert (await reader.get(9)).entry_id == 9
        await reader.close()

    run(program)


def test_an_unchanged_ensemble_is_not_read_from_for_ever() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 9)
        ledger.close(9)
        reader = ledger.reader()
        for bookie in ledger.bookies:
            bookie.down = True
        with pytest.raises(BookieUnavailableError):
            await ids(reader.read(0, 9))
        ledger.store.change(None)
        with pytest.raises(NoSuchLedgerError) as caught:
            await reader.get(0)
        assert isinstance(caught.value.__cause__, BookieUnavailableError)
        await reader.close()

    run(program)
