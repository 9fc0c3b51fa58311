"""Ledgers made and closed, however long that takes: while bookies or ZooKeeper are away it is tried again.

Above ``own_ledgers``, below ``succession``, which sets the limit of patience. What no trying can mend is a
``LogError``.
"""

from __future__ import annotations

import asyncio
import logging

from herdpy.bookkeeper.errors import (
    BookKeeperError,
    ClosedClientError,
    LedgerClosedError,
    LedgerFencedError,
    NoSuchLedgerError,
    UnauthorizedError,
)
from herdpy.bookkeeper.write import LedgerWriter
from herdpy.log.bookkeeper.own_ledgers import OwnLedgers
from herdpy.log.errors import LogError, LogFencedError, LogWriteError

PAUSE_S = 0.2

_log = logging.getLogger("herdpy.log.succession")
_TAKEN = (LedgerFencedError, LedgerClosedError, NoSuchLedgerError, UnauthorizedError)


def final(error: BookKeeperError) -> LogError | None:
    """What it means for the log when a ledger cannot be written to or closed for good; None: try again."""
    if isinstance(error, _TAKEN):
        return LogFencedError(f"another node has taken the log: {error}")
    if isinstance(error, ClosedClientError):
        return LogWriteError(f"the BookKeeper client is gone: {error}")
    return None


async def make(ledgers: OwnLedgers) -> LedgerWriter:
    """A ledger that is made and listed; tries until there are bookies for one.

    Raises:
        LogError: another node owns the log, or the client is closed.
    """
    while True:
        try:
            return await ledgers.add()
        except ClosedClientError as error:
            raise LogWriteError(f"the BookKeeper client is gone: {error}") from error
        except BookKeeperError as error:
            _log.warning("a ledger could not be made", extra={"error": str(error)})
            await asyncio.sleep(PAUSE_S)


async def close(writer: LedgerWriter) -> None:
    """Close a ledger in BookKeeper.

    Raises:
        LogFencedError: another node has taken it.
        LogWriteError: the client is closed.
    """
    while True:
        try:
            await writer.close()
            return
        except BookKeeperError as error:
            failure = final(error)
            if failure is not None:
                raise failure from error
            _log.warning("a ledger could not be closed", extra={"error": str(error)})
            await asyncio.sleep(PAUSE_S)
