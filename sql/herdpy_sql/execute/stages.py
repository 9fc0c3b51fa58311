"""Statements of several that all see the database as it was before: WITH queries that change data.

Writes are kept back until every stage has read what it reads, and are then made in order. A row that two
stages change is changed by the first alone.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from herdpy_sql.execute.base import Plan, PlanOutcome
from herdpy_sql.execute.insert import datum_rows
from herdpy_sql.execute.kept_back import KeptBack
from herdpy_sql.execute.references import ReferenceView

if TYPE_CHECKING:
    import pyarrow as pa

    from herdpy_sql.catalog import Table
    from herdpy_sql.clock import Clock
    from herdpy_sql.execute.base import Row
    from herdpy_sql.execute.references import RowTools
    from herdpy_sql.given import Given
    from herdpy_sql.storage import View
    from herdpy_sql.types import SqlType


@dataclass(frozen=True)
class Stage:
    """One statement of the whole.

    Attributes:
        name: of the WITH query; empty for the statement itself.
        relation: what its rows are for the stages behind it; None where nobody can read them.
        changes: it changes data.
    """

    name: str
    plan: Plan
    relation: Given | None
    changes: bool


class AskedRows(Plan):
    """What a stage asks of the columnar engine, with the rows that it needs of stages before it."""

    read_only = True
    engine = "columnar"

    def __init__(self, source: Any) -> None:
        self.source = source


class _Given:
    """What stages have from those before, for the columnar engine: the types of all parameters, and rows."""

    def __init__(self, param_types: tuple[SqlType, ...]) -> None:
        self._param_types = param_types
        self._new: list[tuple[Given, Sequence[Row]]] = []
        self._tables: dict[int, pa.Table] = {}

    def add(self, relation: Given, rows: Sequence[Row]) -> None:
        """A stage has given rows."""
        self._new.append((relation, rows))

    def to(self, source: Any) -> Any:
        """A query with what it needs of it. Queries over the system catalog need none."""
        if not hasattr(source, "handing"):
            return source
        for relation, rows in self._new:
            self._tables[relation.table.id] = relation.arrow(rows)
        self._new.clear()
        return source.handing(self._tables, self._param_types)


class StagedPlan(Plan):
    """A statement in stages. ``source`` is what the first of them asks that asks anything.

    Attributes:
        tag: the last one's, unless it is given.
        tools: for foreign keys; None where there are none.
    """

    def __init__(
        self,
        stages: tuple[Stage, ...],
        param_types: tuple[SqlType, ...],
        tools: RowTools | None,
        tag: str | None = None,
    ) -> None:
        last = stages[-1].plan
        self.stages = stages
        self.param_types = param_types
        self.tools = tools
        self.tag = last.tag if tag is None else tag
        self.columns = last.columns
        asking = [stage.plan for stage in stages if stage.plan.source is not None]
        self.source = asking[0].source if asking else None
        self.engine = "columnar" if asking else "own"

    @property
    def tables_written(self) -> tuple[Table, ...]:
        return tuple(table for stage in self.stages for table in stage.plan.tables_written)

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> PlanOutcome:
        steps = self.asking(view, params, clock)
        try:
            next(steps)
        except StopIteration as stop:
            outcome: PlanOutcome = stop.value
            return outcome
        raise ValueError("a plan that asks the columnar engine is run by asking()")

    def asking(self, view: View, params: Row, clock: Clock) -> Generator[AskedRows, pa.Table, PlanOutcome]:
        """Carry it out: gives what is to be asked, and is sent the answer.

        The transaction of ``view`` must keep the locks that it takes. Raises as ``run``.
        """
        back = KeptBack(view)
        outcome = yield from self._reading(back, params, clock, _Given(self.param_types))
        if self.tools is None:
            back.make(view)
        else:
            noting = ReferenceView(view, self.tools)
            back.make(cast("View", noting))
            noting.settle(clock)
        return outcome

    def _reading(
        self, back: KeptBack, params: Row, clock: Clock, given: _Given
    ) -> Generator[AskedRows, pa.Table, PlanOutcome]:
        """Run the stages, their writes being kept back."""
        outcome = PlanOutcome(None, 0)
        for stage in self.stages:
            plan, answer = stage.plan, None
            if isinstance(plan, StagedPlan):
                outcome = yield from plan._reading(back, params, clock, given)
            else:
                if plan.source is not None:
                    answer = yield AskedRows(given.to(plan.source))
                outcome = plan.run(cast("View", back), params, clock, answer)
            if stage.relation is not None:
                rows = back.relations[stage.relation.table.id] = _rows(outcome, plan)
                given.add(stage.relation, rows)
        return outcome

    def measured(self, measured: Callable[[Plan], Plan]) -> StagedPlan:
        """The same of stages that ``measured`` made of these."""
        stages = tuple(replace(stage, plan=measured(stage.plan)) for stage in self.stages)
        found = StagedPlan(stages, self.param_types, self.tools, self.tag)
        found.calls, found.brief, found.read_only = self.calls, self.brief, self.read_only
        return found

    def explain(self) -> list[str]:
        lines = self.stages[-1].plan.explain()
        for stage in self.stages[:-1]:
            lines += [f"  CTE {stage.name}", *(f"    {line}" for line in stage.plan.explain())]
        return lines


def _rows(outcome: PlanOutcome, plan: Plan) -> Sequence[Row]:
    if outcome.rows is not None:
        return outcome.rows
    return datum_rows(outcome.table, plan.columns or ())
