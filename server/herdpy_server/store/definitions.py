"""Store layer: a transaction's definitions of tables, indexes, objects and roles, and their locks.

Above ``transaction_state``, below ``workspace``. Each definition takes locks first, so that no two
transactions define what excludes one another, and nobody writes meanwhile to the table that it is about.
Each is noted as what it makes of a catalog: others' definitions may come under it until the commit
(``TransactionState.catalog``).

The locks are keys of the database 0, which is no table's:

*A place.* What is temporary is in the schema of one session, so that schema's lock does for it, and nobody
waits for another session's. What is permanent is defined under the catalog's lock: in SHARE where the locks
below tell whose definitions exclude one another, in UPDATE where they do not (:func:`is_alone`).

*A name* is locked by who makes something of that name, or gives it to something.

*An object* is locked in SHARE by who makes something that needs it (the type of a column, the sequence of a
DEFAULT, the view that a view reads), in UPDATE by who changes or drops it.

*A table* is locked as a whole, against all, by who changes or drops it or makes an index of it, and in weaker
modes by who makes a view of it, looks at its statistics, or gives it a sequence. Who makes a foreign key
locks both its tables.

Who waits is planned anew afterwards, and so finds what others have made meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial

from herdpy.formats import (
    DEFERRABLE_UNIQUE_LEVEL,
    FUNCTIONS_LEVEL,
    PARTITIONS_LEVEL,
    TIME_PRECISION_LEVEL,
    TYPES_LEVEL,
)
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
    Record,
)
from herdpy_server.store.index_build import IndexBuild, WrittenKeys, fill_slowly
from herdpy_server.store.layers import Delta
from herdpy_server.store.locks import CATALOG_DATABASE, CATALOG_KEY
from herdpy_server.store.tables import TableOps, not_unique
from herdpy_server.store.transaction_state import Definition, TransactionState
from herdpy_sql.catalog import Catalog, Index, Table, is_temporary
from herdpy_sql.definitions import encode_index, encode_table
from herdpy_sql.errors import SqlError
from herdpy_sql.lock_modes import ACCESS_SHARE, SHARE, SHARE_UPDATE_EXCLUSIVE, UPDATE
from herdpy_sql.objects import (
    RELATION_KINDS,
    CatalogObject,
    CommentDefinition,
    FunctionDefinition,
    RightsDefinition,
    SequenceDefinition,
    StatisticsDefinition,
    ViewDefinition,
    encode_object,
)
from herdpy_sql.sequences import sequences_of
from herdpy_sql.storage import MustWait, Reader
from herdpy_sql.types import LATER_TYPES

NEEDED_KINDS = frozenset({"enum", "sequence", "view"})
"""Kinds of objects that tables and views need."""
_OF_NAMES = frozenset({"sequence", "view", "statistics"})
"""Kinds of objects that need no more locks than those of names, objects and tables."""


class Definitions:
    """The definitions of one transaction; made for each of them.

    Every method raises ``MustWait`` where another transaction is in the way.
    """

    def __init__(self, state: TransactionState) -> None:
        self._state = state

    # Tables and indexes.

    def _check_databases(self, more: int) -> None:
        """SqlError 53400 when there would be more tables and indexes than there may be."""
        self._state.store.check_databases(self._state.catalog, more)

    def create_table(self, table: Table) -> None:
        """Define ``table`` (its id from ``next_id``)."""
        self._refuse_early(table)
        catalog = self._define(table.schema)
        self._need(table)
        self._name_table(table)
        self._check_new(table.id)
        self._check_databases(1 + len(table.indexes))
        databases = (table.id, *(index.id for index in table.indexes))
        self._take_ids(databases)
        for db in databases:
            self._state.clear(db)
        self._note(catalog, partial(Catalog.with_table, table=table), CreateTable(encode_table(table)))

    def _refuse_early(self, table: Table) -> None:
        """SqlError 0A000 for what servers that may read the log do not know of."""
        level = self._state.store.level()
        new = ""
        if table.is_routed and level < PARTITIONS_LEVEL:
            new = "partitions are"
        elif level < TIME_PRECISION_LEVEL and any(one.type.is_rounded_time for one in table.columns):
            new = "columns of times with a precision are"
        elif level < DEFERRABLE_UNIQUE_LEVEL and any(one.deferrable for one in table.indexes):
            new = "PRIMARY KEY and UNIQUE constraints that are DEFERRABLE are"
        elif level < TYPES_LEVEL:
            bases = {(one.type.element or one.type.base) for one in table.columns}
            new = next((f"columns of type {base.value} are" for base in LATER_TYPES if base in bases), "")
        if new:
            raise _early(new)

    def drop_table(self, table: Table) -> None:
        """Remove ``table``, its rows and its indexes."""
        catalog = self._define(table.schema)
        self._state.ops(table)
        self._state.lock_to_change(table)
        for one in catalog.statistics_of(table.id):
            self.drop_object(one)
        for db in (table.id, *(index.id for index in table.indexes)):
            self._state.clear(db)
        gone = partial(Catalog.without_table, table_id=table.id)
        self._note(self._state.catalog, gone, DropTable(table.id))

    def lock_definition(self, table: Table) -> None:
        """Keep others from writing to ``table``, and from changing its definition, until this one ends."""
        self._define(table.schema)
        self._state.ops(table)
        self._state.lock_to_change(table)

    def alter_table(self, table: Table, changed: Table) -> None:
        """Give ``table`` another definition, that its rows are of, too: see ``View``."""
        self._refuse_early(changed)
        catalog = self._define(table.schema, changed.schema)
        self._need(changed, table)
        self._state.ops(table)
        self._state.lock_to_change(table)
        self._name_table(changed, table)
        self._note(catalog, partial(Catalog.with_table, table=changed), AlterTable(encode_table(changed)))

    def create_index(self, table: Table, index: Index) -> None:
        """Define ``index`` and fill it from the rows; SqlError 23505 when they are not unique."""
        for _ in self._create_index(table, index, self._state):
            pass

    def create_index_slowly(self, table: Table, index: Index) -> Iterator[None]:
        """As :meth:`create_index`, in steps of few rows. Its locks keep other writers away in between."""
        self._define(table.schema)
        self._state.lock_to_change(table)
        with closing(self._state.snapshot()) as snapshot:
            yield from self._create_index(table, index, snapshot)

    def create_index_online(self, table: Table, index: Index) -> Iterator[MustWait | None]:
        """As :meth:`create_index`, in steps of few rows, between which others may write to the table.

        At its end it takes the locks that :meth:`create_index` begins with: it gives what is to be waited
        for then. SqlError 40001 when somebody has defined the table anew meanwhile.
        """
        self._name("relation", [(table.schema, index.name)])
        self._state.ops(table)
        written = WrittenKeys(table.id)
        ops = TableOps(replace(table, indexes=(*table.indexes, index)))
        build = IndexBuild(self._state.snapshot, ops, ops.index(index.id), written)
        self._state.store.watched_tables.append(written)
        try:
            clash = yield from build.fill(table)
            if clash is None:
                yield from self._locked(table)
                clash = build.complete(table, self._state)
        finally:
            self._state.store.watched_tables.remove(written)
            build.close()
        if clash is not None:
            raise not_unique(table, index.parts, index.name, clash)
        self._add_index(replace(index, id=self._state.next_id), build.delta)

    def _locked(self, table: Table) -> Iterator[MustWait]:
        """Lock the table and the catalog, giving what is to be waited for in between."""
        while True:
            try:
                self.lock_definition(table)
                return
            except MustWait as conflict:
                met = conflict
            yield met

    def _create_index(self, table: Table, index: Index, reader: Reader) -> Iterator[None]:
        catalog = self._define(table.schema)
        self._state.ops(table)
        self._name("relation", [(table.schema, index.name)])
        self._check_new(index.id)
        self._state.lock_to_change(table)
        self._take_ids([index.id])  # others may define something before the last row is in it
        ops = TableOps(catalog.with_index(index).tables[table.id])
        self._refuse_early(ops.table)
        delta = Delta(cleared=True)
        clash = yield from fill_slowly(ops, ops.index(index.id), reader.scan(table), delta)
        if clash is not None:
            raise not_unique(table, index.parts, index.name, clash)
        self._add_index(index, delta)

    def _add_index(self, index: Index, delta: Delta) -> None:
        """Define an index that has these entries."""
        self._check_databases(1)
        self._take_ids([index.id])
        self._state.replace(index.id, delta)
        made = partial(Catalog.with_index, index=index)
        self._note(self._state.catalog, made, CreateIndex(index.table_id, encode_index(index)))

    def drop_index(self, table: Table, index: Index) -> None:
        """Remove ``index``."""
        catalog = self._define(table.schema)
        self._state.ops(table).index(index.id)
        self._state.lock_to_change(table)
        self._state.clear(index.id)
        gone = partial(Catalog.without_index, table_id=table.id, index_id=index.id)
        self._note(catalog, gone, DropIndex(table.id, index.id))

    # Objects and roles.

    def put_object(self, one: CatalogObject) -> bool:
        """Define an object that is no table (a new id from ``next_id``), or change it; whether it is new."""
        if isinstance(one.definition, FunctionDefinition) and self._state.store.level() < FUNCTIONS_LEVEL:
            raise _early("functions are")
        catalog = self._state.catalog
        there = catalog.objects.get(one.id)
        self._define_object(one, place_of(catalog, one), place_of(catalog, there or one))
        self._name_object(one, there)
        self._need_of(one, there)
        if there is not None:
            self._unneeded(there)
        else:
            self._check_new(one.id)
            self._take_ids([one.id])
        self._note(catalog, partial(Catalog.with_object, one=one), PutObject(encode_object(one)))
        return there is None

    def drop_object(self, one: CatalogObject) -> None:
        """Remove an object that is there."""
        catalog = self._define_object(one, place_of(self._state.catalog, one))
        self._unneeded(one)
        if catalog.objects.get(one.id) != one:
            raise SqlError("40001", f'the definition of "{one.name}" was changed concurrently')
        self._note(catalog, partial(Catalog.without_object, object_id=one.id), DropObject(one.id))

    def put_role(self, name: str, definition: bytes) -> None:
        """Define a role, anew if it is there."""
        catalog = self._define("", alone=True)
        made = partial(Catalog.with_role, name=name, definition=definition)
        self._note(catalog, made, PutRole(name.encode(), definition))

    def drop_role(self, name: str) -> None:
        """Remove a role that is there."""
        catalog = self._define("", alone=True)
        self._note(catalog, partial(Catalog.without_role, name=name), DropRole(name.encode()))

    def _note(self, before: Catalog, change: Definition, record: Record) -> None:
        self._state.note_definition(before, change, record)

    # Locks.

    def _lock(self, key: bytes, mode: int = UPDATE) -> None:
        self._state.locks.acquire(self._state.owner, CATALOG_DATABASE, key, mode)

    def _define(self, *schemas: str, alone: bool = False) -> Catalog:
        """The catalog to change, once no other transaction can be in the way within these schemas.

        Args:
            alone: no other transaction may have defined anything permanent that it has not committed.
        """
        for schema in dict.fromkeys(schemas):
            self._lock(place_key(schema), UPDATE if alone or is_temporary(schema) else SHARE)
        catalog = self._state.catalog
        self._state.check_definitions(schemas)
        return catalog

    def _define_object(self, one: CatalogObject, *schemas: str) -> Catalog:
        """As :meth:`_define`, for an object that is made, changed or dropped."""
        return self._define(*schemas, alone=is_alone(one, self._state.new_ids, self._state.catalog))

    def _name(self, kind: str, names: Collection[tuple[str, str]]) -> None:
        """Take (schema, name) pairs for what is made or gets another name. SqlError 42P07, 42710."""
        for schema, name in sorted(names):
            self._lock(name_key(kind, schema, name))
        catalog = self._state.catalog
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
        self._check_there(name, set(wanted) - self._state.catalog.objects.keys())

    def _need_of(self, one: CatalogObject, before: CatalogObject | None) -> None:
        """As :meth:`_need`, for an object: what a view reads, the table of a sequence or of statistics."""
        what = one.definition
        if isinstance(what, ViewDefinition):
            used = before.definition.uses if before and isinstance(before.definition, ViewDefinition) else ()
            uses = set(what.uses) - set(used)
            tables = self._state.catalog.tables.keys() & uses
            self._keep_objects(one.name, uses - tables)
            self._keep_tables(one.name, tables, ACCESS_SHARE)
        elif isinstance(what, StatisticsDefinition):
            self._keep_tables(one.name, {what.table_id}, SHARE_UPDATE_EXCLUSIVE)
        elif (owner := owner_of(one)) is not None:
            self._keep_tables(one.name, {owner}, SHARE_UPDATE_EXCLUSIVE)

    def _keep_tables(self, name: str, wanted: Collection[int], mode: int) -> None:
        for number in sorted(wanted):
            self._state.locks.acquire_table(self._state.owner, number, mode)
        self._check_there(name, set(wanted) - self._state.catalog.tables.keys())

    def _check_there(self, name: str, missing: Collection[int]) -> None:
        """SqlError 40001 where something is gone; what has an id that nobody took yet comes after it."""
        if any(number < self._state.next_id for number in missing):
            raise SqlError("40001", f'what "{name}" needs was dropped concurrently')

    def _unneeded(self, one: CatalogObject) -> None:
        """Wait for those who are about to need an object."""
        if one.kind in NEEDED_KINDS:
            self._lock(object_key(one.id))

    def _check_new(self, number: int) -> None:
        """SqlError 40001 for an id that is something's already."""
        if number < self._state.next_id:
            raise SqlError("40001", "the catalog was changed concurrently")

    def _take_ids(self, numbers: Collection[int]) -> None:
        """Nobody else gets these new ids, whatever becomes of this transaction."""
        self._state.store.id_head = max(self._state.store.id_head, max(numbers) + 1)
        self._state.new_ids.update(numbers)


def _early(what: str) -> SqlError:
    """0A000 for what not all servers that may read the log know of."""
    return SqlError(
        "0A000",
        f"{what} not supported before the upgrade of this database is finished",
        hint="herdpy admin upgrade --finish (docs/upgrades.md).",
    )


# What is locked, and what needs what.


def place_key(schema: str) -> bytes:
    """What is locked to define something in a schema."""
    return b"schema %b" % schema.encode() if is_temporary(schema) else CATALOG_KEY


def object_key(number: int) -> bytes:
    """What is locked to need an object, or to change one that others may need."""
    return b"object %d" % number


def name_key(kind: str, schema: str, name: str) -> bytes:
    """What is locked to give something a name."""
    return f"name {kind} {schema}\0{name}".encode()


def names_of(table: Table) -> set[tuple[str, str]]:
    """The schema and name of a table, and of each of its indexes."""
    return {(table.schema, name) for name in (table.name, *(index.name for index in table.indexes))}


def is_alone(one: CatalogObject, fresh: Collection[int], catalog: Catalog) -> bool:
    """Whether an object is defined while nobody else has anything permanent open.

    So are changes of schemas and types, which are about everything in them or of them; and rights and
    comments, unless of what the transaction has made itself (ids in ``fresh``), which nobody else can know.
    """
    what = one.definition
    if isinstance(what, CommentDefinition | RightsDefinition):
        return what.id not in fresh
    return one.kind not in _OF_NAMES and one.id in catalog.objects and one.id not in fresh


def owner_of(one: CatalogObject) -> int | None:
    """The id of the table with which a sequence goes."""
    what = one.definition
    return what.owner[0] if isinstance(what, SequenceDefinition) and what.owner else None


def place_of(catalog: Catalog, one: CatalogObject) -> str:
    """The schema that an object is in; of what is said of a table or a sequence, the schema of that.

    Rights are permanent even then: they name roles.
    """
    what = one.definition
    if isinstance(what, StatisticsDefinition):
        return _schema_of(catalog, what.table_id)
    if isinstance(what, CommentDefinition) and what.id:
        return _schema_of(catalog, what.id)
    return one.schema


def _schema_of(catalog: Catalog, number: int) -> str:
    found = catalog.tables.get(number) or catalog.objects.get(number)
    if found is not None:
        return found.schema
    tables = catalog.tables.values()
    return next((one.schema for one in tables if any(index.id == number for index in one.indexes)), "")


def needed(table: Table) -> set[int]:
    """Ids of the types and sequences without which a table's definition has no meaning."""
    found = {number for column in table.columns for number in sequences_of(column.default)}
    return found | {one.type.enum.id for one in table.columns if one.type.enum is not None}


def differs(before: Catalog, now: Catalog, schema: str) -> bool:
    """Whether two catalogs differ in what the lock of a schema is about."""
    if not is_temporary(schema) and before.roles != now.roles:
        return True
    return _within(before, schema) != _within(now, schema)


def _within(catalog: Catalog, schema: str) -> dict[int, object]:
    key = place_key(schema)
    found: dict[int, object] = {
        number: one for number, one in catalog.tables.items() if place_key(one.schema) == key
    }
    objects = catalog.objects.items()
    return found | {number: one for number, one in objects if place_key(place_of(catalog, one)) == key}
