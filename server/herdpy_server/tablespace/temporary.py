"""Temporary tables, views and sequences: relations in a schema of the session's own, which go with it.

Below ``tablespace``. They are logged as others are; a leader that begins drops what is left of sessions that
are no more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from herdpy_sql.catalog import Catalog, Table
from herdpy_sql.objects import RELATION_KINDS, CatalogObject
from herdpy_sql.plan.drop import carry_out, gather

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
        """A schema for a session that wants its first temporary relation."""
        name = f"{PREFIX}{self._next}"
        self._next += 1
        self.living.add(name)
        return name

    def has_leftovers(self, catalog: Catalog) -> bool:
        """Whether there are relations of sessions that are no more."""
        return any(self._left(catalog))

    def drop_leftovers(self, workspace: Workspace) -> None:
        """Drop the relations of sessions that are no more."""
        _drop(workspace, list(self._left(workspace.catalog)))

    def _left(self, catalog: Catalog) -> Iterator[Table | CatalogObject]:
        for table in catalog.tables.values():
            if self._is_left(table.schema):
                yield table
        for one in catalog.objects.values():
            if one.kind in RELATION_KINDS and self._is_left(one.schema):
                yield one

    def _is_left(self, schema: str) -> bool:
        return schema.startswith(PREFIX) and schema not in self.living


def end_of_transaction(workspace: Workspace, schema: str) -> None:
    """Right before a commit: what ON COMMIT says of the session's temporary tables."""
    own = [one for one in workspace.catalog.tables.values() if one.schema == schema and one.on_commit]
    _drop(workspace, [table for table in own if table.on_commit == "DROP"])
    for table in own:
        if table.on_commit == "DELETE" and table.id in workspace.layer:
            workspace.truncate(table)


def _drop(workspace: Workspace, relations: Sequence[Table | CatalogObject]) -> None:
    """Drop relations, and the views that read them."""
    if relations:
        carry_out(workspace, gather(relations, workspace.catalog))
