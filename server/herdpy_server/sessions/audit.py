"""What is recorded of statements: their classes, and the interface of the audit log. Below ``block``.

It is called before a statement runs, so that what cannot be recorded is not done. The server's
audit log implements it (``herdpy_server.process.audit``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from herdpy_server.roles.effective_role import EffectiveRole
    from herdpy_server.sessions.identity import Identity
    from herdpy_server.sessions.settings import Settings
    from herdpy_sql.plan import Plan

_ROLES = ("ROLE", "GRANT", "REVOKE", "REASSIGN", "DROP OWNED", "ALTER DEFAULT")
_DDL = ("CREATE", "ALTER", "DROP", "COMMENT", "REINDEX", "SELECT INTO")
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
