"""What is recorded of statements: their classes, and who is called for them. Below ``block``.

The audit log is called before a statement runs, so that what cannot be recorded is not done; the server's is
``herdpy_server.process.audit``. An observer is called once a statement has ended, in the engine's turn: it
takes little time and raises nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from herdpy_server.roles.effective_role import EffectiveRole
    from herdpy_server.sessions.identity import Identity
    from herdpy_server.sessions.settings import Settings
    from herdpy_sql.plan import Plan

Observer = Callable[[str, float, int, BaseException | None], object]
"""Called with a statement's text, the seconds from its beginning to its answer (waiting for locks and the
log included), its rows (returned or changed; -1: neither), and its error if it failed."""

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
