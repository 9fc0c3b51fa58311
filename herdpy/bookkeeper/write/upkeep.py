"""A ledger's metadata while it is written: its ensemble is repaired, and another's hand on it is noticed.

Between the pipeline, the metadata and the bookies' connections. When the pipeline reports a failed bookie, a
task has an ensemble without it published (``ensemble_change``) and hands the new bookies back. A watch tells
an idle writer, too, that another client took its ledger.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from herdpy.bookkeeper.errors import BookKeeperError, LedgerFencedError, NoSuchLedgerError
from herdpy.bookkeeper.metadata.ledger_metadata import LedgerState
from herdpy.bookkeeper.metadata.ledger_store import LedgerStore
from herdpy.bookkeeper.metadata.versioned import Versioned
from herdpy.bookkeeper.placement import Placement
from herdpy.bookkeeper.settings import ClientSettings
from herdpy.bookkeeper.write.ensemble_change import EnsembleChange
from herdpy.bookkeeper.write.pipeline import Pipeline

if TYPE_CHECKING:
    from herdpy.bookkeeper.bookie.pool import BookiePool


class Upkeep:
    """Keeps one ledger's pipeline and metadata in step.

    Attributes:
        versioned: the newest metadata known.
    """

    def __init__(
        self,
        ledger_id: int,
        versioned: Versioned,
        store: LedgerStore,
        pool: BookiePool,
        placement: Placement,
        settings: ClientSettings,
        pipeline: Pipeline,
        *,
        deferred: bool,
    ) -> None:
        self.versioned = versioned
        self._ledger_id = ledger_id
        self._pool = pool
        self._request_timeout_s = settings.request_timeout_s
        self._pipeline = pipeline
        self._deferred = deferred
        self._ensemble_change = EnsembleChange(ledger_id, store, placement, pipeline)
        self._change: asyncio.Task[None] | None = None
        self._watch = store.watch(ledger_id, self._metadata_changed)

    def replace_failed(self) -> None:
        """The pipeline wants bookies replaced, or more of them than before."""
        pipeline = self._pipeline
        if self._deferred:
            bookies = ", ".join(sorted(pipeline.failed.values()))
            error = type(pipeline.cause)(
                f"a ledger with deferred sync cannot replace bookie {bookies}: {pipeline.cause.message}",
                ledger_id=self._ledger_id,
            )
            error.__cause__ = pipeline.cause
            pipeline.fail(error)
        elif self._change is None:
            self._change = asyncio.get_running_loop().create_task(self._replace())

    async def settled(self) -> None:
        """Wait until no change is under way."""
        if self._change is not None:
            await asyncio.wait([self._change])

    def unwatch(self) -> None:
        """Look at the metadata no more."""
        self._watch.cancel()

    def cancel(self) -> None:
        """Give up the change under way."""
        if self._change is not None:
            self._change.cancel()

    async def _replace(self) -> None:
        pipeline = self._pipeline
        try:
            versioned = await self._ensemble_change.run(self.versioned)
        except BookKeeperError as error:
            error.__cause__ = error.__cause__ or pipeline.cause
            self._change = None
            pipeline.fail(error)
        except Exception as error:
            pipeline.fail(BookKeeperError(f"the ensemble could not be changed: {error!r}"))
            raise
        else:
            self._change = None
            self._seen(versioned)
            if pipeline.failure is None:
                members = versioned.metadata.last_segment.members
                deadline_s = asyncio.get_running_loop().time() + self._request_timeout_s
                pipeline.use([self._pool.get(one) for one in members], deadline_s)
                pipeline.wake()

    def _metadata_changed(self, versioned: Versioned | None) -> None:
        if versioned is None:
            self._pipeline.fail(NoSuchLedgerError("the ledger was deleted", ledger_id=self._ledger_id))
            return
        self._seen(versioned)
        if versioned.metadata.state is not LedgerState.OPEN:
            self._pipeline.fail(
                LedgerFencedError(
                    f"another client took the ledger: it is {versioned.metadata.state.name}",
                    ledger_id=self._ledger_id,
                )
            )

    def _seen(self, versioned: Versioned) -> None:
        if versioned.version > self.versioned.version:
            self.versioned = versioned
