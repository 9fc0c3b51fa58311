"""ANALYZE's part of a statement over many tables, planned again for the table as it is. Beside ``rebind``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from herdpy_server.sessions.rebind import Rebind
from herdpy_sql.errors import SqlError
from herdpy_sql.plan import Plan
from herdpy_sql.plan.analyze import AnalyzePlan

if TYPE_CHECKING:
    from herdpy_server.sessions.statements import Statements
    from herdpy_sql.plan.columnar import ColumnarSelect


class Reanalyze(Rebind):
    """Plans the look at one table again."""

    def __init__(self, session: Statements, plan: AnalyzePlan) -> None:
        self._session = session
        self._table = plan.table

    def __call__(self) -> tuple[Plan, Sequence[object]]:
        """The plan; SqlError 42P01 when the table is no more."""
        table = self._session.catalog.tables.get(self._table.id)
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
