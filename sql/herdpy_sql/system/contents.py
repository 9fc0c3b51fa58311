"""The rows of the system relations: each a function of the catalog and the server's state.

A relation without a function here is empty: there are no views, triggers, policies or publications.
``classes``, ``types``, ``server``, ``ownership``, ``information_schema`` and ``herdpy_schema`` register
theirs with :func:`rows_of`; :func:`table` makes the Arrow table of those that the current role may see. A
catalog never changes, whatever changes one makes another: so a table that is made of it alone is kept while
the catalog is one of the last few that were asked about.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from herdpy_sql.catalog import PUBLIC
from herdpy_sql.objects import FIRST_USER_OID, SYSTEM, CatalogObject, SequenceDefinition, ViewDefinition
from herdpy_sql.rights.acl import held
from herdpy_sql.rights.held import Subject, acl_of, owner_of, schema_subject, subject_of
from herdpy_sql.system.definitions import indexes_of, table_oid
from herdpy_sql.system.state import Activity, keys_of
from herdpy_sql.system_relations import INFORMATION, SystemRelation, relations

if TYPE_CHECKING:
    from herdpy_sql.catalog import Catalog
    from herdpy_sql.system.state import ServerState


CATALOGS = 4
"""How many catalogs tables are kept of: sessions with search paths or temporary tables have their own."""


class _Same:
    """A catalog as a key: only itself is equal to it."""

    __slots__ = ("catalog",)

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.catalog is self.catalog

    def __hash__(self) -> int:
        return id(self.catalog)


def kept_table(catalog: Catalog, label: str, make: Callable[[], pa.Table]) -> pa.Table:
    """The table that was made for this catalog under this label, or the one that ``make`` gives."""
    known = _tables(_Same(catalog))
    found = known.get(label)
    return known.setdefault(label, make()) if found is None else found


@functools.lru_cache(maxsize=CATALOGS)
def _tables(_of: _Same) -> dict[str, pa.Table]:
    return {}


HIDDEN = "<insufficient privilege>"
"""Shown for the texts of others' statements."""

PG_CATALOG_OID, PUBLIC_OID, INFORMATION_OID, HERDPY_OID = 11, 2200, 13207, 13300
OWNER_OID = 10
DATABASE_OID = 5
HEAP, BTREE = 2, 403
DEFAULT_COLLATION, C_COLLATION = 100, 950

SCHEMAS = {
    "pg_catalog": PG_CATALOG_OID,
    "public": PUBLIC_OID,
    "information_schema": INFORMATION_OID,
    "herdpy": HERDPY_OID,
}

Rows = Iterable[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Context:
    """What rows are made of."""

    catalog: Catalog
    state: ServerState

    def role_oids(self) -> dict[str, int]:
        """Ids of the roles by name."""
        return {role.name: role_oid(role.key) for role in self.state.roles()}

    def role_names(self) -> dict[str, str]:
        """Names of the roles by key."""
        return {role.key: role.name for role in self.state.roles()}

    def database_oid(self, name: str | None) -> int:
        """See :func:`oid_of_database`; None is the session's own."""
        return oid_of_database(name, self.state.database)

    def table_counts(self) -> Mapping[int, Mapping[str, Any]]:
        """What is counted of the tables, by their object ids."""
        return {FIRST_USER_OID + row["id"]: row for row in self.state.facts("table counts")}

    def sizes(self) -> Mapping[str, Mapping[int, int]]:
        """By what they measure, the sizes of relations by their object ids, in bytes.

        "relation": a table without its indexes, or one index; "indexes": those of a table. The whole
        database's is that of "relation" for 0.
        """
        relation: dict[int, int] = {}
        indexes: dict[int, int] = {}
        for row in self.state.facts("sizes"):
            size, table = row["bytes"], row["table"]
            relation[0 if table is None else FIRST_USER_OID + row["id"]] = size
            if table is not None and row["id"] != table:
                indexes[FIRST_USER_OID + table] = indexes.get(FIRST_USER_OID + table, 0) + size
        return {"relation": relation, "indexes": indexes}

    @property
    def sees_statistics(self) -> bool:
        """Whether the user sees what others do: superusers do."""
        return any(role.superuser for role in self.state.roles() if role.name == self.state.user)

    def activity(self) -> Iterator[Activity]:
        """Every session; of other users' only that they are there, unless the user sees statistics."""
        user, sees_all = self.state.user, self.sees_statistics
        for one in self.state.activity():
            if sees_all or one.user == user:
                yield one
            else:
                yield Activity(
                    one.pid,
                    one.user,
                    one.application_name,
                    backend_start_us=None,
                    state=None,
                    query=HIDDEN,
                    database=one.database,
                )


def oid_of_database(name: str | None, own: str) -> int:
    """Of the session's ``own`` database 5, as PostgreSQL's first one has; of others one made of the name."""
    if name in (None, own):
        return DATABASE_OID
    assert name is not None
    return 1 << 30 | zlib.crc32(name.encode()) >> 2


def role_oid(key: str) -> int:
    """The id of a role: 10 for the superuser that is there from the start, as PostgreSQL has it."""
    return OWNER_OID if key == SYSTEM else 16_000_000 + (zlib.crc32(key.encode()) >> 1)


MAKERS: dict[tuple[str, str], Callable[[Context], Rows]] = {}
OF_CATALOG: set[str] = set()
"""Labels of relations whose rows are the catalog's alone, so that they are made once for a catalog."""
BUILTIN: dict[str, Callable[[], Rows]] = {}
"""By label, what makes the rows that are there in every database."""


def rows_of(schema: str, *names: str) -> Callable[[Callable[[Context], Rows]], Callable[[Context], Rows]]:
    """Register what makes the rows of these relations."""

    def register(maker: Callable[[Context], Rows]) -> Callable[[Context], Rows]:
        for name in names:
            assert (schema, name) in relations(), name
            MAKERS[schema, name] = maker
        return maker

    return register


def of_catalog(*names: str) -> Callable[[Callable[[Context], Rows]], Callable[[Context], Rows]]:
    """Say of relations of pg_catalog that their rows are made of the catalog alone, never of the state."""

    def mark(maker: Callable[[Context], Rows]) -> Callable[[Context], Rows]:
        OF_CATALOG.update(relations()["pg_catalog", name].label for name in names)
        return maker

    return mark


def always_in(name: str) -> Callable[[Callable[[], Rows]], Callable[[], Rows]]:
    """Register what makes those rows of a relation of pg_catalog that are there in every database."""

    def register(maker: Callable[[], Rows]) -> Callable[[], Rows]:
        BUILTIN[relations()["pg_catalog", name].label] = maker
        return maker

    return register


# Which rows of information_schema a role sees: those of what it owns or has some right to, as in PostgreSQL.
# Superusers see all, and pay one look at the roles. pg_catalog hides nothing.
# Source: the views' definitions in PostgreSQL 15.

_ANY, _COLUMN, _CHANGES, _OWNER = "arwdDxt", "arwx", "awdDxt", ""

LETTERS = {
    "tables": _ANY,
    "views": _ANY,
    "columns": _COLUMN,
    "key_column_usage": _COLUMN,
    "table_constraints": _CHANGES,
    "referential_constraints": _CHANGES,
    "constraint_column_usage": _OWNER,
    "constraint_table_usage": _OWNER,
    "check_constraints": _OWNER,
    "sequences": "rwU",
    "schemata": "UC",
}
"""By view: one of these privileges lets a role see what is not its own."""


def _seen(relation: SystemRelation, context: Context, rows: Rows) -> Rows:
    """The rows of a relation that the current user may see."""
    letters = LETTERS.get(relation.name) if relation.schema == INFORMATION else None
    keys = None if letters is None else keys_of(context.state, context.state.user)
    if letters is None or keys is None:
        return rows
    return _filtered(relation, context, rows, letters, keys)


def _filtered(
    relation: SystemRelation, context: Context, rows: Rows, letters: str, keys: set[str]
) -> Iterator[Mapping[str, Any]]:
    known: dict[tuple[str, str], tuple[bool, bool]] = {}
    for row in rows:
        name = _name(relation, row)
        if name not in known:
            known[name] = _looks(context, _subject(context, *name), letters, keys)
        is_seen, is_own = known[name]
        if is_seen and relation.name == "views" and not is_own:
            yield {**row, "view_definition": None}
        elif is_seen:
            yield row


def _name(relation: SystemRelation, row: Mapping[str, Any]) -> tuple[str, str]:
    if relation.name == "schemata":
        return "", row["schema_name"]
    prefix = "sequence" if relation.name == "sequences" else "table"
    return row[f"{prefix}_schema"], row[f"{prefix}_name"]


def _subject(context: Context, schema: str, name: str) -> Subject | None:
    """None for what is the system's."""
    if not schema:
        return schema_subject(context.catalog, name) if context.catalog.has_schema(name) else None
    if (schema, name) in relations():
        return None
    return subject_of(context.catalog.relations[schema, name])


def _looks(context: Context, subject: Subject | None, letters: str, keys: set[str]) -> tuple[bool, bool]:
    """(whether a role sees it, whether it is its own)."""
    if subject is None:  # everybody may read what is the system's, and nobody owns it
        return bool(letters), False
    if owner_of(context.catalog, subject) in keys:
        return True, True
    return bool(set(held(acl_of(context.catalog, subject), keys)) & set(letters)), False


def table(relation: SystemRelation, context: Context) -> pa.Table:
    """The rows of a relation, now."""
    maker = MAKERS.get((relation.schema, relation.name))
    if maker is None:
        return _without_rows(relation)
    if relation.label in OF_CATALOG:
        return kept_table(context.catalog, relation.label, lambda: _made(relation, maker, context))
    return _made(relation, maker, context)


def _made(relation: SystemRelation, maker: Callable[[Context], Rows], context: Context) -> pa.Table:
    made = relation.table(_seen(relation, context, maker(context)))
    return pa.concat_tables([made, _builtin(relation)]) if relation.label in BUILTIN else made


@functools.lru_cache(maxsize=64)
def _builtin(relation: SystemRelation) -> pa.Table:
    return relation.table(BUILTIN[relation.label]())


@functools.lru_cache(maxsize=256)
def _without_rows(relation: SystemRelation) -> pa.Table:
    return relation.table(())


def user_schemas(catalog: Catalog) -> dict[str, int]:
    """The object ids of the schemas that are not the system's, by name."""
    found = {PUBLIC: PUBLIC_OID} if catalog.has_schema(PUBLIC) else {}
    for one in catalog.objects.values():
        if one.kind == "schema" and catalog.has_schema(one.name):
            found.setdefault(one.name, one.oid)
    for table in catalog.tables.values():
        if table.schema not in found:  # of a session's temporary tables
            found[table.schema] = 1_900_000_000 + int(table.schema.rpartition("_")[2])
    return found


def schema_oid(catalog: Catalog, name: str) -> int:
    """The object id of a schema."""
    known = catalog.derived.get("schema oids")
    if known is None:
        known = catalog.derived["schema oids"] = {**SCHEMAS, **user_schemas(catalog)}
    return known.get(name, PUBLIC_OID)  # type: ignore[attr-defined, no-any-return]


def sequences(catalog: Catalog) -> Iterator[tuple[CatalogObject, SequenceDefinition]]:
    """The sequences by name."""
    for one in sorted(catalog.objects.values(), key=lambda one: one.name):
        if isinstance(one.definition, SequenceDefinition):
            yield one, one.definition


def views(catalog: Catalog) -> Iterator[tuple[CatalogObject, ViewDefinition]]:
    """The views by name."""
    for one in sorted(catalog.objects.values(), key=lambda one: one.name):
        if isinstance(one.definition, ViewDefinition):
            yield one, one.definition


def named_relations(catalog: Catalog) -> list[tuple[str, str, int]]:
    """(schema, name, object id) of users' tables, indexes, sequences and views."""
    found = []
    for table in catalog.tables.values():
        found.append((table.schema, table.name, table_oid(table)))
        found += [(table.schema, index.name, index.oid) for index in indexes_of(table)]
    found += [(one.schema, one.name, one.oid) for one, _ in (*sequences(catalog), *views(catalog))]
    return found
