"""Statements that write one row by its key, each a transaction of its own, as one function: prepared
statements resolved for a session outside of a block.

Beside ``block_statements``, with the same steps (``row_steps``); ``Execution``, whose way of such a statement
is the meaning of this one, stands below. A statement begins a transaction, finds and writes its row, and
takes its place in the log, all in one turn, so that it needs no locks. Its answer waits for the log.

Whatever is unusual ends in nothing having happened: then the statement is run as any other one. Only a lock
that another transaction has is met once: the statement is in its queue then, and the long way goes on from
there. What the log refuses is raised here: nothing is tried again once the commit has begun.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

from herdpy.log import Append, LogError
from herdpy_server.sessions.block_statements import Answer, LoggedAnswer, ResolvedStatement
from herdpy_server.sessions.execution import START
from herdpy_server.sessions.plans import PreparedStatement, ReadyPlan
from herdpy_server.sessions.row_steps import RowStep
from herdpy_server.sessions.session import Session
from herdpy_server.store import Workspace
from herdpy_server.tablespace import Transaction, sql_error
from herdpy_sql.clock import Clock
from herdpy_sql.storage import MustWait


class AutocommitStatement(ResolvedStatement):
    """A statement that writes one row, outside of a transaction."""

    def __init__(self, session: Session, ready: ReadyPlan, step: RowStep) -> None:
        """Resolve the session's plan for the catalog of this moment; see :func:`is_resolvable`."""
        super().__init__(session, ready)
        self._step = step
        self._settings = session.settings
        self._waits = session.waits
        self._tablespace = session.tablespace
        self._store = session.tablespace.store
        self._plan = ready.plan
        self._seen = self._store.visible_catalog[0]
        self._path = session.settings.path
        self._engine = session.settings.engine

    def _may_run(self, ready: ReadyPlan | None) -> bool:
        """Whether ``ready`` is what this was made of, and nothing is in the way of running it at once."""
        session, settings, tablespace = self._session, self._settings, self._tablespace
        seen, token = self._store.visible_catalog
        if (
            session.transaction is not None
            or ready is not self.ready
            or seen is not self._seen
            or token
            or settings.path != self._path
            or settings.engine != self._engine
            or settings.read_only
            or settings.request_id
            or not session.autocommit
            or session.portals
            or session.notices
            or session.exposed
            or self._waits.is_closed
            or tablespace.is_full
        ):
            return False
        role = session.checked_role
        if role is not None and role not in self.ready.permitted:
            return False
        return tablespace.guard is None or session.checks.may_begin(self._plan)

    def run(self, statement: PreparedStatement, values: Sequence[Any]) -> Answer | None:
        """See :class:`ResolvedStatement`. SqlError as ``TransactionBlock.place``."""
        if not self._may_run(statement.ready):
            return None
        session, tablespace = self._session, self._tablespace
        observer = session.observer
        began_s = 0.0 if observer is None else perf_counter()
        session.begins(statement.text)
        transaction = tablespace.begin(instant=True)
        transaction.partner = session.advisory
        workspace = transaction.workspace
        workspace.memory = session.sequences
        workspace.role = session.effective_role.key
        workspace.watch = self._waits.check
        now_us = transaction.started_us
        clock = Clock(now_us, now_us, self._settings.style, workspace)
        met: Any = None
        answer: bytes | None = None
        try:
            answer = self._step.apply(transaction, workspace, values, clock)
        except MustWait as conflict:
            met = conflict.wait
        except Exception:  # noqa: BLE001 - the way of every statement finds it again, and says so
            pass
        except BaseException:
            session.is_running = False
            raise
        if met is not None:
            begun = clock, START, met
            return session.carry_on(statement, values, self.ready, begun, began_s, own=transaction)
        if answer is None or (
            not workspace.records
            and (workspace.used or workspace.read_position or tablespace.guard is not None)
        ):
            _take_back(workspace)
            session.is_running = False
            return None
        append = self._commit(transaction, statement.text, began_s)
        if append is not None:
            return LoggedAnswer(session, append, answer, statement.text, self._step.count(answer), began_s)
        session.is_running = False
        if observer is not None:
            observer(statement.text, perf_counter() - began_s, self._step.count(answer), None)
        return answer

    def _commit(self, transaction: Transaction, text: str, began_s: float) -> Append | None:
        """Give it its place in the log; it is over on a SqlError, as of ``TransactionBlock.place``."""
        session, tablespace = self._session, self._tablespace
        try:
            return tablespace.commit(transaction)
        except BaseException as error:
            session.is_running = False
            tablespace.rollback(transaction)
            if session.observer is not None:
                session.observer(text, perf_counter() - began_s, -1, error)
            if isinstance(error, LogError):
                raise sql_error(error) from error
            raise


def _take_back(workspace: Workspace) -> None:
    """An attempt has come to nothing, and its transaction goes; values of sequences are for the next one."""
    if workspace.taken:
        workspace.give_back()
