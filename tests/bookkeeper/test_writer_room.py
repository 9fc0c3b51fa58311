"""Back-pressure: what append_nowait refuses, and what append and room wait for."""

from __future__ import annotations

import asyncio

import pytest

from herdpy.bookkeeper.errors import (
    TIMED_OUT,
    BackPressureError,
    LedgerClosedError,
    LedgerFencedError,
    Outcome,
)
from tests.bookkeeper.writer_fakes import FENCED, Bench, run, settle


def start(coroutine):
    return asyncio.get_running_loop().create_task(coroutine)


def test_the_count_in_flight_is_bounded():
    async def main():
        bench = Bench(max_in_flight_entries=2)
        bench.append(2)
        with pytest.raises(BackPressureError) as refused:
            bench.writer.append_nowait(b"x")
        assert refused.value.outcome is Outcome.NOT_DONE
        assert bench.writer.last_add_pushed == 1
        waiting = start(bench.writer.append(b"x"))
        room = start(bench.writer.room())
        await settle()
        assert bench.writer.last_add_pushed == 1
        bench[0].reply(0)
        bench[1].reply(0)
        await settle()
        assert bench.writer.last_add_pushed == 2
        assert not room.done()
        bench.answer_all()
        assert await waiting == 2
        await room

    run(main)


def test_the_bytes_in_flight_are_bounded_to_within_one_entry():
    async def main():
        bench = Bench(max_in_flight_bytes=3000)
        bench.append(1, bytes(5000))
        with pytest.raises(BackPressureError):
            bench.writer.append_nowait(b"x")
        for number in (0, 1):
            bench[number].reply(0)
        for size in (1000, 1000, 100_000):
            await bench.writer.room()
            bench.writer.append_nowait(bytes(size))
        with pytest.raises(BackPressureError):
            bench.writer.append_nowait(b"x")
        assert bench.writer.last_add_pushed == 3

    run(main)


def test_those_who_wait_are_served_in_order():
    async def main():
        bench = Bench(max_in_flight_entries=1)
        bench.append(1)
        waiting = [start(bench.writer.append(b"%d" % number)) for number in range(50)]
        await settle()
        late = []

        def barge(_done):
            # Room was made for those who wait; who comes now stands behind them.
            late.append(start(bench.writer.append(b"late")))

        waiting[3].add_done_callback(barge)
        bench.answer_all()
        assert await asyncio.gather(*waiting) == list(range(1, 51))
        assert await late[0] == 51

    run(main)


def test_a_cancelled_waiter_gives_its_turn_to_the_next():
    async def main():
        bench = Bench(max_in_flight_entries=1)
        bench.append(1)
        waiting = [start(bench.writer.append(b"x")) for _ in range(3)]
        await settle()
        waiting[1].cancel()
        bench[0].reply(0)
        bench[1].reply(0)
        # The first has its turn, and is cancelled before it can take it.
        waiting[0].cancel()
        await settle()
        assert bench[0].seen == [0, 1]
        bench.answer_all()
        assert await waiting[2] == 1
        assert waiting[0].cancelled()
        assert waiting[1].cancelled()

    run(main)


def test_one_slow_replica_bounds_what_waits_for_it():
    async def main():
        bench = Bench(max_bookie_pending_bytes=1000)
        for number in (0, 1):
            bench[number].answer = 0
        sent = 0
        while True:
            try:
                bench.writer.append_nowait(bytes(100))
            except BackPressureError:
                break
            sent += 1
            await settle()
        assert bench.writer.last_add_confirmed == sent - 1
        assert 1000 <= bench[2].pending_bytes < 1300
        waiting = start(bench.writer.append(b"x"))
        await settle()
        assert not waiting.done()
        bench[2].reply_all()
        assert await waiting == sent

    run(main)


def test_one_slow_replica_bounds_how_many_entries_wait_for_it():
    """More than it takes at a time after a pause would have it refuse them, and be replaced."""

    async def main():
        bench = Bench(max_bookie_pending_entries=7)
        for number in (0, 1):
            bench[number].answer = 0
        waiting = start(append_many(bench, 20))
        await settle()
        assert bench.writer.last_add_confirmed == 6
        assert len(bench[2].sent) == 7
        with pytest.raises(BackPressureError):
            bench.writer.append_nowait(b"x")
        bench[2].reply(0)
        bench[2].tell_room()
        await settle()
        assert bench.writer.last_add_confirmed == 7
        assert len(bench[2].sent) == 7
        bench[2].answer = 0
        bench[2].reply_all()
        bench[2].tell_room()
        assert await waiting == 19

    async def append_many(bench, count):
        for _ in range(count):
            last = await bench.writer.append(bytes(100))
        return last

    run(main)


def test_a_dead_slow_replica_holds_appends_up_until_its_time_out_and_is_replaced():
    async def main():
        bench = Bench(bookies=4, max_bookie_pending_bytes=1000)
        for number in (0, 1, 3):
            bench[number].answer = 0
        waiting = start(append_many(bench, 20))
        await settle()
        assert bench.writer.last_add_confirmed < 19
        bench[2].reply(0, TIMED_OUT)
        assert await waiting == 19
        assert "b2" not in bench.members()
        assert len(bench[2].sent) > 3

    async def append_many(bench, count):
        for _ in range(count):
            last = await bench.writer.append(bytes(100))
        return last

    run(main)


def test_room_that_another_ledger_took_is_waited_for():
    async def main():
        bench = Bench(max_bookie_pending_bytes=1000)
        bench[1].pending_bytes += 5000
        waiting = start(bench.writer.append(b"x"))
        room = start(bench.writer.room())
        await settle()
        assert not waiting.done()
        assert not room.done()
        bench[1].pending_bytes -= 5000
        bench[1].tell_room()
        bench.answer_all()
        assert await waiting == 0
        await room

    run(main)


def test_room_taken_by_another_ledger_after_the_wait_began():
    async def main():
        bench = Bench(max_bookie_pending_bytes=1000, max_in_flight_entries=1)
        bench.append(1)
        waiting = start(bench.writer.append(b"x"))
        await settle()
        bench[1].pending_bytes += 5000
        for bookie in bench.bookies:
            bookie.reply_all()
        await settle()
        assert not waiting.done()
        assert bench.writer.last_add_pushed == 0
        bench[1].pending_bytes -= 5000
        bench[1].tell_room()
        bench.answer_all()
        assert await waiting == 1

    run(main)


def test_those_who_wait_learn_that_the_writer_ended():
    async def main():
        bench = Bench(max_in_flight_entries=1)
        bench.append(1)[0].add_done_callback(lambda done: done.exception())
        waiting = [start(bench.writer.append(b"x")) for _ in range(3)]
        room = start(bench.writer.room())
        await settle()
        bench[0].reply(0, FENCED)
        for one in waiting:
            with pytest.raises(LedgerFencedError) as refused:
                await one
            assert refused.value.outcome is Outcome.NOT_DONE
        await room

    run(main)


def test_those_who_wait_are_refused_when_the_writer_is_closed():
    async def main():
        bench = Bench(max_in_flight_entries=1)
        bench.append(1)
        waiting = [start(bench.writer.append(b"x")) for _ in range(3)]
        await settle()
        closing = start(bench.writer.close())
        for one in waiting:
            with pytest.raises(LedgerClosedError) as refused:
                await one
            assert refused.value.outcome is Outcome.NOT_DONE
        bench.answer_all()
        await closing
        assert bench.store.now.metadata.last_entry_id == 0

    run(main)
