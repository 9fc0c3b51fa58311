"""How a log in BookKeeper is cut into ledgers, how many bookies keep it, how long is waited for them.

The lowest module of the package.
"""

from __future__ import annotations

from dataclasses import dataclass, field

_POSITIVE = (
    "max_entry_bytes",
    "max_in_flight",
    "enough_transactions",
    "max_queued_bytes",
    "max_ledger_bytes",
)


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
        enough_transactions: fewer than so many gather, too, while any entry is in flight: an entry costs the
            bookies, and everybody who follows, far more than a transaction more in it.
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
    enough_transactions: int = 8
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
