"""Store layer, top: one transaction's view, what ``herdpy_sql.storage.View`` promises to plans.

Above ``writing``, which has the rows; here are the definitions. Each takes the catalog's lock first, so that
no two transactions change it, and the table's, so that nobody writes to it meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from herdpy.log.records import (
    AlterTable,
    CreateIndex,
    CreateTable,
    DropIndex,
    DropObject,
    DropRole,
    DropTable,
    PutObject,
    PutRole,
)
from herdpy_server.store import bulk
from herdpy_server.store.constraints import not_unique
from herdpy_server.store.index_build import IndexBuild, Written, locked
from herdpy_server.store.layers import Delta
from herdpy_server.store.locks import CATALOG_DATABASE, CATALOG_KEY
from herdpy_server.store.reading import Reading
from herdpy_server.store.tables import TableOps
from herdpy_server.store.writing import Writing
from herdpy_sql.catalog import Catalog, Index, Table
from herdpy_sql.definitions import encode_index, encode_table
from herdpy_sql.errors import SqlError
from herdpy_sql.objects import SYSTEM, CatalogObject, encode_object
from herdpy_sql.rights.held import OWNED, Subject, own_new, subject_of

if TYPE_CHECKING:
    from herdpy_server.store.snapshot import StoreSnapshot
    from herdpy_sql.storage import MustWait


class Workspace(Writing):
    """A transaction's reads and writes; see ``Reading`` and ``Changes`` for its attributes.

    Attributes:
        role: the key of the role whose things the new ones are.
    """

    role = SYSTEM

    stands = False
    """Whether it stands on one snapshot."""

    def stand(self) -> None:
        """A statement begins: whoever stands on one snapshot takes it now, if there is none yet."""

    def leave(self) -> None:
        """The transaction has ended: what it stood on may go."""

    def judge(self) -> None:
        """Before the commit: SqlError 40001 when it may not be."""

    def reads_range(self, table: Table, low: bytes | None, high: bytes | None) -> None:
        """Rows with keys in a range are read from a :meth:`snapshot`."""

    # Definitions.

    def _define(self) -> Catalog:
        """The catalog to change, once no other transaction can change it."""
        self._locks.acquire(self._owner, CATALOG_DATABASE, CATALOG_KEY)
        return self.catalog

    def create_table(self, table: Table) -> None:
        """Define ``table`` (its id from ``catalog.next_id``)."""
        catalog = self._define()
        if (table.schema, table.name) in catalog.relations:
            raise SqlError("42P07", f'relation "{table.name}" already exists', table=table.name)
        if table.id < catalog.next_id:
            raise SqlError("40001", "the catalog was changed concurrently")
        for db in (table.id, *(index.id for index in table.indexes)):
            self._clear(db)
        self._defined(catalog.with_table(table), CreateTable(encode_table(table)))
        self._made(Subject("table", table.id, table.name), table.schema)

    def drop_table(self, table: Table) -> None:
        """Remove ``table``, its rows and its indexes."""
        catalog = self._define()
        self.ops(table)
        self._acquire_table(table)
        for db in (table.id, *(index.id for index in table.indexes)):
            self._clear(db)
        self._defined(catalog.without_table(table.id), DropTable(table.id))
        for one in catalog.statistics_of(table.id):
            self.drop_object(one)

    def lock_definition(self, table: Table) -> None:
        """Keep others from writing to ``table``, and from changing any definition, until this one ends."""
        self._define()
        self.ops(table)
        self._acquire_table(table)

    def alter_table(self, table: Table, changed: Table) -> None:
        """Give ``table`` another definition, that its rows are of, too: see ``View``."""
        catalog = self._define()
        self.ops(table)
        self._acquire_table(table)
        self._defined(catalog.with_table(changed), AlterTable(encode_table(changed)))

    def create_index(self, table: Table, index: Index) -> None:
        """Define ``index`` and fill it from the rows; SqlError 23505 when they are not unique."""
        for _ in self._create_index(table, index, self):
            pass

    def create_index_slowly(self, table: Table, index: Index) -> Iterator[None]:
        """As :meth:`create_index`, in steps of few rows. Its locks keep other writers away in between."""
        self._define()
        self._acquire_table(table)
        with closing(self.snapshot()) as snapshot:
            yield from self._create_index(table, index, snapshot)

    def create_index_online(self, table: Table, index: Index) -> Iterator[MustWait | None]:
        """As :meth:`create_index`, in steps of few rows, between which others may write to the table.

        At its end it takes the locks that :meth:`create_index` begins with: it gives what is to be waited
        for then. SqlError 40001 when somebody has defined the table anew meanwhile.
        """
        self.ops(table)
        written = Written(table.id)
        ops = TableOps(replace(table, indexes=(*table.indexes, index)))
        build = IndexBuild(self, ops, ops.index(index.id), written)
        self._store.watched_tables.append(written)
        try:
            clash = yield from build.fill(table)
            if clash is None:
                yield from locked(self, table)
                clash = build.complete(table)
        finally:
            self._store.watched_tables.remove(written)
            build.close()
        if clash is not None:
            raise not_unique(table, index.parts, index.name, clash)
        self._add_index(replace(index, id=self.catalog.next_id), build.delta)

    def _create_index(self, table: Table, index: Index, reader: Reading | StoreSnapshot) -> Iterator[None]:
        catalog = self._define()
        self.ops(table)
        if index.id < catalog.next_id:
            raise SqlError("40001", "the catalog was changed concurrently")
        self._acquire_table(table)
        ops = TableOps(catalog.with_index(index).tables[table.id])
        delta = Delta(cleared=True)
        clash = yield from bulk.fill_slowly(ops, ops.index(index.id), reader.scan(table), delta)
        if clash is not None:
            raise not_unique(table, index.parts, index.name, clash)
        self._add_index(index, delta)

    def _add_index(self, index: Index, delta: Delta) -> None:
        """Define an index that has these entries."""
        changed = self.catalog.with_index(index)
        self._changes.append((index.id, self.layer.get(index.id), None))
        self.layer[index.id] = delta
        self._defined(changed, CreateIndex(index.table_id, encode_index(index)))

    def drop_index(self, table: Table, index: Index) -> None:
        """Remove ``index``."""
        catalog = self._define()
        self.ops(table).index(index.id)
        self._acquire_table(table)
        self._clear(index.id)
        self._defined(catalog.without_index(table.id, index.id), DropIndex(table.id, index.id))

    # Objects and roles.

    def put_object(self, one: CatalogObject) -> None:
        """Define an object that is no table (a new id from ``catalog.next_id``), or change it."""
        catalog = self._define()
        if one.id not in catalog.objects and one.id < catalog.next_id:
            raise SqlError("40001", "the catalog was changed concurrently")
        self._defined(catalog.with_object(one), PutObject(encode_object(one)))
        if one.id not in catalog.objects and one.kind in OWNED:
            self._made(subject_of(one), one.schema)

    def _made(self, subject: Subject, schema: str) -> None:
        """What is made is its maker's, with what he wants others to have."""
        if not schema.startswith("pg_temp_"):
            own_new(self, subject, schema, self.role)

    def drop_object(self, one: CatalogObject) -> None:
        """Remove an object that is there."""
        catalog = self._define()
        if catalog.objects.get(one.id) != one:
            raise SqlError("40001", f'the definition of "{one.name}" was changed concurrently')
        self._defined(catalog.without_object(one.id), DropObject(one.id))

    def put_role(self, name: str, definition: bytes) -> None:
        """Define a role, anew if it is there."""
        self._defined(self._define().with_role(name, definition), PutRole(name.encode(), definition))

    def drop_role(self, name: str) -> None:
        """Remove a role that is there."""
        self._defined(self._define().without_role(name), DropRole(name.encode()))

    def snapshot(self) -> StoreSnapshot:
        """What this view sees now, held fast."""
        return self._store.snapshot(self)
