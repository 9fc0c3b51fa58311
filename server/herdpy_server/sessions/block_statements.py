"""Statements about one row by its key in an open transaction, and those that begin and end it, each as one
function: prepared statements resolved for the block.

Above ``session``, whose way of such a statement is the meaning of this one; beside ``point_reads``, which are
those outside of a transaction. A front end makes a :class:`BlockStatement` for a statement that it has run
before, and gives it the bytes of its answers. Datums come in; the row is found, locked and written to the
transaction's own layer; the answer's bytes go out.

Whatever is unusual (a transaction with definitions of its own or one snapshot, a right that was not looked
at yet, no room, an error) ends in nothing having happened: then the statement is run as any other one, which
finds it again and says so. Only a lock that another transaction has is met once: the statement is in its
queue then, and the long way goes on from there.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Coroutine, Sequence
from time import perf_counter, time_ns
from typing import Any

from herdpy.log import Append, LogError
from herdpy_server.sessions.plans import PreparedStatement, ReadyPlan
from herdpy_server.sessions.result import Result
from herdpy_server.sessions.row_steps import RowStep
from herdpy_server.sessions.session import Session
from herdpy_server.sessions.time_slices import FEW_CHANGES, let_go
from herdpy_server.store import Workspace
from herdpy_server.tablespace import Transaction, sql_error
from herdpy_sql.clock import Clock
from herdpy_sql.plan import PlanOutcome
from herdpy_sql.storage import MustWait


class LoggedAnswer:
    """The answer to a statement that has its place in the log, and is over once that is durable.

    Attributes:
        append: what it waits for.
    """

    __slots__ = ("_answer", "_began_s", "_count", "_session", "_text", "append")

    def __init__(
        self, session: Session, append: Append, answer: bytes, text: str, count: int, began_s: float
    ) -> None:
        """``text``, ``count``, ``began_s``: for the session's observer, which is called at the end."""
        self._session = session
        self.append = append
        self._answer = answer
        self._text = text
        self._count = count
        self._began_s = began_s
        session.waits.log_since_s = perf_counter()

    def give(self) -> bytes:
        """The log has answered, and so the statement is over: its answer. SqlError: why it is not kept."""
        session = self._session
        observer = session.observer
        session.is_running = False
        session.waits.logged()
        try:
            self.append.result()
        except LogError as lost:
            error = sql_error(lost)
            if observer is not None:
                observer(self._text, perf_counter() - self._began_s, -1, error)
            raise error from lost
        if observer is not None:
            observer(self._text, perf_counter() - self._began_s, self._count, None)
        return self._answer


Answer = bytes | LoggedAnswer | Coroutine[Any, Any, Result]
"""An answer's bytes; what has them once the log has answered; or what gives the answer, once a lock is free
or what was read is certain."""


class ResolvedStatement:
    """A prepared statement, for one session and one form of its answers.

    Attributes:
        ready: the plan that it is made of.
    """

    def __init__(self, session: Session, ready: ReadyPlan) -> None:
        self.ready = ready
        self._session = session

    @abstractmethod
    def run(self, statement: PreparedStatement, values: Sequence[Any]) -> Answer | None:
        """Carry the statement out with these datums.

        Returns:
            The answer; the statement has begun, and is over where these are bytes. None: nothing has
            happened, and it is to be run as any other statement.
        """


class BlockBegin(ResolvedStatement):
    """BEGIN without modes, outside of a transaction."""

    def __init__(self, session: Session, ready: ReadyPlan, answer: bytes) -> None:
        super().__init__(session, ready)
        self._answer = answer

    def run(self, statement: PreparedStatement, values: Sequence[Any]) -> Answer | None:
        """See :class:`ResolvedStatement`."""
        session = self._session
        if (
            session.transaction is not None
            or session.portals
            or statement.ready is not self.ready
            or not _takes_at_once(session, self.ready)
        ):
            return None
        observer = session.observer
        began_s = 0.0 if observer is None else perf_counter()
        session.waits.deadline.begin(session.settings.statement_timeout_s)
        session.begin()
        session.implicit = session.pipelined = False
        session.text = session.source = statement.text
        session.text_began_us = time_ns() // 1000
        if observer is not None:
            observer(statement.text, perf_counter() - began_s, -1, None)
        return self._answer


class BlockCommit(ResolvedStatement):
    """COMMIT of a transaction that is ready for it."""

    def __init__(self, session: Session, ready: ReadyPlan, answer: bytes) -> None:
        super().__init__(session, ready)
        self._answer = answer

    def run(self, statement: PreparedStatement, values: Sequence[Any]) -> Answer | None:
        """See :class:`ResolvedStatement`. SqlError as ``TransactionBlock.place``."""
        session = self._session
        transaction = session.transaction
        if (
            transaction is None
            or session.failed
            or session.implicit
            or session.settings.request_id
            or statement.ready is not self.ready
            or not _takes_at_once(session, self.ready)
        ):
            return None
        workspace = transaction.workspace
        if workspace.deferred is not None or workspace.logs_much or session.tablespace.log.is_full:
            return None
        observer = session.observer
        began_s = 0.0 if observer is None else perf_counter()
        session.begins(statement.text)
        try:
            append = session.place(transaction)
        except BaseException as error:
            session.is_running = False
            if observer is not None:
                observer(statement.text, perf_counter() - began_s, -1, error)
            session.abort()
            raise
        if append is not None and workspace.change_count <= FEW_CHANGES:
            return LoggedAnswer(session, append, self._answer, statement.text, -1, began_s)
        if append is not None or workspace.read_position:
            return self._durable(statement.text, transaction, append, began_s)
        session.is_running = False
        if observer is not None:
            observer(statement.text, perf_counter() - began_s, -1, None)
        return self._answer

    async def _durable(
        self, text: str, transaction: Transaction, append: Append | None, began_s: float
    ) -> Result:
        """The answer, once the commit, or what the transaction has read, is durable."""
        session = self._session
        observer = session.observer
        try:
            if append is None:
                await session.checks.durable(None, transaction.workspace)
            else:
                session.waits.log_since_s = perf_counter()
                try:
                    await append
                except LogError as lost:
                    raise sql_error(lost) from lost
                finally:
                    session.waits.logged()
            await let_go(transaction)
        except BaseException as error:
            if observer is not None:
                observer(text, perf_counter() - began_s, -1, error)
            session.abort()
            raise
        finally:
            session.is_running = False
        if observer is not None:
            observer(text, perf_counter() - began_s, -1, None)
        return Result("COMMIT", -1)


def _takes_at_once(session: Session, ready: ReadyPlan) -> bool:
    """Whether a session that has not failed can carry out what only begins or ends a transaction now."""
    role = session.checked_role
    return not (
        session.exposed
        or session.notices
        or session.waits.is_closed
        or (role is not None and role not in ready.permitted)
    )


class BlockStatement(ResolvedStatement):
    """A statement about one row."""

    def __init__(self, session: Session, ready: ReadyPlan, step: RowStep) -> None:
        """Resolve the session's plan for the catalog of this moment; see :func:`is_resolvable`."""
        super().__init__(session, ready)
        self._step = step
        self._settings = session.settings
        self._checks = session.checks
        self._waits = session.waits
        self._tablespace = session.tablespace
        self._store = session.tablespace.store
        self._plan = ready.plan
        self._writes = not ready.read_only
        self._seen = self._store.visible_catalog[0]
        self._path = session.settings.path
        self._engine = session.settings.engine
        self._revision = session.settings.revision

    def _is_of(self, ready: ReadyPlan | None, workspace: Workspace) -> bool:
        """Whether ``ready`` is what this was made of, in a transaction that sees the same definitions: then
        the statement begins there."""
        if ready is not self.ready or not workspace.begins_point(self._seen, self._waits.check):
            return False
        settings = self._settings
        if settings.revision != self._revision:
            if settings.path != self._path or settings.engine != self._engine:
                return False
            self._revision = settings.revision
        return True

    def run(self, statement: PreparedStatement, values: Sequence[Any]) -> Answer | None:
        """See :class:`ResolvedStatement`."""
        session, settings = self._session, self._settings
        transaction = session.transaction
        if transaction is None or session.failed or session.implicit or session.exposed or session.notices:
            return None
        workspace = transaction.workspace
        if self._waits.is_closed:
            return None
        role = session.checked_role
        if role is not None and role not in self.ready.permitted:
            return None
        tablespace = self._tablespace
        if self._writes and (settings.read_only or tablespace.is_full):
            return None
        if tablespace.guard is not None and not self._checks.may_begin(self._plan):
            return None
        if not self._is_of(statement.ready, workspace):
            return None
        observer = session.observer
        began_s = 0.0 if observer is None else perf_counter()
        now_us = time_ns() // 1000
        self._waits.deadline.begin(settings.statement_timeout_s)
        if workspace.taken:
            workspace.taken.clear()
        clock = Clock(transaction.started_us, now_us, settings.style, workspace)
        met: Any = None
        try:
            answer = self._step.apply(transaction, workspace, values, clock)
        except MustWait as conflict:
            met, answer = conflict.wait, b""
        except Exception:  # noqa: BLE001 - the way of every statement finds it again, and says so
            _take_back(workspace)
            return None
        except BaseException:
            workspace.undo(workspace.point_mark)
            session.fail()
            raise
        if answer is None:
            return None
        transaction.queried = True
        if (
            met is None
            and self._writes
            and tablespace.guard is not None
            and not self._checks.holds(self._plan)
        ):
            met = PlanOutcome(None, self._step.count(answer))
        if met is not None:
            return session.carry_on(
                statement, values, self.ready, (clock, workspace.point_mark, met), began_s
            )
        session.text = session.source = statement.text
        session.text_began_us = now_us
        if observer is not None:
            observer(statement.text, perf_counter() - began_s, self._step.count(answer), None)
        return answer


def _take_back(workspace: Workspace) -> None:
    """An attempt has failed: nothing of it is left but locks, which the next one takes, too."""
    mark = workspace.point_mark
    if workspace.has_changed_since(mark):
        workspace.undo(mark)
    if workspace.taken:
        workspace.give_back()


def is_resolvable(session: Session, ready: ReadyPlan) -> bool:
    """Whether ``ready`` is a point statement for what all see, which is durable, and the open transaction, if
    there is one, sees that, too."""
    if not ready.is_point or ready.catalog is not session.catalog:
        return False
    seen, token = session.tablespace.store.visible_catalog
    transaction = session.transaction
    return not token if transaction is None else transaction.workspace.begins_point(seen, session.waits.check)
