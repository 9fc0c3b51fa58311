"""The newest confirmed entries that a leader has at hand, for its reports."""

from __future__ import annotations

import asyncio

import pytest

from herdpy.log import LSN, START
from herdpy.log.bookkeeper.recent_entries import MAX_BYTES, MAX_ENTRIES, RecentEntries
from herdpy.log.entry import decode_entry
from tests.log_bookkeeper.kit import Place, numbers, transaction


def recent(*entries: tuple[int, int]) -> RecentEntries:
    found = RecentEntries()
    for ledger_id, entry_id in entries:
        found.add(LSN(ledger_id, entry_id), b"%d.%d" % (ledger_id, entry_id))
    return found


@pytest.mark.parametrize(
    ("after", "upto", "expected"),
    [
        ((5, 0), (5, 3), [b"5.1", b"5.2", b"5.3"]),
        ((5, 2), (5, 3), [b"5.3"]),
        ((5, 3), (5, 3), []),
        ((5, 4), (5, 3), []),
        ((5, 0), (5, 2), [b"5.1", b"5.2"]),
        ((4, 9), (5, 1), [b"5.0", b"5.1"]),
        (START, (5, 3), [b"5.0", b"5.1", b"5.2", b"5.3"]),
        ((5, 0), (5, 4), []),
        ((5, 0), (6, 3), []),
        ((3, 0), (4, 1), []),
    ],
)
def test_they_are_those_between_two_positions(
    after: tuple[int, int], upto: tuple[int, int], expected: list[bytes]
) -> None:
    found = recent((4, 0), (4, 1), (5, 0), (5, 1), (5, 2), (5, 3))
    assert list(found.between(LSN(*after), LSN(*upto))) == expected


def test_behind_a_gap_there_is_nothing_from_before_it() -> None:
    found = recent((5, 0), (5, 1), (5, 3), (5, 4))
    assert found.between(LSN(5, 0), LSN(5, 4)) == (b"5.3", b"5.4")
    assert found.between(LSN(5, 0), LSN(5, 1)) == ()


def test_an_entry_that_is_not_kept_is_a_gap() -> None:
    found = recent((5, 0), (5, 1))
    found.add(LSN(5, 2), b"")
    assert found.between(START, LSN(5, 2)) == ()
    found.add(LSN(5, 3), b"5.3")
    assert found.between(START, LSN(5, 3)) == (b"5.3",)


@pytest.mark.parametrize(("size_bytes", "kept"), [(1, MAX_ENTRIES), (MAX_BYTES // 4, 4), (MAX_BYTES // 5, 5)])
def test_there_are_few_and_small_ones(size_bytes: int, kept: int) -> None:
    found = RecentEntries()
    for entry_id in range(200):
        found.add(LSN(5, entry_id), bytes(size_bytes))
    assert RecentEntries.is_kept(size_bytes)
    assert not RecentEntries.is_kept(MAX_BYTES // 4 + 1)
    assert len(found.between(START, LSN(5, 199))) == kept


def test_a_leader_has_what_it_acknowledged_as_bookies_have_it() -> None:
    place = Place(max_ledger_bytes=1500, max_in_flight=4)

    async def program() -> None:
        a = await place.node("a")
        log = await a.lead(1)
        before = log.lac
        for number in range(100):
            await log.append(transaction(number))
            entries = log.recent_entries(before, log.lac)
            assert [decode_entry(one).lsn for one in entries][-1:] == [log.lac]
            read = {lsn: entry async for lsn, entry in log.read(START)}
            assert all(decode_entry(one) == read[decode_entry(one).lsn] for one in entries)
            before = log.lac
        last = log.lac
        log.append(transaction(100))
        while log.end == last:
            await asyncio.sleep(0)
        assert log.recent_entries(last, log.end) == ()  # sent, and not acknowledged
        await log.aflush()
        assert len(log.recent_entries(last, log.end)) == 1
        large = log.append(transaction(101, MAX_BYTES))
        await large
        assert log.recent_entries(last, log.lac) == ()
        assert await numbers(log.read(START)) == list(range(102))
        await log.aclose()

    place.run(program)
