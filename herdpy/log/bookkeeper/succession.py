"""From one ledger to the next: made ahead, switched to, closed behind, replaced when its bookies are gone.

Beside ``leader_log``, above ``own_ledgers``, ``sender`` and ``pauses``; everything here happens in tasks,
while appends go on. A ledger ends in one of two ways:

- It is large or old, or bookies are back that it lacks: the next one is made and listed; when nothing is
  in flight the sender goes on there (no write of metadata is waited for); then the old one is closed in
  BookKeeper, and after that in the list, where followers see that they may go on to the next.
- Its writer fails because bookies are missing: it is closed in BookKeeper where it is confirmed. What was
  in flight behind that is certainly not in the log, so it is sent again, to a ledger of the bookies that
  are left. Nobody who appends notices, unless that takes longer than ``write_patience_s``.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from herdpy.bookkeeper.client import BookKeeper
from herdpy.bookkeeper.errors import BookKeeperError, ClosedClientError
from herdpy.bookkeeper.metadata.znodes import Watch
from herdpy.bookkeeper.write import LedgerWriter
from herdpy.log.bookkeeper import insisting
from herdpy.log.bookkeeper.ensembles import Quorums, quorums_for, wanted
from herdpy.log.bookkeeper.log_tasks import LogTasks
from herdpy.log.bookkeeper.own_ledgers import OwnLedgers
from herdpy.log.bookkeeper.pauses import Pauses
from herdpy.log.bookkeeper.sender import Sender
from herdpy.log.bookkeeper.settings import LedgerLogSettings
from herdpy.log.errors import LogError, LogUnavailableError, LogWriteError, Outcome
from herdpy.log.lsn import LSN

_log = logging.getLogger("herdpy.log.succession")
_KEEP_S = 10.0


class SucceedingLog(Protocol):
    """What is asked of the log."""

    def lose(self, error: LogError, outcome: Outcome = "unknown") -> None: ...

    def ledger_ended(self, ledger_id: int, last_entry_id: int) -> tuple[LSN, int]: ...

    def deliver(self) -> None: ...


class Succession:
    """The tasks of one leader."""

    def __init__(
        self,
        bk: BookKeeper,
        ledgers: OwnLedgers,
        sender: Sender,
        pauses: Pauses,
        settings: LedgerLogSettings,
        owner: SucceedingLog,
    ) -> None:
        self._bk = bk
        self._ledgers = ledgers
        self._sender = sender
        self._pauses = pauses
        self._settings = settings
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._tasks = LogTasks(lambda error: self._owner.lose(error), self.look)
        self._stopped = False
        self._bookies: Watch | None = None
        self._looking: asyncio.TimerHandle | None = None
        self._due_s = 0.0
        self._asked = False
        self._closing = False
        self._trouble_s: float | None = None  # since when nothing could be written
        self._settled = asyncio.Event()

    # Life.

    def start(self) -> None:
        """Begin to look after the ledgers."""
        if not self._stopped:
            self._bookies = self._bk.on_bookies_change(self._bookies_changed)
            self._tasks.spawn("keep", self._keep())

    def stop(self) -> None:
        """End every task but the one that calls."""
        self._stopped = True
        if self._bookies is not None:
            self._bookies.cancel()
        if self._looking is not None:
            self._looking.cancel()
        self._tasks.stop()
        self._settled.set()

    async def _keep(self) -> None:
        """Now and then: proof of ownership, deletions that are due, bookies whose quarantine is over."""
        ownership_s = self._settings.ownership_s
        while True:
            await asyncio.sleep(min(_KEEP_S, ownership_s / 6))
            self._bookies_changed()
            self.prove(ownership_s / 3)
            await self._ledgers.sweep_unlisted()

    # Ownership.

    def prove(self, age_s: float = 0.0) -> None:
        """Make sure that the list is still this leader's, then acknowledge what waited for that."""
        if not self._stopped and not self._tasks.under_way("prove"):
            self._tasks.spawn("prove", self._prove(age_s))

    async def _prove(self, age_s: float) -> None:
        try:
            async with asyncio.timeout(max(self._settings.ownership_s, self._settings.write_patience_s)):
                await self._ledgers.prove(age_s)
        except TimeoutError:
            raise LogUnavailableError("ZooKeeper does not say who owns the log", outcome="unknown") from None
        self._owner.deliver()

    # The next ledger, while this one is written to.

    def went_well(self) -> None:
        """Something was written."""
        self._trouble_s = None

    def look(self) -> bool:
        """Make the next ledger if this one is past its size or age, or was asked to end; True if so."""
        writer = self._sender.writer
        if writer is None or self._stopped or self._closing:
            return False
        pushed = writer.last_add_pushed
        if not self._asked and (
            pushed <= 0
            or (writer.length_bytes < self._settings.max_ledger_bytes and self._loop.time() < self._due_s)
        ):
            return False
        busy = self._tasks.under_way("prepare", "retire", "replace")
        if self._sender.following is None and not busy and self._looking is None:
            self._tasks.spawn("prepare", self._prepare())
        return True

    async def _prepare(self) -> None:
        try:
            following = await self._ledgers.add()
        except BookKeeperError as error:
            _log.warning("the next ledger could not be made", extra={"error": str(error)})
            self._looking = self._loop.call_later(insisting.PAUSE_S, self._look_again)
            return
        if self._stopped:
            following.abandon(ClosedClientError("the log was given up"))
            return
        self._asked = False
        self._sender.following = following
        self._sender.schedule()

    def _look_again(self) -> None:
        self._looking = None
        self.look()

    def begun(self) -> None:
        """A ledger was begun: its age counts from now."""
        self._due_s = self._loop.time() + self._settings.max_ledger_age_s

    def retire(self, writer: LedgerWriter, last: LSN, crc: int) -> None:
        """Close a ledger that was left, in BookKeeper and then in the list."""
        self.begun()
        self._tasks.spawn("retire", self._retire(writer, last, crc))

    async def _retire(self, writer: LedgerWriter, last: LSN, crc: int) -> None:
        await insisting.close(writer)
        end = writer.metadata.last_entry_id
        if end != last.entry_id:
            raise LogError(f"ledger {last.ledger_id} was closed at entry {end}, but {last} is confirmed")
        await self._ledgers.settle(writer.ledger_id, end, writer.metadata.length_bytes, crc)
        self._tell_settled()
        await self._ledgers.sweep_unlisted()

    async def roll(self) -> None:
        """See ``LeaderLog.aroll``."""
        writer = self._sender.writer
        if writer is not None and writer.last_add_pushed <= 0:
            return
        ledger_id = writer.ledger_id if writer is not None else self._ledgers.state.ledgers[-1].ledger_id
        self._asked = self._asked or self._sender.following is None
        self.look()
        while not self._stopped and any(
            info.ledger_id == ledger_id and not info.closed for info in self._ledgers.state.ledgers
        ):
            await self._settled.wait()
        if self._stopped:
            raise LogWriteError("the log ended before the ledger was closed")

    def _tell_settled(self) -> None:
        settled, self._settled = self._settled, asyncio.Event()
        settled.set()

    # Bookies that come and go.

    @property
    def quorums(self) -> Quorums | None:
        """Those of the ledger that is written to; None: there is none now."""
        writer = self._sender.writer
        if writer is None:
            return None
        metadata = writer.metadata
        return Quorums(metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum)

    def _bookies_changed(self) -> None:
        now = self.quorums
        if now is None:
            return
        if now != wanted(self._settings):
            try:
                possible = quorums_for(self._settings, len(self._bk.usable_bookies()))
            except ClosedClientError:
                return  # the writer hears of it, too
            if possible is not None and possible > now:
                self._asked = True
                self.look()

    def replace(self, writer: LedgerWriter, error: BookKeeperError) -> None:
        """The ledger cannot be written to any more; go on in another one, unless it was taken from us."""
        failure = insisting.final(error)
        if failure is not None:
            self._owner.lose(failure)
        else:
            _log.warning("the ledger is replaced", extra={"ledger_id": writer.ledger_id, "error": str(error)})
            self._tasks.spawn("replace", self._replace(writer, error))

    async def _replace(self, writer: LedgerWriter, error: BookKeeperError) -> None:
        outcome: Outcome = "unknown"
        again = self._trouble_s is not None
        if self._trouble_s is None:
            self._trouble_s = self._loop.time()
        try:
            # Even when patience is at its end: whoever waits then learns what became of it.
            async with asyncio.timeout(self._settings.write_patience_s):
                await self._tasks.wait("prepare", "retire")
                await insisting.close(writer)
                # Behind this end there is nothing, for good.
                end, length = writer.metadata.last_entry_id, writer.metadata.length_bytes
                last, crc = self._owner.ledger_ended(writer.ledger_id, end)
                outcome = "not done"
            async with asyncio.timeout_at(self._trouble_s + self._settings.write_patience_s):
                if again:  # a new ledger failed before anything was written to it
                    await asyncio.sleep(insisting.PAUSE_S)
                await self._ledgers.settle(writer.ledger_id, end, length, crc)
                self._tell_settled()
                following = self._sender.following or await insisting.make(self._ledgers)
                self._sender.following = None
        except TimeoutError:
            self._owner.lose(LogUnavailableError(f"the log cannot be written: {error}"), outcome)
        except LogError as failure:
            self._owner.lose(failure, outcome)
        else:
            self.begun()
            self._sender.begin(following, last, crc)
            self._sender.pump()

    # The end, and trimming.

    async def trim(self, before: LSN) -> list[int]:
        """See ``LeaderLog.atrim``."""
        try:
            gone = await self._ledgers.trim(before)
        except LogError as error:
            self._owner.lose(error)
            raise
        await self._ledgers.sweep_unlisted()
        return gone

    async def close(self) -> None:
        """Let everything come to its end, then close what is open, in BookKeeper and in the list."""
        self._closing = True
        last = self._sender.last
        try:
            async with asyncio.timeout(self._settings.write_patience_s):
                while self._tasks.under_way("prepare", "retire", "replace") or self._pauses.is_busy:
                    await self._tasks.wait("prepare", "retire", "replace")
                    await self._pauses.quiet()
                writer, following = self._sender.writer, self._sender.following
                last, crc = self._sender.last, self._sender.crc
                self._sender.stop()
                if writer is not None:
                    await insisting.close(writer)
                    end, length = writer.metadata.last_entry_id, writer.metadata.length_bytes
                    await self._ledgers.settle(writer.ledger_id, end, length, crc)
                if following is not None:
                    await insisting.close(following)
                    await self._ledgers.settle(following.ledger_id, -1, 0, 0)
                await self._ledgers.sweep_unlisted()
        except (TimeoutError, BookKeeperError) as error:
            raise LogUnavailableError(
                f"the log's last ledger, at {last}, could not be closed: {error}", outcome="done"
            ) from error
