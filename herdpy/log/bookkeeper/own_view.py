"""The leader's own log, for reading: what is confirmed is known here, and nothing has to be asked for.

Beside ``leader_log``, above ``followed_log``, whose walk it uses. Entries come from the bookies all the
same, so a tail costs the leader no memory.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Protocol

from herdpy.bookkeeper.client import BookKeeper
from herdpy.bookkeeper.digest import Entry as RawEntry
from herdpy.log.bookkeeper.followed_log import FollowedLog
from herdpy.log.bookkeeper.settings import LedgerLogSettings
from herdpy.log.bookkeeper.znode_list import ZnodeLedgerList
from herdpy.log.ledger_list import LedgerInfo, LedgerListState
from herdpy.log.lsn import LSN


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
    ) -> AsyncGenerator[RawEntry, None]:
        while True:
            last = self._last_of(info.ledger_id)
            if upto is not None:
                last = min(last, upto)
            if first <= last:
                async for raw in self._entries(info, first, last):
                    first = raw.entry_id + 1
                    yield raw
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

    def lac_moved(self) -> None:
        """Entries were confirmed."""
        if self._following:
            self._list.notify()

    def end(self) -> None:
        """Nothing follows any more: tails end when they have read what there is."""
        self._closed = True
        self._list.notify()
