"""Which statements of a session at a follower the leader must carry out, and what is known of their outcome.

Below ``forwarding``. The choice is made by the plan, before anything of the statement has had an effect: what
writes or locks, what reads as new as only the leader can, and what the leader keeps for the session (advisory
locks, the values of sequences). What changes the session itself (settings, prepared statements, cursors that
are open here) stays.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from herdpy_server.sessions.plans import Prepared, PreparedStatement
from herdpy_sql.errors import SqlError
from herdpy_sql.plan import (
    Begin,
    ChangeRights,
    ChangeRoles,
    ChangeTablespaces,
    Checkpoint,
    CheckTablespace,
    CloseCursor,
    Commit,
    CopyFrom,
    CopyParameters,
    CopyTo,
    CreateSchemaFor,
    Deallocate,
    DeclareCursor,
    Discard,
    Execute,
    Explain,
    Fetch,
    Listen,
    Plan,
    Prepare,
    ReleaseSavepoint,
    RequestFunction,
    ResetSetting,
    Rollback,
    RollbackToSavepoint,
    Savepoint,
    SetConstraints,
    SetSetting,
    ShowSetting,
    UndropTable,
    Vacuum,
)

if TYPE_CHECKING:
    from herdpy_server.sessions import Session

_HERE = (
    Begin, ChangeTablespaces, Checkpoint, CheckTablespace, CloseCursor, Commit, Deallocate, Discard, Fetch,
    Listen, Prepare, ReleaseSavepoint, ResetSetting, Rollback, RollbackToSavepoint, Savepoint,
    SetConstraints, SetSetting, ShowSetting,
)  # fmt: skip
_THERE = (ChangeRights, ChangeRoles, CopyFrom, CopyParameters, CreateSchemaFor, UndropTable)
_UNNAMED = (ChangeRoles, UndropTable, Vacuum)
"""What is not one commit of its session's own, and so has no name."""
_OF_SESSIONS = frozenset({"use_request_id", "leader_unreached"})
_OF_LEADER = frozenset({"commit_outcome", "commit_position", "forbid_commit"})
_KEPT_BY_LEADER = re.compile(r"advisory_|\bcurrval\b|\blastval\b", re.IGNORECASE)
_KEPT_HERE = re.compile(r"\bpg_listening_channels\b", re.IGNORECASE)
_OF_DEFINITIONS = frozenset({"42P01", "42703", "42704", "42883", "3F000"})
"""Errors that newer definitions may not have."""
ENDS = frozenset({"COMMIT", "END"})


@dataclass(frozen=True, slots=True)
class StatementTraits:
    """What is known of a statement before it is forwarded.

    Attributes:
        leader: the leader must carry it out. ``reads``: it depends on what this replica has applied.
        writes: it may commit something, if it is a transaction of its own.
        named: then that commit has the name which its request has.
        tag: its command tag, where that does not depend on what it finds; else None.
    """

    leader: bool
    reads: bool = True
    writes: bool = False
    named: bool = True
    tag: str | None = None


UNKNOWN = StatementTraits(leader=True, writes=True)
"""Of a statement that has no plan here: its tables may be newer than what this replica has applied."""
_STAYS = StatementTraits(leader=False)


def traits_of(session: Session, statement: Prepared | PreparedStatement) -> StatementTraits:
    """What is known of a statement, by its plan now."""
    if statement.as_of is not None:
        return _STAYS
    try:
        plan = _plan(session, statement)
    except SqlError as error:
        newest = session.settings.read_level.level == "linearizable"
        return UNKNOWN if newest and error.sqlstate in _OF_DEFINITIONS else _STAYS
    if isinstance(plan, _HERE) or (isinstance(plan, RequestFunction) and plan.function in _OF_SESSIONS):
        return StatementTraits(leader=False, reads=False, tag=plan.tag)
    if session.settings["transaction_read_only"] == "on" and not _reads_at_leader(session, plan):
        return _STAYS  # a transaction that only reads is refused what it may not do here
    writes = _writes(session, plan)
    leader = writes or _reads_at_leader(session, plan) or bool(_KEPT_BY_LEADER.search(statement.text))
    counts = plan.columns is not None or plan.tag in {"INSERT", "UPDATE", "DELETE", "MERGE", "SELECT", "COPY"}
    tag = None if counts or isinstance(plan, Execute) else plan.tag
    reads = not _KEPT_HERE.search(statement.text)
    return StatementTraits(leader, reads, writes, not isinstance(plan, _UNNAMED), tag)


def _plan(session: Session, statement: Prepared | PreparedStatement) -> Plan:
    """SqlError as planning raises them."""
    if isinstance(statement, PreparedStatement):
        return statement.bound(session.catalog, session.settings.engine, ())[0].plan
    return statement.planned(session.catalog, session.settings.engine).plan


def _writes(session: Session, plan: Plan) -> bool:
    if isinstance(plan, _THERE):
        return True
    if isinstance(plan, Explain):
        return plan.analyze and _writes(session, plan.plan)
    if isinstance(plan, Vacuum):
        return bool(plan.analyzed)
    if isinstance(plan, DeclareCursor):
        return not plan.query.read_only
    if isinstance(plan, Execute):
        found = session.prepared.get(plan.name)
        return found is not None and traits_of(session, found).writes
    return not plan.read_only or (isinstance(plan, RequestFunction) and plan.function == "forbid_commit")


def _reads_at_leader(session: Session, plan: Plan) -> bool:
    """Whether it reads, and the session's read level wants what only the leader has."""
    if isinstance(plan, RequestFunction):
        return plan.function in _OF_LEADER
    if isinstance(plan, Execute):
        found = session.prepared.get(plan.name)
        return found is not None and traits_of(session, found).leader
    if isinstance(plan, Explain):
        return plan.analyze and _reads_at_leader(session, plan.plan)
    if isinstance(plan, (DeclareCursor, CopyTo)):
        return _reads_at_leader(session, plan.query)
    if session.settings.read_level.level != "linearizable" or not plan.read_only:
        return False
    # One statement is read here, by a question to the leader; in a transaction all is read there.
    return session.transaction is not None and not session.implicit and not session.checks.may_begin(plan)
