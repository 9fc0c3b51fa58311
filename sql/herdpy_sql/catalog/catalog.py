"""Everything that exists in a tablespace, by id and by name, and the catalogs that definitions make of it."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from herdpy_sql.catalog.table import PUBLIC, Index, Table, is_temporary
from herdpy_sql.enum_types import relabelled
from herdpy_sql.errors import SqlError
from herdpy_sql.foreign_keys import ForeignKey
from herdpy_sql.objects import (
    RELATION_KINDS,
    CatalogObject,
    CommentDefinition,
    EnumDefinition,
    RightsDefinition,
    SchemaDefinition,
    StatisticsDefinition,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence


def names_meant(text: str, path: Sequence[str] = (PUBLIC,)) -> tuple[tuple[str, str], ...]:
    """The (schema, name) that a text without quotes may mean; the first that there is counts.

    That is a name along the path, else "schema.name". Whoever has no catalog, such as a reader of the log,
    compares tables with these.
    """
    schema, dot, name = text.partition(".")
    return (*((one, text) for one in path), *(((schema, name),) if dot else ()))


@dataclass(frozen=True)
class Catalog:
    """Everything of a tablespace. ``next_id`` numbers tables, indexes and objects alike, never twice.

    Attributes:
        objects: schemas, sequences, views, types and comments by id.
        path: the schemas where names without one are looked for; no part of what exists.
        roles: definitions by name, which mean nothing here; None as long as there never was one.
    """

    version: int = 0
    next_id: int = 1
    tables: Mapping[int, Table] = field(default_factory=dict)
    roles: Mapping[str, bytes] | None = None
    objects: Mapping[int, CatalogObject] = field(default_factory=dict)
    path: tuple[str, ...] = field(default=(PUBLIC,), compare=False)

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

    def has_schema(self, name: str) -> bool:
        """Whether there is a schema of that name."""
        found = self.objects_by_name.get(("schema", "", name))
        if found is None:
            return name == PUBLIC or name.startswith("pg_temp_")
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
            return (next(filter(is_temporary, self.path), schema),)
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
