"""Runs statements against the in-memory view, both engines included, as a session would."""

from __future__ import annotations

from collections.abc import Sequence

from fake_view import FakeView
from golden import Block

from herdpy_sql.clock import Clock
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.base import Plan, PlanOutcome
from herdpy_sql.execute.stages import StagedPlan
from herdpy_sql.parse import split
from herdpy_sql.plan import Explain, ShowSetting, prepare
from herdpy_sql.values import input_converter, to_text

CLOCK = Clock(1_700_000_000_000_000, 1_700_000_000_000_000)


class Session:
    """One view and what has been done to it."""

    def __init__(self) -> None:
        self.view = FakeView()

    def plan(self, sql: str, **options) -> Plan:
        (statement,) = split(sql)
        return prepare(statement, self.view.catalog, **options)

    def run(self, sql: str, params: Sequence[object] = (), **options) -> PlanOutcome:
        return self.execute(self.plan(sql, **options), params)

    def execute(self, plan: Plan, params: Sequence[object] = ()) -> PlanOutcome:
        if len(params) != len(plan.param_types):
            raise SqlError("08P01", f"{len(params)} parameters given, {len(plan.param_types)} needed")
        datums = tuple(
            None if value is None else input_converter(kind)(value)
            for value, kind in zip(params, plan.param_types, strict=True)
        )
        saved = self.view.save()
        try:
            if isinstance(plan, StagedPlan):
                return self._in_stages(plan, datums)
            answer = None if plan.source is None else self._asked(plan.source, datums)
            return plan.run(self.view, datums, CLOCK, answer)
        except BaseException:
            self.view.restore(saved)  # a failed statement leaves nothing
            raise

    def _asked(self, query, datums):
        snapshot = self.view.snapshot()
        tables = {
            scan.name: snapshot.arrow(scan.table, scan.positions, *scan.bounds(datums))
            for scan in query.scans
        }
        return query.run(tables, datums, CLOCK)

    def _in_stages(self, plan: StagedPlan, datums) -> PlanOutcome:
        steps = plan.asking(self.view, datums, CLOCK)
        answer = None
        while True:
            try:
                asked = steps.send(answer)
            except StopIteration as stop:
                return stop.value
            answer = self._asked(asked.source, datums)

    def rows(self, sql: str, params: Sequence[object] = (), **options) -> list[tuple[object, ...]]:
        """The rows of a query as datums, whichever engine ran it."""
        plan = self.plan(sql, **options)
        return self.datums(plan, self.execute(plan, params))

    @staticmethod
    def datums(plan: Plan, outcome: PlanOutcome) -> list[tuple[object, ...]]:
        if outcome.rows is not None:
            return outcome.rows
        from herdpy_sql.columnar import to_datums

        assert outcome.table is not None
        assert plan.columns is not None
        return to_datums(outcome.table, [column.type for column in plan.columns])

    def answer(self, block: Block) -> list[str]:
        """The lines that a golden script shows for a statement."""
        try:
            plan = self.plan(block.text)
            if isinstance(plan, Explain):
                return plan.lines()
            if type(plan).run is Plan.run:
                names = "" if not isinstance(plan, ShowSetting) else " " + plan.name
                return [f"({type(plan).__name__}{names})"]
            outcome = self.execute(plan, block.params)
        except SqlError as error:
            lines = [f"ERROR {error.sqlstate}: {error.message}"]
            lines += [f"DETAIL: {error.detail}"] if error.detail else []
            lines += [f"HINT: {error.hint}"] if error.hint else []
            if error.position is not None:
                lines.append(f"POSITION: {error.position}")
            return lines
        lines = []
        if plan.columns is not None:
            lines.append(" | ".join(column.name for column in plan.columns))
            writers = [to_text(column.type) for column in plan.columns]
            for row in self.datums(plan, outcome):
                shown = ["NULL" if v is None else w(v) for v, w in zip(row, writers, strict=True)]
                lines.append(" | ".join(shown).rstrip())
        return [*lines, plan.command_tag(outcome.count)]
