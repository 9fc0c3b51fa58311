"""Rows about the log and its copies, as PostgreSQL has them of its write-ahead log.

What the server, or the cluster, says of itself in words of our own (``ServerState.facts``) under the names
that tools for PostgreSQL read. A replica stands for a standby: its node for the application's name.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

from herdpy_sql.library.catalog_functions import lsn_text
from herdpy_sql.system.contents import OWNER_OID, Context, Rows, rows_of
from herdpy_sql.system.server import moment

_STATES = {"following": "streaming", "opening": "startup", "starting": "startup", "seeding": "backup"}


def _lsn(position: str | None) -> str | None:
    return None if position is None else lsn_text(position)


def _host_and_port(address: str | None) -> tuple[str | None, int | None]:
    host, colon, port = (address or "").rpartition(":")
    return (host.strip("[]"), int(port)) if colon and port.isdigit() else (None, None)


@rows_of("pg_catalog", "pg_stat_replication")
def _replication(context: Context) -> Rows:
    """On the leader, a row for each replica of the database that is there and follows, or is about to."""
    if context.state.in_recovery:
        return
    replicas = [row for row in context.state.facts("replicas") if row["tablespace"] == context.state.database]
    nodes = {row["node"]: row for row in context.state.facts("nodes")}
    owner = next((role.name for role in context.state.roles()), None)
    for row in replicas:
        state = _STATES.get(row["state"])
        if row["is_leader"] or state is None:
            continue
        node: Mapping[str, Any] = nodes.get(row["node"], {})
        host, port = _host_and_port(node.get("sql_address"))
        if state == "streaming" and row.get("lag_entries"):
            state = "catchup"
        applied, durable = _lsn(row.get("applied")), _lsn(row.get("durable"))
        yield {
            "pid": zlib.crc32(row["node"].encode()) >> 1,
            "usesysid": OWNER_OID,
            "usename": owner,
            "application_name": row["node"],
            "client_addr": host,
            "client_port": port,
            "backend_start": moment(node.get("started")),
            "state": state,
            "sent_lsn": applied,
            "write_lsn": applied,
            "flush_lsn": durable,
            "replay_lsn": applied,
            "sync_priority": 0,
            "sync_state": "async",
            "reply_time": moment(row.get("reported")),
        }


@rows_of("pg_catalog", "pg_stat_wal_receiver")
def _receiver(context: Context) -> Rows:
    """On a replica that follows: itself."""
    if not context.state.in_recovery:
        return
    nodes = {row["node"]: row for row in context.state.facts("nodes")}
    for row in context.state.facts("log_status"):
        if row["tablespace"] == context.state.database and row["leader"] is not None:
            host, port = _host_and_port(nodes.get(row["leader"], {}).get("sql_address"))
            yield {
                "pid": zlib.crc32(row["node"].encode()) >> 1,
                "status": "streaming" if row["state"] == "following" else "starting",
                "written_lsn": _lsn(row["applied"]),
                "flushed_lsn": _lsn(row["durable"]),
                "received_tli": row["epoch"],
                "latest_end_lsn": _lsn(row["log_end"]),
                "sender_host": host,
                "sender_port": port,
            }


@rows_of("pg_catalog", "pg_stat_wal")
def _log(context: Context) -> Rows:
    for row in context.state.facts("log counts"):
        yield {
            "wal_records": row["transactions"],
            "wal_fpi": 0,
            "wal_bytes": str(row["bytes"]),
            "wal_buffers_full": 0,
            "wal_write": row["syncs"],
            "wal_sync": row["syncs"],
            "wal_write_time": 0.0,
            "wal_sync_time": row["sync_s"] * 1000,
            "stats_reset": moment(row["since_us"]),
        }


_OF_CHECKPOINTS = (
    "checkpoints_req", "checkpoint_write_time", "checkpoint_sync_time", "buffers_checkpoint",
    "buffers_clean", "maxwritten_clean", "buffers_backend", "buffers_backend_fsync", "buffers_alloc",
)  # fmt: skip


@rows_of("pg_catalog", "pg_stat_bgwriter")
def _checkpoints(context: Context) -> Rows:
    """All checkpoints count as those of the schedule."""
    for row in context.state.facts("log counts"):
        yield {
            **dict.fromkeys(_OF_CHECKPOINTS, 0),
            "checkpoints_timed": row["checkpoints"],
            "stats_reset": moment(row["since_us"]),
        }


@rows_of("pg_catalog", "pg_stat_archiver")
def _archiver(context: Context) -> Rows:
    """The newest entry that is archived stands for the newest file."""
    found = [row for row in context.state.facts("archive") if row["tablespace"] == context.state.database]
    row: Mapping[str, Any] = found[0] if found else {}
    yield {
        "archived_count": row.get("segments") or 0,
        "last_archived_wal": _lsn(row.get("archived")),
        "last_archived_time": moment(row.get("archived_time")),
        "failed_count": 0,
    }


@rows_of("pg_catalog", "pg_stat_ssl")
def _encryption(context: Context) -> Rows:
    for one in context.state.activity():
        used = one.tls
        row: dict[str, Any] = {"pid": one.pid, "ssl": used is not None}
        if used is not None:
            row |= {"version": used.version, "cipher": used.cipher, "bits": used.bits}
        yield row


@rows_of("pg_catalog", "pg_stat_gssapi")
def _gssapi(context: Context) -> Rows:
    for one in context.state.activity():
        yield {"pid": one.pid, "gss_authenticated": False, "encrypted": False}


@rows_of("pg_catalog", "pg_stat_database_conflicts")
def _conflicts(context: Context) -> Rows:
    nothing = dict.fromkeys(
        ("confl_tablespace", "confl_lock", "confl_snapshot", "confl_bufferpin", "confl_deadlock"), 0
    )
    for name in context.state.databases():
        yield {"datid": context.database_oid(name), "datname": name, **nothing}
