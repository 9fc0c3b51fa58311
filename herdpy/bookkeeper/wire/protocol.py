"""The numbers of the protocol (statuses, operations, flags), varints and length prefixes.

Lowest layer of ``wire``. Replies carry a status as a plain int, so that a number this client does not know
survives (``errors.error_of`` then names it). A frame is its length as u32 big-endian, then that many bytes.

Format: BookKeeper's proto/BookkeeperProtocol.proto (version 3) and proto/BookieProtocol.java (version 2);
protobuf's base-128 varints (groups of seven bits, lowest first; negative numbers as 64-bit two's complement).
"""

from __future__ import annotations

import struct
from enum import IntEnum, IntFlag
from functools import lru_cache
from typing import Final

PROTOCOL_VERSION: Final = 3

LAST_ENTRY: Final = -1
"""As the entry id of a read: the last entry this bookie holds of the ledger."""

MASTER_KEY_BYTES: Final = 20

DEFAULT_MAX_FRAME_BYTES: Final = 5 * 1024 * 1024
"""What a bookie accepts unless it was configured otherwise (nettyMaxFrameSizeBytes)."""


class ReplyStatus(IntEnum):
    """What a bookie answers; EOK is success."""

    EOK = 0
    ENOLEDGER = 402
    ENOENTRY = 403
    EBADREQ = 404
    EIO = 501
    EUA = 502
    EBADVERSION = 503
    EFENCED = 504
    EREADONLY = 505
    ETOOMANYREQUESTS = 506
    EUNKNOWNLEDGERSTATE = 507


class Operation(IntEnum):
    """What a request asks for; a reply repeats it."""

    READ_ENTRY = 1
    ADD_ENTRY = 2
    RANGE_READ_ENTRY = 3
    RANGE_ADD_ENTRY = 4
    AUTH = 5
    WRITE_LAC = 6
    READ_LAC = 7
    GET_BOOKIE_INFO = 8
    START_TLS = 9
    FORCE_LEDGER = 10
    GET_LIST_OF_ENTRIES = 11
    BATCH_READ_ENTRY = 12


class ReadFlag(IntEnum):
    """Modes of a read: fencing the ledger first, or waiting for the last add confirmed to move."""

    FENCE_LEDGER = 1
    ENTRY_PIGGYBACK = 2


class AddFlag(IntEnum):
    """Modes of an add: RECOVERY_ADD passes the fence."""

    RECOVERY_ADD = 1


class WriteFlag(IntFlag):
    """Bits of an add's writeFlags. DEFERRED_SYNC: answered before the journal is synced."""

    NONE = 0
    DEFERRED_SYNC = 1


class InfoField(IntFlag):
    """Bits of a bookie-info request."""

    TOTAL_DISK_CAPACITY = 1
    FREE_DISK_SPACE = 2


HIGH_PRIORITY: Final = 1
"""Priority of recovery adds: a bookie that is busy or read-only may still take them."""


# Varints and frames.

pack_length: Final = struct.Struct(">I").pack
"""A length prefix; raises struct.error above 2**32 - 1."""

_MASK_64: Final = (1 << 64) - 1


def frame(body: bytes) -> bytes:
    """The message with its length prefix."""
    return pack_length(len(body)) + body


def encode_any(number: int) -> bytes:
    """The varint of a number from -2**63 to 2**64 - 1."""
    number &= _MASK_64
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


SHORT: Final = (
    *(bytes((number,)) for number in range(1 << 7)),
    *(bytes((low, high)) for high in range(1, 1 << 7) for low in range(1 << 7, 1 << 8)),
)
"""Varints below 2**14, by number."""

LOW: Final = tuple(bytes((number & 127 | 128, number >> 7 | 128)) for number in range(1 << 14))
"""The first two bytes of longer varints, by the low 14 bits."""


def encode(number: int) -> bytes:
    """``encode_any``, fast for numbers below 2**28."""
    if 0 <= number < 16384:
        return SHORT[number]
    if 0 <= number < 268435456:
        return LOW[number & 16383] + SHORT[number >> 14]
    return encode_any(number)


def decode(data: bytes) -> int:
    """The number of a varint that is known to be whole and of at most nine bytes (63 bits)."""
    size = len(data)
    if size == 3:
        return data[0] & 127 | (data[1] & 127) << 7 | data[2] << 14
    if size == 4:
        return data[0] & 127 | (data[1] & 127) << 7 | (data[2] & 127) << 14 | data[3] << 21
    number = 0
    for byte in reversed(data):
        number = number << 7 | byte & 127
    return number


recall: Final = lru_cache(maxsize=4096)(decode)
"""``decode`` for numbers that come again and again, such as the ledger's id and lengths."""
