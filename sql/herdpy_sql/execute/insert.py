"""INSERT: rows of values, or of a query, made into whole checked rows and given to the view; ON CONFLICT.

For VALUES a *maker* is written for each row of the list: a straight-line function from the parameters to the
whole physical row, with the checks (``rules``) that can fail. executemany calls it for every row of
parameters and feeds ``View.insert_many`` directly, so that the planner's share of a row is a few
microseconds.

Of ON CONFLICT the unique keys that decide ("arbiters") are looked up in the view first, for each row. A key
that another transaction is about to add is not visible yet, but locked: inserting beside it raises MustWait,
and when the statement runs again it meets the row. So two inserters never violate a key, and none of them is
lost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from herdpy.codec.arrow import array_to_datums, datums_to_array
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.base import Plan, PlanOutcome, Rules, ended, rows_of_columns
from herdpy_sql.partition_map import partitions_of
from herdpy_sql.storage import BATCH_ROWS, parts_of

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence

    from herdpy.codec.kinds import Datum
    from herdpy_sql.catalog import Index, Table
    from herdpy_sql.clock import Clock
    from herdpy_sql.execute.base import Compiled, OutputColumn, Row
    from herdpy_sql.partition_map import PartitionMap
    from herdpy_sql.storage import Reader, View
    from herdpy_sql.types import SqlType


Maker = Callable[["View", "Row", "Clock"], "Row"]


@dataclass(frozen=True)
class ColumnValue:
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


def make_maker(values: Sequence[ColumnValue], rules: Rules, *, often: bool) -> Maker:
    """The function that makes one row: (view, params, clock) -> row, checked.

    ``often``: it is worth compiling a function of its own, because parameters will come many times.
    """
    return _written_maker(values, rules) if often and not rules.generated else _general_maker(values, rules)


def _general_maker(values: Sequence[ColumnValue], rules: Rules) -> Maker:
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


def _generating_maker(values: Sequence[ColumnValue], rules: Rules) -> Maker:
    """The same for a table with generated columns."""
    plain = _general_maker(values, Rules(rules.table, (), ()))

    def make(view: View, params: Row, clock: Clock) -> Row:
        row = list(plain(view, params, clock))
        rules.verify(row, clock)
        return tuple(row)

    return make


def _written_maker(values: Sequence[ColumnValue], rules: Rules) -> Maker:
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


NO_VALUE, COMPUTED, SAME = -1, -2, -3
"""Of :attr:`FromQuery.sources`: the column is NULL; it is computed for each row; once for all of them."""


@dataclass(frozen=True)
class FromQuery:
    """How a query's row becomes a table's: for each physical column a computation over it.

    Attributes:
        sources: for each physical column the place of the query's column that it is as it is, or one of
            ``NO_VALUE``, ``COMPUTED`` and ``SAME``.
        used: the places of the query's columns that are computed with.
    """

    compute: tuple[Compiled, ...]
    row_id: int | None
    rules: Rules
    sources: tuple[int, ...]
    used: tuple[int, ...] = ()

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

    @property
    def takes_columns(self) -> bool:
        """Whether :meth:`batch` makes batches at all."""
        return not self.rules.options

    def batch(
        self, view: View, given: pa.Table, columns: Sequence[OutputColumn], clock: Clock
    ) -> pa.RecordBatch:
        """The new rows for all rows of a part of the query's answer, checked, as columns.

        Columns of the answer are taken as they are. What is computed is so row after row, because columns
        that count with one sequence take turns.

        Raises:
            SqlError, ValueError: a row is refused, or has to be looked at.
        """
        table, count = self.rules.table, given.num_rows
        values = self._computed(given, columns, clock)
        arrays: list[Any] = []
        for at, source in enumerate(self.sources):
            one, kind = table.fields[at], table.columns[at].type
            if at == self.row_id:
                first = view.next_row_ids(table, count)
                arrays.append(pa.array(np.arange(first, first + count)))
            elif source >= 0:
                arrays.append(_in_one(given.column(source)))
            else:
                same = self.compute[at]((), (), clock) if source == SAME else None
                arrays.append(datums_to_array(one, values.get(at) or [same] * count, kind.precision))
        self._verify(arrays, clock)
        return pa.RecordBatch.from_arrays(arrays, names=[column.name for column in table.columns])

    def _computed(
        self, given: pa.Table, columns: Sequence[OutputColumn], clock: Clock
    ) -> dict[int, list[Datum]]:
        """What is computed for each row, by the position of its column."""
        positions = [at for at, source in enumerate(self.sources) if source == COMPUTED and at != self.row_id]
        values: dict[int, list[Datum]] = {at: [] for at in positions}
        if not positions:
            return values
        fields = [column.type.field for column in columns]
        read = list(map(_in_one, given.columns))
        for row in rows_of_columns(fields, read, self.used, given.num_rows):
            for at in positions:
                values[at].append(self.compute[at](row, (), clock))
        return values

    def _verify(self, arrays: list[Any], clock: Clock) -> None:
        """Look at the columns of new rows, and put the generated ones among them; errors as of ``batch``."""
        rules, fields = self.rules, self.rules.table.fields
        rules.fill_generated(arrays, clock)
        if any(arrays[position].null_count for position in rules.not_null):
            raise ValueError("a row has NULL where none may be")
        for position, dimensions in rules.shapes:
            for value in array_to_datums(fields[position], arrays[position]):
                rules.check_shape(position, dimensions, value)
        if rules.checks:
            conditions = [condition for _, condition in rules.checks]
            for row in rows_of_columns(fields, arrays, rules.watched, len(arrays[0])):
                if any(condition(row, (), clock) is False for condition in conditions):
                    raise ValueError("a row violates a CHECK")


def _in_one(column: Any) -> Any:
    """A column of a table as one array."""
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


@dataclass(frozen=True)
class FromOneRow:
    """Several rows made of each of the query's: VALUES whose expressions are put to it side by side."""

    converts: tuple[FromQuery, ...]

    def rows(self, view: View, given: Sequence[Row], clock: Clock) -> list[Row]:
        """The whole new rows, checked."""
        return [convert.row(view, one, clock) for one in given for convert in self.converts]


_BATCH_STEP = 16
"""So many rows of a batch take as long as one alone."""
_FEW_ROWS = 64
"""Up to so many rows of an Arrow answer are written one by one: it takes no longer."""
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

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> PlanOutcome:
        if self.returning is None:
            if len(self.makers) == 1:
                view.insert(self.table, self.makers[0](view, params, clock))
                return PlanOutcome(None, 1)
            return PlanOutcome(None, view.insert_many(self.table, self._rows(view, params, clock)))
        rows = list(self._rows(view, params, clock))
        view.insert_many(self.table, rows)
        returning = self.returning
        return PlanOutcome([returning(row, params, clock) for row in rows], len(rows))

    def _rows(self, view: View, params: Row, clock: Clock) -> Iterator[Row]:
        for make in self.makers:
            yield make(view, params, clock)

    def run_many(self, view: View, param_rows: Iterable[Row], clock: Clock) -> PlanOutcome:
        if len(self.makers) == 1:
            make = self.makers[0]
            rows: Iterator[Row] = (make(view, params, clock) for params in param_rows)
        else:
            rows = (make(view, params, clock) for params in param_rows for make in self.makers)
        return PlanOutcome(None, view.insert_many(self.table, rows))

    def explain(self) -> list[str]:
        count = len(self.makers)
        return [f"Insert on {self.table.name}", f"  -> Values ({count} row{'s' * (count != 1)})"]


class InsertSelectPlan(Plan):
    """INSERT ... SELECT: the rows of another plan, collected before the first is written.

    Many rows are written as batches where that comes to the same as row by row; a batch that is refused is
    written row by row, which gives the error of its first row that is.

    Attributes:
        by_columns: whether that may be: nothing has to look at each row.
    """

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
        self.by_columns = isinstance(convert, FromQuery) and convert.takes_columns and returning is None

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> PlanOutcome:
        return ended(self.slices(view, params, clock, source, at_once=_RUN_ROWS))

    def slices(
        self, view: View, params: Row, clock: Clock, source: pa.Table | None, at_once: int = _STEP_ROWS
    ) -> Generator[None, None, PlanOutcome]:
        """As ``run``, in steps of ``at_once`` rows between which others may use the database.

        The transaction of ``view`` must keep the locks that it takes.
        """
        found = self.query.run(view, params, clock, source)
        if self.by_columns and found.count > _FEW_ROWS:
            answer = found.table
            if answer is None:
                answer = _as_columns(found.rows or (), self.query.columns or ())
            yield from self._write_batches(view, answer, clock, at_once)
            return PlanOutcome(None, found.count)
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
        return PlanOutcome(returned, count)

    def _write_batches(
        self, view: View, answer: pa.Table, clock: Clock, at_once: int
    ) -> Generator[None, None, None]:
        """Write the rows of an Arrow answer, in steps."""
        for part in parts_of(answer, min(BATCH_ROWS, _BATCH_STEP * at_once)):
            if not self._written_as_columns(view, part, clock):
                for given in self._given(PlanOutcome(None, -1, part), at_once):
                    view.insert_many(self.table, self.convert.rows(view, given, clock))
                    yield
            yield

    def _written_as_columns(self, view: View, part: pa.Table, clock: Clock) -> bool:
        """Write some rows as a batch. False: nothing was done, and they are to go one by one. MustWait."""
        convert = self.convert
        assert isinstance(convert, FromQuery)
        try:
            batch = convert.batch(view, part, self.query.columns or (), clock)
            view.insert_batch(self.table, batch)
        except ValueError:
            return False
        except SqlError as error:
            if error.is_limit:  # it is met while rows are written
                raise
            return False
        return True

    def _placer(self, params: Row, clock: Clock) -> Place:
        """What writes some rows of one run, and says which it has written."""

        def place(view: View, rows: list[Row]) -> list[Row]:
            view.insert_many(self.table, rows)
            return rows

        return place

    def _given(self, found: PlanOutcome, at_once: int) -> Iterator[Sequence[Row]]:
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


def _as_columns(rows: Sequence[Row], columns: Sequence[OutputColumn]) -> pa.Table:
    """Rows of datums as an Arrow table of these columns."""
    arrays = [
        datums_to_array(column.type.field, list(values), column.type.precision)
        for column, values in zip(columns, zip(*rows, strict=True), strict=True)
    ]
    return pa.Table.from_arrays(arrays, names=[str(nth) for nth in range(len(arrays))])


def datum_rows(table: pa.Table | None, columns: Sequence[OutputColumn]) -> list[Row]:
    """The rows of an Arrow answer as datums."""
    from herdpy_sql.columnar import to_datums

    return [] if table is None else to_datums(table, [column.type for column in columns])


class KeyArbiter:
    """The table's own key."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.name = table.key_name
        self._positions = table.key_positions
        self._encode = table.key_codec.encode

    def find(self, view: Reader, row: Sequence[Datum]) -> bytes | None:
        """The key of the row that is there already and excludes ``row``; None when there is none."""
        key = self.mark(row)
        return None if view.get(self.table, key) is None else key

    def mark(self, row: Sequence[Datum]) -> bytes:
        """What every row that excludes ``row`` has too."""
        return self._encode([row[position] for position in self._positions])


class IndexArbiter:
    """A unique index."""

    def __init__(self, table: Table, index: Index) -> None:
        self.table = table
        self.index = index
        self.name = index.name
        self._positions = tuple(part.position for part in index.parts)
        self._predicate = index.predicate
        self._encode = table.index_codec(index).encode

    def find(self, view: Reader, row: Sequence[Datum]) -> bytes | None:
        """See :meth:`KeyArbiter.find`."""
        entry = self.mark(row)
        if entry is None:
            return None
        table, index = self.table, self.index
        if table.partition_key is not None:  # whose columns every unique index has
            spread = partitions_of(view.catalog, table)
            partition = spread.of_row(row)
            if partition is None:
                return None
            table, index = partition, spread.child(partition, index)
        for _, key in view.index_scan(table, index, entry, entry + b"\0"):
            return key
        return None

    def mark(self, row: Sequence[Datum]) -> bytes | None:
        """See :meth:`KeyArbiter.mark`; None: it excludes none."""
        values = [row[position] for position in self._positions]
        if None in values or (self._predicate is not None and row[self._predicate] is not True):
            return None
        return self._encode(values)


Arbiter = KeyArbiter | IndexArbiter
_MANY = 1024
"""Rows of executemany that are looked up together."""
Mark = tuple[int, bytes | None]
"""The number of an arbiter, and what rows that exclude each other have in common for it."""


@dataclass(frozen=True)
class Change:
    """DO UPDATE: what becomes of the row that is there.

    Attributes:
        assign: for a position the new datum, computed from that row and the proposed one after it.
        condition: whether to do it at all, of the same two; the row is locked in any case.
        mode: how strongly.
    """

    assign: tuple[tuple[int, Compiled], ...]
    condition: Compiled | None
    text: str
    mode: int


@dataclass(frozen=True)
class OnConflict:
    """What is done with a row whose key is taken; ``change`` None: nothing."""

    table: Table
    arbiters: tuple[Arbiter, ...]
    change: Change | None
    rules: Rules

    def place(
        self, view: View, row: Row, params: Row, clock: Clock, written: set[Mark] | None = None
    ) -> Row | None:
        """Insert ``row``, or do what is to be done instead; the row that is there now, or None for no change.

        Args:
            written: the marks of what the command has written, for commands that propose more than one row.

        Raises:
            SqlError: 21000, the command would change a row a second time; 40001, the row that is there was
            committed after the snapshot that the transaction stands on; and as of the rules and the view.
        """
        if written is not None and not written.isdisjoint(self._marks(row)):
            if self.change is not None:
                raise _twice()
            return None
        key = self._taken(view, row)
        new: Row | None = row
        if key is None:
            if view.newest is not view and self._taken(view.newest, row) is not None:
                raise _unseen()
            view.insert(self.table, row)
        elif self.change is None:
            return None
        else:
            view.lock_row(self.table, key, self.change.mode)
            new = self._changed(view, key, row, params, clock)
        if new is not None and written is not None:
            written.update(self._marks(new))
        return new

    def place_all(
        self, view: View, rows: Iterable[Row], params: Row, clock: Clock, written: set[Mark]
    ) -> list[Row]:
        """:meth:`place` for many rows of one command; those that were inserted or changed."""
        found = []
        for row in rows:
            placed = self.place(view, row, params, clock, written)
            if placed is not None:
                found.append(placed)
        return found

    def are_new(self, view: View, rows: Sequence[Row]) -> bool:
        """Whether none of these rows meets another, or one that is there; False where that is hard to say."""
        if len(self.arbiters) != 1 or not isinstance(self.arbiters[0], KeyArbiter):
            return False
        if self.table.partition_key is not None:
            return False
        try:
            keys = set(map(self.arbiters[0].mark, rows))
        except ValueError as error:
            raise SqlError("22000", str(error)) from error
        return len(keys) == len(rows) and not view.existing(self.table.id, keys)

    def _marks(self, row: Row) -> set[Mark]:
        return {(nth, one.mark(row)) for nth, one in enumerate(self.arbiters)} - self._no_marks

    @property
    def _no_marks(self) -> set[Mark]:
        return {(nth, None) for nth in range(len(self.arbiters))}

    def _taken(self, view: Reader, row: Row) -> bytes | None:
        try:
            for arbiter in self.arbiters:
                key = arbiter.find(view, row)
                if key is not None:
                    return key
        except ValueError as error:
            raise SqlError("22000", str(error)) from error
        return None

    def _changed(self, view: View, key: bytes, row: Row, params: Row, clock: Clock) -> Row | None:
        change, table = self.change, self.table
        assert change is not None
        image = view.get(table, key)
        assert image is not None
        old = table.row_codec.decode(image)
        given = (*old, *row)
        if change.condition is not None and change.condition(given, params, clock) is not True:
            return None
        new = list(old)
        for position, value in change.assign:
            new[position] = value(given, params, clock)
        self.rules.verify(new, clock)
        if table.partition_key is not None:
            _refuse_move(partitions_of(view.catalog, table), old, new)
        view.update(table, key, image, new)
        return tuple(new)

    def explain(self) -> list[str]:
        """Lines for EXPLAIN."""
        lines = [f"  Conflict Resolution: {'NOTHING' if self.change is None else 'UPDATE'}"]
        if self.arbiters:
            lines.append(f"  Conflict Arbiters: {', '.join(one.name for one in self.arbiters)}")
        if self.change is not None and self.change.text:
            lines.append(f"  Conflict Filter: {self.change.text}")
        return lines


def _refuse_move(spread: PartitionMap, old: Sequence[Datum], new: Sequence[Datum]) -> None:
    """SqlError 0A000 where DO UPDATE puts a row into another partition."""
    if spread.of_row(old) is not spread.of_row(new):
        raise SqlError(
            "0A000",
            "invalid ON UPDATE specification",
            detail="The result tuple would appear in a different partition than the original tuple.",
        )


def _unseen() -> SqlError:
    return SqlError(
        "40001",
        "could not serialize access due to concurrent update",
        hint="Run the transaction again from its start.",
    )


def _twice() -> SqlError:
    return SqlError(
        "21000",
        "ON CONFLICT DO UPDATE command cannot affect row a second time",
        hint="Ensure that no rows proposed for insertion within the same command have duplicate constrained "
        "values.",
    )


class ConflictPlan(InsertPlan):
    """INSERT ... VALUES ... ON CONFLICT."""

    def __init__(
        self,
        table: Table,
        makers: tuple[Maker, ...],
        conflict: OnConflict,
        param_types: tuple[SqlType, ...],
        columns: tuple[OutputColumn, ...] | None = None,
        returning: Project | None = None,
    ) -> None:
        super().__init__(table, makers, param_types, columns, returning)
        self.conflict = conflict

    def run(self, view: View, params: Row, clock: Clock, source: object = None) -> PlanOutcome:
        if len(self.makers) == 1:
            placed = self.conflict.place(view, self.makers[0](view, params, clock), params, clock)
            if self.returning is None:
                return PlanOutcome(None, 0 if placed is None else 1)
            rows = [] if placed is None else [placed]
        else:
            rows = self.conflict.place_all(view, list(self._rows(view, params, clock)), params, clock, set())
        returning = self.returning
        if returning is None:
            return PlanOutcome(None, len(rows))
        return PlanOutcome([returning(row, params, clock) for row in rows], len(rows))

    def run_many(self, view: View, param_rows: Iterable[Row], clock: Clock) -> PlanOutcome:
        if len(self.makers) > 1:
            return PlanOutcome(None, sum(self.run(view, params, clock).count for params in param_rows))
        make, count, rest = self.makers[0], 0, iter(param_rows)
        while some := list(islice(rest, _MANY)):
            rows = [make(view, params, clock) for params in some]
            if self.conflict.are_new(view, rows):
                count += view.insert_many(self.table, rows)
                continue
            placed = (
                self.conflict.place(view, row, params, clock) for row, params in zip(rows, some, strict=True)
            )
            count += sum(one is not None for one in placed)
        return PlanOutcome(None, count)

    def explain(self) -> list[str]:
        first, *rest = super().explain()
        return [first, *self.conflict.explain(), *rest]


class ConflictSelectPlan(InsertSelectPlan):
    """INSERT ... SELECT ... ON CONFLICT."""

    def __init__(
        self,
        table: Table,
        query: Plan,
        convert: FromQuery | FromOneRow,
        conflict: OnConflict,
        columns: tuple[OutputColumn, ...] | None = None,
        returning: Project | None = None,
        param_types: tuple[SqlType, ...] | None = None,
    ) -> None:
        super().__init__(table, query, convert, columns, returning, param_types)
        self.conflict = conflict
        self.by_columns = False

    def _placer(self, params: Row, clock: Clock) -> Place:
        written: set[Mark] = set()
        return lambda view, rows: self.conflict.place_all(view, rows, params, clock, written)

    def explain(self) -> list[str]:
        first, *rest = super().explain()
        return [first, *self.conflict.explain(), *rest]
