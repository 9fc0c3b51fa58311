"""The sessions of a server by number: who they are, what they do, and how one is cancelled from another.

Above ``session``; every door registers what it lets in. The number takes the place of PostgreSQL's process
id.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from herdpy_server.roles.effective_role import EffectiveRoles
from herdpy_server.roles.passwords import without_passwords
from herdpy_server.roles.role import RoleStore
from herdpy_server.roles.role_settings import shown_settings
from herdpy_server.sessions.identity import Identity
from herdpy_server.sessions.lock_rows import wait_event
from herdpy_sql.errors import SqlError
from herdpy_sql.objects import SYSTEM
from herdpy_sql.system import Activity, RoleRow
from herdpy_sql.system.state import RoleMember, SettingRow, TlsUse

if TYPE_CHECKING:
    from herdpy_server.sessions.block import TransactionBlock
    from herdpy_server.sessions.identity import Auditor
    from herdpy_server.sessions.session import Session
    from herdpy_server.sessions.statement_table import StatementTable

_MAX_PID = 1 << 22
_SHOWN_CHARACTERS = 1024
_STATES = {"idle": "idle", "active": "idle in transaction", "failed": "idle in transaction (aborted)"}


@dataclass(slots=True, eq=False)
class SessionEntry:
    """One registered session.

    Attributes:
        pid, secret: what a client must know to cancel it.
        user, database, address: who, where to and where from; None for a Unix socket or this process.
        began_us: when, on the wall clock. ``tls``: how its connection is encrypted; None: not at all.
        end: closes it and its connection, telling its client the error.
    """

    pid: int
    secret: int = field(repr=False)
    session: Session = field(repr=False)
    user: str
    database: str
    address: str | None
    port: int | None
    began_us: int
    tls: TlsUse | None
    end: Callable[[SqlError], object] = field(repr=False)

    @property
    def state(self) -> str:
        """As pg_stat_activity says it: "active", "idle", "idle in transaction" or that and "(aborted)"."""
        return "active" if self.session.is_running else _STATES[self.session.status]

    @property
    def query(self) -> str:
        """The newest statement, without passwords, cut where it is long."""
        return without_passwords(self.session.text[: 4 * _SHOWN_CHARACTERS])[:_SHOWN_CHARACTERS]

    @property
    def query_began_us(self) -> int | None:
        """When the newest statement began; None before the first."""
        return self.session.text_began_us or None

    @property
    def transaction_began_us(self) -> int | None:
        """When the open transaction began; None outside of one."""
        transaction = self.session.transaction
        return None if transaction is None else transaction.started_us

    def activity(self) -> Activity:
        """What it does, for pg_stat_activity."""
        session = self.session
        transaction = session.transaction
        event_type, event = wait_event(session)
        return Activity(
            self.pid,
            self.user,
            session.settings["application_name"],
            self.address,
            self.port,
            self.began_us,
            self.transaction_began_us,
            self.query_began_us,
            max(self.query_began_us or 0, self.began_us),
            self.state,
            self.query,
            event_type,
            event,
            self.database,
            0 if transaction is None else transaction.workspace.record_count,
            None if transaction is None else transaction.xid or None,
            self.tls,
        )


class SessionRegistry:
    """The sessions there are: the ``Directory`` of each of them. All of it is for the engine's turn.

    Attributes:
        role_store: the roles that sessions may change; ``effective_roles``: what they may do.
        auditor: records what they do; None for none.
        configuration: what the server was configured with; for superusers.
        statements: what the server's statements cost; None where they are not counted.
    """

    def __init__(self, role_store: RoleStore | None = None) -> None:
        self.role_store = role_store
        self.effective_roles = EffectiveRoles(role_store)
        if role_store is not None:
            role_store.on_change = self.roles_changed
        self.configuration: Callable[[], Iterable[SettingRow]] = tuple
        self.auditor: Auditor | None = None
        self.statements: StatementTable | None = None
        self._started_us = time.time_ns() // 1000
        self._entries: dict[int, SessionEntry] = {}
        self._next = 1

    def add(
        self,
        session: Session,
        *,
        user: str,
        database: str,
        end: Callable[[SqlError], object],
        address: str | None = None,
        port: int | None = None,
        tls: TlsUse | None = None,
    ) -> SessionEntry:
        """Register a session; it has a number and a secret from now on."""
        while self._next in self._entries:
            self._next = self._next % _MAX_PID + 1
        pid, self._next = self._next, self._next % _MAX_PID + 1
        entry = SessionEntry(
            pid,
            secrets.randbits(32),
            session,
            user,
            database,
            address,
            port,
            time.time_ns() // 1000,
            tls,
            end,
        )
        self._entries[pid] = entry
        role = None if self.role_store is None else self.role_store.get(user)
        session.identity = Identity(
            user, database, pid, self._started_us, SYSTEM if role is None else role.ident, address
        )
        session.sequences.pid = pid
        session.directory = self
        session.roles = self.role_store
        session.auditor = self.auditor
        session.effective_role_of = self.effective_roles.of_key
        session.role_now = lambda: self.effective_roles.of_session(session)
        session.settings.check_role = lambda name, value: self.effective_roles.check(session, name, value)
        session.settings.start_with("session_authorization", user)
        self._apply_role(session)
        return entry

    def _apply_role(self, session: Session) -> None:
        """Have the session act as the role whose rights count now."""
        session.act_as(self.effective_roles.of_session(session))

    def roles_changed(self) -> None:
        """RoleStore are others now: every session's rights are checked anew."""
        self.effective_roles.forget()
        for entry in self:
            self._apply_role(entry.session)

    def remove(self, entry: SessionEntry) -> None:
        """The session has ended."""
        self._entries.pop(entry.pid, None)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[SessionEntry]:
        return iter(list(self._entries.values()))

    def get(self, pid: int) -> SessionEntry | None:
        """A session by its number."""
        return self._entries.get(pid)

    def of_user(self, user: str) -> int:
        """How many sessions a user has."""
        return sum(entry.user == user for entry in self._entries.values())

    def cancel(self, pid: int, secret: int) -> bool:
        """End the statement that a session runs, if ``secret`` is its; else nothing happens (False)."""
        entry = self._entries.get(pid)
        if entry is None or not hmac.compare_digest(_bytes(entry.secret), _bytes(secret)):
            return False
        entry.session.cancel()
        return True

    def signal(self, pid: int, *, terminate: bool, user: str | None = None) -> bool:
        """As pg_cancel_backend or pg_terminate_backend: False when there is no such session.

        SqlError 42501 when ``user`` may not; None: it has been checked already.
        """
        entry = self._entries.get(pid)
        if entry is None:
            return False
        if user is not None:
            self._check_right(entry.user, user, terminate=terminate)
        if terminate:
            entry.end(SqlError("57P01", "terminating connection due to administrator command"))
        else:
            entry.session.cancel()
        return True

    def end(self, session: Session, error: SqlError) -> None:
        """End the connection that has a session, if one has, and tell its client ``error``."""
        for entry in self:
            if entry.session is session:
                entry.end(error)

    def _check_right(self, owner: str, user: str, *, terminate: bool) -> None:
        if owner == user or self._is_superuser(user):
            return
        if self._is_superuser(owner):
            what = "terminate superuser process" if terminate else "cancel superuser query"
            raise SqlError("42501", f"must be a superuser to {what}")
        what = "process is being terminated" if terminate else "query is being canceled"
        raise SqlError("42501", f"must be a member of the role whose {what} or member of pg_signal_backend")

    def _is_superuser(self, name: str) -> bool:
        return self.effective_roles.of_name(name).is_superuser

    def roles(self) -> Iterable[RoleRow]:
        """The roles there are."""
        for role in () if self.role_store is None else self.role_store:
            yield RoleRow(
                role.name,
                role.is_superuser,
                role.can_login,
                role.ident,
                role.creates_roles,
                role.creates_databases,
                role.inherits,
                role.replicates,
                role.bypasses_row_security,
                role.connection_limit,
                role.valid_until,
                tuple(RoleMember(one.role, one.admin, one.grantor) for one in role.memberships),
                shown_settings(role),
            )

    def server_settings(self, user: str) -> Iterable[SettingRow]:
        """The server's configuration; superusers see it."""
        return self.configuration() if self._is_superuser(user) else ()

    def sessions(self) -> Iterable[TransactionBlock]:
        """Every session."""
        return [entry.session for entry in self]

    def activity(self) -> Iterable[Activity]:
        """What every session does."""
        for entry in self:
            yield entry.activity()


def _bytes(secret: int) -> bytes:
    return (secret & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "big")
