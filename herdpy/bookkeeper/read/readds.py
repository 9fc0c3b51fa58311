"""Writing again what a recovery found, so that an ack quorum certainly has it.

Below ``recovery``, above the bookies. Each entry goes, as it was sealed by its writer, to its whole write
set; entries count as safe in order. When a bookie fails, another takes its place from the first entry that
is not yet safe, and gets all those under way; such changes are kept here and published when the ledger is
closed, not before, so that several recoverers can work at the same time without disturbing each other. When
there is no other bookie, those left must do, as long as they are an ack quorum.

The body is sent byte for byte (the Java client seals it anew with a higher last add confirmed): so no
last add confirmed ever comes from a recoverer whose end is not the one that is published.

Rules: BookKeeper's client/PendingAddOp.java and client/ReadOnlyLedgerHandle.java.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from herdpy.bookkeeper.digest import Digest
from herdpy.bookkeeper.errors import BookKeeperError, NotEnoughBookiesError, RecoveryError, UnauthorizedError
from herdpy.bookkeeper.metadata.ledger_metadata import LedgerMetadata
from herdpy.bookkeeper.schedule import write_set
from herdpy.bookkeeper.settings import ClientSettings
from herdpy.bookkeeper.statuses import error_of
from herdpy.bookkeeper.wire.adds import AddEncoder
from herdpy.bookkeeper.wire.status import ReplyStatus

if TYPE_CHECKING:
    from herdpy.bookkeeper.bookie import AnsweringBookie, BookiePool
    from herdpy.bookkeeper.placement import Placement

log = logging.getLogger("herdpy.bookkeeper.recovery")


class ReAdds:
    """The re-adds of one recovery.

    Args:
        confirmed: the last entry that needs no re-add.

    Attributes:
        confirmed: the last entry that is safe, with all before it.
        segments: ensembles that took the place of the last one, by first entry id; empty when all went well.
    """

    def __init__(
        self,
        ledger_id: int,
        metadata: LedgerMetadata,
        confirmed: int,
        pool: BookiePool,
        placement: Placement,
        settings: ClientSettings,
        digest: Digest,
        master_key: bytes,
    ) -> None:
        self.confirmed = confirmed
        self.segments: dict[int, tuple[str, ...]] = {}
        self._ledger_id = ledger_id
        self._metadata = metadata
        self._pool = pool
        self._placement = placement
        self._settings = settings
        self._encoder = AddEncoder(ledger_id, master_key, digest, recovery=True)
        self._loop = asyncio.get_running_loop()
        self._members = list(metadata.last_segment.members)
        self._failed: dict[str, BookKeeperError] = {}
        self._under_way: dict[int, _ReAdd] = {}
        self._bytes = 0
        self._error: BookKeeperError | None = None
        self._waiter: asyncio.Future[None] | None = None

    def add(self, entry_id: int, body: bytes) -> None:
        """Send an entry, the one after the last one given, to its write set."""
        indexes = write_set(entry_id, len(self._members), self._metadata.write_quorum)
        readd = self._under_way[entry_id] = _ReAdd(self, entry_id, body, indexes)
        self._bytes += readd.size_bytes
        txn = self._pool.next_txn()
        frame = self._encoder.encode_body(txn, entry_id, body)
        readd.deadline_s = self._loop.time() + self._settings.request_timeout_s
        for index in indexes:
            self._send(readd, self._members[index], txn, frame)
        self._check_enough(readd)

    async def room(self) -> None:
        """Wait until another entry may be added.

        Raises:
            RecoveryError: an entry cannot reach an ack quorum.
        """
        limits = self._settings
        await self._until(
            lambda: (
                self._bytes < limits.max_in_flight_bytes
                and len(self._under_way) < limits.max_in_flight_entries
            )
        )

    async def finish(self) -> None:
        """Wait until every entry added is safe.

        Raises:
            RecoveryError: an entry cannot reach an ack quorum.
        """
        await self._until(lambda: not self._under_way)

    def close(self) -> None:
        """Want no more answers."""
        self._under_way.clear()

    def answered(self, readd: _ReAdd, bookie: AnsweringBookie, status: int) -> None:
        """A bookie answered an add; for _ReAdd."""
        if self._under_way.get(readd.entry_id) is not readd or self._error is not None:
            return
        index = next((i for i in readd.indexes if self._members[i] == bookie.id), None)
        if index is None:
            return  # replaced meanwhile: its copy does not count
        if status == ReplyStatus.EOK:
            readd.acks.add(index)
            self._advance()
        else:
            self._bookie_failed(index, error_of(status, bookie=bookie.id, ledger_id=self._ledger_id))

    def _send(self, readd: _ReAdd, bookie_id: str, txn: int, frame: bytes) -> None:
        if bookie_id not in self._failed:
            self._pool.get(bookie_id).send_add(txn, frame, readd)

    def _bookie_failed(self, index: int, error: BookKeeperError) -> None:
        bookie_id = self._members[index]
        if bookie_id in self._failed:
            return
        log.warning(
            "a bookie failed a recovery's add",
            extra={"ledger_id": self._ledger_id, "bookie": bookie_id, "error": str(error)},
        )
        if isinstance(error, UnauthorizedError):
            self._fail(error)
            return
        self._failed[bookie_id] = error
        self._placement.quarantine(bookie_id)
        try:
            chosen = self._placement.replace(self._members, [index], self._failed)[index]
        except NotEnoughBookiesError:
            for readd in self._under_way.values():
                self._check_enough(readd)
            return
        self._members[index] = chosen
        self.segments[self.confirmed + 1] = tuple(self._members)
        deadline_s = self._loop.time() + self._settings.request_timeout_s
        for readd in self._under_way.values():
            if index in readd.indexes:
                readd.deadline_s = deadline_s
                readd.acks.discard(index)
                txn = self._pool.next_txn()
                frame = self._encoder.encode_body(txn, readd.entry_id, readd.body)
                self._send(readd, chosen, txn, frame)

    def _check_enough(self, readd: _ReAdd) -> None:
        """Where a failed bookie could not be replaced: are those left an ack quorum of this entry?"""
        left = sum(self._members[index] not in self._failed for index in readd.indexes)
        if left < self._metadata.ack_quorum:
            said = "; ".join(f"{bookie}: {error.message}" for bookie, error in self._failed.items())
            self._fail(
                RecoveryError(
                    f"entry {readd.entry_id} needs {self._metadata.ack_quorum} bookies, {left} of its "
                    f"write set are left and there are no others: {said}",
                    ledger_id=self._ledger_id,
                    entry_id=readd.entry_id,
                )
            )

    def _advance(self) -> None:
        """Entries are safe in order."""
        quorum = self._metadata.ack_quorum
        while True:
            readd = self._under_way.get(self.confirmed + 1)
            if readd is None or len(readd.acks) < quorum:
                break
            del self._under_way[readd.entry_id]
            self._bytes -= readd.size_bytes
            self.confirmed += 1
        self._wake()

    def _fail(self, error: BookKeeperError) -> None:
        if self._error is None:
            self._error = error
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _until(self, reached: Callable[[], bool]) -> None:
        while True:
            if self._error is not None:
                raise self._error
            if reached():
                return
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None


class _ReAdd:
    """One entry on its way; gets the replies of its write set."""

    __slots__ = ("_owner", "acks", "body", "deadline_s", "entry_id", "indexes", "size_bytes")

    def __init__(self, owner: ReAdds, entry_id: int, body: bytes, indexes: tuple[int, ...]) -> None:
        self._owner = owner
        self.entry_id = entry_id
        self.body = body
        self.indexes = indexes
        self.acks: set[int] = set()
        self.size_bytes = len(body)
        self.deadline_s = 0.0

    def on_add_reply(self, bookie: AnsweringBookie, status: int) -> None:
        """A bookie's answer."""
        self._owner.answered(self, bookie, status)
