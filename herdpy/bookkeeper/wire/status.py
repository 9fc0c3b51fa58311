"""The numbers of the protocol: statuses, operations, flags.

Lowest layer of ``wire``: every other module of it takes its numbers from here. Replies carry a status
as a plain int, so that a number this client does not know survives (``errors.error_of`` then names it).

Format: BookKeeper's proto/BookkeeperProtocol.proto (version 3) and proto/BookieProtocol.java (version 2).
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
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
