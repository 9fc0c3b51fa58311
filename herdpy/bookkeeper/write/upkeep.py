"""A ledger while it is written: its ensemble repaired, another writer noticed, its last add confirmed sent.

Between the pipeline, the metadata and the bookies' connections. When the pipeline reports a failed bookie, a
task publishes an ensemble without it (``EnsembleChange``) and gives the new bookies back. A watch tells an
idle writer, too, that another client took its ledger.

An ensemble change: the pipeline has stopped confirming; choose successors, publish them as a new segment by
compare-and-set, give the new ensemble to the pipeline. The new segment starts behind the last add confirmed,
which cannot move meanwhile, and replaces the last segment when that starts there, too. Bookies that fail
during a change are replaced before it ends. Only an open ledger's ensemble may change.

ExplicitLac: each entry carries the last add confirmed of the moment it was sent, so a reader who tails the
ledger lags behind until something else is written. A timer, armed when the last add confirmed moves and
silent on an idle ledger, sends it to the write set of that entry unless an entry carried it meanwhile.

Sources: BookKeeper's client/LedgerHandle.java (ensembleChangeLoop), EnsembleUtils.java (unlike there, a
bookie that failed is not chosen again for entries that were in flight when it failed),
ExplicitLacFlushPolicy.java, PendingWriteLacOp.java.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from herdpy.bookkeeper.digest import Digest
from herdpy.bookkeeper.errors import BookKeeperError, LedgerFencedError, NoSuchLedgerError
from herdpy.bookkeeper.metadata.ledger_metadata import LedgerMetadata, LedgerState, Versioned
from herdpy.bookkeeper.metadata.ledger_store import LedgerStore, update
from herdpy.bookkeeper.placement import Placement
from herdpy.bookkeeper.settings import ClientSettings
from herdpy.bookkeeper.write.pipeline import Pipeline

if TYPE_CHECKING:
    from herdpy.bookkeeper.bookie.pool import BookiePool

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


# The explicit last add confirmed.

_lac_log = logging.getLogger("herdpy.bookkeeper.explicit_lac")


class ExplicitLac:
    """The timer of one ledger; ``interval_s`` None switches it off."""

    def __init__(
        self, ledger_id: int, digest: Digest, master_key: bytes, pipeline: Pipeline, interval_s: float | None
    ) -> None:
        self._ledger_id = ledger_id
        self._digest = digest
        self._master_key = master_key
        self._pipeline = pipeline
        self._interval_s = interval_s
        self._reported = -1
        self._timer: asyncio.TimerHandle | None = None
        self._sending: asyncio.Task[None] | None = None

    def lac_moved(self) -> None:
        """Arm the timer. Called for every confirmation, so it does little."""
        if self._timer is None and self._interval_s is not None:
            self._timer = asyncio.get_running_loop().call_later(self._interval_s, self._tick)

    def stop(self) -> None:
        """Send nothing more."""
        self._interval_s = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._sending is not None:
            self._sending.cancel()

    def _tick(self) -> None:
        self._timer = None
        pipeline = self._pipeline
        if pipeline.lac <= max(pipeline.carried, self._reported):
            return
        if self._sending is not None and not self._sending.done():
            self.lac_moved()
            return
        self._sending = asyncio.get_running_loop().create_task(self._send_lac(pipeline.lac))

    async def _send_lac(self, lac: int) -> None:
        body = self._digest.seal_lac(self._ledger_id, lac)
        before, self._reported = self._reported, lac
        answers = await asyncio.gather(
            *(
                bookie.write_lac(self._ledger_id, self._master_key, body)
                for bookie in self._pipeline.write_set_of(lac)
            ),
            return_exceptions=True,
        )
        failures = [answer for answer in answers if answer is not None]
        for failure in failures:
            if isinstance(failure, LedgerFencedError):
                self._pipeline.fail(failure)
            elif not isinstance(failure, BookKeeperError):
                raise failure
        if failures:
            _lac_log.debug(
                "explicit last add confirmed not stored everywhere",
                extra={"ledger_id": self._ledger_id, "lac": lac, "failures": [str(one) for one in failures]},
            )
        if len(failures) == len(answers):
            # Nobody has it: again at the next turn, unless an entry carries it before.
            self._reported = before
            self.lac_moved()
