"""What can go wrong with a log, and what it means for an append that was waiting.

Every error says by ``outcome`` what became of the append it is the answer of: "not done" (nothing
of it can be found, not even by a recovery), "unknown" (a recovery may or may not find it), "done"
(it is durable, but the answer could not be given). Errors of reading say "not done".
"""

from __future__ import annotations

from typing import Literal

Outcome = Literal["done", "not done", "unknown"]


NEWER_HINT = "Use the HerdPy that wrote it, or a newer one (docs/upgrades.md). Nothing was changed."


class LogError(Exception):
    """Base of the log's errors.

    Attributes:
        outcome: what became of the append, see the module.
    """

    def __init__(self, message: str, *, outcome: Outcome = "not done") -> None:
        super().__init__(message)
        self.outcome: Outcome = outcome


class LogClosedError(LogError):
    """The log is closed, or failed earlier and refuses appends."""


class LogFencedError(LogError):
    """Another writer owns the log: this one must step down."""


class LedgerListConflictError(LogFencedError):
    """The ledger list changed under us: a compare-and-set failed."""


class LogWriteError(LogError):
    """The device or the ledger service refused a write."""


class LogFullError(LogWriteError):
    """No space (ENOSPC) or no quota (EDQUOT) is left; appends work again once there is some."""


class LogBusyError(LogWriteError):
    """More is queued than the log may hold in memory; appends work again once some of it is written."""


class LogUnavailableError(LogError):
    """The service that keeps the ledgers did not answer in time; what was asked may be tried again."""


class LogTrimmedError(LogError):
    """The entries asked for were trimmed: take a snapshot instead."""


class RecordError(LogError):
    """Bytes that are no record, transaction or entry of the log's format."""


class NewerFormatError(LogError):
    """Whole bytes, in a version of the format that is not known here: a newer HerdPy wrote them.

    That is no damage, so it is no RecordError: nothing is cut off, rebuilt or seeded anew because of it.

    Attributes:
        sqlstate, hint: as clients and operators see it.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.sqlstate = "0A000"
        self.hint = NEWER_HINT


class ChainError(LogError):
    """An entry does not follow the one before it: entries are missing, repeated or foreign."""


class AheadOfLogError(ChainError):
    """A position is not in the log: who has applied it has what the log has lost, or what another log has."""


class LogEntriesLostError(LogUnavailableError):
    """The ledgers lack entries that somebody has applied: the log is not taken over without them."""


class LogLossError(LogError):
    """A log is not begun anew after a position, because it has, or may have had, more than that."""


class CorruptLedgerError(LogError):
    """A ledger is damaged where no crash can have damaged it.

    Attributes:
        ledger_id, entry_id: where; entry_id is None for the ledger's header and for the ledger list.
        file: path of the damaged file; empty when the ledger is in BookKeeper.
        reason: what is wrong, for people.
    """

    def __init__(self, ledger_id: int | None, entry_id: int | None, file: str, reason: str) -> None:
        where = "ledger list" if ledger_id is None else f"ledger {ledger_id}"
        if entry_id is not None:
            where += f", entry {entry_id}"
        if file:
            where += f", file {file}"
        super().__init__(f"the log is damaged: {where}: {reason}")
        self.ledger_id = ledger_id
        self.entry_id = entry_id
        self.file = file
        self.reason = reason
