"""The entry: what the log writes and ships at once. Above ``transaction``, below every ledger.

An entry holds many transactions (group commit), or one part of a transaction that is larger than
an entry. It names its predecessor and carries a CRC32C that continues the predecessor's, so a
missing, repeated, foreign or altered entry shows at the next one. It knows nothing of files: the
same bytes are the body of an entry of a BookKeeper ledger.

``pack`` makes entries from a group of transactions: who shares one, and who is cut in parts. It knows the
format and the limit, no file.

CRC32C is the Castagnoli polynomial (RFC 3720, appendix B.4), computed by google-crc32c.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from struct import Struct

from google_crc32c import extend as _crc32c

from herdpy.log.errors import RecordError
from herdpy.log.lsn import LSN
from herdpy.log.transaction import Body

MAGIC = b"HPEN"
VERSION = 1
# magic, version, flags, reserved, ledger, entry, predecessor (ledger, entry), LAC, parts, body
# length, predecessor's CRC; then the CRC of all that, then the running CRC.
_HEAD = Struct(">4sBBHqqqqqIII")
_CRC = Struct(">I")
_CRCS = Struct(">II")
HEADER_BYTES = _HEAD.size + _CRCS.size
PART_BYTES = 5
_PART = Struct(">BI")
FIRST = 1
LAST = 2
WHOLE = FIRST | LAST
#: The CRC before the first entry of a log.
START_CRC = 0


@dataclass(slots=True, frozen=True)
class EntryPart:
    """A transaction's bytes in one entry: all of them, or a stretch of a large one's."""

    first: bool
    last: bool
    data: bytes


@dataclass(slots=True, frozen=True)
class EntryHeader:
    """The fixed head of an entry.

    Attributes:
        lsn: the entry's own position.
        predecessor: position of the entry before it, START for a log's first.
        lac: id of the last entry of this ledger known durable when this one was written, or -1.
        parts: how many transaction parts the body holds.
        body_bytes: length of the body.
        predecessor_crc: the running CRC32C of the entry before it.
        crc: the running CRC32C, over this entry's bytes and all before it.
    """

    lsn: LSN
    predecessor: LSN
    lac: int
    parts: int
    body_bytes: int
    predecessor_crc: int
    crc: int


@dataclass(slots=True, frozen=True)
class LogEntry:
    """An entry, decoded and checked against itself; the chain is checked by who reads several."""

    header: EntryHeader
    parts: tuple[EntryPart, ...]

    @property
    def lsn(self) -> LSN:
        return self.header.lsn

    @property
    def size(self) -> int:
        """Bytes of the entry, header included."""
        return HEADER_BYTES + self.header.body_bytes


def encode_part(data: bytes, flags: int = WHOLE) -> bytes:
    """A part's frame and bytes, as they stand in an entry's body."""
    return _PART.pack(flags, len(data)) + data


def encode_entry(
    lsn: LSN, predecessor: LSN, predecessor_crc: int, lac: int, parts: Sequence[bytes]
) -> tuple[bytes, int]:
    """An entry's bytes and its running CRC. ``parts`` are as ``encode_part`` made them."""
    body = b"".join(parts)
    head = _HEAD.pack(MAGIC, VERSION, 0, 0, *lsn, *predecessor, lac, len(parts), len(body), predecessor_crc)
    head += _CRC.pack(_crc32c(0, head))
    crc = _crc32c(_crc32c(predecessor_crc, head), body)
    return b"%b%b%b" % (head, _CRC.pack(crc), body), crc


def decode_header(data: bytes, start: int = 0) -> EntryHeader:
    """The header at ``start``; RecordError when it is none, is damaged or of another version."""
    if len(data) < start + HEADER_BYTES:
        raise RecordError("an entry is shorter than its header")
    magic, version, flags, reserved, ledger, entry, before_l, before_e, lac, parts, size, before_crc = (
        _HEAD.unpack_from(data, start)
    )
    head_crc, crc = _CRCS.unpack_from(data, start + _HEAD.size)
    if magic != MAGIC:
        raise RecordError("no entry begins here")
    if head_crc != _crc32c(0, data[start : start + _HEAD.size]):
        raise RecordError("the entry's header does not match its checksum")
    if version != VERSION or flags or reserved:
        raise RecordError(f"entry format version {version}, flags {flags} is not known here")
    return EntryHeader(LSN(ledger, entry), LSN(before_l, before_e), lac, parts, size, before_crc, crc)


def decode_entry(data: bytes) -> LogEntry:
    """The entry that is all of ``data``; RecordError when it does not match its own checksums."""
    header = decode_header(data)
    if len(data) != HEADER_BYTES + header.body_bytes:
        raise RecordError("an entry's length is not what its header says")
    body = data[HEADER_BYTES:]
    crc = _crc32c(_crc32c(header.predecessor_crc, data[: HEADER_BYTES - 4]), body)
    if crc != header.crc:
        raise RecordError("the entry's body does not match its checksum")
    return LogEntry(header, decode_parts(body, header.parts))


def decode_parts(body: bytes, count: int) -> tuple[EntryPart, ...]:
    """The ``count`` parts that fill an entry's body; RecordError when they do not."""
    parts: list[EntryPart] = []
    at, total = 0, len(body)
    for _ in range(count):
        if at + PART_BYTES > total:
            raise RecordError("an entry's body ends in the middle of a part")
        flags, size = _PART.unpack_from(body, at)
        at += PART_BYTES
        if at + size > total or flags & ~WHOLE:
            raise RecordError("a transaction part does not fit its entry")
        parts.append(EntryPart(bool(flags & FIRST), bool(flags & LAST), body[at : at + size]))
        at += size
    if at != total:
        raise RecordError("bytes follow the last part of an entry")
    if any(not part.last for part in parts) and len(parts) != 1:
        raise RecordError("a part that is not its transaction's last shares its entry")
    return tuple(parts)


def fits(size: int, max_entry_bytes: int) -> bool:
    """Whether a transaction of ``size`` bytes fits one entry."""
    return size + PART_BYTES + HEADER_BYTES <= max_entry_bytes


def pack(bodies: Sequence[Body], max_entry_bytes: int) -> Iterator[tuple[list[bytes], list[int]]]:
    """The parts of each entry, and the transactions (by place) that take effect in it.

    A transaction shares an entry with others when it fits one. A larger one is cut: its parts but
    the last have an entry each to themselves, so that no other transaction takes effect between
    its first part and its last, nor in the entry where it begins. A part is made when it is asked for.
    """
    room = max(max_entry_bytes - HEADER_BYTES, PART_BYTES + 1)
    current: list[bytes] = []
    ending: list[int] = []
    used = 0
    for place, body in enumerate(bodies):
        size = PART_BYTES + len(body)
        if used + size > room and current:
            yield current, ending
            current, ending, used = [], [], 0
        if size > room:
            step, at, first = room - PART_BYTES, 0, FIRST
            while len(body) - at > step:
                yield [encode_part(body[at : at + step], first)], []
                at, first = at + step, 0
            size = PART_BYTES + len(body) - at
            current.append(encode_part(body[at:], LAST))
        else:
            current.append(encode_part(body[:]))
        used += size
        ending.append(place)
    if current:
        yield current, ending
