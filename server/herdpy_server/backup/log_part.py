"""The log's part of a backup: what is written after an image goes into the archive of the repository.

Beside ``image``, below ``making``. Entries come from ``herdpy.log.detached``, that is from files or bookies,
without the process that writes them. What is archived already, by earlier backups or by the server's
archiver, is not read again. Where the log is trimmed meanwhile, the image is too old: LogTrimmedError.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from typing import ParamSpec, TypeVar

from herdpy.backup.archive import (
    ArchiveWriter,
    chain,
    newest_commit_us,
    segment_entries,
    segments,
)
from herdpy.backup.errors import BackupError, MissingPartError
from herdpy.backup.pages import RateLimit
from herdpy.backup.repository import Repository
from herdpy.backup.staged_parts import CutTransactionError, StagedParts
from herdpy.log import LogTrimmedError, LogUnavailableError
from herdpy.log.detached import LogLedgers, confirmed_from
from herdpy.log.ledger_list import LedgerListState
from herdpy.log.lsn import LSN, START

Progress = Callable[[int], object]
"""Called with the bytes of the log that were read so far."""

_LISTINGS = 5
P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ArchivedLog:
    """What the archive has after an image.

    Attributes:
        end: it has every entry from the image to here.
        end_time_us: commit time of the newest transaction up to there, after the image; 0: there is none.
        raw_bytes, stored_bytes: that were added, before and after compression.
    """

    end: LSN
    end_time_us: int
    raw_bytes: int
    stored_bytes: int


def _listed_again(function: Callable[P, T]) -> Callable[P, T]:
    """Done again when a segment has gone since it was listed: small ones are merged into large ones."""

    @wraps(function)
    def call(*arguments: P.args, **options: P.kwargs) -> T:
        for _ in range(_LISTINGS):
            with suppress(MissingPartError):
                return function(*arguments, **options)
        return function(*arguments, **options)

    return call


def archive(
    repository: Repository,
    log_id: str,
    log: LogLedgers,
    after: LSN,
    *,
    least: LSN = START,
    limit: RateLimit | None = None,
    progress: Progress = lambda _bytes: None,
) -> ArchivedLog:
    """Have every entry from ``after`` to the log's end in the archive.

    Args:
        least: the log's end is at least there: it is waited for until readers may know that.

    Raises:
        LogTrimmedError: entries after ``after`` are in the archive no more than in the log.
        LogError: the log cannot be read.
        BackupError, PlaceError: the repository.
    """
    begin = continuous_end(repository, log_id, after)
    end = _confirmed(log, max(after, least), begin)
    _check_history(repository, log_id, log, begin)
    writer = ArchiveWriter(repository, log_id, begin)
    if begin < end:
        _copy(repository, log_id, log, begin, end, writer, limit or RateLimit(), progress)
    if continuous_end(repository, log_id, after) < end:
        raise BackupError(f"the archive does not lead from {after} to {end}: files of it were removed")
    newest_us = newest_time_us(repository, log_id, after, end)
    return ArchivedLog(end, newest_us, writer.raw_bytes, writer.stored_bytes)


def _confirmed(log: LogLedgers, least: LSN, archived: LSN) -> LSN:
    """The log's end, which is nowhere before what is archived of it."""
    end = confirmed_from(log, least)
    if archived <= end:
        return end
    try:
        return confirmed_from(log, archived)
    except LogUnavailableError:
        raise _another_history(f"the log ends at {end}, and the repository has it up to {archived}") from None


@_listed_again
def _check_history(repository: Repository, log_id: str, log: LogLedgers, at: LSN) -> None:
    """What is archived up to ``at`` is this log's. BackupError: it is a copy's, which went on otherwise."""
    archived = next(
        (
            entry.header.crc
            for segment in segments(repository, log_id)
            if segment.ledger_id == at.ledger_id and segment.first <= at.entry_id <= segment.last
            for entry in segment_entries(repository, log_id, segment)
            if entry.lsn == at
        ),
        None,
    )
    live = None if archived is None else _live_crc(log, at)
    if live is not None and live != archived:
        raise _another_history(f"the log and the repository have other entries at {at}")


def _another_history(what: str) -> BackupError:
    return BackupError(
        f"the repository has another history of this log: {what}",
        hint="The database was put back from a copy of its files, or two copies are in use. Use another"
        " repository. herdpy restore makes databases with a log of their own.",
    )


def _copy(
    repository: Repository,
    log_id: str,
    log: LogLedgers,
    begin: LSN,
    end: LSN,
    writer: ArchiveWriter,
    limit: RateLimit,
    progress: Progress,
) -> None:
    """Archive entries; rows that they name in staged ledgers come before them."""
    staged, spent = StagedParts(), 0
    for entry in log.read(begin, end):
        try:
            parts = staged.of(entry)
        except CutTransactionError:
            staged.go_back(repository, log_id, begin)
            parts = staged.of(entry)
        for part in parts:
            writer.add_staged(part, log.part(part))
        writer.add(entry)
        limit.spend(writer.stored_bytes - spent)
        spent = writer.stored_bytes
        progress(writer.raw_bytes)
    writer.flush()


# What is archived.


@_listed_again
def continuous_end(repository: Repository, log_id: str, after: LSN) -> LSN:
    """Up to where the archive has every entry after ``after``, across ledgers too.

    A ledger's first entry names the one before it. DamagedPartError; PlaceError.
    """
    at = after
    for segment in chain(segments(repository, log_id), after):
        if segment.ledger_id != at.ledger_id:
            first = next(segment_entries(repository, log_id, segment), None)
            if first is None or first.header.predecessor != at:
                break
        at = segment.end
    return at


@_listed_again
def newest_time_us(repository: Repository, log_id: str, after: LSN, upto: LSN) -> int:
    """Commit time of the newest archived transaction between two positions; 0: there is none."""
    return newest_commit_us(repository, log_id, chain(segments(repository, log_id), after), after, upto)


@_listed_again
def crc_at(repository: Repository, log_id: str, log: LogLedgers, lsn: LSN, end: LSN) -> int | None:
    """The running CRC of the entry at ``lsn``, from which the archive goes on; None: nothing says it."""
    found = _live_crc(log, lsn)
    for segment in chain(segments(repository, log_id), lsn)[:1] if found is None and lsn < end else ():
        for entry in segment_entries(repository, log_id, segment):
            if entry.lsn > lsn:
                return entry.header.predecessor_crc
    return found


def _live_crc(log: LogLedgers, lsn: LSN) -> int | None:
    """The running CRC of the entry at ``lsn`` as the log has it; None: it is trimmed."""
    state = log.state()
    if lsn == state.base:
        return state.base_crc
    for ledger in state.ledgers:
        if ledger.closed and ledger.last == lsn:
            return ledger.crc
    with suppress(LogTrimmedError):
        for entry in log.read(_before(state, lsn), lsn):
            return entry.header.crc
    return None


def _before(state: LedgerListState, lsn: LSN) -> LSN:
    """The position before an entry of the log."""
    if lsn.entry_id > 0:
        return LSN(lsn.ledger_id, lsn.entry_id - 1)
    earlier = [one.last for one in state.ledgers if one.ledger_id < lsn.ledger_id and one.last_entry_id >= 0]
    return max(earlier, default=state.base)
