"""MERGE: the pairs of source and target that a query found, each with the clause that takes it.

As with UPDATE, every row is looked up, locked and computed before the first is written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from herdpy_sql.errors import SqlError
from herdpy_sql.execute.base import Plan, PlanOutcome, ended
from herdpy_sql.execute.change import row_mode
from herdpy_sql.execute.insert import datum_rows

if TYPE_CHECKING:
    from collections.abc import Generator

    import pyarrow as pa

    from herdpy_sql.catalog import Table
    from herdpy_sql.execute.base import Compiled, Row
    from herdpy_sql.execute.change import ColumnarMatches
    from herdpy_sql.execute.insert import FromQuery
    from herdpy_sql.execute.rules import Rules
    from herdpy_sql.storage import Clock, View

UPDATE, DELETE, INSERT, NOTHING = "Update", "Delete", "Insert", "Do Nothing"
_STEP_ROWS = 64

Write = tuple[bytes | None, bytes | None, "Row | None"]
"""Key and image of the row there is (None: none), what it becomes (None: it goes)."""


@dataclass(frozen=True)
class Action:
    """What a WHEN clause does, over the query's row.

    Attributes:
        assign: UPDATE: for a position the new datum.
        insert: INSERT: the new row.
    """

    kind: str
    assign: tuple[tuple[int, Compiled], ...] = ()
    insert: FromQuery | None = None


class MergePlan(Plan):
    """MERGE. The query's row: the target's live columns, the number of the clause, what clauses compute."""

    tag = "MERGE"

    def __init__(
        self, table: Table, matches: ColumnarMatches, actions: tuple[Action, ...], rules: Rules
    ) -> None:
        self.table = table
        self.matches = matches
        self.actions = actions
        self.rules = rules
        self._modes = [row_mode(table, {position for position, _ in one.assign}) for one in actions]
        self.param_types = matches.query.param_types
        self.source = matches.source
        self.engine = matches.engine

    @property
    def tables_written(self) -> tuple[Table, ...]:
        return (self.table,)

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> PlanOutcome:
        return ended(self.slices(view, params, clock, source))

    def slices(
        self, view: View, params: Row, clock: Clock, source: pa.Table | None
    ) -> Generator[None, None, PlanOutcome]:
        """As ``run``, in steps of few rows between which others may use the database.

        The transaction of ``view`` must keep the locks that it takes.
        """
        query = self.matches.query
        found = query.run(view, params, clock, source)
        rows = found.rows if found.rows is not None else datum_rows(found.table, query.columns or ())
        place = len(self.matches.positions)
        touched: set[bytes] = set()
        writes: list[Write] = []
        for count, row in enumerate(rows, 1):
            number = row[place]
            if number is not None:
                write = self._written(view, int(number) - 1, row, touched, clock)  # type: ignore[arg-type]
                writes += [] if write is None else [write]
            if not count % _STEP_ROWS:
                yield
        for count, write in enumerate(writes, 1):
            self._write(view, write)
            if not count % _STEP_ROWS:
                yield
        return PlanOutcome(None, len(writes))

    def _written(self, view: View, nth: int, given: Row, touched: set[bytes], clock: Clock) -> Write | None:
        """What becomes of a pair that the clause ``nth`` takes, checked; the target's row is locked."""
        action = self.actions[nth]
        if action.kind == NOTHING:
            return None
        if action.insert is not None:
            return None, None, action.insert.row(view, given, clock)
        key, image, old = self.matches.current(view, given)
        if key in touched:
            raise SqlError(
                "21000",
                "MERGE command cannot affect row a second time",
                hint="Ensure that not more than one source row matches any one target row.",
            )
        touched.add(key)
        if action.kind == DELETE:
            view.lock_row(self.table, key)
            return key, image, None
        view.lock_row(self.table, key, self._modes[nth])
        new = list(old)
        for position, value in action.assign:
            new[position] = value(given, (), clock)
        self.rules.verify(new, clock)
        return key, image, tuple(new)

    def _write(self, view: View, write: Write) -> None:
        key, image, new = write
        if key is None or image is None:
            assert new is not None
            view.insert(self.table, new)
        elif new is None:
            view.delete(self.table, key, image)
        else:
            view.update(self.table, key, image, new)

    def explain(self) -> list[str]:
        first, *rest = self.matches.explain()
        actions = ", ".join(action.kind for action in self.actions)
        lines = [f"Merge on {self.table.name}", f"  Actions: {actions}", f"  -> {first}"]
        return [*lines, *(f"     {line}" for line in rest)]
