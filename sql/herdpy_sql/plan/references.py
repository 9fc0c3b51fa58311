"""Which statements must look at foreign keys, and what their actions need of definitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdpy_sql.execute.change import DeletePlan, UpdatePlan
from herdpy_sql.execute.insert import InsertSelectPlan
from herdpy_sql.execute.links import links_of
from herdpy_sql.execute.merge import MergePlan
from herdpy_sql.execute.references import ReferenceView
from herdpy_sql.execute.referring import ReferringChange, ReferringInsert, ReferringPlan
from herdpy_sql.expr import Params, coerce, compile_expr
from herdpy_sql.expr.nodes import ColumnRef
from herdpy_sql.plan.rules import compile_default, rules_of

if TYPE_CHECKING:
    from herdpy.codec.kinds import Datum
    from herdpy_sql.catalog import Catalog, Table
    from herdpy_sql.execute.base import Compiled, Plan
    from herdpy_sql.execute.links import Links
    from herdpy_sql.storage import Clock, View
    from herdpy_sql.types import SqlType


class Tools:
    """What actions need of the definitions of tables: see ``execute.references``."""

    def __init__(self) -> None:
        self._casts: dict[tuple[SqlType, SqlType], Compiled] = {}

    def complete(self, table: Table, row: list[Datum], clock: Clock) -> None:
        """Compute what is computed of a row, and verify it. SqlError 23502, 23514."""
        rules_of(table).verify(row, clock)

    def default(self, table: Table, position: int, clock: Clock) -> Datum:
        """The DEFAULT of a column."""
        compute = compile_default(table, position)
        return None if compute is None else compute((), (), clock)

    def assigned(self, value: Datum, given: SqlType, wanted: SqlType, clock: Clock) -> Datum:
        """A value of one type as a column of another takes it. SqlError 22..."""
        if given == wanted or value is None:
            return value
        cast = self._casts.get((given, wanted))
        if cast is None:
            column = ColumnRef(given, 0, "value")
            cast = self._casts[given, wanted] = compile_expr(coerce(column, wanted, "assignment", Params()))
        return cast((value,), (), clock)


TOOLS = Tools()


def noting(view: View, table: Table) -> ReferenceView | None:
    """What notes the rows that are written to a table, where it refers to others or is referred to."""
    return ReferenceView(view, TOOLS) if links_of(view.catalog).concern(table.id) else None


def with_references(plan: Plan, catalog: Catalog) -> Plan:
    """The plan, or where it writes to tables with foreign keys, one that keeps them."""
    if not catalog.referencing or plan.read_only:
        return plan
    links, table = links_of(catalog), getattr(plan, "table", None)
    if table is not None and not links.concern(table.id):
        return plan
    if isinstance(plan, UpdatePlan):
        return ReferringChange(plan, TOOLS) if _touches(plan, links) else plan
    if isinstance(plan, DeletePlan):
        return ReferringChange(plan, TOOLS) if plan.table.id in links.of_parent else plan
    if isinstance(plan, InsertSelectPlan | MergePlan):
        return ReferringInsert(plan, TOOLS)
    return ReferringPlan(plan, TOOLS)


def _touches(plan: UpdatePlan, links: Links) -> bool:
    """Whether an UPDATE may change what refers or is referred to, or the row's key, which is locked."""
    table = plan.table
    watched = {at for link in links.of_child.get(table.id, ()) for at in link.key.columns}
    for link in links.of_parent.get(table.id, ()):
        watched |= {*link.key.referenced, *table.key_positions}
    if any(getattr(column, "generated", None) is not None for column in table.columns):
        return True
    return any(position in watched for position, _ in plan.assign)
