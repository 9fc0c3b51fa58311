"""Who a session's client is, who else there is, and who is called for the client's statements.

Below ``block``; a door or the registry says who the client is. The audit log is called before a statement
runs, so that what cannot be recorded is not done; the server's is ``herdpy_server.process.audit``. An
observer is called once a statement has ended, in the engine's turn: it takes little time and raises nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from herdpy_sql.objects import SYSTEM
from herdpy_sql.system import Activity, RoleRow
from herdpy_sql.system.state import DATABASE, OWNER, SettingRow

if TYPE_CHECKING:
    from herdpy_server.roles.effective_role import EffectiveRole
    from herdpy_server.sessions.settings import Settings
    from herdpy_server.sessions.statement_table import StatementTable
    from herdpy_sql.plan import Plan


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


class SessionDirectory(Protocol):
    """Who else there is, and who might be.

    Attributes:
        statements: what the server's statements cost; None where they are not counted.
    """

    statements: StatementTable | None

    def roles(self) -> Iterable[RoleRow]:
        """Every role."""

    def activity(self) -> Iterable[Activity]:
        """Every session."""

    def sessions(self) -> Iterable[Any]:
        """The sessions themselves (``TransactionBlock``)."""

    def server_settings(self, user: str) -> Iterable[SettingRow]:
        """The server's configuration, as far as ``user`` may see it."""

    def signal(self, pid: int, *, terminate: bool, user: str) -> bool:
        """Have ``user`` cancel what a session runs, or end the session; False when there is no such session.

        SqlError 42501 when the user may not.
        """


Observer = Callable[[str, float, int, BaseException | None], object]
"""Called with a statement's text, the seconds from its beginning to its answer (waiting for locks and the
log included), its rows (returned or changed; -1: neither), and its error if it failed."""

ObserverOf = Callable[[Any], Observer]
"""Gives a session (``TransactionBlock``) its observer, before the session's client is known."""

_ROLES = ("ROLE", "GRANT", "REVOKE", "REASSIGN", "DROP OWNED", "ALTER DEFAULT")
_DDL = ("CREATE", "ALTER", "DROP", "COMMENT", "REINDEX", "SELECT INTO", "UNDROP")
_WRITES = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE"})


class AuditedSession(Protocol):
    """The session that a statement is of, as far as a record names it; see ``TransactionBlock``."""

    settings: Settings
    identity: Identity
    effective_role: EffectiveRole


class Auditor(Protocol):
    """The audit log.

    Attributes:
        classes: which classes of events it wants.
    """

    classes: frozenset[str]

    def statement(self, session: AuditedSession, kind: str, text: str, *, sqlstate: str = "00000") -> None:
        """A statement is about to run, or was refused with ``sqlstate``.

        Raises:
            SqlError: 58030 it cannot be recorded, so it may not run.
        """

    def event(self, kind: str, what: str, fields: dict[str, object]) -> None:
        """Something else happened. SqlError 58030 as above."""


def class_of(plan: Plan) -> str:
    """The class of a statement: "role", "ddl", "write", "read", "misc"."""
    plan = plan.inner
    tag = plan.tag
    if type(plan).__name__ == "ChangeRights" or any(word in tag for word in _ROLES):
        return "role"
    if tag in _WRITES or (tag == "COPY" and type(plan).__name__ != "CopyTo"):
        return "write"
    if tag == "SELECT":
        return "read" if plan.read_only else "write"
    if tag == "COPY":
        return "read"
    return "ddl" if tag.startswith(_DDL) else "misc"
