"""The state of a tablespace at a moment of the past: an old state of the store, and the log from there on.

Beside ``tablespace``, above the store and the log. The store keeps old states of LMDB (``store.marks``). The
newest one that is not past the moment is the ground; what the log has from there to the moment is applied
over it, to a layer of its own, as a follower would: nothing of the living state is touched. The rows of such
a layer go to a file when they are many. The last few states are kept, for as long as their grounds are, and
the next one may begin with one of them.

A moment is a position, or a time: then the state has every transaction up to the first in the log that was
committed later.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from herdpy.log import (
    LSN,
    LogEntry,
    LogError,
    LoggedTransaction,
    LogTrimmedError,
    StagedPart,
    TransactionAssembler,
)
from herdpy.log.records import DropTable, LoadBatch
from herdpy_server.store import ApplyError
from herdpy_server.store.apply import DEFINING, BackgroundChanges, StepApplier, defined
from herdpy_server.store.columns import ColumnCache
from herdpy_server.store.layers import SEQUENCE_KEY, Chain, Memory
from herdpy_server.store.snapshot import StoreSnapshot
from herdpy_server.tablespace.log_errors import sql_error
from herdpy_sql.catalog import Catalog, Table
from herdpy_sql.errors import SqlError
from herdpy_sql.values.moments import timestamptz_text

if TYPE_CHECKING:
    from herdpy.log.records import Record
    from herdpy_server.store import Store
    from herdpy_server.store.disk_view import DiskView
    from herdpy_server.store.marks import StateMark

_LAST = 1 << 60
"""The number of a transaction that comes after all of its entry."""
_KEPT = 2
"""States that are kept for the next statement."""
_DEEPEST = 4
"""Layers of one over another that a state may have."""
_COLUMN_BYTES = 64 << 20
"""Columns that a state keeps for the columnar engine."""
_SHARE_S = 0.002
"""So long at a time, until others have the loop."""

ReadLog = Callable[[LSN, LSN], AsyncIterator[tuple[LSN, LogEntry]]]
"""The entries after one position, to another."""
ReadPart = Callable[[StagedPart], Awaitable[bytearray]]
"""The bytes of a part of a load, which was staged outside of the log."""


class TransactionPlace(NamedTuple):
    """Where a transaction is in the log: the entry that it takes effect with, and which one of that it is."""

    lsn: LSN
    nth: int


class PastMoment(Protocol):
    """Up to where the log is applied."""

    def reaches(self, lsn: LSN, committed_us: int) -> bool:
        """Whether a state up to that position, whose newest commit is of that time, is not past it."""

    def has(self, place: TransactionPlace, committed_us: int) -> bool:
        """Whether a transaction is part of it, if all before are."""


@dataclass(frozen=True, slots=True)
class AtPosition:
    """After the entry at ``lsn``."""

    lsn: LSN

    def reaches(self, lsn: LSN, committed_us: int) -> bool:
        return lsn <= self.lsn

    def has(self, place: TransactionPlace, committed_us: int) -> bool:
        return place.lsn <= self.lsn


@dataclass(frozen=True, slots=True)
class AtTime:
    """Before the first transaction that was committed after that time, in microseconds since 1970."""

    time_us: int

    def reaches(self, lsn: LSN, committed_us: int) -> bool:
        return committed_us <= self.time_us

    def has(self, place: TransactionPlace, committed_us: int) -> bool:
        return committed_us <= self.time_us


@dataclass(frozen=True, slots=True)
class BeforeTransaction:
    """Right before one transaction."""

    place: TransactionPlace

    def reaches(self, lsn: LSN, committed_us: int) -> bool:
        return lsn < self.place.lsn

    def has(self, place: TransactionPlace, committed_us: int) -> bool:
        return place < self.place


@dataclass(slots=True)
class PastState:
    """The state of a tablespace at a moment. For any thread; nothing of it changes any more.

    Attributes:
        place: its newest transaction; of an entry that it has all of, one that would be the last.
        committed_us: the newest time of its commits.
        next: the first transaction that it does not have, and when that was committed; None: there was none.
        end: up to where the log was applied when it was made.
        catalog, sequences: the definitions, and states of sequences by id.
        ground: the position of the old state of LMDB that it stands on, ``view``.
        chains: what was changed since, by database; ``depth``: how many states it was made by way of.
        read_after, skip: the position in the log from which on another state can be made of it, and how many
            of the transactions that come then are in it.
        columns: what the columnar engine was given of it.
    """

    place: TransactionPlace
    committed_us: int
    next: tuple[TransactionPlace, int] | None
    end: LSN
    catalog: Catalog
    sequences: Mapping[int, bytes]
    ground: LSN
    view: DiskView
    read_after: LSN
    skip: int = 0
    chains: Mapping[int, Chain] = field(default_factory=dict)
    depth: int = 0
    columns: ColumnCache = field(default_factory=lambda: ColumnCache(_COLUMN_BYTES))

    @property
    def current(self) -> DiskView:
        """The state of LMDB under its chains."""
        return self.view

    def snapshot(self) -> StoreSnapshot:
        """What it has, to be read by one thread; close it."""
        return StoreSnapshot(
            self.view, self.chains, {}, {}, self.catalog, 0, self.columns, self.ground, self.ground
        )

    def is_within(self, moment: PastMoment) -> bool:
        """Whether it is not past a moment."""
        return moment.has(self.place, self.committed_us)

    def is_at(self, moment: PastMoment, end: LSN) -> bool:
        """Whether it is the state at a moment, where the log has been applied up to ``end``."""
        if not self.is_within(moment):
            return False
        return self.end == end if self.next is None else not moment.has(*self.next)


class Drop(NamedTuple):
    """A table that was dropped: by which transaction, and what it was before."""

    place: TransactionPlace
    committed_us: int
    table: Table


class Past:
    """The past of one tablespace, as far as it is kept. Any number of sessions may ask at a time.

    Attributes:
        read: reads the log; None while this replica cannot.
        read_part: reads what loads have staged; None: nothing can have been.
    """

    def __init__(self, store: Store) -> None:
        self.read: ReadLog | None = None
        self.read_part: ReadPart | None = None
        self._store = store
        self._lock = threading.Lock()
        self._kept: list[PastState] = []  # the newest last
        store.marks.on_let_go = self._let_go

    def _let_go(self, oldest: LSN) -> None:
        """Old states of the store are kept from ``oldest`` on only."""
        with self._lock:
            self._kept = [one for one in self._kept if one.ground >= oldest]

    async def at(self, moment: PastMoment, check: Callable[[], None]) -> PastState:
        """The state at a moment.

        Args:
            check: raises when nobody waits for it any more.

        Raises:
            SqlError: 72000 it is not kept, or not any more; what the log raises.
        """
        store, end = self._store, self._store.applied
        self._check_kept()
        found = self._known(moment, end)
        if found is None:
            found = await self._made(moment, self._ground(moment), end, check)
            if found.ground >= store.floor:  # else what it stands on is not to be kept
                with self._lock:
                    self._kept = [*self._kept, found][-_KEPT:]
        return found

    def _check_kept(self) -> None:
        if not self._store.marks.keep_s:
            raise SqlError(
                "72000",
                "the past is not kept here",
                hint="The setting flashback_s says for how long it is; it is 0.",
            )

    def _known(self, moment: PastMoment, end: LSN) -> PastState | None:
        with self._lock:
            return next((one for one in self._kept if one.is_at(moment, end)), None)

    def _ground(self, moment: PastMoment) -> PastState:
        """What to begin with. SqlError 72000."""
        found, oldest = self._store.mark_before(lambda one: moment.reaches(one.lsn, one.committed_us))
        if found is None:
            raise self._too_old(oldest)
        with self._lock:
            nearer = [one for one in self._kept if one.depth < _DEEPEST and one.is_within(moment)]
        return max([_of_mark(found), *nearer], key=lambda one: one.place)

    def _too_old(self, oldest: StateMark) -> SqlError:
        marks = self._store.marks
        since = timestamptz_text(oldest.committed_us) if oldest.committed_us else "the beginning"
        return SqlError(
            "72000",
            "the past is not kept as far back as that",
            detail=f"The oldest moment that can be read is {since}, at {oldest.lsn}.",
            hint=f"flashback_s ({marks.keep_s:g}) and flashback_bytes ({marks.limit_bytes}) say how much is"
            " kept. After a restart, what came before the last checkpoint is not.",
        )

    async def _entries(
        self, after: LSN, end: LSN
    ) -> AsyncGenerator[tuple[list[tuple[LSN, LoggedTransaction]], bool], None]:
        """The transactions of entries after a position, of each that has any; and whether the entry ends with
        them, so that the log can be read on after it."""
        read = self.read
        if read is None:
            raise SqlError("57P03", "the log cannot be read here just now", hint="Try again soon.")
        assembler = TransactionAssembler(after)
        try:
            async with aclosing(read(after, end)) as entries:  # type: ignore[type-var]
                async for lsn, entry in entries:
                    whole = assembler.feed(entry)
                    if whole:
                        yield whole, assembler.safe == lsn
        except LogTrimmedError:
            raise self._too_old(self._store.marks.newest) from None
        except LogError as error:
            raise sql_error(error) from error

    async def _made(
        self, moment: PastMoment, ground: PastState, end: LSN, check: Callable[[], None]
    ) -> PastState:
        """The state at a moment, made of one before it and the log."""
        making, turns = _Making(ground, end, self._store), _Turns(check)
        left = ground.skip
        async with aclosing(self._entries(ground.read_after, end)) as entries:
            async for whole, ends in entries:
                for nth, (lsn, one) in enumerate(whole):
                    if left:
                        left -= 1
                        continue
                    place = TransactionPlace(lsn, nth)
                    if not moment.has(place, one.timestamp_us):
                        return making.state((place, one.timestamp_us))
                    await self._stage(one.records)
                    for _ in making.steps(place, one):
                        await turns.share()
                making.entry_ended(whole[-1][0], ends=ends)
        return making.state(None)

    async def _stage(self, records: list[Record]) -> None:
        """Read what loads have staged outside of the log."""
        for record in records:
            if isinstance(record, LoadBatch) and record.parts:
                if self.read_part is None:
                    raise SqlError("57P03", "the rows of a load cannot be read here just now")
                record.staged = [await self.read_part(part) for part in record.parts]

    # Tables that were dropped.

    async def last_drop(self, names: Collection[tuple[str, str]], check: Callable[[], None]) -> Drop | None:
        """The newest drop that is kept of a table of one of these (schema, name); None: there is none.

        SqlError as :meth:`at`.
        """
        self._check_kept()
        end = self._store.applied
        _found, oldest = self._store.mark_before(lambda _one: True)
        ground = _of_mark(oldest)
        catalog, turns = ground.catalog, _Turns(check)
        drop: Drop | None = None
        async with aclosing(self._entries(ground.read_after, end)) as entries:
            async for whole, _ends in entries:
                for nth, (lsn, one) in enumerate(whole):
                    before = catalog
                    for record in one.records:
                        if isinstance(record, DropTable):
                            table = before.tables.get(record.table_id)
                            if table is not None and (table.schema, table.name) in names:
                                drop = Drop(TransactionPlace(lsn, nth), one.timestamp_us, table)
                        if type(record) in DEFINING:
                            catalog = defined(catalog, record)
                await turns.share()
        return drop


def _of_mark(mark: StateMark) -> PastState:
    if mark.view is None:
        raise SqlError("57P03", "the database is being closed")
    return PastState(
        TransactionPlace(mark.lsn, _LAST), mark.committed_us, None, mark.lsn, mark.catalog, mark.sequences,
        mark.lsn, mark.view, mark.lsn,
    )  # fmt: skip


class _Making:
    """A state that is being made of another one."""

    def __init__(self, ground: PastState, end: LSN, store: Store) -> None:
        self._ground, self._end = ground, end
        under = Memory()
        under.applied = dict(ground.chains)
        self._changes = BackgroundChanges(under, ground, store.spilling)
        self._applier = StepApplier(self._changes, ground.catalog, {})
        self._place, self._committed_us = ground.place, ground.committed_us
        self._read_after, self._skip = ground.read_after, ground.skip

    def steps(self, place: TransactionPlace, one: LoggedTransaction) -> Iterator[None]:
        """Apply a transaction. SqlError XX001 when it does not fit."""
        try:
            for _ in self._applier.steps(one.records):
                self._changes.make_room()
                yield
        except ApplyError as error:
            raise SqlError(
                "XX001", "the log does not fit an old state of the store", detail=str(error)
            ) from error
        self._place = place
        self._committed_us = max(self._committed_us, one.timestamp_us)
        self._skip += 1

    def entry_ended(self, lsn: LSN, *, ends: bool) -> None:
        """All transactions of an entry were applied. ``ends``: the next entry begins with another one."""
        self._place = TransactionPlace(lsn, _LAST)
        if ends:
            self._read_after, self._skip = lsn, 0

    def state(self, following: tuple[TransactionPlace, int] | None) -> PastState:
        """What was made. ``following``: the first transaction that is not in it."""
        ground, layer, catalog = self._ground, self._changes.layer, self._applier.catalog
        chains, sequences = dict(ground.chains), dict(ground.sequences)
        for db, delta in layer.items():
            chains[db] = (delta,) if delta.cleared else (delta, *chains.get(db, ()))
            state = delta.rows.get(SEQUENCE_KEY) if db in catalog.objects else None
            if state is not None:
                sequences[db] = state
        return PastState(
            self._place, self._committed_us, following, self._end, catalog, sequences,
            ground.ground, ground.view, self._read_after, self._skip, chains, ground.depth + bool(layer),
        )  # fmt: skip


class _Turns:
    """Shares the loop's time with others, where there is a loop."""

    def __init__(self, check: Callable[[], None]) -> None:
        self._check = check
        self._since_s = time.monotonic()
        try:
            self._has_loop = asyncio.get_running_loop() is not None
        except RuntimeError:
            self._has_loop = False

    async def share(self) -> None:
        """Let others have their turn, if this one has taken long enough."""
        if time.monotonic() - self._since_s > _SHARE_S:
            self._check()
            if self._has_loop:
                await asyncio.sleep(0)
            self._since_s = time.monotonic()
