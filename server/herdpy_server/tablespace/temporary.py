"""Temporary tables: tables in a schema of the session's own, which go with it.

Beside ``tablespace``. They are logged as others are; a leader that begins drops what is left of sessions that
are no more.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from herdpy.log import LogError
from herdpy_sql.errors import SqlError
from herdpy_sql.sequences import owned_by
from herdpy_sql.storage import MustWait

if TYPE_CHECKING:
    from herdpy_server.store import Workspace
    from herdpy_server.tablespace.tablespace import Tablespace

logger = logging.getLogger("herdpy.tablespace")

PREFIX = "pg_temp_"


class TemporarySchemas:
    """Gives sessions schemas of their own, and drops what was in them.

    Attributes:
        living: those of sessions that there are.
    """

    def __init__(self) -> None:
        self._next = 1
        self.living: set[str] = set()

    def give(self) -> str:
        """A schema for a session that wants its first temporary table."""
        name = f"{PREFIX}{self._next}"
        self._next += 1
        self.living.add(name)
        return name

    def sweep(self, tablespace: Tablespace) -> None:
        """Drop what is in schemas of no living session; what cannot be dropped now, the next time."""
        if not any(
            table.schema.startswith(PREFIX) and table.schema not in self.living
            for table in tablespace.catalog.tables.values()
        ):
            return
        transaction = tablespace.begin(instant=True)
        workspace = transaction.workspace
        try:
            for table in list(workspace.catalog.tables.values()):
                if table.schema.startswith(PREFIX) and table.schema not in self.living:
                    _drop(workspace, table.id)
            tablespace.commit(transaction)
        except (MustWait, SqlError, LogError) as error:
            tablespace.rollback(transaction)
            logger.info("temporary tables are dropped later: %s", error)


def end_of_transaction(workspace: Workspace, schema: str) -> None:
    """Right before a commit: what ON COMMIT says of the session's temporary tables."""
    for table in list(workspace.catalog.tables.values()):
        if table.schema == schema and table.on_commit:
            if table.on_commit == "DROP":
                _drop(workspace, table.id)
            elif table.id in workspace.layer:
                workspace.truncate(table)


def _drop(workspace: Workspace, table_id: int) -> None:
    table = workspace.catalog.tables[table_id]
    for one in owned_by(workspace.catalog, table):
        workspace.drop_object(one)
    workspace.drop_table(table)
