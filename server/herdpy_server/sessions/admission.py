"""Whether a statement may run: bound under this moment's catalog, by a role that may, on a state new enough.

Above ``running``, below ``statements``. What is read must be as new as the session's read level wants it:
before a statement begins it may have to wait until it is (``_admitted``), and before its answer that is
looked at once more (``_vouched``). A server that is alone has no guard: there it always is.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from herdpy_server.sessions.audit import class_of
from herdpy_server.sessions.control import ENDING
from herdpy_server.sessions.plans import PlanCache, Prepared
from herdpy_server.sessions.rebind import Bound
from herdpy_server.sessions.rights import permit
from herdpy_server.sessions.running import Running
from herdpy_server.tablespace import Tablespace
from herdpy_sql.columnar import Limits
from herdpy_sql.errors import SqlError
from herdpy_sql.parse import makes_temporary
from herdpy_sql.plan import Plan
from herdpy_sql.system import SystemQuery

_AWAITED = frozenset({"bounded", "at_lsn"})


class Admission(Running):
    """Statements before they run, and before they are answered."""

    def __init__(self, tablespace: Tablespace, plans: PlanCache, limits: Limits) -> None:
        super().__init__(tablespace, limits)
        self.plans = plans
        self._told = (-1, 0)

    # Rights and definitions.

    def permit(self, prepared: Bound, plan: Plan) -> None:
        """See to it that the session's role may run a statement, and that it is told for the record.

        SqlError 42501, 42P01 it may not; 58030 it cannot be told.
        """
        standing, auditor, database = self.judged, self.auditor, self.identity.database
        assert standing is not None
        if auditor is None:
            permit(prepared, self.catalog, standing, self.standing_of, database)
            return
        kind = class_of(plan)
        text = "" if prepared.statement is None else prepared.statement.text
        try:
            permit(prepared, self.catalog, standing, self.standing_of, database)
        except SqlError as error:
            if kind in auditor.classes:
                auditor.statement(self, kind, text, sqlstate=error.sqlstate)
            raise
        if kind in auditor.classes:
            prepared.permits.pop(standing, None)  # the quick way must not pass it by
            if self._told != (self.text_began_us, id(prepared)):  # it may be planned again while it runs
                self._told = (self.text_began_us, id(prepared))
                auditor.statement(self, kind, text)

    def _bind(
        self, prepared: Bound, params: Sequence[object], *, many: bool
    ) -> tuple[Plan, Sequence[object]]:
        """The plan and its parameters, under the catalog of this moment."""
        if self.failed and prepared.keyword not in ENDING:
            raise aborted()
        if prepared.statement is not None and makes_temporary(prepared.statement):
            self.make_temporary_schema()
        engine = self.settings.engine
        found: tuple[Plan, Sequence[object]]
        try:
            if many:
                assert isinstance(prepared, Prepared)
                found = prepared.convert_rows(self.catalog, engine, params)  # type: ignore[arg-type]
            else:
                found = prepared.plan(self.catalog, engine, params)
            if self.judged is not None:
                self.permit(prepared, found[0])
            return found
        except SqlError:
            self.failed = self.transaction is not None
            raise

    async def _bound(
        self, prepared: Bound, params: Sequence[object], *, many: bool
    ) -> tuple[Plan, Sequence[object]]:
        """As ``_bind``; what this replica has not heard of yet is waited for, if the read level says so."""
        try:
            return self._bind(prepared, params, many=many)
        except SqlError:
            if self.transaction is not None or not self.waits_to_read:
                raise
        with suppress(SqlError):  # what cannot be read is told of what reads it
            await self.until_it_may_read()
        return self._bind(prepared, params, many=many)

    # How new what is read must be.

    def _take_basis(self) -> None:
        """A statement begins to read now."""
        guard = self.tablespace.guard
        self._basis = None if guard is None else guard.basis

    @property
    def waits_to_read(self) -> bool:
        """Whether this replica has not got yet what the session's read level wants: definitions, too."""
        guard, wanted = self.tablespace.guard, self.settings.read_level
        return guard is not None and wanted.level in _AWAITED and not guard.is_open(wanted)

    async def until_it_may_read(self) -> None:
        """Wait while ``waits_to_read``. SqlError as ``Guard.admit``."""
        if self.tablespace.guard is not None:
            await self.tablespace.guard.admit(self.settings.read_level)

    def _may_read(self, plan: Plan) -> bool:
        """Whether a plan that reads may begin now, at the session's read level."""
        self._take_basis()
        guard = self.tablespace.guard
        return guard is None or guard.is_open(self.settings.read_level) or not _reads_tables(plan)

    async def _admitted(self, plan: Plan) -> None:
        """Before a plan that reads: wait until it may. SqlError as ``Guard.admit``."""
        if plan.read_only and not self._may_read(plan):
            assert self.tablespace.guard is not None
            await self.tablespace.guard.admit(self.settings.read_level)
            self._take_basis()

    async def _vouched(self, plan: Plan) -> None:
        """Before the answer: what was read is as new as the session's read level wants it."""
        guard, wanted = self.tablespace.guard, self.settings.read_level
        if guard is not None and not guard.holds(wanted, self._basis) and _reads_tables(plan):
            await guard.confirm(wanted, self._basis)


def _reads_tables(plan: Plan) -> bool:
    """Whether a plan reads what is replicated: not constants alone, nor what the server knows of itself."""
    query = plan.source
    if query is not None:
        return not isinstance(query, SystemQuery) and bool(query.scans)
    return bool(getattr(plan, "pipeline", None) is None or plan.pipeline.steps)  # type: ignore[attr-defined]


def session_closed() -> SqlError:
    """08003: nothing runs in it any more."""
    return SqlError("08003", "the session is closed")


def aborted() -> SqlError:
    """25P02: only the transaction's end can run."""
    return SqlError(
        "25P02", "current transaction is aborted, commands ignored until end of transaction block"
    )
