"""Rows about the server: databases, schemas, roles and their members, settings, sessions, time zones."""

from __future__ import annotations

import zoneinfo
from datetime import UTC, datetime
from typing import Any

from herdpy_sql.catalog import PUBLIC
from herdpy_sql.system.contents import (
    HIDDEN,
    OWNER_OID,
    SCHEMAS,
    Context,
    Rows,
    role_oid,
    rows_of,
    user_schemas,
)
from herdpy_sql.system.ownership import owned_database, owned_schema
from herdpy_sql.system.state import SettingRow
from herdpy_sql.system.types import format_type, type_names

UTF8 = 6
_DEFAULT_TABLESPACE = 1663


@rows_of("pg_catalog", "pg_namespace")
def _namespaces(context: Context) -> Rows:
    for name, oid in {**SCHEMAS, **user_schemas(context.catalog)}.items():
        if name != PUBLIC or context.catalog.has_schema(name):
            whose = owned_schema(context, name)
            yield {"oid": oid, "nspname": name, "nspowner": whose.oid, "nspacl": whose.acl}


@rows_of("pg_catalog", "pg_database")
def _databases(context: Context) -> Rows:
    whose = owned_database(context)
    for name in context.state.databases():
        own = name == context.state.database
        yield {
            "oid": context.database_oid(name),
            "datname": name,
            "datdba": whose.oid if own else OWNER_OID,
            "datacl": whose.acl if own else None,
            "encoding": UTF8,
            "datlocprovider": "c",
            "datistemplate": False,
            "datallowconn": True,
            "datconnlimit": -1,
            "datfrozenxid": 0,
            "datminmxid": 0,
            "dattablespace": _DEFAULT_TABLESPACE,
            "datcollate": "C",
            "datctype": "C.UTF-8",
        }


@rows_of("pg_catalog", "pg_tablespace")
def _tablespaces(context: Context) -> Rows:
    del context
    return [{"oid": _DEFAULT_TABLESPACE, "spcname": "pg_default", "spcowner": OWNER_OID}]


@rows_of("pg_catalog", "pg_roles", "pg_authid")
def _roles(context: Context) -> Rows:
    ids = context.role_oids()
    for role in context.state.roles():
        yield {
            "oid": ids[role.name],
            "rolname": role.name,
            "rolsuper": role.superuser,
            "rolinherit": role.inherits,
            "rolcreaterole": role.creates_roles,
            "rolcreatedb": role.creates_databases,
            "rolcanlogin": role.can_login,
            "rolreplication": role.replicates,
            "rolbypassrls": role.bypasses_row_security,
            "rolconnlimit": role.connection_limit,
            "rolvaliduntil": _moment(role.valid_until),
            "rolpassword": "********",
            "rolconfig": None if role.settings is None else list(role.settings),
        }


@rows_of("pg_catalog", "pg_db_role_setting")
def _role_settings(context: Context) -> Rows:
    ids = context.role_oids()
    for role in context.state.roles():
        if role.settings is not None:
            yield {"setdatabase": 0, "setrole": ids[role.name], "setconfig": list(role.settings)}


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


@rows_of("pg_catalog", "pg_user", "pg_shadow")
def _users(context: Context) -> Rows:
    ids = context.role_oids()
    for role in context.state.roles():
        if role.can_login:
            yield {
                "usename": role.name,
                "usesysid": ids[role.name],
                "usecreatedb": role.creates_databases,
                "usesuper": role.superuser,
                "userepl": role.replicates,
                "usebypassrls": role.bypasses_row_security,
                "valuntil": _moment(role.valid_until),
                "passwd": "********",
                "useconfig": None if role.settings is None else list(role.settings),
            }


_PRESETS = {
    "block_size": "4096",
    "max_function_args": "100",
    "max_identifier_length": "63",
    "max_index_keys": "32",
    "server_version_num": "150000",
}
"""What drivers look up in pg_settings, where the session has no such setting."""


@rows_of("pg_catalog", "pg_settings")
def _settings(context: Context) -> Rows:
    rows = {row.name: row for row in context.state.settings()}
    for name, value in _PRESETS.items():
        rows.setdefault(name, SettingRow(name, value, default=value, context="internal"))
    for _, row in sorted(rows.items()):
        yield {
            "name": row.name,
            "setting": row.value,
            "category": "HerdPy" if row.name.startswith("herdpy.") else "Client Connection Defaults",
            "short_desc": row.description,
            "context": row.context,
            "vartype": "string",
            "source": _source(row),
            "boot_val": row.default,
            "reset_val": row.default if row.of_role is None else row.of_role,
            "pending_restart": False,
        }


def _source(row: SettingRow) -> str:
    """Where the value comes from: "user" for the role's setting."""
    if row.of_role is not None:
        return "user" if row.value == row.of_role else "session"
    return "default" if row.value == row.default else "session"


@rows_of("pg_catalog", "pg_prepared_statements")
def _prepared(context: Context) -> Rows:
    own = dict(type_names(context))
    for one in context.state.prepared_statements():
        yield {
            "name": one.name,
            "statement": one.text,
            "prepare_time": moment(one.made_us),
            "parameter_types": [own.get(oid) or format_type(oid, -1) for oid in one.types],
            "from_sql": one.by_sql,
            "generic_plans": one.generic_plans,
            "custom_plans": one.custom_plans,
        }


@rows_of("pg_catalog", "pg_cursors")
def _cursors(context: Context) -> Rows:
    for one in context.state.cursors():
        yield {
            "name": one.name,
            "statement": one.text,
            "is_holdable": one.hold,
            "is_binary": one.binary,
            "is_scrollable": one.scrolls,
            "creation_time": moment(one.made_us),
        }


@rows_of("pg_catalog", "pg_stat_activity")
def _activity(context: Context) -> Rows:
    ids = context.role_oids()
    query_ids = {row["pid"]: row["query_id"] for row in context.state.facts("query ids")}
    for one in context.activity():
        yield {
            "datid": context.database_oid(one.database),
            "datname": one.database or context.state.database,
            "pid": one.pid,
            "usesysid": ids.get(one.user),
            "usename": one.user,
            "application_name": one.application_name,
            "client_addr": one.client_address,
            "client_port": one.client_port,
            "backend_start": moment(one.backend_start_us),
            "xact_start": moment(one.transaction_start_us),
            "query_start": moment(one.query_start_us),
            "state_change": moment(one.state_change_us),
            "wait_event_type": one.wait_event_type,
            "wait_event": one.wait_event,
            "state": one.state,
            "backend_xid": one.xid,
            "query_id": None if one.query == HIDDEN else query_ids.get(one.pid),
            "query": one.query,
            "backend_type": "client backend",
        }


@rows_of("pg_catalog", "pg_locks")
def _locks(context: Context) -> Rows:
    for one in context.state.facts("locks"):
        yield {
            **one,
            "database": context.database_oid(one["database_name"])
            if one["locktype"] in _IN_DATABASE
            else None,
            "virtualtransaction": f"{one['pid'] or 0}/1",
            "fastpath": False,
            "waitstart": moment(one.get("waitstart")),
        }


_IN_DATABASE = frozenset({"relation", "tuple", "object", "advisory"})


def seen_statements(context: Context) -> Rows:
    """What statements cost, as ``ServerState.facts`` says it; of others' only the numbers, unless the user
    sees statistics."""
    names, sees_all = context.role_names(), context.sees_statistics
    for one in context.state.facts("statements"):
        name = names.get(one["user_key"], one["user_name"])
        if sees_all or name == context.state.user:
            yield {**one, "user_name": name}
        else:
            yield {**one, "user_name": name, "query": HIDDEN, "query_id": None, "plan": None}


_NO_MEANING = (
    "plans", "total_plan_time", "min_plan_time", "max_plan_time", "mean_plan_time", "stddev_plan_time",
    "shared_blks_hit", "shared_blks_read", "shared_blks_dirtied", "shared_blks_written", "local_blks_hit",
    "local_blks_read", "local_blks_dirtied", "local_blks_written", "temp_blks_read", "temp_blks_written",
    "blk_read_time", "blk_write_time", "temp_blk_read_time", "temp_blk_write_time", "wal_records", "wal_fpi",
    "wal_bytes", "jit_functions", "jit_generation_time", "jit_inlining_count", "jit_inlining_time",
    "jit_optimization_count", "jit_optimization_time", "jit_emission_count", "jit_emission_time",
)  # fmt: skip
_TIMES = {
    "total_exec_time": "total_s",
    "min_exec_time": "min_s",
    "max_exec_time": "max_s",
    "mean_exec_time": "mean_s",
    "stddev_exec_time": "stddev_s",
}


@rows_of("pg_catalog", "pg_stat_statements")
def _pg_statements(context: Context) -> Rows:
    nothing: dict[str, Any] = {**dict.fromkeys(_NO_MEANING, 0), "wal_bytes": "0"}
    for one in seen_statements(context):
        yield {
            **nothing,
            **{name: one[source] * 1000 for name, source in _TIMES.items()},
            "userid": role_oid(one["user_key"]),
            "dbid": context.database_oid(one["tablespace"]),
            "toplevel": True,
            "queryid": one["query_id"],
            "query": one["query"],
            "calls": one["calls"],
            "rows": one["rows"],
        }


@rows_of("pg_catalog", "pg_stat_statements_info")
def _pg_statements_info(context: Context) -> Rows:
    for one in context.state.facts("statements info"):
        yield {"dealloc": one["dealloc"], "stats_reset": moment(one["stats_reset"])}


def moment(us: int | None) -> datetime | None:
    """Microseconds since 1970 as Arrow takes them."""
    return None if us is None else datetime.fromtimestamp(us / 1_000_000, UTC)


@rows_of("pg_catalog", "pg_stat_database")
def _database_statistics(context: Context) -> Rows:
    own = context.state.database
    (found,) = [*context.state.facts("database counts")] or [{}]
    tables = context.table_counts().values()
    sessions: dict[str, int] = dict.fromkeys(context.state.databases(), 0)
    for one in context.state.activity():
        name = one.database or own
        sessions[name] = sessions.get(name, 0) + 1
    for name, count in sessions.items():
        row = {
            **dict.fromkeys(_COUNTS_OF_DATABASE, 0),
            "datid": context.database_oid(name),
            "datname": name,
            "numbackends": count,
        }
        if name == own and found:
            row |= {
                "xact_commit": found["commits"],
                "xact_rollback": found["rollbacks"],
                "deadlocks": found["deadlocks"],
                "tup_inserted": sum(one["inserted"] for one in tables),
                "tup_updated": sum(one["updated"] for one in tables),
                "tup_deleted": sum(one["deleted"] for one in tables),
                "stats_reset": moment(found["reset_us"]),
            }
        yield row


_COUNTS_OF_DATABASE = (
    "xact_commit", "xact_rollback", "blks_read", "blks_hit", "tup_returned", "tup_fetched", "tup_inserted",
    "tup_updated", "tup_deleted", "conflicts", "temp_files", "temp_bytes", "deadlocks", "blk_read_time",
    "blk_write_time", "session_time", "active_time", "idle_in_transaction_time", "sessions",
    "sessions_abandoned", "sessions_fatal", "sessions_killed",
)  # fmt: skip


@rows_of("pg_catalog", "pg_timezone_names")
def _zones(context: Context) -> Rows:
    del context
    now = datetime.now(UTC)
    for name in sorted(zoneinfo.available_timezones()):
        local = now.astimezone(zoneinfo.ZoneInfo(name))
        yield {
            "name": name,
            "abbrev": local.tzname(),
            "utc_offset": str(local.utcoffset()),
            "is_dst": bool(local.dst()),
        }


# ---------------------------------------------------------------------------- what never changes
