"""Recovery: fencing, the true end, what is written again, and what is published."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import cast

import pytest

from herdpy.bookkeeper.bookie import BookiePool
from herdpy.bookkeeper.errors import (
    BookieIOError,
    LostEntriesError,
    NoSuchLedgerError,
    RecoveryError,
    UnauthorizedError,
)
from herdpy.bookkeeper.metadata.ledger_metadata import LedgerMetadata, LedgerState, Segment
from herdpy.bookkeeper.metadata.ledger_store import LedgerStore
from herdpy.bookkeeper.placement import Placement
from herdpy.bookkeeper.read import recover_ledger
from tests.bookkeeper.reader_fakes import (
    DIGEST,
    KEY,
    LEDGER,
    SETTINGS,
    Ledger,
    length_at,
    run,
    sealed,
)


def put(ledger: Ledger, entry_id: int, *members: str, lac: int | None = None) -> None:
    """An entry that got only so far."""
    for member in members:
        ledger.pool.get(member).store(entry_id, sealed(entry_id, lac))


def closed_at(ledger: Ledger, last: int) -> None:
    """The ledger is closed at that entry with its length, and an ack quorum has everything to there."""
    metadata = ledger.store.metadata
    assert metadata.state is LedgerState.CLOSED
    assert (metadata.last_entry_id, metadata.length_bytes) == (last, length_at(last))
    for entry_id in range(max(0, last - 20), last + 1):
        having = [bookie for bookie in ledger.holders(entry_id) if entry_id in bookie.entries]
        assert len(having) >= metadata.ack_quorum
        for bookie in having:
            assert DIGEST.open(bookie.entries[entry_id], LEDGER, entry_id).length == length_at(entry_id)


@pytest.mark.parametrize(("ensemble_size", "write_quorum", "ack_quorum"), [(3, 3, 2), (5, 2, 2), (1, 1, 1)])
@pytest.mark.parametrize("last", [-1, 0, 1, 50])
def test_a_ledger_its_writer_left_is_closed_at_its_last_entry(
    ensemble_size: int, write_quorum: int, ack_quorum: int, last: int
) -> None:
    async def program() -> None:
        ledger = Ledger(ensemble_size, write_quorum, ack_quorum)
        ledger.write(0, last, lac=None)
        closed = await ledger.recover()
        closed_at(ledger, last)
        assert closed == ledger.store.versioned
        assert [one.state for one in ledger.store.writes] == [LedgerState.IN_RECOVERY, LedgerState.CLOSED]
        assert ledger.store.metadata.segments == (Segment(0, ledger.members),)

    run(program)


def test_unconfirmed_entries_that_one_bookie_has_are_kept_as_they_were_sealed() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 9)
        put(ledger, 10, "b1", lac=5)
        put(ledger, 11, "b2", lac=6)
        await ledger.recover()
        closed_at(ledger, 11)
        assert {bookie.entries[10] for bookie in ledger.bookies} == {sealed(10, 5)}
        assert {bookie.entries[11] for bookie in ledger.bookies} == {sealed(11, 6)}

    run(program)


def test_what_lies_behind_a_gap_is_not_of_the_ledger() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 9)
        put(ledger, 11, "b0", "b1", lac=5)
        await ledger.recover()
        closed_at(ledger, 9)

    run(program)


def test_the_length_is_that_of_the_last_entry_kept() -> None:
    """The last entry of a bookie can lie beyond the end, and its length with it."""

    async def program() -> None:
        ledger = Ledger(3, 3, 2)
        ledger.write(0, 9, lac=9)  # as a Java writer's explicit LAC would tell: nothing to read forward
        put(ledger, 12, "b0", lac=9)
        await ledger.recover()
        closed_at(ledger, 9)

    run(program)


def test_a_last_segment_that_nothing_was_written_to() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 9)
        ledger.replace(10, ("b3", "b4", "b5"))
        await ledger.recover()
        closed_at(ledger, 9)  # its length comes from the segment before
        assert all(ledger.pool.get(member).fenced for member in ("b3", "b4", "b5"))

    run(program)


def test_an_ensemble_that_took_another_ones_place_meanwhile_is_fenced() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 9)
        old = ledger.store.versioned
        ledger.replace(10, ("b3", "b4", "b5"))
        ledger.write(10, 12)
        newest = ledger.store.versioned
        ledger.store.versioned = old  # what the recoverer has read
        recovering = ledger.recover()
        ledger.store.versioned = newest
        await recovering
        closed_at(ledger, 12)
        assert all(ledger.pool.get(member).fenced for member in ("b3", "b4", "b5"))

    run(program)


def test_the_writer_is_fenced() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 9)
        await ledger.recover()
        await asyncio.sleep(1)
        assert all(bookie.fenced for bookie in ledger.bookies)

    run(program)


def test_a_bookie_that_missed_the_fence_is_fenced_by_the_forward_reads() -> None:
    """Its "no such entry" counts only if it cannot take that entry a moment later."""

    async def program() -> None:
        ledger = Ledger(3, 3, 2)
        ledger.write(0, 2)
        late, other, third = ledger.holders(3)
        late.down = True
        other.delay_s = third.delay_s = 0.005
        recovering = asyncio.ensure_future(ledger.recover())
        while not late.asked:
            await asyncio.sleep(0.0005)
        await asyncio.sleep(0.0005)
        late.down = False
        await recovering
        assert 3 in late.asked
        assert late.fenced
        closed_at(ledger, 2)

    run(program)


def test_striped_ledgers_need_answers_for_every_write_set() -> None:
    async def program() -> None:
        ledger = Ledger(5, 2, 2, "b5")
        ledger.write(0, 9)
        ledger.bookies[1].down = ledger.bookies[2].down = True
        with pytest.raises(RecoveryError) as caught:
            await ledger.recover()
        assert "b1: " in str(caught.value)
        assert "b2: " in str(caught.value)
        assert ledger.store.metadata.state is LedgerState.IN_RECOVERY
        ledger.bookies[1].down = False
        ledger.bookies[4].down = True  # no neighbours: every write set has one that answers
        await ledger.recover()
        closed_at(ledger, 9)

    run(program)


def test_one_lacking_replica_does_not_end_a_ledger() -> None:
    """W=3 A=2: the only reachable holder of an entry may be behind a bookie that is down."""

    async def program() -> None:
        ledger = Ledger(3, 3, 2)
        ledger.write(0, 9)
        del ledger.holders(10)[0].entries[9]
        put(ledger, 10, ledger.holders(10)[1].id, ledger.holders(10)[2].id)
        await ledger.recover()
        closed_at(ledger, 10)

    run(program)


def test_a_forward_read_that_cannot_know_fails_the_recovery() -> None:
    async def program() -> None:
        ledger = Ledger(3, 3, 2)
        ledger.write(0, 9)
        first, second, third = ledger.holders(9)
        recovering = asyncio.ensure_future(ledger.recover())
        while not all(bookie.fenced for bookie in ledger.bookies):
            await asyncio.sleep(0.0005)
        second.refusing = BookieIOError("disk is gone")
        third.down = True
        del first.entries[9]
        with pytest.raises(RecoveryError, match="disk is gone") as caught:
            await recovering
        assert caught.value.entry_id == 9
        assert ledger.store.metadata.state is LedgerState.IN_RECOVERY

    run(program)


def test_a_falsified_entry_is_taken_from_another_replica() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 9)
        first = ledger.holders(9)[0]
        first.entries[9] = first.entries[9][:-1] + b"?"
        await ledger.recover()
        closed_at(ledger, 9)

    run(program)


@pytest.mark.parametrize("fault", ["down", "silent"])
def test_an_ack_quorum_of_bookies_is_enough(fault: str) -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 30, lac=-1)
        setattr(ledger.bookies[1], fault, True)
        await ledger.recover()
        closed_at(ledger, 30)

    run(program)


def test_a_bookie_that_is_silent_already_is_not_waited_for() -> None:
    async def program() -> float:
        ledger = Ledger()
        ledger.write(0, 30)
        for bookie in ledger.bookies[:1]:  # first of the write set of entries 0, 3, ...
            bookie.silent = bookie.is_silent = True
        started_s = asyncio.get_running_loop().time()
        await ledger.recover()
        closed_at(ledger, 30)
        reader = ledger.reader()
        for entry_id in (0, 29, 30):
            await reader.get(entry_id)
        await reader.close()
        return asyncio.get_running_loop().time() - started_s

    assert run(program) < SETTINGS.speculative_read_s


def test_a_bookie_that_fails_the_re_adds_is_replaced_and_that_is_published_with_the_end() -> None:
    async def program() -> None:
        ledger = Ledger(3, 3, 3, "b3", "b4")
        ledger.write(0, 30, lac=9)
        ledger.bookies[1].failing_adds = 501
        ledger.pool.get("b3").failing_adds = 505
        await ledger.recover()
        metadata = ledger.store.metadata
        assert metadata.segments == (Segment(0, ("b0", "b1", "b2")), Segment(10, ("b0", "b4", "b2")))
        closed_at(ledger, 30)
        assert sorted(ledger.pool.get("b4").entries) == list(range(10, 31))
        assert len(ledger.store.writes) == 2  # nothing was published on the way
        assert ledger.placement.quarantined == ["b1", "b3"]

    run(program)


def test_what_a_replaced_bookie_acknowledged_does_not_count() -> None:
    async def program() -> None:
        ledger = Ledger(3, 3, 3, "b3", "b4")
        ledger.write(0, 30, lac=9)
        ledger.bookies[1].ignored_entries = {10}  # it acknowledges all others before it is replaced
        ledger.pool.get("b3").ignored_entries = set(range(12, 31))
        await ledger.recover()
        assert ledger.store.metadata.last_segment.members == ("b0", "b4", "b2")
        closed_at(ledger, 30)

    run(program)


def test_a_replacement_for_the_whole_last_segment_takes_its_place() -> None:
    async def program() -> None:
        ledger = Ledger(3, 3, 3, "b6")
        ledger.write(0, 9)
        ledger.replace(10, ("b3", "b4", "b5"))
        ledger.write(10, 12, lac=9)
        ledger.pool.get("b5").failing_adds = 501
        await ledger.recover()
        assert ledger.store.metadata.segments == (
            Segment(0, ("b0", "b1", "b2")),
            Segment(10, ("b3", "b4", "b6")),
        )
        closed_at(ledger, 12)

    run(program)


def test_without_spares_those_left_are_enough_if_they_are_an_ack_quorum() -> None:
    async def program() -> None:
        ledger = Ledger(3, 3, 2)
        ledger.write(0, 30, lac=9)
        ledger.bookies[1].failing_adds = 501
        await ledger.recover()
        closed_at(ledger, 30)

    run(program)


def test_too_few_bookies_for_the_re_adds_fail_the_recovery_and_it_can_be_tried_again() -> None:
    async def program() -> None:
        ledger = Ledger(3, 3, 2)
        ledger.write(0, 30, lac=9)
        ledger.bookies[1].failing_adds = ledger.bookies[2].failing_adds = 501
        with pytest.raises(RecoveryError, match="needs 2 bookies, 1 of its write set") as caught:
            await ledger.recover()
        assert "b1" in str(caught.value)
        assert ledger.store.metadata.state is LedgerState.IN_RECOVERY
        ledger.bookies[1].failing_adds = 0
        await ledger.recover()
        closed_at(ledger, 30)

    run(program)


def test_a_closed_ledger_is_left_alone() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 9)
        old = ledger.store.versioned
        ledger.close(9)
        assert (await ledger.recover()).metadata.last_entry_id == 9
        assert not any(bookie.fenced for bookie in ledger.bookies)
        closed = ledger.store.versioned
        ledger.store.versioned = old  # what a recoverer with old metadata sees first
        recovering = ledger.recover()
        ledger.store.versioned = closed
        assert (await recovering) == closed
        assert ledger.store.writes == []

    run(program)


def test_two_recoverers_and_a_dead_one_before_them() -> None:
    async def program() -> None:
        ledger = Ledger(3, 3, 2, "b3")
        ledger.write(0, 200, lac=9)
        put(ledger, 201, "b1", lac=9)
        ledger.set_state(LedgerState.IN_RECOVERY)
        ends = await asyncio.gather(ledger.recover(), ledger.recover(), ledger.recover())
        assert len({(end.metadata.last_entry_id, end.version) for end in ends}) == 1
        closed_at(ledger, ends[0].metadata.last_entry_id)

    run(program)


def test_an_end_that_somebody_else_published_is_taken() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 9)
        put(ledger, 10, "b0")

        def overtake(metadata: LedgerMetadata) -> None:
            if metadata.state is LedgerState.CLOSED:
                ledger.store.before_write = None
                ledger.close(9)  # it did not see the unconfirmed entry 10

        ledger.store.before_write = overtake
        assert (await ledger.recover()).metadata.last_entry_id == 9

    run(program)


def test_an_end_below_what_is_confirmed_is_not_taken_in_silence() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 9)

        def overtake(metadata: LedgerMetadata) -> None:
            if metadata.state is LedgerState.CLOSED:
                ledger.store.before_write = None
                ledger.close(4)

        ledger.store.before_write = overtake
        with pytest.raises(RecoveryError, match="closed at entry 4, below the confirmed entry 8"):
            await ledger.recover()

    run(program)


def test_segments_that_auto_recovery_rewrites_meanwhile_stay_rewritten() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 9)
        ledger.replace(10, ("b3", "b4", "b5"))
        ledger.write(10, 19)

        def rewrite(metadata: LedgerMetadata) -> None:
            if metadata.state is LedgerState.CLOSED:
                ledger.store.before_write = None
                first, *rest = ledger.store.metadata.segments
                ledger.pool.get("b9").entries = dict(ledger.bookies[0].entries)
                moved = replace(first, members=("b9", "b1", "b2"))
                ledger.store.change(replace(ledger.store.metadata, segments=(moved, *rest)))

        ledger.store.before_write = rewrite
        await ledger.recover()
        closed_at(ledger, 19)
        assert ledger.store.metadata.segments[0].members == ("b9", "b1", "b2")

    run(program)


def test_a_last_segment_rewritten_meanwhile_is_recovered_anew() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 9)

        def rewrite(metadata: LedgerMetadata) -> None:
            if metadata.state is LedgerState.CLOSED:
                ledger.store.before_write = None
                ledger.pool.get("b9").entries = dict(ledger.bookies[0].entries)
                ledger.replace(0, ("b9", "b1", "b2"))

        ledger.store.before_write = rewrite
        await ledger.recover()
        closed_at(ledger, 9)
        assert ledger.pool.get("b9").fenced

    run(program)


def test_a_wrong_key_and_a_deleted_ledger() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 9)
        for bookie in ledger.bookies:
            bookie.key = KEY
        assert ledger.store.versioned is not None
        with pytest.raises(UnauthorizedError):
            await recover_ledger(
                LEDGER,
                ledger.store.versioned,
                cast(LedgerStore, ledger.store),
                cast(BookiePool, ledger.pool),
                cast(Placement, ledger.placement),
                SETTINGS,
                DIGEST,
                b"wrong",
            )
        recovering = ledger.recover()
        ledger.store.change(None)
        with pytest.raises(NoSuchLedgerError):
            await recovering

    run(program)


def test_a_long_tail_is_recovered_in_few_round_trips_within_bounds() -> None:
    async def program() -> float:
        ledger = Ledger()
        ledger.write(0, 0)
        for entry_id in range(1, 1001):
            put(ledger, entry_id, *ledger.members, lac=0)
        for bookie in ledger.bookies:
            bookie.delay_s = 0.1
        started = asyncio.get_running_loop().time()
        await ledger.recover(replace(SETTINGS, max_in_flight_entries=100))
        closed_at(ledger, 1000)
        assert max(bookie.most_under_way for bookie in ledger.bookies) <= SETTINGS.read_ahead_entries
        return asyncio.get_running_loop().time() - started

    assert run(program) < 1000 * 0.1 / 20


@pytest.mark.parametrize("away", [None, "down", "silent"])
def test_a_bookie_that_lost_its_disk_has_no_say_in_where_a_ledger_ends(away: str | None) -> None:
    """W=2 A=2: one "no such ledger" is proof enough, if it is a bookie's that was there all the time."""

    async def program() -> None:
        ledger = Ledger(2, 2, 2)
        ledger.write(0, 9)
        ledger.lose_disk(1)
        if away is not None:
            setattr(ledger.bookies[0], away, True)
            with pytest.raises(RecoveryError, match="b1: its disks are newer than the ledger"):
                await ledger.recover()
            assert ledger.store.metadata.state is LedgerState.IN_RECOVERY
            setattr(ledger.bookies[0], away, False)
        await ledger.recover()
        assert ledger.store.metadata.last_entry_id == 9
        assert DIGEST.open(ledger.bookies[1].entries[9], LEDGER, 9).length == length_at(9)

    run(program)


def test_with_one_bookie_away_and_one_made_anew_recovery_waits_for_the_one_that_is_away() -> None:
    """W=3 A=2: only the two of them may have had the last entry."""

    async def program() -> None:
        ledger = Ledger(3, 3, 2)
        ledger.write(0, 9)
        put(ledger, 10, "b1", "b2")
        ledger.lose_disk(1)
        ledger.bookies[2].down = True
        with pytest.raises(RecoveryError):
            await ledger.recover()
        ledger.bookies[2].down = False
        await ledger.recover()
        closed_at(ledger, 10)

    run(program)


def test_a_bookie_that_comes_back_empty_on_the_way_ends_no_ledger() -> None:
    """It was away when the ledger was fenced; the forward reads find it made anew."""

    async def program() -> None:
        ledger = Ledger(3, 3, 2)
        ledger.write(0, 8)
        put(ledger, 9, *(bookie.id for bookie in ledger.holders(9)[1:]))
        _missing, lost, having = ledger.holders(9)
        having.delay_s = 0.4
        lost.down = True
        recovering = asyncio.ensure_future(ledger.recover())
        while not having.fenced:
            await asyncio.sleep(0.0005)
        ledger.lose_disk(ledger.bookies.index(lost))
        lost.down = False
        await recovering
        closed_at(ledger, 9)

    run(program)


def test_a_ledger_is_not_closed_below_an_entry_that_somebody_has_applied() -> None:
    async def program() -> None:
        ledger = Ledger(3, 3, 2)
        ledger.write(0, 9)
        with pytest.raises(LostEntriesError, match="nothing after entry 9, and entry 11") as told:
            await ledger.recover(known_entry_id=11)
        assert told.value.entry_id == 11
        assert ledger.store.metadata.state is LedgerState.IN_RECOVERY
        put(ledger, 10, "b0", "b1", lac=9)
        put(ledger, 11, "b0", "b1", lac=9)
        await ledger.recover(known_entry_id=11)
        closed_at(ledger, 11)

    run(program)
