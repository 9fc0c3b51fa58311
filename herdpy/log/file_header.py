"""The first block of a ledger file: what the file is, and two slots for the explicit LAC.

Above ``lsn``, below ``file_ledger``, which writes the block when it makes a file, notes the LAC in
it from time to time and reads it when it opens one. Pure bytes; the layouts are in
docs/log-format.md.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from struct import Struct

from google_crc32c import value as _crc32c

from herdpy.log.errors import RecordError
from herdpy.log.lsn import LSN

BLOCK_BYTES = 4096
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
    """The header in a ledger file's first block; RecordError when it is none."""
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
        raise RecordError(f"ledger format version {version}, flags {flags} is not known here")
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
