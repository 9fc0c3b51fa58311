"""Applying the log: a follower for ever, a new leader up to the log's end. One way for both.

Entry after entry goes through the assembler, which checks that each names its predecessor, and into the
store. A gap, a damaged entry or one that does not fit the state ends it: the replica is to be seeded then,
and skips nothing. Entries that came together and only change rows are applied together, from their bytes
(``store.row_changes``). What is large is decoded and applied in steps, so that pings, polls and readers of
this node have their turn meanwhile; it shows at once, when all of it is there. The rows of loads that stand
in ledgers of their own are read before anything of their entry is applied.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from contextlib import aclosing
from functools import partial
from typing import NamedTuple, TypeVar

from herdpy.bookkeeper import BookKeeper
from herdpy.log import (
    LSN,
    LoadBatch,
    LogEntry,
    LogError,
    LoggedTransaction,
    StagedPart,
    TransactionAssembler,
)
from herdpy.log.bookkeeper import EntryRun, LedgerLogSettings
from herdpy.log.records import Record
from herdpy.log.staging import read_part
from herdpy_server.replica.open_replica import OpenReplica
from herdpy_server.store import Store
from herdpy_server.store.apply import slow_records
from herdpy_server.tablespace.notifications import notifications_in
from herdpy_server.tracing import EntryTracer
from herdpy_server.tracing.spans import SpanRecord

_SHARE_S = 0.004
"""So long at a time, until others have their turn: pings among them."""
_LARGE_BYTES = 64 << 10
"""Transactions that are smaller together take less than that, but for those of few slow records."""

PartReader = Callable[[StagedPart], AsyncGenerator[bytes, None]]
"""Reads a part of a load; LogTrimmedError when it is gone."""

_T = TypeVar("_T")


def staged_reader(bk: BookKeeper, settings: LedgerLogSettings) -> PartReader:
    """Reads parts of loads from bookies, with the patience of the log."""
    return partial(read_part, bk, settings.password, patience_s=settings.read_patience_s)


async def follow(
    opened: OpenReplica,
    runs: AsyncIterator[EntryRun],
    advanced: Callable[[], object],
    staged: PartReader,
    tracer: EntryTracer | None = None,
) -> None:
    """Apply entries, which begin after what the store has, as they come, until they end.

    Cancelled, it has applied whole entries only, and may be called again with those that follow.

    Args:
        runs: the entries, as many at a time as are there.
        advanced: called soon after something was applied, once for all of one turn of the loop.
        staged: reads what loads have staged.
        tracer: is given what was applied, if there is one.

    Raises:
        ChainError, RecordError, CorruptLedgerError, ApplyError: this replica, or the log, is damaged.
        LogTrimmedError: as the entries do, or a staged ledger is gone: the replica is to be seeded.
        LogError: as the entries do.
    """
    following = _Following(opened, _Soon(advanced), staged, tracer)
    async with aclosing(runs) as coming:  # type: ignore[type-var]
        async for run in coming:
            await following.apply(run)


class _TakenEntry(NamedTuple):
    """An entry that is to be applied: the transactions that end in it, and where to go on after it."""

    lsn: LSN
    safe: LSN
    whole: list[bytes]


class _Following:
    """What one call of :func:`follow` applies: entries of plain changes together, others one by one."""

    def __init__(
        self, opened: OpenReplica, telling: _Soon, staged: PartReader, tracer: EntryTracer | None
    ) -> None:
        self._store = opened.store
        self._opened = opened
        self._telling = telling
        self._staged = staged
        self._tracer = tracer
        self._turns = _Turns()
        self._assembler = TransactionAssembler(opened.store.applied)
        self._taken: list[_TakenEntry] = []
        self._size_bytes = 0

    async def apply(self, run: EntryRun) -> None:
        """Apply the next entries."""
        try:
            for lsn, entry in run:
                await self._take(lsn, entry)
        except LogError:  # what came before a damaged entry is sound
            await self._apply_taken()
            raise
        await self._apply_taken()
        await self._turns.share()

    async def _take(self, lsn: LSN, entry: LogEntry) -> None:
        assembler = self._assembler
        whole = assembler.take(entry)
        if not whole and assembler.safe != lsn:
            return
        size_bytes = sum(map(len, whole))
        if self._size_bytes + size_bytes > _LARGE_BYTES:
            await self._apply_taken()
            await self._turns.share()
        self._taken.append(_TakenEntry(lsn, assembler.safe, whole))
        self._size_bytes += size_bytes

    async def _apply_taken(self) -> None:
        taken, size_bytes = self._taken, self._size_bytes
        if not taken:
            return
        self._taken, self._size_bytes = [], 0
        if size_bytes > _LARGE_BYTES or not self._applied_together(taken):
            for one in taken:
                await self._apply_one(one)
        self._telling.call()
        tablespace = self._opened.tablespace
        tablespace.memtable_grew()
        if tablespace.is_full:
            await self._opened.room()

    def _applied_together(self, taken: list[_TakenEntry]) -> bool:
        """Apply entries at once; False: that cannot be, and nothing was done."""
        changes = self._store.encoded_changes()
        try:
            for lsn, _, whole in taken:
                for data in whole:
                    changes.add(lsn, data)
        except LogError:
            return False  # those before it can be applied one by one
        if not changes.is_plain:
            return False
        spans = self._spans(taken)
        self._store.apply_changes(taken[-1].safe, changes)
        if changes.notifications:
            self._opened.tablespace.notifications.publish(changes.notifications)
        self._end(spans)
        return True

    async def _apply_one(self, one: _TakenEntry) -> None:
        spans = self._spans([one])
        applied = await _apply(self._store, one, self._turns, self._staged)
        self._publish(applied)
        self._end(spans)
        await self._turns.share()

    def _publish(self, applied: list[LoggedTransaction]) -> None:
        """Transactions are applied: give their notifications to the sessions that listen."""
        for one in applied:
            found = [*notifications_in(one.records)]
            if found:
                self._opened.tablespace.notifications.publish(found)

    def _spans(self, taken: list[_TakenEntry]) -> list[SpanRecord]:
        tracer = self._tracer
        if tracer is None:
            return []
        begun = [tracer.applying(one.lsn) for one in taken if one.whole]
        return [span for span in begun if span is not None]

    def _end(self, spans: list[SpanRecord]) -> None:
        tracer = self._tracer
        if tracer is not None:
            for span in spans:
                tracer.end(span)


async def _apply(
    store: Store, entry: _TakenEntry, turns: _Turns, staged: PartReader
) -> list[LoggedTransaction]:
    """Apply one entry, whatever its transactions are; they."""
    lsn, safe, encoded = entry
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
    return [one for _lsn, one in decoded]


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
