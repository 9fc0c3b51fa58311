"""The log of a tablespace as a reader sees it: entries, and the positions where transactions end.

Above ``ledgers``. A position to read from or to is always the end of a transaction: behind it nothing is half
done. Nothing here fences a ledger, and nothing is given beyond the last add confirmed.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from struct import Struct

from herdpy.log import LSN, START, LogEntry, LoggedTransaction, LogTrimmedError, TransactionAssembler
from herdpy.log.detached import LogAddress, LogLedgers, opened, predecessor
from herdpy.log.entry import EntryPart
from herdpy.log.ledger_list import LedgerListState

_WINDOW = 64
_TIME = Struct(">q")  # what a transaction begins with, see docs/log-format.md


@dataclass(slots=True, frozen=True)
class TransactionsAtEntry:
    """An entry, and what takes effect with it.

    Attributes:
        lsn: its position.
        crc: the running CRC32C of the log up to it.
        bodies: the bytes of each transaction that takes effect with it, in order; mostly one or a few.
        complete: no transaction is begun and not ended here, so one may stop here, and read on after ``lsn``.
    """

    lsn: LSN
    crc: int
    bodies: list[bytes]
    complete: bool

    def transactions(self) -> list[LoggedTransaction]:
        """The transactions, decoded; RecordError when the bytes are none."""
        return [LoggedTransaction.decode(body) for body in self.bodies]


@dataclass(slots=True, frozen=True)
class LogBounds:
    """What of a log can be read: everything after ``base`` up to ``end``, the end of a transaction."""

    base: LSN
    end: LSN


def entries(
    address: LogAddress, after: LSN, upto: LSN | None = None, *, crc: int | None = None
) -> Iterator[TransactionsAtEntry]:
    """The entries after ``after`` to ``upto``, every one checked.

    Args:
        after: the end of a transaction, or the log's base. Of a transaction that began before the base, and
            goes on after it, nothing is given.
        upto: what ``end`` has given, or an earlier position; None: as far as is confirmed now.
        crc: the running CRC at ``after`` where it is known: another history is refused.

    Raises:
        LogTrimmedError: entries after ``after`` are gone.
        ChainError: ``after`` is not in this log, or an entry does not follow the one before it.
        RecordError: ``after`` is in the middle of a transaction.
        CorruptLedgerError: an entry, a ledger or the list is damaged or missing.
        LogUnavailableError: ZooKeeper or the bookies did not answer for a while.
        LogClosedError: there is no such log.
    """
    with opened(address) as ledgers:
        yield from read(ledgers, after, upto, crc=crc)


def read(
    ledgers: LogLedgers, after: LSN, upto: LSN | None = None, *, crc: int | None = None
) -> Generator[TransactionsAtEntry, None, None]:
    """As ``entries``, of a log that is open."""
    upto = ledgers.confirmed() if upto is None else upto
    assembler = TransactionAssembler(after, crc)
    headless = after != START and after == ledgers.state().base
    with closing(ledgers.read(after, upto)) as found:
        for one in found:
            entry = one
            if headless:
                entry, headless = _from_first_part(one)
            bodies = assembler.take(entry)
            yield TransactionsAtEntry(one.lsn, one.header.crc, bodies, assembler.safe == one.lsn)


def _from_first_part(entry: LogEntry) -> tuple[LogEntry, bool]:
    """The entry without the rest of a transaction whose first part is gone; whether that is all it held."""
    first = next((at for at, part in enumerate(entry.parts) if part.first), None)
    rest: tuple[EntryPart, ...] = () if first is None else entry.parts[first:]
    return replace(entry, parts=rest), first is None and not any(part.last for part in entry.parts)


def bounds(address: LogAddress) -> LogBounds:
    """What can be read now. Raises LogUnavailableError, LogClosedError, CorruptLedgerError."""
    with opened(address) as ledgers:
        return LogBounds(ledgers.state().base, transaction_end(ledgers, ledgers.confirmed()))


def end(address: LogAddress) -> LSN:
    """The end of the newest transaction that is wholly confirmed. Errors as ``bounds``."""
    return bounds(address).end


def advance(address: LogAddress, after: LSN, count: int) -> LSN:
    """The first end of a transaction that is ``count`` entries or more after ``after``; at most ``end``.

    Raises:
        LogTrimmedError: entries after ``after`` are gone; others as ``bounds``.
    """
    with opened(address) as ledgers:
        last = transaction_end(ledgers, ledgers.confirmed())
        state = ledgers.state()
        if after < state.base:
            raise LogTrimmedError(f"the entries after {after} are trimmed, the log begins after {state.base}")
        at = _counted(state, after, count, last)
        if at >= last:
            return last
        for entry in ledgers.read(predecessor(state, at), last):
            if _ends_here(entry):
                return entry.lsn
        return last


def _counted(state: LedgerListState, after: LSN, count: int, last: LSN) -> LSN:
    """The entry that is ``count`` entries after ``after``, or one behind ``last``."""
    for ledger in state.ledgers:
        if ledger.ledger_id < after.ledger_id:
            continue
        begun = after.entry_id if ledger.ledger_id == after.ledger_id else -1
        newest = ledger.last_entry_id if ledger.closed else begun + count
        if begun + count <= newest:
            return LSN(ledger.ledger_id, begun + count)
        count -= newest - begun
    return last


def position_at(address: LogAddress, time_us: int) -> LSN:
    """The end of the last transaction before the first one that was committed after ``time_us``.

    Args:
        time_us: microseconds since 1970-01-01 UTC, by the clocks of the leaders. What was acknowledged to a
            client until then is there.

    Raises:
        LogTrimmedError: the log no longer reaches back to that time; others as ``bounds``.
    """
    with opened(address) as ledgers:
        return time_position(ledgers, time_us)


def time_position(ledgers: LogLedgers, time_us: int) -> LSN:
    """As ``position_at``, of a log that is open."""
    last = transaction_end(ledgers, ledgers.confirmed())
    state = ledgers.state()
    firsts = [LSN(one.ledger_id, 0) for one in state.ledgers if LSN(one.ledger_id, 0) <= last]
    low, high = 0, len(firsts)
    while low < high:  # how many of the ledgers begin at or before that time
        middle = (low + high) // 2
        begun_us = _first_time(ledgers, predecessor(state, firsts[middle]), last)
        if begun_us is not None and begun_us <= time_us:
            low = middle + 1
        else:
            high = middle
    if not low:
        if state.base == START or not firsts:
            return state.base
        raise LogTrimmedError(
            f"the log begins after {state.base} and no longer reaches back to that time:"
            " name a later one, or an export that was made then"
        )
    before = predecessor(state, firsts[low - 1])
    found = None
    for entry in ledgers.read(before, last):
        if any(one > time_us for one in _times(entry)):
            break
        if _ends_here(entry):
            found = entry.lsn
    return transaction_end(ledgers, before) if found is None else found


def _first_time(ledgers: LogLedgers, after: LSN, upto: LSN) -> int | None:
    """The commit time of the first transaction that begins after ``after``."""
    for entry in ledgers.read(after, upto):
        for time_us in _times(entry):
            return time_us
    return None


def _times(entry: LogEntry) -> list[int]:
    """The commit times of the transactions that begin in an entry."""
    return [_TIME.unpack_from(part.data)[0] for part in entry.parts if part.first]


def transaction_end(ledgers: LogLedgers, lsn: LSN) -> LSN:
    """The last transaction end at or before ``lsn``, which is an entry of the log, or its base."""
    state = ledgers.state()
    window, upto = 1, lsn
    while upto > state.base:
        ledger_id, entry_id = upto
        inside = entry_id >= window
        first = LSN(ledger_id, entry_id - window) if inside else predecessor(state, LSN(ledger_id, 0))
        found = None
        for entry in ledgers.read(first, upto):
            if _ends_here(entry):
                found = entry.lsn
        if found is not None:
            return found
        upto, window = first, min(2 * window, _WINDOW)
    return state.base


def _ends_here(entry: LogEntry) -> bool:
    """Whether a transaction ends with the entry, and so none is left open behind it."""
    return bool(entry.parts) and entry.parts[-1].last
