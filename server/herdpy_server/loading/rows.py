"""From batches as they were given or staged to rows as they are kept, or the error that names the row.

Above ``load``. Who publishes takes a batch when it needs one: nothing is read further ahead than a little.
Writers learn what to stage, and are not trusted to have done it: types must be those of the table
exactly, every buffer is validated, and what the table asks of its rows is asked of each.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import pyarrow as pa

from herdpy.codec.arrow import arrow_type
from herdpy.codec.arrow_bytes import batch_to_keys
from herdpy.codec.arrow_conform import OutOfRangeError, conform
from herdpy.log.wait import Work
from herdpy_server.loading.load import LoadMode, may_lack, staged_schema
from herdpy_server.sessions.bulk import LoadRules
from herdpy_server.store.batches import Expanded, expand
from herdpy_sql.errors import SqlError
from herdpy_sql.staged import staged_positions

if TYPE_CHECKING:
    from herdpy_sql.catalog import Table
    from herdpy_sql.clock import Clock


MAX_MESSAGE_BYTES = 256 << 20
"""The longest Arrow message of a staged part: a record batch."""


class StagedBatch(NamedTuple):
    """A batch, its part (from 1; 0 where there are none), and how many rows of that came before."""

    batch: pa.RecordBatch
    part: int
    first: int


class StagedRowsSource(Protocol):
    """Batches, to be taken one after the other.

    Attributes:
        rows: how many there are in all; None when nobody knows.
    """

    @property
    def rows(self) -> int | None: ...

    async def next(self) -> StagedBatch | None:
        """The next one; None after the last. SqlError, LogError: they cannot be read."""

    async def close(self) -> None:
        """Nobody takes the rest."""


class Batches:
    """Batches that an iterator gives, in whose thread it does not matter.

    Args:
        rows: how many there are in all.
        threads: as of ``Work``.
    """

    def __init__(
        self, batches: Iterable[StagedBatch], rows: int | None = None, threads: Executor | None = None
    ) -> None:
        self.rows = rows
        self._batches: Iterator[StagedBatch] = iter(batches)
        self._threads = threads

    async def next(self) -> StagedBatch | None:
        """See Source."""
        return await Work(lambda: next(self._batches, None), self._threads)

    async def close(self) -> None:
        """See Source."""
        close = getattr(self._batches, "close", None)
        if close is not None:
            close()


def in_one_part(batches: Iterable[pa.RecordBatch]) -> Iterator[StagedBatch]:
    """Batches that nobody cut into parts."""
    first = 0
    for batch in batches:
        yield StagedBatch(batch, 0, first)
        first += batch.num_rows


Array = Any  # pyarrow's stubs know arrays by element type, and these functions take any
_ROW = re.compile(r"row (\d+): ")


class KeptRows:
    """Some rows of a load.

    Attributes:
        expanded: keys and images, as they are kept; of rows to delete there are no images.
        batch: the physical columns; None of rows to delete.
    """

    __slots__ = ("batch", "expanded")

    def __init__(self, expanded: Expanded, batch: pa.RecordBatch | None) -> None:
        self.expanded = expanded
        self.batch = batch


class RowMaker:
    """Makes the rows of one load.

    Attributes:
        left_out: the columns, by position, that are not staged: each row's DEFAULT is evaluated here.

    Args:
        clock: what now() is for CHECK and DEFAULT; its sequences are those that DEFAULT counts with.
    """

    def __init__(self, table: Table, mode: LoadMode, clock: Clock) -> None:
        self._table = table
        self._mode = mode
        self._rules = LoadRules(table, clock)
        self._left_out: tuple[int, ...] | None = None
        self._places: dict[int, int] = {}

    @property
    def left_out(self) -> tuple[int, ...]:
        """See above; known once a schema was checked."""
        return self._left_out or ()

    def check_schema(self, schema: pa.Schema) -> None:
        """SqlError 42804 unless these are the columns to stage, with their types, in their order.

        Those that who publishes may compute can be left out, by all parts of the load or by none.
        """
        table, mode = self._table, self._mode
        positions = staged_positions(table, keys_only=mode is LoadMode.DELETE)
        if self._left_out is None:
            self._left_out = tuple(
                at
                for at in positions
                if table.columns[at].name not in schema.names and may_lack(table, mode, at)
            )
            staged = (at for at in positions if at not in self._left_out)
            self._places = {at: place for place, at in enumerate(staged)}
        wanted = staged_schema(table, mode, self._left_out)
        if schema.names != wanted.names:
            raise SqlError(
                "42804",
                f"the rows staged for {self._table.name} have the columns {', '.join(schema.names)}, "
                f"not {', '.join(wanted.names)}",
                table=self._table.name,
            )
        for given, field in zip(schema, wanted, strict=True):
            if given.type != field.type:
                raise SqlError(
                    "42804",
                    f'column "{field.name}" of the rows staged for {self._table.name} is {given.type}, '
                    f"not {field.type}",
                    hint="Begin says which types to stage; the table may have been changed since.",
                    table=self._table.name,
                    column=field.name,
                )

    def make(self, batch: pa.RecordBatch, done: int, first_row_id: int) -> KeptRows:
        """The rows of a batch whose schema was checked.

        Args:
            done: how many rows of the load were before.
            first_row_id: the hidden key of the first; without meaning where the table has a key.

        Raises:
            SqlError: 22..., 23502, 23514 a row does not fit: its number in the load, from 1, is in the
                field ``row``.
        """
        if self._mode is LoadMode.DELETE:
            return KeptRows(Expanded(self._keys(batch, done), []), None)
        table, count = self._table, batch.num_rows
        defaults = self._rules.defaults(self._left_out or (), count, done)
        arrays: list[Array] = []
        for position, column in enumerate(table.columns):
            if position in self._places:
                arrays.append(self._kept(batch.column(self._places[position]), position, done))
            elif position in defaults:
                arrays.append(defaults[position])
            elif column.numbers_rows:
                arrays.append(pa.array(range(first_row_id, first_row_id + count), pa.int64()))
            else:
                dropped: Any = pa.nulls
                arrays.append(dropped(count, arrow_type(table.fields[position], column.type.precision)))
        self._rules.verify(arrays, done)
        physical = pa.RecordBatch.from_arrays(arrays, names=[column.name for column in table.columns])
        try:
            return KeptRows(expand(table, physical), physical)
        except ValueError as error:
            raise _located(SqlError("22000", str(error), table=table.name), str(error), done) from error

    def _keys(self, batch: pa.RecordBatch, done: int) -> list[bytes]:
        table = self._table
        arrays = [
            self._kept(batch.column(place), position, done)
            for place, position in enumerate(table.key_positions)
        ]
        for array, position in zip(arrays, table.key_positions, strict=True):
            if array.null_count:
                row = int(array.is_null().index(True).as_py())
                name = table.columns[position].name
                raise SqlError(
                    "23502",
                    f'null value in column "{name}" of the key of a row to delete from "{table.name}"',
                    table=table.name,
                    column=name,
                    row=str(done + row + 1),
                )
        return batch_to_keys(table.key_codec.fields, arrays)

    def _kept(self, array: Array, position: int, done: int) -> Array:
        column = self._table.columns[position]
        try:
            conformed = conform(array, self._table.fields[position], column.type.precision)
        except ValueError as error:
            raise _located(
                SqlError(
                    "22003" if isinstance(error, OutOfRangeError) else "22023",
                    f'column "{column.name}" of {self._table.name} does not take what is staged: '
                    + _ROW.sub("", str(error)),
                    table=self._table.name,
                    column=column.name,
                ),
                str(error),
                done,
            ) from error
        return self._rules.stored(conformed, column, done)


def _located(error: SqlError, text: str, done: int) -> SqlError:
    """With the row that the codec's message names, if it names one."""
    named = _ROW.search(text)
    if named is not None:
        error.fields["row"] = str(done + int(named[1]) + 1)
    return error
