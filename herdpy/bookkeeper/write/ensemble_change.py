"""Replacing bookies that failed, while the ledger is being written.

Between the pipeline, which has stopped confirming, and the metadata: choose successors, publish them as a new
segment by compare-and-set, hand the new ensemble back to the pipeline. The new segment starts behind the
last add confirmed, which cannot move meanwhile, and replaces the last segment when that starts there, too.
Bookies that fail during a change are replaced before it ends. Only an open ledger's ensemble may change.

Source: BookKeeper's client/LedgerHandle.java (ensembleChangeLoop) and EnsembleUtils.java. Unlike there, a
bookie that failed is not chosen again for entries that were in flight when it failed.
"""

from __future__ import annotations

import logging
from functools import partial

from herdpy.bookkeeper.errors import LedgerFencedError
from herdpy.bookkeeper.metadata.ledger_metadata import LedgerMetadata, LedgerState
from herdpy.bookkeeper.metadata.ledger_store import LedgerStore, update
from herdpy.bookkeeper.metadata.versioned import Versioned
from herdpy.bookkeeper.placement import Placement
from herdpy.bookkeeper.write.pipeline import Pipeline

_log = logging.getLogger("herdpy.bookkeeper.ensemble_change")


class EnsembleChange:
    """Changes the ensemble of one ledger; one ``run`` at a time."""

    def __init__(self, ledger_id: int, store: LedgerStore, placement: Placement, pipeline: Pipeline) -> None:
        self._ledger_id = ledger_id
        self._store = store
        self._placement = placement
        self._pipeline = pipeline
        # Bookies that failed, with the last entry pushed by then.
        self._failed_at: dict[str, int] = {}

    async def run(self, versioned: Versioned) -> Versioned:
        """Publish an ensemble without the pipeline's failed bookies; the pipeline does not use it yet.

        Raises:
            NotEnoughBookiesError: a failed bookie cannot be replaced.
            LedgerFencedError: another client recovers the ledger, or has closed it.
            ZooKeeperUnavailableError, NoSuchLedgerError: the metadata cannot be changed.
        """
        while True:
            self._note_failures()
            failed = dict(self._pipeline.failed)
            versioned = await update(
                self._store, self._ledger_id, versioned, partial(self._without, failed=failed)
            )
            metadata = versioned.metadata
            if metadata.state is not LedgerState.OPEN:
                raise LedgerFencedError(
                    f"another client took the ledger: it is {metadata.state.name}", ledger_id=self._ledger_id
                )
            segment = metadata.last_segment
            _log.info(
                "ensemble changed",
                extra={
                    "ledger_id": self._ledger_id,
                    "first_entry_id": segment.first_entry_id,
                    "members": list(segment.members),
                    "failed": sorted(failed.values()),
                },
            )
            if not _still_in(metadata, self._pipeline.failed):
                return versioned

    def _note_failures(self) -> None:
        pipeline = self._pipeline
        self._failed_at = {
            bookie: pushed for bookie, pushed in self._failed_at.items() if pushed > pipeline.confirmed
        }
        for bookie_id in pipeline.failed.values():
            if bookie_id not in self._failed_at:
                self._failed_at[bookie_id] = pipeline.pushed
                self._placement.quarantine(bookie_id)

    def _without(self, metadata: LedgerMetadata, failed: dict[int, str]) -> LedgerMetadata | None:
        if metadata.state is not LedgerState.OPEN:
            return None
        indexes = _still_in(metadata, failed)
        if not indexes:
            return None
        members = list(metadata.last_segment.members)
        successors = self._placement.replace(members, indexes, exclude=self._failed_at.keys())
        for index, bookie_id in successors.items():
            members[index] = bookie_id
        return metadata.with_segment(self._pipeline.lac + 1, members)


def _still_in(metadata: LedgerMetadata, failed: dict[int, str]) -> list[int]:
    members = metadata.last_segment.members
    return [index for index, bookie_id in failed.items() if members[index] == bookie_id]
