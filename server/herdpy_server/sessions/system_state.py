"""What the system catalog is told of a session and of the server that it is a session of.

A door says who its client is (:class:`Identity`) and, where there are others, who else is there
(:class:`Directory`); a session without a door is alone. ``statements`` hands :class:`SessionState` to every
query over the catalog, in the engine's turn.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from herdpy_server.sessions.advisory import AdvisoryLocks
from herdpy_server.sessions.alone import alone
from herdpy_server.store import NoLocks
from herdpy_sql.objects import SYSTEM
from herdpy_sql.system import Activity, Role
from herdpy_sql.system.advisory import AdvisoryCall
from herdpy_sql.system.state import DATABASE, OWNER, CursorRow, PreparedRow, SettingRow

if TYPE_CHECKING:
    from herdpy_server.sessions.waiting import Waiting

_STARTED_US = time.time_ns() // 1000


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a session's client is.

    Attributes:
        user: as who he logged in; ``key`` is that role's, SYSTEM of who is no role.
        started_us: when the server started, microseconds since 1970 UTC.
        address: where the client is; None for a Unix socket or this process.
    """

    user: str = OWNER
    database: str = DATABASE
    pid: int = 1
    started_us: int = _STARTED_US
    key: str = SYSTEM
    address: str | None = None


class Directory(Protocol):
    """Who else there is, and who might be."""

    def roles(self) -> Iterable[Role]:
        """Every role."""

    def activity(self) -> Iterable[Activity]:
        """Every session."""

    def server_settings(self, user: str) -> Iterable[SettingRow]:
        """The server's configuration, as far as ``user`` may see it."""

    def signal(self, pid: int, *, terminate: bool, user: str) -> bool:
        """Have ``user`` cancel what a session runs, or end the session; False when there is no such session.

        SqlError 42501 when the user may not.
        """


class SessionState:
    """A session as herdpy_sql.system's ``ServerState``."""

    def __init__(self, session: Waiting) -> None:
        identity = session.identity
        self._session = session
        self._advised: list[AdvisoryCall] = []
        self.user = session.standing.name if session.settings["role"] != "none" else ""
        self.session_user = session.settings["session_authorization"] or identity.user
        self.user = self.user or self.session_user
        self.database, self.pid, self.started_us = identity.database, identity.pid, identity.started_us
        self.in_recovery = session.settings.standby

    def roles(self) -> Iterable[Role]:
        """The superuser that is there from the start, and the directory's."""
        directory, identity = self._session.directory, self._session.identity
        found = list(directory.roles()) if directory is not None else []
        taken = {role.name for role in found}
        names = (identity.user if identity.key == SYSTEM else OWNER, OWNER, "postgres", "superuser")
        return [Role(next(name for name in names if name not in taken)), *found]

    def settings(self) -> Iterable[SettingRow]:
        """What SHOW ALL says."""
        for setting, value in self._session.settings:
            yield SettingRow(setting.name, value, setting.description, setting.default, setting.read_only)

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

        Of sequences, how far they have come; of locks, the advisory ones.
        """
        if name == "sequences":
            return self._sequences()
        if name == "locks":
            return (self._session.advisory or AdvisoryLocks(self._session)).told()
        facts = self._session.facts
        return (facts if facts is not None else alone(self._session)).get(name, ())

    def _sequences(self) -> Iterator[Mapping[str, Any]]:
        session = self._session
        transaction = session.transaction
        store = session.tablespace.store
        workspace = store.workspace(NoLocks(), None) if transaction is None else transaction.workspace
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
            session.advisory = AdvisoryLocks(session)
        return session.advisory.perform(self._advised, call)

    def signal(self, pid: int, *, terminate: bool) -> bool:
        """The directory's business."""
        directory = self._session.directory
        if directory is not None and directory.signal(pid, terminate=terminate, user=self.user):
            return True
        self._session.notice("WARNING", "01000", f"PID {pid} is not a PostgreSQL backend process")
        return False
