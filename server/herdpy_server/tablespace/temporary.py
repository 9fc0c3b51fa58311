"""Temporary tables, views and sequences: relations in a schema of the session's own, which go with it.

Below ``tablespace``. They are logged as others are; a leader that begins drops what is left of sessions that
are no more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from herdpy_sql.catalog import Catalog, Table, is_temporary
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.define import detach
from herdpy_sql.objects import RELATION_KINDS, CatalogObject
from herdpy_sql.plan.drop import carry_out, gather, references_to

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
        return is_temporary(schema) and schema not in self.living


def end_of_transaction(workspace: Workspace, schema: str) -> None:
    """Right before a commit: what ON COMMIT says of the session's temporary tables.

    SqlError 0A000 for a table that is emptied and referred to by one that is not.
    """
    own = [one for one in workspace.catalog.tables.values() if one.schema == schema and one.on_commit]
    _drop(workspace, [table for table in own if table.on_commit == "DROP"])
    emptied = [table for table in own if table.on_commit == "DELETE"]
    _refuse_references(workspace.catalog, emptied)
    for table in emptied:
        if table.id in workspace.layer:
            workspace.truncate(table)


def _refuse_references(catalog: Catalog, emptied: list[Table]) -> None:
    for table in emptied:
        for child, _ in catalog.referencing.get(table.id, ()):
            if child.on_commit != "DELETE":
                raise SqlError(
                    "0A000",
                    "unsupported ON COMMIT and foreign key combination",
                    detail=f'Table "{child.name}" references "{table.name}", but they do not have the same'
                    " ON COMMIT setting.",
                )


def _drop(workspace: Workspace, relations: Sequence[Table | CatalogObject]) -> None:
    """Drop relations, the views that read them, and foreign keys of others that refer to them."""
    if relations:
        dropping = gather(relations, workspace.catalog)
        references = references_to(workspace.catalog, dropping.tables)
        detach(workspace, tuple((child.id, one.name) for child, one in references))
        carry_out(workspace, dropping)
