"""Spark's Arrow batches become batches of the table's columns; what does not fit names its row. Pure.

Above ``plan``, below ``staging``. Columns are matched by name, as Spark matches them: exactly, else without
regard to case. Columns that the DataFrame has not get the constants that the server made of their defaults.
Types are those that an INSERT would assign without a cast (``herdpy.codec.arrow.conform``). What only the
server can judge (CHECK, UNIQUE, lengths, rows that are there) it judges when the load is published.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from herdpy.codec.arrow_conform import conform
from herdpy_spark.writing.plan import TargetColumn, target_schema
from herdpy_sql.errors import SqlError
from herdpy_sql.values.stored_columns import values_of_texts

_ROW = re.compile(r"row (\d+): (.*)", re.DOTALL)
_SHOWN = 200  # characters of a value in a message


class RowError(ValueError):
    """A row of a DataFrame that cannot stand in the table.

    Attributes:
        row: its number within the partition, from 1, as the server counts too.
        column: the table's column.
        problem: what is wrong with the value.
        key: what else identifies the row: the key's columns, or all that there are, and their values.
    """

    def __init__(
        self, row: int, column: str, problem: str, key: str = "", partition: int | None = None
    ) -> None:
        where = f"row {row}" if partition is None else f"row {row} of partition {partition}"
        named = f" ({key})" if key else ""
        super().__init__(f'{where}{named}, column "{column}": {problem}')
        self.row = row
        self.column = column
        self.problem = problem
        self.key = key

    def __reduce__(self) -> tuple[Any, ...]:
        return RowError, (self.row, self.column, self.problem, self.key)


class ColumnError(ValueError):
    """A column of a DataFrame that the table has not, or has with a type it cannot become, or has twice."""


def matched(given: Sequence[str], wanted: Sequence[str], *, more: bool = False) -> dict[str, str]:
    """The DataFrame's name of each of the table's columns that the DataFrame has.

    Args:
        more: names that the table has not are passed over.

    Raises:
        ColumnError: the DataFrame has a column that the table has not, or two for the same one.
    """
    found: dict[str, str] = {}
    folded: dict[str, list[str]] = {}
    for name in wanted:
        folded.setdefault(name.casefold(), []).append(name)
    for name in given:
        same = [name] if name in wanted else folded.get(name.casefold(), [])
        if not same:
            if more:
                continue
            raise ColumnError(f'the table has no column "{name}"; it has {", ".join(wanted)}')
        if len(same) > 1:
            raise ColumnError(f'"{name}" may be each of the table\'s columns {", ".join(same)}: rename it')
        if same[0] in found:
            raise ColumnError(f'the DataFrame has the column "{same[0]}" twice')
        found[same[0]] = name
    return found


class Conformer:
    """Makes one partition's batches those to stage.

    Attributes:
        schema: of what ``batches`` gives.
        rows: how many rows were conformed so far.
    """

    def __init__(
        self,
        columns: Sequence[TargetColumn],
        constants: pa.RecordBatch | None = None,
        *,
        key: Sequence[str] = (),
        partition: int | None = None,
        more: bool = False,
    ) -> None:
        """Args:
        columns: what is staged, in order.
        constants: one row with a value for each of them that the DataFrame has not.
        key: the columns that identify a row, for messages; none: all of it is shown.
        more: the DataFrame may have other columns too, which are passed over.
        """
        self.schema = target_schema(columns)
        self.rows = 0
        self._columns = tuple(columns)
        self._constants = (
            {} if constants is None else dict(zip(constants.schema.names, constants.columns, strict=True))
        )
        self._key = tuple(key)
        self._partition = partition
        self._more = more

    def check(self, schema: pa.Schema) -> None:
        """Refuse what no row of this schema can become, before any row is there.

        Raises:
            ColumnError: a column is missing, is not the table's, or has a type that cannot be stored.
        """
        names = self._names(schema)
        for column in self._columns:
            if column.name in names:
                empty = pa.array([], schema.field(names[column.name]).type)
                try:
                    stored(empty, column)
                except ValueError as error:
                    raise ColumnError(f'column "{column.name}": {error}: cast it in Spark') from error

    def batches(self, batch: pa.RecordBatch, max_bytes: int) -> Iterator[pa.RecordBatch]:
        """The batch conformed, in slices of at most about ``max_bytes`` (but one row at least).

        Raises:
            RowError: a value cannot be stored in its column.
            ColumnError: see ``check``.
        """
        if not batch.num_rows:
            return
        whole = self._conformed(batch)
        self.rows += batch.num_rows
        slices = -(-whole.nbytes // max_bytes)
        step = max(1, -(-batch.num_rows // slices))
        for start in range(0, batch.num_rows, step):
            yield from _halved(whole.slice(start, step), max_bytes)

    def _conformed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        names = self._names(batch.schema)
        arrays: list[Any] = []
        for column in self._columns:
            given = names.get(column.name)
            if given is None:
                arrays.append(self._constant(column, batch.num_rows))
                continue
            source = batch.column(batch.schema.get_field_index(given))
            try:
                array = stored(source, column)
            except SqlError as error:  # text that is no value
                row = int(error.fields.get("nth", "0") or 0)
                raise self._error(row, column, error.message, batch, names) from error
            except ValueError as error:
                raise self._explained(error, column, batch, names) from error
            if not column.nullable and array.null_count:
                row = int(np.argmax(array.is_null().to_numpy(zero_copy_only=False)))
                raise self._error(row, column, "NULL in a column that is NOT NULL", batch, names)
            arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _names(self, schema: pa.Schema) -> dict[str, str]:
        names = matched(schema.names, self.schema.names, more=self._more)
        missing = [c.name for c in self._columns if c.name not in names and c.name not in self._constants]
        if missing:
            raise ColumnError(f"the DataFrame has no column {', '.join(missing)}, and there is no default")
        return names

    def _constant(self, column: TargetColumn, count: int) -> Any:
        value = conform(self._constants[column.name], column.field, column.precision)
        return value.take(pa.array(np.zeros(count, np.int64)))

    def _explained(
        self, error: ValueError, column: TargetColumn, batch: pa.RecordBatch, names: dict[str, str]
    ) -> ValueError:
        found = _ROW.fullmatch(str(error))
        if found is None:
            return ColumnError(f'column "{column.name}": {error}')
        return self._error(int(found[1]), column, found[2], batch, names)

    def _error(
        self, row: int, column: TargetColumn, problem: str, batch: pa.RecordBatch, names: dict[str, str]
    ) -> RowError:
        telling = [name for name in self._key if name in names] or names
        shown = ", ".join(
            f"{name} = {_text(batch.column(batch.schema.get_field_index(names[name])), row)}"
            for name in telling
        )
        return RowError(self.rows + row + 1, column.name, _short(problem), _short(shown), self._partition)


def stored(array: Any, column: TargetColumn) -> Any:
    """A column of a DataFrame as it is staged; SqlError or ValueError when a value is none of the column."""
    if column.sql is not None:
        array = values_of_texts(array, column.sql)
    return conform(array, column.field, column.precision)


def _halved(batch: pa.RecordBatch, max_bytes: int) -> Iterator[pa.RecordBatch]:
    """The batch in slices of at most ``max_bytes``, where its rows are of very unequal sizes."""
    if batch.nbytes <= max_bytes or batch.num_rows == 1:
        yield batch
        return
    middle = batch.num_rows // 2
    yield from _halved(batch.slice(0, middle), max_bytes)
    yield from _halved(batch.slice(middle), max_bytes)


def _text(array: Any, row: int) -> str:
    try:
        return _short(str(array[row].as_py()))
    except (OverflowError, ValueError):
        return f"a {array.type}"  # a time beyond what Python's objects hold


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
