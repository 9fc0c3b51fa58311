"""Making deferred writes safe: every bookie syncs its journal, then the last add confirmed moves.

Beside the pipeline, for ledgers whose bookies acknowledge entries before they are on disk. An entry that was
complete when the requests went out is then on the disks of all who acknowledged it, if all E bookies say so.

Source: BookKeeper's client/ForceLedgerOp.java.
"""

from __future__ import annotations

import asyncio

from herdpy.bookkeeper.errors import LedgerFencedError, Outcome, UnauthorizedError
from herdpy.bookkeeper.write.pipeline import Pipeline, restated


async def force_ledger(ledger_id: int, pipeline: Pipeline) -> None:
    """Move the last add confirmed to the last complete entry.

    Raises:
        BookieUnavailableError, TimedOutError, ...: what the first bookie that did not sync said. Fencing ends
            the pipeline.
    """
    entry_id, length = pipeline.confirmed, pipeline.confirmed_length
    if entry_id <= pipeline.lac:
        return
    answers = await asyncio.gather(
        *(bookie.force(ledger_id) for bookie in pipeline.bookies), return_exceptions=True
    )
    failures = [answer for answer in answers if answer is not None]
    for failure in failures:
        if isinstance(failure, LedgerFencedError | UnauthorizedError):
            pipeline.fail(failure)
    if failures:
        raise failures[0]
    if pipeline.failure is not None:
        # Fenced meanwhile: the entries are on disks, and whoever recovers the ledger decides on them.
        raise restated(pipeline.failure, Outcome.UNKNOWN)
    pipeline.advance(entry_id, length)
