"""A database that is alone: a node with one tablespace, which is here and always leads.

Between ``database`` and ``node``. Its coordination is its directory: the lock of the directory is its term,
so it asks nobody whether it still leads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from herdpy.log import LedgerInfo
from herdpy.log.lsn import LSN
from herdpy_server.serving.database import ServedDatabase
from herdpy_server.serving.file_log import FileLogBackend
from herdpy_server.serving.logs import PublishSettings, ServedLog
from herdpy_server.serving.node import ServedNode
from herdpy_server.serving.publishing import SnapshotPublishing
from herdpy_server.serving.tablespaces import LoadsHere, Standing, Use
from herdpy_server.sessions import Session
from herdpy_sql.errors import SqlError

ALONE = "default"
"""What the tablespace of a database is called that is alone and has no name."""


class ServedAlone:
    """See ``Served``.

    Attributes:
        publishing: publishes snapshots; to be started and closed by who has it.
    """

    def __init__(self, name: str, database: ServedDatabase, publish: PublishSettings) -> None:
        self._name = name
        self._database = database
        backend = FileLogBackend(name, database, publish)
        self.publishing = SnapshotPublishing(backend)
        self.log = ServedLog(backend, self.publishing.now)

    def session(self) -> Session:
        """See ``Served``."""
        return self._database.session()

    def standing(self) -> Standing:
        """See ``Served``."""
        database, store = self._database, self._database.store
        return Standing(
            name=self._name,
            state="alone",
            applied=store.applied,
            durable=store.durable,
            log_end=database.log.end,
            store=store,
            pending=database.tablespace.pending,
        )

    def ledgers(self) -> Sequence[LedgerInfo]:
        """See ``Served``."""
        return self._database.log.ledgers()

    async def checkpoint(self) -> list[int]:
        """See ``Served``."""
        return await self._database.checkpoint()

    def use(self, give_up: Callable[[], object]) -> Use:
        """See ``Served``."""
        database = self._database
        return Use(database.store, database.checkpointer, database.uses.enter(give_up))

    def loads(self) -> LoadsHere:
        """See ``Served``."""
        return LoadsHere(self._database.session, self._database.call)

    async def reached(self, lsn: LSN) -> None:
        """See ``Served``. What was committed here is applied."""
        if self._database.store.applied < lsn:
            raise SqlError("57P03", f"there is nothing at {lsn} yet")


class AlonePlacements:
    """See ``Placements``: one tablespace, here for certain.

    Args:
        name: the only one that clients may ask for; None: whichever they like.
        publish: where and when snapshots of it are published.

    Attributes:
        served: it.
    """

    node_id = ""

    def __init__(
        self, database: ServedDatabase, name: str | None = None, publish: PublishSettings | None = None
    ) -> None:
        self._database = database
        self._takes_any = name is None
        self.default_tablespace = name or ALONE
        self.served = ServedAlone(self.default_tablespace, database, publish or PublishSettings())

    @property
    def is_closed(self) -> bool:
        """See ``Placements``."""
        return self._database.is_closed

    def tablespace_of(self, database: str) -> str:
        """See ``Placements``."""
        return self.default_tablespace if self._takes_any else database

    def here(self, name: str) -> ServedAlone | None:
        """See ``Placements``."""
        return self.served if name == self.default_tablespace else None

    def all_here(self) -> Sequence[ServedAlone]:
        """See ``Placements``."""
        return [self.served]

    def elsewhere(self, name: str) -> None:
        """See ``Placements``: there is no elsewhere."""
        del name


def alone(database: ServedDatabase, name: str | None = None) -> ServedNode:
    """The node of a database that is alone; the name as for ``AlonePlacements``."""
    return ServedNode(database.path, database.driver, AlonePlacements(database, name))
