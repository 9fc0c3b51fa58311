"""A statement and its parameters as a plan and its datums, under this moment's catalog, for a role that may
run it.

Above ``block``, below ``execution``. What was bound before a wait may be out of date after it: a
:class:`Rebind` binds it again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from herdpy_server.roles.permissions import permit
from herdpy_server.sessions.audit import class_of
from herdpy_server.sessions.block import TransactionBlock
from herdpy_server.sessions.plans import Prepared
from herdpy_server.sessions.prepared import PreparedStatement
from herdpy_sql.errors import SqlError
from herdpy_sql.parse import makes_temporary
from herdpy_sql.plan import Plan
from herdpy_sql.plan.columnar import ColumnarSelect
from herdpy_sql.plan.commands import AnalyzePlan

if TYPE_CHECKING:
    from herdpy_sql.catalog import Catalog

ENDING = frozenset({"COMMIT", "END", "ROLLBACK", "ABORT"})
"""First words of the statements that a failed transaction still takes."""

Bound = Prepared | PreparedStatement
"""What gives a plan and its datums: a statement with Python's parameters, or one with datums."""

Replan = Callable[[], "tuple[Plan, Sequence[object]]"]
"""Plans again, under the catalog that the statement sees now."""


class Binding:
    """Binds the statements of one session."""

    def __init__(self, block: TransactionBlock) -> None:
        self._block = block
        self._audited = (-1, 0)  # the statement that the auditor was called for last

    @property
    def catalog(self) -> Catalog:
        """The catalog that the next statement sees."""
        return self._block.catalog

    def permit(self, prepared: Bound, plan: Plan) -> None:
        """See to it that the session's role may run a statement, and that the auditor is called for it.

        SqlError 42501, 42P01 it may not; 58030 the auditor fails.
        """
        effective_role, auditor, database = (
            self._block.checked_role,
            self._block.auditor,
            self._block.identity.database,
        )
        assert effective_role is not None
        if auditor is None:
            permit(prepared, self._block.catalog, effective_role, self._block.effective_role_of, database)
            return
        kind = class_of(plan)
        text = "" if prepared.statement is None else prepared.statement.text
        try:
            permit(prepared, self._block.catalog, effective_role, self._block.effective_role_of, database)
        except SqlError as error:
            if kind in auditor.classes:
                auditor.statement(self._block, kind, text, sqlstate=error.sqlstate)
            raise
        if kind in auditor.classes:
            prepared.permits.pop(effective_role, None)  # the fast path must not pass it by
            if self._audited != (
                self._block.text_began_us,
                id(prepared),
            ):  # it may be planned again while it runs
                self._audited = (self._block.text_began_us, id(prepared))
                auditor.statement(self._block, kind, text)

    def bind(self, prepared: Bound, params: Sequence[object], *, many: bool) -> tuple[Plan, Sequence[object]]:
        """The plan and its parameters, under the catalog of this moment."""
        if self._block.failed and prepared.keyword not in ENDING:
            raise aborted()
        if prepared.statement is not None and makes_temporary(prepared.statement):
            self._block.make_temporary_schema()
        engine = self._block.settings.engine
        found: tuple[Plan, Sequence[object]]
        try:
            if many:
                assert isinstance(prepared, Prepared)
                found = prepared.convert_rows(self._block.catalog, engine, params)  # type: ignore[arg-type]
            else:
                found = prepared.plan(self._block.catalog, engine, params)
            if self._block.checked_role is not None:
                self.permit(prepared, found[0])
            return found
        except SqlError:
            self._block.failed = self._block.transaction is not None
            raise

    async def bind_when_known(
        self, prepared: Bound, params: Sequence[object], *, many: bool
    ) -> tuple[Plan, Sequence[object]]:
        """As :meth:`bind`; what this replica has not heard of yet is waited for, if the read level says
        so."""
        try:
            return self.bind(prepared, params, many=many)
        except SqlError:
            if self._block.transaction is not None or not self._block.checks.waits_to_read:
                raise
        with suppress(SqlError):  # the plan that reads raises it
            await self._block.checks.until_readable()
        return self.bind(prepared, params, many=many)


class Rebind:
    """Plans a statement again, under the catalog that it sees now."""

    def __init__(
        self,
        binding: Binding,
        prepared: Bound,
        params: Sequence[object],
        *,
        many: bool = False,
        inner: bool = False,
    ) -> None:
        """``inner``: it is about the plan of the statement within this one."""
        self._binding = binding
        self._prepared, self._params = prepared, params
        self._many, self._inner = many, inner

    def __call__(self) -> tuple[Plan, Sequence[object]]:
        """The plan and its parameters."""
        plan, values = self._binding.bind(self._prepared, self._params, many=self._many)
        return plan.inner if self._inner else plan, values

    def of_inner(self) -> Rebind:
        """The same for the statement within this one."""
        return Rebind(self._binding, self._prepared, self._params, inner=True)

    def columnar(self, own: Plan) -> ColumnarSelect | None:
        """The columnar engine's plan of a SELECT; None when it has none, or one of other columns."""
        try:
            plan = self._prepared.columnar(self._binding.catalog, own.param_types)
        except SqlError:
            return None
        plan = plan.inner if self._inner else plan
        columns, wanted = plan.columns or (), own.columns or ()
        same = [column.type for column in columns] == [column.type for column in wanted]
        return plan if same and isinstance(plan, ColumnarSelect) else None


class Reanalyze(Rebind):
    """Plans the look at one table again."""

    def __init__(self, binding: Binding, plan: AnalyzePlan) -> None:
        self._binding = binding
        self._table = plan.table

    def __call__(self) -> tuple[Plan, Sequence[object]]:
        """The plan; SqlError 42P01 when the table is no more."""
        table = self._binding.catalog.tables.get(self._table.id)
        if table is None:
            raise SqlError("42P01", f'relation "{self._table.name}" does not exist', table=self._table.name)
        return AnalyzePlan(table), ()

    def of_inner(self) -> Rebind:
        """Itself."""
        return self

    def columnar(self, own: Plan) -> ColumnarSelect | None:
        """None: it has no other way."""
        del own
        return None


class Fixed(Rebind):
    """Of a plan that looks definitions up when it runs."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def __call__(self) -> tuple[Plan, Sequence[object]]:
        """The very plan."""
        return self._plan, ()

    def of_inner(self) -> Rebind:
        """Itself."""
        return self


def session_closed() -> SqlError:
    """08003: nothing runs in it any more."""
    return SqlError("08003", "the session is closed")


def aborted() -> SqlError:
    """25P02: only the transaction's end can run."""
    return SqlError(
        "25P02", "current transaction is aborted, commands ignored until end of transaction block"
    )
