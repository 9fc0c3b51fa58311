"""A node: one process with the tablespaces that are here, as the front ends see them.

Top of ``serving``, but for ``alone``. A client's database is the tablespace of that name. Which tablespaces
are here, and where others are, its ``Placements`` know: from its data directory where it is alone
(``alone``), from ZooKeeper in a cluster (``replica.node``).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from herdpy_server.serving.driver import Driver, Run
from herdpy_server.serving.tablespaces import Served, TablespaceStatus
from herdpy_server.sessions import Session
from herdpy_sql.errors import SqlError

T = TypeVar("T")


class Databases(Protocol):
    """Databases whose sessions all run on the loop of the front end."""

    def session(self, database: str) -> Session:
        """A new session; of a replica that only follows it is a ``set_standby`` one.

        Raises:
            SqlError: 3D000, there is no such database; 57P03, it is closed, or cannot be used yet.
        """

    def run(self, coroutine: Coroutine[Any, Any, T], done: Callable[[Run[T]], object]) -> Run[T]:
        """A run of a coroutine of one of the sessions, to be started; see :class:`Run`."""

    @property
    def is_closed(self) -> bool:
        """Whether closing has begun: nobody gets a session any more."""


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

    def run(self, coroutine: Coroutine[Any, Any, T], done: Callable[[Run[T]], object]) -> Run[T]:
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
