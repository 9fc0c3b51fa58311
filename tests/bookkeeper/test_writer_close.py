"""The end of a ledger, and what happens beside appends: close, deferred sync, explicit LAC."""

from __future__ import annotations

import asyncio

import pytest

from herdpy.bookkeeper.errors import (
    UNAVAILABLE,
    LedgerClosedError,
    LedgerFencedError,
    NotEnoughBookiesError,
    Outcome,
    ZooKeeperUnavailableError,
)
from herdpy.bookkeeper.metadata.ledger_metadata import LedgerState
from tests.bookkeeper.writer_fakes import FENCED, Bench, confirmed, end_of, error_in, run, settle, start


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
