"""Rows of information_schema, the SQL standard's view of the catalog."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from herdpy_sql.plan.views import is_updatable, view_text
from herdpy_sql.rights.acl import PUBLIC, split
from herdpy_sql.rights.held import acl_of, owner_of, subject_of
from herdpy_sql.rights.privileges import NAMES
from herdpy_sql.sequences import definition_of, owned_by
from herdpy_sql.system import definitions
from herdpy_sql.system.classes import constraint_indexes, shown_default, tables, udt_name
from herdpy_sql.system.conditions import expression_text
from herdpy_sql.system.contents import Context, Rows, rows_of, schema_oid, sequences, user_schemas, views
from herdpy_sql.system.ownership import owned_schema, users_relations
from herdpy_sql.system.state import keys_of
from herdpy_sql.system.types import by_oid, own_type, type_oid
from herdpy_sql.system_relations import relations
from herdpy_sql.types import BITS, MOMENTS, Base, SqlType
from herdpy_sql.values.precision import MAX_DIGITS

if TYPE_CHECKING:
    from herdpy_sql.catalog import Catalog, Table
    from herdpy_sql.types import SqlType


INFORMATION = "information_schema"
_DIGITS = {"smallint": 16, "integer": 32, "bigint": 64}
_BITS = {Base.SMALLINT: 16, Base.INTEGER: 32, Base.BIGINT: 64, Base.REAL: 24, Base.DOUBLE: 53}
_WHOLE = frozenset({Base.SMALLINT, Base.INTEGER, Base.BIGINT})


def _schema_of(sql_type: SqlType) -> str:
    return (
        sql_type.enum.schema
        if sql_type.enum is not None
        else "public"
        if _is_users(sql_type)
        else "pg_catalog"
    )


_STRINGS = frozenset({Base.TEXT, Base.VARCHAR, Base.CHAR})
_UNLIMITED_OCTETS = 1 << 30


@rows_of(INFORMATION, "information_schema_catalog_name")
def _catalog_name(context: Context) -> Rows:
    return [{"catalog_name": context.state.database}]


@rows_of(INFORMATION, "schemata")
def _schemata(context: Context) -> Rows:
    for name in (*user_schemas(context.catalog), "information_schema", "pg_catalog", "herdpy"):
        yield {
            "catalog_name": context.state.database,
            "schema_name": name,
            "schema_owner": owned_schema(context, name).name,
        }


@rows_of(INFORMATION, "tables")
def _tables(context: Context) -> Rows:
    common = {"table_catalog": context.state.database, "is_typed": "NO"}
    for table in tables(context.catalog):
        yield {
            **common, "table_schema": table.schema, "table_name": table.name,
            "table_type": "LOCAL TEMPORARY" if table.is_temporary else "BASE TABLE",
            "is_insertable_into": "YES",
        }  # fmt: skip
    for one, _definition in views(context.catalog):
        yield {
            **common, "table_schema": one.schema, "table_name": one.name, "table_type": "VIEW",
            "is_insertable_into": "YES" if is_updatable(one, context.catalog) else "NO",
        }  # fmt: skip
    for relation in relations().values():
        yield {
            **common, "table_schema": relation.schema, "table_name": relation.name,
            "table_type": "VIEW" if relation.kind == "v" else "BASE TABLE", "is_insertable_into": "NO",
        }  # fmt: skip


_STRINGS = frozenset({Base.VARCHAR, Base.CHAR})


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
    if sql_type.base not in _STRINGS | {Base.TEXT}:
        return None
    return 4 * sql_type.length if sql_type.length is not None else _UNLIMITED_OCTETS


def _digits_of_seconds(sql_type: SqlType) -> int | None:
    if sql_type.base is Base.DATE:
        return 0
    if sql_type.base not in MOMENTS and sql_type.base is not Base.INTERVAL:
        return None
    return MAX_DIGITS if sql_type.precision is None else sql_type.precision


def _interval_fields(sql_type: SqlType) -> str | None:
    """As PostgreSQL's _pg_interval_type: ``DAY TO SECOND(3)``."""
    if sql_type.base is not Base.INTERVAL or sql_type.length is None:
        return None
    return str(sql_type).partition(" ")[2].upper()


@rows_of(INFORMATION, "columns")
def _columns(context: Context) -> Rows:
    yield from _view_columns(context)
    database = context.state.database
    for table in tables(context.catalog):
        for position in table.visible:
            column = table.columns[position]
            yield {
                "table_catalog": database,
                "table_schema": table.schema,
                "table_name": table.name,
                "column_name": column.name,
                "ordinal_position": position + 1,
                "column_default": None
                if column.identity
                else shown_default(context.catalog, definitions.default_text(column)),
                "is_nullable": "NO" if column.not_null else "YES",
                "data_type": _data_type(column.type),
                "character_maximum_length": column.type.length
                if column.type.base in _STRINGS | BITS
                else None,
                "character_octet_length": _octets(column.type),
                **_numeric(column.type),
                "datetime_precision": _digits_of_seconds(column.type),
                "interval_type": _interval_fields(column.type),
                "udt_catalog": database,
                "udt_schema": _schema_of(column.type),
                "udt_name": udt_name(column.type),
                "dtd_identifier": str(position + 1),
                "is_self_referencing": "NO",
                **_identity(context, table, position),
                "is_generated": "NEVER" if column.generated is None else "ALWAYS",
                "generation_expression": None
                if column.generated is None
                else expression_text(table, column.generated),
                "is_updatable": "YES",
            }


def _named_type(catalog: Catalog, shown: str) -> dict[str, Any]:
    """A type as format_type shows it, as columns have it here."""
    name, modifiers = shown.partition("(")[0], re.findall(r"\d+", shown.partition("(")[2])
    row = by_oid().get(type_oid(shown) or 0)
    if row is None:
        own = own_type(catalog, name)
        return {
            "data_type": "USER-DEFINED" if own is None or not own["typelem"] else "ARRAY",
            "udt_schema": "pg_catalog" if own is None else own["schema"],
            "udt_name": name if own is None else own["typname"],
        }
    found: dict[str, Any] = {"udt_schema": "pg_catalog", "udt_name": row["typname"]}
    found["data_type"] = "ARRAY" if row["typcategory"] == "A" else name
    given = next((base for base in _BITS if base.value == name), None)
    if given is not None:
        scale = 0 if given in _WHOLE else None
        found |= {"numeric_precision": _BITS[given], "numeric_precision_radix": 2, "numeric_scale": scale}
    elif name == "numeric" and modifiers:
        precision, scale = (*map(int, modifiers), 0)[:2]
        found |= {"numeric_precision": precision, "numeric_precision_radix": 10, "numeric_scale": scale}
    elif name.startswith(("character", "bit")) and modifiers:
        found["character_maximum_length"] = int(modifiers[0])
    return found


def _view_columns(context: Context) -> Rows:
    for one, view in views(context.catalog):
        changed = "YES" if is_updatable(one, context.catalog) else "NO"
        for number, (name, type_) in enumerate(view.columns, 1):
            yield {
                "table_catalog": context.state.database, "table_schema": one.schema,
                "table_name": one.name, "column_name": name, "ordinal_position": number,
                "is_nullable": "YES", "is_identity": "NO", "udt_catalog": context.state.database,
                **_named_type(context.catalog, type_),
                "dtd_identifier": str(number), "is_self_referencing": "NO", "identity_cycle": "NO",
                "is_generated": "NEVER", "is_updatable": changed,
            }  # fmt: skip


def _identity(context: Context, table: Table, position: int) -> dict[str, Any]:
    column = table.columns[position]
    if not column.identity:
        return {"is_identity": "NO", "identity_cycle": "NO"}
    (one,) = owned_by(context.catalog, table, position)
    what = definition_of(one)
    return {
        "is_identity": "YES", "identity_generation": column.identity, "identity_start": str(what.start),
        "identity_increment": str(what.increment), "identity_maximum": str(what.maximum),
        "identity_minimum": str(what.minimum), "identity_cycle": "YES" if what.cycle else "NO",
    }  # fmt: skip


def _constraint(context: Context, table: Table, name: str) -> dict[str, Any]:
    return {
        "constraint_catalog": context.state.database,
        "constraint_schema": table.schema,
        "constraint_name": name,
        "table_catalog": context.state.database,
        "table_schema": table.schema,
        "table_name": table.name,
    }


@rows_of(INFORMATION, "table_constraints")
def _table_constraints(context: Context) -> Rows:
    flags = {"is_deferrable": "NO", "initially_deferred": "NO", "enforced": "YES", "nulls_distinct": None}
    for table in tables(context.catalog):
        for index in constraint_indexes(table):
            kind = "PRIMARY KEY" if index.primary else "UNIQUE"
            nulls = None if index.primary else "YES"
            yield {
                **_constraint(context, table, index.name), "constraint_type": kind, **flags,
                "is_deferrable": "YES" if index.deferrable else "NO",
                "initially_deferred": "YES" if index.deferred else "NO",
                "nulls_distinct": nulls,
            }  # fmt: skip
        for check in table.checks:
            yield {**_constraint(context, table, check.name), "constraint_type": "CHECK", **flags}
        for number, column in enumerate(table.columns, 1):
            if column.visible and column.not_null:
                schema = schema_oid(context.catalog, table.schema)
                name = f"{schema}_{definitions.table_oid(table)}_{number}_not_null"
                yield {**_constraint(context, table, name), "constraint_type": "CHECK", **flags}
    for _, table, one, _ in definitions.foreign_keys(context.catalog):
        yield {**_constraint(context, table, one.name), **definitions.table_constraint(one)}


@rows_of(INFORMATION, "key_column_usage")
def _key_columns(context: Context) -> Rows:
    for table in tables(context.catalog):
        for index in constraint_indexes(table):
            for place, part in enumerate(index.parts, 1):
                yield {
                    **_constraint(context, table, index.name),
                    "column_name": table.columns[part.position].name,
                    "ordinal_position": place,
                }
    for _, table, one, parent in definitions.foreign_keys(context.catalog):
        for row in definitions.foreign_key_columns(table, one, parent):
            yield {**_constraint(context, table, one.name), **row}


@rows_of(INFORMATION, "constraint_column_usage")
def _columns_used(context: Context) -> Rows:
    for table in tables(context.catalog):
        for index in constraint_indexes(table):
            for part in index.parts:
                name = table.columns[part.position].name
                yield {**_constraint(context, table, index.name), "column_name": name}
        for check in table.checks:
            for number in definitions.check_columns(table, check):
                name = table.columns[number - 1].name
                yield {**_constraint(context, table, check.name), "column_name": name}
    for _, _, one, parent in definitions.foreign_keys(context.catalog):
        for position in one.referenced:
            name = parent.columns[position].name
            yield {**_constraint(context, parent, one.name), "column_name": name}


@rows_of(INFORMATION, "referential_constraints")
def _rules(context: Context) -> Rows:
    for _, table, one, parent in definitions.foreign_keys(context.catalog):
        row = definitions.foreign_key_rules(one, parent, context.state.database)
        yield {**_constraint(context, table, one.name), **row}


@rows_of(INFORMATION, "constraint_table_usage")
def _constraint_tables(context: Context) -> Rows:
    for table in tables(context.catalog):
        for index in constraint_indexes(table):
            yield _constraint(context, table, index.name)
    for _, _, one, parent in definitions.foreign_keys(context.catalog):
        yield _constraint(context, parent, one.name)


@rows_of(INFORMATION, "check_constraints")
def _checks(context: Context) -> Rows:
    for table in tables(context.catalog):
        for check in table.checks:
            yield {**_constraint(context, table, check.name), "check_clause": f"(({check.condition}))"}
        for number, column in enumerate(table.columns, 1):
            if column.visible and column.not_null:
                schema = schema_oid(context.catalog, table.schema)
                name = f"{schema}_{definitions.table_oid(table)}_{number}_not_null"
                yield {**_constraint(context, table, name), "check_clause": f"{column.name} IS NOT NULL"}


@rows_of(INFORMATION, "character_sets")
def _character_sets(context: Context) -> Rows:
    yield {
        "character_set_name": "UTF8",
        "character_repertoire": "UCS",
        "form_of_use": "UTF8",
        "default_collate_catalog": context.state.database,
    }


def _is_users(sql_type: SqlType) -> bool:
    return sql_type.enum is not None or Base.VECTOR in (sql_type.base, sql_type.element)


def _data_type(sql_type: SqlType) -> str:
    if sql_type.base is Base.ARRAY:
        return "ARRAY"
    return "USER-DEFINED" if _is_users(sql_type) else sql_type.base.value


@rows_of("information_schema", "sequences")
def _standard_sequences(context: Context) -> Rows:
    for one, what in sequences(context.catalog):
        if not what.identity:
            yield {
                "sequence_catalog": context.state.database, "sequence_schema": one.schema,
                "sequence_name": one.name, "data_type": what.type,
                "numeric_precision": _DIGITS[what.type], "numeric_precision_radix": 2, "numeric_scale": 0,
                "start_value": str(what.start),
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


@rows_of(INFORMATION, "table_privileges", "role_table_grants")
def _grants(context: Context) -> Rows:
    names = context.role_names()
    own = keys_of(context.state, context.state.user)
    for one in users_relations(context):
        subject = subject_of(one)
        if subject.kind not in {"table", "view"}:
            continue
        owner = owner_of(context.catalog, subject)
        for to, by, letters in acl_of(context.catalog, subject):
            if own is not None and to != PUBLIC and not own & {to, by}:
                continue
            plain, options = split(letters)
            for letter in plain:
                yield {
                    "grantor": names.get(by, by),
                    "grantee": names.get(to, to) if to else "PUBLIC",
                    "table_catalog": context.state.database,
                    "table_schema": one.schema,
                    "table_name": one.name,
                    "privilege_type": NAMES[letter],
                    "is_grantable": "YES" if letter in options or to == owner else "NO",
                    "with_hierarchy": "YES" if letter == "r" else "NO",
                }


@rows_of(INFORMATION, "enabled_roles", "applicable_roles")
def _enabled(context: Context) -> Rows:
    by_key = {role.key: role for role in context.state.roles()}
    own = keys_of(context.state, context.state.user)
    for role in by_key.values():
        if own is None or role.key in own:
            yield {"role_name": role.name, "grantee": context.state.user, "is_grantable": "NO"}
