"""SELECT ... FOR UPDATE and its relatives, and LOCK TABLE: rows and tables that are locked to be kept.

Rows are locked in the order in which they are answered, after ORDER BY and before OFFSET and LIMIT: a queue's
reader locks the row that it takes and no other. A row that another transaction holds is waited for, refused
or passed over, as the statement says.
"""

from __future__ import annotations

import itertools
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from herdpy_sql.errors import SqlError
from herdpy_sql.execute.base import Plan, PlanOutcome, SourceChanged
from herdpy_sql.execute.change import same_values
from herdpy_sql.execute.insert import datum_rows
from herdpy_sql.execute.query import JoinedRows, SelectPlan, SortKey, count_of, sort_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa

    from herdpy_sql.catalog import Table
    from herdpy_sql.clock import Clock
    from herdpy_sql.execute.base import Compiled, OutputColumn, Row
    from herdpy_sql.execute.query import JoinStep
    from herdpy_sql.storage import View
    from herdpy_sql.types import SqlType

WhenHeld = Literal["wait", "skip", "refuse"]
"""What becomes of a row that another transaction holds."""


class RowLock(NamedTuple):
    """How rows of one table in FROM are locked: in a mode of ``lock_modes``."""

    mode: int
    when_held: WhenHeld


def lock_row(view: View, table: Table, key: bytes, lock: RowLock) -> bool:
    """Lock a row; False where it is to be passed over. SqlError 55P03 where that is refused; MustWait."""
    if lock.when_held == "wait":
        view.lock_row(table, key, lock.mode)
        return True
    if view.try_lock_row(table, key, lock.mode):
        return True
    if lock.when_held == "skip":
        return False
    raise SqlError("55P03", f'could not obtain lock on row in relation "{table.name}"')


class LockingSelect(SelectPlan):
    """A SELECT over own sources that locks its rows. ``locks``: of each step's table; None: not locked."""

    def __init__(
        self,
        rows: JoinedRows,
        columns: tuple[OutputColumn, ...],
        param_types: tuple[SqlType, ...],
        project: Callable[[Row, Row, Clock], Row] | None,
        sort: tuple[SortKey, ...],
        limit: Compiled | None,
        offset: Compiled | None,
        locks: tuple[RowLock | None, ...],
    ) -> None:
        super().__init__(rows, columns, param_types, project, sort, limit, offset)
        self.locks = locks
        self._width = sum(step.width for step in rows.steps)

    def stream(self, view: View, params: Row, clock: Clock) -> Iterator[Row]:
        rows = keyed_rows(self.pipeline.steps, view, params, clock)
        limit = count_of(self.limit, params, clock, "LIMIT", "2201W")
        skip = min(count_of(self.offset, params, clock, "OFFSET", "2201X") or 0, sys.maxsize)
        stop = None if limit is None else min(limit + skip, sys.maxsize)
        if self.sort:
            passes = any(lock is not None and lock.when_held == "skip" for lock in self.locks)
            rows = iter(sort_rows(rows, self.sort, None if passes else stop, params, clock))
        found = itertools.islice(self._locked(rows, view), skip, stop)
        project, width = self.project, self._width
        if project is None:
            return (row[:width] for row in found)
        return (project(row, params, clock) for row in found)

    def _locked(self, rows: Iterable[Row], view: View) -> Iterator[Row]:
        wanted = [
            (self._width + nth, step.source.table, lock)
            for nth, (step, lock) in enumerate(zip(self.pipeline.steps, self.locks, strict=True))
            if lock is not None
        ]
        for row in rows:
            if all(lock_row(view, table, row[at], lock) for at, table, lock in wanted):  # type: ignore[arg-type]
                yield row


def keyed_rows(steps: Sequence[JoinStep], view: View, params: Row, clock: Clock) -> Iterator[Row]:
    """The joined and filtered rows, each with the keys of its tables' rows behind its columns."""
    found: Iterable[tuple[Row, Row]] = (((), ()),)
    for step in steps:
        found = _keyed_step(step, found, view, params, clock)
    return (row + keys for row, keys in found)


def _keyed_step(
    step: JoinStep, before: Iterable[tuple[Row, Row]], view: View, params: Row, clock: Clock
) -> Iterator[tuple[Row, Row]]:
    decode, condition, after = step.decode, step.condition, step.after
    pairs = step.source.opened(view, params, clock).pairs
    for outer, keys in before:
        matched = False
        for key, image in pairs(view, outer, params, clock):
            row = outer + decode(image)
            if condition is None or condition(row, params, clock) is True:
                matched = True
                if after is None or after(row, params, clock) is True:
                    yield row, (*keys, key)
        if step.left and not matched:
            row = outer + (None,) * step.width
            if after is None or after(row, params, clock) is True:
                yield row, (*keys, None)


@dataclass(frozen=True)
class LockedTable:
    """A table in FROM of a columnar query: its columns at ``positions`` begin at ``start`` of the answer."""

    table: Table
    positions: tuple[int, ...]
    start: int
    lock: RowLock


class LockingQuery(Plan):
    """A SELECT that the columnar engine answers, whose rows are then locked as they were found.

    The answer has the columns asked for, then all of each locked table. ``limit`` and ``offset`` are given
    where rows may be passed over; else they are the query's.
    """

    tag = "SELECT"
    read_only = False
    engine = "columnar"

    def __init__(
        self,
        query: Plan,
        width: int,
        locked: tuple[LockedTable, ...],
        limit: Compiled | None = None,
        offset: Compiled | None = None,
    ) -> None:
        assert query.columns is not None
        self.query = query
        self.source = query.source
        self.param_types = query.param_types
        self.columns = query.columns[:width]
        self.locked = locked
        self.limit, self.offset = limit, offset

    @property
    def tables_written(self) -> tuple[Table, ...]:
        return tuple(one.table for one in self.locked)

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> PlanOutcome:
        assert self.columns is not None
        rows = datum_rows(source, self.query.columns or ())
        limit = count_of(self.limit, params, clock, "LIMIT", "2201W")
        skip = min(count_of(self.offset, params, clock, "OFFSET", "2201X") or 0, sys.maxsize)
        stop = None if limit is None else min(limit + skip, sys.maxsize)
        width = len(self.columns)
        found = itertools.islice((row for row in rows if self._lock(view, row)), skip, stop)
        answer = [row[:width] for row in found]
        return PlanOutcome(answer, len(answer))

    def _lock(self, view: View, row: Row) -> bool:
        for one in self.locked:
            table = one.table
            values = dict(zip(one.positions, row[one.start :], strict=False))
            key = table.key_codec.encode([values[position] for position in table.key_positions])
            if not lock_row(view, table, key, one.lock):
                return False
            image = view.get(table, key)
            if image is None:
                raise SourceChanged(f"a row of {table.name} was deleted meanwhile")
            now = table.row_codec.decode(image)
            if not same_values([now[position] for position in one.positions], tuple(values.values())):
                raise SourceChanged(f"a row of {table.name} was changed meanwhile")
        return True

    def explain(self) -> list[str]:
        lines = ["Limit", "  -> Lock Rows"] if self.limit or self.offset else ["Lock Rows"]
        first, *rest = self.query.explain()
        return [*lines, f"  -> {first}", *(f"     {line}" for line in rest)]


class LockTablePlan(Plan):
    """LOCK TABLE. It reads nothing: a snapshot transaction pins its snapshot later."""

    tag = "LOCK TABLE"

    def __init__(self, tables: tuple[Table, ...], mode: int, *, wait: bool) -> None:
        self.tables = tables
        self.mode = mode
        self.wait = wait

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> PlanOutcome:
        for table in self.tables:
            if not view.lock_table(table, self.mode, wait=self.wait):
                raise SqlError("55P03", f'could not obtain lock on relation "{table.name}"')
        return PlanOutcome(None, 0)

    def explain(self) -> list[str]:
        return [f"Lock {', '.join(table.name for table in self.tables)}"]
