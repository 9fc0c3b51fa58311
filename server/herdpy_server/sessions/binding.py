"""A statement and its parameters as a plan and its datums, under this moment's catalog, for a role that may
run it.

Above ``block``, below ``execution``. What was bound before a wait may be out of date after it: then a
:class:`BoundStatement` is bound again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mypy_extensions import mypyc_attr

from herdpy_server.roles.permissions import permit
from herdpy_server.sessions.block import TransactionBlock
from herdpy_server.sessions.flashback import NeedsPast
from herdpy_server.sessions.identity import class_of
from herdpy_server.sessions.plans import Prepared, PreparedStatement, ReadyPlan
from herdpy_sql.errors import SqlError
from herdpy_sql.plan import Plan
from herdpy_sql.plan.columnar import ColumnarSelect
from herdpy_sql.plan.commands import AnalyzePlan

if TYPE_CHECKING:
    from herdpy_server.tablespace.past import PastState
    from herdpy_sql.catalog import Catalog

ENDING = frozenset({"COMMIT", "END", "ROLLBACK", "ABORT"})
"""First words of the statements that a failed transaction still takes."""

Bindable = Prepared | PreparedStatement
"""What gives a plan and its datums: a statement with Python's parameters, or one with datums."""


class Binding:
    """Binds the statements of one session."""

    def __init__(self, block: TransactionBlock) -> None:
        self._block = block
        self._settings = block.settings
        self._audited = (-1, 0)  # the statement that the auditor was called for last

    @property
    def catalog(self) -> Catalog:
        """The catalog that the next statement sees."""
        return self._block.catalog

    def catalog_for(self, past: PastState | None) -> Catalog:
        """The same, for a statement that reads that state of the past."""
        now = self._block.catalog
        return now if past is None else now.reading(past.catalog)

    def bind(
        self, statement: Bindable, params: Sequence[object], *, many: bool, past: PastState | None = None
    ) -> tuple[ReadyPlan, Sequence[Any]]:
        """The plan and its parameters, under the catalog of this moment, seen to be permitted.

        NeedsPast when it reads the past, which is not given. SqlError 25P02, 42501, and all that planning and
        the conversion of values raise.
        """
        block = self._block
        if block.failed and statement.keyword not in ENDING:
            raise aborted()
        if statement.makes_temporary:
            block.make_temporary_schema()
        ready: ReadyPlan
        values: Sequence[Any]
        catalog = block.catalog
        if statement.as_of is not None:
            if past is None:
                raise NeedsPast(statement.as_of)
            catalog = catalog.reading(past.catalog)
        if many:
            assert isinstance(statement, Prepared)
            ready, values = statement.convert_rows(catalog, self._settings.engine, params)  # type: ignore[arg-type]
        else:
            ready, values = statement.bound(catalog, self._settings.engine, params)  # type: ignore[arg-type]
        role = block.checked_role
        if role is not None and role not in ready.permitted:
            self._permit(statement, ready, catalog)
        return ready, values

    def _permit(self, statement: Bindable, ready: ReadyPlan, catalog: Catalog) -> None:
        """See to it that the session's role may run a statement, and that the auditor is called for it.

        SqlError 42501, 42P01 it may not; 58030 the auditor fails.
        """
        block = self._block
        role, auditor, parsed = block.checked_role, block.auditor, statement.statement
        assert role is not None
        assert parsed is not None
        kind = "" if auditor is None else class_of(ready.plan)
        try:
            permit(parsed, ready.permitted, catalog, role, block.effective_role_of, block.identity.database)
        except SqlError as error:
            if auditor is not None and kind in auditor.classes:
                auditor.statement(block, kind, parsed.text, sqlstate=error.sqlstate)
            raise
        if auditor is not None and kind in auditor.classes:
            ready.permitted.discard(role)  # the next run is to be recorded, too
            audited = (block.text_began_us, id(statement))
            if self._audited != audited:  # it may be planned again while it runs
                self._audited = audited
                auditor.statement(block, kind, parsed.text)


@mypyc_attr(allow_interpreted_subclasses=True)
class BoundStatement:
    """A statement that runs, with the plan and the datums that it is now.

    Attributes:
        many: ``params``, and ``values``, are rows of them.
        ready, values: as of the last time that it was bound.
        past: the state of the past that it reads; None: it reads the present, or it is not known yet.
    """

    __slots__ = ("_binding", "_params", "_statement", "many", "past", "ready", "values")

    ready: ReadyPlan
    values: Sequence[Any]

    def __init__(
        self, binding: Binding, statement: Bindable, params: Sequence[object], *, many: bool = False
    ) -> None:
        """It is not bound yet."""
        self._binding = binding
        self._statement, self._params = statement, params
        self.many = many
        self.past: PastState | None = None

    def bind(self) -> None:
        """Plan it under the catalog that it sees now. SqlError as ``Binding.bind``."""
        self.ready, self.values = self._binding.bind(
            self._statement, self._params, many=self.many, past=self.past
        )

    @property
    def only_past(self) -> bool:
        """Whether a state of the past is all that it reads and does."""
        return self.past is not None and self.ready.reads_now

    def columnar(self) -> ColumnarSelect | None:
        """The columnar engine's plan of a SELECT; None when it has none, or one of other columns."""
        own = self.ready.plan
        try:
            catalog = self._binding.catalog_for(self.past)
            plan = self.part_of(self._statement.columnar(catalog, own.param_types))
        except SqlError:
            return None
        columns, expected = plan.columns or (), own.columns or ()
        same = [column.type for column in columns] == [column.type for column in expected]
        return plan if same and isinstance(plan, ColumnarSelect) else None

    def part_of(self, plan: Plan) -> Plan:
        """What of the statement's plan is run."""
        return plan

    def row(self, at: int) -> BoundStatement:
        """The same for one of many rows of parameters."""
        return BoundRow(self, at)

    def inner(self, plan: Plan) -> BoundStatement:
        """The statement within this one, whose plan is ``plan`` now."""
        inner = InnerStatement(self._binding, self._statement, self._params, plan, self.values)
        inner.past = self.past
        return inner


class BoundRow(BoundStatement):
    """One of many rows of parameters."""

    __slots__ = ("_at", "_whole")

    def __init__(self, whole: BoundStatement, at: int) -> None:
        self._whole, self._at = whole, at
        self.ready, self.values, self.many = whole.ready, whole.values[at], False
        self.past = whole.past

    def bind(self) -> None:
        """See :class:`BoundStatement`."""
        self._whole.bind()
        self.ready, self.values = self._whole.ready, self._whole.values[self._at]


class InnerStatement(BoundStatement):
    """The statement within another one, as EXPLAIN and DECLARE have it."""

    __slots__ = ()

    def __init__(
        self,
        binding: Binding,
        statement: Bindable,
        params: Sequence[object],
        plan: Plan,
        values: Sequence[Any],
    ) -> None:
        super().__init__(binding, statement, params)
        self.ready, self.values = ReadyPlan(plan), values

    def bind(self) -> None:
        """See :class:`BoundStatement`."""
        super().bind()
        self.ready = ReadyPlan(self.ready.plan.inner)

    def part_of(self, plan: Plan) -> Plan:
        """See :class:`BoundStatement`."""
        return plan.inner


class ColumnarStatement(BoundStatement):
    """The same statement by the columnar engine's plan; see ``BoundStatement.columnar``."""

    __slots__ = ("_whole",)

    def __init__(self, whole: BoundStatement, plan: ColumnarSelect) -> None:
        self._whole = whole
        self.ready, self.values, self.many = ReadyPlan(plan), whole.values, False
        self.past = whole.past

    def bind(self) -> None:
        """See :class:`BoundStatement`; SqlError 40001 when it has no such plan any more."""
        self._whole.bind()
        plan = self._whole.columnar()
        if plan is None:
            raise redefined()
        self.ready, self.values = ReadyPlan(plan), self._whole.values


class PlanAlone(BoundStatement):
    """A plan that no text was planned for, and that looks definitions up when it runs."""

    __slots__ = ()

    def __init__(self, plan: Plan, values: Sequence[Any] = (), past: PastState | None = None) -> None:
        self.ready, self.values, self.many = ReadyPlan(plan), values, False
        self.past = past

    def bind(self) -> None:
        """Nothing: it stays the plan that it is."""

    def columnar(self) -> ColumnarSelect | None:
        """None: there is no other way to run it."""
        return None


class AnalyzedTable(PlanAlone):
    """The look at one table that ANALYZE takes."""

    __slots__ = ("_catalog_of", "_table")

    def __init__(self, binding: Binding, plan: AnalyzePlan) -> None:
        super().__init__(plan)
        self._catalog_of = binding
        self._table = plan.table

    def bind(self) -> None:
        """See :class:`BoundStatement`; SqlError 42P01 when the table is no more."""
        table = self._catalog_of.catalog.tables.get(self._table.id)
        if table is None:
            raise SqlError("42P01", f'relation "{self._table.name}" does not exist', table=self._table.name)
        self.ready = ReadyPlan(AnalyzePlan(table))


def redefined() -> SqlError:
    """40001: the answer would not have the columns that the client expects."""
    return SqlError(
        "40001", "definitions were changed while the query began", hint="Run the transaction again."
    )


def session_closed() -> SqlError:
    """08003: nothing runs in it any more."""
    return SqlError("08003", "the session is closed")


def aborted() -> SqlError:
    """25P02: only the transaction's end can run."""
    return SqlError(
        "25P02", "current transaction is aborted, commands ignored until end of transaction block"
    )
