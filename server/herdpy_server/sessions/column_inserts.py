"""INSERT of many rows of parameters as columns: executemany's, and COPY PARAMETERS'.

Above ``bulk``, below ``plans``, ``execution`` and ``copying``. What such a statement means is what it means
for each row alone. It is run as columns where that comes to the same: values that are parameters or defaults,
no RETURNING and no ON CONFLICT, no foreign key to the table itself (whose rows may refer to earlier ones),
no view that looks at each row. At the first doubt or error nothing is done, and the rows go one by one: so
errors are theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, overload

import numpy as np
import pyarrow as pa

from herdpy_server.sessions.bulk import Array, LoadRules
from herdpy_server.store import Workspace
from herdpy_sql.clock import Clock
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.base import Plan, PlanOutcome
from herdpy_sql.execute.insert import InsertPlan
from herdpy_sql.execute.references import ReferringPlan
from herdpy_sql.plan.rules import noting, rules_of
from herdpy_sql.storage import BATCH_ROWS, parts_of
from herdpy_sql.types import SqlType
from herdpy_sql.values.python_columns import column_from_python

_FEW_ROWS = 64
"""Up to so many rows go one by one: it takes no longer."""

Datums = tuple[Any, ...]


class Insertion:
    """An INSERT that may be run as columns.

    Attributes:
        plan: it. ``places``: for each physical column the index of its parameter; None: its default.
        refers: whether the table has foreign keys, or is referred to.
    """

    def __init__(self, plan: InsertPlan, places: tuple[int | None, ...], *, refers: bool) -> None:
        self.plan, self.places, self.refers = plan, places, refers

    def takes(self, types: Sequence[SqlType]) -> bool:
        """Whether they are the types of their columns, but for length, precision and scale."""
        columns = self.plan.table.columns
        return all(
            place is None or types[place].base is columns[position].type.base
            for position, place in enumerate(self.places)
        )

    def writer(self, clock: Clock) -> ColumnWriter:
        """What writes its rows, for one statement."""
        return ColumnWriter(self, clock)


def insertion_of(plan: Plan) -> Insertion | None:
    """The statement as one that may be run as columns; None where each row has to be looked at."""
    refers = isinstance(plan, ReferringPlan)
    inner = plan.writer if isinstance(plan, ReferringPlan) else plan
    if not isinstance(inner, InsertPlan) or inner.places is None:
        return None
    table = inner.table
    if rules_of(table).options or (refers and any(one.table_id == table.id for one in table.foreign_keys)):
        return None
    return Insertion(inner, inner.places, refers=refers)


class ColumnWriter:
    """Writes slices of columns of parameters as rows of the table.

    Attributes:
        insertion: the statement.
    """

    def __init__(self, insertion: Insertion, clock: Clock) -> None:
        self.insertion = insertion
        self._table = insertion.plan.table
        self._clock = clock
        self._rules = LoadRules(self._table, clock)

    def write(self, view: Workspace, given: dict[int, Array], count: int) -> None:
        """Add ``count`` rows, of which ``given`` are the columns that have a parameter, by position.

        Raises:
            SqlError: a row is refused, though perhaps not the first one that is.
            MustWait: nothing was checked in full; part of it may be written, for the caller to undo.
        """
        table = self._table
        batch = pa.RecordBatch.from_arrays(
            self._physical(view, given, count), names=[one.name for one in table.columns]
        )
        noted = noting(view, table) if self.insertion.refers else None
        for part in parts_of(batch):
            view.insert_batch(table, part)
            if noted is not None:
                noted.added(table, part)
        if noted is not None:
            noted.settle(self._clock)

    def _physical(self, view: Workspace, given: dict[int, Array], count: int) -> list[Array]:
        """Every physical column of the new rows, checked."""
        table = self._table
        missing = [
            at for at, column in enumerate(table.columns) if at not in given and not column.numbers_rows
        ]
        defaults = self._rules.defaults(missing, count, 0)
        arrays = []
        for position, column in enumerate(table.columns):
            if position in given:
                arrays.append(given[position])
            elif column.numbers_rows:
                first = view.next_row_ids(table, count)
                arrays.append(pa.array(np.arange(first, first + count)))
            else:
                arrays.append(defaults[position])
        self._rules.verify(arrays, 0)
        return arrays


class ParameterColumns(Sequence[Datums]):
    """The parameters of an executemany as columns; as a sequence it is their rows of datums.

    Args:
        slices: for each slice of the rows the columns of the table that have a parameter, and its length.
        convert: makes all rows of datums.
    """

    def __init__(
        self,
        insertion: Insertion,
        slices: list[tuple[dict[int, Array], int]],
        convert: Callable[[], list[Datums]],
    ) -> None:
        self._insertion = insertion
        self._slices = slices
        self._convert = convert
        self._datums: list[Datums] | None = None

    @property
    def rows(self) -> list[Datums]:
        """The rows of datums. SqlError as their conversion raises it."""
        if self._datums is None:
            self._datums = self._convert()
        return self._datums

    def __len__(self) -> int:
        return sum(count for _, count in self._slices)

    @overload
    def __getitem__(self, at: int) -> Datums: ...
    @overload
    def __getitem__(self, at: slice) -> list[Datums]: ...
    def __getitem__(self, at: int | slice) -> Datums | list[Datums]:
        return self.rows[at]

    def insert(self, view: Workspace, clock: Clock) -> PlanOutcome | None:
        """Insert all rows; None when they are to go one by one: then nothing was done. MustWait, and SqlError
        of a limit."""
        mark = view.mark()
        try:
            writer = self._insertion.writer(clock)
            for given, count in self._slices:
                writer.write(view, given, count)
        except (SqlError, ValueError) as error:
            view.undo(mark)
            if isinstance(error, SqlError) and error.is_limit:
                raise
            return None
        return PlanOutcome(None, len(self))


def columns_of(
    plan: Plan, rows: Sequence[Sequence[object]], convert: Callable[[], list[Datums]]
) -> ParameterColumns | None:
    """The Python parameters of an executemany as columns; None where they are to go one by one."""
    if len(rows) <= _FEW_ROWS:
        return None
    insertion, types = insertion_of(plan), plan.param_types
    if insertion is None or set(map(len, rows)) != {len(types)} or not insertion.takes(types):
        return None
    columns, slices = insertion.plan.table.columns, []
    try:
        for start in range(0, len(rows), BATCH_ROWS):
            some = rows[start : start + BATCH_ROWS]
            given = {}
            for position, place in enumerate(insertion.places):
                if place is not None:
                    values = list(map(itemgetter(place), some))
                    array = column_from_python(values, columns[position].type)
                    if array is None:
                        return None
                    given[position] = array
            slices.append((given, len(some)))
    except (SqlError, ValueError, TypeError, OverflowError, RecursionError):
        return None  # row by row it is refused, or not, for what it is
    return ParameterColumns(insertion, slices, convert)
