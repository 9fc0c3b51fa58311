"""A transaction: the records that take effect together. Above ``records``, below ``entry``.

Its bytes travel in one entry, or, when they are too many, in parts over several; see ``entry``.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from struct import Struct

from herdpy.log.errors import RecordError
from herdpy.log.records import Record, decode_records

_HEAD = Struct(">qB")
_COUNT = Struct(">I")
_HEAD_NO_ID = Struct(">qBI")
MAX_REQUEST_ID_BYTES = 64


@dataclass(slots=True)
class Transaction:
    """What one COMMIT makes durable.

    Attributes:
        timestamp_us: commit time, microseconds since 1970-01-01 UTC, the leader's clock.
        records: the changes, in the order they are applied.
        request_id: the client's name for the commit, at most 64 bytes, by which an unknown outcome
            is resolved later; empty when it has none.
    """

    timestamp_us: int
    records: list[Record] = field(default_factory=list)
    request_id: bytes = b""

    def encode(self) -> bytes:
        """The transaction's bytes; RecordError when a number or a length is out of its range."""
        try:
            return self._encode()
        except struct.error as error:
            raise RecordError(f"the transaction cannot be encoded: {error}") from error

    def _encode(self) -> bytes:
        records, request_id = self.records, self.request_id
        if not request_id:
            head = _HEAD_NO_ID.pack(self.timestamp_us, 0, len(records))
            if len(records) == 1:
                return head + records[0].encode()
        else:
            if len(request_id) > MAX_REQUEST_ID_BYTES:
                raise RecordError(f"a request id has {len(request_id)} bytes, at most 64 are allowed")
            head = _HEAD.pack(self.timestamp_us, len(request_id)) + request_id + _COUNT.pack(len(records))
        parts = [head]
        parts += [record.encode() for record in records]
        return b"".join(parts)

    @staticmethod
    def decode(data: bytes) -> Transaction:
        """The transaction that ``encode`` wrote; RecordError when the bytes are none."""
        size = len(data)
        if size < _HEAD_NO_ID.size:
            raise RecordError("a transaction is shorter than its head")
        timestamp_us, id_size = _HEAD.unpack_from(data, 0)
        at = _HEAD.size + id_size
        if id_size > MAX_REQUEST_ID_BYTES or at + 4 > size:
            raise RecordError("a transaction's request id is longer than it may be")
        (count,) = _COUNT.unpack_from(data, at)
        return Transaction(timestamp_us, decode_records(data, at + 4, count), data[_HEAD.size : at])
