"""A log in BookKeeper as it is read: by followers, checkers, Spark and its leader. Reading never fences.

Above ``walk``, which does the checking, and ``znode_list``. FollowedList watches the list, and reads it again
now and then: a watch that says nothing costs no more than the time to the next reading; ZooKeeper that does
not answer is waited for as long as ``read_patience_s``. FollowedLog opens ledgers. What is unreachable is
waited for: a reader of a range for a while, a follower for ever. In OwnView the leader knows what is
confirmed, and asks nobody; entries come from the bookies all the same, so a tail costs the leader no memory.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Protocol

from herdpy.backoff import Backoff
from herdpy.bookkeeper.client import BookKeeper
from herdpy.bookkeeper.digest import Entry as RawEntry
from herdpy.bookkeeper.errors import (
    BookKeeperError,
    ClosedClientError,
    NoSuchLedgerError,
    SessionExpiredError,
    ZooKeeperUnavailableError,
)
from herdpy.bookkeeper.metadata.znodes import Watch
from herdpy.bookkeeper.read import LedgerReader
from herdpy.log.bookkeeper.settings import FINAL, PAUSE_FIRST_S, PAUSE_MAX_S, LedgerLogSettings, ReaderBackoff
from herdpy.log.bookkeeper.walk import EntryRun, check_position, walk
from herdpy.log.bookkeeper.znode_list import ZnodeLedgerList
from herdpy.log.entry import LogEntry
from herdpy.log.errors import (
    CorruptLedgerError,
    LogClosedError,
    LogError,
    LogUnavailableError,
)
from herdpy.log.ledger_list import LedgerInfo, LedgerListState
from herdpy.log.lsn import LSN, START

_log = logging.getLogger("herdpy.log.followed")


class FollowedList:
    """The list of one tablespace, as it changes. All methods are called on the client's loop.

    Attributes:
        known: the list as it was last seen; None before.
        changed: set, and replaced by another, when something was heard of or it was closed.
    """

    def __init__(self, ledger_list: ZnodeLedgerList, settings: LedgerLogSettings) -> None:
        self.known: LedgerListState | None = None
        self.changed = asyncio.Event()
        self._list = ledger_list
        self._settings = settings
        self._bad: LogError | None = None
        self._watch: Watch | None = None
        self._closed = False

    async def state(self) -> LedgerListState:
        """The list as it is known here, which is watched from now on; read, if it never was.

        Raises:
            CorruptLedgerError: it is damaged.
            LogClosedError: it is gone, or another log's.
            LogUnavailableError: ZooKeeper did not answer in time.
        """
        if self._bad is not None:
            raise self._bad
        if self._watch is None and not self._closed:
            self._watch = self._list.watch(self._list_changed)
        if self.known is None:
            return await self.refresh()
        return self.known

    async def newer(self, version: int) -> bool:
        """Wait for a version newer than this; False: the list was closed before there was one.

        Errors as ``state``.
        """
        while not self._closed:
            if (await self.state()).version > version:
                return True
            changed = self.changed
            try:
                async with asyncio.timeout(self._settings.follow_interval_s):
                    await changed.wait()
            except TimeoutError:
                try:
                    await self.refresh()
                except LogUnavailableError as error:
                    _log.warning("the ledger list cannot be read", extra={"error": str(error)})
        return False

    async def refresh(self) -> LedgerListState:
        """Read it now. Errors as ``state``."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._settings.read_patience_s
        backoff = Backoff(PAUSE_FIRST_S, PAUSE_MAX_S, spread=0.0)
        while True:
            known = self.known is not None and self.known.version > 0
            try:
                state = await self._list.read()
                if state is not None or known:
                    break
                if self.known is None or not self.known.version:
                    break
                # The list came to be while this read was on its way: look again.
            except (ZooKeeperUnavailableError, SessionExpiredError) as error:
                pause_s = backoff.pause_s()
                if loop.time() + pause_s > deadline_s:
                    raise LogUnavailableError(f"the ledger list cannot be read: {error}") from error
                await asyncio.sleep(pause_s)
        self._heard(state)
        if self._bad is not None:
            raise self._bad
        assert self.known is not None
        return self.known

    def _list_changed(self, state: LedgerListState | CorruptLedgerError | None) -> None:
        if state is not None:  # that it is gone is believed only when it is read
            self._heard(state)

    def _heard(self, state: LedgerListState | CorruptLedgerError | None) -> None:
        known = self.known
        if isinstance(state, CorruptLedgerError):
            self._bad = state
        elif state is None:
            if known is not None and known.version:
                self._bad = LogClosedError("the ledger list is gone: the log was dropped")
            self.known = self.known or LedgerListState(0, "")
        elif known is not None and known.log_id not in ("", state.log_id):
            self._bad = LogClosedError("the ledger list is another log's: this one was dropped")
        elif known is None or state.version > known.version:
            self.known = state
        else:
            return
        self.notify()

    def notify(self) -> None:
        """Wake those who wait for ``changed``."""
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()

    def close(self) -> None:
        """Watch no more, and let go of those who wait; may be repeated."""
        self._closed = True
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        self.notify()


class FollowedLog:
    """One tablespace's log, read from any node. All methods are called on the client's loop.

    Args:
        bk: an open client.
        ledger_list: where the list is.
        known: the list, if it is known to whoever reads; it counts until a later version is heard of.
    """

    def __init__(
        self,
        bk: BookKeeper,
        ledger_list: ZnodeLedgerList,
        settings: LedgerLogSettings | None = None,
        known: LedgerListState | None = None,
    ) -> None:
        self._bk = bk
        self._settings = settings or LedgerLogSettings()
        self._list = FollowedList(ledger_list, self._settings)
        self._list.known = known
        self._closed = False
        self._seen = self._reported = LSN(-1, -1)
        self._report_due_s = 0.0
        self._readers: set[LedgerReader] = set()

    # What others use.

    def read(self, after: LSN, upto: LSN | None = None) -> AsyncIterator[tuple[LSN, LogEntry]]:
        """The entries after ``after``, to ``upto`` or as far as is confirmed when the reading begins.

        Raises:
            LogTrimmedError: entries after ``after`` are gone.
            AheadOfLogError: ``after`` is not in this log.
            ChainError: an entry does not follow the one before it.
            CorruptLedgerError: an entry, a ledger or the list is damaged or missing.
            LogUnavailableError: bookies or ZooKeeper did not answer for ``read_patience_s``.
        """
        return _one_by_one(self.read_runs(after, upto))

    async def read_runs(self, after: LSN, upto: LSN | None = None) -> AsyncGenerator[EntryRun, None]:
        """As :meth:`read`, as many entries at a time as are there."""
        if upto is not None and upto <= self.lac:
            limit = upto
        else:
            end = await self.position()
            limit = end if upto is None else min(upto, end)
        if after >= limit:
            await self.check(after)
            return
        async with aclosing(walk(self, after, limit)) as runs:
            async for run in runs:
                self._saw(run[-1][0])
                yield run

    def tail(self, after: LSN) -> AsyncIterator[tuple[LSN, LogEntry]]:
        """As ``read``, then each entry as soon as it is confirmed, over all ledgers, until ``close``.

        While bookies or ZooKeeper are away it waits.
        """
        return _one_by_one(self.tail_runs(after))

    async def tail_runs(self, after: LSN) -> AsyncGenerator[EntryRun, None]:
        """As :meth:`tail`, as many entries at a time as are there."""
        try:
            async with aclosing(walk(self, after, None)) as runs:
                async for run in runs:
                    self._saw(run[-1][0])
                    yield run
        except ClosedClientError:
            if not self._closed:
                raise

    async def check(self, position: LSN) -> None:
        """Make sure that a position is one of this log, as far as the list tells.

        Raises:
            AheadOfLogError: it is not: what was applied to there is not what the log has.
            LogTrimmedError: entries after it are gone.
            LogUnavailableError: ZooKeeper did not answer in time.
        """
        check_position(await self.refresh(), position)

    async def position(self) -> LSN:
        """The newest entry that is confirmed, asked of ZooKeeper and the bookies.

        Raises:
            LogUnavailableError: they did not answer in time.
        """
        state = await self.refresh()
        end, _ = state.settled_end
        for info in state.ledgers:
            if info.closed:
                continue
            last, _ = await self._asked(info)
            if last >= 0:
                end = LSN(info.ledger_id, last)
            break
        self._saw(end)
        return end

    async def bound(self) -> LSN:
        """A position behind which there is nothing that was acknowledged before this was asked.

        It may never be reached itself: what is stored and was not confirmed may be gone when the next
        leader has recovered the log, which then goes on in another ledger. Errors as ``position``.
        """
        state = await self.refresh()
        end, _ = state.settled_end
        for info in state.ledgers:
            if not info.closed:
                last = max(await self._asked(info))
                end = LSN(info.ledger_id, last) if last >= 0 else end
        return end

    def hurry(self) -> None:
        """Somebody waits for what is new: a tail looks for it now, though it has looked a moment ago."""
        for reader in self._readers:
            reader.hurry()

    def report(self, confirmed: LSN, silent_s: float, entries: Sequence[bytes] = ()) -> None:
        """Take over what the log's leader, or an earlier one, reports: that this entry is confirmed.

        The caller vouches for it; DESIGN.md of ``herdpy_server.replica`` says why it may. Tails that have
        read up to there do not ask bookies for news, but wait for the next report.

        Args:
            silent_s: the next report comes within that time, or tails ask bookies again. 0: none will come.
            entries: the last ones up to ``confirmed``, which tails need not read from bookies then.
        """
        self._report_due_s = asyncio.get_running_loop().time() + silent_s
        self._reported = max(self._reported, confirmed)
        for reader in self._readers:
            if entries and reader.ledger_id == confirmed.ledger_id:
                reader.give(confirmed.entry_id - len(entries) + 1, entries)
            self._pass_on(reader, silent_s)

    @property
    def is_reported(self) -> bool:
        """Whether reports come, and the next one is not overdue."""
        return asyncio.get_running_loop().time() < self._report_due_s

    def _pass_on(self, reader: LedgerReader, silent_s: float) -> None:
        ledger_id, entry_id = self._reported
        if reader.ledger_id >= ledger_id:  # of a newer ledger the next report will be
            reader.report(entry_id if reader.ledger_id == ledger_id else -1, silent_s)

    @property
    def lac(self) -> LSN:
        """The newest entry known here to be confirmed; see ``position``."""
        known = max(self._seen, self._reported)
        if self._list.known is not None:
            known = max(known, self._list.known.settled_end[0])
        for reader in self._readers:
            if reader.last_add_confirmed >= 0:
                known = max(known, LSN(reader.ledger_id, reader.last_add_confirmed))
        return known

    @property
    def known(self) -> LedgerListState | None:
        """The ledger list as it was last seen, with its version; None: it never was."""
        return self._list.known

    def ledgers(self) -> tuple[LedgerInfo, ...]:
        """The ledger list as it was last seen."""
        return self._list.known.ledgers if self._list.known is not None else ()

    @property
    def base(self) -> LSN:
        """The last entry that was trimmed, as far as was heard; START: none."""
        return self._list.known.base if self._list.known is not None else START

    async def close(self) -> None:
        """End every tail; may be repeated."""
        self._closed = True
        self._list.close()
        for reader in list(self._readers):
            await reader.close()

    # What ``walk`` asks.

    async def state(self) -> LedgerListState:
        return await self._list.state()

    async def newer(self, version: int) -> bool:
        return await self._list.newer(version)

    async def refresh(self) -> LedgerListState:
        return await self._list.refresh()

    def closed_entries(self, info: LedgerInfo, first: int) -> AsyncGenerator[list[RawEntry], None]:
        return self._entries(info, first, info.last_entry_id)

    def open_entries(
        self, info: LedgerInfo, first: int, upto: int | None
    ) -> AsyncGenerator[list[RawEntry], None]:
        return self._entries(info, first, upto)

    # Ledgers.

    async def _entries(
        self, info: LedgerInfo, first: int, upto: int | None
    ) -> AsyncGenerator[list[RawEntry], None]:
        """Entries from ``first`` to ``upto``, known to be confirmed, or (None) as they are, until the end."""
        patience = ReaderBackoff(self._settings.read_patience_s if upto is not None else None)
        while True:
            try:
                async with (
                    self._reader(info) as reader,
                    aclosing(
                        reader.tail_runs(first) if upto is None else reader.unconfirmed_runs(first, upto)
                    ) as runs,
                ):
                    async for run in runs:
                        patience.reset()
                        first = run[-1].entry_id + 1
                        yield run
                return
            except FINAL:
                raise
            except BookKeeperError as error:
                await patience.wait(error)

    async def _asked(self, info: LedgerInfo) -> tuple[int, int]:
        """The last entry of an open ledger that is confirmed, and the last that is stored anywhere."""
        patience = ReaderBackoff(self._settings.read_patience_s)
        while True:
            try:
                async with self._reader(info) as reader:
                    return reader.last_add_confirmed, reader.last_stored
            except NoSuchLedgerError:
                return -1, -1
            except FINAL:
                raise
            except BookKeeperError as error:
                await patience.wait(error)

    @asynccontextmanager
    async def _reader(self, info: LedgerInfo) -> AsyncIterator[LedgerReader]:
        reader = await self._bk.open_ledger(info.ledger_id, self._settings.password)
        self._readers.add(reader)
        try:
            if self._closed:  # while it was opened, so `close` did not know of it
                raise ClosedClientError("the log is closed", ledger_id=info.ledger_id)
            silent_s = self._report_due_s - asyncio.get_running_loop().time()
            if silent_s > 0:
                self._pass_on(reader, silent_s)
            yield reader
        finally:
            self._readers.discard(reader)
            await reader.close()

    def _saw(self, lsn: LSN) -> None:
        self._seen = max(self._seen, lsn)


async def _one_by_one(runs: AsyncGenerator[EntryRun, None]) -> AsyncGenerator[tuple[LSN, LogEntry], None]:
    async with aclosing(runs) as coming:
        async for run in coming:
            for item in run:
                yield item


# The leader's own log.


class Leader(Protocol):
    """What is asked of the log."""

    @property
    def state(self) -> LedgerListState: ...

    @property
    def lac(self) -> LSN: ...

    def ledgers(self) -> Sequence[LedgerInfo]: ...


class OwnView(FollowedLog):
    """The leader's own log, for reading: the list and what is confirmed are known here, not asked for."""

    def __init__(
        self, bk: BookKeeper, ledger_list: ZnodeLedgerList, settings: LedgerLogSettings, log: Leader
    ) -> None:
        super().__init__(bk, ledger_list, settings)
        self._log = log
        self._ends: dict[int, int] = {}  # of ledgers that are left and not yet closed in the list
        self._following = 0

    async def state(self) -> LedgerListState:
        return self._log.state

    async def refresh(self) -> LedgerListState:
        return self._log.state

    async def position(self) -> LSN:
        return self._log.lac

    @property
    def lac(self) -> LSN:
        return self._log.lac

    async def newer(self, version: int) -> bool:
        while self._log.state.version <= version:
            if self._closed:
                return False
            await self._list.changed.wait()
        return True

    async def open_entries(
        self, info: LedgerInfo, first: int, upto: int | None
    ) -> AsyncGenerator[list[RawEntry], None]:
        while True:
            last = self._last_of(info.ledger_id)
            if upto is not None:
                last = min(last, upto)
            if first <= last:
                async for run in self._entries(info, first, last):
                    first = run[-1].entry_id + 1
                    yield run
            elif self._closed or self._is_left(info.ledger_id) or (upto is not None and first > upto):
                return
            else:
                self._following += 1
                try:
                    await self._list.changed.wait()
                finally:
                    self._following -= 1

    def _is_left(self, ledger_id: int) -> bool:
        return ledger_id in self._ends or all(one.ledger_id != ledger_id for one in self._log.ledgers())

    def _last_of(self, ledger_id: int) -> int:
        if ledger_id in self._ends:
            return self._ends[ledger_id]
        lac = self._log.lac
        return lac.entry_id if ledger_id == lac.ledger_id else -1

    def ended(self, last: LSN) -> None:
        """A ledger was left, after this entry."""
        self._ends[last.ledger_id] = last.entry_id
        self._list.notify()

    def list_changed(self) -> None:
        """The leader wrote the list."""
        listed = {info.ledger_id for info in self._log.ledgers()}
        self._ends = {one: last for one, last in self._ends.items() if one in listed}
        self._list.notify()

    async def lac_after(self, position: LSN) -> LSN:
        """Wait for entries after this one to be confirmed; the last of them, or of all once the log ended."""
        while (lac := self._log.lac) <= position and not self._closed:
            self._following += 1
            try:
                await self._list.changed.wait()
            finally:
                self._following -= 1
        return lac

    def lac_moved(self) -> None:
        """Entries were confirmed."""
        if self._following:
            self._list.notify()

    def end(self) -> None:
        """Nothing follows any more: tails end when they have read what there is."""
        self._closed = True
        self._list.notify()
