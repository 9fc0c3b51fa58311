"""Temporary tables: tables in a schema of the session's own, which go with it.

Below ``tablespace``. They are logged as others are; a leader that begins drops what is left of sessions that
are no more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdpy_sql.catalog import Catalog, Table
from herdpy_sql.sequences import owned_by

if TYPE_CHECKING:
    from herdpy_server.store import Workspace

PREFIX = "pg_temp_"


class TemporarySchemas:
    """Gives sessions schemas of their own, and knows what is left in them.

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

    def has_leftovers(self, catalog: Catalog) -> bool:
        """Whether there are tables of sessions that are no more."""
        return any(self._is_left(table) for table in catalog.tables.values())

    def drop_leftovers(self, workspace: Workspace) -> None:
        """Drop the tables of sessions that are no more."""
        for table in list(workspace.catalog.tables.values()):
            if self._is_left(table):
                _drop(workspace, table.id)

    def _is_left(self, table: Table) -> bool:
        return table.schema.startswith(PREFIX) and table.schema not in self.living


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
