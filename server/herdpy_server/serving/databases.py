"""What a door serves: databases by the name that a client asks for.

Between ``database`` and the doors, which need not know how many databases there are, nor whether
a session's database takes changes or only follows another one.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from herdpy.log import LedgerInfo
from herdpy.log.lsn import LSN
from herdpy_server.serving.database import ServedDatabase
from herdpy_server.serving.driver import Run
from herdpy_server.serving.file_log import FileLogBackend
from herdpy_server.serving.logs import PublishSettings, ServedLog
from herdpy_server.serving.publishing import SnapshotPublishing
from herdpy_server.serving.tablespaces import LoadsHere, Standing, Use
from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from herdpy_server.sessions import Session

T = TypeVar("T")

ALONE = "default"
"""What the tablespace of a database is called that is alone and has no name."""


class Databases(Protocol):
    """Databases whose sessions all run on the loop that the door is on."""

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


class OneDatabase:
    """A database that is alone: :class:`Databases`, and ``ServedTablespaces`` and ``Served`` too.

    Args:
        database: it.
        name: the only one that clients may ask for; None: whichever they like.
        publish: where and when snapshots of it are published.

    Attributes:
        log: see ``Served``.
        publishing: publishes snapshots; to be started and closed by who has it.
    """

    def __init__(
        self, database: ServedDatabase, name: str | None = None, publish: PublishSettings | None = None
    ) -> None:
        self.database = database
        self.name = name
        self.run = database.run
        backend = FileLogBackend(name or ALONE, database, publish or PublishSettings())
        self.publishing = SnapshotPublishing(backend)
        self.log = ServedLog(backend, self.publishing.now)

    def session(self, database: str) -> Session:
        """See :class:`Databases`."""
        if self.name not in {None, database}:
            raise no_database(database)
        return self.database.session()

    @property
    def is_closed(self) -> bool:
        """See :class:`Databases`."""
        return self.database.is_closed

    # Its tablespace.

    @property
    def path(self) -> Path:
        """See ``ServedTablespaces``."""
        return self.database.path

    @property
    def node_id(self) -> str:
        """See ``ServedTablespaces``."""
        return ""

    def find(self, name: str) -> OneDatabase:
        """See ``ServedTablespaces``."""
        if name not in ("", self.name or ALONE):
            raise no_tablespace(name)
        return self

    def standings(self) -> list[Standing]:
        """See ``ServedTablespaces``."""
        return [self.standing()]

    def standing(self) -> Standing:
        """See ``Served``."""
        database, store = self.database, self.database.store
        return Standing(
            name=self.name or ALONE,
            state="alone",
            applied=store.applied,
            durable=store.durable,
            log_end=database.log.end,
            store=store,
            pending=database.tablespace.pending,
        )

    def ledgers(self) -> Sequence[LedgerInfo]:
        """See ``Served``."""
        return self.database.log.ledgers()

    async def checkpoint(self) -> list[int]:
        """See ``Served``."""
        return await self.database.checkpoint()

    def use(self, give_up: Callable[[], object]) -> Use:
        """See ``Served``."""
        database = self.database
        return Use(database.store, database.checkpointer, database.uses.enter(give_up))

    def loads(self) -> LoadsHere:
        """See ``Served``."""
        return LoadsHere(self.database.session, self.database.call)

    async def reached(self, lsn: LSN) -> None:
        """See ``Served``. What was committed here is applied."""
        if self.database.store.applied < lsn:
            raise SqlError("57P03", f"there is nothing at {lsn} yet")


def no_database(name: str) -> SqlError:
    """The error for a database that is not there."""
    return SqlError("3D000", f'database "{name}" does not exist')


def no_tablespace(name: str) -> SqlError:
    """The error for a tablespace that is not there."""
    return SqlError("3D000", f'tablespace "{name}" does not exist')
