"""INSERT: rows of values, or of a query, made into whole rows (``row_makers``) and handed to the view.

executemany calls a maker for every row of parameters and feeds ``View.insert_many`` directly, so that the
planner's share of a row is a few microseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from herdpy_sql.execute.base import Outcome, Plan, ended

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence

    import pyarrow as pa

    from herdpy_sql.catalog import Table
    from herdpy_sql.execute.base import OutputColumn, Row
    from herdpy_sql.execute.row_makers import FromOneRow, FromQuery, Maker
    from herdpy_sql.storage import Clock, View
    from herdpy_sql.types import SqlType

_STEP_ROWS = 128
_RUN_ROWS = 4096
"""Written at a time where nobody else waits, so that what is written can make room for what comes."""

Project = Callable[["Row", "Row", "Clock"], "Row"]
Place = Callable[["View", "list[Row]"], "list[Row]"]


class InsertPlan(Plan):
    """INSERT ... VALUES: the makers' rows, one for each row of the list.

    Attributes:
        places: for each physical column the index of the parameter that is assigned to it, or None for its
            default; None for rows that are made in any other way, and where rows come back.
    """

    tag = "INSERT"

    def __init__(
        self,
        table: Table,
        makers: tuple[Maker, ...],
        param_types: tuple[SqlType, ...],
        columns: tuple[OutputColumn, ...] | None = None,
        returning: Project | None = None,
        places: tuple[int | None, ...] | None = None,
    ) -> None:
        self.table = table
        self.places = None if columns is not None else places
        self.makers = makers
        self.param_types = param_types
        self.columns = columns
        self.returning = returning
        self.brief = len(makers) == 1

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> Outcome:
        if self.returning is None:
            if len(self.makers) == 1:
                view.insert(self.table, self.makers[0](view, params, clock))
                return Outcome(None, 1)
            return Outcome(None, view.insert_many(self.table, self._rows(view, params, clock)))
        rows = list(self._rows(view, params, clock))
        view.insert_many(self.table, rows)
        returning = self.returning
        return Outcome([returning(row, params, clock) for row in rows], len(rows))

    def _rows(self, view: View, params: Row, clock: Clock) -> Iterator[Row]:
        for make in self.makers:
            yield make(view, params, clock)

    def run_many(self, view: View, param_rows: Iterable[Row], clock: Clock) -> Outcome:
        if len(self.makers) == 1:
            make = self.makers[0]
            rows: Iterator[Row] = (make(view, params, clock) for params in param_rows)
        else:
            rows = (make(view, params, clock) for params in param_rows for make in self.makers)
        return Outcome(None, view.insert_many(self.table, rows))

    def explain(self) -> list[str]:
        count = len(self.makers)
        return [f"Insert on {self.table.name}", f"  -> Values ({count} row{'s' * (count != 1)})"]


class InsertSelectPlan(Plan):
    """INSERT ... SELECT: the rows of another plan, collected before the first is written."""

    tag = "INSERT"

    def __init__(
        self,
        table: Table,
        query: Plan,
        convert: FromQuery | FromOneRow,
        columns: tuple[OutputColumn, ...] | None = None,
        returning: Project | None = None,
        param_types: tuple[SqlType, ...] | None = None,
    ) -> None:
        self.table = table
        self.query = query
        self.convert = convert
        self.param_types = query.param_types if param_types is None else param_types
        self.source = query.source
        self.engine = query.engine
        self.columns = columns
        self.returning = returning

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> Outcome:
        return ended(self.slices(view, params, clock, source, at_once=_RUN_ROWS))

    def slices(
        self, view: View, params: Row, clock: Clock, source: pa.Table | None, at_once: int = _STEP_ROWS
    ) -> Generator[None, None, Outcome]:
        """As ``run``, in steps of ``at_once`` rows between which others may use the database.

        The transaction of ``view`` must keep the locks that it takes.
        """
        found = self.query.run(view, params, clock, source)
        convert, returning = self.convert.rows, self.returning
        place = self._placer(params, clock)
        returned: list[Row] | None = None if returning is None else []
        count = 0
        for given in self._given(found, at_once):
            rows = place(view, convert(view, given, clock))
            count += len(rows)
            if returned is not None and returning is not None:
                returned += [returning(row, params, clock) for row in rows]
            yield
        return Outcome(returned, count)

    def _placer(self, params: Row, clock: Clock) -> Place:
        """What writes some rows of one run, and says which it has written."""

        def place(view: View, rows: list[Row]) -> list[Row]:
            view.insert_many(self.table, rows)
            return rows

        return place

    def _given(self, found: Outcome, at_once: int) -> Iterator[Sequence[Row]]:
        """The query's rows, some at a time."""
        if found.rows is not None:
            for start in range(0, len(found.rows), at_once):
                yield found.rows[start : start + at_once]
        elif found.table is not None:
            for start in range(0, found.table.num_rows, at_once):
                yield datum_rows(found.table.slice(start, at_once), self.query.columns or ())

    def explain(self) -> list[str]:
        first, *rest = self.query.explain()
        return [f"Insert on {self.table.name}", f"  -> {first}", *(f"     {line}" for line in rest)]


def datum_rows(table: pa.Table | None, columns: Sequence[OutputColumn]) -> list[Row]:
    """The rows of an Arrow answer as datums."""
    from herdpy_sql.columnar import to_datums

    return [] if table is None else to_datums(table, [column.type for column in columns])
