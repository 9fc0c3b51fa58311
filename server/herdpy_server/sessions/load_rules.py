"""What a table asks of the columns that are loaded into it: lengths, JSON, DEFAULT, NOT NULL, CHECK.

Beside ``bulk``, which has a slice of Arrow columns and hands whole columns back and forth. What INSERT does
with each row happens here column by column; only a CHECK looks at rows, and at those of its columns that it
speaks of. Errors are INSERT's, with the row of the data in ``where``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute

from herdpy.codec.arrow import array_to_datums, arrow_type, datums_to_array
from herdpy_sql.errors import SqlError
from herdpy_sql.expr import columns_used
from herdpy_sql.generated import fill_generated
from herdpy_sql.plan.rules import bind_check, compile_default, has_volatile_default, rules_of, scalar
from herdpy_sql.types import Base
from herdpy_sql.values.json_texts import parse_json
from herdpy_sql.values.label_columns import check_places
from herdpy_sql.values.strings import limit_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from herdpy_sql.catalog import Column, Table
    from herdpy_sql.storage import Clock

pc: Any = pyarrow.compute
Array = Any  # pyarrow's stubs know arrays by element type, and these functions take any


class LoadRules:
    """The rules of one table for one load.

    Args:
        clock: what now() is for DEFAULT and CHECK.
    """

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table = table
        self._clock = clock
        self._rules = rules_of(table)
        self._watched = sorted(
            {
                column.index
                for check in table.checks
                for column in columns_used(bind_check(table, scalar(check.condition)))
            }
        )
        self._same: dict[int, Any] = {}  # defaults that are one value for all rows, by position

    def stored(self, array: Array, column: Column, done: int) -> Array:
        """Text as its type keeps it: without blanks that are too many. SqlError 22001, and 22P02 of JSON."""
        base, length = column.type.base, column.type.length
        if base is Base.CHAR:
            array = pc.utf8_rtrim(array, " ")
        if length is not None and base in {Base.CHAR, Base.VARCHAR}:
            long = pc.greater(pc.utf8_length(array), length)
            if pc.any(long).as_py():
                cut = [
                    text
                    if text is None
                    else self._at_row(lambda text=text: limit_text(text, column.type), at, done)
                    for at, text in enumerate(array.to_pylist())
                ]
                array = pa.array(cut, array.type)
        elif base is Base.JSON:
            for at, text in enumerate(_texts(array)):
                if text is not None:
                    self._at_row(lambda text=text: parse_json(text), at, done)
        elif column.type.enum is not None:
            try:
                check_places(array, column.type)
            except SqlError as error:
                raise self.located(error, done + int(error.fields.pop("nth", "0") or 0)) from None
        return array

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
        if self._rules.generated:
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
            fill_generated(self._table, arrays, self._clock)
        except SqlError as error:
            raise self.located(error, done + int(error.fields.pop("nth", "0") or 0)) from None

    def _check(self, arrays: list[Array], stop: int, done: int) -> None:
        columns: list[Any] = [[None] * stop] * len(arrays)
        for position in self._watched:
            columns[position] = array_to_datums(self._table.fields[position], arrays[position].slice(0, stop))
        conditions = [condition for _, condition in self._rules.checks]
        clock = self._clock
        for at, row in enumerate(zip(*columns, strict=True)):
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


def _texts(array: Array) -> list[str | None]:
    found: list[str | None] = array.to_pylist()
    return found
