"""Closing a ledger: fixing its last entry and its length in the metadata, once and for all readers.

Between the writer, when nothing is in flight any more, and the metadata.

Source: BookKeeper's client/LedgerHandle.java (doAsyncCloseInternal). Unlike there, a ledger in recovery is
left to whoever recovers it.
"""

from __future__ import annotations

from herdpy.bookkeeper.errors import LedgerClosedError, LedgerFencedError, Outcome
from herdpy.bookkeeper.metadata.ledger_metadata import LedgerMetadata, LedgerState
from herdpy.bookkeeper.metadata.ledger_store import LedgerStore, update
from herdpy.bookkeeper.metadata.versioned import Versioned


async def close_ledger(
    store: LedgerStore, ledger_id: int, versioned: Versioned, last_entry_id: int, length_bytes: int
) -> Versioned:
    """Close at this end, or find that it is closed there already.

    Raises:
        LedgerFencedError: another client is recovering the ledger.
        LedgerClosedError: another client closed it at another end.
        ZooKeeperUnavailableError: unknown whether it is closed now; closing again finds out.
        NoSuchLedgerError: it was deleted.
    """

    def end(metadata: LedgerMetadata) -> LedgerMetadata | None:
        if metadata.state is LedgerState.IN_RECOVERY:
            raise LedgerFencedError(
                "another client is recovering the ledger", outcome=Outcome.NOT_DONE, ledger_id=ledger_id
            )
        if metadata.state is LedgerState.OPEN:
            return metadata.closed(last_entry_id, length_bytes)
        if (metadata.last_entry_id, metadata.length_bytes) != (last_entry_id, length_bytes):
            raise LedgerClosedError(
                f"another client closed the ledger at entry {metadata.last_entry_id} with "
                f"{metadata.length_bytes} bytes, not at entry {last_entry_id} with {length_bytes} bytes",
                outcome=Outcome.NOT_DONE,
                ledger_id=ledger_id,
            )
        return None

    return await update(store, ledger_id, versioned, end)
