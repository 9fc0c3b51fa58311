"""Which copies of a closed ledger's entries are missing.

Beside ``ranges``: that is content with one copy of each entry, here every bookie is asked for all that it
should have. For operators, after disks were lost.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from herdpy.bookkeeper.digest import Digest
from herdpy.bookkeeper.metadata.ledger_metadata import LedgerMetadata
from herdpy.bookkeeper.read.entry_read import EntryReader
from herdpy.bookkeeper.read.replicas import ReplicaOrder
from herdpy.bookkeeper.schedule import write_set
from herdpy.bookkeeper.settings import ClientSettings

if TYPE_CHECKING:
    from herdpy.bookkeeper.bookie import BookiePool

_AT_ONCE = 64


async def missing_copies(
    ledger_id: int, metadata: LedgerMetadata, pool: BookiePool, settings: ClientSettings, digest: Digest
) -> dict[str, list[int]]:
    """The entries that each bookie should have and does not give, by its id; empty when all are there."""
    order = ReplicaOrder(asyncio.get_running_loop(), settings.quarantine_s)
    reader = EntryReader(ledger_id, 1, 1, pool, settings, digest, order)
    missing: dict[str, list[int]] = {}
    try:
        for first in range(0, metadata.last_entry_id + 1, _AT_ONCE):
            entries = range(first, min(first + _AT_ONCE, metadata.last_entry_id + 1))
            places = [(entry_id, bookie) for entry_id in entries for bookie in _holders(metadata, entry_id)]
            reads = await asyncio.gather(*(reader.read(entry_id, (bookie,)) for entry_id, bookie in places))
            for (entry_id, bookie), read in zip(places, reads, strict=True):
                if read.entry is None:
                    missing.setdefault(bookie, []).append(entry_id)
    finally:
        reader.close()
    return missing


def _holders(metadata: LedgerMetadata, entry_id: int) -> list[str]:
    members = metadata.ensemble_at(entry_id).members
    return [members[index] for index in write_set(entry_id, len(members), metadata.write_quorum)]
