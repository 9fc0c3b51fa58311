"""A ledger as one file: its first block, its reader and its writer.

Above ``entry`` and ``files``. The file begins with a block of 4096 bytes: the header, written and synced
before the ledger is in the list, and two slots for the explicit LAC. Entries follow without gaps, each with a
trailer whose last byte is not zero. Space is reserved ahead and reads as zeros, so a write that a crash cut
short shows as zeros where bytes should be; ``recovery`` tells it from damage by that. The layouts are in
docs/log-format.md.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from struct import Struct
from typing import NamedTuple

from google_crc32c import value as _crc32c

from herdpy.log.entry import (
    HEADER_BYTES,
    EntryHeader,
    LogEntry,
    checked_body,
    decode_entry,
    decode_header,
)
from herdpy.log.errors import CorruptLedgerError, NewerFormatError, RecordError
from herdpy.log.files import Files, write_all
from herdpy.log.lsn import LSN, START

BLOCK_BYTES = 4096
_WINDOW_BYTES = 256 << 10
"""What a reader reads ahead."""
MAGIC = b"HERDPYLG"
VERSION = 1
# magic, version, flags, block size, ledger, created, log id, predecessor (ledger, entry, CRC)
_HEADER = Struct(">8sHHIqq16sqqI")
_CRC = Struct(">I")
_SLOT_MAGIC = b"HPLC"
_SLOT = Struct(">4sqQI")  # magic, entry, end offset, running CRC
SLOT_OFFSETS = (2048, 3072)  # sectors of their own: tearing one leaves the other
SUFFIX = ".ledger"


def ledger_path(directory: str, ledger_id: int) -> str:
    """The file of a ledger."""
    return os.path.join(directory, f"{ledger_id:010d}{SUFFIX}")


def ledger_ids(names: list[str]) -> list[int]:
    """The ids of the ledger files among a directory's names, ascending."""
    stems = (name[: -len(SUFFIX)] for name in names if name.endswith(SUFFIX))
    return sorted(int(stem) for stem in stems if stem.isdigit())


@dataclass(slots=True, frozen=True)
class FileHeader:
    """What a ledger file says about itself: what it continues, and which log it belongs to."""

    ledger_id: int
    created_us: int
    log_id: bytes
    predecessor: LSN
    predecessor_crc: int


@dataclass(slots=True, frozen=True)
class LacSlot:
    """The explicit LAC: the entry that was confirmed, where it ends, its running CRC."""

    entry_id: int
    end: int
    crc: int


def encode_file_header(header: FileHeader) -> bytes:
    """The first block of a ledger file, with empty slots."""
    data = _HEADER.pack(
        MAGIC,
        VERSION,
        0,
        BLOCK_BYTES,
        header.ledger_id,
        header.created_us,
        header.log_id,
        *header.predecessor,
        header.predecessor_crc,
    )
    return (data + _CRC.pack(_crc32c(data))).ljust(BLOCK_BYTES, b"\0")


def decode_file_header(block: bytes) -> FileHeader:
    """The header in a ledger file's first block; RecordError when it is none, NewerFormatError."""
    if len(block) < BLOCK_BYTES:
        raise RecordError("the file is shorter than a ledger's header")
    magic, version, flags, size, ledger_id, created_us, log_id, before_l, before_e, before_crc = (
        _HEADER.unpack_from(block, 0)
    )
    if magic != MAGIC:
        raise RecordError("the file does not begin as a ledger does")
    if _CRC.unpack_from(block, _HEADER.size)[0] != _crc32c(block[: _HEADER.size]):
        raise RecordError("the ledger's header does not match its checksum")
    if version != VERSION or flags or size != BLOCK_BYTES:
        raise NewerFormatError(f"ledger format version {version}, flags {flags} is not known here")
    return FileHeader(ledger_id, created_us, log_id, LSN(before_l, before_e), before_crc)


def encode_slot(slot: LacSlot) -> bytes:
    """The bytes of a LAC slot."""
    data = _SLOT.pack(_SLOT_MAGIC, slot.entry_id, slot.end, slot.crc)
    return data + _CRC.pack(_crc32c(data))


def decode_slots(block: bytes) -> LacSlot | None:
    """The furthest LAC that the header block notes. A slot that does not check is no witness."""
    best: LacSlot | None = None
    for at in SLOT_OFFSETS:
        magic, entry_id, end, crc = _SLOT.unpack_from(block, at)
        if magic != _SLOT_MAGIC or _CRC.unpack_from(block, at + _SLOT.size)[0] != _crc32c(
            block[at : at + _SLOT.size]
        ):
            continue
        if best is None or entry_id > best.entry_id:
            best = LacSlot(entry_id, end, crc)
    return best


_TRAILER = Struct(">I4s")
_TRAILER_MAGIC = b"DONE"
TRAILER_BYTES = _TRAILER.size


def frame(entry: bytes) -> bytes:
    """An entry as it stands in a ledger file."""
    return entry + _TRAILER.pack(len(entry), _TRAILER_MAGIC)


class Confirmed(NamedTuple):
    """How far the ledger that is written to may be read."""

    ledger_id: int
    length: int
    lac: LSN


NOTHING = Confirmed(0, BLOCK_BYTES, START)


class FileLedgerReader:
    """Reads one ledger file from front to back; checks each entry against itself and its place.

    Attributes:
        header: what the file says of itself.
        slot: the explicit LAC as it was when the file was opened.
        offset: where the next entry begins.
        last, crc: the entry read last (at first, the ledger's predecessor).
    """

    def __init__(self, files: Files, path: str, ledger_id: int, log_id: str) -> None:
        """Open it. Raises CorruptLedgerError for a missing, foreign or damaged file."""
        self._files, self.path, self.ledger_id = files, path, ledger_id
        try:
            self._fd = files.open(path, write=False)
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise
            raise CorruptLedgerError(ledger_id, None, path, "the file is missing") from error
        try:
            block = files.pread(self._fd, BLOCK_BYTES, 0)
            try:
                self.header = decode_file_header(block)
            except RecordError as damage:
                raise CorruptLedgerError(ledger_id, None, path, str(damage)) from damage
            if self.header.ledger_id != ledger_id or self.header.log_id.hex() != log_id:
                raise CorruptLedgerError(ledger_id, None, path, "the file belongs to another ledger or log")
        except BaseException:
            files.close(self._fd)
            raise
        self.slot = decode_slots(block)
        self.offset = BLOCK_BYTES
        self.last, self.crc = self.header.predecessor, self.header.predecessor_crc
        self._window, self._window_at = b"", 0

    @property
    def next_id(self) -> int:
        """Id of the entry that must come next."""
        return self.last.entry_id + 1 if self.last.ledger_id == self.ledger_id else 0

    def size(self) -> int:
        """Bytes of the file now."""
        return self._files.size(self._fd)

    def bytes_at(self, offset: int, size: int, limit: int) -> bytes:
        """Up to ``size`` bytes of the file, fewer at its end. Nothing is read beyond ``limit``,
        not even ahead: what stands there may still be written."""
        at = offset - self._window_at
        if at < 0 or at + size > len(self._window):
            parts: list[bytes] = []
            want, position = min(max(size, _WINDOW_BYTES), limit - offset), offset
            while want > 0 and (part := self._files.pread(self._fd, want, position)):
                parts.append(part)
                want -= len(part)
                position += len(part)
            self._window, self._window_at, at = b"".join(parts), offset, 0
        return self._window[at : at + size]

    def peek(self, limit: int) -> tuple[LogEntry, int]:
        """The next entry, all of it before ``limit``, and where it ends; nothing moves.

        Raises:
            RecordError: there is no whole entry. ChainError is left to ``follow``.
        """
        _header, data, end = self._whole(limit)
        return decode_entry(data), end

    def _whole(self, limit: int) -> tuple[EntryHeader, bytes, int]:
        """The next entry as it stands there, with its trailer checked, and where it ends."""
        start = self.offset
        if start + HEADER_BYTES > limit:
            raise RecordError("the ledger ends in the middle of an entry")
        head = self.bytes_at(start, HEADER_BYTES, limit)
        header = decode_header(head)
        size = HEADER_BYTES + header.body_bytes
        end = start + size + TRAILER_BYTES
        if end > limit:
            raise RecordError("the ledger ends in the middle of an entry")
        data = self.bytes_at(start, size + TRAILER_BYTES, limit)
        if len(data) != size + TRAILER_BYTES:
            raise RecordError("the file ends in the middle of an entry")
        if _TRAILER.unpack_from(data, size) != (size, _TRAILER_MAGIC):
            raise RecordError("the entry's trailer is damaged")
        return header, data[:size], end

    def follow(self, entry: LogEntry, end: int) -> None:
        """Move past an entry that ``peek`` gave; CorruptLedgerError when it is out of the chain."""
        self._move(entry.header, end)

    def _move(self, header: EntryHeader, end: int) -> None:
        want = LSN(self.ledger_id, self.next_id)
        if header.lsn != want:
            raise self.corrupt(f"entry {header.lsn} stands where {want} should")
        if header.predecessor != self.last or header.predecessor_crc != self.crc:
            raise self.corrupt(f"the entry does not continue {self.last}: the chain is broken")
        self.last, self.crc, self.offset = want, header.crc, end

    def next(self, limit: int) -> LogEntry:
        """The next entry, checked; CorruptLedgerError when it is not whole before ``limit``."""
        try:
            entry, end = self.peek(limit)
        except RecordError as error:
            raise self.corrupt(str(error)) from error
        self.follow(entry, end)
        return entry

    def next_bytes(self, limit: int) -> tuple[LSN, bytes]:
        """As ``next``, checked alike, but as it stands in the ledger."""
        try:
            header, data, end = self._whole(limit)
            checked_body(header, data)
        except RecordError as error:
            raise self.corrupt(str(error)) from error
        self._move(header, end)
        return header.lsn, data

    def corrupt(self, reason: str) -> CorruptLedgerError:
        """The error that says the entry that must come next is damaged."""
        return CorruptLedgerError(self.ledger_id, self.next_id, self.path, reason)

    def close(self) -> None:
        if self._fd >= 0:
            self._files.close(self._fd)
            self._fd = -1


class FileLedgerWriter:
    """Writes one ledger file. One thread at a time.

    Attributes:
        length: bytes up to the end of the last confirmed entry.
        last, crc: that entry; in an empty ledger the predecessor.
        last_entry_id: that entry's id; -1 in an empty ledger.
    """

    def __init__(self, files: Files, directory: str, header: FileHeader, preallocate_bytes: int) -> None:
        """Make the file, synced, with its name; OSError when there is no space for it."""
        self._files = files
        self.header, self.ledger_id = header, header.ledger_id
        self.path = ledger_path(directory, header.ledger_id)
        try:
            files.remove(self.path)  # an attempt that did not get into the ledger list
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise
        self._fd = files.open(self.path, write=True, create=True)
        try:
            write_all(files, self._fd, encode_file_header(header), 0)
            files.fsync(self._fd)
            files.sync_directory(directory)
        except BaseException:
            self.abandon()
            raise
        self.length = self._reserved = BLOCK_BYTES
        self._step = preallocate_bytes
        self.last, self.last_entry_id, self.crc = header.predecessor, -1, header.predecessor_crc
        self._noted, self._slot = -1, 0

    def reserve(self, size: int) -> None:
        """Make sure there is space for ``size`` more bytes; OSError when not, and nothing changed."""
        end = self.length + size
        if end <= self._reserved:
            return
        step = max(size, self._step)
        try:
            self._files.allocate(self._fd, self._reserved, self.length + step - self._reserved)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT) or step == size:
                raise
            step = size
            self._files.allocate(self._fd, self._reserved, end - self._reserved)
        self._reserved = self.length + step

    def has_room(self, size: int) -> bool:
        """Whether there is space for ``size`` more bytes already."""
        return self.length + size <= self._reserved

    def write(self, data: bytes, behind: int = 0) -> None:
        """Write behind the last confirmed entry, and so many bytes after it; durable only after ``sync``."""
        at = self.length + behind
        written = self._files.pwrite(self._fd, data, at)
        if written != len(data):
            write_all(self._files, self._fd, data[written:], at + written)

    def sync(self) -> None:
        self._files.fdatasync(self._fd)

    def confirm(self, size: int, last: LSN, crc: int) -> None:
        """``size`` bytes more are durable, up to the entry named."""
        self.length += size
        self.last, self.last_entry_id, self.crc = last, last.entry_id, crc

    def cut(self) -> None:
        """Durably remove whatever stands behind the last confirmed entry."""
        self._reserved = self.length
        self._files.truncate(self._fd, self.length)
        self._files.fsync(self._fd)

    def note_lac(self) -> None:
        """Note the last confirmed entry in the header block; it is not synced, only witnessed."""
        if self.last_entry_id == self._noted:
            return
        slot = encode_slot(LacSlot(self.last_entry_id, self.length, self.crc))
        write_all(self._files, self._fd, slot, SLOT_OFFSETS[self._slot])
        self._slot = 1 - self._slot
        self._noted = self.last_entry_id

    def finish(self) -> None:
        """Give back reserved space and close the file."""
        if self._fd >= 0:
            try:
                self._files.truncate(self._fd, self.length)
            finally:
                self.release()

    def release(self) -> None:
        """Close the file as it is."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            self._files.close(fd)

    def abandon(self) -> None:
        """Close and remove a file that is in no list."""
        self.release()
        try:
            self._files.remove(self.path)
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise
