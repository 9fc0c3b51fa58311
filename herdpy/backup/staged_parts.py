"""Which staged ledgers the entries of a log name.

Above ``archive``; below what archives a log on bookies. Records are not decoded: a transaction in which no
LoadBatch can begin is passed by as a whole, and of one that is cut into many entries nothing is held but the
few bytes that the next step needs.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from struct import Struct
from typing import Final

from herdpy.backup.archive import decode_segment, entries_directory, segments
from herdpy.backup.repository import Repository
from herdpy.log.entry import LogEntry
from herdpy.log.lsn import LSN, START
from herdpy.log.records import FRAME, LOAD_BATCH_HEAD, LOAD_BATCH_NUMBER, LOAD_BATCH_PART, StagedPart

_HEAD = Struct(">qB")  # commit time, length of the request id
_COUNT_BYTES = 4
_MARK: Final = bytes((LOAD_BATCH_NUMBER, 1))
"""What the frame of a LoadBatch begins with."""


class CutTransactionError(Exception):
    """Entries begin in the middle of a transaction: those before them are to be given first."""


def may_name(entry: LogEntry) -> bool:
    """Whether an entry has to be given to ``StagedParts``: others name no staged ledgers."""
    return any(not part.first or not part.last or _MARK in part.data for part in entry.parts)


class StagedParts:
    """Finds the staged ledgers that entries name; entries are given in order."""

    def __init__(self) -> None:
        self._open: _Transaction | None = None
        self._began = False

    def of(self, entry: LogEntry) -> list[StagedPart]:
        """Those that an entry names, and earlier ones of its transaction do not.

        Raises:
            CutTransactionError: it is the first that was given, and goes on with a transaction.
        """
        found: list[StagedPart] = []
        for part in entry.parts:
            if part.first:
                if part.last and _MARK not in part.data:
                    self._open, self._began = None, True
                    continue
                self._open = _Transaction()
            elif not self._began:
                raise CutTransactionError(str(entry.lsn))
            self._began = True
            if self._open is not None:
                found += self._open.feed(part.data)
            if part.last:
                self._open = None
        return found

    def go_back(self, repository: Repository, log_id: str, upto: LSN) -> None:
        """Take what is archived of the transaction that goes on after ``upto``.

        Raises: as ``Repository.read``.
        """
        names: list[str] = []
        for segment in reversed(segments(repository, log_id)):
            if LSN(segment.ledger_id, segment.first) > upto:
                continue
            names.append(f"{entries_directory(log_id)}/{segment.name}")
            if any(one.parts[0].first for one in _entries(repository, names[-1:], upto) if one.parts):
                break
        self._open, self._began = None, True
        last = LSN(-1, -1)
        for entry in _entries(repository, reversed(names), upto):
            if entry.lsn > last:
                last = entry.lsn
                self.of(entry)


def _entries(repository: Repository, names: Iterator[str] | list[str], upto: LSN) -> Iterator[LogEntry]:
    for name in names:
        for entry in decode_segment(name, repository.read(name)):
            if entry.lsn <= upto:
                yield entry


class StagedPartsInOrder:
    """As ``StagedParts``, for entries some of which come again, and before which some may be missing.

    Attributes:
        last: the position of the last entry that was given.
    """

    def __init__(self) -> None:
        self._parts = StagedParts()
        self.last = START

    def gap(self) -> None:
        """Entries are missing before the next one."""
        self._parts = StagedParts()

    def of(self, entry: LogEntry) -> list[StagedPart]:
        """Those that an entry names; of a transaction whose beginning is missing none are known."""
        if entry.lsn <= self.last:
            return []
        self.last = entry.lsn
        try:
            return self._parts.of(entry)
        except CutTransactionError:
            return []


class _Transaction:
    """The bytes of one transaction, as they come; each step says how many bytes the next one needs."""

    def __init__(self) -> None:
        self._steps = self._read()
        self._needed = next(self._steps)
        self._held = bytearray()
        self._skipped = 0
        self._found: list[StagedPart] = []

    def feed(self, data: bytes) -> list[StagedPart]:
        """The staged ledgers that are named up to here."""
        at, size = 0, len(data)
        while at < size:
            if self._skipped:
                step = min(self._skipped, size - at)
                self._skipped -= step
                at += step
                continue
            step = min(self._needed - len(self._held), size - at)
            self._held += data[at : at + step]
            at += step
            if len(self._held) == self._needed:
                held, self._held = bytes(self._held), bytearray()
                self._needed = self._steps.send(held)
        found, self._found = self._found, []
        return found

    def _read(self) -> Generator[int, bytes, None]:
        _time_us, id_bytes = _HEAD.unpack((yield _HEAD.size))
        yield id_bytes + _COUNT_BYTES
        while True:
            number, _version, length = FRAME.unpack((yield FRAME.size))
            if number != LOAD_BATCH_NUMBER:
                self._skipped = length
                continue
            head = yield LOAD_BATCH_HEAD.size
            count = LOAD_BATCH_HEAD.unpack(head)[-1]
            for _ in range(count):
                part = yield LOAD_BATCH_PART.size
                self._found.append(StagedPart(*LOAD_BATCH_PART.unpack(part)))
            self._skipped = length - LOAD_BATCH_HEAD.size - count * LOAD_BATCH_PART.size
