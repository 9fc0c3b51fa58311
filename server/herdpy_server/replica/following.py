"""Applying the log: a follower for ever, a new leader up to the log's end. One way for both.

LogEntry after entry goes through the assembler, which checks that each names its predecessor, and into the
store. A gap, a damaged entry or one that does not fit the state ends it: the replica is to be seeded then,
and skips nothing. What is large is decoded and applied in steps, so that pings, polls and readers of this
node have their turn meanwhile; it shows at once, when all of it is there. The rows of loads that stand in
ledgers of their own are read before anything of their entry is applied.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from contextlib import aclosing
from functools import partial
from typing import TypeVar

from herdpy.bookkeeper import BookKeeper
from herdpy.log import LSN, LoadBatch, LogEntry, LoggedTransaction, StagedPart, TransactionAssembler
from herdpy.log.bookkeeper import LedgerLogSettings
from herdpy.log.records import Record
from herdpy.log.staging import read_part
from herdpy_server.replica.open_replica import OpenReplica
from herdpy_server.store import Store
from herdpy_server.store.apply import slow_records
from herdpy_server.tracing import EntryTracer

_SHARE_S = 0.004
"""So long at a time, until others have their turn: pings among them."""
_LARGE_BYTES = 64 << 10
"""Transactions of an entry that are smaller take less than that, but for those of few slow records."""

PartReader = Callable[[StagedPart], AsyncGenerator[bytes, None]]
"""Reads a part of a load; LogTrimmedError when it is gone."""

_T = TypeVar("_T")


def staged_reader(bk: BookKeeper, settings: LedgerLogSettings) -> PartReader:
    """Reads parts of loads from bookies, with the patience of the log."""
    return partial(read_part, bk, settings.password, patience_s=settings.read_patience_s)


async def follow(
    opened: OpenReplica,
    entries: AsyncIterator[tuple[LSN, LogEntry]],
    advanced: Callable[[], object],
    staged: PartReader,
    tracer: EntryTracer | None = None,
) -> None:
    """Apply ``entries``, which begin after what the store has, as they come, until they end.

    Cancelled, it has applied whole entries only, and may be called again with those that follow.

    Args:
        advanced: called soon after something was applied, once for all of one turn of the loop.
        staged: reads what loads have staged.
        tracer: is given what was applied, if there is one.

    Raises:
        ChainError, RecordError, CorruptLedgerError, ApplyError: this replica, or the log, is damaged.
        LogTrimmedError: as the entries do, or a staged ledger is gone: the replica is to be seeded.
        LogError: as the entries do.
    """
    store, turns, telling = opened.store, _Turns(), _Soon(advanced)
    assembler = TransactionAssembler(store.applied)
    async with aclosing(entries) as coming:  # type: ignore[type-var]
        async for lsn, entry in coming:
            whole = assembler.take(entry)
            if whole or assembler.safe == lsn:
                span = tracer.applying(lsn) if tracer is not None and whole else None
                await _apply(store, assembler.safe, lsn, whole, turns, staged)
                if tracer is not None and span is not None:
                    tracer.end(span)
                opened.tablespace.memtable_grew()
            telling.call()
            if opened.tablespace.is_full:
                await opened.room()
            await turns.share()


async def _apply(
    store: Store, safe: LSN, lsn: LSN, encoded: list[bytes], turns: _Turns, staged: PartReader
) -> None:
    large = sum(map(len, encoded)) > _LARGE_BYTES
    decoded: list[tuple[LSN, LoggedTransaction]] = []
    slow: list[Record] = []
    for data in encoded:
        one = (
            await turns.through(LoggedTransaction.decode_in_steps(data))
            if large
            else LoggedTransaction.decode(data)
        )
        decoded.append((lsn, one))
        slow += slow_records(one.records)
    for record in slow:
        if isinstance(record, LoadBatch):
            record.staged = [await read_staged(part, staged) for part in record.parts]
    if large or slow:
        await turns.through(_only_steps(store.apply_in_steps(safe, decoded)))
    else:
        store.apply_logged(safe, decoded)


async def read_staged(part: StagedPart, staged: PartReader) -> bytearray:
    """The bytes of a part, all of them, which were checked."""
    stream = bytearray()
    async with aclosing(staged(part)) as entries:
        async for data in entries:
            stream += data
    return stream


def _only_steps(steps: Iterator[None]) -> Generator[None, None, None]:
    yield from steps


class _Turns:
    """Shares the loop's time with others."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._since_s = self._loop.time()

    async def share(self) -> None:
        """Let others have their turn, if this one has taken long enough."""
        if self._loop.time() - self._since_s > _SHARE_S:
            await asyncio.sleep(0)
            self._since_s = self._loop.time()

    async def through(self, steps: Generator[None, None, _T]) -> _T:
        """Go through all the steps, sharing; what they return."""
        while True:
            try:
                next(steps)
            except StopIteration as end:
                result: _T = end.value
                return result
            await self.share()


class _Soon:
    """Calls something at the end of the loop's turn, once however often it is wanted."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._loop = asyncio.get_running_loop()
        self._call = call
        self._wanted = False

    def call(self) -> None:
        """Want it called."""
        if not self._wanted:
            self._wanted = True
            self._loop.call_soon(self._now)

    def _now(self) -> None:
        self._wanted = False
        self._call()
