"""Arrow data into a table: what a load asks of the columns, and a slice of them at a time into the workspace.

Below ``copying`` and ``session``. A :class:`Loader` takes batches; :class:`LoadRules` makes whole columns
of them: lengths, JSON, DEFAULT, NOT NULL, CHECK. What INSERT does with each row happens here column by
column; only a CHECK looks at rows, and at those of its columns that it speaks of. Errors are INSERT's, with
the row of the data in ``where``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from herdpy.codec.arrow import array_to_datums, arrow_type, datums_to_array
from herdpy.codec.arrow_conform import OutOfRangeError, conform
from herdpy.log.wait import Pause
from herdpy_sql import types
from herdpy_sql.arrow_types import sql_type
from herdpy_sql.catalog import HIDDEN_KEY, Column, KeyPart, Table
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.base import rows_of_columns
from herdpy_sql.plan.assignment import refuse_generated, target_position
from herdpy_sql.plan.names import target_schema, temporary_schema
from herdpy_sql.plan.rules import compile_default, has_volatile_default, noting, rules_of
from herdpy_sql.storage import MustWait, parts_of
from herdpy_sql.types import SqlType
from herdpy_sql.values.label_columns import places_of
from herdpy_sql.values.stored_columns import check_values, kept_texts
from herdpy_sql.values.styles import Style

if TYPE_CHECKING:
    from collections.abc import Sequence

    from herdpy_server.tablespace import Transaction
    from herdpy_sql.clock import Clock


Array = Any  # pyarrow's stubs know arrays by element type, and these functions take any

MODES = ("create", "append", "replace", "create_append")


def table_for(number: int, name: str, schema: pa.Schema) -> Table:
    """The definition of a table that can hold ``schema``, with a hidden key."""
    columns = tuple(Column(field.name, _column_type(field.type)) for field in schema)
    names = [column.name for column in columns]
    if len(set(names)) != len(names):
        raise SqlError("42701", "the data has two columns of the same name")
    hidden = Column(HIDDEN_KEY, types.BIGINT, not_null=True, hidden=True)
    return Table(number, name, (*columns, hidden), (KeyPart(len(columns)),), f"{name}_pkey")


def _column_type(arrow: pa.DataType) -> SqlType:
    found = sql_type(arrow)
    if found is None:
        raise SqlError("0A000", f"there is no column type for Arrow's {arrow}")
    return found


def target(
    transaction: Transaction, name: str, schema: pa.Schema, mode: str, within: str | None = None
) -> Table:
    """The table to load into, made or replaced as ``mode`` says.

    Args:
        within: its schema, "pg_temp" for the session's own. None: rows are appended to the first table of
            that name along the search path, and it is made or replaced in the first schema there.

    Raises:
        SqlError: 42P07 it is there and must not be, 42P01 the reverse, 3F000 there is no such schema, 22023
            an unknown mode.
    """
    if mode not in MODES:
        raise SqlError("22023", f"mode {mode!r} is none of {', '.join(MODES)}")
    view = transaction.workspace
    memory = view.memory
    catalog = view.catalog if memory is None else view.catalog.along(memory.settings.path)
    if mode in ("append", "create_append"):
        found = catalog.table_named(name) if within is None else catalog.find(within, name)
        if isinstance(found, Table):
            return found
        if found is None and mode == "append":
            raise SqlError("42P01", f'relation "{name}" does not exist', table=name)
    place = temporary_schema(catalog) if within == "pg_temp" else target_schema(catalog, within, name)
    there = catalog.relations.get((place, name))
    if there is not None and mode == "create":
        raise SqlError("42P07", f'relation "{name}" already exists', table=name)
    if there is not None:
        if not isinstance(there, Table):
            raise SqlError("42809", f'"{name}" is not a table', table=name)
        if there.is_routed:
            raise SqlError("0A000", f'"{name}" has, or is, a partition, and cannot be replaced', table=name)
        view.drop_table(there)
    view.create_table(replace(table_for(view.next_id, name, schema), schema=place))
    made = view.catalog.relations[place, name]
    assert isinstance(made, Table)
    return made


class Loader:
    """Loads batches of one schema into one table.

    Args:
        style: how the session reads and writes texts.
        stored: text is as its columns keep it, and JSON is JSON: somebody has looked.
    """

    def __init__(
        self, transaction: Transaction, table: Table, schema: pa.Schema, style: Style, *, stored: bool = False
    ) -> None:
        self._view = transaction.workspace
        self._clock = transaction.clock(style)
        self._noting = noting(self._view, table)
        self._table = table
        self._rules = LoadRules(table, self._clock)
        self._stored = stored
        self._done = 0
        self._places: dict[int, int] = {}
        for place, name in enumerate(schema.names):
            position = target_position(table, name, self._places)
            refuse_generated(table, position)
            self._places[position] = place
        self._missing = [
            at
            for at, column in enumerate(table.columns)
            if at not in self._places and not column.numbers_rows
        ]

    async def load(
        self, data: Iterable[pa.RecordBatch], wait_for_lock: Callable[[MustWait], Awaitable[None]]
    ) -> int:
        """Load everything; returns the number of rows. SqlError names the row that is refused."""
        before = self._done
        for batch in data:
            for given in parts_of(batch):
                part = self._physical(given, self._done)
                await self._written(lambda part=part: self._insert(part), wait_for_lock)  # type: ignore[misc]
                if self._noting is not None:
                    await self._written(lambda: self._settle(within=True), wait_for_lock)
                self._done += part.num_rows
                await Pause()
        return self._done - before

    async def finish(self, wait_for_lock: Callable[[MustWait], Awaitable[None]]) -> None:
        """Every row is there: check what rows may refer to among themselves. SqlError 23503."""
        if self._noting is not None:
            await self._written(lambda: self._settle(within=False), wait_for_lock)

    def _insert(self, part: pa.RecordBatch) -> None:
        self._view.insert_batch(self._table, part)
        if self._noting is not None:
            self._noting.added(self._table, part, self._done)

    def _settle(self, *, within: bool) -> None:
        assert self._noting is not None
        try:
            self._noting.settle(self._clock, within=within)
        except SqlError as error:
            nth = error.fields.pop("nth", None)
            if nth is not None:
                error.fields["row"] = str(int(nth) + 1)
                error.fields["where"] = f"row {int(nth) + 1} of the data for {self._table.name}"
            raise

    async def _written(
        self, write: Callable[[], None], wait_for_lock: Callable[[MustWait], Awaitable[None]]
    ) -> None:
        """Write, again and again until no lock has to be waited for."""
        mark = self._view.mark()
        while True:
            try:
                write()
            except MustWait as conflict:
                self._view.undo(mark)
                await wait_for_lock(conflict)
            else:
                return

    def _physical(self, batch: pa.RecordBatch, done: int) -> pa.RecordBatch:
        """The batch with every physical column of the table, checked."""
        count = batch.num_rows
        defaults = self._rules.defaults(self._missing, count, done)
        arrays: list[Array] = []
        for position, column in enumerate(self._table.columns):
            if position in self._places:
                array = self._conformed(batch.column(self._places[position]), column, position, done)
            elif column.numbers_rows:
                first = self._view.next_row_ids(self._table, count)
                array = pa.array(np.arange(first, first + count))
            else:
                array = defaults[position]
            arrays.append(array)
        self._rules.verify(arrays, done)
        return pa.RecordBatch.from_arrays(arrays, names=[column.name for column in self._table.columns])

    def _conformed(self, array: Array, column: Column, position: int, done: int) -> Array:
        try:
            if column.type.has_places and not self._stored:
                array = places_of(array, column.type)
            found = conform(array, self._table.fields[position], column.type.precision)
        except ValueError as error:
            raise SqlError(
                "22003" if isinstance(error, OutOfRangeError) else "22023",
                f'column "{column.name}" of the data does not fit: {error}',
                detail=f"Rows are counted from row {done + 1} of the data.",
                column=column.name,
            ) from error
        except SqlError as error:  # no label, no address
            raise self._rules.located(error, done + int(error.fields.pop("nth", "0") or 0)) from None
        return found if self._stored else self._rules.stored(found, column, done)


class LoadRules:
    """The rules of one table for one load.

    Args:
        clock: what now() is for DEFAULT and CHECK.
    """

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table = table
        self._clock = clock
        self._rules = rules_of(table)
        self._same: dict[int, Any] = {}  # defaults that are one value for all rows, by position

    def stored(self, array: Array, column: Column, done: int) -> Array:
        """Values as their type keeps them: text without blanks that are too many. SqlError 22001, 22P02."""
        try:
            kept = kept_texts(array, column.type)
            check_values(kept, column.type)
        except SqlError as error:
            raise self.located(error, done + int(error.fields.pop("nth", "0") or 0)) from None
        return kept

    def _at_row(self, make: Any, at: int, done: int) -> Any:
        try:
            return make()
        except SqlError as error:
            raise self.located(error, done + at) from None

    def defaults(self, positions: Sequence[int], count: int, done: int) -> dict[int, Array]:
        """The columns at ``positions`` for rows that do not give them: their DEFAULT, or NULL.

        What is another value each time is evaluated for each row, and row after row, as INSERT does: columns
        that count with one sequence take turns.
        """
        table, clock = self._table, self._clock
        each = [at for at in positions if has_volatile_default(table, at)]
        found = {at: self._same_default(at, count) for at in positions if at not in each}
        if each:
            computes = [compile_default(table, at) for at in each]
            rows = [
                self._at_row(lambda: [compute((), (), clock) for compute in computes], at, done)  # type: ignore[misc]
                for at in range(count)
            ]
            for place, at in enumerate(each):
                found[at] = self._array(at, [row[place] for row in rows])
        return found

    def _same_default(self, position: int, count: int) -> Array:
        column, field = self._table.columns[position], self._table.fields[position]
        compute = None if column.dropped else compile_default(self._table, position)
        if compute is None:
            nulls: Any = pa.nulls
            return nulls(count, arrow_type(field, column.type.precision))
        if position not in self._same:
            self._same[position] = compute((), (), self._clock)
        return self._array(position, [self._same[position]] * count)

    def _array(self, position: int, datums: list[Any]) -> Array:
        column = self._table.columns[position]
        return datums_to_array(self._table.fields[position], datums, column.type.precision)

    def verify(self, arrays: list[Array], done: int) -> None:
        """Look at the physical columns of a slice, and put the generated ones among them.

        SqlError 23502 and 23514, as INSERT of each row; and what an expression fails with.
        """
        self._generate(arrays, done)
        count = len(arrays[0]) if arrays else 0
        nulls = [
            (int(arrays[position].is_null().index(True).as_py()), position)
            for position in self._rules.not_null
            if arrays[position].null_count
        ]
        stop = min(nulls)[0] if nulls else count
        if self._rules.checks:
            self._check(arrays, stop, done)
        if nulls:
            row = self._row(arrays, stop)
            try:
                self._rules.refuse_null(min(nulls)[1], row)
            except SqlError as error:
                raise self.located(error, done + stop) from None

    def _generate(self, arrays: list[Array], done: int) -> None:
        try:
            self._rules.fill_generated(arrays, self._clock)
        except SqlError as error:
            raise self.located(error, done + int(error.fields.pop("nth", "0") or 0)) from None

    def _check(self, arrays: list[Array], stop: int, done: int) -> None:
        conditions = [condition for _, condition in self._rules.checks]
        clock = self._clock
        rows = rows_of_columns(self._table.fields, arrays, self._rules.watched, stop)
        for at, row in enumerate(rows):
            try:
                failed = any(condition(row, (), clock) is False for condition in conditions)
            except SqlError as error:
                raise self.located(error, done + at) from None
            if failed:
                try:
                    self._rules.verify(self._row(arrays, at), clock)
                except SqlError as error:
                    raise self.located(error, done + at) from None

    def _row(self, arrays: list[Array], at: int) -> list[Any]:
        return [
            array_to_datums(field, array.slice(at, 1))[0]
            for field, array in zip(self._table.fields, arrays, strict=True)
        ]

    def located(self, error: SqlError, row: int) -> SqlError:
        """The error, with the row (from 0) that it is about."""
        error.fields.setdefault("row", str(row + 1))
        error.fields.setdefault("where", f"row {row + 1} of the data for {self._table.name}")
        return error
