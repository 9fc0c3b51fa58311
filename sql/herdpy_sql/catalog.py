"""What exists: tables, columns, indexes, checks, roles and other objects, as immutable values.

A :class:`Catalog` is never changed in place: each definition gives a new one with a higher version, so that
a plan is valid as long as the catalog it was made from is the session's, and a transaction that defines
tables carries its own. Definitions travel in the log and lie in the store as the bytes that ``definitions``
makes of them. A table's definition has an ENUM's labels as they were when it was written; in a catalog its
columns have the type's own.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from herdpy.codec.keys import KeyCodec
from herdpy.codec.kinds import Datum, Field, KeyField
from herdpy.codec.rows import RowCodec
from herdpy_sql.errors import SqlError
from herdpy_sql.foreign_keys import ForeignKey
from herdpy_sql.objects import (
    FIRST_USER_OID,
    RELATION_KINDS,
    CatalogObject,
    CommentDefinition,
    EnumDefinition,
    RightsDefinition,
    SchemaDefinition,
    StatisticsDefinition,
)
from herdpy_sql.partition_bounds import PartitionBound, PartitionKey
from herdpy_sql.quoting import quote_ident
from herdpy_sql.types import ENUM_ARRAYS, Base, EnumType, SqlType, array_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence, Set


def enum_type(
    one: CatalogObject, path: Sequence[str] = ("public",), others: Set[tuple[str, str]] = frozenset()
) -> SqlType:
    """The type that an enum's object defines, to be written as it is along ``path``.

    Args:
        others: (schema, name) of ENUMs, of which one may come before it on the path.
    """
    assert isinstance(one.definition, EnumDefinition)
    first = next((schema for schema in path if schema == one.schema or (schema, one.name) in others), None)
    shown = (
        quote_ident(one.name) if first == one.schema else f"{quote_ident(one.schema)}.{quote_ident(one.name)}"
    )
    return SqlType(Base.ENUM, enum=EnumType(one.id, one.schema, one.name, one.definition.labels, shown))


def enum_of_oid(catalog: Catalog, oid: int) -> SqlType | None:
    """The ENUM, or the arrays of one, with an object id of PostgreSQL's protocol."""
    is_array = oid >= ENUM_ARRAYS
    one = catalog.objects.get(oid - (ENUM_ARRAYS if is_array else FIRST_USER_OID))
    if one is None or one.kind != "enum":
        return None
    found = enum_type(one)
    return array_of(found) if is_array else found


def enums_of_now(types: Sequence[SqlType | None], catalog: Catalog) -> tuple[SqlType | None, ...]:
    """Types that were found in an earlier catalog, ENUMs with the labels that they have in this one.

    SqlError 42704 for an ENUM that is gone.
    """
    return tuple([one if one is None or one.enum is None else _of_now(one, catalog) for one in types])


def _of_now(one: SqlType, catalog: Catalog) -> SqlType:
    found = enum_of_oid(catalog, one.oid)
    if found is None:
        raise SqlError("42704", f"type with OID {one.oid} does not exist")
    return found


def enum_names(objects: Mapping[int, CatalogObject]) -> Set[tuple[str, str]]:
    """(schema, name) of every ENUM."""
    return frozenset((one.schema, one.name) for one in objects.values() if one.kind == "enum")


def relabelled(table: Table, objects: Mapping[int, CatalogObject]) -> Table:
    """``table`` with its ENUM columns as ``objects`` have their types; the same one when nothing differs."""
    columns = []
    changed = False
    for column in table.columns:
        enum = column.type.enum
        found = objects.get(enum.id) if enum is not None else None
        if found is not None and isinstance(found.definition, EnumDefinition):
            wanted = enum_type(found).enum
            if wanted != enum or str(wanted) != str(enum):
                column = replace(column, type=replace(column.type, enum=wanted))  # noqa: PLW2901
                changed = True
        columns.append(column)
    return replace(table, columns=tuple(columns)) if changed else table


PUBLIC = "public"
"""The schema of what is made without naming one."""

HIDDEN_KEY = "__rowid"
"""Name of the BIGINT column that keys a table declared without a primary key."""


@dataclass(frozen=True, slots=True)
class ColumnOrigin:
    """A column of a table as PostgreSQL numbers them: the table's object id, the column's number from 1."""

    table_oid: int
    number: int


@dataclass(frozen=True, slots=True)
class Column:
    """A column; its place in ``Table.columns`` is its place in row images, for ever.

    Attributes:
        default: the DEFAULT expression as SQL text, or None.
        missing: the datum of rows written before the column was added.
        hidden: not shown by ``SELECT *`` (the hidden key, and what expression indexes keep).
        dropped: keeps its place in row images, and is otherwise gone.
        identity: "ALWAYS" or "BY DEFAULT" of an identity column, whose default takes values of its sequence.
        generated: the expression that its value is always made of, as SQL text over the row; or None.
    """

    name: str
    type: SqlType
    not_null: bool = False
    default: str | None = None
    missing: Datum = None
    hidden: bool = False
    dropped: bool = False
    generated: str | None = None
    identity: str = ""

    @property
    def visible(self) -> bool:
        """Whether ``SELECT *`` shows it."""
        return not (self.hidden or self.dropped)

    @property
    def numbers_rows(self) -> bool:
        """Whether it is the hidden key."""
        return self.hidden and self.generated is None


@dataclass(frozen=True, slots=True)
class KeyPart:
    """One column of a key or index, by its position in ``Table.columns``."""

    position: int
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class Index:
    """A secondary index. Its keys end with the row's key unless it is unique and no part is NULL.

    Attributes:
        constraint: made by a UNIQUE constraint rather than by CREATE UNIQUE INDEX.
        predicate: of a partial index, the position of the hidden column that is true of the rows it has.
        parent: of a partition's index: the id of the partitioned table's index that it is a part of; else 0.
        deferrable: of a constraint that is looked at when statements are over; ``unique`` is False, as rows
            may be equal until then (``execute.uniques``).
        deferred: it is looked at when transactions are over, unless SET CONSTRAINTS says otherwise.
        primary: of a PRIMARY KEY that is deferrable: the table has a hidden key.
    """

    id: int
    name: str
    table_id: int
    parts: tuple[KeyPart, ...]
    unique: bool = False
    constraint: bool = False
    predicate: int | None = None
    parent: int = 0
    deferrable: bool = False
    deferred: bool = False
    primary: bool = False


@dataclass(frozen=True, slots=True)
class Check:
    """A CHECK constraint, its condition as SQL text over the table's columns.

    Attributes:
        validated: the rows that were there when it was made were checked (not so: NOT VALID).
    """

    name: str
    condition: str
    validated: bool = True


def is_temporary(schema: str) -> bool:
    """Whether a schema is a session's own, for temporary tables."""
    return schema.startswith("pg_temp_")


@dataclass(frozen=True)
class Table:
    """A table with everything that depends on it. ``key`` is never empty (see HIDDEN_KEY).

    Attributes:
        identity_full: the log has each row as it was before it is changed or deleted (REPLICA IDENTITY FULL).
        schema: the schema that it is in.
        on_commit: what becomes of a temporary table at a commit: "DROP", "DELETE" (its rows), or "".
        partition_key: of a partitioned table, which has no rows of its own: how its partitions have them.
        bound: of a partition: whose it is, and which rows it takes.
    """

    id: int
    name: str
    columns: tuple[Column, ...]
    key: tuple[KeyPart, ...]
    key_name: str
    checks: tuple[Check, ...] = ()
    indexes: tuple[Index, ...] = ()
    identity_full: bool = False
    schema: str = PUBLIC
    on_commit: str = ""
    foreign_keys: tuple[ForeignKey, ...] = ()
    partition_key: PartitionKey | None = None
    bound: PartitionBound | None = None

    @functools.cached_property
    def is_routed(self) -> bool:
        """Whether the values of a row say where it may be: a partitioned table, or a partition."""
        return self.partition_key is not None or self.bound is not None

    @property
    def oid(self) -> int:
        """Its object id, where PostgreSQL's clients want one."""
        return FIRST_USER_OID + self.id

    def origin(self, position: int) -> ColumnOrigin | None:
        """What tells that a value is from the column at ``position``; None of the hidden key."""
        return None if self.columns[position].hidden else ColumnOrigin(self.oid, position + 1)

    @property
    def is_temporary(self) -> bool:
        """Whether it is a session's own."""
        return is_temporary(self.schema)

    @property
    def has_hidden_key(self) -> bool:
        """Whether the table was declared without a primary key."""
        return self.columns[self.key[0].position].hidden

    @functools.cached_property
    def positions(self) -> Mapping[str, int]:
        """Position of each live column (the hidden one too) by name."""
        return MappingProxyType({c.name: i for i, c in enumerate(self.columns) if not c.dropped})

    @functools.cached_property
    def visible(self) -> tuple[int, ...]:
        """Positions of the columns that ``SELECT *`` shows."""
        return tuple(i for i, c in enumerate(self.columns) if c.visible)

    @functools.cached_property
    def fields(self) -> tuple[Field, ...]:
        """The fields of this table's row images."""
        return tuple(replace(c.type.field, missing=c.missing) for c in self.columns)

    @functools.cached_property
    def row_codec(self) -> RowCodec:
        """Encodes and decodes this table's row images (all physical columns)."""
        return RowCodec(self.fields)

    @functools.cached_property
    def key_codec(self) -> KeyCodec:
        """Encodes and decodes the keys of this table's rows."""
        return KeyCodec(self._key_fields(self.key))

    @functools.cached_property
    def key_positions(self) -> tuple[int, ...]:
        """Positions of the key's columns, in key order."""
        return tuple(part.position for part in self.key)

    def index_codec(self, index: Index) -> KeyCodec:
        """Encodes the columns of ``index`` (without the row key that may follow)."""
        found = self._index_codecs.get(index.id)
        if found is not None and (found[0] is index.parts or found[0] == index.parts):
            return found[1]
        # Ids of indexes whose creation failed are used again, with other parts.
        codec = KeyCodec(self._key_fields(index.parts))
        self._index_codecs[index.id] = (index.parts, codec)
        return codec

    @functools.cached_property
    def derived(self) -> dict[str, object]:
        """What others derive from this definition and keep with it (compiled checks, defaults)."""
        return {}

    @functools.cached_property
    def _index_codecs(self) -> dict[int, tuple[tuple[KeyPart, ...], KeyCodec]]:
        return {}

    def _key_fields(self, parts: tuple[KeyPart, ...]) -> tuple[KeyField, ...]:
        return tuple(
            KeyField(
                kind=self.fields[p.position].kind,
                scale=self.fields[p.position].scale,
                element=self.fields[p.position].element,
                descending=p.descending,
                nullable=not self.columns[p.position].not_null,
                nulls_first=p.nulls_first,
            )
            for p in parts
        )


_QUOTED = re.compile(r'"((?:[^"]|"")+)"(?:\."((?:[^"]|"")+)")?')


def names_meant(text: str, path: Sequence[str] = (PUBLIC,)) -> tuple[tuple[str, str], ...]:
    """The (schema, name) that a text without quotes may mean; the first that there is counts.

    That is a name along the path, else "schema.name". A text that is names in double quotes, with a dot
    between them, means first what SQL means by it, so that no name with a dot in it is ambiguous.
    Whoever has no catalog, such as a reader of the log, compares tables with these.
    """
    schema, dot, name = text.partition(".")
    plain = (*((one, text) for one in path), *(((schema, name),) if dot else ()))
    if not (quoted := _QUOTED.fullmatch(text)):
        return plain
    *schemas, own = (part.replace('""', '"') for part in quoted.groups() if part is not None)
    return (*((one, own) for one in schemas or path), *plain)


def exact_name(name: str, schema: str = "") -> str:
    """A text by which ``names_meant`` means this table before all others."""
    if not schema and not {".", '"'} & set(name):
        return name
    return ".".join('"' + part.replace('"', '""') + '"' for part in (schema, name) if part)


@dataclass(frozen=True)
class Catalog:
    """Everything of a tablespace. ``next_id`` numbers tables, indexes and objects alike, never twice.

    Attributes:
        objects: schemas, sequences, views, types and comments by id.
        path: the schemas where names without one are looked for; no part of what exists.
        roles: definitions by name, which mean nothing here; None as long as there never was one.
        past: the definitions that AS OF SYSTEM TIME reads, where a statement is planned that has it.
    """

    version: int = 0
    next_id: int = 1
    tables: Mapping[int, Table] = field(default_factory=dict)
    roles: Mapping[str, bytes] | None = None
    objects: Mapping[int, CatalogObject] = field(default_factory=dict)
    path: tuple[str, ...] = field(default=(PUBLIC,), compare=False)
    past: Catalog | None = field(default=None, compare=False)

    def reading(self, past: Catalog) -> Catalog:
        """This catalog for a statement that reads what ``past`` defines: mostly the same object."""
        found = self.derived.get("reading")
        if not isinstance(found, Catalog) or found.past is not past.along(self.path):
            found = self.derived["reading"] = replace(self, past=past.along(self.path))
        return found

    @functools.cached_property
    def derived(self) -> dict[object, object]:
        """What others derive from these definitions and keep with them (names that were looked up)."""
        return {}

    @functools.cached_property
    def by_name(self) -> Mapping[str, Table]:
        """Tables along the path by name."""
        found: dict[str, Table] = {}
        for schema in reversed(self.path):
            found |= {table.name: table for table in self.tables.values() if table.schema == schema}
        return found

    @functools.cached_property
    def relations(self) -> Mapping[tuple[str, str], Relation]:
        """Tables, indexes, views and sequences by schema and name."""
        found: dict[tuple[str, str], Relation] = {}
        for table in self.tables.values():
            found[table.schema, table.name] = table
            found |= {(table.schema, index.name): index for index in table.indexes}
        for one in self.objects.values():
            if one.kind in RELATION_KINDS:
                found[one.schema, one.name] = one
        return found

    @functools.cached_property
    def _key_names(self) -> frozenset[tuple[str, str]]:
        """The indexes that primary keys are, which are no relations of their own, by schema and name."""
        return frozenset(
            (table.schema, table.key_name) for table in self.tables.values() if not table.has_hidden_key
        )

    def is_taken(self, schema: str, name: str) -> bool:
        """Whether a relation, or the index of a primary key, has that name."""
        return (schema, name) in self.relations or (schema, name) in self._key_names

    @functools.cached_property
    def objects_by_name(self) -> Mapping[tuple[str, str, str], CatalogObject]:
        """Objects by kind, schema ("" for what is in none) and name."""
        return {(one.kind, one.schema, one.name): one for one in self.objects.values()}

    @functools.cached_property
    def referencing(self) -> Mapping[int, tuple[tuple[Table, ForeignKey], ...]]:
        """By a table's id: the foreign keys that refer to it, each with its table."""
        found: dict[int, list[tuple[Table, ForeignKey]]] = {}
        for table in self.tables.values():
            for one in table.foreign_keys:
                found.setdefault(one.table_id, []).append((table, one))
        return {number: tuple(those) for number, those in found.items()}

    @functools.cached_property
    def checks_later(self) -> bool:
        """Whether some rows are looked at after they are written: foreign keys, deferrable uniques."""
        tables = self.tables.values()
        return bool(self.referencing) or any(one.deferrable for table in tables for one in table.indexes)

    @functools.cached_property
    def partitions(self) -> Mapping[int, tuple[Table, ...]]:
        """By a partitioned table's id: its partitions, in the order in which they were made."""
        found: dict[int, list[Table]] = {}
        for table in sorted(self.tables.values(), key=lambda table: table.id):
            if table.bound is not None:
                found.setdefault(table.bound.parent, []).append(table)
        return {number: tuple(those) for number, those in found.items()}

    def has_schema(self, name: str) -> bool:
        """Whether there is a schema of that name."""
        found = self.objects_by_name.get(("schema", "", name))
        if found is None:
            return name == PUBLIC or is_temporary(name)
        return not (isinstance(found.definition, SchemaDefinition) and found.definition.dropped)

    def along(self, path: tuple[str, ...]) -> Catalog:
        """This catalog with the schemas of ``path`` that there are as its path: always the same object."""
        found = self.derived.get(path)
        if found is None:
            there = tuple(dict.fromkeys(one for one in path if self.has_schema(one)))
            found = self
            if there != self.path:
                found = replace(self, path=there)
                found.derived[path] = found
                found = self.derived.setdefault(("along", *there), found)
            self.derived[path] = found
        return found  # type: ignore[return-value]

    def find(self, schema: str | None, name: str, path: Sequence[str] | None = None) -> Relation | None:
        """The table, index, view or sequence of that name: in ``schema``, or the first along the path.

        SqlError 0A000 for one in the temporary schema of another session.
        """
        relations = self.relations
        for one in self._places(schema, path):
            found = relations.get((one, name))
            if found is not None:
                self._refuse_others(one, path)
                return found
        return None

    def table_of_key(self, schema: str | None, name: str) -> Table | None:
        """The table whose primary key has that name: in ``schema``, or the first along the path."""
        for one in self._places(schema, None):
            for table in self.tables.values():
                if table.schema == one and table.key_name == name and not table.has_hidden_key:
                    self._refuse_others(one, None)
                    return table
        return None

    def _places(self, schema: str | None, path: Sequence[str] | None) -> Sequence[str]:
        """The schemas to look in for a name, in order."""
        if schema is None:
            return self.path if path is None else path
        if schema == "pg_temp":
            return (next(filter(is_temporary, self.path if path is None else path), schema),)
        return (schema,)

    def is_others(self, schema: str) -> bool:
        """Whether a schema has another session's temporary tables."""
        return is_temporary(schema) and schema not in self.path

    def _refuse_others(self, schema: str, path: Sequence[str] | None) -> None:
        if self.is_others(schema) and schema not in (path or ()):
            raise SqlError("0A000", "cannot access temporary tables of other sessions")

    def table_named(self, text: str) -> Table | None:
        """The table of that name along the path, or of the name "schema.table", both as they are kept.

        Temporary tables are found in the path only: those of others are nobody's business.
        """
        for schema, name in names_meant(text, self.path):
            found = self.relations.get((schema, name))
            if isinstance(found, Table) and (schema in self.path or not found.is_temporary):
                return found
        return None

    def object(self, kind: str, schema: str, name: str) -> CatalogObject | None:
        """The object of that kind and name."""
        return self.objects_by_name.get((kind, schema, name))

    def columns_of_enum(self, enum_id: int) -> list[tuple[Table, str]]:
        """The tables and columns that are of an ENUM."""
        return [
            (table, column.name)
            for table in self.tables.values()
            for column in table.columns
            if not column.dropped and column.type.enum is not None and column.type.enum.id == enum_id
        ]

    def statistics_of(self, table_id: int) -> tuple[CatalogObject, ...]:
        """What ANALYZE left of a table: one object, or none."""
        return tuple(
            one
            for one in self.objects.values()
            if isinstance(one.definition, StatisticsDefinition) and one.definition.table_id == table_id
        )

    def with_table(self, table: Table) -> Catalog:
        """This catalog with ``table`` added, or changed."""
        highest = max([table.id, *(index.id for index in table.indexes)])
        return replace(
            self,
            version=self.version + 1,
            next_id=max(self.next_id, highest + 1),
            tables={
                **self.tables,
                table.id: relabelled(table, self.objects),
            },
        )

    def without_table(self, table_id: int) -> Catalog:
        """This catalog without that table, its indexes, and what was said of them."""
        gone = {table_id, *(index.id for index in self.tables[table_id].indexes)}
        rest = {key: table for key, table in self.tables.items() if key != table_id}
        return replace(self, version=self.version + 1, tables=rest, objects=self._uncommented(gone))

    def with_index(self, index: Index) -> Catalog:
        """This catalog with ``index`` added to its table."""
        table = self.tables[index.table_id]
        return self.with_table(replace(table, indexes=(*table.indexes, index)))

    def without_index(self, table_id: int, index_id: int) -> Catalog:
        """This catalog without that index."""
        table = self.tables[table_id]
        rest = tuple(index for index in table.indexes if index.id != index_id)
        changed = self.with_table(replace(table, indexes=rest))
        return replace(changed, objects=self._uncommented({index_id}))

    def with_object(self, one: CatalogObject) -> Catalog:
        """This catalog with an object added, or changed."""
        objects = {**self.objects, one.id: one}
        tables = self.tables
        if isinstance(one.definition, EnumDefinition):
            tables = {key: relabelled(table, objects) for key, table in tables.items()}
        return replace(
            self,
            version=self.version + 1,
            next_id=max(self.next_id, one.id + 1),
            tables=tables,
            objects=objects,
        )

    def without_object(self, object_id: int) -> Catalog:
        """This catalog without that object, and what was said of it. KeyError when it is not there."""
        rest = self._uncommented({object_id})
        del rest[object_id]
        return replace(self, version=self.version + 1, objects=rest)

    def _uncommented(self, gone: Collection[int]) -> dict[int, CatalogObject]:
        """The objects without the comments on, and the rights to, what has one of those ids."""
        return {
            key: one
            for key, one in self.objects.items()
            if not isinstance(one.definition, CommentDefinition | RightsDefinition)
            or one.definition.id not in gone
        }

    def with_role(self, name: str, definition: bytes) -> Catalog:
        """This catalog with that role added, or changed."""
        return replace(self, version=self.version + 1, roles={**(self.roles or {}), name: definition})

    def without_role(self, name: str) -> Catalog:
        """This catalog without that role. KeyError when it is not there."""
        rest = dict(self.roles or {})
        del rest[name]
        return replace(self, version=self.version + 1, roles=rest)


Relation = Table | Index | CatalogObject
"""What shares its names within a schema: tables, indexes, views and sequences."""


__all__ = [
    "HIDDEN_KEY",
    "PUBLIC",
    "Catalog",
    "Check",
    "Column",
    "ColumnOrigin",
    "Index",
    "KeyPart",
    "Relation",
    "Table",
    "exact_name",
    "is_temporary",
    "names_meant",
]
