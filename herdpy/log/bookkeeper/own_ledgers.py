"""The ledger list as its owner changes it: ledgers made and listed, closed, trimmed, deleted.

Above ``znode_list`` and ``settings``, below ``leader_log``. Changes are made one at a time, each a
compare-and-set on the version that this leader wrote last: if one is lost, another node owns the log.

Ownership: bookies forget that a ledger was fenced once they have dropped it. A leader that slept
through the takeover, the trimming and that might then write to a ledger that is no more, and get the
answer that it is done. So each change of the list is a proof, good for ``ownership_s``: without one so young
nothing is acknowledged; and a new leader deletes no ledger of others before that time is over.

An entry is a proof, too, of the moment at which it was sent: acknowledged while the last proof was good, it
was stored before any bookie could forget a fence, and so before there was one. A chain of entries keeps the
log while ZooKeeper is silent; a gap in it ends that, and then only the list counts.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from herdpy.bookkeeper.client import BookKeeper
from herdpy.bookkeeper.errors import BookKeeperError, NoSuchLedgerError
from herdpy.bookkeeper.write import LedgerWriter
from herdpy.log.bookkeeper.settings import EPOCH, LOG, LedgerLogSettings, create_ledger
from herdpy.log.bookkeeper.znode_list import ZnodeLedgerList
from herdpy.log.errors import LogError
from herdpy.log.ledger_list import LedgerInfo, LedgerListState
from herdpy.log.lsn import LSN
from herdpy.machine import CLOCK_DRIFT, boot_time_s

_log = logging.getLogger("herdpy.log.own_ledgers")


class OwnLedgers:
    """The list of a log that this node leads.

    Attributes:
        state: the list as this leader wrote it last.
        unlisted: ids of ledgers that left the list and still have to be deleted, with their epochs.
    """

    def __init__(
        self,
        bk: BookKeeper,
        ledger_list: ZnodeLedgerList,
        settings: LedgerLogSettings,
        state: LedgerListState,
        *,
        clock: Callable[[], float] = boot_time_s,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self.state = state
        self.unlisted: dict[int, int] = {}
        self._bk = bk
        self._list = ledger_list
        self._settings = settings
        self._clock = clock
        self._on_change = on_change
        self._lock = asyncio.Lock()
        self._began_s = clock()
        self._proven_s = -float("inf")

    @property
    def list_share(self) -> float:
        """How full the list is: 1 is what ZooKeeper takes."""
        return self._list.size_bytes / self._list.limit_bytes

    # Changes of the list.

    async def change(self, make: Callable[[LedgerListState], LedgerListState]) -> LedgerListState:
        """Replace the list by what ``make`` makes of it.

        Raises:
            LedgerListConflictError: another node owns the log.
        """
        async with self._lock:
            sent_s = self._clock()
            self.state = await self._list.write(make(self.state), self.state.version)
            self._proven_s = sent_s
        self._on_change()
        return self.state

    async def add(self, spare: LedgerWriter | None = None) -> LedgerWriter:
        """Make a ledger and list it, open; it is listed before anything is written to it.

        Args:
            spare: one that was made for this epoch, see ``spare_ledger``.

        Raises:
            LedgerListConflictError: another node owns the log.
            BookKeeperError: the ledger could not be made.
        """
        writer = spare or await create_ledger(
            self._bk, self._settings, self.state.log_id, self.state.node, self.state.epoch
        )
        if any(one.ledger_id >= writer.ledger_id for one in self.state.ledgers) or (
            self.state.base.ledger_id >= writer.ledger_id
        ):
            writer.abandon(BookKeeperError("its id is not above those of the log's ledgers"))
            raise LogError(
                f"BookKeeper gave ledger id {writer.ledger_id}, which is not above those of the log:"
                " its ids were reset"
            )

        def listed(state: LedgerListState) -> LedgerListState:
            info = LedgerInfo(writer.ledger_id, time.time_ns() // 1000, epoch=state.epoch, node=state.node)
            return replace(state, ledgers=(*state.ledgers, info), next_ledger_id=writer.ledger_id + 1)

        try:
            await self.change(listed)
        except BaseException:
            # It may be in the list all the same: a reply was lost, and the other node built on this
            # change. So it is left to that node, in the list or as an orphan.
            writer.abandon(BookKeeperError("the ledger could not be listed"))
            raise
        return writer

    async def settle(self, ledger_id: int, last_entry_id: int, length: int, crc: int) -> None:
        """List a ledger as closed at this end; one without entries leaves the list."""

        def settled(state: LedgerListState) -> LedgerListState:
            ledgers = []
            for info in state.ledgers:
                if info.ledger_id != ledger_id:
                    ledgers.append(info)
                elif last_entry_id >= 0:
                    ledgers.append(
                        replace(info, closed=True, last_entry_id=last_entry_id, length=length, crc=crc)
                    )
            return replace(state, ledgers=tuple(ledgers))

        await self.change(settled)
        if last_entry_id < 0:
            self.unlisted[ledger_id] = self.state.epoch

    async def trim(self, before: LSN) -> list[int]:
        """Take the closed ledgers that end at or before ``before`` from the list; their ids.

        The entries are gone for readers then; the ledgers themselves are deleted by ``sweep_unlisted``.
        """
        gone: list[LedgerInfo] = []
        for info in self.state.ledgers:
            if not info.closed or info.last > before:
                break
            gone.append(info)
        if not gone:
            return []
        count = len(gone)
        await self.change(
            lambda state: replace(
                state, base=gone[-1].last, base_crc=gone[-1].crc, ledgers=state.ledgers[count:]
            )
        )
        self.unlisted.update((info.ledger_id, info.epoch) for info in gone)
        return [info.ledger_id for info in gone]

    # Ownership.

    @property
    def unproven_s(self) -> float:
        """How long ago the list was this leader's for certain."""
        return self._clock() - self._proven_s

    def is_proven(self) -> bool:
        """Whether the list was this leader's not longer than ``ownership_s`` ago, by any other's clock."""
        return self._clock() - self._proven_s <= self._settings.ownership_s * (1 - CLOCK_DRIFT)

    def prove_by_entry(self, sent_s: float) -> None:
        """An entry that was sent then is acknowledged, and the list ``is_proven``."""
        self._proven_s = max(self._proven_s, sent_s)

    async def prove(self, age_s: float = 0.0) -> None:
        """Write the list as it is, unless that was done less than ``age_s`` ago.

        Raises:
            LedgerListConflictError: another node owns the log.
        """
        if self._clock() - self._proven_s > age_s:
            await self.change(lambda state: state)

    # Deleting.

    def may_delete(self, epoch: int) -> bool:
        """Whether no earlier leader can get the answer any more that it wrote to a ledger of this epoch."""
        if epoch == self.state.epoch:
            return True
        return self._clock() - self._began_s > self._settings.ownership_s

    async def sweep_unlisted(self) -> None:
        """Delete what left the list, as far as it may be deleted by now; the rest stays for later."""
        for ledger_id, epoch in list(self.unlisted.items()):
            if self.may_delete(epoch) and await self._delete(ledger_id):
                self.unlisted.pop(ledger_id, None)

    async def sweep(self) -> list[int]:
        """Delete this log's orphans, by their custom metadata: ledgers that were made and never listed, or
        trimmed and never deleted; their ids. It lists all of the cluster's ledgers.
        """
        deleted = []
        for ledger_id, known in (await self._bk.custom_metadata()).items():
            if not self._is_orphan(ledger_id, known):
                continue
            try:
                custom = (await self._bk.ledger_metadata(ledger_id)).custom_metadata
            except BookKeeperError:
                continue  # gone meanwhile
            if custom == known and await self._delete(ledger_id):
                deleted.append(ledger_id)
        return deleted

    def _is_orphan(self, ledger_id: int, custom: Mapping[str, bytes]) -> bool:
        """Whether it is of this log, in nobody's list, will never be, and may be deleted by now."""
        if custom.get(LOG) != self.state.log_id.encode():
            return False
        epoch = int(custom.get(EPOCH, b"0"))
        listed = {info.ledger_id for info in self.state.ledgers}
        newest = max(listed, default=self.state.base.ledger_id)
        # One that this leader is making at this moment has a higher id than those it listed; one that a later
        # leader is making, or keeps ready, has a higher epoch, and is of use only if its id is higher, too.
        is_over = epoch < self.state.epoch or ledger_id < newest
        return is_over and ledger_id not in listed and self.may_delete(epoch)

    async def _delete(self, ledger_id: int) -> bool:
        try:
            await self._bk.delete_ledger(ledger_id)
        except NoSuchLedgerError:
            return True
        except BookKeeperError as error:
            _log.warning("a ledger could not be deleted", extra={"ledger_id": ledger_id, "error": str(error)})
            return False
        return True
