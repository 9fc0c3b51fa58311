"""What a tablespace asks of the node that it is a replica of: whether its state may be read, and statements.

Beside ``tablespace``, which has a guard and a cluster where it is one of several replicas, and neither where
it is alone. A node fulfils both (``herdpy_server.replica``); sessions know nothing of ZooKeeper, nodes or
elections.

Sessions ask the :class:`Guard` twice for each statement that reads: before, whether this replica may be read
at the level that the session wants, and after, whether what was read may still be answered. Both are one
comparison where nothing is to be waited for. They hand statements to the :class:`Cluster`, and its answers
through. What takes time is a ``Wait``: the loop serves others meanwhile, and a statement that is cancelled
waits no more (what it has begun goes on).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

from herdpy.log import LedgerInfo
from herdpy.log.lsn import LSN, START
from herdpy.log.wait import Wait
from herdpy_server.store.limits import Limit
from herdpy_server.store.marks import KeptPast
from herdpy_sql.errors import SqlError
from herdpy_sql.parse.object_commands import TablespaceCommand

Level = Literal["linearizable", "bounded", "at_lsn", "any"]
LEVELS: tuple[Level, ...] = ("linearizable", "bounded", "at_lsn", "any")


class ReadLevel(NamedTuple):
    """How new what a session reads must be.

    Attributes:
        level: "linearizable": nothing newer was committed when the statement began. "bounded": nothing that
            was committed more than ``max_staleness_s`` before is missing. "at_lsn": everything up to
            ``min_lsn`` is there. "any": whatever this replica has.
    """

    level: Level = "linearizable"
    max_staleness_s: float = 1.0
    min_lsn: LSN = START


class Basis(Protocol):
    """What a leader's answers rest on."""

    def valid(self) -> bool:
        """Whether nobody else can have led up to this moment: so a linearizable read ``holds``."""


class Admission(Protocol):
    """A linearizable read of a follower that waits for the leader's answer.

    Attributes:
        wait: done when ``basis`` may be called.
    """

    @property
    def wait(self) -> Wait[None]: ...

    def basis(self) -> Basis | None:
        """What a read that begins in this turn of the loop rests on; None: it is to be admitted."""


class LeaderPlace(NamedTuple):
    """The node that leads, in which term, and where clients find it."""

    node: str
    epoch: int
    host: str
    port: int


class Guard(Protocol):
    """Who may read, and when.

    Attributes:
        basis: what answers rest on at this moment, while this replica leads. A read takes it when it begins,
            and gives it to ``holds``. None: this replica leads nobody.
        leads: whether linearizable reads may begin, as ``is_open`` says.
    """

    @property
    def basis(self) -> Basis | None: ...

    @property
    def leads(self) -> bool: ...

    def is_open(self, wanted: ReadLevel) -> bool:
        """Whether a read may begin now, with nothing to be waited for."""

    async def admit(self, wanted: ReadLevel) -> Basis | None:
        """Return when a read may begin: what it rests on, to be given to ``holds``.

        A linearizable read on a follower may begin only so; one call is for one statement.

        Raises:
            SqlError: HP003, this level requires the leader's answer, and there is none; 57P03, this replica
                cannot be read now, or is too far behind.
        """

    def ask_leader(self) -> Admission | None:
        """The short way of ``admit`` for a linearizable read on a follower; None: it is not open now."""

    def holds(self, wanted: ReadLevel, basis: Basis | None) -> bool:
        """Asked after a read, before the answer: whether the answer is as new as it must be.

        Args:
            basis: what the guard rested on when the read began. A leader that has lost its term
                meanwhile and won another may not answer: others may have led in between.
        """

    async def confirm(self, wanted: ReadLevel, basis: Basis | None) -> None:
        """As ``holds``, but waits until it can be said. SqlError as ``admit``; 40001, the leader changed."""

    def refusal(self, what: str) -> SqlError:
        """Why ``what`` cannot be done here: 25006, naming the leader."""

    def leader_place(self) -> LeaderPlace | None:
        """The leader as last heard; None: nobody leads, or this replica does."""

    def leader_unreached(self, client: str) -> str:
        """A client that is here cannot reach the leader: say so to operators.

        Returns:
            The node that leads and its address for clients; empty when none is known, or it is this one.
        """


Facts = Mapping[str, Sequence[Mapping[str, Any]]]
"""Rows of the tables of schema herdpy, by the table's name, each by its columns' names."""


class Remark(NamedTuple):
    """A message for a client besides its answer."""

    severity: str
    sqlstate: str
    text: str


class Checked(NamedTuple):
    """What comparing replicas came to.

    Attributes:
        rows: table or index, node, rows, checksum, whether that is as it should be.
    """

    rows: Sequence[tuple[str, str, int, str, bool]]
    remarks: Sequence[Remark]


class Cluster(Protocol):
    """One node, as sessions see it."""

    def change(self, command: TablespaceCommand, connected: str) -> Wait[Sequence[Remark]]:
        """Carry out CREATE, ALTER or DROP TABLESPACE for a session of tablespace ``connected``.

        Fails with SqlError: 42710, 42704, 42602, 22023 the statement; 55000, 55006, 53000 the cluster does
        not allow it now; 08001, 08007 ZooKeeper.
        """

    def check(self, tablespace: str) -> Wait[Checked]:
        """Compare the replicas of a tablespace that this node leads, and have those made anew that differ.

        Fails with SqlError: 3D000 there is no such tablespace; 25006 another node leads it; 55006 it is being
        checked; 08... the log or ZooKeeper.
        """

    def databases(self) -> Sequence[str]:
        """The names of the tablespaces, as last heard."""

    def facts(self) -> Wait[tuple[Facts, Remark | None]]:
        """What there is to be said of the cluster: as ZooKeeper says now, or, with a remark, as of when it
        was heard of last.
        """


class LogNeed(NamedTuple):
    """Entries of a log after ``after`` are kept, for ``reason``."""

    after: LSN
    reason: str


def retained(ledgers: Iterable[LedgerInfo], keep_bytes: int) -> LSN | None:
    """The end of the newest ledger with ``keep_bytes`` of closed ledgers behind it; None: there is none."""
    kept = 0
    for ledger in reversed([one for one in ledgers if one.closed]):
        if kept >= keep_bytes:
            return ledger.last
        kept += ledger.length
    return None


def retention_need(ledgers: Iterable[LedgerInfo], keep_bytes: int) -> LogNeed:
    """That so many bytes of closed ledgers are kept in any case."""
    return LogNeed(retained(ledgers, keep_bytes) or START, "retention")


def ledger_rows(
    tablespace: str,
    ledgers: Iterable[LedgerInfo],
    needs: Sequence[LogNeed] = (),
    bookies: Mapping[int, Sequence[str]] | None = None,
) -> list[dict[str, Any]]:
    """Rows of herdpy.ledgers.

    Args:
        needs: what the log is kept for.
        bookies: by ledger those that get its entries now, as far as they are known.
    """
    where = bookies or {}
    return [
        {
            "tablespace": tablespace,
            "ledger_id": one.ledger_id,
            "state": "closed" if one.closed else "open",
            "entries": one.last_entry_id + 1 if one.closed else None,
            "length_bytes": one.length if one.closed else None,
            "epoch": one.epoch or None,
            "node": one.node or None,
            "bookies": ",".join(where[one.ledger_id]) if one.ledger_id in where else None,
            "kept_by": ", ".join(_kept_by(one, needs)) or None,
            "created": one.created_us,
        }
        for one in ledgers
    ]


def _kept_by(ledger: LedgerInfo, needs: Sequence[LogNeed]) -> list[str]:
    """Why a ledger is still there."""
    if not ledger.closed:
        return ["open"]
    return list(dict.fromkeys(need.reason for need in needs if ledger.last > need.after))


def limit_rows(tablespace: str, node: str | None, limits: Iterable[Limit]) -> list[dict[str, Any]]:
    """Rows of herdpy.limits."""
    return [
        {"tablespace": tablespace, "node": node, "is_near": one.is_near, **one._asdict()} for one in limits
    ]


def flashback_row(tablespace: str, node: str | None, kept: KeptPast) -> dict[str, Any]:
    """A row of herdpy.flashback."""
    is_kept = kept.flashback_s > 0
    return {
        "tablespace": tablespace,
        "node": node,
        "flashback_s": kept.flashback_s,
        "oldest_lsn": str(kept.oldest_lsn) if is_kept else None,
        "oldest_time": kept.oldest_us or None if is_kept else None,
        "marks": kept.marks if is_kept else 0,
        "used_bytes": kept.used_bytes,
        "most_bytes": kept.most_bytes,
    }


def no_cluster() -> SqlError:
    """For statements about tablespaces where there are none."""
    return SqlError(
        "55000",
        "this database is not part of a cluster: there are no tablespaces to be made or changed",
        hint="Servers with cluster.zookeeper set form one; see docs/operations.md.",
    )
