"""Rows of information_schema, the SQL standard's view of the catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from herdpy_sql.system import definitions
from herdpy_sql.system.contents import Context, Rows, rows_of
from herdpy_sql.system.contents_tables import constraint_indexes, tables, udt_name
from herdpy_sql.system.relation import relations
from herdpy_sql.types import Base

if TYPE_CHECKING:
    from herdpy_sql.types import SqlType

INFORMATION = "information_schema"
_BITS = {Base.SMALLINT: 16, Base.INTEGER: 32, Base.BIGINT: 64, Base.REAL: 24, Base.DOUBLE: 53}
_WHOLE = frozenset({Base.SMALLINT, Base.INTEGER, Base.BIGINT})
_TIMES = frozenset({Base.TIME, Base.TIMESTAMP, Base.TIMESTAMPTZ})
_STRINGS = frozenset({Base.TEXT, Base.VARCHAR, Base.CHAR})
_UNLIMITED_OCTETS = 1 << 30


@rows_of(INFORMATION, "information_schema_catalog_name")
def _catalog_name(context: Context) -> Rows:
    return [{"catalog_name": context.state.database}]


@rows_of(INFORMATION, "schemata")
def _schemata(context: Context) -> Rows:
    for name in ("public", "information_schema", "pg_catalog", "herdpy"):
        yield {
            "catalog_name": context.state.database,
            "schema_name": name,
            "schema_owner": context.state.user,
        }


@rows_of(INFORMATION, "tables")
def _tables(context: Context) -> Rows:
    common = {"table_catalog": context.state.database, "is_typed": "NO"}
    for table in tables(context.catalog):
        yield {
            **common, "table_schema": "public", "table_name": table.name, "table_type": "BASE TABLE",
            "is_insertable_into": "YES",
        }  # fmt: skip
    for relation in relations().values():
        yield {
            **common, "table_schema": relation.schema, "table_name": relation.name,
            "table_type": "VIEW" if relation.kind == "v" else "BASE TABLE", "is_insertable_into": "NO",
        }  # fmt: skip


def _numeric(sql_type: SqlType) -> dict[str, Any]:
    if sql_type.base is Base.NUMERIC:
        scale = sql_type.scale if sql_type.precision is not None else None
        return {
            "numeric_precision": sql_type.precision, "numeric_precision_radix": 10, "numeric_scale": scale,
        }  # fmt: skip
    bits = _BITS.get(sql_type.base)
    if bits is None:
        return {}
    scale = 0 if sql_type.base in _WHOLE else None
    return {"numeric_precision": bits, "numeric_precision_radix": 2, "numeric_scale": scale}


def _octets(sql_type: SqlType) -> int | None:
    if sql_type.base not in _STRINGS:
        return None
    return 4 * sql_type.length if sql_type.length is not None else _UNLIMITED_OCTETS


@rows_of(INFORMATION, "columns")
def _columns(context: Context) -> Rows:
    database = context.state.database
    for table in tables(context.catalog):
        for position in table.visible:
            column = table.columns[position]
            yield {
                "table_catalog": database,
                "table_schema": "public",
                "table_name": table.name,
                "column_name": column.name,
                "ordinal_position": position + 1,
                "column_default": definitions.default_text(column),
                "is_nullable": "NO" if column.not_null else "YES",
                "data_type": column.type.base.value,
                "character_maximum_length": column.type.length,
                "character_octet_length": _octets(column.type),
                **_numeric(column.type),
                "datetime_precision": 6
                if column.type.base in _TIMES
                else 0
                if column.type.base is Base.DATE
                else None,
                "udt_catalog": database,
                "udt_schema": "pg_catalog",
                "udt_name": udt_name(column.type),
                "dtd_identifier": str(position + 1),
                "is_self_referencing": "NO",
                "is_identity": "NO",
                "identity_cycle": "NO",
                "is_generated": "NEVER",
                "is_updatable": "YES",
            }


def _constraint(context: Context, table: str, name: str) -> dict[str, Any]:
    return {
        "constraint_catalog": context.state.database,
        "constraint_schema": "public",
        "constraint_name": name,
        "table_catalog": context.state.database,
        "table_schema": "public",
        "table_name": table,
    }


@rows_of(INFORMATION, "table_constraints")
def _table_constraints(context: Context) -> Rows:
    flags = {"is_deferrable": "NO", "initially_deferred": "NO", "enforced": "YES", "nulls_distinct": None}
    for table in tables(context.catalog):
        for index in constraint_indexes(table):
            kind = "PRIMARY KEY" if index.primary else "UNIQUE"
            nulls = None if index.primary else "YES"
            yield {
                **_constraint(context, table.name, index.name), "constraint_type": kind, **flags,
                "nulls_distinct": nulls,
            }  # fmt: skip
        for check in table.checks:
            yield {**_constraint(context, table.name, check.name), "constraint_type": "CHECK", **flags}
        for number, column in enumerate(table.columns, 1):
            if column.visible and column.not_null:
                name = f"2200_{definitions.table_oid(table)}_{number}_not_null"
                yield {**_constraint(context, table.name, name), "constraint_type": "CHECK", **flags}


@rows_of(INFORMATION, "key_column_usage", "constraint_column_usage")
def _key_columns(context: Context) -> Rows:
    for table in tables(context.catalog):
        for index in constraint_indexes(table):
            for place, part in enumerate(index.parts, 1):
                yield {
                    **_constraint(context, table.name, index.name),
                    "column_name": table.columns[part.position].name,
                    "ordinal_position": place,
                }


@rows_of(INFORMATION, "constraint_table_usage")
def _constraint_tables(context: Context) -> Rows:
    for table in tables(context.catalog):
        for index in constraint_indexes(table):
            yield _constraint(context, table.name, index.name)


@rows_of(INFORMATION, "check_constraints")
def _checks(context: Context) -> Rows:
    for table in tables(context.catalog):
        for check in table.checks:
            yield {**_constraint(context, table.name, check.name), "check_clause": f"(({check.condition}))"}
        for number, column in enumerate(table.columns, 1):
            if column.visible and column.not_null:
                name = f"2200_{definitions.table_oid(table)}_{number}_not_null"
                yield {**_constraint(context, table.name, name), "check_clause": f"{column.name} IS NOT NULL"}


@rows_of(INFORMATION, "character_sets")
def _character_sets(context: Context) -> Rows:
    yield {
        "character_set_name": "UTF8",
        "character_repertoire": "UCS",
        "form_of_use": "UTF8",
        "default_collate_catalog": context.state.database,
    }


@rows_of(INFORMATION, "enabled_roles", "applicable_roles")
def _enabled_roles(context: Context) -> Rows:
    for role in context.state.roles():
        yield {"role_name": role.name, "grantee": role.name, "is_grantable": "NO"}
