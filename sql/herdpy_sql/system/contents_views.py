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
from herdpy_sql.system_relations import relations

if TYPE_CHECKING:
    from herdpy_sql.objects import CatalogObject


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


_UNCOUNTED = dict.fromkeys(
    """seq_scan seq_tup_read idx_scan idx_tup_fetch n_tup_ins n_tup_upd n_tup_del n_tup_hot_upd n_live_tup
    n_dead_tup n_mod_since_analyze n_ins_since_vacuum vacuum_count autovacuum_count analyze_count
    autoanalyze_count heap_blks_read heap_blks_hit idx_blks_read idx_blks_hit idx_tup_read""".split(),  # noqa: SIM905
    0,
)
"""What is not counted by table. Clients add these up, and would have NULL of one that was missing."""


def rule_oid(view: CatalogObject) -> int:
    """The object id of the rule that a view is."""
    return (1 << 28) + view.oid


@rows_of("pg_catalog", "pg_rewrite")
def _rules(context: Context) -> Rows:
    """A view is a rule, says PostgreSQL."""
    for one, _definition in views(context.catalog):
        yield {
            "oid": rule_oid(one), "rulename": "_RETURN", "ev_class": one.oid, "ev_type": "1",
            "ev_enabled": "O", "is_instead": True,
        }  # fmt: skip


@rows_of(
    "pg_catalog", "pg_stat_user_tables", "pg_stat_all_tables", "pg_statio_user_tables", "pg_statio_all_tables"
)
def _table_statistics(context: Context) -> Rows:
    for table in tables(context.catalog):
        yield {
            "relid": table_oid(table), "schemaname": table.schema, "relname": table.name, **_UNCOUNTED,
        }  # fmt: skip


@rows_of("pg_catalog", "pg_stat_user_indexes", "pg_stat_all_indexes", "pg_statio_user_indexes")
def _index_statistics(context: Context) -> Rows:
    for table in tables(context.catalog):
        for index in indexes_of(table):
            yield {
                "relid": table_oid(table), "indexrelid": index.oid, "schemaname": table.schema,
                "relname": table.name, "indexrelname": index.name, **_UNCOUNTED,
            }  # fmt: skip
