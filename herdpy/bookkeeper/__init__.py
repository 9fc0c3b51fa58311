"""A client for Apache BookKeeper: ledgers, which are replicated and append-only, from asyncio.

It stands alone and imports nothing else of herdpy. ``docs/bookkeeper.md`` teaches it, DESIGN.md says why
it is as it is. :class:`BookKeeper` is the way in; what is not named here is not for callers.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

from herdpy.bookkeeper.errors import (
    AuthenticationError,
    BackPressureError,
    BadRequestError,
    BadVersionError,
    BookieIOError,
    BookieUnavailableError,
    BookKeeperError,
    ClosedClientError,
    DigestMismatchError,
    EntryTooLargeError,
    LedgerClosedError,
    LedgerExistsError,
    LedgerFencedError,
    LostEntriesError,
    MetadataError,
    MetadataVersionError,
    NoSuchEntryError,
    NoSuchLedgerError,
    NotEnoughBookiesError,
    Outcome,
    ProtocolError,
    ReadOnlyBookieError,
    RecoveryError,
    SessionExpiredError,
    TimedOutError,
    TooManyRequestsError,
    UnauthorizedError,
    UnknownLayoutError,
    UnknownLedgerStateError,
    UnknownStatusError,
    WrongDigestTypeError,
    WrongPasswordError,
    ZooKeeperUnavailableError,
)
from herdpy.bookkeeper.settings import AuthExchange, AuthProvider, ClientSettings
from herdpy.distribution import install_line, package_of

if TYPE_CHECKING:
    from herdpy.bookkeeper.bookie.metrics import BookieMetrics, Metrics
    from herdpy.bookkeeper.bookie.sasl import SaslDigestMd5
    from herdpy.bookkeeper.client import BookKeeper
    from herdpy.bookkeeper.cluster import BookieInfo, BookieState, LedgerIds
    from herdpy.bookkeeper.digest import DigestType, Entry
    from herdpy.bookkeeper.metadata.ledger_metadata import LedgerMetadata, LedgerState, Segment
    from herdpy.bookkeeper.metadata.znodes import Znodes
    from herdpy.bookkeeper.read import LedgerReader
    from herdpy.bookkeeper.write import LedgerWriter

# A library says nothing unless its user has asked for it; errors reach the caller anyway.
logging.getLogger(__name__).addHandler(logging.NullHandler())

__all__ = [
    "AuthExchange",
    "AuthProvider",
    "AuthenticationError",
    "BackPressureError",
    "BadRequestError",
    "BadVersionError",
    "BookKeeper",
    "BookKeeperError",
    "BookieIOError",
    "BookieInfo",
    "BookieMetrics",
    "BookieState",
    "BookieUnavailableError",
    "ClientSettings",
    "ClosedClientError",
    "DigestMismatchError",
    "DigestType",
    "Entry",
    "EntryTooLargeError",
    "LedgerClosedError",
    "LedgerExistsError",
    "LedgerFencedError",
    "LedgerIds",
    "LedgerMetadata",
    "LedgerReader",
    "LedgerState",
    "LedgerWriter",
    "LostEntriesError",
    "MetadataError",
    "MetadataVersionError",
    "Metrics",
    "NoSuchEntryError",
    "NoSuchLedgerError",
    "NotEnoughBookiesError",
    "Outcome",
    "ProtocolError",
    "ReadOnlyBookieError",
    "RecoveryError",
    "SaslDigestMd5",
    "Segment",
    "SessionExpiredError",
    "TimedOutError",
    "TooManyRequestsError",
    "UnauthorizedError",
    "UnknownLayoutError",
    "UnknownLedgerStateError",
    "UnknownStatusError",
    "WrongDigestTypeError",
    "WrongPasswordError",
    "Znodes",
    "ZooKeeperUnavailableError",
]

_IMPORTED_WHEN_USED = {
    "BookieMetrics": "bookie.metrics",
    "Metrics": "bookie.metrics",
    "SaslDigestMd5": "bookie.sasl",
    "BookKeeper": "client",
    "BookieInfo": "cluster",
    "BookieState": "cluster",
    "DigestType": "digest",
    "Entry": "digest",
    "LedgerIds": "ledger_list",
    "LedgerMetadata": "metadata.ledger_metadata",
    "LedgerState": "metadata.ledger_metadata",
    "Segment": "metadata.ledger_metadata",
    "Znodes": "metadata.znodes",
    "LedgerReader": "read",
    "LedgerWriter": "write",
}
"""By name, the module that has it: whoever looks at errors and settings alone does without the client."""


def __getattr__(name: str) -> Any:
    """Import what is used first (PEP 562). ImportError where a package that it needs is not installed."""
    home = _IMPORTED_WHEN_USED.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        value = getattr(import_module(f"{__name__}.{home}"), name)
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.partition(".")[0] not in ("google", "google_crc32c", "kazoo"):
            raise
        raise ImportError(
            f"{package_of(missing.name)} is not installed: {install_line('bookkeeper')}", name=missing.name
        ) from missing
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
