"""From the status of a reply to the error that it means, and what stands for a reply that never came.

Above ``errors``, below ``wire``, whose ``status`` has the protocol's own numbers.
"""

from __future__ import annotations

from typing import Final

from herdpy.bookkeeper.errors import (
    BadRequestError,
    BadVersionError,
    BookieIOError,
    BookieUnavailableError,
    BookKeeperError,
    LedgerFencedError,
    NoSuchEntryError,
    NoSuchLedgerError,
    Outcome,
    ReadOnlyBookieError,
    TimedOutError,
    TooManyRequestsError,
    UnauthorizedError,
    UnknownLedgerStateError,
    UnknownStatusError,
)

TIMED_OUT: Final = -1001
"""Instead of a status: no answer came in time."""

UNAVAILABLE: Final = -1002
"""Instead of a status: no connection, or it broke."""

_BY_STATUS: Final[dict[int, type[BookKeeperError]]] = {
    402: NoSuchLedgerError,
    403: NoSuchEntryError,
    404: BadRequestError,
    501: BookieIOError,
    502: UnauthorizedError,
    503: BadVersionError,
    504: LedgerFencedError,
    505: ReadOnlyBookieError,
    506: TooManyRequestsError,
    507: UnknownLedgerStateError,
    TIMED_OUT: TimedOutError,
    UNAVAILABLE: BookieUnavailableError,
}


def error_of(
    status: int,
    *,
    message: str | None = None,
    outcome: Outcome | None = None,
    bookie: str | None = None,
    ledger_id: int | None = None,
    entry_id: int | None = None,
) -> BookKeeperError:
    """The exception for a status of a reply, or for TIMED_OUT or UNAVAILABLE; not raised here.

    A number nobody knows becomes UnknownStatusError. Raises ValueError for EOK, which is no error.
    """
    if status == 0:
        raise ValueError("EOK is not an error")
    found = _BY_STATUS.get(status)
    if found is None:
        return UnknownStatusError(
            message, status=status, outcome=outcome, bookie=bookie, ledger_id=ledger_id, entry_id=entry_id
        )
    return found(message, outcome=outcome, bookie=bookie, ledger_id=ledger_id, entry_id=entry_id)
