"""How long a reader of ledgers tries again what bookies or ZooKeeper did not answer.

Below ``followed_log`` and ``staging``.
"""

from __future__ import annotations

import asyncio
import logging

from herdpy.bookkeeper.errors import (
    BookKeeperError,
    ClosedClientError,
    DigestMismatchError,
    MetadataError,
    NoSuchEntryError,
    NoSuchLedgerError,
    UnauthorizedError,
    UnknownLayoutError,
)
from herdpy.log.errors import LogUnavailableError

_log = logging.getLogger("herdpy.log.patience")

#: Errors that trying again does not help.
FINAL = (
    ClosedClientError,
    DigestMismatchError,
    MetadataError,
    NoSuchEntryError,
    NoSuchLedgerError,
    UnauthorizedError,
    UnknownLayoutError,
)
PAUSE_FIRST_S, PAUSE_MAX_S = 0.05, 1.0


class ReaderBackoff:
    """Pauses between attempts; ``limit_s`` None: for ever."""

    def __init__(self, limit_s: float | None) -> None:
        self._limit_s = limit_s
        self.reset()

    def reset(self) -> None:
        """Something worked."""
        self._since_s: float | None = None
        self._pause_s = PAUSE_FIRST_S

    async def wait(self, error: BookKeeperError) -> None:
        """Pause before the next attempt; raises LogUnavailableError when that is enough."""
        now_s = asyncio.get_running_loop().time()
        self._since_s = now_s if self._since_s is None else self._since_s
        if self._limit_s is not None and now_s - self._since_s > self._limit_s:
            raise LogUnavailableError(f"the log cannot be read: {error}") from error
        _log.warning("a ledger cannot be read now", extra={"error": str(error)})
        await asyncio.sleep(self._pause_s)
        self._pause_s = min(2 * self._pause_s, PAUSE_MAX_S)
