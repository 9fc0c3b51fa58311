"""What an open ledger holds after a crash: where it ends, or why it cannot be trusted.

A crash may cut the last write short; then bytes of it are missing, and missing bytes read as zeros
because the space was reserved. That is a torn tail, and nobody was told that it was done. Anything
else is damage, and is refused: it could hide an acknowledged entry.

A damaged entry k counts as torn only if all of this holds:
  - no LAC slot and no later entry of the file says that k was confirmed;
  - bytes are missing: its last byte (the trailer's, never zero) or a whole sector reads as zeros.
A disk writes sectors whole, and a killed write stops at a byte: a bit that flipped leaves neither
mark. (An entry whose own data fills a sector with zeros is open to doubt until it is witnessed.)
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from herdpy.log.entry import HEADER_BYTES, MAGIC, LogEntry, decode_header
from herdpy.log.errors import RecordError
from herdpy.log.file_ledger import TRAILER_BYTES, FileLedgerReader

SECTOR_BYTES = 512


@dataclass(slots=True, frozen=True)
class TornTail:
    """The end of a write that a crash cut short; no client was told it was done.

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
