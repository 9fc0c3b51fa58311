"""Digests: what makes an entry prove that it is the one that was written.

Between the ledger and the wire: a writer seals each entry (header, digest, data) before the wire frames
it, a reader opens what a bookie returns. Pure; one ``Digest`` serves all ledgers of one password.

Format: BookKeeper's proto/checksum/DigestManager.java and its four implementations. An entry's body is
ledger id, entry id, last add confirmed and length (i64, big-endian), then the digest over those 32 bytes
followed by the data, then the data. An explicit last add confirmed is ledger id and LAC, then the digest
over those 16 bytes.
"""

from __future__ import annotations

import enum
import hashlib
import hmac
import struct
import zlib
from collections.abc import Callable
from typing import Final, NamedTuple

import google_crc32c

from herdpy.bookkeeper.errors import DigestMismatchError

HEADER_BYTES: Final = 32
LAC_HEADER_BYTES: Final = 16

_unpack_header: Final = struct.Struct(">qqqq").unpack_from
_pack_lac: Final = struct.Struct(">qq").pack
_unpack_lac: Final = struct.Struct(">qq").unpack_from

Checksum = Callable[[bytes, bytes], bytes]
"""From header and data to the digest over both."""


def entry_id_in(body: bytes) -> int:
    """Which entry's body this is. Only of a body whose digest was checked."""
    entry_id: int = _unpack_header(body)[1]
    return entry_id


class DigestType(enum.Enum):
    """How entries are protected; the values are those of the ledger metadata.

    HMAC (with the password as its key) detects tampering, CRC32C and CRC32 accidents, DUMMY nothing.
    """

    CRC32 = 1
    HMAC = 2
    CRC32C = 3
    DUMMY = 4

    @property
    def size_bytes(self) -> int:
        """What the digest adds to each entry."""
        return _SIZES[self]


_SIZES: Final = {DigestType.CRC32: 8, DigestType.HMAC: 20, DigestType.CRC32C: 4, DigestType.DUMMY: 0}


class Entry(NamedTuple):
    """One entry as it was written.

    ``lac``: the last add confirmed the writer knew when it sent this entry. ``length``: bytes of data in
    the ledger up to and including this entry.
    """

    ledger_id: int
    entry_id: int
    lac: int
    length: int
    data: bytes


_new_entry: Final = tuple.__new__  # what a named tuple does, in half the time
_same: Final = hmac.compare_digest


def master_key(password: bytes) -> bytes:
    """The 20 bytes by which bookies know the owner of a ledger; the same for every digest type."""
    return hashlib.sha1(b"ledger" + password, usedforsecurity=False).digest()


def _crc32c() -> Checksum:
    value, extend = google_crc32c.value, google_crc32c.extend
    pack = struct.Struct(">I").pack
    return lambda header, data: pack(extend(value(header), data))


def _crc32() -> Checksum:
    crc32 = zlib.crc32
    pack = struct.Struct(">Q").pack
    return lambda header, data: pack(crc32(data, crc32(header)))


def _hmac(password: bytes) -> Checksum:
    key = hashlib.sha1(b"mac" + password, usedforsecurity=False).digest()
    keyed = hmac.new(key, digestmod="sha1")

    def checksum(header: bytes, data: bytes) -> bytes:
        state = keyed.copy()
        state.update(header)
        state.update(data)
        return state.digest()

    return checksum


def _dummy() -> Checksum:
    return lambda _header, _data: b""


class Digest:
    """Seals and opens the entries of ledgers that share one digest type and password.

    ``type``; ``overhead_bytes``: what a body is longer than its data; ``checksum(header, data)``: the
    digest itself. All data must be ``bytes`` (the checksum library takes nothing else).
    """

    __slots__ = ("checksum", "overhead_bytes", "type")

    def __init__(self, type: DigestType, checksum: Checksum) -> None:
        self.type: Final = type
        self.checksum: Final = checksum
        self.overhead_bytes: Final = HEADER_BYTES + type.size_bytes

    @classmethod
    def of(cls, type: DigestType, password: bytes) -> Digest:
        """The digest of this type; the password matters to HMAC only."""
        if type is DigestType.CRC32C:
            return cls(type, _crc32c())
        if type is DigestType.CRC32:
            return cls(type, _crc32())
        if type is DigestType.HMAC:
            return cls(type, _hmac(password))
        return cls(type, _dummy())

    def __repr__(self) -> str:
        return f"Digest({self.type.name})"

    def open(self, body: bytes, ledger_id: int, entry_id: int | None) -> Entry:
        """The entry in ``body``; any entry of the ledger when ``entry_id`` is None.

        Raises DigestMismatchError when the body is too short, the digest differs, or the body is
        another ledger's or another entry's.
        """
        return self.open_at(body, 0, len(body), ledger_id, entry_id)

    def open_at(self, frame: bytes, start: int, end: int, ledger_id: int, entry_id: int | None) -> Entry:
        """As ``open``, of the body from ``start`` to ``end`` in a frame: its data is copied once."""
        data_start = start + self.overhead_bytes
        if end < data_start:
            raise DigestMismatchError(
                f"{end - start} bytes are too few for an entry with a {self.type.name} digest",
                ledger_id=ledger_id,
                entry_id=entry_id,
            )
        digest_start = start + HEADER_BYTES
        header = frame[start:digest_start]
        data = frame[data_start:end]
        if not _same(self.checksum(header, data), frame[digest_start:data_start]):
            raise DigestMismatchError(ledger_id=ledger_id, entry_id=entry_id)
        found_ledger, found_entry, lac, length = _unpack_header(header)
        if found_ledger != ledger_id or (found_entry != entry_id and entry_id is not None):
            raise DigestMismatchError(
                f"requested another entry, received entry {found_entry} of ledger {found_ledger}",
                ledger_id=ledger_id,
                entry_id=entry_id,
            )
        return _new_entry(Entry, (found_ledger, found_entry, lac, length, data))

    def seal_lac(self, ledger_id: int, lac: int) -> bytes:
        """The body of an explicit last add confirmed."""
        header = _pack_lac(ledger_id, lac)
        return header + self.checksum(header, b"")

    def open_lac(self, body: bytes, ledger_id: int) -> int:
        """The last add confirmed in ``body``.

        Raises DigestMismatchError as ``open`` does. Bytes after the digest are ignored, as Java does.
        """
        end = LAC_HEADER_BYTES + self.type.size_bytes
        if len(body) < end:
            raise DigestMismatchError(
                f"{len(body)} bytes are too few for a last add confirmed with a {self.type.name} digest",
                ledger_id=ledger_id,
            )
        header = body[:LAC_HEADER_BYTES]
        if not _same(self.checksum(header, b""), body[LAC_HEADER_BYTES:end]):
            raise DigestMismatchError(ledger_id=ledger_id)
        found_ledger, lac = _unpack_lac(header)
        if found_ledger != ledger_id:
            raise DigestMismatchError(
                f"requested another ledger, received ledger {found_ledger}", ledger_id=ledger_id
            )
        return int(lac)
