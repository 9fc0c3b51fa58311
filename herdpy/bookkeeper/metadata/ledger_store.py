"""The metadata of all ledgers: created, read, changed by compare-and-set, deleted, listed, watched.

Between ``Znodes`` (a tree of versioned bytes) and those who own ledgers (the client, writers, recoverers):
a ledger id becomes a path (``paths``), a ``LedgerMetadata`` becomes bytes (``serde``), a lost reply becomes
a known outcome wherever reading again can tell.

Sources: BookKeeper's meta/AbstractZkLedgerManager.java, client/MetadataUpdateLoop.java.
"""

from __future__ import annotations

from herdpy.bookkeeper.metadata.versioned import Versioned

__all__ = ["Versioned"]
