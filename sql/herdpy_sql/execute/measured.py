"""Plans that count and time their steps while they run: EXPLAIN ANALYZE's. Above ``query`` and ``change``.

``measured(plan)`` gives a plan of the same effects, whose ``explain`` says of each step what it did. Times
are of a step with all that is below it, in milliseconds, and of all its loops together.
"""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeVar

from herdpy_sql.execute.base import Plan, PlanOutcome
from herdpy_sql.execute.change import DeletePlan, OwnMatches, UpdatePlan
from herdpy_sql.execute.query import AggregatePlan, JoinedRows, JoinStep, SelectPlan, run_step
from herdpy_sql.execute.sources import RowSource
from herdpy_sql.execute.stages import StagedPlan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from herdpy_sql.clock import Clock
    from herdpy_sql.execute.base import Row
    from herdpy_sql.execute.sources import Pair
    from herdpy_sql.storage import View

T = TypeVar("T")


@dataclass
class Meter:
    """What a step has done: how often it was begun, the rows it gave, the seconds until each was there."""

    loops: int = 0
    rows: int = 0
    seconds: float = 0.0

    def watch(self, found: Iterable[T]) -> Iterator[T]:
        """The same items, counted and timed."""
        self.loops += 1
        now = time.perf_counter
        items = iter(found)
        while True:
            began = now()
            try:
                item = next(items)
            except StopIteration:
                self.seconds += now() - began
                return
            self.seconds += now() - began
            self.rows += 1
            yield item

    def __str__(self) -> str:
        if not self.loops:
            return "(never executed)"
        return f"(actual time={self.seconds * 1000:.3f} rows={self.rows} loops={self.loops})"


class MeasuredSource(RowSource):
    """A source with a meter."""

    def __init__(self, source: RowSource) -> None:
        self.table = source.table
        self.conditions = source.conditions
        self.meter = Meter()
        self._source = self._open = source

    def opened(self, view: View, params: Row, clock: Clock) -> RowSource:
        self._open = self._source.opened(view, params, clock)
        return self

    def pairs(self, view: View, outer: Row, params: Row, clock: Clock) -> Iterator[Pair]:
        return self.meter.watch(self._open.pairs(view, outer, params, clock))

    def explain(self) -> list[str]:
        title, *rest = self._source.explain()
        return [f"{title} {self.meter}", *rest]


@dataclass(frozen=True)
class MeasuredStep(JoinStep):
    """A step whose rows, after its conditions, are counted."""

    meter: Meter = field(default_factory=Meter)

    def note(self) -> str:
        return f" {self.meter}"

    def removed(self) -> list[str]:
        source = self.source
        if not isinstance(source, MeasuredSource) or not source.meter.loops or self.left:
            return []
        return [f"Rows Removed by Filter: {source.meter.rows - self.meter.rows}"]


class _MeasuredRows(JoinedRows):
    """Rows whose steps are watched one by one."""

    def rows(self, view: View, params: Row, clock: Clock) -> Iterator[Row]:
        if not self.steps:
            yield from super().rows(view, params, clock)
            return
        rows: Iterable[Row] = ((),)
        for step in self.steps:
            assert isinstance(step, MeasuredStep)
            rows = step.meter.watch(run_step(step, rows, view, params, clock, self.locking))
        yield from rows


class MeasuredSelect(SelectPlan):
    """A SELECT over own sources, every step of it watched."""

    def __init__(self, plan: SelectPlan) -> None:
        self.__dict__.update(plan.__dict__)
        given = _fields(plan.pipeline)
        self.pipeline = _MeasuredRows(**{**given, "steps": tuple(map(_measured_step, plan.pipeline.steps))})
        self.at_once = False
        self._whole = Meter()
        self._sort = Meter()

    def stream(self, view: View, params: Row, clock: Clock) -> Iterator[Row]:
        return self._whole.watch(super().stream(view, params, clock))

    def sorted_rows(self, rows: Iterable[Row], stop: int | None, params: Row, clock: Clock) -> Iterable[Row]:
        return self._sort.watch(
            _Later(lambda: super(MeasuredSelect, self).sorted_rows(rows, stop, params, clock))
        )

    def explain(self) -> list[str]:
        lines = super().explain()
        notes: list[Meter] = [self._whole] if self.limit is not None or self.offset is not None else []
        notes += [self._sort] if self.sort else []
        for i, meter in enumerate(notes):
            lines[i] = f"{lines[i]} {meter}"
        return lines


class _Later:
    """An iterable that begins its work when it is first asked for an item."""

    def __init__(self, make: Any) -> None:
        self._make = make

    def __iter__(self) -> Iterator[Any]:
        yield from self._make()


class _MeasuredRun(Plan):
    """A plan of one step, watched as a whole."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.meter = Meter()
        for name in ("tag", "columns", "param_types", "read_only", "source", "engine", "brief"):
            setattr(self, name, getattr(plan, name))

    @property
    def tables_written(self) -> Any:
        return self._plan.tables_written

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> PlanOutcome:
        began = time.perf_counter()
        outcome = self._plan.run(view, params, clock, source)
        self.meter.loops, self.meter.rows = 1, outcome.count  # a statement that waited runs again
        self.meter.seconds = time.perf_counter() - began
        return outcome

    def explain(self) -> list[str]:
        title, *rest = self._plan.explain()
        return [f"{title} {self.meter}", *rest]


def measured(plan: Plan) -> Plan:
    """A plan with the effects of ``plan`` that explains what it did. Run it once."""
    if isinstance(plan, AggregatePlan):
        given, plan = plan.given, copy.copy(plan)
        plan.given = MeasuredSelect(given)
        return _MeasuredRun(plan)
    if isinstance(plan, SelectPlan) and not plan.pipeline.locking:
        return MeasuredSelect(plan)
    if isinstance(plan, UpdatePlan | DeletePlan):
        matches = copy.copy(plan.matches)
        if isinstance(matches, OwnMatches):
            matches.access = MeasuredSource(matches.access)
        plan = copy.copy(plan)
        plan.matches = matches
    if isinstance(plan, StagedPlan):
        return plan.measured(measured)
    return _MeasuredRun(plan)


def _measured_step(step: JoinStep) -> MeasuredStep:
    return MeasuredStep(**{**_fields(step), "source": MeasuredSource(step.source)})


def _fields(one: JoinedRows | JoinStep) -> dict[str, Any]:
    return {found.name: getattr(one, found.name) for found in fields(one)}
