"""Bodies of entries as the format has them, put together without the encoder of the product."""

from __future__ import annotations

import struct

from herdpy.bookkeeper.digest import Digest


def sealed_body(digest: Digest, ledger_id: int, entry_id: int, lac: int, length: int, data: bytes) -> bytes:
    """Header, digest and data of an entry. ``length`` is cumulative and counts ``data``."""
    header = struct.pack(">qqqq", ledger_id, entry_id, lac, length)
    return b"".join((header, digest.checksum(header, data), data))
