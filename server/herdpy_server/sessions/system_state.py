"""What the system catalog shows of a session and of its server.

A door says who its client is (:class:`Identity`) and, where there are others, who else is there
(:class:`Directory`); a session without a door is alone. ``backend_queries`` gives a :class:`SessionState`
to every query over the catalog, in the engine's turn.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from herdpy_server.sessions.advisory import AdvisoryLocks
from herdpy_server.sessions.lock_rows import LockOwners, blockers, lock_rows, next_number, number_of
from herdpy_server.sessions.statement_table import query_id_of, refused_reset
from herdpy_server.store import NoLocks, Workspace
from herdpy_server.tablespace.cluster import Facts, flashback_row, ledger_rows, limit_rows
from herdpy_sql.errors import SqlError
from herdpy_sql.objects import SYSTEM
from herdpy_sql.system import Activity, RoleRow
from herdpy_sql.system.advisory import AdvisoryCall
from herdpy_sql.system.state import OWNER, CursorRow, PreparedRow, SettingRow

if TYPE_CHECKING:
    from herdpy_server.sessions.block import TransactionBlock
    from herdpy_server.sessions.statement_table import StatementTable
    from herdpy_server.tablespace import Tablespace


class SessionState:
    """A session as herdpy_sql.system's ``ServerState``."""

    def __init__(self, session: TransactionBlock, facts: Facts | None) -> None:
        """``facts``: what the cluster said for the query that begins; None: nothing."""
        self._facts = facts
        identity = session.identity
        self._session = session
        self._advised: list[AdvisoryCall] = []
        self._number: int | None = None
        self.user = session.effective_role.name if session.settings["role"] != "none" else ""
        self.session_user = session.settings["session_authorization"] or identity.user
        self.user = self.user or self.session_user
        self.database, self.pid, self.started_us = identity.database, identity.pid, identity.started_us
        self.in_recovery = session.settings.standby
        self.wal_lsn = str(session.tablespace.log.end)
        self.replay_lsn = str(session.tablespace.store.applied) if self.in_recovery else None
        self.channels = () if session.channels is None else session.channels.names
        self.notification_queue_usage = session.tablespace.notifications.queue_usage

    def roles(self) -> Iterable[RoleRow]:
        """The superuser that is there from the start, and the directory's."""
        directory, identity = self._session.directory, self._session.identity
        found = list(directory.roles()) if directory is not None else []
        taken = {role.name for role in found}
        names = (identity.user if identity.key == SYSTEM else OWNER, OWNER, "postgres", "superuser")
        return [RoleRow(next(name for name in names if name not in taken)), *found]

    def settings(self) -> Iterable[SettingRow]:
        """What SHOW ALL says."""
        for setting, value in self._session.settings:
            context = "superuser" if setting.superusers else "internal" if setting.read_only else "user"
            of_role = self._session.settings.of_role.get(setting.name)
            yield SettingRow(setting.name, value, setting.description, setting.default, context, of_role)

    def activity(self) -> Iterable[Activity]:
        """The directory's, or this session alone."""
        directory = self._session.directory
        if directory is not None:
            return directory.activity()
        return [Activity(self.pid, self.user, self._session.settings["application_name"], state="active")]

    def databases(self) -> Iterable[str]:
        """The cluster's tablespaces; this one alone where there is no cluster."""
        cluster = self._session.tablespace.cluster
        return [self.database] if cluster is None else sorted({*cluster.databases(), self.database})

    def server_settings(self) -> Iterable[SettingRow]:
        """The directory's business."""
        directory = self._session.directory
        return () if directory is None else directory.server_settings(self.user)

    def facts(self, name: str) -> Iterable[Mapping[str, Any]]:
        """What the cluster was heard to say when the query began; of a database alone, its log.

        Of sequences, how far they have come; of locks, waits and statements, what is so now.
        """
        if name in _NOW:
            return _NOW[name](self)
        facts = self._facts
        if facts is None:
            facts = alone(self._session.tablespace, self._session.identity.database)
        return facts.get(name, ())

    def _sessions(self) -> list[TransactionBlock]:
        """The directory's, or this session alone."""
        directory = self._session.directory
        return [self._session] if directory is None else list(directory.sessions())

    def _query_ids(self) -> Iterator[Mapping[str, Any]]:
        """Of the newest statement of each session, as pg_stat_statements has it."""
        for one in self._sessions():
            if one.text:
                yield {"pid": one.identity.pid, "query_id": query_id_of(one.text, one.catalog)}

    def _owners(self) -> Iterator[tuple[str, LockOwners]]:
        """The locks of each tablespace that there are sessions of, and its name."""
        sessions = self._sessions()
        seen = set()
        for one in sessions:
            if id(one.tablespace) not in seen:
                seen.add(id(one.tablespace))
                yield one.identity.database, LockOwners(one.tablespace, sessions)

    def _locks(self) -> Iterator[Mapping[str, Any]]:
        for database, owners in self._owners():
            yield from lock_rows(owners, database)

    def _blockers(self) -> Iterator[Mapping[str, Any]]:
        for _database, owners in self._owners():
            for pid, by in blockers(owners).items():
                yield {"pid": pid, "by": by}

    def _table_counts(self) -> Iterator[Mapping[str, Any]]:
        store = self._session.tablespace.store
        view = store.disk.current
        for table_id in list(self._session.catalog.tables):
            inserted, updated, deleted, rows = store.counts.of_table(table_id, view.entries(table_id))
            yield {"id": table_id, "inserted": inserted, "updated": updated, "deleted": deleted, "rows": rows}

    def _sizes(self) -> Iterator[Mapping[str, Any]]:
        """What relations take in the store's file, as of the last checkpoint; of the database as a whole."""
        disk = self._session.tablespace.store.disk
        view = disk.current
        yield {"id": None, "table": None, "bytes": disk.used_bytes}
        for table in list(self._session.catalog.tables.values()):
            yield {"id": table.id, "table": table.id, "bytes": view.size_bytes(table.id)}
            for index in table.indexes:
                yield {"id": index.id, "table": table.id, "bytes": view.size_bytes(index.id)}

    def _database_counts(self) -> Iterator[Mapping[str, Any]]:
        tablespace = self._session.tablespace
        yield {
            "commits": tablespace.commits,
            "rollbacks": tablespace.rollbacks,
            "deadlocks": tablespace.locks.deadlocks + tablespace.advisory.deadlocks,
            "reset_us": tablespace.store.counts.reset_us,
        }

    def _log_counts(self) -> Iterator[Mapping[str, Any]]:
        tablespace = self._session.tablespace
        counts = getattr(tablespace.log, "counts", None)
        if counts is not None:
            yield {
                "transactions": counts.transactions,
                "bytes": counts.bytes,
                "syncs": sum(counts.syncs),
                "sync_s": counts.sync_s,
                "checkpoints": tablespace.store.counts.flushes,
                "since_us": self.started_us,
            }

    def transaction_number(self, *, assign: bool) -> int | None:
        """The open transaction's; a statement that is its own transaction keeps one while it runs."""
        transaction = self._session.transaction
        if transaction is not None:
            return number_of(transaction) if assign else transaction.xid or None
        if assign and self._number is None:
            self._number = next_number()
        return self._number

    def reset_counts(self) -> None:
        """See ServerState."""
        if not self._session.effective_role.is_superuser:
            raise SqlError("42501", "permission denied for function pg_stat_reset")
        tablespace = self._session.tablespace
        tablespace.store.counts.reset()
        tablespace.commits = tablespace.rollbacks = 0

    def _statements(self) -> Iterable[Mapping[str, Any]]:
        table = self._table
        return () if table is None else table.rows()

    def _statements_info(self) -> Iterator[Mapping[str, Any]]:
        table = self._table
        if table is not None:
            yield {"dealloc": table.dealloc, "stats_reset": table.reset_us}

    @property
    def _table(self) -> StatementTable | None:
        directory = self._session.directory
        return None if directory is None else directory.statements

    def reset_statements(self, user_key: str | None, database: str | None, query_id: int) -> None:
        """The directory's business."""
        if not self._session.effective_role.is_superuser:
            raise refused_reset()
        if self._table is not None:
            self._table.reset(user_key, database, query_id)

    def _sequences(self) -> Iterator[Mapping[str, Any]]:
        session = self._session
        transaction = session.transaction
        store = session.tablespace.store
        workspace = Workspace(store, NoLocks(), None) if transaction is None else transaction.workspace
        for one in workspace.catalog.objects.values():
            if one.kind == "sequence":
                state = workspace.sequence_state(one)
                yield {"oid": one.oid, "value": state.value, "called": state.called}

    def prepared_statements(self) -> Iterable[PreparedRow]:
        """Those with a name."""
        for name, one in self._session.prepared.items():
            if name:
                types = tuple(type_.oid for type_ in one.param_types)
                yield PreparedRow(
                    name, one.source, one.made_us, types, one.by_sql, one.generic_plans, one.custom_plans
                )

    def cursors(self) -> Iterable[CursorRow]:
        """Those that DECLARE made, and the portals of messages."""
        for one in self._session.portals.values():
            yield CursorRow(one.name, one.source, one.hold, one.is_binary, one.scrolls, one.made_us)

    def set_config(self, name: str, value: str | None, *, local: bool) -> str:
        """As SET and SET LOCAL do."""
        session = self._session
        if local:
            if session.transaction is not None:
                session.set_local(name, value)
            else:  # it would end with the statement: only the value is checked
                return session.settings.checked(name, value)
        else:
            session.set_lasting(name, value)
        return session.settings[name]

    def advise(self, call: AdvisoryCall) -> bool | None:
        """Lock or unlock. Raises as ``AdvisoryLocks.perform``."""
        session = self._session
        if session.advisory is None:
            session.use_advisory(AdvisoryLocks(session))
        assert session.advisory is not None
        return session.advisory.perform(self._advised, call)

    def signal(self, pid: int, *, terminate: bool) -> bool:
        """The directory's business."""
        directory = self._session.directory
        if directory is not None and directory.signal(pid, terminate=terminate, user=self.user):
            return True
        self._session.notice("WARNING", "01000", f"PID {pid} is not a PostgreSQL backend process")
        return False


_NOW: Mapping[str, Callable[[SessionState], Iterable[Mapping[str, Any]]]] = {
    "sequences": SessionState._sequences,
    "locks": SessionState._locks,
    "query ids": SessionState._query_ids,
    "blockers": SessionState._blockers,
    "table counts": SessionState._table_counts,
    "sizes": SessionState._sizes,
    "database counts": SessionState._database_counts,
    "log counts": SessionState._log_counts,
    "statements": SessionState._statements,
    "statements info": SessionState._statements_info,
}

STATE = "alone"


def alone(tablespace: Tablespace, name: str) -> Facts:
    """Rows of tablespaces, ledgers, limits and log_status; there are no nodes and no replicas."""
    log, store = tablespace.log, tablespace.store
    ledgers, now_us = log.ledgers(), time.time_ns() // 1000
    failure = getattr(log, "failure", None)
    return {
        **tablespace.facts_here(),
        "tablespaces": [
            {
                "name": name,
                "state": STATE,
                "ledgers": len(ledgers),
                "log_bytes": sum(one.length for one in ledgers if one.closed),
                "as_of": now_us,
            }
        ],
        "ledgers": [{**row, "as_of": now_us} for row in ledger_rows(name, ledgers, tablespace.log_needs())],
        "limits": limit_rows(name, None, store.limits()),
        "flashback": [flashback_row(name, None, store.kept_past())],
        "log_status": [
            {
                "tablespace": name,
                "state": STATE,
                "applied": str(store.applied),
                "durable": str(store.durable),
                "log_end": str(log.end),
                "lag_entries": 0,
                "pending": tablespace.pending,
                "problem": None if failure is None else str(failure),
            }
        ],
    }
