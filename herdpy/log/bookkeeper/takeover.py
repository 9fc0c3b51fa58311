"""Taking a log over: the list is claimed, the ledgers its writers left open are fenced and closed.

Above ``followed_log``, ``settings`` and ``leader_log``, which it makes. The steps, each of which may be
repeated, after a crash too:

1. Claim: the list's owner becomes this node and epoch, by compare-and-set. From here on no earlier
   leader can list another ledger, so the ledgers that are listed are all there are.
2. Recover each open ledger: BookKeeper fences it and finds its true end. ``end`` is the log's end then, until
   someone leads.
3. ``lead``: a ledger of one's own is made, or a spare one taken; one compare-and-set lists it and closes the
   others at their ends (those that stayed empty leave the list); it is begun with a header entry.

Who knows the list already (``known``) has the ledgers that were open there recovered beside the claim. They
are of earlier epochs, whose leaders are deposed; what the claim finds beside them is recovered then, and the
ends go into the list after the claim only.

Whoever loses a compare-and-set to a later epoch gives up; to an earlier one, tries again.

When bookies have lost entries, an operator has the log go on after a position that is not its end
(``go_on_after``): all that the list has is given up, and the log begins after that position, which some
replica has applied. What of the old ledgers comes after it is lost, so that is refused unless the loss is
accepted; what cannot be known counts as lost.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from google_crc32c import value as _crc32c

from herdpy.bookkeeper.client import BookKeeper
from herdpy.bookkeeper.digest import Entry
from herdpy.bookkeeper.errors import BookKeeperError, LostEntriesError, NoSuchLedgerError
from herdpy.log.bookkeeper.followed_log import FollowedLog
from herdpy.log.bookkeeper.leader_log import LeaderLog
from herdpy.log.bookkeeper.pacing import nothing_open
from herdpy.log.bookkeeper.settings import LedgerLogSettings
from herdpy.log.bookkeeper.spare_ledger import SpareLedger
from herdpy.log.bookkeeper.walk import ChainPosition, check_position, decoded
from herdpy.log.bookkeeper.znode_list import ZnodeLedgerList
from herdpy.log.commit_log import Acknowledge
from herdpy.log.errors import (
    CorruptLedgerError,
    LedgerListConflictError,
    LogEntriesLostError,
    LogError,
    LogLossError,
    LogUnavailableError,
)
from herdpy.log.ledger_list import LedgerInfo, LedgerListState
from herdpy.log.lsn import LSN
from herdpy.machine import boot_time_s

_log = logging.getLogger("herdpy.log.takeover")


async def take_over(
    bk: BookKeeper,
    ledger_list: ZnodeLedgerList,
    settings: LedgerLogSettings,
    node: str,
    epoch: int,
    applied: Callable[[], Awaitable[Iterable[LSN]]] | None = None,
    known: LedgerListState | None = None,
) -> Takeover:
    """Make this node the only one that can write to the log, and find the log's end.

    Cancelled or failed, it leaves nothing under way.

    Args:
        node: this node's name.
        epoch: its term, higher than that of every leader before it.
        applied: tells positions that somebody has applied; asked once the list is claimed. What they have
            was confirmed: no ledger is closed below them.
        known: the list as it was read a moment ago; it may be old.

    Raises:
        LogEntriesLostError: the bookies lack entries that somebody has applied. Nothing was closed.
        LedgerListConflictError: a node of the same or a later epoch owns the log, or took it meanwhile.
        LogUnavailableError: ZooKeeper or too many bookies did not answer; it may be tried again.
        CorruptLedgerError, ChainError: a ledger of the list is missing, or does not continue the log.
    """
    recoveries = _Recoveries(bk, settings)
    try:
        if known is not None and known.epoch < epoch:
            recoveries.begin(known.ledgers)
        claimed = await claim(ledger_list, node, epoch, known)
        recoveries.begin(claimed.ledgers)
        recoveries.confirmed.set_result(_furthest(() if applied is None else await applied()))
        closed = await _closed(claimed, recoveries)
    except BookKeeperError as error:
        raise LogUnavailableError(f"the log cannot be taken over now: {error}", outcome="unknown") from error
    finally:
        await recoveries.close()
    _log.info("log taken over", extra={"node": node, "epoch": epoch, "end": str(closed.settled_end[0])})
    return Takeover(bk, ledger_list, settings, closed)


async def claim(
    ledger_list: ZnodeLedgerList, node: str, epoch: int, known: LedgerListState | None = None
) -> LedgerListState:
    """Make a node the log's owner: no earlier leader can list another ledger.

    Args:
        known: the list as it was read a moment ago; None: it is read.

    Raises:
        LedgerListConflictError: a node of the same or a later epoch owns the log.
    """
    while True:
        state = known or await ledger_list.read()
        if state is None:
            state = LedgerListState(0, os.urandom(16).hex())
        if (state.epoch, state.node) != (epoch, node) and state.epoch >= epoch > 0:
            raise LedgerListConflictError(
                f"the log belongs to node {state.node} of epoch {state.epoch}, not to {node} of {epoch}"
            )
        try:
            return await ledger_list.write(replace(state, epoch=epoch, node=node), state.version)
        except LedgerListConflictError:
            # Its leader changed the list, or another node claims it: look again.
            await asyncio.sleep(0.0 if known is not None else 0.01)
            known = None


@dataclass(frozen=True, slots=True)
class _Recovered:
    """A ledger that is fenced, and closed in BookKeeper.

    Attributes:
        first, before, last: its first entry and its last two, as far as it has them; with one entry
            ``before`` is None.
    """

    length_bytes: int
    first: Entry | None = None
    before: Entry | None = None
    last: Entry | None = None

    def closed(self, info: LedgerInfo, place: ChainPosition) -> LedgerInfo:
        """The ledger as the list is to have it, which continues the log after ``place``.

        Raises:
            ChainError, CorruptLedgerError: it does not.
        """
        if self.first is None or self.last is None:
            return replace(info, closed=True)
        place.take(self.first)
        if self.before is not None:
            place = ChainPosition.at(self.before)
            place.take(self.last)
        assert place.crc is not None
        return replace(
            info,
            closed=True,
            last_entry_id=self.last.entry_id,
            length=self.length_bytes,
            crc=place.crc,
        )


class _Recoveries:
    """The ledgers of one takeover that are recovered, all at the same time.

    Attributes:
        confirmed: to be given the furthest entry of each ledger that somebody has applied: none is closed
            before that is known, nor below it.
    """

    def __init__(self, bk: BookKeeper, settings: LedgerLogSettings) -> None:
        self._bk = bk
        self._settings = settings
        self._tasks: dict[int, asyncio.Task[_Recovered]] = {}
        self.confirmed: asyncio.Future[Mapping[int, int]] = asyncio.get_running_loop().create_future()

    def begin(self, ledgers: Iterable[LedgerInfo]) -> None:
        """Recover those that are open, as far as that has not begun."""
        for info in ledgers:
            if not info.closed and info.ledger_id not in self._tasks:
                recovery = self._recover(info.ledger_id)
                self._tasks[info.ledger_id] = asyncio.create_task(recovery, name="ledger recovery")

    async def of(self, ledger_id: int) -> _Recovered:
        """One that was begun. BookKeeperError, LogEntriesLostError, CorruptLedgerError: it failed."""
        return await asyncio.shield(self._tasks[ledger_id])

    async def close(self) -> None:
        """End what is under way; may be repeated."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _recover(self, ledger_id: int) -> _Recovered:
        """Fence a ledger, and close it in BookKeeper, where it truly ends.

        One that is closed there already is taken as it is: ``herdpy ledgers recover`` is an operator's word.
        """
        known = asyncio.ensure_future(self._known(ledger_id))
        try:
            reader = await self._bk.open_ledger(
                ledger_id, self._settings.password, recover=True, known_entry_id=known
            )
        except LostEntriesError as error:
            raise LogEntriesLostError(
                f"ledger {ledger_id} of the log cannot be closed: {error.message}. Bring back the bookies"
                " that had it, or accept the loss with: herdpy ledgers recover",
                outcome="unknown",
            ) from error
        except NoSuchLedgerError as error:
            raise CorruptLedgerError(
                ledger_id, None, "", "it is in the ledger list, but BookKeeper has no such ledger"
            ) from error
        finally:
            known.cancel()
        try:
            last = reader.last_add_confirmed
            if last < 0:
                return _Recovered(reader.length_bytes)
            entry_ids = sorted({0, max(0, last - 1), last})
            first, *others = await asyncio.gather(*map(reader.get, entry_ids))
            if not others:
                return _Recovered(reader.length_bytes, first, None, first)
            return _Recovered(reader.length_bytes, first, (first, *others)[-2], others[-1])
        finally:
            await reader.close()

    async def _known(self, ledger_id: int) -> int:
        return (await asyncio.shield(self.confirmed)).get(ledger_id, -1)


async def _closed(state: LedgerListState, recoveries: _Recoveries) -> LedgerListState:
    """The list with its open ledgers closed, as it is to be written."""
    kept: list[LedgerInfo] = []
    place = ChainPosition(state.base, state.base_crc)
    for info in state.ledgers:
        closed = info
        if not info.closed:
            closed = (await recoveries.of(info.ledger_id)).closed(info, place)
        if closed.last_entry_id >= 0:
            kept.append(closed)
            place = ChainPosition(closed.last, closed.crc)
    return replace(state, ledgers=tuple(kept))


def _furthest(applied: Iterable[LSN]) -> dict[int, int]:
    """The furthest entry of each ledger that somebody has applied."""
    known: dict[int, int] = {}
    for ledger_id, entry_id in applied:
        known[ledger_id] = max(known.get(ledger_id, -1), entry_id)
    return known


class Takeover:
    """A log that was taken over and has no writer yet.

    Attributes:
        log: reads it, as it was found at first; close it when it is no longer needed.
        end: the last entry there is.
        crc: its running CRC.
    """

    def __init__(
        self,
        bk: BookKeeper,
        ledger_list: ZnodeLedgerList,
        settings: LedgerLogSettings,
        state: LedgerListState,
    ) -> None:
        self._bk = bk
        self._list = ledger_list
        self._settings = settings
        self._state = state
        self.log = FollowedLog(bk, ledger_list, settings, known=state)
        self.end: LSN
        self.end, self.crc = state.settled_end

    @property
    def state(self) -> LedgerListState:
        """The ledger list as ``lead`` will write it, beside a ledger of its own."""
        return self._state

    def check(self, position: LSN) -> None:
        """Make sure that what was applied up to a position is what the log has.

        Raises:
            AheadOfLogError: it is not.
            LogTrimmedError: entries after it are gone.
        """
        check_position(self._state, position)

    async def lead(
        self,
        acknowledge: Acknowledge | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
        *,
        on_lost: Callable[[LogError], None] | None = None,
        clock: Callable[[], float] = boot_time_s,
        open_transactions: Callable[[], int] = nothing_open,
        spare: SpareLedger | None = None,
    ) -> LeaderLog:
        """Begin to write: returns once the header entry of a ledger of one's own is durable.

        Args:
            acknowledge: see :data:`~herdpy.log.commit_log.Acknowledge`; called on the loop.
            loop: the running loop, for those who like to say so.
            on_lost: called once, on the loop, when the log can write no more (not by ``close``).
            clock: seconds, running while the process is stopped; see ``ownership_s``.
            open_transactions: how many may commit soon, and so share an entry; see ``pacing``.
            spare: the first ledger, if it fits.

        Raises:
            LedgerListConflictError, LogFencedError: another node has taken the log over.
            LogUnavailableError: no ledger could be made within ``write_patience_s``; call it again.
        """
        assert loop is None or loop is asyncio.get_running_loop()
        log = LeaderLog(
            self._bk,
            self._list,
            self._settings,
            self._state,
            acknowledge=acknowledge,
            on_lost=on_lost,
            clock=clock,
            open_transactions=open_transactions,
        )
        await log.begin(spare)
        return log


# Going on after a loss.


async def go_on_after(
    bk: BookKeeper,
    ledger_list: ZnodeLedgerList,
    settings: LedgerLogSettings,
    node: str,
    epoch: int,
    position: LSN,
    *,
    accept_loss: bool,
) -> Takeover:
    """Take a log over so that it goes on after ``position``, with a ledger of its own.

    Raises:
        LogLossError: the log has, or may have had, transactions after ``position``. Nothing was changed but
            the log's owner, and ledgers fenced.
        LedgerListConflictError: another node has the log.
        ZooKeeperUnavailableError, SessionExpiredError: it may be tried again.
    """
    state = await claim(ledger_list, node, epoch)
    losses = [
        loss for info in state.ledgers if (loss := await _loss(bk, settings, info, position)) is not None
    ]
    if losses and not accept_loss:
        raise LogLossError(f"the log does not end at {position}: {'; '.join(losses)}")
    for loss in losses:
        _log.warning("what the log had is discarded", extra={"position": str(position), "loss": loss})
    begun = await ledger_list.write(_after(state, position), state.version)
    for info in state.ledgers:
        if not info.closed:
            await _close(bk, settings, info)
    return Takeover(bk, ledger_list, settings, begun)


def _after(state: LedgerListState, position: LSN) -> LedgerListState:
    """The list without ledgers, that begins after ``position``. Its CRC is that of a new chain: no entry
    before it is read any more."""
    return replace(state, base=position, base_crc=_crc32c(str(position).encode()), ledgers=())


async def _close(bk: BookKeeper, settings: LedgerLogSettings, info: LedgerInfo) -> None:
    """End a ledger that is in no list any more, so that who follows it looks at the list again."""
    try:
        reader = await bk.open_ledger(info.ledger_id, settings.password, recover=True, accept_loss=True)
        await reader.close()
    except BookKeeperError as error:  # it is deleted later, which ends it, too
        _log.warning("a ledger is not closed", extra={"ledger_id": info.ledger_id, "reason": error.message})


async def _loss(bk: BookKeeper, settings: LedgerLogSettings, info: LedgerInfo, position: LSN) -> str | None:
    """What a ledger has after ``position``, in words; None: certainly nothing. An open one is fenced."""
    if info.ledger_id < position.ledger_id:
        return None
    first = position.entry_id + 1 if info.ledger_id == position.ledger_id else 0
    try:
        reader = await bk.open_ledger(
            info.ledger_id, settings.password, recover=not info.closed, known_entry_id=first - 1
        )
    except LostEntriesError:
        return None  # it ends before the position
    except NoSuchLedgerError:
        return f"ledger {info.ledger_id} is gone"
    except BookKeeperError as error:
        return f"the end of ledger {info.ledger_id} cannot be known: {error.message}"
    try:
        for entry_id in range(first, reader.last_add_confirmed + 1):
            if decoded(await reader.get(entry_id)).parts:
                return f"ledger {info.ledger_id} has transactions from entry {entry_id} on"
    except (BookKeeperError, LogError) as error:
        return f"ledger {info.ledger_id} cannot be read: {error}"
    finally:
        await reader.close()
    return None
