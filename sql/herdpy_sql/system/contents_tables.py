"""Rows about tables, columns, indexes and constraints: pg_class, pg_attribute, pg_index and so on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from herdpy_sql.system import definitions
from herdpy_sql.system.conditions import condition_text
from herdpy_sql.system.contents import (
    BTREE,
    HEAP,
    OWNER_OID,
    PUBLIC_OID,
    SCHEMAS,
    Context,
    Rows,
    rows_of,
)
from herdpy_sql.system.definitions import Relating, indexes_of, quote_ident, table_oid
from herdpy_sql.system.relation import relations
from herdpy_sql.system.types import by_oid, type_oid
from herdpy_sql.types import Base

if TYPE_CHECKING:
    from herdpy_sql.catalog import Catalog, Table
    from herdpy_sql.types import SqlType

_OPERATOR_CLASSES = {
    16: 10003, 17: 10006, 18: 10007, 19: 10028, 20: 3124, 21: 1979, 23: 1978, 25: 3126, 26: 1981, 700: 10012,
    701: 3123, 1042: 10004, 1043: 3126, 1082: 3122, 1083: 10038, 1114: 3128, 1184: 3127, 1186: 10022,
    1700: 3125, 2950: 10065,
}  # fmt: skip
_DESCENDING, _NULLS_FIRST = 1, 2


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


@rows_of("pg_catalog", "pg_class")
def _classes(context: Context) -> Rows:
    for table in tables(context.catalog):
        indexes = list(indexes_of(table))
        yield _class(
            table_oid(table),
            table.name,
            PUBLIC_OID,
            "r",
            relnatts=len(table.visible),
            relchecks=len(table.checks),
            relhasindex=bool(indexes),
            relreplident="f" if table.identity_full else "d",
        )
        for index in indexes:
            yield _class(index.oid, index.name, PUBLIC_OID, "i", relnatts=len(index.parts))
    for relation in relations().values():
        schema = SCHEMAS[relation.schema]
        yield _class(relation.oid, relation.name, schema, relation.kind, relnatts=len(relation.columns))


def _attribute(oid: int, number: int, name: str, type_id: int, typmod: int, **more: Any) -> dict[str, Any]:
    row = by_oid().get(type_id, by_oid()[25])
    return {
        "attrelid": oid,
        "attname": name,
        "atttypid": type_id,
        "attstattarget": -1,
        "attlen": int(row["typlen"]),
        "attnum": number,
        "attndims": 1 if row["typcategory"] == "A" else 0,
        "attcacheoff": -1,
        "atttypmod": typmod,
        "attbyval": row["typbyval"],
        "attalign": row["typalign"],
        "attstorage": row["typstorage"],
        "attcompression": "",
        "attnotnull": False,
        "atthasdef": False,
        "atthasmissing": False,
        "attidentity": "",
        "attgenerated": "",
        "attisdropped": False,
        "attislocal": True,
        "attinhcount": 0,
        "attcollation": row["typcollation"],
        **more,
    }


@rows_of("pg_catalog", "pg_attribute")
def _attributes(context: Context) -> Rows:
    for table in tables(context.catalog):
        oid = table_oid(table)
        for position, column in enumerate(table.columns):
            if column.hidden:
                continue
            if column.dropped:
                name = f"........pg.dropped.{position + 1}........"
                yield _attribute(oid, position + 1, name, 0, -1, attisdropped=True)
                continue
            yield _attribute(
                oid,
                position + 1,
                column.name,
                column.type.oid,
                column.type.typmod,
                attnotnull=column.not_null,
                atthasdef=column.default is not None,
            )
        for index in indexes_of(table):
            for number, part in enumerate(index.parts, 1):
                column = table.columns[part.position]
                yield _attribute(index.oid, number, column.name, column.type.oid, column.type.typmod)
    for relation in relations().values():
        for number, (name, type_) in enumerate(relation.columns, 1):
            yield _attribute(relation.oid, number, name, type_oid(type_) or 25, -1)


@rows_of("pg_catalog", "pg_index")
def _indexes(context: Context) -> Rows:
    for table in tables(context.catalog):
        for index in indexes_of(table):
            types = [table.columns[part.position].type for part in index.parts]
            yield {
                "indexrelid": index.oid,
                "indrelid": table_oid(table),
                "indnatts": len(index.parts),
                "indnkeyatts": len(index.parts),
                "indisunique": index.unique,
                "indnullsnotdistinct": False,
                "indisprimary": index.primary,
                "indisexclusion": False,
                "indimmediate": True,
                "indisclustered": False,
                "indisvalid": True,
                "indcheckxmin": False,
                "indisready": True,
                "indislive": True,
                "indisreplident": False,
                "indkey": [part.position + 1 for part in index.parts],
                "indcollation": [by_oid()[t.oid]["typcollation"] for t in types],
                "indclass": [_OPERATOR_CLASSES.get(t.oid, 0) for t in types],
                "indoption": [
                    part.descending * _DESCENDING + part.nulls_first * _NULLS_FIRST for part in index.parts
                ],
            }


def _constraint(table: Table, oid: int, name: str, kind: str, **more: Any) -> dict[str, Any]:
    return {
        "oid": oid,
        "conname": name,
        "connamespace": PUBLIC_OID,
        "contype": kind,
        "condeferrable": False,
        "condeferred": False,
        "convalidated": True,
        "conrelid": table_oid(table),
        "contypid": 0,
        "conindid": 0,
        "conparentid": 0,
        "confrelid": 0,
        "confupdtype": " ",
        "confdeltype": " ",
        "confmatchtype": " ",
        "conislocal": True,
        "coninhcount": 0,
        "connoinherit": kind != "c",
        **more,
    }


def constraint_indexes(table: Table) -> list[Relating]:
    """The indexes that serve a constraint: the key and UNIQUE ones."""
    return [index for index in indexes_of(table) if index.constraint]


@rows_of("pg_catalog", "pg_constraint")
def _constraints(context: Context) -> Rows:
    for table in tables(context.catalog):
        for index in constraint_indexes(table):
            yield _constraint(
                table,
                definitions.constraint_oid(index),
                index.name,
                "p" if index.primary else "u",
                conindid=index.oid,
                conkey=[part.position + 1 for part in index.parts],
            )
        for number, check in enumerate(table.checks):
            yield _constraint(
                table, definitions.check_oid(table, number), check.name, "c", conbin=check.condition
            )


@rows_of("pg_catalog", "pg_attrdef")
def _defaults(context: Context) -> Rows:
    for table in tables(context.catalog):
        for position in table.visible:
            column = table.columns[position]
            if column.default is not None:
                yield {
                    "oid": definitions.default_oid(table, position),
                    "adrelid": table_oid(table),
                    "adnum": position + 1,
                    "adbin": definitions.default_text(column),
                }


@rows_of("pg_catalog", "pg_tables")
def _table_view(context: Context) -> Rows:
    flags = {"hasrules": False, "hastriggers": False, "rowsecurity": False}
    owner = context.state.user
    for table in tables(context.catalog):
        indexed = any(True for _ in indexes_of(table))
        yield {
            "schemaname": "public", "tablename": table.name, "tableowner": owner,
            "hasindexes": indexed, **flags,
        }  # fmt: skip
    for relation in relations().values():
        if relation.kind == "r":
            yield {
                "schemaname": relation.schema, "tablename": relation.name, "tableowner": owner,
                "hasindexes": False, **flags,
            }  # fmt: skip


@rows_of("pg_catalog", "pg_views")
def _view_view(context: Context) -> Rows:
    for relation in relations().values():
        if relation.kind == "v":
            yield {
                "schemaname": relation.schema, "viewname": relation.name, "viewowner": context.state.user,
            }  # fmt: skip


@rows_of("pg_catalog", "pg_indexes")
def _index_view(context: Context) -> Rows:
    for table in tables(context.catalog):
        for index in indexes_of(table):
            yield {
                "schemaname": "public",
                "tablename": table.name,
                "indexname": index.name,
                "indexdef": definitions.index_text(index, schema=True),
            }


@rows_of("pg_catalog", "pg_stat_user_tables", "pg_stat_all_tables", "pg_statio_user_tables")
def _table_statistics(context: Context) -> Rows:
    for table in tables(context.catalog):
        yield {"relid": table_oid(table), "schemaname": "public", "relname": table.name}


@rows_of("pg_catalog", "pg_stat_user_indexes")
def _index_statistics(context: Context) -> Rows:
    for table in tables(context.catalog):
        for index in indexes_of(table):
            yield {
                "relid": table_oid(table), "indexrelid": index.oid, "schemaname": "public",
                "relname": table.name, "indexrelname": index.name,
            }  # fmt: skip


def index_definitions(catalog: Catalog) -> Iterator[tuple[int, int, str, str]]:
    """(index, column or 0 for all, text, text without the schema) for pg_get_indexdef."""
    for table in tables(catalog):
        for index in indexes_of(table):
            full = definitions.index_text(index, schema=True)
            yield index.oid, 0, full, definitions.index_text(index, schema=False)
            for number, part in enumerate(index.parts, 1):
                name = quote_ident(table.columns[part.position].name)
                yield index.oid, number, name, name


def constraint_definitions(catalog: Catalog) -> Iterator[tuple[int, str, str]]:
    """(constraint, text, pretty text) for pg_get_constraintdef."""
    for table in tables(catalog):
        for index in constraint_indexes(table):
            text = definitions.constraint_text(index)
            yield definitions.constraint_oid(index), text, text
        for number, check in enumerate(table.checks):
            oid = definitions.check_oid(table, number)
            plain = condition_text(table, check.condition, pretty=False) or f"({check.condition})"
            pretty = condition_text(table, check.condition, pretty=True) or check.condition
            yield oid, f"CHECK ({plain})", f"CHECK ({pretty})"


def udt_name(sql_type: SqlType) -> str:
    """The internal name of a type: "int4"."""
    return str(by_oid()[sql_type.oid]["typname"]) if sql_type.base is not Base.UNKNOWN else "text"
