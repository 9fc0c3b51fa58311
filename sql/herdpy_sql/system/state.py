"""What the system catalog asks of the server it stands in: who is connected, roles, settings.

A session hands a :class:`ServerState` to each query over the catalog; everything is read once, when
the query begins, on the thread that runs sessions. :class:`LocalState` stands for a database alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from herdpy_sql.errors import SqlError
from herdpy_sql.objects import SYSTEM
from herdpy_sql.system.advisory import AdvisoryCall

DATABASE = "herdpy"
OWNER = "herdpy"


class RoleMember(NamedTuple):
    """That a role is a member of another; keys of roles."""

    role: str
    admin: bool = False
    grantor: str = SYSTEM


class RoleRow(NamedTuple):
    """A role that may log in or own things; ``key`` stands for it among rights.

    ``settings`` are "name=value", which its sessions begin with; None for none.
    """

    name: str
    superuser: bool = True
    can_login: bool = True
    key: str = SYSTEM
    creates_roles: bool = True
    creates_databases: bool = True
    inherits: bool = True
    replicates: bool = True
    bypasses_row_security: bool = True
    connection_limit: int = -1
    valid_until: str | None = None
    memberships: tuple[RoleMember, ...] = ()
    settings: tuple[str, ...] | None = None


class SettingRow(NamedTuple):
    """A setting as ``pg_settings`` and SHOW ALL say it.

    ``context`` says who may change it: "user", "superuser" or, for nobody, "internal". ``of_role`` is what
    the session has begun with by its role's settings; None where these have nothing of it.
    """

    name: str
    value: str
    description: str = ""
    default: str = ""
    context: str = "user"
    of_role: str | None = None


class TlsUse(NamedTuple):
    """How a connection is encrypted: the protocol's version, the cipher, and the bits of its key."""

    version: str
    cipher: str
    bits: int


class Activity(NamedTuple):
    """A session, for ``pg_stat_activity``; times are microseconds since 1970 UTC, None for never.

    ``database`` None is that of the session that asks; ``changes`` are those of its open transaction, whose
    number ``xid`` is, if a query over locks has given it one.
    """

    pid: int
    user: str
    application_name: str = ""
    client_address: str | None = None
    client_port: int | None = None
    backend_start_us: int | None = None
    transaction_start_us: int | None = None
    query_start_us: int | None = None
    state_change_us: int | None = None
    state: str | None = "idle"
    query: str = ""
    wait_event_type: str | None = None
    wait_event: str | None = None
    database: str | None = None
    changes: int = 0
    xid: int | None = None
    tls: TlsUse | None = None


class PreparedRow(NamedTuple):
    """A prepared statement as pg_prepared_statements has it; ``types`` are object ids."""

    name: str
    text: str
    made_us: int
    types: tuple[int, ...]
    by_sql: bool
    generic_plans: int
    custom_plans: int


class CursorRow(NamedTuple):
    """A cursor as pg_cursors has it."""

    name: str
    text: str
    hold: bool
    binary: bool
    scrolls: bool
    made_us: int


class ServerState(Protocol):
    """The server and the session that asks."""

    @property
    def database(self) -> str:
        """The name of the database."""

    @property
    def user(self) -> str:
        """The role whose rights count, ``current_user``."""

    @property
    def session_user(self) -> str:
        """The role that logged in."""

    @property
    def pid(self) -> int:
        """The session's number, as the client knows it."""

    @property
    def started_us(self) -> int:
        """When the server started, in microseconds since 1970 UTC."""

    @property
    def in_recovery(self) -> bool:
        """Whether the database only follows another one."""

    def roles(self) -> Iterable[RoleRow]:
        """Every role."""

    def settings(self) -> Iterable[SettingRow]:
        """Every setting, with the session's values."""

    def activity(self) -> Iterable[Activity]:
        """Every session."""

    def databases(self) -> Iterable[str]:
        """The databases there are, this one among them."""

    def server_settings(self) -> Iterable[SettingRow]:
        """The server's configuration, as far as the user may see it."""

    def facts(self, name: str) -> Iterable[Mapping[str, Any]]:
        """Rows of a table of schema herdpy that only the server knows; moments as microseconds since 1970."""

    def prepared_statements(self) -> Iterable[PreparedRow]:
        """The session's prepared statements that have names."""

    def cursors(self) -> Iterable[CursorRow]:
        """The session's cursors, and the protocol's portals."""

    def set_config(self, name: str, value: str | None, *, local: bool) -> str:
        """Change a setting, as SET does; returns its new value. SqlError 42704, 22023, 55P02."""

    def advise(self, call: AdvisoryCall) -> bool | None:
        """Take or give back an advisory lock; what the function gives. MustWait; SqlError 40P01, 55P03."""

    def transaction_number(self, *, assign: bool) -> int | None:
        """The number of the session's transaction; None where it has none and is not to get one."""

    def signal(self, pid: int, *, terminate: bool) -> bool:
        """Cancel what a session runs, or end the session; False when there is none of that number."""

    def reset_counts(self) -> None:
        """Count changes of the database's tables anew. SqlError 42501."""

    def reset_statements(self, user_key: str | None, database: str | None, query_id: int) -> None:
        """Forget what statements cost: of a role (None: any), a database (None) and a query id (0: any).

        SqlError 42501.
        """


@dataclass(slots=True)
class LocalState:
    """A database with nobody else in it; also what tests use."""

    database: str = DATABASE
    user: str = OWNER
    session_user: str = OWNER
    pid: int = 1
    started_us: int = 0
    in_recovery: bool = False
    values: dict[str, str] = field(default_factory=lambda: {"search_path": '"$user", public'})

    def roles(self) -> Iterable[RoleRow]:
        """One role, which may do everything."""
        return [RoleRow(self.user)]

    def settings(self) -> Iterable[SettingRow]:
        """``values``."""
        return [SettingRow(name, value) for name, value in self.values.items()]

    def activity(self) -> Iterable[Activity]:
        """This session."""
        return [Activity(self.pid, self.user, state="active")]

    def databases(self) -> Iterable[str]:
        """This one."""
        return [self.database]

    def server_settings(self) -> Iterable[SettingRow]:
        """None."""
        return ()

    def facts(self, name: str) -> Iterable[Mapping[str, Any]]:
        """None."""
        return ()

    def prepared_statements(self) -> Iterable[PreparedRow]:
        """None."""
        return ()

    def cursors(self) -> Iterable[CursorRow]:
        """None."""
        return ()

    def set_config(self, name: str, value: str | None, *, local: bool) -> str:
        """Keep the value."""
        self.values[name] = value or ""
        return self.values[name]

    def advise(self, call: AdvisoryCall) -> bool | None:
        """Nobody else would want it."""
        return True if call.tries or (call.unlocks and call.key is not None) else None

    def transaction_number(self, *, assign: bool) -> int | None:
        """Always the same."""
        return 1000 if assign else None

    def signal(self, pid: int, *, terminate: bool) -> bool:
        """There is nobody."""
        return False

    def reset_counts(self) -> None:
        """There are none."""

    def reset_statements(self, user_key: str | None, database: str | None, query_id: int) -> None:
        """They are not counted."""


class FrozenState(LocalState):
    """What a state said at one moment."""

    def __init__(self, state: ServerState, wanted: Iterable[str] = ()) -> None:
        """``wanted``: names of facts."""
        super().__init__(
            state.database, state.user, state.session_user, state.pid, state.started_us, state.in_recovery
        )
        self._roles, self._settings = list(state.roles()), list(state.settings())
        self._activity, self._prepared = list(state.activity()), list(state.prepared_statements())
        self._cursors = list(state.cursors())
        self._databases, self._server_settings = list(state.databases()), list(state.server_settings())
        self._facts = {name: list(state.facts(name)) for name in wanted}
        self.wal_lsn = getattr(state, "wal_lsn", None)
        self.replay_lsn = getattr(state, "replay_lsn", None)
        self.channels: tuple[str, ...] = getattr(state, "channels", ())
        self.notification_queue_usage: float = getattr(state, "notification_queue_usage", 0.0)
        own = next((one for one in self._activity if one.pid == state.pid), None)
        self.client_address = own.client_address if own is not None else None
        self.client_port = own.client_port if own is not None else None

    def roles(self) -> Iterable[RoleRow]:
        """As they were."""
        return self._roles

    def settings(self) -> Iterable[SettingRow]:
        """As they were."""
        return self._settings

    def activity(self) -> Iterable[Activity]:
        """As it was."""
        return self._activity

    def databases(self) -> Iterable[str]:
        """As they were."""
        return self._databases

    def server_settings(self) -> Iterable[SettingRow]:
        """As they were."""
        return self._server_settings

    def facts(self, name: str) -> Iterable[Mapping[str, Any]]:
        """As they were."""
        return self._facts[name]

    def prepared_statements(self) -> Iterable[PreparedRow]:
        """As they were."""
        return self._prepared

    def cursors(self) -> Iterable[CursorRow]:
        """As they were."""
        return self._cursors


def keys_of(state: ServerState, user: str, *, inherited: bool = True) -> set[str] | None:
    """Keys that a role acts as; None of a superuser, who may do everything."""
    by_key: dict[str, RoleRow] = {role.key: role for role in state.roles()}
    role = next((one for one in by_key.values() if one.name == user), None)
    if role is None or role.superuser:
        return None
    found, waiting = {role.key}, [role]
    while waiting:
        one = waiting.pop()
        for member in one.memberships if one.inherits or not inherited else ():
            other = by_key.get(member.role)
            if other is not None and other.key not in found:
                found.add(other.key)
                waiting.append(other)
    return found


def setting_values(state: ServerState) -> Mapping[str, str]:
    """The session's settings by name."""
    return {row.name.lower(): row.value for row in state.settings()}


def unknown_setting(name: str) -> SqlError:
    """42704."""
    return SqlError("42704", f'unrecognized configuration parameter "{name}"')
