"""What a replica has that may be nowhere else is kept: it is evidence, for an operator to decide.

Between ``base`` and ``playing``. A store is evidence when the log does not have its position, or when it has
rows that most replicas have not. The mark stands on the disk, and in ZooKeeper for whoever places replicas:
what it says holds after a crash, and while the node is away, however the log goes on meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing
from typing import TypeVar

from herdpy.bookkeeper import BookKeeperError, NoSuchLedgerError
from herdpy.log import LSN, START, AheadOfLogError, LogError
from herdpy.log.bookkeeper import FollowedLog, is_ahead
from herdpy.log.bookkeeper.walk import next_ledger
from herdpy.log.errors import LogTrimmedError
from herdpy_server.cluster.tablespace_info import TablespaceInfo
from herdpy_server.replica.base import ReplicaBase
from herdpy_server.replica.files import keep, release
from herdpy_server.replica.host import Host
from herdpy_server.replica.word import KeepWord

logger = logging.getLogger("herdpy.replica")

T = TypeVar("T")


class KeptError(Exception):
    """Nothing but an operator may replace the store: it has what others may not have."""


class Keeping(ReplicaBase):
    """See the module."""

    def __init__(self, host: Host, info: TablespaceInfo) -> None:
        super().__init__(host, info)
        self._reseed: str | None = None  # why its store is not to be read
        self._evidence: str | None = None  # why nothing but an operator may replace its store
        self._word = KeepWord(host.bk.znodes, self._paths, host.node, self._word_changed)

    def _word_changed(self) -> None:
        raise NotImplementedError

    @property
    def _is_to_be_kept(self) -> bool:
        """Whether an operator said that its state is the truth, and it does not lead yet."""
        return self._word.record is not None and self.log is None

    async def _in_thread(self, work: Callable[..., T], *arguments: object) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.host.threads.opening, work, *arguments)

    async def _check_evidence(self, position: LSN) -> None:
        """AheadOfLogError when the store has what the log has lost, KeptError when it is kept so far."""
        state = await self._ledgers.read()
        if state is None or position == START:
            return
        if is_ahead(state, position):
            raise AheadOfLogError(f"{position} is not in the log")
        if self._evidence is not None:
            raise KeptError(self._evidence)

    async def _log_is_whole(self, position: LSN) -> bool:
        """Whether an empty store gets everything from the log that this one has: nothing was trimmed, and
        the bookies have it all. The store is not given up before that is known."""
        state = await self._ledgers.read()
        if state is None or state.base != START:
            return state is None and position == START
        return position == START or await self._can_read(START, position)

    async def _can_read(self, after: LSN, upto: LSN | None) -> bool:
        """Whether the log can be read from ``after`` to ``upto``; None: one entry, if there is one."""
        log = FollowedLog(self.host.bk, self._ledgers, self.log_settings())
        try:
            async with aclosing(log.read(after, upto)) as entries:  # type: ignore[type-var]
                async for lsn, _entry in entries:
                    if upto is None or lsn >= upto:
                        return True
        except (LogError, BookKeeperError) as error:
            logger.warning("the log cannot be read", extra=self._extra(reason=str(error)))
            return False
        finally:
            await log.close()
        return upto is None

    async def _check(self, log: FollowedLog, position: LSN) -> None:
        """As ``log.check``. What is known to be evidence stays so when the log is trimmed past it."""
        try:
            await log.check(position)
        except LogTrimmedError:
            if self._evidence is not None and not _reaches(log.base, position):
                raise AheadOfLogError(self._evidence) from None
            await self._no_evidence()
            raise
        await self._no_evidence()

    async def _keep_evidence(self, reason: str) -> None:
        """Nothing but an operator gives up what it has, from now on, here and where replicas are placed."""
        if self._evidence == reason and self.reports.kept:
            return
        await self._in_thread(keep, self.host.path(self.info.name), reason)
        self._evidence = self.reports.kept = reason
        await self.reports.keep_now()

    async def _no_evidence(self) -> None:
        """The log has what it has."""
        if self._evidence is None:
            return
        await self._in_thread(release, self.host.path(self.info.name))
        self._evidence, self.reports.kept = None, ""
        await self.reports.keep_now()

    async def _log_goes_on(self, position: LSN) -> bool:
        """Whether the entry after ``position`` can be read, or there is none yet, where it would be."""
        state = await self._ledgers.read()
        ledger = None if state is None else next_ledger(state, position)
        if ledger is not None:
            try:
                await self.host.bk.ledger_metadata(ledger.ledger_id)
            except NoSuchLedgerError:
                return False  # an open one would pass for one without entries
        return await self._can_read(position, None)


def _reaches(base: LSN, position: LSN) -> bool:
    """Whether a log that begins after ``base`` had everything up to ``position``: none of it was lost."""
    return base.ledger_id == position.ledger_id and position <= base
