"""A tablespace's log as its doors tell readers of it: where it is, what is leased of it, what is published.

Beside ``tablespaces``. A database that is alone keeps all that in its process; a cluster keeps it in
ZooKeeper, so that any node with a replica can be asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from herdpy.log.lsn import LSN, START
from herdpy_sql.errors import SqlError

MAX_LEASE_S = 86_400.0

Told = Callable[[int, int, int], object]
"""Called with rows that are written, of how many (0: unknown), and their bytes."""


@dataclass(frozen=True, slots=True)
class PublishedAt:
    """A published snapshot: the place, the position, a moment that nothing in it is later than."""

    url: str
    lsn: LSN
    time_us: int


@dataclass(frozen=True, slots=True)
class NodePlace:
    """A node with a replica, as a reader may ask it; ``grpc`` and ``state`` are empty when it is away."""

    node: str
    grpc: str = ""
    state: str = ""
    applied: LSN = START


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPlace:
    """Where a log is. Of files there is a ``directory``, of BookKeeper the rest.

    Attributes:
        password: of the ledgers.
        base: the last entry that was trimmed.
        snapshot_url: where snapshots are published to; empty: nowhere.
    """

    tablespace: str
    log_id: str
    base: LSN
    directory: str = ""
    zookeeper: str = ""
    ledgers_root: str = ""
    ledger_list: str = ""
    password: bytes = field(default=b"", repr=False)
    snapshot_url: str = ""
    snapshot: PublishedAt | None = None
    nodes: Sequence[NodePlace] = ()
    leader: str = ""


@dataclass(frozen=True, slots=True)
class From:
    """From where a reader wants entries: after ``after``; else from the newest snapshot that has nothing
    after ``upto`` and nothing later than ``upto_us``.
    """

    after: LSN | None = None
    upto: LSN | None = None
    upto_us: int | None = None

    def chosen(self, snapshots: Sequence[PublishedAt]) -> PublishedAt | None:
        """The snapshot to begin from, of those that are there, newest first; None: none is like that."""
        for one in snapshots:
            if self.after is not None:
                if one.lsn == self.after:
                    return one
            elif (self.upto is None or one.lsn <= self.upto) and (
                self.upto_us is None or one.time_us <= self.upto_us
            ):
                return one
        return None


@dataclass(frozen=True, slots=True)
class LogLease:
    """What is kept for a reader: entries after ``after``, and a snapshot there, if there is one."""

    id: str
    after: LSN
    remaining_s: float
    snapshot: PublishedAt | None = None


class ServedLog(Protocol):
    """The log of one tablespace. What it raises is SqlError."""

    async def place(self) -> LogPlace:
        """Where it is. 08001: ZooKeeper does not answer."""

    async def lease(self, wanted: From, lease_s: float, purpose: str) -> LogLease:
        """Keep it from there on. 22003: it is gone, or no snapshot is as old as that."""

    async def renew(self, lease: str, after: LSN | None, lease_s: float) -> LogLease:
        """Keep it for longer; what is up to ``after`` is no longer needed. 42704: the lease is over."""

    async def release(self, lease: str) -> None:
        """Nothing is needed any more."""

    async def publish(self, url: str, told: Told) -> PublishedAt:
        """Publish a snapshot now; to another place than the tablespace's it is a copy.

        Raises:
            SqlError: 55000, there is no place; 55006, another is being published; as ``publishing.process``.
        """


def no_place(tablespace: str, hint: str) -> SqlError:
    """The error for a tablespace that publishes nothing, when nobody says where to."""
    return SqlError("55000", f"tablespace {tablespace} has no place to publish snapshots to", hint=hint)


def being_published(tablespace: str, where: str = "") -> SqlError:
    """The error for who wants to publish while another does."""
    return SqlError(
        "55006",
        f"a snapshot of tablespace {tablespace} is being published{where}",
        hint="Try again when it is done.",
    )


def not_kept(text: str) -> SqlError:
    """The error for entries, or a snapshot, that are not there any more."""
    return SqlError(
        "22003",
        text,
        hint="Read a newer state, or retain more: snapshot_history of the tablespace, publish.history_s"
        " alone.",
    )


def lease_is_over(lease: str) -> SqlError:
    """The error for a lease that nobody knows any more."""
    return SqlError(
        "42704",
        f"the lease {lease} has expired: what it retained may be gone",
        hint="Renew leases in time, and begin again with a new one.",
    )
