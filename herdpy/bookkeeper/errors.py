"""Everything that can go wrong with a ledger, one class per cause.

Every layer of ``herdpy.bookkeeper`` raises these and nothing else. Each carries what is known of the
operation that failed (``outcome``) and where it failed (bookie, ledger, entry). A status that came
over the wire becomes an exception through ``error_of``.

``code`` is the number of BookKeeper's protocol (version 3) for what a bookie answered, and the number of
BookKeeper's client API (client/api/BKException.java, negative) for what the client itself found.
"""

from __future__ import annotations

import enum
from typing import ClassVar, Final


class Outcome(enum.Enum):
    """What is known of the operation that failed."""

    NOT_DONE = "not done"
    """It had no effect and will have none."""

    UNKNOWN = "unknown"
    """It may have taken effect, or may yet: whoever recovers the ledger can keep an append in flight."""


class BookKeeperError(Exception):
    """The root of all errors of this package.

    Attributes: ``message``; ``outcome``, the class's default unless the raiser knew better; ``bookie``,
    ``ledger_id`` and ``entry_id`` where it happened, or None.
    """

    code: ClassVar[int | None] = None
    default_outcome: ClassVar[Outcome] = Outcome.UNKNOWN
    default_message: ClassVar[str] = "the operation failed"

    def __init__(
        self,
        message: str | None = None,
        *,
        outcome: Outcome | None = None,
        bookie: str | None = None,
        ledger_id: int | None = None,
        entry_id: int | None = None,
    ) -> None:
        self.message = self.default_message if message is None else message
        super().__init__(self.message)
        self.outcome = self.default_outcome if outcome is None else outcome
        self.bookie = bookie
        self.ledger_id = ledger_id
        self.entry_id = entry_id

    def __str__(self) -> str:
        places = (("bookie", self.bookie), ("ledger", self.ledger_id), ("entry", self.entry_id))
        where = ", ".join(f"{noun} {value}" for noun, value in places if value is not None)
        return f"{self.message} ({where})" if where else self.message


# What a bookie answers.


class NoSuchLedgerError(BookKeeperError):
    """The bookie, or the metadata, knows no such ledger."""

    code = 402
    default_outcome = Outcome.NOT_DONE
    default_message = "no such ledger"


class NoSuchEntryError(BookKeeperError):
    """The bookie has no such entry of this ledger."""

    code = 403
    default_outcome = Outcome.NOT_DONE
    default_message = "no such entry"


class BadRequestError(BookKeeperError):
    """The bookie did not accept the form of the request."""

    code = 404
    default_outcome = Outcome.NOT_DONE
    default_message = "the bookie refused the request as malformed or unsupported"


class BookieIOError(BookKeeperError):
    """The bookie could not read or write its disks."""

    code = 501
    default_message = "the bookie met an I/O error"


class UnauthorizedError(BookKeeperError):
    """The master key is not the ledger's, or the connection is not authenticated."""

    code = 502
    default_outcome = Outcome.NOT_DONE
    default_message = "not authorised"


class BadVersionError(BookKeeperError):
    """The bookie does not speak this version of the protocol."""

    code = 503
    default_outcome = Outcome.NOT_DONE
    default_message = "the bookie does not speak this protocol version"


class LedgerFencedError(BookKeeperError):
    """Another client recovers, or has recovered, the ledger: this writer may add nothing more."""

    code = 504
    default_message = "the ledger was fenced by another client"


class ReadOnlyBookieError(BookKeeperError):
    """The bookie takes no writes."""

    code = 505
    default_outcome = Outcome.NOT_DONE
    default_message = "the bookie is read-only"


class TooManyRequestsError(BookKeeperError):
    """The bookie turned the request away because it has too many in progress."""

    code = 506
    default_outcome = Outcome.NOT_DONE
    default_message = "the bookie has too many requests in progress"


class UnknownLedgerStateError(BookKeeperError):
    """The bookie cannot tell what it holds of this ledger (it lost data before)."""

    code = 507
    default_outcome = Outcome.NOT_DONE
    default_message = "the bookie does not know the state of the ledger"


class UnknownStatusError(BookKeeperError):
    """The bookie answered with a status this client does not know; ``status`` is its number."""

    default_message = "the bookie answered with an unknown status"

    def __init__(
        self,
        message: str | None = None,
        *,
        status: int | None = None,
        outcome: Outcome | None = None,
        bookie: str | None = None,
        ledger_id: int | None = None,
        entry_id: int | None = None,
    ) -> None:
        if message is None and status is not None:
            message = f"{self.default_message}: {status}"
        super().__init__(message, outcome=outcome, bookie=bookie, ledger_id=ledger_id, entry_id=entry_id)
        self.status = status


# What the client finds between itself and a bookie.


class TimedOutError(BookKeeperError):
    """No answer came within the time allowed."""

    code = -23
    default_message = "no answer in time"


class BookieUnavailableError(BookKeeperError):
    """The bookie cannot be reached, or the connection broke before it answered."""

    code = -8
    default_message = "the bookie cannot be reached"


class ProtocolError(BookKeeperError):
    """What came over the wire is not BookKeeper's protocol: truncated, oversized or garbled."""

    default_message = "malformed frame"


class AuthenticationError(BookKeeperError):
    """The bookie and this client could not authenticate each other, or TLS failed."""

    code = -24
    default_outcome = Outcome.NOT_DONE
    default_message = "authentication failed"


class DigestMismatchError(BookKeeperError):
    """An entry is not what was written: its digest, ledger id or entry id differs."""

    code = -5
    default_outcome = Outcome.NOT_DONE
    default_message = "the digest does not match"


class NotEnoughBookiesError(BookKeeperError):
    """Fewer bookies can be written to than the operation needs."""

    code = -6
    default_message = "not enough bookies are available"


class RecoveryError(BookKeeperError):
    """The ledger could not be recovered; it stays as it is and may be tried again."""

    code: ClassVar[int | None] = -10
    default_message = "the ledger could not be recovered"


class LostEntriesError(RecoveryError):
    """The bookies have not all of the entries that were confirmed; the ledger was not closed without them."""

    code = None
    default_message = "confirmed entries of the ledger are lost"


# What is wrong with the call.


class LedgerClosedError(BookKeeperError):
    """The ledger is closed: by this writer, or by whoever recovered it."""

    code = -11
    default_message = "the ledger is closed"


class EntryTooLargeError(BookKeeperError):
    """The entry does not fit into a frame; nothing was sent."""

    default_outcome = Outcome.NOT_DONE
    default_message = "the entry is too large"


class BackPressureError(BookKeeperError):
    """As much as is allowed is in flight; nothing was sent."""

    default_outcome = Outcome.NOT_DONE
    default_message = "too much is in flight"


class ClosedClientError(BookKeeperError):
    """The client was closed."""

    code = -19
    default_message = "the client is closed"


class WrongPasswordError(UnauthorizedError):
    """The password is not the one the ledger was created with."""

    code = -102
    default_message = "wrong ledger password"


class WrongDigestTypeError(BookKeeperError):
    """The digest type asked for is not the one the ledger was created with."""

    default_outcome = Outcome.NOT_DONE
    default_message = "wrong digest type"


# What the metadata says.


class LedgerExistsError(BookKeeperError):
    """A ledger of that id exists already."""

    code = -20
    default_outcome = Outcome.NOT_DONE
    default_message = "the ledger exists already"


class MetadataVersionError(BookKeeperError):
    """Somebody else changed the ledger's metadata first: the compare-and-set was lost."""

    code = -17
    default_outcome = Outcome.NOT_DONE
    default_message = "the metadata was changed by another client"


class MetadataError(BookKeeperError):
    """Ledger metadata is garbled, contradicts itself, or has an unknown version."""

    code = -107
    default_outcome = Outcome.NOT_DONE
    default_message = "the ledger metadata cannot be understood"


class UnknownLayoutError(BookKeeperError):
    """The cluster keeps its metadata in a layout this client does not know."""

    code = -18
    default_outcome = Outcome.NOT_DONE
    default_message = "unknown metadata layout"


class ZooKeeperUnavailableError(BookKeeperError):
    """ZooKeeper did not answer; a change asked for may have been made."""

    code = -9
    default_message = "ZooKeeper cannot be reached"


class SessionExpiredError(BookKeeperError):
    """The ZooKeeper session expired; a change asked for may have been made."""

    default_message = "the ZooKeeper session expired"


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
