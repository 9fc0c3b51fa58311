"""The end of a ledger, and what happens beside appends: close, deferred sync, explicit LAC."""

from __future__ import annotations

import asyncio

import pytest

from herdpy.bookkeeper.errors import (
    TIMED_OUT,
    UNAVAILABLE,
    BookieUnavailableError,
    LedgerClosedError,
    LedgerFencedError,
    NotEnoughBookiesError,
    Outcome,
    TimedOutError,
    ZooKeeperUnavailableError,
)
from herdpy.bookkeeper.metadata.ledger_metadata import LedgerState
from tests.bookkeeper.writer_fakes import FENCED, LEDGER, Bench, confirmed, error_in, run, settle


def start(coroutine):
    return asyncio.get_running_loop().create_task(coroutine)


def end_of(bench):
    metadata = bench.store.now.metadata
    return metadata.state, metadata.last_entry_id, metadata.length_bytes


def test_close_waits_for_what_is_in_flight():
    async def main():
        bench = Bench()
        futures = bench.append(3)
        closing = start(bench.writer.close())
        await settle()
        assert bench.store.writes == 0
        with pytest.raises(LedgerClosedError) as refused:
            bench.writer.append_nowait(b"x")
        assert refused.value.outcome is Outcome.NOT_DONE
        bench.answer_all()
        await closing
        assert confirmed(futures) == [True] * 3
        assert end_of(bench) == (LedgerState.CLOSED, 2, 30)
        assert bench.writer.is_closed
        assert bench.writer.failure is None
        assert (bench.writer.last_add_confirmed, bench.writer.length_bytes) == (2, 30)
        with pytest.raises(LedgerClosedError):
            await bench.writer.append(b"x")

    run(main)


def test_an_empty_ledger_closes_at_no_entry():
    async def main():
        bench = Bench()
        await bench.writer.close()
        assert end_of(bench) == (LedgerState.CLOSED, -1, 0)

    run(main)


def test_close_is_idempotent_and_shared():
    async def main():
        bench = Bench()
        bench.append(1)
        closing = [start(bench.writer.close()) for _ in range(3)]
        await settle()
        closing[0].cancel()
        bench.answer_all()
        await asyncio.gather(*closing[1:])
        await bench.writer.close()
        assert closing[0].cancelled()
        assert bench.store.writes == 1

    run(main)


def test_a_ledger_closed_by_another_at_the_same_end_is_closed():
    async def main():
        bench = Bench()
        bench.append(2)
        bench.answer_all()
        await settle()
        bench.store.callback = None  # the watch is late
        bench.store.set(bench.store.now.metadata.closed(1, 20))
        await bench.writer.close()
        assert bench.writer.is_closed

    run(main)


@pytest.mark.parametrize("end", [(0, 10), (2, 30), (1, 21)])
def test_a_ledger_closed_by_another_at_another_end_is_an_error(end):
    async def main():
        bench = Bench()
        bench.append(2)
        bench.answer_all()
        await settle()
        bench.store.callback = None
        bench.store.set(bench.store.now.metadata.closed(*end))
        for _ in range(2):
            with pytest.raises(
                LedgerClosedError, match=f"entry {end[0]} with {end[1]} bytes, not at entry 1"
            ):
                await bench.writer.close()
        assert end_of(bench) == (LedgerState.CLOSED, *end)

    run(main)


def test_a_ledger_in_recovery_is_left_to_its_recoverer():
    async def main():
        bench = Bench()
        bench.append(2)
        bench.answer_all()
        await settle()
        bench.store.callback = None
        bench.store.set(bench.store.now.metadata.in_recovery())
        for _ in range(2):
            with pytest.raises(LedgerFencedError):
                await bench.writer.close()
        assert end_of(bench) == (LedgerState.IN_RECOVERY, -1, 0)
        bench.store.set(bench.store.now.metadata.closed(1, 20))
        await bench.writer.close()

    run(main)


def test_a_fenced_writer_closes_only_at_the_end_that_recovery_found():
    async def main():
        bench = Bench()
        futures = bench.append(2)
        for number in (0, 1):
            bench[number].reply(0)
        bench[2].reply(1, FENCED)
        assert isinstance(error_in(futures[1]), LedgerFencedError)
        bench.store.set(bench.store.now.metadata.closed(1, 20))
        with pytest.raises(LedgerClosedError):
            await bench.writer.close()

    run(main)


def test_a_failed_writer_can_close_what_it_confirmed():
    async def main():
        bench = Bench(bookies=3)
        futures = bench.append(3)
        for number in (0, 1):
            bench[number].reply(0)
        bench[2].reply(1, UNAVAILABLE)
        await settle()
        assert isinstance(error_in(futures[1]), NotEnoughBookiesError)
        assert isinstance(error_in(futures[2]), NotEnoughBookiesError)
        await bench.writer.close()
        assert end_of(bench) == (LedgerState.CLOSED, 0, 10)

    run(main)


def test_close_waits_for_an_ensemble_change():
    async def main():
        bench = Bench()
        bench.store.before_write = (gate := asyncio.Event()).wait
        futures = bench.append(1)
        bench[0].reply(0, UNAVAILABLE)
        closing = start(bench.writer.close())
        await settle()
        assert not closing.done()
        for bookie in bench.bookies:
            bookie.answer = 0
        bench[1].reply_all()
        bench[2].reply_all()
        gate.set()
        await closing
        assert confirmed(futures) == [True]
        assert end_of(bench) == (LedgerState.CLOSED, 0, 10)
        assert len(bench.store.now.metadata.segments) == 1

    run(main)


def test_a_recovery_ends_a_close_that_waits():
    async def main():
        bench = Bench()
        futures = bench.append(1)
        closing = start(bench.writer.close())
        await settle()
        bench.store.set(bench.store.now.metadata.in_recovery())
        with pytest.raises(LedgerFencedError):
            await closing
        assert isinstance(error_in(futures[0]), LedgerFencedError)

    run(main)


def test_a_close_in_doubt_can_be_repeated():
    async def main():
        bench = Bench()
        bench.append(1)
        bench.answer_all()
        await settle()

        def lose_reply():
            bench.store.after_write = None
            raise ZooKeeperUnavailableError(outcome=Outcome.UNKNOWN)

        bench.store.after_write = lose_reply
        with pytest.raises(ZooKeeperUnavailableError):
            await bench.writer.close()
        with pytest.raises(LedgerClosedError):
            bench.writer.append_nowait(b"x")
        await bench.writer.close()
        assert end_of(bench) == (LedgerState.CLOSED, 0, 10)
        assert bench.store.writes == 1

    run(main)


def test_deferred_entries_are_confirmed_by_force_alone():
    async def main():
        bench = Bench(deferred_sync=True)
        bench.answer_all()
        assert await asyncio.gather(*bench.append(3)) == [0, 1, 2]
        assert bench.writer.last_add_confirmed == -1
        bench[0].answer = None
        bench.append(1)
        assert bench[0].sent[0].entry.lac == -1
        assert bench[0].sent[0].request.add.write_flags == 1
        bench[0].reply_all()
        await bench.writer.force()
        assert bench.writer.last_add_confirmed == 3
        assert [bookie.forces for bookie in bench.bookies] == [1, 1, 1, 0, 0]
        bench.append(1)
        assert bench[0].sent[0].entry.lac == 3

    run(main)


def test_force_covers_what_was_complete_when_it_was_asked_for():
    async def main():
        bench = Bench(deferred_sync=True, bookies=3)
        bench[2].before_force = (gate := asyncio.Event()).wait
        bench.append(2)
        forcing = start(bench.writer.force())
        await settle()
        assert [bookie.forces for bookie in bench.bookies] == [0, 0, 0]
        bench.answer_all()
        await settle()
        assert [bookie.forces for bookie in bench.bookies] == [1, 1, 0]
        assert await asyncio.gather(*bench.append(1)) == [2]
        gate.set()
        await forcing
        assert bench.writer.last_add_confirmed == 1

    run(main)


def test_a_force_fails_when_the_ledger_is_taken_while_bookies_sync():
    """All bookies sync, and yet nothing is confirmed: whoever took the ledger decides where it ends."""

    async def main():
        bench = Bench(deferred_sync=True)
        bench.answer_all()
        await bench.writer.append(b"x")
        bench[2].before_force = (gate := asyncio.Event()).wait
        forcing = start(bench.writer.force())
        await settle()
        bench.store.set(bench.store.now.metadata.in_recovery())
        await settle()
        gate.set()
        with pytest.raises(LedgerFencedError) as caught:
            await forcing
        assert caught.value.outcome is Outcome.UNKNOWN
        assert [bookie.forces for bookie in bench.bookies] == [1, 1, 1, 0, 0]
        assert bench.writer.last_add_confirmed == -1

    run(main)


def test_a_force_that_failed_moves_nothing_and_may_be_repeated():
    async def main():
        bench = Bench(deferred_sync=True)
        bench.answer_all()
        await bench.writer.append(b"x")
        bench[1].force_answer = TIMED_OUT
        with pytest.raises(TimedOutError):
            await bench.writer.force()
        assert bench.writer.last_add_confirmed == -1
        bench[1].force_answer = 0
        await bench.writer.force()
        assert bench.writer.last_add_confirmed == 0
        bench[1].force_answer = FENCED
        await bench.writer.append(b"x")
        with pytest.raises(LedgerFencedError):
            await bench.writer.force()
        assert isinstance(bench.writer.failure, LedgerFencedError)

    run(main)


def test_deferred_sync_cannot_replace_a_bookie_and_says_so():
    async def main():
        bench = Bench(deferred_sync=True)
        futures = bench.append(2)
        bench[1].reply(0, UNAVAILABLE)
        for future in futures:
            error = error_in(future)
            assert isinstance(error, BookieUnavailableError)
            assert error.outcome is Outcome.UNKNOWN
            assert "deferred sync cannot replace bookie b1" in str(error)
        with pytest.raises(BookieUnavailableError) as refused:
            bench.writer.append_nowait(b"x")
        assert refused.value.outcome is Outcome.NOT_DONE
        assert bench.store.writes == 0

    run(main)


def test_deferred_sync_notices_a_late_failure_with_the_next_entry():
    async def main():
        bench = Bench(deferred_sync=True)
        (future,) = bench.append(1)
        bench[0].reply(0)
        bench[2].reply(0)
        bench[1].reply(0, TIMED_OUT)
        assert await future == 0
        with pytest.raises(TimedOutError) as refused:
            bench.writer.append_nowait(b"x")
        assert refused.value.outcome is Outcome.NOT_DONE
        assert bench[0].seen == [0]

    run(main)


def test_closing_forces_what_is_not_yet_forced():
    async def main():
        bench = Bench(deferred_sync=True)
        bench.append(2)
        bench.answer_all()
        await bench.writer.close()
        assert end_of(bench) == (LedgerState.CLOSED, 1, 20)

    run(main)


def test_closing_without_what_could_not_be_forced_is_an_error():
    async def main():
        bench = Bench(deferred_sync=True)
        bench.answer_all()
        bench.append(2)
        await bench.writer.force()
        await asyncio.gather(*bench.append(1))
        bench[0].force_answer = UNAVAILABLE
        with pytest.raises(BookieUnavailableError):
            await bench.writer.close()
        assert end_of(bench) == (LedgerState.CLOSED, 1, 20)
        assert bench.writer.is_closed

    run(main)


def test_force_without_deferred_sync_waits_for_what_is_in_flight():
    async def main():
        bench = Bench()
        bench.append(2)
        forcing = start(bench.writer.force())
        await settle()
        assert not forcing.done()
        bench.answer_all()
        await forcing
        assert bench.writer.last_add_confirmed == 1
        assert bench[0].forces == 0

    run(main)


async def lac_told(bench, count=1):
    while sum(len(bookie.lacs) for bookie in bench.bookies) < count:
        await asyncio.sleep(0.001)


def test_an_idle_writer_tells_the_write_set_what_is_confirmed():
    async def main():
        bench = Bench(4, 2, 2, explicit_lac_interval_s=0.005)
        bench.answer_all()
        for _ in range(3):
            await bench.writer.append(b"x")
        await lac_told(bench, 2)
        # Entry 2 is on b2 and b3.
        assert [bookie.lacs for bookie in bench.bookies] == [[], [], [2], [2], []]
        await asyncio.sleep(0.02)
        assert [bookie.lacs for bookie in bench.bookies] == [[], [], [2], [2], []]
        await bench.writer.append(b"x")
        await lac_told(bench, 4)
        assert [bookie.lacs for bookie in bench.bookies] == [[3], [], [2], [2, 3], []]
        await bench.writer.close()

    run(main)


def test_what_an_entry_carried_is_not_told_again():
    async def main():
        bench = Bench(explicit_lac_interval_s=0.005)
        bench.append(1)
        for number in range(3):
            bench[number].reply(0)
        bench.append(1)
        assert bench[0].sent[0].entry.lac == 0
        await asyncio.sleep(0.02)
        assert [bookie.lacs for bookie in bench.bookies] == [[]] * 5
        bench.writer.abandon(LedgerClosedError(ledger_id=LEDGER))

    run(main)


def test_a_last_add_confirmed_that_nobody_took_is_told_again():
    async def main():
        bench = Bench(explicit_lac_interval_s=0.002)
        bench.answer_all()
        for bookie in bench.bookies:
            bookie.lac_answer = UNAVAILABLE
        await bench.writer.append(b"x")
        await asyncio.sleep(0.01)
        for bookie in bench.bookies:
            bookie.lac_answer = 0
        await lac_told(bench, 3)
        assert bench[0].lacs == [0]
        await bench.writer.close()

    run(main)


def test_a_fence_met_by_the_explicit_lac_ends_the_writer():
    async def main():
        bench = Bench(explicit_lac_interval_s=0.002)
        bench.answer_all()
        bench[1].lac_answer = FENCED
        await bench.writer.append(b"x")
        while bench.writer.failure is None:
            await asyncio.sleep(0.001)
        assert isinstance(bench.writer.failure, LedgerFencedError)

    run(main)


def test_no_interval_no_telling():
    async def main():
        bench = Bench(explicit_lac_interval_s=None)
        bench.answer_all()
        await bench.writer.append(b"x")
        await asyncio.sleep(0.02)
        assert [bookie.lacs for bookie in bench.bookies] == [[]] * 5

    run(main)


def test_a_closed_writer_leaves_nothing_running():
    async def main():
        bench = Bench(explicit_lac_interval_s=0.001)
        bench.answer_all()
        await bench.writer.append(b"x")
        await bench.writer.close()
        assert bench.store.callback is None
        await asyncio.sleep(0.005)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert [bookie.lacs for bookie in bench.bookies] == [[]] * 5

    run(main)
