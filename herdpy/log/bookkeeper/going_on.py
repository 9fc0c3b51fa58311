"""Having a log go on after a position that is not its end: an operator's word, when the bookies have lost it.

Beside ``takeover``, whose claim and fence it uses. What the list has is given up, all of it: the log begins
after the position, which somebody has applied. What of the old ledgers comes after that position is lost, so
that is refused unless the loss is accepted, too; where it cannot be known, it counts as lost.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from google_crc32c import value as _crc32c

from herdpy.bookkeeper.client import BookKeeper
from herdpy.bookkeeper.errors import BookKeeperError, LostEntriesError, NoSuchLedgerError
from herdpy.log.bookkeeper.settings import LedgerLogSettings
from herdpy.log.bookkeeper.takeover import Takeover, claim
from herdpy.log.bookkeeper.walk import decoded
from herdpy.log.bookkeeper.znode_list import ZnodeLedgerList
from herdpy.log.errors import LogError, LogLossError
from herdpy.log.ledger_list import LedgerInfo, LedgerListState
from herdpy.log.lsn import LSN

_log = logging.getLogger("herdpy.log.takeover")


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
