"""A ledger made in advance, by a follower that may lead next: its first one then costs no time.

Above ``settings``, beside ``own_ledgers``, which lists it when it is used. Nothing is written to it before,
and it is in no list. Its custom metadata have the epoch of the term that it is made for, the next one, and it
is used in that term only. So the rule of all ledgers holds for it, too: a leader's sweep deletes no ledger of
a later epoch that can still be listed, and nobody else leads in that epoch. One with an id below those of the
log's ledgers can be listed by nobody any more, and is no use.

One that is not used is deleted by its maker. What a maker leaves behind when it is killed is an orphan: a
sweep finds it.
"""

from __future__ import annotations

import asyncio
import logging

from herdpy.bookkeeper.client import BookKeeper
from herdpy.bookkeeper.errors import BookKeeperError, ClosedClientError, NoSuchLedgerError
from herdpy.bookkeeper.write import LedgerWriter
from herdpy.log.bookkeeper.settings import LedgerLogSettings, Quorums, create_ledger, quorums_for
from herdpy.log.ledger_list import LedgerListState

_log = logging.getLogger("herdpy.log.spare_ledger")


class SpareLedger:
    """That of one tablespace on one node, or none now. On the client's loop; one ``make`` at a time.

    Args:
        node: this node's name.
    """

    def __init__(self, bk: BookKeeper, node: str) -> None:
        self._bk = bk
        self._node = node
        self._writer: LedgerWriter | None = None
        self._log_id = ""
        self._epoch = 0

    @property
    def is_there(self) -> bool:
        """Whether there is one, of use or not."""
        return self._writer is not None

    def fits(self, state: LedgerListState, epoch: int, settings: LedgerLogSettings) -> bool:
        """Whether there is one that may be the next ledger of a log with this list, in this term."""
        writer = self._writer
        if writer is None or (self._log_id, self._epoch) != (state.log_id, epoch):
            return False
        newest = max((info.ledger_id for info in state.ledgers), default=state.base.ledger_id)
        if writer.ledger_id <= max(newest, state.base.ledger_id):
            return False
        metadata, usable = writer.metadata, self._bk.usable_bookies()
        sizes = Quorums(metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum)
        return sizes == quorums_for(settings, len(usable)) and usable.issuperset(
            metadata.last_segment.members
        )

    async def make(self, state: LedgerListState, epoch: int, settings: LedgerLogSettings) -> None:
        """See to it that there is one that fits, and that its bookies are connected.

        Args:
            state: the log's list, as it is known here.
            epoch: of the next term.

        Raises:
            BookKeeperError: none could be made, or one that is no use could not be deleted.
        """
        if self.fits(state, epoch, settings):
            return
        await self.drop()
        if quorums_for(settings, len(self._bk.usable_bookies())) is None:
            return
        self._log_id, self._epoch = state.log_id, epoch
        writer = self._writer = await create_ledger(self._bk, settings, state.log_id, self._node, epoch)
        await asyncio.gather(*map(self._bk.answers, writer.metadata.last_segment.members))

    def take(self, state: LedgerListState, settings: LedgerLogSettings) -> LedgerWriter | None:
        """The ledger, to be listed by the owner of this list; None when there is none that fits."""
        if not self.fits(state, state.epoch, settings):
            return None
        writer, self._writer = self._writer, None
        return writer

    async def drop(self) -> None:
        """Delete the ledger, if there is one. BookKeeperError: it may still be there, and is an orphan."""
        writer, self._writer = self._writer, None
        if writer is None:
            return
        writer.abandon(ClosedClientError("it is not needed"))
        try:
            await self._bk.delete_ledger(writer.ledger_id)
        except NoSuchLedgerError:
            pass
        except BookKeeperError as error:
            _log.info("a spare ledger is left", extra={"ledger_id": writer.ledger_id, "error": str(error)})
            raise
