"""Store layer, inside: the locks that a transaction's definitions take before anything else.

Above ``writing``, below ``workspace``; which locks there are, and why these suffice, says
``definition_locks``.
Each method raises ``MustWait`` where another transaction is in the way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdpy_server.store.definition_locks import (
    NEEDED_KINDS,
    is_alone,
    name_key,
    names_of,
    needed,
    object_key,
    owner_of,
    place_key,
)
from herdpy_server.store.locks import CATALOG_DATABASE
from herdpy_server.store.writing import Writing
from herdpy_sql.catalog import Catalog, Table, is_temporary
from herdpy_sql.errors import SqlError
from herdpy_sql.lock_modes import ACCESS_SHARE, SHARE, SHARE_UPDATE_EXCLUSIVE, UPDATE
from herdpy_sql.objects import RELATION_KINDS, CatalogObject, StatisticsDefinition, ViewDefinition

if TYPE_CHECKING:
    from collections.abc import Collection

    from herdpy_server.store.locks import Locks
    from herdpy_server.store.store import Store


class Defining(Writing):
    """Reads and writes of rows, and the locks of definitions."""

    def __init__(self, store: Store, locks: Locks, owner: object) -> None:
        Writing.__init__(self, store, locks, owner)
        self._fresh: set[int] = set()  # ids that this transaction took

    def _lock(self, key: bytes, mode: int = UPDATE) -> None:
        self._locks.acquire(self._owner, CATALOG_DATABASE, key, mode)

    def _define(self, *schemas: str, alone: bool = False) -> Catalog:
        """The catalog to change, once no other transaction can be in the way within these schemas.

        Args:
            alone: no other transaction may have defined anything permanent that it has not committed.
        """
        for schema in dict.fromkeys(schemas):
            self._lock(place_key(schema), UPDATE if alone or is_temporary(schema) else SHARE)
        return self.catalog

    def _define_object(self, one: CatalogObject, *schemas: str) -> Catalog:
        """As :meth:`_define`, for an object that is made, changed or dropped."""
        return self._define(*schemas, alone=is_alone(one, self._fresh, self.catalog))

    def _name(self, kind: str, names: Collection[tuple[str, str]]) -> None:
        """Take (schema, name) pairs for what is made or gets another name. SqlError 42P07, 42710."""
        for schema, name in sorted(names):
            self._lock(name_key(kind, schema, name))
        catalog = self.catalog
        for schema, name in names:
            if kind == "relation" and (schema, name) in catalog.relations:
                raise SqlError("42P07", f'relation "{name}" already exists', table=name)
            if catalog.object(kind, schema, name) is not None:
                raise SqlError("42710", f'{kind} "{name}" already exists')

    def _name_table(self, table: Table, before: Table | None = None) -> None:
        """Take the names of a table and of its indexes that it did not have before."""
        names = names_of(table) - (set() if before is None else names_of(before))
        self._name("relation", names)

    def _name_object(self, one: CatalogObject, before: CatalogObject | None) -> None:
        """Take the name of an object that has another one, or none, so far."""
        if before is None or (one.schema, one.name) != (before.schema, before.name):
            self._name("relation" if one.kind in RELATION_KINDS else one.kind, [(one.schema, one.name)])

    def _need(self, table: Table, before: Table | None = None) -> None:
        """Keep what ``table`` needs, and needed not ``before``, as it is. SqlError 40001 when it is gone."""
        wanted = needed(table) - (needed(before) if before is not None else set())
        self._keep_objects(table.name, wanted)

    def _keep_objects(self, name: str, wanted: Collection[int]) -> None:
        for number in sorted(wanted):
            self._lock(object_key(number), SHARE)
        self._check_there(name, set(wanted) - self.catalog.objects.keys())

    def _need_of(self, one: CatalogObject, before: CatalogObject | None) -> None:
        """As :meth:`_need`, for an object: what a view reads, the table of a sequence or of statistics."""
        what = one.definition
        if isinstance(what, ViewDefinition):
            used = before.definition.uses if before and isinstance(before.definition, ViewDefinition) else ()
            uses = set(what.uses) - set(used)
            tables = self.catalog.tables.keys() & uses
            self._keep_objects(one.name, uses - tables)
            self._keep_tables(one.name, tables, ACCESS_SHARE)
        elif isinstance(what, StatisticsDefinition):
            self._keep_tables(one.name, {what.table_id}, SHARE_UPDATE_EXCLUSIVE)
        elif (owner := owner_of(one)) is not None:
            self._keep_tables(one.name, {owner}, SHARE_UPDATE_EXCLUSIVE)

    def _keep_tables(self, name: str, wanted: Collection[int], mode: int) -> None:
        for number in sorted(wanted):
            self._locks.acquire_table(self._owner, number, mode)
        self._check_there(name, set(wanted) - self.catalog.tables.keys())

    def _check_there(self, name: str, missing: Collection[int]) -> None:
        """SqlError 40001 where something is gone; what has an id that nobody took yet comes after it."""
        if any(number < self.next_id for number in missing):
            raise SqlError("40001", f'what "{name}" needs was dropped concurrently')

    def _unneeded(self, one: CatalogObject) -> None:
        """Wait for those who are about to need an object."""
        if one.kind in NEEDED_KINDS:
            self._lock(object_key(one.id))

    def _check_new(self, number: int) -> None:
        """SqlError 40001 for an id that is something's already."""
        if number < self.next_id:
            raise SqlError("40001", "the catalog was changed concurrently")

    def _take_ids(self, numbers: Collection[int]) -> None:
        """Nobody else gets these new ids, whatever becomes of this transaction."""
        self._store.id_head = max(self._store.id_head, max(numbers) + 1)
        self._fresh.update(numbers)
