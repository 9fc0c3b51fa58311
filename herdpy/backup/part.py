"""A part: bytes as they lie in a file of a repository, compressed, encrypted on request, and checked.

Below ``repository``; pure. A part names the repository and the file that it is written to, so one that was
moved, exchanged or brought from elsewhere is found::

    HPBK, version 1, flags (1 byte: 1 encrypted), length of the head (2 bytes)
    head: JSON with repository, name and size_bytes (of the contents)
    encrypted: a nonce of 12 bytes, then AES-256-GCM of the zstd frame, with all before it as associated data
    otherwise: the zstd frame
    XXH3-128 of all that comes before, 16 bytes

Zstandard is RFC 8878, AES-GCM is NIST SP 800-38D.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass, field
from typing import Final

import msgspec
import zstandard
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from xxhash import xxh3_128_digest

from herdpy.backup.errors import DamagedPartError

_MAGIC: Final = b"HPBK"
VERSION: Final = 1
_ENCRYPTED: Final = 1
_START = struct.Struct(">4sBBH")
_NONCE_BYTES = 12
_SUM_BYTES = 16
MAX_CONTENT_BYTES: Final = 64 << 20
"""A part has no more contents: it is read and written as a whole."""
LEVEL: Final = 1


class _Head(msgspec.Struct, frozen=True):
    repository: str
    name: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class PartCodec:
    """Makes and reads the parts of one repository; threads may share it.

    Attributes:
        repository: its id.
        key: of 32 bytes for AES-256-GCM; None: parts are not encrypted.
        level: zstd's.
    """

    repository: str
    key: bytes | None = field(default=None, repr=False)
    level: int = LEVEL

    def encode(self, name: str, contents: bytes | bytearray | memoryview) -> bytes:
        """The file ``name``. ValueError: more contents than a part may have."""
        size = len(contents)
        if size > MAX_CONTENT_BYTES:
            raise ValueError(f"a part of {size} bytes is larger than {MAX_CONTENT_BYTES}")
        head = msgspec.json.encode(_Head(self.repository, name, size))
        start = _START.pack(_MAGIC, VERSION, _ENCRYPTED if self.key else 0, len(head)) + head
        body = zstandard.ZstdCompressor(level=self.level).compress(contents)
        if self.key is not None:
            nonce = os.urandom(_NONCE_BYTES)
            body = nonce + AESGCM(self.key).encrypt(nonce, body, start)
        data = start + body
        return data + xxh3_128_digest(data)

    def decode(self, name: str, data: bytes) -> bytes:
        """The contents of the file ``name``. DamagedPartError: ``encode`` did not make it for that name."""
        if len(data) < _START.size + _SUM_BYTES:
            raise DamagedPartError(name, f"it has {len(data)} bytes, fewer than any part")
        if xxh3_128_digest(memoryview(data)[:-_SUM_BYTES]) != data[-_SUM_BYTES:]:
            raise DamagedPartError(name, "it does not match its checksum")
        magic, version, flags, head_size = _START.unpack_from(data)
        if magic != _MAGIC:
            raise DamagedPartError(name, "it is no part of a backup")
        if version != VERSION or flags & ~_ENCRYPTED:
            raise DamagedPartError(name, f"its format is version {version}, flags {flags}, not known here")
        stop = _START.size + head_size
        head = self._head(name, data[_START.size : stop])
        return self._contents(name, data[:stop], data[stop:-_SUM_BYTES], bool(flags & _ENCRYPTED), head)

    def _head(self, name: str, data: bytes) -> _Head:
        try:
            head = msgspec.json.decode(data, type=_Head)
        except msgspec.MsgspecError as error:
            raise DamagedPartError(name, f"its head cannot be read: {error}") from error
        if head.repository != self.repository:
            raise DamagedPartError(name, f"it is a part of another repository, {head.repository}", "foreign")
        if head.name != name:
            raise DamagedPartError(name, f"it is another part, {head.name}", "misplaced")
        if not 0 <= head.size_bytes <= MAX_CONTENT_BYTES:
            raise DamagedPartError(name, f"it says that it has {head.size_bytes} bytes")
        return head

    def _contents(self, name: str, start: bytes, body: bytes, encrypted: bool, head: _Head) -> bytes:
        if encrypted != (self.key is not None):
            raise DamagedPartError(name, "it is encrypted" if encrypted else "it is not encrypted")
        if self.key is not None:
            try:
                body = AESGCM(self.key).decrypt(body[:_NONCE_BYTES], body[_NONCE_BYTES:], start)
            except (InvalidTag, ValueError):
                raise DamagedPartError(name, "it was changed, or encrypted with another key") from None
        try:
            contents = zstandard.ZstdDecompressor().decompress(body, max_output_size=head.size_bytes)
        except zstandard.ZstdError as error:
            raise DamagedPartError(name, f"it cannot be decompressed: {error}") from error
        if len(contents) != head.size_bytes:
            raise DamagedPartError(name, f"it has {len(contents)} bytes, not {head.size_bytes}")
        return contents
