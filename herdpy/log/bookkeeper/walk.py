"""Walking a log that is made of ledgers in BookKeeper: across ledgers, each entry checked.

Above the ledger list, below ``followed_log`` and ``leader_log``, which say where ledgers come from
and how far they may be read. What is walked is what the list says. From a ledger to the next one the
walk goes only when the list has the first one closed, at the very entry that was reached: what a
bookie says of an end may be old news, and entries behind it would be lost.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Protocol

from herdpy.bookkeeper.digest import Entry as RawEntry
from herdpy.bookkeeper.errors import DigestMismatchError, NoSuchEntryError, NoSuchLedgerError
from herdpy.log.entry import START_CRC, LogEntry, decode_entry
from herdpy.log.errors import (
    AheadOfLogError,
    ChainError,
    CorruptLedgerError,
    LogError,
    LogTrimmedError,
    RecordError,
)
from herdpy.log.ledger_list import LedgerInfo, LedgerListState
from herdpy.log.lsn import LSN, START

EntryRun = list[tuple[LSN, LogEntry]]
"""Entries that follow one another: as many as were there at a time."""


class LedgerSource(Protocol):
    """Where a walk gets the list and the ledgers from."""

    async def state(self) -> LedgerListState:
        """The list as it is known now."""

    async def newer(self, version: int) -> bool:
        """Wait for a list newer than ``version``; False when the log is closed and none will come."""

    async def refresh(self) -> LedgerListState:
        """The list as it is in ZooKeeper now."""

    def closed_entries(self, info: LedgerInfo, first: int) -> AsyncGenerator[list[RawEntry], None]:
        """The entries of a closed ledger from ``first`` to its end, as many at a time as are there."""

    def open_entries(
        self, info: LedgerInfo, first: int, upto: int | None
    ) -> AsyncGenerator[list[RawEntry], None]:
        """Those of a ledger that the list has open, to ``upto``, or as they come until it is closed."""


class ChainPosition:
    """A place in the chain: the last entry that was read, and its running CRC as far as it is known."""

    def __init__(self, position: LSN, crc: int | None = None) -> None:
        self.position = position
        self.crc = START_CRC if position == START else crc

    @classmethod
    def at(cls, raw: RawEntry) -> ChainPosition:
        """The place of an entry, which is checked against itself alone."""
        header = decoded(raw).header
        return cls(header.lsn, header.crc)

    def take(self, raw: RawEntry) -> LogEntry:
        """The entry that a ledger gave, as the next of the chain.

        Raises:
            CorruptLedgerError: its bytes are no entry of this place.
            ChainError: it does not follow this place.
        """
        entry = decoded(raw)
        header = entry.header
        lsn = header.lsn
        if header.predecessor != self.position:
            raise ChainError(
                f"entry {lsn} follows {header.predecessor}, but {self.position} was the last one read"
            )
        if self.crc is not None and header.predecessor_crc != self.crc:
            raise ChainError(f"entry {lsn} continues another history than {self.position}'s")
        self.position, self.crc = lsn, header.crc
        return entry

    def settle(self, state: LedgerListState) -> None:
        """Hold the place against the list: the ends of ledgers are known there, with their CRCs."""
        position = self.position
        if position < state.base:
            raise _trimmed(state, position)
        crc = state.base_crc if position == state.base else None
        for ledger in state.ledgers:
            if ledger.closed and ledger.last == position:
                crc = ledger.crc
        if crc is None:
            return
        if self.crc is not None and self.crc != crc:
            raise ChainError(f"the log's entry {position} is of another history than the one read")
        self.crc = crc


def decoded(raw: RawEntry) -> LogEntry:
    """The entry that a ledger gave; CorruptLedgerError when its bytes are none of this place."""
    try:
        entry = decode_entry(raw.data)
    except RecordError as error:
        raise CorruptLedgerError(raw.ledger_id, raw.entry_id, "", str(error)) from error
    if entry.lsn != (raw.ledger_id, raw.entry_id):
        raise CorruptLedgerError(raw.ledger_id, raw.entry_id, "", f"it says that it is entry {entry.lsn}")
    return entry


async def walk(ledgers: LedgerSource, after: LSN, upto: LSN | None) -> AsyncGenerator[EntryRun, None]:
    """The entries after ``after``, to ``upto``, which is confirmed; None: as they come, until the end.

    What comes before an entry that is damaged, or does not follow, is given out before the error.

    Raises:
        LogTrimmedError: entries after ``after`` are gone.
        AheadOfLogError: ``after`` is not in this log.
        ChainError: an entry does not follow the one before it.
        CorruptLedgerError: an entry, or a ledger of the list, is damaged or missing.
    """
    place = ChainPosition(after)
    while upto is None or place.position < upto:
        state = await ledgers.state()
        place.settle(state)
        try:
            info = next_ledger(state, place.position)
        except AheadOfLogError:
            # A server of ZooKeeper that lags behind may have given a list older than the position.
            state = await ledgers.refresh()
            place.settle(state)
            info = next_ledger(state, place.position)
        if info is None:
            if upto is not None or not await ledgers.newer(state.version):
                return
            continue
        try:
            async with aclosing(_entries(ledgers, info, place.position, upto)) as runs:
                async for raws in runs:
                    run, error = _taken(place, raws, upto)
                    if run:
                        yield run
                    if error is not None:
                        raise error
                    if upto is not None and place.position >= upto:
                        return
        except (NoSuchLedgerError, NoSuchEntryError) as error:
            # Trimmed, or dropped from the list because it stayed empty; anything else is damage.
            newest = await ledgers.refresh()
            place.settle(newest)
            if any(one.ledger_id == info.ledger_id for one in newest.ledgers):
                raise CorruptLedgerError(info.ledger_id, error.entry_id, "", str(error)) from error
            continue
        except DigestMismatchError as error:
            raise CorruptLedgerError(info.ledger_id, error.entry_id, "", str(error)) from error
        if info.closed:
            if place.position != info.last:
                raise ChainError(
                    f"ledger {info.ledger_id} ends at {place.position}, the list says {info.last}"
                )
        elif not await ledgers.newer(state.version):
            return


def _taken(place: ChainPosition, raws: list[RawEntry], upto: LSN | None) -> tuple[EntryRun, LogError | None]:
    """The entries that a ledger gave, to ``upto``, as the next of the chain; why it ends before the last."""
    run: EntryRun = []
    try:
        for raw in raws:
            entry = place.take(raw)
            run.append((entry.header.lsn, entry))
            if upto is not None and place.position >= upto:
                break
    except LogError as error:
        return run, error
    return run, None


def _entries(
    ledgers: LedgerSource, info: LedgerInfo, position: LSN, upto: LSN | None
) -> AsyncGenerator[list[RawEntry], None]:
    first = position.entry_id + 1 if position.ledger_id == info.ledger_id else 0
    if info.closed:
        return ledgers.closed_entries(info, first)
    here = upto is not None and upto.ledger_id == info.ledger_id
    return ledgers.open_entries(info, first, upto.entry_id if here and upto is not None else None)


def is_ahead(state: LedgerListState, position: LSN) -> bool:
    """Whether a position is certainly not one of this log; False also where the log is trimmed by now."""
    if position <= state.base:
        return False
    try:
        next_ledger(state, position)
    except AheadOfLogError:
        return True
    return False


def check_position(state: LedgerListState, position: LSN) -> None:
    """Make sure that a position is one of this log, as far as the list tells.

    Raises:
        AheadOfLogError: it is not: what was applied to there is not what the log has.
        LogTrimmedError: entries after it are gone.
    """
    if position < state.base:
        raise _trimmed(state, position)
    next_ledger(state, position)


def _trimmed(state: LedgerListState, position: LSN) -> LogTrimmedError:
    return LogTrimmedError(f"the entries after {position} are trimmed, the log begins after {state.base}")


def next_ledger(state: LedgerListState, position: LSN) -> LedgerInfo | None:
    """The ledger that holds, or will hold, the entry after ``position``.

    Raises:
        AheadOfLogError: the position is not one of this log.
    """
    known = position == state.base
    listed = any(ledger.ledger_id == position.ledger_id for ledger in state.ledgers)
    for ledger in state.ledgers:
        if ledger.ledger_id != position.ledger_id:
            if listed and not known:
                continue  # it ends before the position, though maybe not yet in the list
        else:
            known = True
            if ledger.closed and position > ledger.last:
                raise AheadOfLogError(
                    f"{position} is not in the log: ledger {ledger.ledger_id} ends at {ledger.last}"
                )
        if not ledger.closed or ledger.last > position:
            if not known:
                raise AheadOfLogError(f"{position} is not in the log: its ledger is not in the list")
            return ledger
    if not known:
        raise AheadOfLogError(f"{position} is not in the log: its ledger is not in the list")
    return None
