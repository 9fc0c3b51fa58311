"""A follower that is cancelled ends, whatever else happens in that moment.

A replica that is elected cancels its following and waits for the end of it: with a cancellation that is lost
there is a leader that never leads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from herdpy.bookkeeper.metadata.ledger_metadata import LedgerState
from herdpy.bookkeeper.read import LedgerReader
from tests.bookkeeper.reader_fakes import SETTINGS, Ledger, run

TURNS = range(10)
"""Between the news and the cancellation: by then whatever waited for the news has heard of them."""

NEWS: dict[str, Callable[[Ledger, LedgerReader], object]] = {
    "somebody waits": lambda _ledger, reader: reader.hurry(),
    "an entry": lambda ledger, _reader: ledger.write(2, 2),
    "recovery": lambda ledger, _reader: ledger.set_state(LedgerState.IN_RECOVERY),
    "the end": lambda ledger, _reader: ledger.close(1),
}


async def follow(reader: LedgerReader) -> None:
    async for _entry in reader.tail(0):
        pass
    await asyncio.Event().wait()  # as a role that has more to do: only a cancellation ends it


@pytest.mark.parametrize("news", NEWS)
@pytest.mark.parametrize("while_", ["it rests", "it polls", "no bookie answers"])
def test_a_cancelled_follower_ends(while_: str, news: str) -> None:
    async def program() -> None:
        for turns in TURNS:
            ledger = Ledger()
            ledger.write(0, 0)
            rests_s = 10.0 if while_ == "it rests" else None
            reader = ledger.reader(replace(SETTINGS, tail_interval_s=rests_s))
            follower = asyncio.ensure_future(follow(reader))
            await asyncio.sleep(0.1)
            ledger.write(1, 1)
            if while_ == "no bookie answers":
                for bookie in ledger.bookies:
                    bookie.down = True
            await asyncio.sleep(0.3)
            NEWS[news](ledger, reader)
            for _ in range(turns):
                await asyncio.sleep(0)
            follower.cancel()
            ended, _ = await asyncio.wait((follower,), timeout=60)
            assert ended, f"cancelled {turns} turns after the news, it goes on"
            assert follower.cancelled()
            await reader.close()

    run(program)
