"""Rows of schema herdpy: what is here, and in the cluster, in words of our own."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from herdpy_sql.quoting import quote_ident
from herdpy_sql.system.classes import tables
from herdpy_sql.system.contents import Context, Rows, rows_of
from herdpy_sql.system.definitions import default_text, index_text, indexes_of, key_text, table_oid
from herdpy_sql.system.server import moment, seen_statements
from herdpy_sql.system_relations import HERDPY, relations

SERVER_FACTS = (
    "tablespaces",
    "replicas",
    "nodes",
    "ledgers",
    "bookies",
    "log_status",
    "limits",
    "flashback",
    "archive",
    "backups",
)
"""What ``ServerState.facts`` is asked for."""


@rows_of(HERDPY, "tables")
def _tables(context: Context) -> Rows:
    for table in tables(context.catalog):
        names = [quote_ident(table.columns[part.position].name) for part in table.key]
        yield {
            "name": table.name,
            "table_oid": table_oid(table),
            "columns": len(table.visible),
            "key": None if table.has_hidden_key else ", ".join(names),
            "indexes": sum(1 for _ in indexes_of(table)),
            "checks": len(table.checks),
            "schema_name": table.schema,
        }


@rows_of(HERDPY, "columns")
def _columns(context: Context) -> Rows:
    for table in tables(context.catalog):
        key = {part.position: number for number, part in enumerate(table.key, 1)}
        for number, position in enumerate(table.visible, 1):
            column = table.columns[position]
            yield {
                "table_name": table.name,
                "position": number,
                "name": column.name,
                "type": str(column.type),
                "not_null": column.not_null,
                "default_value": default_text(column),
                "key_position": key.get(position),
                "schema_name": table.schema,
            }


@rows_of(HERDPY, "indexes")
def _indexes(context: Context) -> Rows:
    for table in tables(context.catalog):
        for index in indexes_of(table):
            yield {
                "table_name": table.name,
                "name": index.name,
                "columns": ", ".join(key_text(table, part.position) for part in index.parts),
                "is_unique": index.unique,
                "is_key": index.primary,
                "definition": index_text(index, schema=True),
                "schema_name": table.schema,
            }


@rows_of(HERDPY, "sessions")
def _sessions(context: Context) -> Rows:
    for one in context.activity():
        yield {
            "pid": one.pid,
            "tablespace": one.database or context.state.database,
            "user_name": one.user,
            "application_name": one.application_name,
            "client_address": one.client_address,
            "client_port": one.client_port,
            "state": one.state,
            "query": one.query,
            "waits_for": one.wait_event_type,
            "wait_event": one.wait_event,
            "started": moment(one.backend_start_us),
            "transaction_started": moment(one.transaction_start_us),
            "query_started": moment(one.query_start_us),
        }


@rows_of(HERDPY, "transactions")
def _transactions(context: Context) -> Rows:
    now_us = time.time_ns() // 1000
    for one in context.activity():
        if one.transaction_start_us is not None:
            yield {
                "pid": one.pid,
                "tablespace": one.database or context.state.database,
                "user_name": one.user,
                "state": one.state,
                "started": moment(one.transaction_start_us),
                "age_s": max(now_us - one.transaction_start_us, 0) / 1e6,
                "changes": one.changes,
                "waits_for": one.wait_event_type,
            }


@rows_of(HERDPY, "settings")
def _settings(context: Context) -> Rows:
    for scope, rows in (("session", context.state.settings()), ("server", context.state.server_settings())):
        for row in sorted(rows, key=lambda row: row.name):
            yield {
                "scope": scope,
                "name": row.name,
                "value": row.value,
                "default_value": row.default,
                "description": row.description,
                "is_changeable": row.context != "internal",
            }


def _fact_rows(name: str, context: Context) -> Rows:
    """What the server says, with its moments (microseconds since 1970) as such."""
    types = dict(relations()[HERDPY, name].columns)
    for row in context.state.facts(name):
        made: dict[str, Any] = dict(row)
        for column, value in row.items():
            if types[column] == "timestamptz":
                made[column] = moment(value)
        yield made


@rows_of(HERDPY, "statements")
def _statements(context: Context) -> Rows:
    return seen_statements(context)


for _name in SERVER_FACTS:
    rows_of(HERDPY, _name)(partial(_fact_rows, _name))
