"""Clients at work while servers fail: a writer that keeps entries in flight, and a tail behind it.

Both tell the history what they see, and let a test wait for what it needs (`until`) instead of for time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from herdpy.bookkeeper import BookKeeper, BookKeeperError, LedgerReader, LedgerWriter, Outcome
from tests.bookkeeper.faults.history import History

PATIENCE_S = 60.0
"""How long a test waits for what must happen; nothing is measured by it."""

IN_FLIGHT = 32
_TURN_S = 0.008
_BATCH = 4


class Signal:
    """Lets others wait until something they can see has become true; whoever changes it tells."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def tell(self) -> None:
        """Something changed."""
        event, self._event = self._event, asyncio.Event()
        event.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds."""
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                await self._event.wait()


class Appending:
    """Appends one entry after another, a few in flight, some hundreds a second, until it is stopped."""

    def __init__(self, writer: LedgerWriter) -> None:
        self.writer = writer
        self.history = History(writer.ledger_id, writer.metadata.ack_quorum)
        self.signal = Signal()
        self._in_flight = 0
        self._stopped = False
        self._task = asyncio.create_task(self._run())

    @property
    def acknowledged_to(self) -> int:
        """The last entry acknowledged."""
        return self.history.acknowledged_to

    @property
    def has_failed(self) -> bool:
        """Whether an append has failed; then no more are made."""
        return bool(self.history.refused)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds, looked at all the time; the writer must not fail."""
        await self.signal.until(lambda: condition() or self.has_failed)
        assert not self.has_failed, f"the writer failed: {self.history.errors[0]!r}"

    async def more(self, entries: int) -> None:
        """Wait until so many more entries are acknowledged than now."""
        goal = self.acknowledged_to + entries
        await self.until(lambda: self.acknowledged_to >= goal)

    async def without(self, bookie_id: str) -> None:
        """Wait until the ledger's ensemble has another bookie instead of this one."""
        await self.until(lambda: bookie_id not in self.writer.metadata.last_segment.members)

    async def failed(self) -> Exception:
        """Wait until an append fails: why."""
        await self.signal.until(lambda: self.has_failed)
        return self.history.errors[0]

    def append(self) -> None:
        """Make the next append, now."""
        expected = self.history.appended_to + 1
        try:
            future = self.writer.append_nowait(self.history.appended())
        except BookKeeperError as error:
            self._failed(expected, error)
            return
        self._in_flight += 1
        future.add_done_callback(lambda done: self._done(expected, done))

    async def stop(self) -> None:
        """Make no more appends, and wait until those in flight have ended."""
        await self.give_up()
        await self.signal.until(lambda: self._in_flight == 0)

    async def give_up(self) -> None:
        """Make no more appends; those in flight are left to the client."""
        self._stopped = True
        await self._task

    def go_on(self) -> None:
        """Append again, after `stop`."""
        self._stopped = False
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stop, and close the ledger; the writer's view of its end goes into the history."""
        await self.stop()
        async with asyncio.timeout(PATIENCE_S):
            await self.writer.close()
        self.history.ended("writer", self.writer.last_add_confirmed, self.writer.length_bytes)

    async def _run(self) -> None:
        while not (self._stopped or self.has_failed):
            for _ in range(_BATCH):
                if self._in_flight < IN_FLIGHT and not self.has_failed:
                    self.append()
            self.signal.tell()
            await asyncio.sleep(_TURN_S)

    def _done(self, expected: int, future: asyncio.Future[int]) -> None:
        self._in_flight -= 1
        error = future.exception()
        if error is None:
            self.history.acknowledged(expected, future.result())
        else:
            assert isinstance(error, BookKeeperError), repr(error)
            self._failed(expected, error)
        self.signal.tell()

    def _failed(self, expected: int, error: BookKeeperError) -> None:
        assert error.outcome in (Outcome.NOT_DONE, Outcome.UNKNOWN)
        self.history.failed(expected, error, error.outcome)
        self.signal.tell()


class Tailing:
    """Follows a ledger from its first entry to its end."""

    def __init__(self, reader: LedgerReader, history: History, name: str) -> None:
        self.signal = Signal()
        self._reader = reader
        self._history = history
        self._name = name
        self._task = asyncio.create_task(self._run())
        self._task.add_done_callback(self._ended)

    async def caught_up(self, entry_id: int) -> None:
        """Wait until this entry was given."""
        await self.signal.until(
            lambda: self._history.tails.get(self._name, -1) >= entry_id or self._task.done()
        )
        assert self._history.tails.get(self._name, -1) >= entry_id

    async def finished(self) -> None:
        """Wait until the tail has ended; raises what it raised."""
        async with asyncio.timeout(PATIENCE_S):
            await self._task

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            task.exception()  # looked at, also where the test has failed before it awaits the end
        self.signal.tell()

    async def cancel(self) -> None:
        """Stop where it is."""
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _run(self) -> None:
        async for entry in self._reader.tail(0):
            self._history.delivered(self._name, entry)
            self.signal.tell()
        self._history.finished_tail(self._name)


@asynccontextmanager
async def appending(
    bk: BookKeeper, ensemble_size: int = 3, write_quorum: int = 3, ack_quorum: int = 2
) -> AsyncIterator[Appending]:
    """A new ledger that is being written, some entries on; ends with the block, closed or not."""
    writer = await bk.create_ledger(ensemble_size, write_quorum, ack_quorum)
    work = Appending(writer)
    try:
        await work.more(50)
        yield work
    finally:
        await work.give_up()
