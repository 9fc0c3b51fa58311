"""What every plan is: made once, run many times; and what every row of a table must satisfy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from herdpy.codec.arrow import array_to_datums, datums_to_array
from herdpy.codec.kinds import Datum, sizes_of
from herdpy_sql.errors import SqlError
from herdpy_sql.expr.typed_tree import tree_lines
from herdpy_sql.shown_rows import failing_row
from herdpy_sql.values.arrays import wrong_shape

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    import pyarrow as pa

    from herdpy.codec.kinds import Field
    from herdpy_sql.catalog import Catalog, ColumnOrigin, Table
    from herdpy_sql.clock import Clock
    from herdpy_sql.expr.nodes import Expr
    from herdpy_sql.storage import View
    from herdpy_sql.types import SqlType

Row = tuple[Datum, ...]
Remark = tuple[str, ...]
"""A notice that the client gets: severity ("NOTICE"), SQLSTATE, message; a detail may follow."""
Compiled = Callable[[Sequence[Datum], Sequence[Datum], "Clock"], Datum]
"""An expression ready to run: (row, parameters, clock) -> datum."""


class SourceChanged(Exception):  # noqa: N818 - a signal to the session, not an error
    """A row that the columnar source saw has changed since; nothing of the statement has happened."""


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """A column of a result.

    Attributes:
        name, type: several columns may have the same name.
        origin: the column of a table that it shows as it is; None where it shows something else.
    """

    name: str
    type: SqlType
    origin: ColumnOrigin | None = None


@dataclass(slots=True)
class PlanOutcome:
    """What a run gave.

    Attributes:
        rows: the result's rows, or None when there are none or they are in ``table``.
        count: rows returned or changed, as the command tag says it.
        table: the columnar engine's answer.
    """

    rows: list[Row] | None
    count: int
    table: pa.Table | None = None


class Plan:
    """A statement that is ready to run.

    Attributes:
        tag: the command's name, as in its command tag: "SELECT", "CREATE TABLE".
        columns: of the result, or None for a statement that returns no rows.
        param_types: the types of $1, $2 ... in order.
        read_only: whether it changes nothing and locks nothing.
        source: the query to be run first, outside the engine's turn, whose answer ``run`` is given.
        engine: "own" or "columnar", for EXPLAIN and for the scheduler.
        concurrently: it was asked for so, which no transaction block may.
        remarks: notices that the client gets besides the answer.
        bound: the typed expressions that the steps were made of, by what they are for, for EXPLAIN (VERBOSE).
        reads_past: it reads a moment of the past, and is run with the state of that moment.
        calls: it runs functions of the catalog, which may run any statement.
        brief: it touches one row at most, by its key, or it only begins or commits: it takes microseconds.
    """

    tag: str = ""
    columns: tuple[OutputColumn, ...] | None = None
    param_types: tuple[SqlType, ...] = ()
    read_only: bool = False
    source: Any = None
    engine: str = "own"
    brief: bool = False
    calls: bool = False
    reads_past: bool = False
    concurrently: bool = False
    remarks: tuple[Remark, ...] = ()
    bound: tuple[tuple[str, Expr], ...] = ()

    @property
    def inner(self) -> Plan:
        """The plan of the statement within this one; itself where there is none."""
        return self

    @property
    def tables_written(self) -> tuple[Table, ...]:
        """The tables whose rows its source chooses to be changed."""
        return ()

    def moved(self, catalog: Catalog) -> Plan | None:
        """The same plan for another catalog, or None when the statement must be planned again."""
        return None

    def within(self, param_types: Sequence[SqlType]) -> Plan:
        """The plan as part of a statement that may have more parameters than itself."""
        del param_types
        return self

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> PlanOutcome:
        """Carry the statement out. SqlError, storage.MustWait or SourceChanged; then nothing happened
        that the view does not undo with the statement."""
        raise NotImplementedError(f"{type(self).__name__} is carried out by the session")

    def run_many(self, view: View, param_rows: Iterable[Row], clock: Clock) -> PlanOutcome:
        """Carry it out once for each row of parameters; the count is the sum, results are dropped."""
        count = 0
        for params in param_rows:
            count += self.run(view, params, clock).count
        return PlanOutcome(None, count)

    def explain(self) -> list[str]:
        """Lines that say what will be done, the outermost step first."""
        return [self.tag.title()]

    def typed_tree(self) -> list[str]:
        """Lines of EXPLAIN (VERBOSE): each output and condition, one node of its typed tree a line. Where no
        tree is kept, the names and types of the columns."""
        if not self.bound:
            return [f"Output: {column.name} {column.type}" for column in self.columns or ()]
        lines: list[str] = []
        for label, expr in self.bound:
            indent = " " * (len(label) - len(label.lstrip()))
            lines += [label, *tree_lines(expr, indent + "  ")]
        return lines

    def command_tag(self, count: int) -> str:
        """PostgreSQL's command tag: "SELECT 3", "INSERT 0 3", "CREATE TABLE"."""
        if self.tag == "INSERT":
            return f"INSERT 0 {count}"
        if self.tag in {"SELECT", "UPDATE", "DELETE", "MERGE"}:
            return f"{self.tag} {count}"
        return self.tag


def ended(steps: Generator[None, None, PlanOutcome]) -> PlanOutcome:
    """What a plan's ``slices`` give in the end, all its steps taken at once."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            outcome: PlanOutcome = stop.value
            return outcome


def rows_of_columns(
    fields: Sequence[Field], arrays: Sequence[Any], positions: Iterable[int], count: int
) -> Iterator[Row]:
    """The first ``count`` rows of some columns; datums at other than these ``positions`` are None.

    Args:
        fields, arrays: of each column its type and its Arrow array.
    """
    columns: list[list[Datum]] = [[None] * count] * max(len(arrays), 1)
    for position in positions:
        columns[position] = array_to_datums(fields[position], arrays[position].slice(0, count))
    return zip(*columns, strict=True)


@dataclass(frozen=True)
class Rules:
    """What every row of a table must satisfy.

    Attributes:
        not_null: positions that may not be NULL.
        checks: (name, condition) over the physical row; NULL passes.
        generated: (position, value) of the columns that are always computed from the rest of the row.
        shapes: (position, dimensions) of the columns that are arrays.
        options: (view, condition) of the views WITH CHECK OPTION that the row is written through; NULL fails.
        watched: positions of the columns that ``checks`` look at.
        generated_from: positions of the columns that ``generated`` are computed from.
    """

    table: Table
    not_null: tuple[int, ...]
    checks: tuple[tuple[str, Compiled], ...]
    generated: tuple[tuple[int, Compiled], ...] = ()
    options: tuple[tuple[str, Compiled], ...] = ()
    shapes: tuple[tuple[int, int], ...] = ()
    watched: tuple[int, ...] = ()
    generated_from: tuple[int, ...] = ()

    def generate(self, row: list[Datum], clock: Clock) -> None:
        """Compute the generated columns, into the row."""
        for position, compute in self.generated:
            row[position] = compute(row, (), clock)

    def fill_generated(self, arrays: list[Any], clock: Clock) -> None:
        """Put the generated columns among the physical columns of some rows.

        Raises:
            SqlError: an expression fails; the row is in its field ``nth``, from 0.
        """
        if not self.generated:
            return
        fields = self.table.fields
        rows = list(map(list, rows_of_columns(fields, arrays, self.generated_from, len(arrays[0]))))
        for nth, row in enumerate(rows):
            try:
                self.generate(row, clock)
            except SqlError as error:
                error.fields["nth"] = str(nth)
                raise
        for position, _ in self.generated:
            made = [row[position] for row in rows]
            precision = self.table.columns[position].type.precision
            arrays[position] = datums_to_array(fields[position], made, precision)

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
                    detail=failing_row(self.table, row),
                    table=self.table.name,
                    constraint=name,
                )
        for name, condition in self.options:
            if condition(row, (), clock) is not True:
                raise SqlError(
                    "44000",
                    f'new row violates check option for view "{name}"',
                    detail=failing_row(self.table, row),
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
            detail=failing_row(self.table, row),
            table=self.table.name,
            column=column,
        )
