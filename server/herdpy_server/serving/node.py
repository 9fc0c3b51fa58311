"""A process as the front ends see it: a node, its tablespaces, where each stands, and its store.

Top of ``serving``, but for ``alone``. A client's database is the tablespace of that name. A database that is
alone has one tablespace; a node of a cluster has a replica of each that is placed on it. Which are here, and
where others are, the :class:`Placements` of a node know: from its data directory where it is alone
(``alone``), from ZooKeeper in a cluster (``replica.node``).

Who reads a store outside of sessions (a snapshot, a plan of partitions, a comparison) *uses* it: a replica's
store is closed and replaced while the process goes on, which waits for them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from herdpy.log import LedgerInfo
from herdpy.log.lsn import LSN, START
from herdpy_server.serving.backups import BackupMaking
from herdpy_server.serving.driver import Driver, Run
from herdpy_server.serving.logs import ServedLog
from herdpy_server.sessions import Session
from herdpy_server.store import Store
from herdpy_server.tablespace import Checkpointer
from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from herdpy_server.loading.ledgers import LedgerPlace


@dataclass(frozen=True, slots=True)
class LoadsHere:
    """One tablespace, or the replica of it that is here, as loads see it at this moment.

    Attributes:
        session: a new session. SqlError 57P03: there is nothing to be read or written.
        call: runs a session's coroutine, as ``Driver.call``.
        ledgers: where writers stage; None: on this server's disk.
        leader: the gRPC address, "host:port", of the node that leads, as last heard; None: it is not known.
    """

    session: Callable[[], Session]
    call: Callable[[Coroutine[Any, Any, Any]], Awaitable[Any]]
    ledgers: LedgerPlace | None = None
    leader: str | None = None


LEADER = "leader"
FOLLOWER = "follower"


@dataclass(frozen=True, slots=True)
class SeedingProgress:
    """A snapshot on its way from another replica.

    Attributes:
        donor: the node that gives it.
        received_bytes, total_bytes: of its file; 0 in all while the donor makes it.
    """

    donor: str
    received_bytes: int
    total_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TablespaceStatus:
    """Where a tablespace stands here, at one moment.

    Attributes:
        role: "leader", "follower", or the state when it is neither.
        state: what it is doing, as operators see it.
        applied, durable, log_end: what queries see; what the store has; the newest entry known of.
        lag_entries: about how many entries it has not applied; those of one ledger.
        hears_leader: a follower gets the leader's reports, so it asks no bookie for news.
        read_index_questions: its questions to the leader, while it followed, how far the log is.
        reads_in_place: how many reads at ``bounded`` it has answered as a follower without asking first.
        reads_waited: how many reads have waited for an answer, or for the log.
        leader: the node that leads, as last heard; None: nobody, or there are no nodes.
        epoch: of the newest term that this process has led; 0: none.
        takeovers, seedings: how often it came to lead, and got another replica's state.
        log_confirmed_reads: how many reads it answered as leader that the log confirmed, and not its lease.
        seeding: the snapshot that is on its way.
        problem: why it was quarantined or seeded last.
        unfit: why it should not lead now, though it may follow; None: it may.
        store: None when it is not open.
        bookies_missing: how many bookies fewer than wanted the log is written to here.
        list_share: how full the ledger list is, where it is written; 1 is what ZooKeeper takes.
        clients_without_leader: how many clients of this process cannot reach the node that leads.
        pending: commits that have their place in the log and are not durable yet.
    """

    name: str
    role: str = LEADER
    state: str
    applied: LSN = START
    durable: LSN = START
    log_end: LSN = START
    lag_entries: int = 0
    hears_leader: bool = False
    read_index_questions: int = 0
    reads_in_place: int = 0
    reads_waited: int = 0
    leader: str | None = None
    epoch: int = 0
    takeovers: int = 0
    log_confirmed_reads: int = 0
    seedings: int = 0
    seeding: SeedingProgress | None = None
    problem: str | None = None
    unfit: str | None = None
    store: Store | None = None
    pending: int = 0
    bookies_missing: int = 0
    list_share: float = 0.0
    clients_without_leader: int = 0


@dataclass(frozen=True, slots=True)
class Use:
    """A store that stays open until :attr:`leave` is called."""

    store: Store
    checkpointer: Checkpointer
    leave: Callable[[], None]


class Served(Protocol):
    """One tablespace, or the replica of it that is here."""

    @property
    def log(self) -> ServedLog:
        """Its log, for those who read it themselves."""

    @property
    def backups(self) -> BackupMaking:
        """What makes backups of it here."""

    def session(self) -> Session:
        """A new session; of a replica that only follows it is a ``set_standby`` one. SqlError 57P03: there is
        nothing to be read.
        """

    def status(self) -> TablespaceStatus:
        """Where it stands now."""

    def ledgers(self) -> Sequence[LedgerInfo]:
        """Of its log, oldest first, as far as they are known here."""

    async def checkpoint(self) -> list[int]:
        """Bring everything into the store; where it has its log for itself, delete what is not needed of it.

        Returns:
            Ids of the ledgers deleted.

        Raises:
            SqlError: it cannot be written, or is closed.
        """

    def use(self, give_up: Callable[[], object]) -> Use:
        """Its store, to be read; see :meth:`Uses.enter`. SqlError 57P03 when there is nothing to be read."""

    def loads(self) -> LoadsHere:
        """What publishes loads here."""

    async def reached(self, lsn: LSN) -> None:
        """Return when everything up to ``lsn`` is applied. SqlError 57P03 when that takes too long."""


T = TypeVar("T")


class Databases(Protocol):
    """Databases whose sessions all run on the loop of the front end."""

    def session(self, database: str) -> Session:
        """A new session; of a replica that only follows it is a ``set_standby`` one.

        Raises:
            SqlError: 3D000, there is no such database; 57P03, it is closed, or cannot be used yet.
        """

    def run(self, coroutine: Coroutine[Any, Any, T] | None, done: Callable[[Run[T]], object]) -> Run[T]:
        """A run of a coroutine of one of the sessions, to be started; see :class:`Run`."""

    @property
    def is_closed(self) -> bool:
        """Whether closing has begun: nobody gets a session any more."""


@dataclass(frozen=True, slots=True)
class UpgradeServer:
    """A server that runs: its node's id (empty: it is alone), its version, the newest level that it knows."""

    node: str
    version: str
    level: int


@dataclass(frozen=True, slots=True)
class UpgradeState:
    """How far an upgrade is.

    Attributes:
        level: what servers may write now.
        newest: the newest level that this server knows.
        servers: those that run.
        hindrance: why the level cannot be raised to ``newest``; empty: it can, or is there.
    """

    level: int
    newest: int
    servers: Sequence[UpgradeServer]
    hindrance: str = ""


class Placements(Protocol):
    """Which tablespaces are on a node, and what is known of others."""

    @property
    def node_id(self) -> str:
        """The node's id in its cluster; empty for a server that is alone, and before it has joined."""

    @property
    def default_tablespace(self) -> str:
        """The name of the only one, or of the default one of the cluster."""

    @property
    def is_closed(self) -> bool:
        """Whether closing has begun."""

    def tablespace_of(self, database: str) -> str:
        """The name of the tablespace that a client means by ``database``."""

    def here(self, name: str) -> Served | None:
        """One that is here."""

    def all_here(self) -> Sequence[Served]:
        """All that are here, by name."""

    def elsewhere(self, name: str) -> SqlError | None:
        """57P03 for one that is not here, or not yet; None: there is none of that name."""

    async def upgrade_state(self) -> UpgradeState:
        """How far an upgrade is. SqlError 57P03: not known yet."""

    async def finish_upgrade(self) -> UpgradeState:
        """Raise the level to the newest that is known here; what older versions run is locked out.

        Raises:
            SqlError: 55000, older servers run; 08001, 08007 of ZooKeeper, 58030 of the directory.
        """


class ServedNode:
    """See ``Databases``; and the tablespaces for the front ends that read stores and logs.

    Attributes:
        path: the data directory.
    """

    def __init__(self, path: Path, driver: Driver, placements: Placements) -> None:
        self.path = path
        self._driver = driver
        self._placements = placements

    @property
    def node_id(self) -> str:
        """See ``Placements``."""
        return self._placements.node_id

    async def upgrade_state(self) -> UpgradeState:
        """See ``Placements``."""
        return await self._placements.upgrade_state()

    async def finish_upgrade(self) -> UpgradeState:
        """See ``Placements``."""
        return await self._placements.finish_upgrade()

    @property
    def is_closed(self) -> bool:
        """See ``Databases``."""
        return self._placements.is_closed

    def session(self, database: str) -> Session:
        """See ``Databases``."""
        name = self._placements.tablespace_of(database)
        served = self._placements.here(name)
        if served is None:
            raise self._placements.elsewhere(name) or no_database(database)
        return served.session()

    def run(self, coroutine: Coroutine[Any, Any, T] | None, done: Callable[[Run[T]], object]) -> Run[T]:
        """See ``Databases``."""
        return Run(self._driver, coroutine, done)

    def find(self, name: str) -> Served:
        """A tablespace by its name; the empty name is the default one.

        Raises:
            SqlError: 3D000, there is none; 57P03, it is not here, or not yet.
        """
        name = name or self._placements.default_tablespace
        served = self._placements.here(name)
        if served is None:
            raise self._placements.elsewhere(name) or no_tablespace(name)
        return served

    def statuses(self) -> list[TablespaceStatus]:
        """Where each stands, by name."""
        return [served.status() for served in self._placements.all_here()]


def no_database(name: str) -> SqlError:
    """The error for a database that is not there."""
    return SqlError("3D000", f'database "{name}" does not exist')


def no_tablespace(name: str) -> SqlError:
    """The error for a tablespace that is not there."""
    return SqlError("3D000", f'tablespace "{name}" does not exist')
