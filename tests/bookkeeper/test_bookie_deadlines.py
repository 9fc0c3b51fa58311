"""Requests that are out of time, of a process that stood still meanwhile, too."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from herdpy.bookkeeper.bookie.pending import (
    AddReceiver,
    AnsweringBookie,
    Awaited,
    AwaitedEntry,
    Deadlines,
    PendingRequests,
)

TIMEOUT_S = 0.01
STOPPED_S = 60.0


@dataclass
class Add:
    """One that wants its answer at the first time-out."""

    deadline_s: float = TIMEOUT_S
    size_bytes: int = 1

    def on_add_reply(self, bookie: AnsweringBookie, status: int) -> None:
        raise AssertionError("whoever owns the requests ends them")


class World:
    """A clock that is set by hand, the requests, and what was out of time."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.pending = PendingRequests()
        self.expired: asyncio.Queue[list[AddReceiver]] = asyncio.Queue()
        self.deadlines = Deadlines(
            lambda: self.now_s,
            self.pending,
            TIMEOUT_S,
            self._end,
            lambda: None,
        )
        self.adds = [Add(), Add()]
        for txn, add in enumerate(self.adds):
            self.pending.adds[txn] = add, 0.0
        self.deadlines.arm(0.0)

    def _end(self, adds: list[tuple[AddReceiver, float]], awaited: list[Awaited | AwaitedEntry]) -> None:
        assert not awaited
        self.expired.put_nowait([one for one, _sent_s in adds])

    async def timer_of(self, after_s: float) -> None:
        """Until the timer is one that goes off after that time."""
        while self.deadlines.goes_off_s <= after_s:
            await asyncio.sleep(0)


def test_what_is_not_answered_in_time_ends() -> None:
    async def test() -> None:
        world = World()
        world.now_s = TIMEOUT_S
        assert await world.expired.get() == world.adds

    asyncio.run(test())


def test_what_was_answered_while_the_process_was_stopped_is_read_before_the_rest_ends() -> None:
    async def test() -> None:
        world = World()
        world.now_s = STOPPED_S  # as when it goes on
        await world.timer_of(after_s=STOPPED_S)
        assert world.expired.empty()
        world.pending.adds.pop(0)  # its answer was there all the time
        world.now_s = 2 * STOPPED_S  # late again: once is enough
        assert await world.expired.get() == world.adds[1:]
        assert not world.pending.adds

    asyncio.run(test())
