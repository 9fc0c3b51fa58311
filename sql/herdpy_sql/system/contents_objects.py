"""Rows about schemas, sequences, views and comments, and the names of users' schemas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from herdpy_sql.catalog import PUBLIC
from herdpy_sql.objects import CatalogObject, CommentDefinition, SequenceDefinition, ViewDefinition
from herdpy_sql.plan.views import is_updatable, view_text
from herdpy_sql.quoting import quote_ident
from herdpy_sql.rights.held import owner_of, subject_of
from herdpy_sql.sequences import NEXTVAL
from herdpy_sql.system import definitions
from herdpy_sql.system.contents import PUBLIC_OID, SCHEMAS, Context, Rows, of_catalog, rows_of
from herdpy_sql.system.definitions import indexes_of, table_oid
from herdpy_sql.types import BIGINT, INTEGER, SMALLINT

if TYPE_CHECKING:
    from herdpy_sql.catalog import Catalog, Table

_TYPES = {"smallint": SMALLINT, "integer": INTEGER, "bigint": BIGINT}
_BITS = {"smallint": 16, "integer": 32, "bigint": 64}
_CLASS, _CONSTRAINT, _NAMESPACE, _TYPE = 1259, 2606, 2615, 1247


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


def shown_default(catalog: Catalog, text: str | None) -> str | None:
    """A DEFAULT as PostgreSQL prints it: with the name of the sequence that it takes values of."""
    if text is None or "nextval" not in text.lower():
        return text

    def named(match: Any) -> str:
        one = next((one for one in catalog.objects.values() if one.oid == int(match[1])), None)
        if one is None:
            return str(match[0])
        name = quote_ident(one.name)
        if one.schema not in catalog.path:
            name = f"{quote_ident(one.schema)}.{name}"
        return f"nextval('{name}'::regclass)"

    return NEXTVAL.sub(named, text)


@of_catalog("pg_sequence")
@rows_of("pg_catalog", "pg_sequence")
def _sequence_rows(context: Context) -> Rows:
    for one, what in sequences(context.catalog):
        yield {
            "seqrelid": one.oid, "seqtypid": _TYPES[what.type].oid, "seqstart": what.start,
            "seqincrement": what.increment, "seqmax": what.maximum, "seqmin": what.minimum,
            "seqcache": what.cache, "seqcycle": what.cycle,
        }  # fmt: skip


def _owner(context: Context, one: CatalogObject) -> str:
    key = owner_of(context.catalog, subject_of(one))
    return context.role_names().get(key, key)


def sequence_values(context: Context) -> Iterator[tuple[int, int, bool]]:
    """(object id, value, whether that was given already) of each sequence."""
    for row in context.state.facts("sequences"):
        yield row["oid"], row["value"], row["called"]


@rows_of("pg_catalog", "pg_sequences")
def _sequence_view(context: Context) -> Rows:
    given = {oid: value for oid, value, called in sequence_values(context) if called}
    for one, what in sequences(context.catalog):
        yield {
            "schemaname": one.schema, "sequencename": one.name, "sequenceowner": _owner(context, one),
            "data_type": what.type, "start_value": what.start, "min_value": what.minimum,
            "max_value": what.maximum, "increment_by": what.increment, "cycle": what.cycle,
            "cache_size": what.cache, "last_value": given.get(one.oid),
        }  # fmt: skip


@rows_of("information_schema", "sequences")
def _standard_sequences(context: Context) -> Rows:
    for one, what in sequences(context.catalog):
        if not what.identity:
            yield {
                "sequence_catalog": context.state.database, "sequence_schema": one.schema,
                "sequence_name": one.name, "data_type": what.type, "numeric_precision": _BITS[what.type],
                "numeric_precision_radix": 2, "numeric_scale": 0, "start_value": str(what.start),
                "minimum_value": str(what.minimum), "maximum_value": str(what.maximum),
                "increment": str(what.increment), "cycle_option": "YES" if what.cycle else "NO",
            }  # fmt: skip


@rows_of("information_schema", "views")
def _standard_views(context: Context) -> Rows:
    for one, what in views(context.catalog):
        changed = "YES" if is_updatable(one, context.catalog) else "NO"
        yield {
            "table_catalog": context.state.database, "table_schema": one.schema, "table_name": one.name,
            "view_definition": view_text(one, context.catalog) + ";", "check_option": what.check or "NONE",
            "is_updatable": changed, "is_insertable_into": changed, "is_trigger_updatable": "NO",
            "is_trigger_deletable": "NO", "is_trigger_insertable_into": "NO",
        }  # fmt: skip


def comments(catalog: Catalog) -> Iterator[tuple[int, int, int, str]]:
    """(object id, id of the system table that it is in, column or 0, text)."""
    for one in catalog.objects.values():
        what = one.definition
        if not isinstance(what, CommentDefinition):
            continue
        place = _place(catalog, one.name, what)
        if place is not None:
            yield (*place, what.column + 1, what.text)


def _place(catalog: Catalog, name: str, what: CommentDefinition) -> tuple[int, int] | None:
    if what.on == "relation":
        return 16384 + what.id, _CLASS
    if what.on == "type":
        return 16384 + what.id, _TYPE
    if what.on == "schema":
        return schema_oid(catalog, name.partition(" ")[2]), _NAMESPACE
    if what.on == "constraint" and what.id in catalog.tables:
        oid = _constraint_oid(catalog.tables[what.id], name.split(" ", 2)[2])
        return None if oid is None else (oid, _CONSTRAINT)
    return None


def _constraint_oid(table: Table, name: str) -> int | None:
    """The object id of a table's constraint of that name, if it is there still."""
    for index in indexes_of(table):
        if index.constraint and index.name == name:
            return definitions.constraint_oid(index)
    named = [*(one.name for one in table.checks), *(one.name for one in table.foreign_keys)]
    return definitions.check_oid(table, named.index(name)) if name in named else None


@of_catalog("pg_description")
@rows_of("pg_catalog", "pg_description")
def _descriptions(context: Context) -> Rows:
    for oid, kind, column, text in comments(context.catalog):
        yield {"objoid": oid, "classoid": kind, "objsubid": column, "description": text}
