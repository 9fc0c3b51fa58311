"""Transactions and entries: what takes effect together, and what the log writes and ships at once.

Above ``records``, below every ledger; no I/O. Appends become transactions, ``pack`` makes entries of a group
of them, and TransactionAssembler makes transactions of the entries that a ledger of any kind gives back.

An entry holds many transactions (group commit), or one part of a transaction that is larger than an entry. Of
a large one most bytes are in a file, and whoever writes it to the log asks for one stretch after the other.
An entry names its predecessor and carries a CRC32C (RFC 3720, appendix B.4) that continues the predecessor's,
so a missing, repeated, foreign or altered entry shows at the next one. The same bytes are the body of an
entry of a BookKeeper ledger and of a file's.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from struct import Struct
from typing import Final, Protocol

from google_crc32c import extend as _crc32c
from mypy_extensions import mypyc_attr

from herdpy.log.errors import ChainError, NewerFormatError, RecordError
from herdpy.log.lsn import LSN, START
from herdpy.log.records import FRAME_BYTES, Record, decode_records


class StoredRecords(Protocol):
    """Encoded records in a file that does not change any more.

    Attributes:
        count: how many there are.
        size_bytes: their length.
    """

    count: int
    size_bytes: int

    def read(self, offset: int, size: int) -> bytes:
        """So many bytes from ``offset`` on."""


class StoredBody:
    """The bytes of a transaction: ``head``, then those of the stored records, then ``tail``."""

    __slots__ = ("_head", "_stored", "_tail")

    def __init__(self, head: bytes, stored: StoredRecords, tail: bytes) -> None:
        self._head = head
        self._stored = stored
        self._tail = tail

    def __len__(self) -> int:
        return len(self._head) + self._stored.size_bytes + len(self._tail)

    def __getitem__(self, stretch: slice) -> bytes:
        start, stop, step = stretch.indices(len(self))
        assert step == 1
        head, middle = len(self._head), len(self._head) + self._stored.size_bytes
        parts = [self._head[start:stop]] if start < head else []
        first, last = max(start, head), min(stop, middle)
        if first < last:
            parts.append(self._stored.read(first - head, last - first))
        if stop > middle:
            parts.append(self._tail[max(start - middle, 0) : stop - middle])
        return b"".join(parts)


Body = bytes | StoredBody
"""What a transaction is encoded to."""


_TRANSACTION: Final = Struct(">qB")
_COUNT: Final = Struct(">I")
_HEAD_NO_ID: Final = Struct(">qBI")
MAX_REQUEST_ID_BYTES: Final = 64
_LENGTH = Struct(">xxI")  # in a record's frame
_AT_ONCE, _AT_ONCE_BYTES = 512, 1 << 20


@dataclass(slots=True, init=False)
class LoggedTransaction:
    """What one COMMIT makes durable.

    Attributes:
        timestamp_us: commit time, microseconds since 1970-01-01 UTC, the leader's clock.
        records: the changes, in the order they are applied.
        request_id: the client's name for the commit, at most 64 bytes, by which an unknown outcome
            is resolved later; empty when it has none.
        encoded: the bytes of the first records, as many as ``encoded_count``, where whoever appends has
            made them before (see :func:`encode_records`); neither logged again nor compared.
        before: the records that come before ``records``, encoded, where there are so many that they lie in
            a file; neither logged again nor compared.
    """

    timestamp_us: int
    records: list[Record]
    request_id: bytes
    encoded: Sequence[bytes] = field(compare=False, repr=False)
    encoded_count: int = field(compare=False, repr=False)
    before: StoredRecords | None = field(compare=False, repr=False)

    def __init__(
        self,
        timestamp_us: int,
        records: list[Record] | None = None,
        request_id: bytes = b"",
        encoded: Sequence[bytes] = (),
        encoded_count: int = 0,
        before: StoredRecords | None = None,
    ) -> None:
        self.timestamp_us = timestamp_us
        self.records = [] if records is None else records
        self.request_id = request_id
        self.encoded = encoded
        self.encoded_count = encoded_count
        self.before = before

    def encode(self) -> bytes:
        """The transaction's bytes; RecordError when a number or a length is out of its range."""
        return self.body()[:]

    def body(self) -> Body:
        """As :meth:`encode`; those that lie in a file are read from there when they are asked for."""
        try:
            return self._encode()
        except struct.error as error:
            raise RecordError(f"the transaction cannot be encoded: {error}") from error

    def _encode(self) -> Body:
        records, request_id, before = self.records, self.request_id, self.before
        count = len(records) if before is None else before.count + len(records)
        if not request_id:
            head = _HEAD_NO_ID.pack(self.timestamp_us, 0, count)
            if count == 1 and not self.encoded:
                return head + records[0].encode()
        else:
            if len(request_id) > MAX_REQUEST_ID_BYTES:
                raise RecordError(f"a request id has {len(request_id)} bytes, at most 64 are allowed")
            head = _TRANSACTION.pack(self.timestamp_us, len(request_id)) + request_id + _COUNT.pack(count)
        parts = [*self.encoded]
        for record in records[self.encoded_count :] if self.encoded else records:
            parts.append(record.encode())  # noqa: PERF401 - a comprehension is a call
        if before is not None:
            return StoredBody(head, before, b"".join(parts))
        return b"".join([head, *parts])

    @staticmethod
    def decode(data: bytes) -> LoggedTransaction:
        """The transaction that ``encode`` wrote; RecordError when the bytes are none."""
        timestamp_us, request_id, start, count = _head(data)
        return LoggedTransaction(timestamp_us, decode_records(data, start, count), request_id)

    @staticmethod
    def decode_in_steps(data: bytes) -> Generator[None, None, LoggedTransaction]:
        """As ``decode``, for a large transaction: between the steps others may have their turn."""
        timestamp_us, request_id, start, count = _head(data)
        records: list[Record] = []
        while count > 1:
            some, stop = _some(data, start, count - 1)
            records += decode_records(data[start:stop], 0, some)
            start, count = stop, count - some
            yield
        records += decode_records(data, start, count)
        return LoggedTransaction(timestamp_us, records, request_id)


def _head(data: bytes) -> tuple[int, bytes, int, int]:
    """A transaction's time, its request id, and where how many records begin; RecordError."""
    size = len(data)
    if size < _HEAD_NO_ID.size:
        raise RecordError("a transaction is shorter than its head")
    timestamp_us, id_size = _TRANSACTION.unpack_from(data, 0)
    at = _TRANSACTION.size + id_size
    if id_size > MAX_REQUEST_ID_BYTES or at + 4 > size:
        raise RecordError("a transaction's request id is longer than it may be")
    return timestamp_us, data[_TRANSACTION.size : at], at + 4, _COUNT.unpack_from(data, at)[0]


def records_head(data: bytes) -> tuple[int, bytes, int, int]:
    """A transaction's commit time in microseconds, its request id, and where how many records begin.

    RecordError: the bytes are none.
    """
    if len(data) >= _HEAD_NO_ID.size:
        timestamp_us, id_size, count = _HEAD_NO_ID.unpack_from(data, 0)
        if not id_size:
            return timestamp_us, b"", _HEAD_NO_ID.size, count
    return _head(data)


def transaction_head(data: bytes) -> tuple[int, bytes, bool]:
    """A transaction's commit time in microseconds, its request id, and whether it has records.

    RecordError: the bytes are none.
    """
    timestamp_us, request_id, _start, count = _head(data)
    return timestamp_us, request_id, count > 0


def _some(data: bytes, start: int, most: int) -> tuple[int, int]:
    """How many of the ``most`` records that begin at ``start`` to decode at a time, and where they end."""
    total, unpack = len(data), _LENGTH.unpack_from
    count, until = 0, start + _AT_ONCE_BYTES
    while count < min(most, _AT_ONCE) and start < until:
        if start + FRAME_BYTES > total:
            raise RecordError("a transaction ends in the middle of a record")
        start += FRAME_BYTES + unpack(data, start)[0]
        count += 1
    if start > total:
        raise RecordError("a record is longer than its transaction")
    return count, start


def encode_records(records: Sequence[Record]) -> bytes:
    """The bytes of records that follow one another, for ``Transaction.encoded``.

    Raises:
        RecordError: a number or a length is out of its range.
    """
    try:
        return b"".join([record.encode() for record in records])
    except struct.error as error:
        raise RecordError(f"the transaction cannot be encoded: {error}") from error


# Entries.

MAGIC: Final = b"HPEN"
VERSION: Final = 1
# magic, version, flags, reserved, ledger, entry, predecessor (ledger, entry), LAC, parts, body
# length, predecessor's CRC; then the CRC of all that, then the running CRC.
_HEAD: Final = Struct(">4sBBHqqqqqIII")
_CRC: Final = Struct(">I")
_CRCS = Struct(">II")
HEADER_BYTES: Final = _HEAD.size + _CRCS.size
PART_BYTES: Final = 5
_PART: Final = Struct(">BI")
FIRST: Final = 1
LAST: Final = 2
WHOLE = FIRST | LAST
#: The CRC before the first entry of a log.
START_CRC = 0


@dataclass(slots=True, init=False)
class EntryPart:
    """A transaction's bytes in one entry: all of them, or a stretch of a large one's. It does not change."""

    first: bool
    last: bool
    data: bytes

    def __init__(self, first: bool, last: bool, data: bytes) -> None:  # of one frozen it takes thrice as long
        self.first = first
        self.last = last
        self.data = data


@dataclass(slots=True, init=False)
class EntryHeader:
    """The fixed head of an entry. It does not change.

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

    def __init__(
        self,
        lsn: LSN,
        predecessor: LSN,
        lac: int,
        parts: int,
        body_bytes: int,
        predecessor_crc: int,
        crc: int,
    ) -> None:
        self.lsn = lsn
        self.predecessor = predecessor
        self.lac = lac
        self.parts = parts
        self.body_bytes = body_bytes
        self.predecessor_crc = predecessor_crc
        self.crc = crc


@dataclass(slots=True, init=False)
class LogEntry:
    """An entry, decoded and checked against itself; the chain is checked by readers of several.

    It does not change.
    """

    header: EntryHeader
    parts: tuple[EntryPart, ...]

    def __init__(self, header: EntryHeader, parts: tuple[EntryPart, ...]) -> None:
        self.header = header
        self.parts = parts

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
    """The header at ``start``; RecordError when it is none or is damaged, NewerFormatError."""
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
        raise NewerFormatError(f"entry format version {version}, flags {flags} is not known here")
    return EntryHeader(LSN(ledger, entry), LSN(before_l, before_e), lac, parts, size, before_crc, crc)


def decode_entry(data: bytes) -> LogEntry:
    """The entry that is all of ``data``; RecordError when it does not match its own checksums."""
    header = decode_header(data)
    body = checked_body(header, data)
    return LogEntry(header, decode_parts(body, header.parts))


def checked_body(header: EntryHeader, data: bytes) -> bytes:
    """The body of the entry that is all of ``data``; RecordError when it is not what its header says."""
    if len(data) != HEADER_BYTES + header.body_bytes:
        raise RecordError("an entry's length is not what its header says")
    body = data[HEADER_BYTES:]
    crc = _crc32c(_crc32c(header.predecessor_crc, data[: HEADER_BYTES - 4]), body)
    if crc != header.crc:
        raise RecordError("the entry's body does not match its checksum")
    return body


def entry_bytes(entry: LogEntry) -> bytes:
    """The entry as it stands in its ledger."""
    header = entry.header
    parts = [encode_part(one.data, one.first * FIRST | one.last * LAST) for one in entry.parts]
    data, crc = encode_entry(header.lsn, header.predecessor, header.predecessor_crc, header.lac, parts)
    assert crc == header.crc, "an entry is made of what it was decoded to"
    return data


def decode_parts(body: bytes, count: int) -> tuple[EntryPart, ...]:
    """The ``count`` parts that fill an entry's body; RecordError when they do not."""
    parts: list[EntryPart] = []
    at, total = 0, len(body)
    unpack, both = _PART.unpack_from, WHOLE
    for _ in range(count):
        if at + PART_BYTES > total:
            raise RecordError("an entry's body ends in the middle of a part")
        flags, size = unpack(body, at)
        at += PART_BYTES
        end = at + size
        if end > total or flags > both:
            raise RecordError("a transaction part does not fit its entry")
        if flags == both:
            parts.append(EntryPart(True, True, body[at:end]))
        elif flags & LAST or count == 1:
            parts.append(EntryPart(bool(flags & FIRST), bool(flags & LAST), body[at:end]))
        else:
            raise RecordError("a part that is not its transaction's last shares its entry")
        at = end
    if at != total:
        raise RecordError("bytes follow the last part of an entry")
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


# From entries back to transactions.


@mypyc_attr(allow_interpreted_subclasses=True)
@dataclass(slots=True)
class TransactionAssembler:
    """Puts parts together and refuses entries that do not follow one another.

    Attributes:
        position: the last entry that was fed (at first: where reading starts after).
        safe: the position to read after next time. It stays before a transaction of which only
            some parts have come, so nothing of it is missed; a checkpoint must record this one.
        crc: running CRC of the entry at ``position``; None when it is not known, then the first
            entry's word is taken for it.
    """

    position: LSN = START
    crc: int | None = None
    safe: LSN = field(init=False)
    _parts: list[bytes] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.safe = self.position

    def feed(self, entry: LogEntry) -> list[tuple[LSN, LoggedTransaction]]:
        """The transactions that take effect with this entry, each with this entry's position.

        Raises:
            ChainError: the entry is not the one after the last. Nothing of it was taken.
            RecordError: the entry's bytes make no transaction.
        """
        lsn = entry.header.lsn
        return [(lsn, LoggedTransaction.decode(data)) for data in self.take(entry)]

    def take(self, entry: LogEntry) -> list[bytes]:
        """As ``feed``, for who decodes the transactions himself."""
        header = entry.header
        if header.predecessor != self.position:
            raise ChainError(
                f"entry {header.lsn} follows {header.predecessor}, but {self.position} was the last one read"
            )
        if self.crc is not None and header.predecessor_crc != self.crc:
            raise ChainError(f"entry {header.lsn} continues another history than {self.position}'s")
        done: list[bytes] = []
        parts = self._parts
        for part in entry.parts:
            if part.first:
                # A first part while others wait: their writer stopped before the last one, so
                # they take no effect.
                if part.last:
                    parts = None
                    done.append(part.data)
                    continue
                parts = [part.data]
            elif parts is None:
                raise RecordError(f"entry {header.lsn} continues a transaction that was not begun")
            else:
                parts.append(part.data)
                if part.last:
                    done.append(b"".join(parts))
                    parts = None
        self._parts = parts
        self.position, self.crc = header.lsn, header.crc
        if parts is None:
            self.safe = header.lsn
        return done
