"""One term of a replica: the log is taken over and recovered, then led until the term is over.

Above ``following``; below ``replica``, which says when.

1. The log is taken over: every ledger that a predecessor may write to is fenced and closed.
2. What the replica does not have of it yet is applied, to its end.
3. A ledger of one's own is in the list, by compare-and-set, before its first entry.
4. The predecessor's lease is over, and one's own is valid.
5. Only now is anybody answered.

2 and 3 need the end that 1 found, and not each other; 4 runs from the election on; 5 needs them all.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

from herdpy.log import LSN, LogError, LogFencedError
from herdpy.log.bookkeeper import (
    LeaderLog,
    LedgerLogSettings,
    SpareLedger,
    Takeover,
    ZnodeLedgerList,
    go_on_after,
    take_over,
)
from herdpy.log.errors import LogUnavailableError
from herdpy.log.ledger_list import LedgerListState
from herdpy_server.cluster.lease import Term
from herdpy_server.replica.following import follow, staged_reader
from herdpy_server.replica.host import Host
from herdpy_server.replica.open_replica import OpenReplica

logger = logging.getLogger("herdpy.replica")

_RETRY_S = 0.1
_PATIENCE_S = 3.0
"""How long a replica holds a term without having the log: another may reach the bookies that it does not."""
_HAND_OVER_PATIENCE_S = 5.0


async def lead(
    host: Host,
    opened: OpenReplica,
    ledgers: ZnodeLedgerList,
    settings: LedgerLogSettings,
    term: Term,
    *,
    applied: Callable[[], Awaitable[Iterable[LSN]]],
    advanced: Callable[[], object],
    lost: Callable[[LogError], None],
    known: LedgerListState | None = None,
    spare: SpareLedger | None = None,
) -> LeaderLog:
    """Take the log over and make this replica the one that writes it.

    Cancelled or failed, it leaves nothing that could be written to.

    Args:
        applied: tells what replicas have applied: the log is not closed below that.
        advanced: called after each entry that is applied.
        lost: called once when the log that is returned can be written no more.
        known: the ledger list, as it was read a moment ago.
        spare: a ledger that was made in advance.

    Raises:
        LedgerListConflictError: another node has the log: the term is over.
        TermLostError: the term is over.
        LogUnavailableError: the log could not be taken over for some time: the term is better given back.
        LogEntriesLostError: the bookies lack what replicas have applied.
        AheadOfLogError: this replica has applied what the log has not.
        LogTrimmedError: what the replica lacks of the log is gone: it is to be seeded.
        ChainError, CorruptLedgerError, RecordError, ApplyError: replica or log are damaged.
    """
    loop = asyncio.get_running_loop()
    until_s = loop.time() + _PATIENCE_S
    while True:
        try:
            takeover = await take_over(host.bk, ledgers, settings, host.node, term.epoch, applied, known)
            try:
                log = await _at_the_end(host, opened, takeover, settings, advanced, lost, spare)
            finally:
                await takeover.log.close()
            break
        except LogUnavailableError as error:
            if loop.time() >= until_s:
                raise
            logger.warning("the log cannot be taken over yet", extra={"reason": str(error)})
            await asyncio.sleep(_RETRY_S)
            known = None
    return await _alone(log, term)


async def _at_the_end(
    host: Host,
    opened: OpenReplica,
    takeover: Takeover,
    settings: LedgerLogSettings,
    advanced: Callable[[], object],
    lost: Callable[[LogError], None],
    spare: SpareLedger | None,
) -> LeaderLog:
    """The log, with a ledger of its own, once the replica has applied all that was there before.

    Both are under way together. When either fails nobody can append: the other's work is abandoned, and a
    ledger that was begun is one with a header, for the next takeover to close.
    """
    takeover.check(opened.store.applied)
    beginning = asyncio.ensure_future(_begun(host, opened, takeover, lost, spare))
    try:
        if opened.store.applied < takeover.end:
            runs = takeover.log.read_runs(opened.store.applied, takeover.end)
            await follow(opened, runs, advanced, staged_reader(host.bk, settings))
        return await asyncio.shield(beginning)
    except BaseException:
        beginning.cancel()
        (begun,) = await asyncio.gather(beginning, return_exceptions=True)
        if isinstance(begun, LeaderLog):
            begun.abandon()
        raise


async def lead_on(
    host: Host,
    opened: OpenReplica,
    ledgers: ZnodeLedgerList,
    settings: LedgerLogSettings,
    term: Term,
    *,
    accept_loss: bool,
    lost: Callable[[LogError], None],
) -> LeaderLog:
    """As ``lead``, with what this replica has for the log's end, whatever the log says: an operator's word.

    Raises:
        LogLossError: the log has, or may have had, more, and that is not to be lost.
        LedgerListConflictError, TermLostError, LogUnavailableError: as ``lead``.
        BookKeeperError: ZooKeeper did not answer.
    """
    takeover = await go_on_after(
        host.bk, ledgers, settings, host.node, term.epoch, opened.store.applied, accept_loss=accept_loss
    )
    await takeover.log.close()
    log = await _begun(host, opened, takeover, lost)
    return await _alone(log, term)


async def _begun(
    host: Host,
    opened: OpenReplica,
    takeover: Takeover,
    lost: Callable[[LogError], None],
    spare: SpareLedger | None = None,
) -> LeaderLog:
    """The log that was taken over, with a ledger of its own. Errors as ``Takeover.lead``."""
    clock = host.coordination.renewal.clock
    tablespace = opened.tablespace
    return await takeover.lead(
        tablespace.acknowledge,
        on_lost=lost,
        clock=clock,
        open_transactions=tablespace.locks.count_owners,
        spare=spare,
    )


async def _alone(log: LeaderLog, term: Term) -> LeaderLog:
    """The log, once no earlier leader can hold a lease. Errors as ``Term.alone``; then it is given up."""
    try:
        await term.alone()
    except BaseException:
        log.abandon()  # nobody could append to it yet
        raise
    return log


async def hand_over(log: LeaderLog) -> None:
    """Finish what is under way, and close the ledgers, so that a successor has nothing to recover."""
    try:
        async with asyncio.timeout(_HAND_OVER_PATIENCE_S):
            await log.aclose()
    except (LogError, TimeoutError) as error:
        # A takeover closes what is open; those whose commits failed have their errors.
        logger.warning("the ledgers could not be closed in order", extra={"reason": str(error)})
    finally:
        log.abandon(LogFencedError("this replica does not lead any more"))
