"""How a log in BookKeeper is cut into ledgers, what bookies a ledger gets, how long readers try again.

The lowest module of the package. A ledger is made before it is listed, so what is in the list exists. One
that was made and never listed is an orphan: its custom metadata say whose it is, ``sweep`` finds it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from herdpy.backoff import Backoff
from herdpy.bookkeeper.client import BookKeeper
from herdpy.bookkeeper.digest import DigestType
from herdpy.bookkeeper.errors import (
    BookKeeperError,
    ClosedClientError,
    DigestMismatchError,
    MetadataError,
    NoSuchEntryError,
    NoSuchLedgerError,
    NotEnoughBookiesError,
    UnauthorizedError,
    UnknownLayoutError,
)
from herdpy.bookkeeper.write import LedgerWriter
from herdpy.log.errors import LogUnavailableError

_POSITIVE = (
    "max_entry_bytes",
    "max_in_flight",
    "enough_transactions",
    "commit_siblings",
    "max_queued_bytes",
    "max_ledger_bytes",
)
MAX_COMMIT_DELAY_S = 0.1


@dataclass(slots=True, frozen=True)
class LedgerLogSettings:
    """The settings of one tablespace's log.

    Attributes:
        tablespace: its name, for the ledgers' custom metadata: tools show it, sweeping looks at it.
        ensemble, write_quorum, ack_quorum: of new ledgers: how many bookies share one, how many of
            them get each entry, how many must have it before it counts.
        strict: never write with fewer bookies than ``write_quorum``. Otherwise the write quorum
            shrinks with the bookies that are left, down to ``ack_quorum``.
        password: of all ledgers; it stands in the clear in ZooKeeper.
        max_entry_bytes: a transaction that does not fit an entry of this size is written in parts.
        max_in_flight: entries sent and not yet acknowledged at most; the rest gathers meanwhile.
        enough_transactions: so many are sent at once. Fewer gather while any entry is in flight, and for
            ``commit_delay_s`` while others commit: see ``pacing``.
        commit_delay_s: how long a commit waits at most for others to share its entry; 0: only for the answer
            to an entry that is in flight. On uvloop it is rounded to milliseconds.
        commit_siblings: no commit waits for others when fewer transactions than this are open. 1: until all
            have committed, though one that stays open keeps each commit waiting for the whole delay.
        max_queued_bytes: how much may wait to be sent; more appends are refused (LogBusyError).
        max_ledger_bytes, max_ledger_age_s: a ledger past either is followed by another.
        write_patience_s: how long appends wait for bookies or ZooKeeper to be back before they fail.
        read_patience_s: how long ``read`` and a takeover wait for the same.
        ownership_s: a leader that for so long could not make sure that the list is still its own
            acknowledges nothing. No ledger of another leader is deleted before that time has passed.
        follow_interval_s: a follower reads the list again so often, should a watch be lost.
    """

    tablespace: str = "herdpy"
    ensemble: int = 3
    write_quorum: int = 3
    ack_quorum: int = 2
    strict: bool = False
    password: bytes = field(default=b"", repr=False)
    max_entry_bytes: int = 1 << 20
    max_in_flight: int = 4
    enough_transactions: int = 32
    commit_delay_s: float = 0.004
    commit_siblings: int = 5
    max_queued_bytes: int = 64 << 20
    max_ledger_bytes: int = 64 << 20
    max_ledger_age_s: float = 3600.0
    write_patience_s: float = 10.0
    read_patience_s: float = 10.0
    ownership_s: float = 60.0
    follow_interval_s: float = 5.0

    def __post_init__(self) -> None:
        if not 1 <= self.ack_quorum <= self.write_quorum <= self.ensemble:
            raise ValueError(
                "quorums must satisfy ensemble >= write quorum >= ack quorum >= 1, not "
                f"{self.ensemble}, {self.write_quorum}, {self.ack_quorum}"
            )
        for name in _POSITIVE:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be positive, not {getattr(self, name)!r}")
        if not 0 <= self.commit_delay_s <= MAX_COMMIT_DELAY_S:
            raise ValueError(
                f"commit_delay_s must be from 0 to {MAX_COMMIT_DELAY_S}, not {self.commit_delay_s!r}"
            )


# New ledgers.

_log = logging.getLogger("herdpy.log.ensembles")

#: Keys of the custom metadata of every ledger of a log.
APPLICATION, LOG, TABLESPACE, NODE, EPOCH = "application", "log", "tablespace", "node", "epoch"


class Quorums(NamedTuple):
    """The sizes of a ledger: bookies in all, that get each entry, that must have it."""

    ensemble: int
    write: int
    ack: int


def quorums_for(settings: LedgerLogSettings, bookies: int) -> Quorums | None:
    """The sizes of a ledger when so many bookies can be used; None when they are too few.

    The ensemble shrinks first, down to the write quorum; then, unless strict, both, down to the ack
    quorum. That one never shrinks: an entry acknowledged is an entry that so many bookies have.
    """
    ensemble = min(settings.ensemble, bookies)
    write = min(settings.write_quorum, ensemble)
    if write < settings.write_quorum and (settings.strict or write < settings.ack_quorum):
        return None
    return Quorums(ensemble, write, settings.ack_quorum)


def wanted(settings: LedgerLogSettings) -> Quorums:
    """The sizes of a ledger when enough bookies are there."""
    return Quorums(settings.ensemble, settings.write_quorum, settings.ack_quorum)


async def create_ledger(
    bk: BookKeeper, settings: LedgerLogSettings, log_id: str, node: str, epoch: int
) -> LedgerWriter:
    """Make a ledger of a log, as :func:`create_sized`, with the custom metadata that say whose it is."""
    custom = {
        APPLICATION: b"herdpy",
        LOG: log_id.encode(),
        TABLESPACE: settings.tablespace.encode(),
        NODE: node.encode(),
        EPOCH: str(epoch).encode(),
    }
    return await create_sized(bk, settings, custom)


async def create_sized(
    bk: BookKeeper, settings: LedgerLogSettings, custom: Mapping[str, bytes]
) -> LedgerWriter:
    """Make a ledger of as many bookies as can be used, at most as many as the settings say.

    Bookies that failed lately are used only when there would be too few without them.

    Raises:
        NotEnoughBookiesError: there are fewer than the settings allow.
        BookKeeperError: see ``BookKeeper.create_ledger``.
    """
    size = quorums_for(settings, len(bk.usable_bookies()))
    smallest = settings.write_quorum if settings.strict else settings.ack_quorum
    if size is None:
        size = quorums_for(settings, smallest)  # with bookies that failed lately, if they are there
    assert size is not None
    while True:
        try:
            writer = await bk.create_ledger(
                size.ensemble, size.write, size.ack, DigestType.CRC32C, settings.password, custom
            )
        except NotEnoughBookiesError:
            if size.ensemble <= smallest:
                raise
            smaller = quorums_for(settings, size.ensemble - 1)
            if smaller is None:
                raise
            size = smaller
            continue
        if size != wanted(settings):
            _log.warning(
                "a ledger has fewer bookies than it should",
                extra={"ledger_id": writer.ledger_id, "quorums": "-".join(map(str, size))},
            )
        return writer


# Trying again.

_reader_log = logging.getLogger("herdpy.log.patience")

#: Errors that trying again does not help.
FINAL = (
    ClosedClientError,
    DigestMismatchError,
    MetadataError,
    NoSuchEntryError,
    NoSuchLedgerError,
    UnauthorizedError,
    UnknownLayoutError,
)
PAUSE_FIRST_S, PAUSE_MAX_S = 0.05, 1.0


class ReaderBackoff:
    """Pauses between attempts, not random, so that a simulation is one run; ``limit_s`` None: for ever."""

    def __init__(self, limit_s: float | None) -> None:
        self._limit_s = limit_s
        self._since_s: float | None = None
        self._backoff = Backoff(PAUSE_FIRST_S, PAUSE_MAX_S, spread=0.0)

    def reset(self) -> None:
        """Something worked."""
        self._since_s = None
        self._backoff.reset()

    async def wait(self, error: BookKeeperError) -> None:
        """Pause before the next attempt; raises LogUnavailableError when that is enough."""
        now_s = asyncio.get_running_loop().time()
        self._since_s = now_s if self._since_s is None else self._since_s
        if self._limit_s is not None and now_s - self._since_s > self._limit_s:
            raise LogUnavailableError(f"the log cannot be read: {error}") from error
        _reader_log.warning("a ledger cannot be read now", extra={"error": str(error)})
        await asyncio.sleep(self._backoff.pause_s())
