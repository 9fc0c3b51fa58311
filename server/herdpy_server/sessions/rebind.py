"""Planning again: what was planned before a wait may be out of date after it. Beside ``statements``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from herdpy_server.sessions.plans import Prepared
from herdpy_server.sessions.prepared import PreparedStatement
from herdpy_sql.errors import SqlError
from herdpy_sql.plan import Plan
from herdpy_sql.plan.columnar import ColumnarSelect

if TYPE_CHECKING:
    from herdpy_server.sessions.statements import Statements

Bound = Prepared | PreparedStatement
"""What gives a plan and its datums: a statement with Python's parameters, or one with datums."""

Replan = Callable[[], "tuple[Plan, Sequence[object]]"]
"""Plans again, under the catalog that the statement sees now."""


class Rebind:
    """Plans a statement again, under the catalog that it sees now."""

    def __init__(
        self,
        session: Statements,
        prepared: Bound,
        params: Sequence[object],
        *,
        many: bool = False,
        inner: bool = False,
    ) -> None:
        """``inner``: it is about the plan of the statement within this one."""
        self._session = session
        self._prepared, self._params = prepared, params
        self._many, self._inner = many, inner

    def __call__(self) -> tuple[Plan, Sequence[object]]:
        """The plan and its parameters."""
        plan, values = self._session._bind(self._prepared, self._params, many=self._many)
        return plan.inner if self._inner else plan, values

    def of_inner(self) -> Rebind:
        """The same for the statement within this one."""
        return Rebind(self._session, self._prepared, self._params, inner=True)

    def columnar(self, own: Plan) -> ColumnarSelect | None:
        """The columnar engine's plan of a SELECT; None when it has none, or one of other columns."""
        try:
            plan = self._prepared.columnar(self._session.catalog, own.param_types)
        except SqlError:
            return None
        plan = plan.inner if self._inner else plan
        columns, wanted = plan.columns or (), own.columns or ()
        same = [column.type for column in columns] == [column.type for column in wanted]
        return plan if same and isinstance(plan, ColumnarSelect) else None
