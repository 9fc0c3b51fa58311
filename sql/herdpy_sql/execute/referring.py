"""Statements that write to tables with foreign keys: another plan, and what follows from what it wrote.

Around ``insert``, ``change`` and whatever else writes rows. The plan within has a ReferenceView before it,
which is settled when all rows are written.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, Any, cast

from herdpy_sql.execute.base import Outcome, Plan
from herdpy_sql.execute.references import ReferenceView

if TYPE_CHECKING:
    import pyarrow as pa

    from herdpy_sql.catalog import Table
    from herdpy_sql.execute.base import Row
    from herdpy_sql.execute.references import RowTools
    from herdpy_sql.storage import Clock, Reader, View


class ReferringPlan(Plan):
    """Any statement that writes rows."""

    def __init__(self, writer: Plan, tools: RowTools) -> None:
        self.writer: Any = writer
        self.tools = tools
        self.tag = writer.tag
        self.columns = writer.columns
        self.param_types = writer.param_types
        self.source = writer.source
        self.engine = writer.engine
        self.brief = writer.brief

    @property
    def tables_written(self) -> tuple[Table, ...]:
        return cast("Plan", self.writer).tables_written

    def _noting(self, view: View) -> tuple[View, ReferenceView]:
        noting = ReferenceView(view, self.tools)
        return cast("View", noting), noting

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> Outcome:
        writing, noting = self._noting(view)
        outcome: Outcome = self.writer.run(writing, params, clock, source)
        noting.settle(clock)
        return outcome

    def run_many(self, view: View, param_rows: Iterable[Row], clock: Clock) -> Outcome:
        """Each row is a statement of its own, so what each has written is settled before the next."""
        count = 0
        for params in param_rows:
            count += self.run(view, params, clock).count
        return Outcome(None, count)

    def explain(self) -> list[str]:
        return cast("Plan", self.writer).explain()

    def command_tag(self, count: int) -> str:
        return cast("Plan", self.writer).command_tag(count)


class ReferringInsert(ReferringPlan):
    """INSERT ... SELECT, and MERGE."""

    def slices(
        self, view: View, params: Row, clock: Clock, source: pa.Table | None
    ) -> Generator[None, None, Outcome]:
        """As ``run``, in steps: see InsertSelectPlan."""
        writing, noting = self._noting(view)
        outcome: Outcome = yield from self.writer.slices(writing, params, clock, source)
        yield from noting.settle_slowly(clock)
        return outcome


class ReferringChange(ReferringPlan):
    """UPDATE and DELETE."""

    @property
    def matches(self) -> object:
        """How it finds its rows."""
        return self.writer.matches

    def slices(self, view: View, reader: Reader, params: Row, clock: Clock) -> Generator[None, None, Outcome]:
        """As ``run``, in steps: see UpdatePlan."""
        writing, noting = self._noting(view)
        outcome: Outcome = yield from self.writer.slices(writing, reader, params, clock)
        yield from noting.settle_slowly(clock)
        return outcome
