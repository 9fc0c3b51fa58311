"""A ledger's metadata with the version it was read at: what every change starts from."""

from __future__ import annotations

from dataclasses import dataclass

from herdpy.bookkeeper.metadata.ledger_metadata import LedgerMetadata


@dataclass(frozen=True, slots=True)
class Versioned:
    """Metadata and the version of the znode it is in, for the next compare-and-set."""

    metadata: LedgerMetadata
    version: int
