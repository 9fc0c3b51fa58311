"""Forcing what was written: deferred sync, and what a ledger is closed with."""

from __future__ import annotations

import asyncio

import pytest

from herdpy.bookkeeper.errors import (
    TIMED_OUT,
    UNAVAILABLE,
    BookieUnavailableError,
    LedgerFencedError,
    Outcome,
    TimedOutError,
)
from herdpy.bookkeeper.metadata.ledger_metadata import LedgerState
from tests.bookkeeper.writer_fakes import FENCED, Bench, end_of, error_in, run, settle, start


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
