"""An idle writer tells bookies what is confirmed."""

from __future__ import annotations

import asyncio

from herdpy.bookkeeper.errors import UNAVAILABLE, LedgerClosedError, LedgerFencedError
from tests.bookkeeper.writer_fakes import FENCED, LEDGER, Bench, run


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
