"""Rows of PostgreSQL's views over its own catalog: pg_tables, pg_views, pg_indexes, statistics of use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdpy_sql.objects import SYSTEM
from herdpy_sql.plan.views import view_text
from herdpy_sql.system import definitions
from herdpy_sql.system.contents import (
    Context,
    Rows,
    rows_of,
)
from herdpy_sql.system.contents_objects import views
from herdpy_sql.system.contents_rights import owned_relation
from herdpy_sql.system.contents_tables import tables
from herdpy_sql.system.definitions import indexes_of, table_oid
from herdpy_sql.system.relation import relations

if TYPE_CHECKING:
    pass


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
