"""Ensemble changes: which segment, what is sent again, what counts, and what ends the writer."""

from __future__ import annotations

import asyncio

import pytest

from herdpy.bookkeeper.errors import (
    TIMED_OUT,
    UNAVAILABLE,
    LedgerFencedError,
    NotEnoughBookiesError,
    Outcome,
    TooManyRequestsError,
    ZooKeeperUnavailableError,
)
from herdpy.bookkeeper.metadata.ledger_metadata import Segment
from herdpy.bookkeeper.wire.protocol import ReplyStatus
from tests.bookkeeper.writer_fakes import OK, Bench, confirmed, error_in, run, settle

REFUSALS = [
    TIMED_OUT,
    UNAVAILABLE,
    int(ReplyStatus.EREADONLY),
    int(ReplyStatus.ETOOMANYREQUESTS),
    int(ReplyStatus.EIO),
    999,
]


@pytest.mark.parametrize("status", REFUSALS)
def test_a_failed_bookie_is_replaced_and_the_caller_sees_nothing(status):
    async def main():
        bench = Bench()
        bench.answer_all()
        assert await bench.writer.append(b"x") == 0
        bench[1].answer = status
        bench[2].answer = None
        futures = bench.append(3)
        await settle()
        for entry in (1, 2, 3):
            bench[2].reply(entry)
        assert await asyncio.gather(*futures) == [1, 2, 3]
        first, second = bench.store.now.metadata.segments
        assert first == Segment(0, ("b0", "b1", "b2"))
        assert second.first_entry_id == 1
        successor = second.members[1]
        assert second.members == ("b0", successor, "b2")
        assert successor in ("b3", "b4")
        assert bench.pool.get(successor).stored == {1, 2, 3}
        assert bench[0].seen == [0, 1, 2, 3]
        assert "b1" in bench.placement.quarantined()
        assert bench.writer.metadata.segments == (first, second)

    run(main)


def test_a_segment_that_starts_there_already_is_replaced():
    async def main():
        bench = Bench()
        (future,) = bench.append(1)
        bench[0].reply(0, UNAVAILABLE)
        await settle()
        first = bench.members()[0]
        assert bench.store.now.metadata.segments == (Segment(0, (first, "b1", "b2")),)
        bench.pool.get(first).reply(0, UNAVAILABLE)
        await settle()
        second = bench.members()[0]
        assert {first, second} == {"b3", "b4"}
        assert bench.store.now.metadata.segments == (Segment(0, (second, "b1", "b2")),)
        bench[1].reply(0)
        bench[2].reply(0)
        assert await future == 0

    run(main)


def test_only_entries_of_the_changed_index_are_sent_again_and_their_old_ack_is_dropped():
    async def main():
        bench = Bench(3, 2, 2, bookies=4)
        futures = bench.append(4)
        # Entry 0: b0 b1. Entry 1: b1 b2. Entry 2: b2 b0. Entry 3: b0 b1.
        bench[0].reply(2)
        bench[0].reply(3)
        bench[1].reply(3)
        bench[2].reply(1)
        bench[2].reply(2)
        # Entries 2 and 3 are complete, behind 0. Now b0 fails entry 0, and with it what it acknowledged goes.
        bench[0].reply(0, TIMED_OUT)
        await settle()
        assert bench.members() == ("b3", "b1", "b2")
        assert bench[3].seen == [0, 2, 3]
        bench[1].reply(0)
        bench[1].reply(1)
        assert confirmed(futures) == [False] * 4
        bench[3].reply(3)
        bench[3].reply(0)
        assert confirmed(futures) == [True, True, False, False]
        assert bench.writer.last_add_confirmed == 1
        bench[3].reply(2)
        assert confirmed(futures) == [True] * 4
        assert bench[1].seen == [0, 1, 3]
        assert bench[2].seen == [1, 2]

    run(main)


def test_acks_of_a_replaced_bookie_count_for_nothing():
    async def main():
        bench = Bench(bookies=4)
        futures = bench.append(2)
        bench[0].reply(0, TIMED_OUT)
        await settle()
        bench[0].reply(1)
        bench[1].reply_all()
        assert confirmed(futures) == [False, False]
        bench[3].reply_all()
        assert confirmed(futures) == [True, True]

    run(main)


def test_nothing_is_confirmed_while_the_ensemble_changes():
    async def main():
        bench = Bench(bookies=4)
        gate = asyncio.Event()
        bench.store.before_write = gate.wait
        futures = bench.append(2)
        bench[0].reply(1, UNAVAILABLE)
        for number in (1, 2):
            bench[number].reply_all()
        await settle()
        assert confirmed(futures) == [False, False]
        assert bench.writer.last_add_confirmed == -1
        # Appended meanwhile: not sent to the bookie that failed, but to its successor.
        futures += bench.append(1)
        assert bench[0].seen == [0, 1]
        gate.set()
        await settle()
        assert bench[3].seen == [0, 1, 2]
        assert confirmed(futures) == [True, True, False]
        assert bench.members()[0] == "b3"

    run(main)


def test_several_failing_at_once_and_during_the_change_are_replaced_together():
    async def main():
        bench = Bench(4, 3, 2, bookies=8)
        gate = asyncio.Event()
        bench.store.before_write = gate.wait
        futures = bench.append(4)
        bench[0].reply(0, UNAVAILABLE)
        bench[1].reply(0, UNAVAILABLE)
        await settle()
        bench[2].reply(0, UNAVAILABLE)
        await settle()
        gate.set()
        await settle()
        assert bench.store.now.metadata.segments[0].members[3] == "b3"
        assert len(bench.store.now.metadata.segments) == 1
        assert set(bench.members()[:3]) <= {"b4", "b5", "b6", "b7"}
        assert len(set(bench.members())) == 4
        bench.answer_all()
        assert await asyncio.gather(*futures) == [0, 1, 2, 3]
        for entry in range(4):
            indexes = [(entry + step) % 4 for step in range(3)]
            holders = [bench.members()[index] for index in indexes]
            assert sum(entry in bench.pool.get(one).stored for one in holders) >= 2

    run(main)


def test_a_lost_compare_and_set_is_decided_anew():
    async def main():
        bench = Bench(bookies=4)
        others = bench.store.now.metadata

        async def meddle():
            bench.store.before_write = None
            bench.store.set(others)  # as auto recovery may, elsewhere in the ledger

        bench.store.before_write = meddle
        (future,) = bench.append(1)
        bench[0].reply(0, UNAVAILABLE)
        await settle()
        assert bench.members() == ("b3", "b1", "b2")
        assert bench.store.now.version == 2
        for number in (1, 3):
            bench[number].reply_all()
        assert await future == 0

    run(main)


@pytest.mark.parametrize("state", ["in recovery", "closed"])
def test_a_change_that_meets_a_recovery_ends_as_fenced(state):
    async def main():
        bench = Bench()
        await settle()
        metadata = bench.store.now.metadata
        taken = metadata.in_recovery() if state == "in recovery" else metadata.closed(-1, 0)

        async def recoverer():
            bench.store.before_write = None
            bench.store.callback = None  # the watch is late
            bench.store.set(taken)

        bench.store.before_write = recoverer
        futures = bench.append(2)
        bench[0].reply(0, UNAVAILABLE)
        await settle()
        for number in (1, 2):
            bench[number].reply_all()
        for future in futures:
            assert isinstance(error_in(future), LedgerFencedError)
            assert future.exception().outcome is Outcome.UNKNOWN
        with pytest.raises(LedgerFencedError):
            bench.writer.append_nowait(b"x")
        assert bench.store.now.metadata == taken

    run(main)


def test_no_bookie_left_ends_the_writer():
    async def main():
        bench = Bench(bookies=3)
        futures = bench.append(2)
        bench[1].reply(0, int(ReplyStatus.ETOOMANYREQUESTS))
        await settle()
        for future in futures:
            error = error_in(future)
            assert isinstance(error, NotEnoughBookiesError)
            assert error.outcome is Outcome.UNKNOWN
            assert isinstance(error.__cause__, TooManyRequestsError)
        with pytest.raises(NotEnoughBookiesError) as refused:
            await bench.writer.append(b"x")
        assert refused.value.outcome is Outcome.NOT_DONE
        assert bench.store.writes == 0
        await bench.writer.close()
        assert bench.store.now.metadata.is_closed
        assert bench.store.now.metadata.last_entry_id == -1

    run(main)


def test_a_bookie_that_failed_is_not_chosen_again_for_the_same_entries():
    async def main():
        bench = Bench(bookies=5)
        for number in (0, 3, 4):
            bench[number].answer = int(ReplyStatus.ETOOMANYREQUESTS)
        (future,) = bench.append(1)
        await asyncio.wait([future])
        assert isinstance(error_in(future), NotEnoughBookiesError)
        assert [bookie.seen for bookie in bench.bookies] == [[0]] * 5

    run(main)


def test_a_bookie_that_failed_long_ago_may_come_back():
    async def main():
        bench = Bench(bookies=4)
        bench.answer_all()
        ensembles = []
        for victim in ("b0", "b3", "b0", "b3"):
            bench.pool.get(victim).answer = UNAVAILABLE
            await bench.writer.append(b"x")
            # The failure may come when the entry is confirmed; the next append sees to it.
            await bench.writer.append(b"x")
            await settle()
            ensembles.append(bench.members()[0])
            bench.pool.get(victim).answer = OK
        assert ensembles == ["b3", "b0", "b3", "b0"]
        assert bench.writer.last_add_confirmed == 7

    run(main)


def test_a_failure_after_the_ack_quorum_waits_for_the_next_entry():
    async def main():
        bench = Bench(bookies=4)
        futures = bench.append(1)
        bench[1].reply(0)
        bench[2].reply(0)
        bench[0].reply(0, TIMED_OUT)
        await settle()
        assert confirmed(futures) == [True]
        assert bench.store.writes == 0
        futures += bench.append(1)
        assert bench[0].seen == [0]
        await settle()
        assert bench.store.now.metadata.segments == (
            Segment(0, ("b0", "b1", "b2")),
            Segment(1, ("b3", "b1", "b2")),
        )
        assert bench[3].seen == [1]
        bench[3].reply(1)
        bench[1].reply(1)
        assert confirmed(futures) == [True, True]

    run(main)


def test_a_suspect_is_replaced_with_the_next_one_that_fails():
    async def main():
        bench = Bench(bookies=5)
        futures = bench.append(2)
        for number in (1, 2):
            bench[number].reply(0)
        bench[0].reply(0, TIMED_OUT)
        bench[1].reply(1, TIMED_OUT)
        await settle()
        assert set(bench.members()[:2]) == {"b3", "b4"}
        assert bench.store.writes == 1
        bench.answer_all()
        assert await asyncio.gather(*futures) == [0, 1]

    run(main)


def test_an_ensemble_cannot_change_without_zookeeper():
    async def main():
        bench = Bench()

        async def gone():
            raise ZooKeeperUnavailableError(outcome=Outcome.UNKNOWN)

        bench.store.before_write = gone
        futures = bench.append(1)
        bench[0].reply(0, UNAVAILABLE)
        await settle()
        assert isinstance(error_in(futures[0]), ZooKeeperUnavailableError)
        assert futures[0].exception().outcome is Outcome.UNKNOWN

    run(main)


def test_a_change_done_by_a_write_whose_reply_was_lost_is_taken_as_it_is():
    async def main():
        bench = Bench(bookies=5)
        lost = []

        async def lose_reply():
            bench.store.before_write = None
            lost.append(bench.store.now.metadata.with_segment(0, ("b4", "b1", "b2")))
            bench.store.set(lost[0])

        bench.store.before_write = lose_reply
        (future,) = bench.append(1)
        bench[0].reply(0, UNAVAILABLE)
        await settle()
        assert bench.store.now.metadata == lost[0]
        assert bench[4].seen == [0]
        for number in (4, 1):
            bench[number].reply_all()
        assert await future == 0

    run(main)


def test_an_entry_whose_whole_write_set_failed_is_sent_to_the_successors():
    async def main():
        bench = Bench(3, 1, 1, bookies=6)
        bench.store.before_write = (gate := asyncio.Event()).wait
        futures = bench.append(1)
        bench[0].reply(0, UNAVAILABLE)
        await settle()
        futures += bench.append(3)
        assert bench[0].seen == [0]
        gate.set()
        await settle()
        assert bench.pool.get(bench.members()[0]).seen == [0, 3]
        bench.answer_all()
        assert await asyncio.gather(*futures) == [0, 1, 2, 3]

    run(main)
