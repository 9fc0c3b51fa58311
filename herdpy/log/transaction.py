"""A transaction: the records that take effect together. Above ``records``, below ``entry``.

Its bytes travel in one entry, or, when they are too many, in parts over several; see ``entry``. Of a large
one most of them are in a file: whoever writes them to the log asks for one stretch after the other.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from struct import Struct
from typing import Protocol

from herdpy.log.errors import RecordError
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


_HEAD = Struct(">qB")
_COUNT = Struct(">I")
_HEAD_NO_ID = Struct(">qBI")
MAX_REQUEST_ID_BYTES = 64
_LENGTH = Struct(">xxI")  # in a record's frame
_AT_ONCE, _AT_ONCE_BYTES = 512, 1 << 20


@dataclass(slots=True)
class Transaction:
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
    records: list[Record] = field(default_factory=list)
    request_id: bytes = b""
    encoded: Sequence[bytes] = field(default=(), compare=False, repr=False)
    encoded_count: int = field(default=0, compare=False, repr=False)
    before: StoredRecords | None = field(default=None, compare=False, repr=False)

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
            head = _HEAD.pack(self.timestamp_us, len(request_id)) + request_id + _COUNT.pack(count)
        parts = [*self.encoded]
        parts += [record.encode() for record in (records[self.encoded_count :] if self.encoded else records)]
        if before is not None:
            return StoredBody(head, before, b"".join(parts))
        return b"".join([head, *parts])

    @staticmethod
    def decode(data: bytes) -> Transaction:
        """The transaction that ``encode`` wrote; RecordError when the bytes are none."""
        timestamp_us, request_id, start, count = _head(data)
        return Transaction(timestamp_us, decode_records(data, start, count), request_id)

    @staticmethod
    def decode_in_steps(data: bytes) -> Generator[None, None, Transaction]:
        """As ``decode``, for a large transaction: between the steps others may have their turn."""
        timestamp_us, request_id, start, count = _head(data)
        records: list[Record] = []
        while count > 1:
            some, stop = _some(data, start, count - 1)
            records += decode_records(data[start:stop], 0, some)
            start, count = stop, count - some
            yield
        records += decode_records(data, start, count)
        return Transaction(timestamp_us, records, request_id)


def _head(data: bytes) -> tuple[int, bytes, int, int]:
    """A transaction's time, its request id, and where how many records begin; RecordError."""
    size = len(data)
    if size < _HEAD_NO_ID.size:
        raise RecordError("a transaction is shorter than its head")
    timestamp_us, id_size = _HEAD.unpack_from(data, 0)
    at = _HEAD.size + id_size
    if id_size > MAX_REQUEST_ID_BYTES or at + 4 > size:
        raise RecordError("a transaction's request id is longer than it may be")
    return timestamp_us, data[_HEAD.size : at], at + 4, _COUNT.unpack_from(data, at)[0]


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
