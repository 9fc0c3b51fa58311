"""Rows about tables, columns, indexes and constraints: pg_class, pg_attribute, pg_index and so on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from herdpy_sql.objects import SYSTEM
from herdpy_sql.plan.views import view_text
from herdpy_sql.system import definitions, foreign_key_rows
from herdpy_sql.system.conditions import condition_text, expression_text
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
from herdpy_sql.system.contents_objects import schema_oid, sequences, shown_default, views
from herdpy_sql.system.contents_rights import owned_relation
from herdpy_sql.system.contents_types import type_names
from herdpy_sql.system.definitions import Relating, indexes_of, table_oid
from herdpy_sql.system.relation import relations
from herdpy_sql.system.types import by_oid, type_oid
from herdpy_sql.types import VECTOR, Base, array_of

if TYPE_CHECKING:
    from herdpy_sql.catalog import Catalog, Table
    from herdpy_sql.objects import CatalogObject
    from herdpy_sql.types import SqlType

_OPERATOR_CLASSES = {
    16: 10003, 17: 10006, 18: 10007, 19: 10028, 20: 3124, 21: 1979, 23: 1978, 25: 3126, 26: 1981, 700: 10012,
    701: 3123, 1042: 10004, 1043: 3126, 1082: 3122, 1083: 10038, 1114: 3128, 1184: 3127, 1186: 10022,
    1700: 3125, 2950: 10065,
}  # fmt: skip
_DESCENDING, _NULLS_FIRST = 1, 2
_CALL = re.compile(r"([a-z_]\w*)\(")
_MODIFIERS = re.compile(r"\((\d+)(?:,(-?\d+))?\)")
_ENUM_ARRAYS = 1 << 30
"""Object ids from here on are those of arrays of ENUMs."""
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


def _modifier(shown: str) -> int:
    """The modifier of a type as format_type shows it: "numeric(8,2)", "character varying(10)"."""
    found = _MODIFIERS.search(shown)
    if found is None or shown.endswith("]"):
        return -1
    if found[2] is not None:
        return (int(found[1]) << 16 | int(found[2])) + 4
    return int(found[1]) + (4 if shown.startswith("character") else 0)


def _own_type(type_id: int) -> Mapping[str, Any]:
    """How values of a type are kept that is not PostgreSQL's own: of an ENUM, or of any length."""
    is_array = type_id in (array_of(VECTOR).oid, 0) or type_id >= _ENUM_ARRAYS
    if is_array or type_id == VECTOR.oid:
        return {**by_oid()[1009], "typcategory": "A" if is_array else "U", "typcollation": 0}
    return {**by_oid()[23], "typcategory": "E"}


def _attribute(oid: int, number: int, name: str, type_id: int, typmod: int, **more: Any) -> dict[str, Any]:
    row = by_oid().get(type_id) or _own_type(type_id)
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
        "attcollation": row["typcollation"] if type_id in by_oid() else 0,
        **more,
    }


@always_in("pg_attribute")
def _builtin_attributes() -> Rows:
    for relation in relations().values():
        for number, (name, type_) in enumerate(relation.columns, 1):
            yield _attribute(relation.oid, number, name, type_oid(type_) or 25, -1)


@of_catalog("pg_attribute")
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
                atthasdef=(column.default is not None and not column.identity)
                or column.generated is not None,
                attidentity={"ALWAYS": "a", "BY DEFAULT": "d"}.get(column.identity, ""),
                attgenerated="s" if column.generated is not None else "",
            )
        for index in indexes_of(table):
            unnamed = 0
            for number, part in enumerate(index.parts, 1):
                column = table.columns[part.position]
                name = column.name
                if column.hidden:
                    call = _CALL.match(definitions.key_text(table, part.position))
                    name = call[1] if call else f"expr{unnamed or ''}"
                    unnamed += call is None
                yield _attribute(index.oid, number, name, column.type.oid, column.type.typmod)
    own = {name: oid for oid, name in type_names(context)}
    for one, view in views(context.catalog):
        for number, (name, type_) in enumerate(view.columns, 1):
            oid, modifier = own.get(type_.partition("(")[0], 0), -1
            if not oid:
                oid, modifier = type_oid(type_) or 25, _modifier(type_)
            yield _attribute(one.oid, number, name, oid, modifier)


@of_catalog("pg_index")
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
                "indkey": [
                    0 if table.columns[part.position].hidden else part.position + 1 for part in index.parts
                ],
                "indexprs": ", ".join(
                    definitions.key_text(table, part.position)
                    for part in index.parts
                    if table.columns[part.position].hidden
                )
                or None,
                "indpred": definitions.predicate_text(index),
                "indcollation": [by_oid()[t.oid]["typcollation"] for t in types],
                "indclass": [_OPERATOR_CLASSES.get(t.oid, 0) for t in types],
                "indoption": [
                    part.descending * _DESCENDING + part.nulls_first * _NULLS_FIRST for part in index.parts
                ],
            }


def _constraint(
    catalog: Catalog, table: Table, oid: int, name: str, kind: str, **more: Any
) -> dict[str, Any]:
    return {
        "oid": oid,
        "conname": name,
        "connamespace": schema_oid(catalog, table.schema),
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


@of_catalog("pg_constraint")
@rows_of("pg_catalog", "pg_constraint")
def _constraints(context: Context) -> Rows:
    for table in tables(context.catalog):
        for index in constraint_indexes(table):
            yield _constraint(
                context.catalog,
                table,
                definitions.constraint_oid(index),
                index.name,
                "p" if index.primary else "u",
                conindid=index.oid,
                conkey=[part.position + 1 for part in index.parts],
            )
        for number, check in enumerate(table.checks):
            yield _constraint(
                context.catalog,
                table, definitions.check_oid(table, number), check.name, "c", conbin=check.condition,
                convalidated=check.validated, conkey=definitions.check_columns(table, check),
            )  # fmt: skip
    for oid, table, one, parent in foreign_key_rows.foreign_keys(context.catalog):
        yield _constraint(
            context.catalog, table, oid, one.name, "f", **foreign_key_rows.constraint_columns(one, parent)
        )


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


@of_catalog("pg_attrdef")
@rows_of("pg_catalog", "pg_attrdef")
def _defaults(context: Context) -> Rows:
    for table in tables(context.catalog):
        for position in table.visible:
            column = table.columns[position]
            if column.default is not None and not column.identity:
                yield {
                    "oid": definitions.default_oid(table, position),
                    "adrelid": table_oid(table),
                    "adnum": position + 1,
                    "adbin": shown_default(context.catalog, definitions.default_text(column)),
                }
            elif column.generated is not None:
                yield {
                    "oid": definitions.default_oid(table, position),
                    "adrelid": table_oid(table),
                    "adnum": position + 1,
                    "adbin": expression_text(table, column.generated),
                }


@rows_of("pg_catalog", "pg_tables")
def _table_view(context: Context) -> Rows:
    flags = {"hasrules": False, "hastriggers": False, "rowsecurity": False}
    owner = context.role_names().get(SYSTEM, SYSTEM)
    for table in tables(context.catalog):
        whose = owned_relation(context, table).name
        indexed = any(True for _ in indexes_of(table))
        yield {
            "schemaname": table.schema, "tablename": table.name, "tableowner": whose,
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
    for one, _definition in views(context.catalog):
        yield {
            "schemaname": one.schema, "viewname": one.name, "viewowner": owned_relation(context, one).name,
            "definition": view_text(one, context.catalog) + ";",
        }  # fmt: skip
    owner = context.role_names().get(SYSTEM, SYSTEM)
    for relation in relations().values():
        if relation.kind == "v":
            yield {
                "schemaname": relation.schema, "viewname": relation.name, "viewowner": owner,
            }  # fmt: skip


@rows_of("pg_catalog", "pg_indexes")
def _index_view(context: Context) -> Rows:
    for table in tables(context.catalog):
        for index in indexes_of(table):
            yield {
                "schemaname": table.schema,
                "tablename": table.name,
                "indexname": index.name,
                "indexdef": definitions.index_text(index, schema=True),
            }


@rows_of("pg_catalog", "pg_stat_user_tables", "pg_stat_all_tables", "pg_statio_user_tables")
def _table_statistics(context: Context) -> Rows:
    for table in tables(context.catalog):
        yield {"relid": table_oid(table), "schemaname": table.schema, "relname": table.name}


@rows_of("pg_catalog", "pg_stat_user_indexes")
def _index_statistics(context: Context) -> Rows:
    for table in tables(context.catalog):
        for index in indexes_of(table):
            yield {
                "relid": table_oid(table), "indexrelid": index.oid, "schemaname": table.schema,
                "relname": table.name, "indexrelname": index.name,
            }  # fmt: skip


def index_definitions(catalog: Catalog) -> Iterator[tuple[int, int, str, str]]:
    """(index, column or 0 for all, text, text without the schema) for pg_get_indexdef."""
    for table in tables(catalog):
        for index in indexes_of(table):
            full = definitions.index_text(index, schema=True)
            yield index.oid, 0, full, definitions.index_text(index, schema=False)
            for number, part in enumerate(index.parts, 1):
                name = definitions.key_text(table, part.position)
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
            mark = "" if check.validated else " NOT VALID"
            yield oid, f"CHECK ({plain}){mark}", f"CHECK ({pretty}){mark}"
    for oid, table, one, parent in foreign_key_rows.foreign_keys(catalog):
        text = foreign_key_rows.definition(table, one, parent)
        yield oid, text, text


def udt_name(sql_type: SqlType) -> str:
    """The internal name of a type: "int4"."""
    if sql_type.base is Base.UNKNOWN:
        return "text"
    found = by_oid().get(sql_type.oid)
    if found is not None:
        return str(found["typname"])
    return f"_{sql_type.element_type.name}" if sql_type.element is not None else sql_type.name
