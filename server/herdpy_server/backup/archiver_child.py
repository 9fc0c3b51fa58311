"""An archiving process: ``python -m herdpy_server.backup.archiver_child``, started by a server.

Above ``herdpy.backup`` and the log; ``archiver`` is the other end. It reads the log by
itself, stands back behind its server, and ends with it. What it has written until then is of use: entries
that are confirmed never change, and segments may overlap.

Whatever fails, it begins anew with the next Upto: it lists the repository, opens the log, and goes on where
the archive ends.
"""

from __future__ import annotations

import contextlib
import faulthandler
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

from msgspec import structs

from herdpy.backup.archive import SEGMENT_BYTES, ArchiveWriter, archived_in, newest_of, segments
from herdpy.backup.errors import BackupError, RepositoryError
from herdpy.backup.manifest import LogRecord, write_log_record
from herdpy.backup.merging import FEW, is_to_be_merged, merge_ledger
from herdpy.backup.repository import IDENTITY, Repository, read_key
from herdpy.backup.staged_parts import CutTransactionError, StagedParts
from herdpy.log.entry import entry_bytes
from herdpy.log.errors import CorruptLedgerError, LogClosedError, LogError, LogTrimmedError
from herdpy.log.file_ledger import NOTHING, Confirmed, ledger_path
from herdpy.log.files import OsFiles
from herdpy.log.ledger_list import FileLedgerList, LedgerListState
from herdpy.log.log_cursor import LogCursor
from herdpy.log.lsn import LSN
from herdpy.log.place import Place, PlaceError, without_userinfo
from herdpy.log.records import StagedPart
from herdpy.machine import end_with_parent
from herdpy_server.backup.archiver_messages import (
    Archived,
    ArchivedPlace,
    ArchiveFailed,
    ArchiveOpened,
    Busy,
    Done,
    FailureKind,
    FromArchiver,
    Remarked,
    StartArchive,
    Upto,
    encode,
    start_of,
    to_archiver,
)
from herdpy_server.child_process import lower_priority

if TYPE_CHECKING:
    from herdpy.log.detached import LogLedgers

_BUSY_EVERY_S = 20.0

Say = Callable[[FromArchiver], object]


def main() -> None:
    """The process's life."""
    faulthandler.enable()
    start = start_of.decode(sys.stdin.buffer.readline())
    end_with_parent(start.server)
    lower_priority(start.niceness)
    serve(start, sys.stdin.buffer, sys.stdout.buffer)


def serve(start: StartArchive, source: BinaryIO, sink: BinaryIO) -> None:
    """Archive whenever a line says so, until there are no more lines."""

    def say(message: FromArchiver) -> None:
        sink.write(encode(message) + b"\n")
        sink.flush()

    with contextlib.ExitStack() as stack:
        archiving: Archiving | None = None
        for line in source:
            try:
                if archiving is None:
                    archiving = Archiving(start, stack, say)
                    start = structs.replace(start, repository=archiving.repository)
                archiving.advance(to_archiver.decode(line))
            except Exception as error:  # noqa: BLE001 - the server hears of it, and says when to try again
                archiving = None
                stack.close()
                say(ArchiveFailed(_kind(error), _text(error)))


def _kind(error: Exception) -> FailureKind:
    match error:
        case PlaceError():
            return "place"
        case BackupError():
            return "repository"
        case LogTrimmedError():
            return "trimmed"
        case LogError() | OSError():
            return "log"
        case _:
            return "other"


def _text(error: Exception) -> str:
    return str(error) if isinstance(error, BackupError | LogError) else f"{type(error).__name__}: {error}"


class EntrySource(Protocol):
    """A log whose entries are copied."""

    def state(self) -> LedgerListState:
        """The ledger list as it is now."""

    def entries(self, after: LSN, upto: Upto) -> Iterator[tuple[LSN, bytes, list[StagedPart]]]:
        """Each entry as it stands there, with the staged ledgers that it names. Raises as ``LogLedgers``."""

    def staged(self, part: StagedPart) -> Iterator[bytes]:
        """The bytes of one."""


class FileSource:
    """A log in files: entries are checked and not taken apart; no entry names staged ledgers."""

    def __init__(self, place: ArchivedPlace) -> None:
        self._place = place
        self._list = FileLedgerList(place.directory)
        self._confirmed = NOTHING
        self._state = self.state()
        self._cursor: LogCursor | None = None

    def state(self) -> LedgerListState:
        state = self._list.read()
        if state is None or state.log_id != self._place.log_id:
            raise LogClosedError(f"{self._place.directory} has another log than {self._place.log_id}")
        return state

    def entries(self, after: LSN, upto: Upto) -> Iterator[tuple[LSN, bytes, list[StagedPart]]]:
        self._confirmed = Confirmed(upto.ledger_id, upto.length, upto.lac)
        self._state = self.state()  # after what is confirmed: it is at least as new
        cursor = self._cursor
        if cursor is None:
            directory = self._place.directory
            cursor = LogCursor(OsFiles(), directory, lambda: (self._confirmed, self._state), after)
            self._cursor = cursor
        try:
            while (found := cursor.next_bytes(upto.lac)) is not None:
                yield *found, []
        except CorruptLedgerError as error:
            base = self.state().base
            if error.ledger_id is not None and error.ledger_id <= base.ledger_id:
                raise LogTrimmedError(f"entries up to {base} were trimmed meanwhile") from error
            raise

    def staged(self, part: StagedPart) -> Iterator[bytes]:
        path = ledger_path(self._place.directory, part.ledger_id)
        raise CorruptLedgerError(part.ledger_id, None, path, "a log in files stages no rows in ledgers")

    def close(self) -> None:
        if self._cursor is not None:
            self._cursor.close()


class BookieSource:
    """A log on bookies."""

    def __init__(self, repository: Repository, log_id: str, ledgers: LogLedgers) -> None:
        self._repository, self._log_id = repository, log_id
        self._ledgers = ledgers
        self._named = StagedParts()

    def state(self) -> LedgerListState:
        return self._ledgers.state()

    def entries(self, after: LSN, upto: Upto) -> Iterator[tuple[LSN, bytes, list[StagedPart]]]:
        for entry in self._ledgers.read(after, upto.lac):
            try:
                named = self._named.of(entry)
            except CutTransactionError:
                self._named.go_back(self._repository, self._log_id, after)
                named = self._named.of(entry)
            yield entry.lsn, entry_bytes(entry), named

    def staged(self, part: StagedPart) -> Iterator[bytes]:
        return self._ledgers.part(part)


def _source_of(place: ArchivedPlace, repository: Repository, stack: ExitStack) -> EntrySource:
    """The log there, opened until ``stack`` is closed. Raises as ``detached.opened``."""
    if place.directory:
        files = FileSource(place)
        stack.callback(files.close)
        return files
    from herdpy.log.detached import LogAddress, opened  # for files nobody needs a client of BookKeeper

    ledgers = stack.enter_context(opened(LogAddress(**structs.asdict(place))))
    return BookieSource(repository, place.log_id, ledgers)


def _repository_of(start: StartArchive, key: bytes | None) -> Repository:
    """That at the URL, made if there never was one.

    RepositoryError: it is another than before. A directory whose disk is not mounted is empty, and an archive
    there would let go of the log.
    """
    if not start.repository:
        return Repository.create(start.url, key)
    try:
        found = Repository.open(start.url, key)
    except RepositoryError as error:
        raise _is_gone(start.url) if not Place(start.url).exists(IDENTITY) else error from None
    if found.id != start.repository:
        raise _is_gone(start.url)
    return found


def _is_gone(url: str) -> RepositoryError:
    return RepositoryError(
        f"{without_userinfo(url)} has no longer the repository that was archived to: is its disk there?"
        " For a new one start the server again."
    )


class Archiving:
    """From where the archive ends on, as far as it is said.

    Raises: PlaceError, BackupError, and as ``herdpy.log.detached``; then another one is to be made.
    """

    def __init__(self, start: StartArchive, stack: ExitStack, say: Say) -> None:
        """Look at the repository and the log; what is opened is closed with ``stack``."""
        self._say = say
        self._rate_bytes = start.rate_bytes
        self._log_id = start.place.log_id
        key = read_key(Path(start.key_file)) if start.key_file else None
        self._repository = _repository_of(start, key)
        self.repository = self._repository.id
        self._source = _source_of(start.place, self._repository, stack)
        state = self._source.state()
        found = segments(self._repository, self._log_id)
        self._archived = archived_in(found, state)
        newest = newest_of(found)
        write_log_record(
            self._repository,
            LogRecord(
                start.place.tablespace,
                self._log_id,
                time.time_ns() // 1000,
                start.parent_log,
                start.branched,
            ),
        )
        self._writer = ArchiveWriter(self._repository, self._log_id, self._archived)
        self._written: dict[int, int] = {}  # how many segments each ledger has that may have to be merged
        for one in found:
            self._written[one.ledger_id] = self._written.get(one.ledger_id, 0) + 1
        say(
            ArchiveOpened(
                self.repository,
                self._archived,
                newest if newest is not None and newest < state.base else None,
            )
        )

    def advance(self, upto: Upto) -> None:
        """Archive up to there; then merge the segments of a ledger that is closed."""
        if not self._repository.place.exists(IDENTITY):
            raise _is_gone(self._repository.url)
        held: list[tuple[LSN, bytes]] = []
        size = 0
        for lsn, data, named in self._source.entries(self._archived, upto):
            for part in named:
                self._stage(part)
            if held and (held[0][0].ledger_id != lsn.ledger_id or size + len(data) > SEGMENT_BYTES):
                self._write(held, size)
                held, size = [], 0
            held.append((lsn, data))
            size += len(data)
        if held:
            self._write(held, size)
        self._say(Done(self._archived))
        self._merge()

    def _write(self, entries: list[tuple[LSN, bytes]], size: int) -> None:
        began_s = time.monotonic()
        raw, stored = self._writer.raw_bytes, self._writer.stored_bytes
        for lsn, data in entries:
            self._writer.add_bytes(lsn, data)
        self._archived = self._writer.flush()
        ledger_id = self._archived.ledger_id
        self._written[ledger_id] = self._written.get(ledger_id, 0) + 1
        stored = self._writer.stored_bytes - stored
        self._say(Archived(self._archived, size, self._writer.raw_bytes - raw, stored))
        self._pace(stored, began_s)

    def _stage(self, part: StagedPart) -> None:
        """Rows of a load; the entry that names them is written after them."""
        self._writer.add_staged(part, self._paced(self._source.staged(part)))

    def _paced(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """The pieces as fast as they may be written."""
        for piece in pieces:
            began_s = time.monotonic()
            yield piece
            self._say(Busy())
            self._pace(len(piece), began_s)

    def _pace(self, stored_bytes: int, began_s: float) -> None:
        if not self._rate_bytes:
            return
        until_s = began_s + stored_bytes / self._rate_bytes
        while (left_s := until_s - time.monotonic()) > 0:
            time.sleep(min(left_s, _BUSY_EVERY_S))
            self._say(Busy())

    def _merge(self) -> None:
        """One ledger at a time: what is new in the log does not wait for long."""
        open_id = self._archived.ledger_id
        closed = [ledger_id for ledger_id in sorted(self._written) if ledger_id < open_id]
        for ledger_id in closed:
            if self._written.pop(ledger_id) > FEW:
                try:
                    found = segments(self._repository, self._log_id)
                    if is_to_be_merged(one for one in found if one.ledger_id == ledger_id):
                        merge_ledger(self._repository, self._log_id, ledger_id)
                except (PlaceError, BackupError) as error:
                    self._say(Remarked(f"segments of ledger {ledger_id} are not merged: {error}"))
                return


if __name__ == "__main__":
    main()
