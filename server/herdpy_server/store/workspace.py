"""Store layer, top: one transaction's view, what ``herdpy_sql.storage.View`` promises to plans.

Above ``writing``, which has the rows, and ``defining``, which has the locks; here are the definitions. Each
takes locks first, so that no two transactions define what excludes one another, and nobody writes meanwhile
to the table that it is about. Each is noted as what it makes of a catalog: others' definitions may come under
it until the commit (``Reading.catalog``).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
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
from herdpy_server.store.constraints import not_unique
from herdpy_server.store.defining import Defining
from herdpy_server.store.definition_locks import place_of
from herdpy_server.store.index_build import IndexBuild, Written, fill_slowly, locked
from herdpy_server.store.layers import Delta
from herdpy_server.store.reading import Reading
from herdpy_server.store.tables import TableOps
from herdpy_sql.catalog import Catalog, Index, Table, is_temporary
from herdpy_sql.definitions import encode_index, encode_table
from herdpy_sql.errors import SqlError
from herdpy_sql.objects import SYSTEM, CatalogObject, encode_object
from herdpy_sql.rights.held import OWNED, Subject, own_new, subject_of

if TYPE_CHECKING:
    from herdpy_server.store.snapshot import StoreSnapshot
    from herdpy_sql.storage import MustWait


class Workspace(Defining):
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

    def _check_databases(self, more: int) -> None:
        """SqlError 53400 when there would be more tables and indexes than there may be."""
        self._store.check_databases(self.catalog, more)

    def create_table(self, table: Table) -> None:
        """Define ``table`` (its id from ``next_id``)."""
        catalog = self._define(table.schema)
        self._need(table)
        self._name_table(table)
        self._check_new(table.id)
        self._check_databases(1 + len(table.indexes))
        databases = (table.id, *(index.id for index in table.indexes))
        self._take_ids(databases)
        for db in databases:
            self._clear(db)
        self._defined(catalog, partial(Catalog.with_table, table=table), CreateTable(encode_table(table)))
        self._made(Subject("table", table.id, table.name), table.schema)

    def drop_table(self, table: Table) -> None:
        """Remove ``table``, its rows and its indexes."""
        catalog = self._define(table.schema)
        self.ops(table)
        self._acquire_table(table)
        for one in catalog.statistics_of(table.id):
            self.drop_object(one)
        for db in (table.id, *(index.id for index in table.indexes)):
            self._clear(db)
        gone = partial(Catalog.without_table, table_id=table.id)
        self._defined(self.catalog, gone, DropTable(table.id))

    def lock_definition(self, table: Table) -> None:
        """Keep others from writing to ``table``, and from changing its definition, until this one ends."""
        self._define(table.schema)
        self.ops(table)
        self._acquire_table(table)

    def alter_table(self, table: Table, changed: Table) -> None:
        """Give ``table`` another definition, that its rows are of, too: see ``View``."""
        catalog = self._define(table.schema, changed.schema)
        self._need(changed, table)
        self.ops(table)
        self._acquire_table(table)
        self._name_table(changed, table)
        self._defined(catalog, partial(Catalog.with_table, table=changed), AlterTable(encode_table(changed)))

    def create_index(self, table: Table, index: Index) -> None:
        """Define ``index`` and fill it from the rows; SqlError 23505 when they are not unique."""
        for _ in self._create_index(table, index, self):
            pass

    def create_index_slowly(self, table: Table, index: Index) -> Iterator[None]:
        """As :meth:`create_index`, in steps of few rows. Its locks keep other writers away in between."""
        self._define(table.schema)
        self._acquire_table(table)
        with closing(self.snapshot()) as snapshot:
            yield from self._create_index(table, index, snapshot)

    def create_index_online(self, table: Table, index: Index) -> Iterator[MustWait | None]:
        """As :meth:`create_index`, in steps of few rows, between which others may write to the table.

        At its end it takes the locks that :meth:`create_index` begins with: it gives what is to be waited
        for then. SqlError 40001 when somebody has defined the table anew meanwhile.
        """
        self._name("relation", [(table.schema, index.name)])
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
        self._add_index(replace(index, id=self.next_id), build.delta)

    def _create_index(self, table: Table, index: Index, reader: Reading | StoreSnapshot) -> Iterator[None]:
        catalog = self._define(table.schema)
        self.ops(table)
        self._name("relation", [(table.schema, index.name)])
        self._check_new(index.id)
        self._acquire_table(table)
        self._take_ids([index.id])  # others may define something before the last row is in it
        ops = TableOps(catalog.with_index(index).tables[table.id])
        delta = Delta(cleared=True)
        clash = yield from fill_slowly(ops, ops.index(index.id), reader.scan(table), delta)
        if clash is not None:
            raise not_unique(table, index.parts, index.name, clash)
        self._add_index(index, delta)

    def _add_index(self, index: Index, delta: Delta) -> None:
        """Define an index that has these entries."""
        self._check_databases(1)
        self._take_ids([index.id])
        self._replace(index.id, delta)
        made = partial(Catalog.with_index, index=index)
        self._defined(self.catalog, made, CreateIndex(index.table_id, encode_index(index)))

    def drop_index(self, table: Table, index: Index) -> None:
        """Remove ``index``."""
        catalog = self._define(table.schema)
        self.ops(table).index(index.id)
        self._acquire_table(table)
        self._clear(index.id)
        gone = partial(Catalog.without_index, table_id=table.id, index_id=index.id)
        self._defined(catalog, gone, DropIndex(table.id, index.id))

    # Objects and roles.

    def put_object(self, one: CatalogObject) -> None:
        """Define an object that is no table (a new id from ``next_id``), or change it."""
        catalog = self.catalog
        there = catalog.objects.get(one.id)
        self._define_object(one, place_of(catalog, one), place_of(catalog, there or one))
        self._name_object(one, there)
        self._need_of(one, there)
        if there is not None:
            self._unneeded(there)
        else:
            self._check_new(one.id)
            self._take_ids([one.id])
        self._defined(catalog, partial(Catalog.with_object, one=one), PutObject(encode_object(one)))
        if there is None and one.kind in OWNED:
            self._made(subject_of(one), one.schema)

    def _made(self, subject: Subject, schema: str) -> None:
        """What is made is its maker's, with what he wants others to have."""
        if not is_temporary(schema):
            own_new(self, subject, schema, self.role)

    def drop_object(self, one: CatalogObject) -> None:
        """Remove an object that is there."""
        catalog = self._define_object(one, place_of(self.catalog, one))
        self._unneeded(one)
        if catalog.objects.get(one.id) != one:
            raise SqlError("40001", f'the definition of "{one.name}" was changed concurrently')
        self._defined(catalog, partial(Catalog.without_object, object_id=one.id), DropObject(one.id))

    def put_role(self, name: str, definition: bytes) -> None:
        """Define a role, anew if it is there."""
        catalog = self._define("", alone=True)
        made = partial(Catalog.with_role, name=name, definition=definition)
        self._defined(catalog, made, PutRole(name.encode(), definition))

    def drop_role(self, name: str) -> None:
        """Remove a role that is there."""
        catalog = self._define("", alone=True)
        self._defined(catalog, partial(Catalog.without_role, name=name), DropRole(name.encode()))

    def snapshot(self) -> StoreSnapshot:
        """What this view sees now, held fast."""
        return self._store.snapshot(self)
