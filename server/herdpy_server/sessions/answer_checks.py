"""What must be so before an answer is given: what it rests on is durable, and as new as the session wants it.

Below ``block``. A statement that reads is checked twice: before it begins, whether this replica is as new
as the session's read level wants it (``admit``), and before its answer, whether what was read may still be
answered (``vouch``). A server that is alone has no guard: there it always may. An error that says something
of rows or definitions is an answer too (``confirm``, ``durable_definitions``).
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

from herdpy.log import Append, LastWait, LogError
from herdpy.log.wait import Wait
from herdpy_server.tablespace import DuplicateRequestError, Tablespace, lost, sql_error
from herdpy_server.tablespace.cluster import Admission, Basis
from herdpy_sql.errors import SqlError
from herdpy_sql.system import CatalogQuery

if TYPE_CHECKING:
    from herdpy_server.sessions.settings import Settings
    from herdpy_server.sessions.waits import StatementWaits
    from herdpy_server.store import Workspace
    from herdpy_server.tracing import SessionTrace
    from herdpy_sql.plan import Plan

_OF_NO_ROW = frozenset({"25006", "40001", "40P01", "55P03", "57014", "57P01", "57P03", "HP003"})
"""Errors that say nothing of rows."""
_OF_DEFINITIONS = frozenset({"42P01", "42703", "42704", "42P07", "42701", "42710"})
"""Errors of planning that say what is defined."""


class AnswerChecks:
    """The checks of one session.

    Attributes:
        basis: the guard's, when the newest statement began to read.
        trace: is given the waits for the log; None where the server does not trace.
    """

    def __init__(self, tablespace: Tablespace, settings: Settings, waits: StatementWaits) -> None:
        self.tablespace = tablespace
        self._waits = waits
        self.settings = settings
        self.basis: Basis | None = None
        self.trace: SessionTrace | None = None
        self._admission: Admission | None = None

    # How new what is read must be.

    def take_basis(self) -> None:
        """A statement begins to read now."""
        guard = self.tablespace.guard
        self.basis = None if guard is None else guard.basis

    @property
    def waits_to_read(self) -> bool:
        """Whether this replica has not got yet what the session's read level wants: definitions, too."""
        guard, wanted = self.tablespace.guard, self.settings.read_level
        return guard is not None and not guard.is_open(wanted)

    async def until_readable(self) -> None:
        """Wait while ``waits_to_read``. SqlError as ``Guard.admit``."""
        if self.tablespace.guard is not None:
            await self.tablespace.guard.admit(self.settings.read_level)

    def may_begin(self, plan: Plan) -> bool:
        """Whether a plan may begin now: always, but one that reads alone as the session's read level says."""
        guard = self.tablespace.guard
        if guard is None:
            self.basis = None
            return True
        self.basis = guard.basis
        if not plan.read_only:
            return True
        how_new = self.settings.read_level
        if how_new.level == "linearizable" and guard.leads:  # nearly always: this spares calls
            return True
        if self._admission is not None:
            self.basis, self._admission = self._admission.basis(), None
            if self.basis is not None:
                return True
        return guard.is_open(how_new) or not _reads_tables(plan)

    def ask_leader(self) -> Wait[None] | None:
        """Before a read of one turn by a follower: what to wait for; then it may begin, once, if at all.

        ``forget_admission`` comes after that. None: the read is to be admitted as others are.
        """
        guard = self.tablespace.guard
        if guard is None or self.settings.read_level.level != "linearizable":
            return None
        self._admission = guard.ask_leader()
        return None if self._admission is None else self._admission.wait

    def forget_admission(self) -> None:
        """The read has begun, or cannot: the next one asks for itself."""
        self._admission = None

    async def admit(self, plan: Plan) -> None:
        """Before a plan: wait until it may begin. SqlError as ``Guard.admit``."""
        if not self.may_begin(plan):
            assert self.tablespace.guard is not None
            self.basis = await self.tablespace.guard.admit(self.settings.read_level)

    async def admit_further(self, plan: Plan, basis: Basis | None) -> None:
        """Before what a plan reads after it began on ``basis``; SqlError as ``Guard.admit``."""
        if basis is not None and basis.valid():  # what is read now contains what was there then
            self.basis = basis
        else:
            await self.admit(plan)

    def holds(self, plan: Plan) -> bool:
        """Before the answer: whether what was read is certainly as new as the session's read level says."""
        guard = self.tablespace.guard
        if guard is None:
            return True
        how_new, basis = self.settings.read_level, self.basis
        if how_new.level == "linearizable" and basis is not None:
            return basis.valid() or not _reads_tables(plan)
        return guard.holds(how_new, basis) or not _reads_tables(plan)

    async def vouch(self, plan: Plan) -> None:
        """Before the answer: wait until ``holds`` can be said. SqlError as ``Guard.confirm``."""
        guard = self.tablespace.guard
        if guard is not None and not self.holds(plan):
            await guard.confirm(self.settings.read_level, self.basis)

    # Answers rest only on what is durable.

    async def durable(self, append: Append | None, workspace: Workspace, *, last: bool = False) -> None:
        """Answer only when what was written, and all that was read, cannot be lost any more.

        Args:
            last: nothing but the answer comes after this.
        """
        if append is None:
            if workspace.rests_on_loss:
                raise lost()
            if workspace.read_position:
                await self._read_durable(workspace.read_position)
            workspace.verified()
            return
        waits = self._waits
        waits.log_since_s = perf_counter()
        span = None if self.trace is None else self.trace.committing(append)
        try:
            await (LastWait(append) if last else append)
        except LogError as error:
            refusal = sql_error(error)
            if span is not None:
                span.end(refusal)
            raise refusal from error
        finally:
            waits.logged()
        if span is not None:
            span.end()
        if append.transaction.request_id:
            self.settings.committed(str(append.lsn))

    async def _read_durable(self, position: int) -> None:
        append = self.tablespace.durable_of(position)
        if append is not None:
            self.tablespace.log.hurry()  # this session may hold locks meanwhile
            self._waits.log_since_s = perf_counter()
            try:
                await append
            except LogError as error:
                raise lost(error) from error
            finally:
                self._waits.logged()

    async def durable_definitions(self, error: SqlError | None = None) -> None:
        """An error of planning is an answer too: it may say that a table is there, or is not."""
        await self._read_durable(self.tablespace.store.visible_catalog[1])
        guard, wanted = self.tablespace.guard, self.settings.read_level
        if guard is not None and error is not None and error.sqlstate in _OF_DEFINITIONS:
            basis = guard.basis if guard.is_open(wanted) else await guard.admit(wanted)
            if not guard.holds(wanted, basis):
                await guard.confirm(wanted, basis)

    async def confirm(self, error: BaseException, workspace: Workspace) -> None:
        """Before ``error`` is raised: what it tells of rows must be durable, as any answer."""
        if isinstance(error, DuplicateRequestError):
            await error.confirm()
        if isinstance(error, SqlError) and error.sqlstate not in _OF_NO_ROW:
            await self.durable(None, workspace)
            guard = self.tablespace.guard
            if guard is not None and not self.settings.standby:
                await guard.confirm(self.settings.read_level, self.basis)


def _reads_tables(plan: Plan) -> bool:
    """Whether a plan reads what is replicated: not constants alone, nor what the server knows of itself."""
    query = plan.source
    if query is not None:
        return not isinstance(query, CatalogQuery) and bool(query.scans)
    return bool(getattr(plan, "pipeline", None) is None or plan.pipeline.steps)  # type: ignore[attr-defined]
