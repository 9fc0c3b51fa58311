"""INSERT: rows of values, or of a query, made into whole rows and handed to the view.

For VALUES a *maker* is written for each row of the list: a straight-line function from the parameters to
the whole physical row, with the checks that can fail. executemany calls it for every row of parameters
and feeds ``View.insert_many`` directly, so that the planner's share of a row is a few microseconds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from herdpy.codec.grids import sizes_of
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.base import Outcome, Plan, ended
from herdpy_sql.values.arrays import wrong_shape

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence

    import pyarrow as pa

    from herdpy.codec.kinds import Datum
    from herdpy_sql.catalog import Table
    from herdpy_sql.execute.base import Compiled, OutputColumn, Row
    from herdpy_sql.storage import Clock, View
    from herdpy_sql.types import SqlType

_STEP_ROWS = 128

Maker = Callable[["View", "Row", "Clock"], "Row"]
Project = Callable[["Row", "Row", "Clock"], "Row"]
Place = Callable[["View", "list[Row]"], "list[Row]"]


@dataclass(frozen=True)
class Rules:
    """What every row of a table must satisfy.

    Attributes:
        not_null: positions that may not be NULL.
        checks: (name, condition) over the physical row; NULL passes.
        generated: (position, value) of the columns that are always computed from the rest of the row.
        shapes: (position, dimensions) of the columns that are arrays.
        options: (view, condition) of the views WITH CHECK OPTION that the row is written through; NULL fails.
    """

    table: Table
    not_null: tuple[int, ...]
    checks: tuple[tuple[str, Compiled], ...]
    generated: tuple[tuple[int, Compiled], ...] = ()
    options: tuple[tuple[str, Compiled], ...] = ()
    shapes: tuple[tuple[int, int], ...] = ()

    def generate(self, row: list[Datum], clock: Clock) -> None:
        """Compute the generated columns, into the row."""
        for position, compute in self.generated:
            row[position] = compute(row, (), clock)

    def verify(self, row: Sequence[Datum], clock: Clock) -> None:
        """SqlError 23502, 23514, 44000 or 0A000, naming table, column and constraint.

        Generated columns are computed first: where there are any, ``row`` is a list.
        """
        if self.generated:
            self.generate(row, clock)  # type: ignore[arg-type]
        for position in self.not_null:
            if row[position] is None:
                self.refuse_null(position, row)
        for position, dimensions in self.shapes:
            self.check_shape(position, dimensions, row[position])
        for name, condition in self.checks:
            if condition(row, (), clock) is False:
                raise SqlError(
                    "23514",
                    f'new row for relation "{self.table.name}" violates check constraint "{name}"',
                    detail=self._failing(row),
                    table=self.table.name,
                    constraint=name,
                )
        for name, condition in self.options:
            if condition(row, (), clock) is not True:
                raise SqlError(
                    "44000",
                    f'new row violates check option for view "{name}"',
                    detail=self._failing(row),
                )

    def check_shape(self, position: int, dimensions: int, value: Any) -> None:
        """SqlError 0A000 unless the array has as many dimensions as its column was declared with."""
        if value and len(sizes_of(value)) != dimensions:
            column = self.table.columns[position]
            raise wrong_shape(column.name, column.type, len(sizes_of(value)), self.table.name)

    def refuse_null(self, position: int, row: Sequence[Datum]) -> NoReturn:
        """Raise the violation of NOT NULL at ``position``."""
        column = self.table.columns[position].name
        raise SqlError(
            "23502",
            f'null value in column "{column}" of relation "{self.table.name}" violates not-null constraint',
            detail=self._failing(row),
            table=self.table.name,
            column=column,
        )

    def _failing(self, row: Sequence[Datum]) -> str:
        from herdpy_sql.values import to_text

        shown = []
        for position in self.table.visible:
            value = row[position]
            text = "null" if value is None else to_text(self.table.columns[position].type)(value)
            shown.append(text if len(text) <= 64 else text[:64] + "...")
        return f"Failing row contains ({', '.join(shown)})."


@dataclass(frozen=True)
class Value:
    """Where one physical column of a new row comes from: exactly one of the first four is meant.

    Attributes:
        param: index of a parameter taken as it is.
        constant: a datum known now (when ``is_constant``).
        compute: a compiled expression.
        row_id: a fresh hidden key.
    """

    param: int | None = None
    constant: Datum = None
    is_constant: bool = False
    compute: Compiled | None = None
    row_id: bool = False


def make_maker(values: Sequence[Value], rules: Rules, *, often: bool) -> Maker:
    """The function that makes one row: (view, params, clock) -> row, checked.

    ``often``: it is worth compiling a function of its own, because parameters will come many times.
    """
    return _written_maker(values, rules) if often and not rules.generated else _general_maker(values, rules)


def _general_maker(values: Sequence[Value], rules: Rules) -> Maker:
    if rules.generated:
        return _generating_maker(values, rules)
    if all(value.is_constant for value in values):
        constants = tuple(value.constant for value in values)

        def same(view: View, params: Row, clock: Clock) -> Row:
            rules.verify(constants, clock)
            return constants

        return same
    table = rules.table

    def make(view: View, params: Row, clock: Clock) -> Row:
        row = tuple(
            [
                value.constant
                if value.is_constant
                else params[value.param]
                if value.param is not None
                else view.next_row_id(table)
                if value.compute is None
                else value.compute((), params, clock)
                for value in values
            ]
        )
        rules.verify(row, clock)
        return row

    return make


def _generating_maker(values: Sequence[Value], rules: Rules) -> Maker:
    """The same for a table with generated columns."""
    plain = _general_maker(values, Rules(rules.table, (), ()))

    def make(view: View, params: Row, clock: Clock) -> Row:
        row = list(plain(view, params, clock))
        rules.verify(row, clock)
        return tuple(row)

    return make


def _written_maker(values: Sequence[Value], rules: Rules) -> Maker:
    """The same, straight-line; the source holds column positions and names of constants only."""
    names: dict[str, object] = {"rules": rules, "table": rules.table}
    parts = []
    for i, value in enumerate(values):
        if value.param is not None:
            parts.append(f"params[{value.param}]")
        elif value.row_id:
            parts.append("view.next_row_id(table)")
        elif value.compute is not None:
            names[f"f{i}"] = value.compute
            parts.append(f"f{i}((), params, clock)")
        else:
            names[f"c{i}"] = value.constant
            parts.append(f"c{i}")
    body = [f"row = ({''.join(part + ', ' for part in parts)})"]
    for position in rules.not_null:
        value = values[position]
        if value.row_id or (value.is_constant and value.constant is not None):
            continue
        body.append(f"if row[{position}] is None: rules.refuse_null({position}, row)")
    for position, dimensions in rules.shapes:
        body.append(f"rules.check_shape({position}, {dimensions}, row[{position}])")
    if rules.checks or rules.options:
        body.append("rules.verify(row, clock)")
    body.append("return row")
    source = "\n".join(["def make(view, params, clock):", *(f"    {line}" for line in body)])
    exec(compile(source, "<row maker>", "exec"), names)
    maker: Maker = names["make"]  # type: ignore[assignment]
    return maker


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


@dataclass(frozen=True)
class FromQuery:
    """How a query's row becomes a table's: for each physical column a computation over it."""

    compute: tuple[Compiled, ...]
    row_id: int | None
    rules: Rules
    names: tuple[str, ...] = field(default=())

    def rows(self, view: View, given: Sequence[Row], clock: Clock) -> list[Row]:
        """:meth:`row` for each row of the query."""
        return [self.row(view, one, clock) for one in given]

    def row(self, view: View, given: Row, clock: Clock) -> Row:
        """The whole new row, checked."""
        made = [one(given, (), clock) for one in self.compute]
        if self.row_id is not None:
            made[self.row_id] = view.next_row_id(self.rules.table)
        self.rules.verify(made, clock)
        return tuple(made)


@dataclass(frozen=True)
class FromOneRow:
    """Several rows made of each of the query's: VALUES whose expressions are put to it side by side."""

    converts: tuple[FromQuery, ...]

    def rows(self, view: View, given: Sequence[Row], clock: Clock) -> list[Row]:
        """The whole new rows, checked."""
        return [convert.row(view, one, clock) for one in given for convert in self.converts]


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
        return ended(self.slices(view, params, clock, source, at_once=sys.maxsize))

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
