"""What callers hold to write a ledger: append, force, close.

The top of the write path: it ties the pipeline (entries in flight, pure) to what has a clock or does I/O:
the bookies' connections, room for callers that must wait, the upkeep of ensemble and metadata, the explicit
last add confirmed, force and close.

An append goes: room -> id, length, frame -> pipeline -> W bookies' connections -> A replies -> future.

`close_ledger` fixes the last entry and the length in the metadata, once and for all readers
(client/LedgerHandle.java, doAsyncCloseInternal; unlike there, a ledger in recovery is left to whoever
recovers it). `force_ledger` makes deferred writes safe, for ledgers whose bookies acknowledge entries
before they are on disk: every bookie syncs its journal, then the last add confirmed moves. An entry that
was complete when the requests went out is then on the disks of all who acknowledged it, if all E bookies
say so (client/ForceLedgerOp.java).
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from herdpy.bookkeeper.digest import Digest, master_key
from herdpy.bookkeeper.errors import (
    BackPressureError,
    BookKeeperError,
    EntryTooLargeError,
    LedgerClosedError,
    LedgerFencedError,
    NoSuchLedgerError,
    Outcome,
    UnauthorizedError,
)
from herdpy.bookkeeper.metadata.ledger_metadata import LedgerMetadata, LedgerState, Versioned
from herdpy.bookkeeper.metadata.ledger_store import LedgerStore, update
from herdpy.bookkeeper.placement import Placement
from herdpy.bookkeeper.settings import ClientSettings
from herdpy.bookkeeper.wire.entries import AddEncoder
from herdpy.bookkeeper.write.pipeline import Add, AddWatch, AppendSink, Pipeline, Room, restated
from herdpy.bookkeeper.write.upkeep import ExplicitLac, Upkeep

if TYPE_CHECKING:
    from herdpy.bookkeeper.bookie.pool import BookiePool


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


_log = logging.getLogger("herdpy.bookkeeper.writer")


@mypyc_attr(native_class=False)  # others refer to it weakly
class LedgerWriter:
    """The one writer of a ledger; made by ``BookKeeper.create_ledger``.

    Once it has failed (another client fenced the ledger, no bookies are left, ...) it stays so: entries in
    flight fail with that error and ``Outcome.UNKNOWN``, every further append with the same error and
    ``Outcome.NOT_DONE``. A failed writer can still be closed, if nobody else recovers the ledger: the
    ledger then ends at the last add confirmed. A bookie that fails is replaced and nobody notices.
    """

    def __init__(
        self,
        ledger_id: int,
        versioned: Versioned,
        store: LedgerStore,
        pool: BookiePool,
        placement: Placement,
        settings: ClientSettings,
        digest: Digest,
        *,
        deferred_sync: bool = False,
    ) -> None:
        """Args:
        ledger_id: the ledger, new and empty.
        versioned: its metadata as created.
        deferred_sync: bookies answer before entries are on their disks, see ``force``.
        """
        loop = asyncio.get_running_loop()
        metadata = versioned.metadata
        key = master_key(metadata.password)
        self.ledger_id = ledger_id
        self._store = store
        self._deferred = deferred_sync
        self._pipeline = Pipeline(
            ledger_id,
            [pool.get(bookie_id) for bookie_id in metadata.last_segment.members],
            metadata.write_quorum,
            metadata.ack_quorum,
            settings=settings,
            deferred=deferred_sync,
            on_lac=self._lac_moved,
            on_bookie_failed=self._bookie_failed,
            on_failed=self._failed,
        )
        self._room = Room(self._pipeline)
        self._explicit_lac = ExplicitLac(
            ledger_id, digest, key, self._pipeline, settings.explicit_lac_interval_s
        )
        self._upkeep = Upkeep(
            ledger_id, versioned, store, pool, placement, settings, self._pipeline, deferred=deferred_sync
        )
        self._ending: asyncio.Task[None] | None = None
        self._is_ending = False
        self._is_abandoned = False
        # Looked up once: an append costs a few microseconds in all.
        self._encode = AddEncoder(ledger_id, key, digest, deferred_sync=deferred_sync).encode
        self._next_txn = pool.next_txn
        self._now = loop.time
        self._create_future = loop.create_future
        self._request_timeout_s = settings.request_timeout_s
        self._max_entry_bytes = settings.max_entry_bytes

    @property
    def metadata(self) -> LedgerMetadata:
        """The ledger's metadata, as far as this writer knows them."""
        return self._upkeep.versioned.metadata

    @property
    def last_add_confirmed(self) -> int:
        """The last entry that is safe together with all before it; -1 when there is none."""
        return self._pipeline.lac

    @property
    def last_add_pushed(self) -> int:
        """The last entry that was given a place in the ledger; -1 when there is none."""
        return self._pipeline.pushed

    @property
    def length_bytes(self) -> int:
        """Bytes of data appended; once the writer has ended, up to the last add confirmed."""
        pipeline = self._pipeline
        return pipeline.pushed_length if pipeline.failure is None else pipeline.lac_length

    @property
    def is_closed(self) -> bool:
        """Whether the ledger is known to be closed."""
        return self._upkeep.versioned.metadata.is_closed

    @property
    def failure(self) -> BookKeeperError | None:
        """Why this writer can write no more, or None; closing is no failure."""
        return None if self.is_closed and self._is_ending else self._pipeline.failure

    async def append(self, data: bytes) -> int:
        """Add an entry and wait until its ack quorum, and that of every entry before it, has it.

        Waits for room first, in the order of the calls. Cancelling it once the entry is on its way does not
        take the entry back.

        Returns:
            the entry's id; ids are consecutive, from 0.

        Raises:
            EntryTooLargeError: it does not fit into a frame.
            LedgerFencedError: another client recovers the ledger, or has recovered it.
            LedgerClosedError: this writer was closed.
            NotEnoughBookiesError: a bookie failed and there is none to replace it.
            BookKeeperError: whatever else ended this writer; see ``outcome``.
        """
        self._check(data)
        await self._room.wait()
        return await self.append_nowait(data)

    def append_nowait(self, data: bytes) -> asyncio.Future[int]:
        """Send an entry; the future resolves to its id when ``append`` would return, or raises as it does.

        Raises:
            BackPressureError: as much as is allowed is in flight; wait for ``room``.
            EntryTooLargeError, LedgerFencedError, LedgerClosedError, NotEnoughBookiesError, ...: as
                ``append``. Nothing was sent.
        """
        future = self._create_future()
        self.send(data, future)
        return future

    def send(self, data: bytes, sink: AppendSink, watch: AddWatch | None = None) -> None:
        """As ``append_nowait``, and ``sink`` gets the outcome: once, in the order of the entries, as soon
        as it is known, but never before this returns. The sink may append, and must not raise.

        Args:
            watch: is called with the answer of each bookie that the entry is sent to at first, not of those
                that take the place of failed ones.
        """
        pipeline = self._pipeline
        size_bytes = len(data)
        if self._is_ending or pipeline.failure is not None or size_bytes > self._max_entry_bytes:
            self._check(data)
        if not pipeline.has_room():
            raise BackPressureError(ledger_id=self.ledger_id)
        if pipeline.suspects:
            pipeline.start_change()
            self._check(data)
        entry_id = pipeline.pushed + 1
        length = pipeline.pushed_length + size_bytes
        txn = self._next_txn()
        frame = self._encode(txn, entry_id, pipeline.lac, length, data)
        pipeline.push(
            Add(pipeline, entry_id, length, txn, frame, sink, self._now() + self._request_timeout_s), watch
        )

    def flush(self) -> None:
        """Write what was appended to the sockets now, not at the end of this turn of the loop."""
        for bookie in self._pipeline.bookies:
            bookie.flush()

    async def room(self) -> None:
        """Return when ``append_nowait`` has room, or the writer has ended. Nothing is reserved.

        There is room while less than the limits of the settings is in flight; an entry of any size then fits.
        """
        await self._room.wait()

    async def force(self) -> None:
        """Wait until everything appended before is on the bookies' disks, and thus confirmed.

        Without deferred sync it only waits for what is in flight.

        Raises:
            LedgerFencedError, NotEnoughBookiesError, ...: as ``append``.
            BookieUnavailableError, TimedOutError, ...: a bookie did not sync; it may be tried again.
        """
        self._check(b"")
        await self._force(self._pipeline.pushed)

    async def close(self) -> None:
        """Wait for what is in flight, then close the ledger at the last add confirmed; may be repeated.

        With deferred sync, what is not yet forced is forced first. Calls at the same time share one
        attempt; after one that failed, the next tries again.

        Raises:
            LedgerFencedError: another client is recovering the ledger.
            LedgerClosedError: another client closed it at another end (at the same one is success).
            ZooKeeperUnavailableError: unknown whether it is closed; call again.
            BookKeeperError: with deferred sync, the force failed: the ledger is closed without what was not
                forced.
        """
        if self._ending is None:
            self._ending = asyncio.get_running_loop().create_task(self._close())
            # Callers that were cancelled do not hear of its end; the next call does.
            self._ending.add_done_callback(_succeeded)
        ending = self._ending
        try:
            await asyncio.shield(ending)
        finally:
            if self._ending is ending and ending.done() and not _succeeded(ending):
                self._ending = None

    def abandon(self, error: BookKeeperError) -> None:
        """Stop at once and leave the ledger open in the metadata, for a recovery: the client is closing.

        Entries in flight fail with ``error`` and an unknown outcome; so do all later calls.
        """
        if self.is_closed:
            return
        self._is_abandoned = True
        self._pipeline.fail(error)
        self._upkeep.cancel()

    def _check(self, data: bytes) -> None:
        """Refuse what cannot be appended, before anything is sent."""
        failure = self._pipeline.failure
        if failure is not None:
            raise restated(failure, Outcome.NOT_DONE)
        if self._is_ending:
            raise LedgerClosedError(
                "this writer is being closed", outcome=Outcome.NOT_DONE, ledger_id=self.ledger_id
            )
        if not isinstance(data, bytes):
            raise TypeError(f"an entry is bytes, not {type(data).__name__}")
        if len(data) > self._max_entry_bytes:
            raise EntryTooLargeError(
                f"an entry of {len(data)} bytes is above the limit of {self._max_entry_bytes} bytes",
                ledger_id=self.ledger_id,
            )

    async def _force(self, entry_id: int) -> None:
        pipeline = self._pipeline
        await pipeline.reached(entry_id)
        if pipeline.failure is not None:
            raise restated(pipeline.failure, Outcome.UNKNOWN)
        if self._deferred:
            await force_ledger(self.ledger_id, pipeline)

    async def _close(self) -> None:
        pipeline = self._pipeline
        self._is_ending = True
        self._room.close()
        await pipeline.reached(pipeline.pushed)
        await self._upkeep.settled()
        if self._is_abandoned and pipeline.failure is not None:
            raise restated(pipeline.failure, Outcome.NOT_DONE)
        unforced: BookKeeperError | None = None
        if pipeline.failure is None and pipeline.lac < pipeline.confirmed:
            try:
                await self._force(pipeline.confirmed)
            except BookKeeperError as error:
                unforced = error
        # From here on the watch may tell of this writer's own change, also after a lost reply.
        self._upkeep.unwatch()
        try:
            self._upkeep.versioned = await close_ledger(
                self._store, self.ledger_id, self._upkeep.versioned, pipeline.lac, pipeline.lac_length
            )
        except (LedgerFencedError, LedgerClosedError, NoSuchLedgerError) as refusal:
            pipeline.fail(refusal)
            raise
        pipeline.fail(LedgerClosedError("this writer was closed", ledger_id=self.ledger_id))
        self._failed()
        if unforced is not None:
            raise unforced

    def _lac_moved(self) -> None:
        self._explicit_lac.lac_moved()

    def _bookie_failed(self) -> None:
        self._upkeep.replace_failed()
        self._room.wake()

    def _failed(self) -> None:
        """The pipeline has ended; nothing here may outlive it."""
        self._explicit_lac.stop()
        self._upkeep.unwatch()
        self._room.wake()
        failure = self.failure
        if failure is not None:
            _log.warning("writer ended", extra={"ledger_id": self.ledger_id, "reason": str(failure)})


def _succeeded(task: asyncio.Task[None]) -> bool:
    return not task.cancelled() and task.exception() is None
