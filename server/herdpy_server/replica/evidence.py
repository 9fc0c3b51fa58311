"""What a replica has that may be nowhere else is kept: it is evidence, for an operator to decide.

Above ``base``; below ``replica``. A store is evidence when the log does not have its position, or when it has
rows that most replicas have not. The mark stands on the disk, and in ZooKeeper for whoever places replicas:
what it says holds after a crash, and while the node is away, however the log goes on meanwhile.

The operator decides with ``herdpy ledgers keep-replica``, which writes a word to ZooKeeper; the replica that
it names watches for it, and does away with it when it is done.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import aclosing

import msgspec

from herdpy.bookkeeper import BookKeeperError, NoSuchLedgerError
from herdpy.bookkeeper.metadata.znodes import Watch, Znode, Znodes
from herdpy.log import LSN, START, AheadOfLogError, LogError
from herdpy.log.bookkeeper import FollowedLog, is_ahead
from herdpy.log.bookkeeper.walk import next_ledger
from herdpy.log.errors import LogTrimmedError
from herdpy_server.cluster.certain import change, delete_own
from herdpy_server.cluster.errors import MalformedMetadataError
from herdpy_server.cluster.layout import KeepRecord, TablespacePaths, decode, encode
from herdpy_server.replica.base import ReplicaBase
from herdpy_server.replica.files import keep, kept, release

logger = logging.getLogger("herdpy.replica")


class KeptError(Exception):
    """Nothing but an operator may replace the store: it has what others may not have."""


class Evidence:
    """Of one replica.

    Attributes:
        reason: why nothing but an operator may replace its store; None: it is no evidence.
    """

    def __init__(self, replica: ReplicaBase) -> None:
        self.reason: str | None = None
        self._replica = replica
        self._path = replica.host.path(replica.info.name)

    async def read(self) -> None:
        """Learn what the disk says."""
        self.reason = await self._replica.in_thread(kept, self._path)
        self._replica.reports.kept = self.reason or ""

    async def check_store(self, position: LSN) -> None:
        """AheadOfLogError when the store has what the log has lost, KeptError when it is kept so far."""
        state = await self._replica.ledger_list.read()
        if state is None or position == START:
            return
        if is_ahead(state, position):
            raise AheadOfLogError(f"{position} is not in the log")
        if self.reason is not None:
            raise KeptError(self.reason)

    async def check_log(self, log: FollowedLog, position: LSN) -> None:
        """As ``log.check``. What is known to be evidence stays so when the log is trimmed past it."""
        try:
            await log.check(position)
        except LogTrimmedError:
            if self.reason is not None and not _reaches(log.base, position):
                raise AheadOfLogError(self.reason) from None
            await self.drop()
            raise
        await self.drop()

    async def keep(self, reason: str) -> None:
        """Nothing but an operator gives up what it has, from now on, here and where replicas are placed."""
        reports = self._replica.reports
        if self.reason == reason and reports.kept:
            return
        await self._replica.in_thread(keep, self._path, reason)
        self.reason = reports.kept = reason
        await reports.keep_now()

    async def drop(self) -> None:
        """The log has what it has."""
        if self.reason is None:
            return
        await self._replica.in_thread(release, self._path)
        self.reason, self._replica.reports.kept = None, ""
        await self._replica.reports.keep_now()


async def log_is_whole(replica: ReplicaBase, position: LSN) -> bool:
    """Whether an empty store gets everything from the log that this one has: nothing was trimmed, and
    the bookies have it all. The store is not given up before that is known."""
    state = await replica.ledger_list.read()
    if state is None or state.base != START:
        return state is None and position == START
    return position == START or await _can_read(replica, START, position)


async def log_goes_on(replica: ReplicaBase, position: LSN) -> bool:
    """Whether the entry after ``position`` can be read, or there is none yet, where it would be."""
    state = await replica.ledger_list.read()
    ledger = None if state is None else next_ledger(state, position)
    if ledger is not None:
        try:
            await replica.host.bk.ledger_metadata(ledger.ledger_id)
        except NoSuchLedgerError:
            return False  # an open one would pass for one without entries
    return await _can_read(replica, position, None)


async def _can_read(replica: ReplicaBase, after: LSN, upto: LSN | None) -> bool:
    """Whether the log can be read from ``after`` to ``upto``; None: one entry, if there is one."""
    log = FollowedLog(replica.host.bk, replica.ledger_list, replica.log_settings())
    try:
        async with aclosing(log.read(after, upto)) as entries:  # type: ignore[type-var]
            async for lsn, _entry in entries:
                if upto is None or lsn >= upto:
                    return True
    except (LogError, BookKeeperError) as error:
        logger.warning("the log cannot be read", extra=replica.log_extra(reason=str(error)))
        return False
    finally:
        await log.close()
    return upto is None


def _reaches(base: LSN, position: LSN) -> bool:
    """Whether a log that begins after ``base`` had everything up to ``position``: none of it was lost."""
    return base.ledger_id == position.ledger_id and position <= base


class KeepWord:
    """The word to one node's replica of a tablespace.

    Attributes:
        record: what is to be done; None: nothing is.
    """

    def __init__(
        self, znodes: Znodes, paths: TablespacePaths, node: str, changed: Callable[[], object]
    ) -> None:
        """Args:
        changed: called when there is a word, or none any more.
        """
        self.record: KeepRecord | None = None
        self._znodes = znodes
        self._path = paths.keep
        self._node = node
        self._changed = changed
        self._watch: Watch | None = None

    def start(self) -> None:
        """Listen from now on."""
        self._watch = self._znodes.watch_data(self._path, self._decision_changed)

    def close(self) -> None:
        """Listen no more."""
        if self._watch is not None:
            self._watch.cancel()

    def _decision_changed(self, znode: Znode | None) -> None:
        record = None
        try:
            record = None if znode is None else decode(KeepRecord, self._path, znode.data)
        except MalformedMetadataError as error:
            logger.error("an operator's decision cannot be read", extra={"reason": str(error)})
        mine = record is not None and record.node == self._node and not record.refusal
        before, self.record = self.record, record if mine else None
        if self.record != before:
            self._changed()

    async def refuse(self, reason: str) -> None:
        """Say why it cannot be done; another word is waited for.

        Raises:
            NoNodeError, ZooKeeperUnavailableError, SessionExpiredError: it is not said.
        """
        record, self.record = self.record, None
        if record is None:
            return
        logger.error("an operator's decision is refused", extra={"reason": reason})
        tag = record.tag

        def refused(data: bytes) -> bytes:
            now = decode(KeepRecord, self._path, data)
            return encode(msgspec.structs.replace(now, refusal=reason)) if now.tag == tag else data

        await change(self._znodes, self._path, refused)

    async def done(self) -> None:
        """It is done. Raises ZooKeeperUnavailableError, SessionExpiredError: to be said again."""
        record = self.record
        if record is None:
            return
        await delete_own(
            self._znodes, self._path, lambda data: decode(KeepRecord, self._path, data).tag == record.tag
        )
        self.record = None
