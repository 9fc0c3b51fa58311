"""The ledgers of a log, wherever they are: what reading asks of them. Above ``address``.

``bookies`` and ``directory`` are the two kinds; ``opened`` picks one. Everything is plain and blocking: a
Spark task is a thread that has nothing else to do.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Protocol

from herdpy.log import LSN, ChainError, LogClosedError, LogEntry, LogUnavailableError
from herdpy.log.ledger_list import LedgerListState
from herdpy.log.records import StagedPart
from herdpy_spark.log.address import LogAddress

_GLANCE_S = 0.02
_PATIENCE_S = 15.0


class LogLedgers(Protocol):
    """An open log, for reading. Errors are those of ``herdpy.log``."""

    def state(self) -> LedgerListState:
        """The ledger list as it is now."""

    def confirmed(self) -> LSN:
        """The newest entry that is confirmed (the LAC); the base of a log without entries."""

    def read(self, after: LSN, upto: LSN) -> Generator[LogEntry, None, None]:
        """The entries after ``after`` to ``upto``, which must be known to be confirmed; each is checked
        against the one before it."""

    def part(self, part: StagedPart) -> Generator[bytes, None, None]:
        """The bytes of a load's staged rows, in pieces; only known to be right when all were given."""


@contextmanager
def opened(address: LogAddress) -> Generator[LogLedgers, None, None]:
    """The log at an address, closed again afterwards.

    Raises:
        LogUnavailableError: ZooKeeper or the bookies did not answer in time.
        LogClosedError: there is no log, or another one than the address names.
    """
    if address.directory:
        from herdpy_spark.log.directory import DirectoryLedgers

        files = DirectoryLedgers(address)
        _check_identity(address, files)
        yield files
        return
    from herdpy_spark.log.bookies import BookieLedgers

    with BookieLedgers.opened(address) as bookies:
        _check_identity(address, bookies)
        yield bookies


def confirmed_from(ledgers: LogLedgers, least: LSN) -> LSN:
    """The newest entry that is confirmed, once that is ``least`` or later.

    A leader knows that an entry is durable before readers do: they are told with its next entry, or on a
    cadence when it is idle. Whoever was told by a server of ``least`` waits for that here.

    Raises LogUnavailableError when the log's readers are not told within 15 s.
    """
    late_s = time.monotonic() + _PATIENCE_S
    while (lsn := ledgers.confirmed()) < least:
        if time.monotonic() > late_s:
            raise LogUnavailableError(
                f"a server has applied {least}, and {_PATIENCE_S:g} s later only {lsn} is confirmed"
            )
        time.sleep(_GLANCE_S)  # another process writes it: there is nothing to await
    return lsn


def _check_identity(address: LogAddress, ledgers: LogLedgers) -> None:
    state = ledgers.state()
    if not state.version:
        raise LogClosedError(f"{address} is not there: it has no ledger list")
    if address.log_id and state.log_id != address.log_id:
        raise LogClosedError(
            f"{address} is another log than the one requested ({state.log_id}, not {address.log_id}):"
            " the tablespace was dropped and made again"
        )


def predecessor(state: LedgerListState, lsn: LSN) -> LSN:
    """The position before an entry of the log; ChainError when its ledger is not in the list."""
    if lsn.entry_id > 0:
        return LSN(lsn.ledger_id, lsn.entry_id - 1)
    before = state.base
    for ledger in state.ledgers:
        if ledger.ledger_id == lsn.ledger_id:
            return before
        if ledger.last_entry_id >= 0:
            before = ledger.last
    raise ChainError(f"{lsn} is not in the log: its ledger is not in the list")
