"""Rows about relations: pg_class, and what of them depends on what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from herdpy_sql.system import foreign_key_rows
from herdpy_sql.system.contents import (
    BTREE,
    HEAP,
    OWNER_OID,
    SCHEMAS,
    Context,
    Rows,
    always_in,
    of_catalog,
    rows_of,
)
from herdpy_sql.system.contents_objects import schema_oid, sequences, views
from herdpy_sql.system.contents_rights import owned_relation
from herdpy_sql.system.definitions import indexes_of, table_oid
from herdpy_sql.system_relations import relations

if TYPE_CHECKING:
    from herdpy_sql.catalog import Catalog, Table
    from herdpy_sql.objects import CatalogObject


_RELATIONS, _AUTOMATIC, _INTERNAL = 1259, "a", "i"


def tables(catalog: Catalog) -> list[Table]:
    """Users' tables by name."""
    return sorted(catalog.tables.values(), key=lambda table: table.name)


def _class(oid: int, name: str, schema: int, kind: str, **more: Any) -> dict[str, Any]:
    return {
        "oid": oid,
        "relname": name,
        "relnamespace": schema,
        "relkind": kind,
        "reltype": 0,
        "reloftype": 0,
        "relowner": OWNER_OID,
        "relam": {"r": HEAP, "i": BTREE}.get(kind, 0),
        "relfilenode": oid if kind != "v" else 0,
        "reltablespace": 0,
        "relpages": 0,
        "reltuples": -1.0 if kind == "r" else 0.0,
        "relallvisible": 0,
        "reltoastrelid": 0,
        "relhasindex": False,
        "relisshared": False,
        "relpersistence": "p",
        "relchecks": 0,
        "relhasrules": kind == "v",
        "relhastriggers": False,
        "relhassubclass": False,
        "relrowsecurity": False,
        "relforcerowsecurity": False,
        "relispopulated": True,
        "relreplident": "d" if kind == "r" else "n",
        "relispartition": False,
        "relrewrite": 0,
        "relfrozenxid": 0,
        "relminmxid": 0,
        **more,
    }


def _owned(context: Context, one: Table | CatalogObject) -> dict[str, Any]:
    whose = owned_relation(context, one)
    return {"relowner": whose.oid, "relacl": whose.acl}


@always_in("pg_class")
def _builtin_classes() -> Rows:
    for relation in relations().values():
        schema = SCHEMAS[relation.schema]
        yield _class(relation.oid, relation.name, schema, relation.kind, relnatts=len(relation.columns))


@rows_of("pg_catalog", "pg_class")
def _classes(context: Context) -> Rows:
    for table in tables(context.catalog):
        indexes = list(indexes_of(table))
        yield _class(
            table_oid(table),
            table.name,
            schema_oid(context.catalog, table.schema),
            "r",
            **_owned(context, table),
            relpersistence="t" if table.schema.startswith("pg_temp_") else "p",
            relnatts=len(table.visible),
            relchecks=len(table.checks),
            relhasindex=bool(indexes),
            relhastriggers=foreign_key_rows.has_triggers(context.catalog, table),
            relreplident="f" if table.identity_full else "d",
        )
        for index in indexes:
            schema = schema_oid(context.catalog, table.schema)
            owner = owned_relation(context, table).oid
            yield _class(index.oid, index.name, schema, "i", relnatts=len(index.parts), relowner=owner)
    for one, _definition in sequences(context.catalog):
        schema = schema_oid(context.catalog, one.schema)
        yield _class(one.oid, one.name, schema, "S", relnatts=3, **_owned(context, one))
    for one, view in views(context.catalog):
        schema = schema_oid(context.catalog, one.schema)
        yield _class(one.oid, one.name, schema, "v", relnatts=len(view.columns), **_owned(context, one))


@of_catalog("pg_depend")
@rows_of("pg_catalog", "pg_depend")
def _dependencies(context: Context) -> Rows:
    """Which column a sequence goes with; what else depends on what is known elsewhere."""
    by_id = {table.id: table for table in tables(context.catalog)}
    for one, what in sequences(context.catalog):
        owner = what.owner
        if owner is not None and owner[0] in by_id:
            yield {
                "classid": _RELATIONS, "objid": one.oid, "objsubid": 0, "refclassid": _RELATIONS,
                "refobjid": table_oid(by_id[owner[0]]), "refobjsubid": owner[1] + 1,
                "deptype": _INTERNAL if what.identity else _AUTOMATIC,
            }  # fmt: skip
