"""What is staged in a cluster's BookKeeper: ledgers of loads, by their custom metadata."""

from __future__ import annotations

import asyncio

from herdpy.bookkeeper import BookKeeper, NoSuchLedgerError
from herdpy.log.staging import StagedLabel


def staged_ledgers(bookkeeper_uri: str, load_id: str) -> list[int]:
    """The ledgers that are there and were staged for the load."""
    return asyncio.run(_staged(bookkeeper_uri, load_id))


async def _staged(uri: str, load_id: str) -> list[int]:
    found = []
    async with BookKeeper(uri) as bk:
        for ledger_id in await bk.list_ledgers():
            try:
                metadata = await bk.ledger_metadata(ledger_id)
            except NoSuchLedgerError:
                continue  # deleted since it was listed
            label = StagedLabel.of(metadata.custom_metadata)
            if label is not None and label.load_id == load_id:
                found.append(ledger_id)
    return found
