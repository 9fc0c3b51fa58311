"""Bugs to put into the log: the simulation has to notice each of them.

Each is a context manager that patches the log while it is entered: mistakes that work well until
something fails at the wrong moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from herdpy.bookkeeper.errors import BookKeeperError, ZooKeeperUnavailableError
from herdpy.bookkeeper.write import LedgerWriter
from herdpy.log.bookkeeper import succession, takeover, walk
from herdpy.log.bookkeeper.followed_log import FollowedLog
from herdpy.log.bookkeeper.leader_log import LeaderLog
from herdpy.log.bookkeeper.own_ledgers import OwnLedgers, create_ledger
from herdpy.log.bookkeeper.succession import Succession
from herdpy.log.bookkeeper.znode_list import ZnodeLedgerList
from herdpy.log.errors import LedgerListConflictError, LogError
from herdpy.log.ledger_list import LedgerInfo, LedgerListState
from herdpy.log.lsn import LSN
from tests.bookkeeper.simulation.bugs import BUGS as CLIENT_BUGS
from tests.log_bookkeeper.simulation.world import World

Bug = Callable[[], AbstractContextManager[None]]
BUGS: dict[str, Bug] = {"drops_the_fence": CLIENT_BUGS["drops_the_fence"]}


def _bug(make: Callable[[], Iterator[None]]) -> Bug:
    bug = contextmanager(make)
    BUGS[make.__name__] = bug
    return bug


@_bug
def lists_a_ledger_after_its_first_entries() -> Iterator[None]:
    """A ledger is written to at once and listed some time later."""

    async def add(self: OwnLedgers, _spare: LedgerWriter | None = None) -> LedgerWriter:
        writer = await create_ledger(
            self._bk, self._settings, self.state.log_id, self.state.node, self.state.epoch
        )

        def make(state: LedgerListState) -> LedgerListState:
            info = LedgerInfo(writer.ledger_id, 0, epoch=state.epoch, node=state.node)
            return replace(state, ledgers=(*state.ledgers, info))

        async def later() -> None:
            await asyncio.sleep(0.02)
            try:
                await self.change(make)
            except (LogError, BookKeeperError):
                pass

        self._later = asyncio.create_task(later())  # type: ignore[attr-defined]
        return writer

    with patch.object(OwnLedgers, "add", add):
        yield


@_bug
def ignores_the_version_of_the_list() -> Iterator[None]:
    """The list is overwritten, whatever version it has."""
    put = ZnodeLedgerList._put

    async def overwrite(self: ZnodeLedgerList, data: bytes, expected_version: int) -> int:
        if not expected_version:
            return await put(self, data, expected_version)
        return await self._znodes.set(self.path, data, -1)

    with patch.object(ZnodeLedgerList, "_put", overwrite):
        yield


@_bug
def follows_to_the_next_ledger_at_the_last_add_confirmed() -> Iterator[None]:
    """A follower that is at what it knows to be confirmed goes on to the next ledger when there is one."""

    def next_ledger(state: LedgerListState, position: LSN) -> LedgerInfo | None:
        for info, following in zip(state.ledgers, [*state.ledgers[1:], None], strict=False):
            at_end = info.closed and info.last <= position
            left = not info.closed and following is not None and position.ledger_id == info.ledger_id
            if not at_end and not left:
                return info
        return None

    async def entries(
        self: FollowedLog, info: LedgerInfo, first: int, upto: int | None
    ) -> AsyncGenerator[Any, None]:
        last, _ = await self._asked(info)
        if first <= last:
            async for run in self._entries(info, first, last):
                yield run
        else:
            await asyncio.sleep(0.1)

    async def newer(self: FollowedLog, version: int) -> bool:
        await asyncio.sleep(0.05)
        await self.refresh()
        return not self._closed

    with (
        patch.object(walk, "next_ledger", next_ledger),
        patch.object(FollowedLog, "open_entries", entries),
        patch.object(FollowedLog, "newer", newer),
    ):
        yield


@_bug
def reports_what_is_not_confirmed() -> Iterator[None]:
    """A leader reports to followers what it has sent."""
    with patch.object(World, "reported", lambda _self, log: log.end):
        yield


@_bug
def takes_a_report_for_the_ledger_at_hand() -> Iterator[None]:
    """A follower does not look at which ledger a report is about."""

    def pass_on(self: FollowedLog, reader: Any, silent_s: float) -> None:
        reader.report(self._reported.entry_id, silent_s)

    with patch.object(FollowedLog, "_pass_on", pass_on):
        yield


@_bug
def says_not_done_of_what_is_unknown() -> Iterator[None]:
    """What was in flight when the log was lost is reported as not done."""
    lose = LeaderLog.lose

    def lost(self: LeaderLog, error: LogError, outcome: Any = "unknown") -> None:
        lose(self, error, "not done")

    with patch.object(LeaderLog, "lose", lost):
        yield


@_bug
def sends_again_without_closing() -> Iterator[None]:
    """What was in flight when bookies failed goes to a new ledger, though the old one may still have it."""

    async def close(writer: LedgerWriter) -> None:
        writer._upkeep.versioned = replace(
            writer._upkeep.versioned,
            metadata=writer.metadata.closed(writer.last_add_confirmed, writer._pipeline.lac_length),
        )

    closed = Succession._replace

    async def replace_ledger(self: Succession, writer: LedgerWriter, error: Any) -> None:
        with patch.object(succession, "close", close):
            await closed(self, writer, error)

    with patch.object(Succession, "_replace", replace_ledger):
        yield


@_bug
def recovers_only_the_first_open_ledger() -> Iterator[None]:
    """A takeover drops the ledger that was listed ahead, without looking whether it was begun."""
    recover = takeover._Recoveries._recover

    async def first_only(self: Any, ledger_id: int) -> Any:
        if any(one < ledger_id for one in self._tasks):
            return takeover._Recovered(0)
        return await recover(self, ledger_id)

    with patch.object(takeover._Recoveries, "_recover", first_only):
        yield


@_bug
def closes_only_what_it_knew_before_the_claim() -> Iterator[None]:
    """A takeover takes ledgers that were listed after it had read the list for empty ones."""
    begin = takeover._Recoveries.begin

    def once(self: Any, ledgers: Any) -> None:
        if self._tasks:
            empty = asyncio.get_running_loop().create_future()
            empty.set_result(takeover._Recovered(0))
            for info in ledgers:
                self._tasks.setdefault(info.ledger_id, empty)
        begin(self, ledgers)

    with patch.object(takeover._Recoveries, "begin", once):
        yield


@_bug
def does_not_claim_the_list() -> Iterator[None]:
    """A takeover looks at the list and closes what is open, with the versions of whoever wrote last."""

    lists: dict[str, ZnodeLedgerList] = {}

    async def claim(
        ledger_list: ZnodeLedgerList, node: str, epoch: int, known: LedgerListState | None = None
    ) -> LedgerListState:
        lists[node] = ledger_list
        state = await ledger_list.read()
        if state is None:
            return await ledger_list.write(LedgerListState(0, "1" * 32, epoch=epoch, node=node), 0)
        return replace(state, epoch=epoch, node=node)

    async def close(state: LedgerListState, recoveries: Any) -> LedgerListState:
        closed = await close_open(state, recoveries)
        newest = await lists[state.node].read()
        assert newest is not None
        return replace(closed, version=newest.version)

    close_open = takeover._closed
    with patch.object(takeover, "claim", claim), patch.object(takeover, "_closed", close):
        yield


@_bug
def takes_the_first_reply_for_the_outcome() -> Iterator[None]:
    """A change of the list whose reply was lost is taken for refused."""
    put = ZnodeLedgerList._put

    async def once(self: ZnodeLedgerList, data: bytes, expected_version: int) -> int:
        try:
            return await put(self, data, expected_version)
        except ZooKeeperUnavailableError as error:
            raise LedgerListConflictError("refused") from error

    deleted = OwnLedgers.add

    async def add(self: OwnLedgers, spare: LedgerWriter | None = None) -> LedgerWriter:
        before = set(await self._bk.list_ledgers())
        try:
            return await deleted(self, spare)
        except LedgerListConflictError:
            for ledger_id in set(await self._bk.list_ledgers()) - before:
                await self._delete(ledger_id)
            raise

    with patch.object(ZnodeLedgerList, "_put", once), patch.object(OwnLedgers, "add", add):
        yield
