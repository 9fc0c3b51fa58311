"""Opening the ledgers of a directory: what is there is checked, and a crash's traces are cleared.

After a crash the last ledger is closed where its last whole entry ends, as a recovering BookKeeper
client would close it; the next append begins a new one. So a recovered tail is never written
behind, and every ledger has one writer.

A crash may cut the last write short; then bytes of it are missing, and missing bytes read as zeros
because the space was reserved. That is a torn tail, and it was acknowledged to nobody. Anything
else is damage, and is refused: it could hide an acknowledged entry.

A damaged entry k counts as torn only if all of this holds:
  - no LAC slot and no later entry of the file says that k was confirmed;
  - bytes are missing: its last byte (the trailer's, never zero) or a whole sector reads as zeros.
A disk writes sectors whole, and a killed write stops at a byte: a bit that flipped leaves neither
mark. (An entry whose own data fills a sector with zeros is open to doubt until it is witnessed.)
"""

from __future__ import annotations

import errno
import os
import re
from dataclasses import dataclass, field, replace

from herdpy.log.entry import HEADER_BYTES, MAGIC, LogEntry, decode_header
from herdpy.log.errors import CorruptLedgerError, RecordError
from herdpy.log.file_ledger import (
    BLOCK_BYTES,
    NOTHING,
    TRAILER_BYTES,
    Confirmed,
    FileLedgerReader,
    ledger_ids,
    ledger_path,
)
from herdpy.log.files import Files
from herdpy.log.ledger_list import LedgerInfo, LedgerList, LedgerListState, predecessor_of

SECTOR_BYTES = 512


@dataclass(slots=True, frozen=True)
class TornTail:
    """The end of a write that a crash cut short; it was acknowledged to no client.

    Attributes:
        ledger_id: the ledger.
        entry_id: the first entry that is not whole.
        file: path of the file.
        bytes: how many written bytes were cut off.
    """

    ledger_id: int
    entry_id: int
    file: str
    bytes: int

    def __str__(self) -> str:
        return (
            f"ledger {self.ledger_id}, entry {self.entry_id}, file {self.file}:"
            f" the last write was cut short by a crash, {self.bytes} bytes of it are dropped"
        )


def scan_open_ledger(reader: FileLedgerReader) -> TornTail | None:
    """Read an open ledger to its end, which ``reader`` then stands at.

    Raises:
        CorruptLedgerError: damage that no crash explains.
    """
    limit = reader.size()
    while reader.offset < limit:
        try:
            entry, end = reader.peek(limit)
        except RecordError as error:
            return _judge(reader, reader.bytes_at(reader.offset, limit - reader.offset, limit), str(error))
        _follow(reader, entry, end)
    _check_witness(reader, "the file ends before it")
    return None


def _follow(reader: FileLedgerReader, entry: LogEntry, end: int) -> None:
    reader.follow(entry, end)
    slot = reader.slot
    if slot and slot.entry_id == entry.lsn.entry_id and (slot.end, slot.crc) != (end, entry.header.crc):
        raise reader.corrupt(f"entry {entry.lsn} is not the one that was confirmed under its number")


def _check_witness(reader: FileLedgerReader, reason: str) -> None:
    if reader.slot and reader.slot.entry_id >= reader.next_id:
        raise reader.corrupt(f"entry {reader.slot.entry_id} was confirmed, but {reason}")


def _judge(reader: FileLedgerReader, tail: bytes, reason: str) -> TornTail | None:
    """``tail``, from where no entry could be read to the file's end: nothing, torn or damaged."""
    _check_witness(reader, reason)
    written = len(tail.rstrip(b"\0"))
    if not written:
        return None
    for match in re.finditer(re.escape(MAGIC), tail):
        try:
            later = decode_header(tail, match.start())
        except RecordError:
            continue
        if later.lsn.ledger_id == reader.ledger_id and later.lac >= reader.next_id:
            raise reader.corrupt(f"{reason}, and entry {later.lsn} says that it was confirmed")
    if not _bytes_are_missing(tail, reader.offset):
        raise reader.corrupt(f"{reason}, and none of its bytes is missing")
    return TornTail(reader.ledger_id, reader.next_id, reader.path, written)


def _bytes_are_missing(tail: bytes, offset: int) -> bool:
    """Whether the entry that begins ``tail``, at ``offset`` of the file, was not written whole."""
    try:
        end = HEADER_BYTES + decode_header(tail).body_bytes + TRAILER_BYTES
    except RecordError:
        end = HEADER_BYTES
        if not tail[end:].strip(b"\0"):
            return True  # the write stopped inside the header
    else:
        if len(tail) < end or tail[end - 1] == 0:
            return True
    at = 0
    while at < end:
        sector = SECTOR_BYTES - (offset + at) % SECTOR_BYTES
        if not tail[at : at + sector].strip(b"\0"):
            return True
        at += sector
    return False


@dataclass(slots=True)
class Opened:
    """What opening found: the list as it is now, how far it may be read, the torn tails."""

    state: LedgerListState
    confirmed: Confirmed
    torn: list[TornTail] = field(default_factory=list)


def open_ledgers(directory: str, files: Files, ledger_list: LedgerList, *, read_only: bool) -> Opened:
    """Check and, unless ``read_only``, recover the ledgers of ``directory``.

    Raises:
        CorruptLedgerError: a ledger or the list is missing, foreign, short or damaged.
    """
    state = ledger_list.read()
    try:
        present = ledger_ids(files.names(directory))
    except OSError as error:
        if error.errno != errno.ENOENT or state is not None:
            raise
        present = []
    if state is None:
        if present:
            path = ledger_path(directory, present[0])
            raise CorruptLedgerError(
                present[0], None, path, "there are ledgers, but the ledger list is missing"
            )
        state = LedgerListState(0, os.urandom(16).hex())
        if not read_only:
            state = ledger_list.write(state, 0)
    for info in state.ledgers:
        if info.closed:
            _check_closed(files, directory, info, state)
    if not read_only:
        _remove_orphans(files, directory, present, state)
    if state.ledgers and not state.ledgers[-1].closed:
        return _recover(files, directory, ledger_list, state, read_only)
    last, _ = state.settled_end
    return Opened(state, NOTHING._replace(lac=last))


def _check_closed(files: Files, directory: str, info: LedgerInfo, state: LedgerListState) -> None:
    """What can be seen of a closed ledger without reading it all; readers check each entry."""
    path = ledger_path(directory, info.ledger_id)
    reader = FileLedgerReader(files, path, info.ledger_id, state.log_id)
    try:
        _check_place(reader, state)
        if reader.size() < info.length:
            raise CorruptLedgerError(
                info.ledger_id,
                info.last_entry_id,
                path,
                f"the file has {reader.size()} bytes, the ledger list says {info.length}",
            )
    finally:
        reader.close()


def _check_place(reader: FileLedgerReader, state: LedgerListState) -> None:
    before, crc = predecessor_of(state, reader.ledger_id)
    if (reader.last, reader.crc) != (before, crc):
        raise CorruptLedgerError(
            reader.ledger_id,
            None,
            reader.path,
            f"the ledger continues {reader.last}, but the one before it ends at {before}",
        )


def _recover(
    files: Files, directory: str, ledger_list: LedgerList, state: LedgerListState, read_only: bool
) -> Opened:
    info = state.ledgers[-1]
    reader = FileLedgerReader(files, ledger_path(directory, info.ledger_id), info.ledger_id, state.log_id)
    try:
        _check_place(reader, state)
        torn = scan_open_ledger(reader)
        last_id, length, crc, last = reader.next_id - 1, reader.offset, reader.crc, reader.last
    finally:
        reader.close()
    found = [torn] if torn else []
    if read_only:
        return Opened(state, Confirmed(info.ledger_id, length, last), found)
    # Entries that were written but never synced are kept, so they must be made durable now: they
    # will be applied.
    path = ledger_path(directory, info.ledger_id)
    fd = files.open(path, write=True)
    try:
        files.truncate(fd, length)
        files.fsync(fd)
    finally:
        files.close(fd)
    if last_id >= 0:
        closed = replace(info, closed=True, last_entry_id=last_id, length=length, crc=crc)
        state = ledger_list.write(replace(state, ledgers=(*state.ledgers[:-1], closed)), state.version)
    else:
        state = ledger_list.write(replace(state, ledgers=state.ledgers[:-1]), state.version)
        files.remove(path)
    return Opened(state, NOTHING._replace(lac=last), found)


def _remove_orphans(files: Files, directory: str, present: list[int], state: LedgerListState) -> None:
    """Remove what a crash left beside the list.

    That is ledgers that were in it once and were taken out (trimmed, or sealed before they had an
    entry), and one that never got in. The latter has no entries, since the list comes first; if
    it has, the list is older than the ledgers and cannot be trusted.
    """
    listed = {info.ledger_id for info in state.ledgers}
    for ledger_id in present:
        path = ledger_path(directory, ledger_id)
        if ledger_id in listed:
            continue
        if ledger_id >= state.next_ledger_id and not _is_unwritten(files, path):
            raise CorruptLedgerError(
                ledger_id, None, path, "the ledger holds entries, but the ledger list does not name it"
            )
        files.remove(path)


def _is_unwritten(files: Files, path: str) -> bool:
    """Whether nothing stands behind the header block (which may itself be unfinished)."""
    fd = files.open(path, write=False)
    try:
        at, size = BLOCK_BYTES, files.size(fd)
        while at < size:
            part = files.pread(fd, 1 << 20, at)
            if not part or part.strip(b"\0"):
                return not part
            at += len(part)
        return True
    finally:
        files.close(fd)
