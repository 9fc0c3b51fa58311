"""The archive of a log: its entries, as they are, and rows that loads staged, in a repository.

Above ``repository``; below the server's archiver, backups and restores. Entries of one ledger that follow one
another are a *segment*, a part whose name says which they are, so the listing of the directory is the index.
Entries that are confirmed never change, and whoever leads writes the same bytes: segments of several writers
may overlap, and nothing is lost by it. A reader takes the segments that lead on, and checks that each entry
continues the one before it (position and running CRC).

A staged ledger is archived before the segment with the entry that names it.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from struct import Struct
from typing import Final

from google_crc32c import extend as _crc32c

from herdpy.backup.errors import DamagedPartError, MissingLogError, MissingPartError
from herdpy.backup.manifest import log_directory
from herdpy.backup.repository import Repository
from herdpy.log.entry import HEADER_BYTES, LogEntry, decode_entry, decode_header, entry_bytes
from herdpy.log.errors import RecordError
from herdpy.log.ledger_list import LedgerListState
from herdpy.log.lsn import LSN, START
from herdpy.log.records import StagedPart

SEGMENT_BYTES: Final = 8 << 20
"""A segment ends at this size; one entry is never larger than a part may be."""
_STAGED_BYTES = 8 << 20
_AHEAD = 3
_TIME = Struct(">q")  # what a transaction begins with
_NAME = re.compile(r"(\d{20})-(\d{20})-(\d{20})")
_STAGED_NAME = re.compile(r"(\d{20})-(\d{6})")


@dataclass(frozen=True, slots=True, order=True)
class LogSegment:
    """Entries ``first`` to ``last`` of a ledger.

    Attributes:
        size_bytes: of the file.
    """

    ledger_id: int
    first: int
    last: int
    size_bytes: int = 0

    @property
    def name(self) -> str:
        """Of the file, in the archive's directory."""
        return f"{self.ledger_id:020d}-{self.first:020d}-{self.last:020d}"

    @property
    def end(self) -> LSN:
        """The position of the last entry."""
        return LSN(self.ledger_id, self.last)


def entries_directory(log_id: str) -> str:
    """Where a log's segments are in a repository."""
    return f"{log_directory(log_id)}/entries"


def segment_of(name: str, size_bytes: int = 0) -> LogSegment | None:
    """The segment in the file ``name`` of a repository; None: it is another file."""
    if (match := _NAME.fullmatch(name.rpartition("/")[2])) is None:
        return None
    ledger_id, first, last = map(int, match.groups())
    return LogSegment(ledger_id, first, last, size_bytes)


def segments(repository: Repository, log_id: str) -> list[LogSegment]:
    """All segments of a log, by ledger and first entry. PlaceError."""
    files = repository.sizes(entries_directory(log_id)).items()
    return sorted(one for name, size in files if (one := segment_of(name, size)) is not None)


def chain(found: Iterable[LogSegment], after: LSN) -> list[LogSegment]:
    """The fewest segments that lead on from ``after``, as far as they go without a gap within a ledger.

    Whether a ledger follows the one before it is in the entries alone: ``read_entries`` finds out.
    """
    led: list[LogSegment] = []
    at = after
    later = sorted(one for one in found if LSN(one.ledger_id, one.last) > after)
    for ledger_id, group in groupby(later, key=lambda one: one.ledger_id):
        mine = list(group)
        following = at.entry_id + 1 if at.ledger_id == ledger_id else 0
        best: LogSegment | None = None
        for one in mine:
            if one.first > following and best is not None:
                led.append(best)
                following, best = best.last + 1, None
            if one.first > following:
                break
            if one.last >= (following if best is None else best.last + 1):
                best = one
        if best is not None:
            led.append(best)
            following = best.last + 1
        if any(one.last >= following for one in mine):
            break
        at = LSN(ledger_id, following - 1)
    return led


class ArchiveWriter:
    """Writes the entries of one log, in order; for one thread.

    Attributes:
        archived: up to which position entries are in the repository by this writer's doing.
        raw_bytes, stored_bytes: of what it wrote, before and after compression.

    Args:
        archived: where it goes on after.
    """

    def __init__(self, repository: Repository, log_id: str, archived: LSN) -> None:
        self._repository = repository
        self._log_id = log_id
        self._buffer = bytearray()
        self._first: LSN | None = None
        self._last = archived
        self.archived = archived
        self.raw_bytes = self.stored_bytes = 0

    def add(self, entry: LogEntry) -> None:
        """The next entry; written when a segment is full, or the ledger is another. PlaceError."""
        self.add_bytes(entry.lsn, entry_bytes(entry))

    def add_bytes(self, lsn: LSN, data: bytes) -> None:
        """As :meth:`add`, of an entry as it stands in its ledger."""
        if self._first is not None and (
            lsn.ledger_id != self._first.ledger_id or len(self._buffer) + len(data) > SEGMENT_BYTES
        ):
            self.flush()
        if self._first is None:
            self._first = lsn
        self._buffer += data
        self._last = lsn

    def flush(self) -> LSN:
        """Write what was added; returns ``archived``. PlaceError: what was added stays for another try."""
        if self._first is not None:
            segment = LogSegment(self._first.ledger_id, self._first.entry_id, self._last.entry_id)
            name = f"{entries_directory(self._log_id)}/{segment.name}"
            self.stored_bytes += self._repository.write(name, self._buffer)
            self.raw_bytes += len(self._buffer)
            self._buffer, self._first, self.archived = bytearray(), None, self._last
        return self.archived

    def add_staged(self, part: StagedPart, pieces: Iterable[bytes]) -> None:
        """The rows of a staged ledger, before the entry that names it. PlaceError."""
        buffer, number = bytearray(), 0
        for piece in pieces:
            for start in range(0, len(piece), _STAGED_BYTES):
                buffer += piece[start : start + _STAGED_BYTES]
                if len(buffer) >= _STAGED_BYTES:
                    self._stage(part, number, buffer)
                    buffer, number = bytearray(), number + 1
        if buffer or not number:
            self._stage(part, number, buffer)

    def _stage(self, part: StagedPart, number: int, data: bytearray) -> None:
        self.stored_bytes += self._repository.write(_staged_name(self._log_id, part, number), data)
        self.raw_bytes += len(data)


def _staged_name(log_id: str, part: StagedPart, number: int) -> str:
    return f"{log_directory(log_id)}/staged/{part.ledger_id:020d}-{number:06d}"


def staged_of(name: str) -> int | None:
    """The staged ledger whose rows are in the file ``name`` of a repository; None: it is another file."""
    match = _STAGED_NAME.fullmatch(name.rpartition("/")[2])
    return None if match is None else int(match[1])


def read_staged(repository: Repository, log_id: str, part: StagedPart) -> Iterator[bytes]:
    """The bytes of a staged ledger. DamagedPartError: not what was staged; PlaceError."""
    size = crc = number = 0
    while size < part.size_bytes or not number:
        data = repository.read(_staged_name(log_id, part, number))
        size, crc, number = size + len(data), _crc32c(crc, data), number + 1
        yield data
    if (size, crc) != (part.size_bytes, part.crc):
        raise DamagedPartError(_staged_name(log_id, part, 0), "the rows are not those that the log names")


def decode_segment(name: str, contents: bytes) -> Iterator[LogEntry]:
    """The entries of a segment. DamagedPartError: they are not entries that follow one another."""
    at = 0
    while at < len(contents):
        try:
            header = decode_header(contents, at)
            stop = at + HEADER_BYTES + header.body_bytes
            yield decode_entry(contents[at:stop])
        except RecordError as error:
            raise DamagedPartError(name, str(error)) from error
        at = stop


def read_entries(
    repository: Repository, log_id: str, after: LSN, crc: int | None = None, upto: LSN | None = None
) -> Generator[LogEntry, None, None]:
    """The archived entries after ``after``, each checked against the one before it.

    Segments are read ahead by threads. It ends where the archive does, or at ``upto``. Segments may be merged
    meanwhile.

    Args:
        crc: running CRC of the entry at ``after``, if it is known.

    Raises:
        MissingLogError: entries in between are not there, or the archive ends before ``upto``.
        DamagedPartError: a segment is not what was written, or is of another history.
        PlaceError: the repository cannot be read.
    """
    last, directory = after, entries_directory(log_id)
    gone: str | None = None
    while True:
        try:
            for name, contents in _read_chain(repository, log_id, last, upto):
                for entry in decode_segment(name, contents):
                    if entry.lsn <= last:
                        continue
                    if upto is not None and entry.lsn > upto:
                        return
                    last, crc = _follows(name, entry, last, crc)
                    gone = None
                    yield entry
            break
        except MissingPartError as error:
            # Small segments are merged into large ones: these are there before those go. So another listing
            # leads on, unless it names the same file.
            if error.file == gone or not error.file.startswith(directory):
                raise
            gone = error.file
    if upto is not None and last < upto:
        raise MissingLogError(f"the archive ends at {last}, before {upto}")


def _read_chain(
    repository: Repository, log_id: str, after: LSN, upto: LSN | None
) -> Iterator[tuple[str, bytes]]:
    """The segments that lead on, and their contents, read ahead. Raises as ``Repository.read``."""
    directory = entries_directory(log_id)
    names = [
        f"{directory}/{one.name}"
        for one in chain(segments(repository, log_id), after)
        if upto is None or LSN(one.ledger_id, one.first) <= upto
    ]
    with ThreadPoolExecutor(_AHEAD, thread_name_prefix="herdpy-archive") as threads:
        coming = [threads.submit(repository.read, name) for name in names[:_AHEAD]]
        try:
            for at, name in enumerate(names):
                contents = coming.pop(0).result()
                if at + _AHEAD < len(names):
                    coming.append(threads.submit(repository.read, names[at + _AHEAD]))
                yield name, contents
        finally:
            for one in coming:
                one.cancel()


def _follows(name: str, entry: LogEntry, last: LSN, crc: int | None) -> tuple[LSN, int]:
    header = entry.header
    if header.predecessor != last:
        raise MissingLogError(
            f"the archive lacks entries: {header.lsn} follows {header.predecessor}, not {last}"
        )
    if crc is not None and header.predecessor_crc != crc:
        raise DamagedPartError(name, f"entry {header.lsn} continues another history than {last}'s")
    return header.lsn, header.crc


def archived_in(found: Iterable[LogSegment], state: LedgerListState) -> LSN:
    """Up to where segments have every entry that a log has; its base when they have none after that.

    It knows from the ledger list where ledgers end, and reads none.
    """
    at = state.base
    mine: dict[int, list[LogSegment]] = {}
    for segment in found:
        mine.setdefault(segment.ledger_id, []).append(segment)
    for ledger in state.ledgers:
        following = at.entry_id + 1 if at.ledger_id == ledger.ledger_id else 0
        for segment in sorted(mine.get(ledger.ledger_id, ())):
            if segment.first <= following <= segment.last:
                following = segment.last + 1
        if following and LSN(ledger.ledger_id, following - 1) > at:
            at = LSN(ledger.ledger_id, following - 1)
        if not ledger.closed or following <= ledger.last_entry_id:
            break
    return at


def newest_of(found: Iterable[LogSegment]) -> LSN | None:
    """The last entry of all segments; None where there are none."""
    return max((one.end for one in found), default=None)


def reached(found: Iterable[LogSegment], after: LSN) -> LSN:
    """Up to where segments lead on from ``after``, by their names alone."""
    return newest_of(chain(found, after)) or after


def segment_entries(repository: Repository, log_id: str, segment: LogSegment) -> Iterator[LogEntry]:
    """The entries of a segment, read now. DamagedPartError, of each as it comes; PlaceError."""
    name = f"{entries_directory(log_id)}/{segment.name}"
    return decode_segment(name, repository.read(name))


def newest_commit_us(
    repository: Repository,
    log_id: str,
    found: Sequence[LogSegment],
    after: LSN = START,
    upto: LSN | None = None,
) -> int:
    """Commit time of the newest transaction of segments, between two positions; 0: there is none.

    Microseconds since 1970-01-01 UTC. DamagedPartError; PlaceError.
    """
    for segment in reversed(found):
        entries = segment_entries(repository, log_id, segment)
        within = (one for one in entries if after < one.lsn and (upto is None or one.lsn <= upto))
        times = list(commit_times(within))
        if times:
            return times[-1]
    return 0


def archive_end_of(repository: Repository, log_id: str) -> tuple[LSN, int]:
    """The newest archived position of a log, and the commit time of the newest transaction up to there.

    Returns:
        START and 0 where nothing is archived; 0 for the time where no transaction is. Microseconds since
        1970-01-01 UTC.

    Raises:
        DamagedPartError, PlaceError: as ``Repository.read``.
    """
    found = sorted(segments(repository, log_id), key=lambda one: (one.ledger_id, one.last))
    end = newest_of(found) or START
    for segment in reversed(found):
        try:
            time_us = newest_commit_us(repository, log_id, [segment])
        except MissingPartError:
            continue  # merged meanwhile: an earlier one, or the next call, will do
        if time_us:
            return end, time_us
    return end, 0


def commit_times(entries: Iterable[LogEntry]) -> Iterator[int]:
    """The commit times of the transactions that take effect within entries, in their order.

    One that began before them is left out: its time is not among them.
    """
    begun: int | None = None
    for entry in entries:
        for part in entry.parts:
            if part.first:
                begun = int(_TIME.unpack_from(part.data)[0]) if len(part.data) >= _TIME.size else None
            if part.last and begun is not None:
                yield begun
                begun = None
