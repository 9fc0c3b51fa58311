"""What a statement answers: rows of datums or an Arrow table, here or still to come.

Above ``query_backend`` and ``limits``, below ``portals`` and ``execution``. A :class:`Result` turns rows
and tables into each other late. Of a large answer the rows are still to come: a :class:`RowStream` is the
rows, and a :class:`Delivery` what one query, Execute or FETCH gives of them; with its end the statement is
over: it is counted, committed, and the observer called. Nothing is read ahead here: the next piece is asked
for when the one before was sent, so a client that does not read stops the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from herdpy_server.sessions.encoded_rows import EncodedBatches, EncodedRows, RowForm, WithRows
from herdpy_server.sessions.limits import HeldSize, ResultSize
from herdpy_sql.errors import SqlError
from herdpy_sql.values import output_converter
from herdpy_sql.values.python_columns import column_to_python
from herdpy_sql.values.reg_types import has_labels

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from herdpy.codec.kinds import Datum
    from herdpy_server.sessions.identity import Observer
    from herdpy_server.sessions.query_backend import Answer, Export, Form
    from herdpy_server.sessions.waits import StatementWaits
    from herdpy_sql.plan import OutputColumn


Row = tuple["Datum", ...]

CHUNK_ROWS = 4096
"""Rows that ``Result.chunks`` gives at a time by default."""


class Tagged(Protocol):
    """What knows the command tag of a statement; a plan does."""

    def command_tag(self, count: int) -> str:
        """Such as "SELECT 3"."""


class CopyTransfer(Protocol):
    """COPY under way; see ``copying``, which says in which direction.

    Attributes:
        commits: it is the last statement of an implicit transaction, and ends it.
    """

    commits: bool


class Result:
    """The answer to one statement.

    Attributes:
        plan: what its command tag is asked of, or that tag.
        rowcount: rows returned or changed; -1 for statements that do neither.
        columns: name and type of each column, or None when the statement returns no rows.
        is_complete: False for a part of a portal's answer that more may follow.
        copy: of COPY, where the data goes or comes from; the statement is not over before that is.
        stream: where the rows come from, when they are not here: nor is the statement over before that
            is. Its end tells ``rowcount`` and ``is_complete``.
        encoded: the rows as the client's protocol has them, where they were made with the rows.
    """

    __slots__ = ("_rows", "_table", "columns", "copy", "encoded", "is_complete", "plan", "rowcount", "stream")

    def __init__(
        self,
        plan: Tagged | str,
        rowcount: int,
        columns: tuple[OutputColumn, ...] | None = None,
        rows: list[Row] | None = None,
        table: pa.Table | None = None,
    ) -> None:
        self.plan = plan
        self.rowcount = rowcount
        self.columns = columns
        self._rows = rows
        self._table = table
        self.is_complete = True
        self.copy: CopyTransfer | None = None
        self.stream: Delivery | None = None
        self.encoded: EncodedRows | None = None

    def __await__(self) -> Generator[Any, Any, Result]:
        """It is there: for those who await what may be an answer or a coroutine that gives one."""
        yield from ()
        return self

    @property
    def is_under_way(self) -> bool:
        """Whether the statement is not over: data of COPY, or rows, are still to be moved."""
        return self.copy is not None or self.stream is not None

    @property
    def length(self) -> int:
        """How many rows there are here."""
        if self._rows is not None:
            return len(self._rows)
        return 0 if self._table is None else self._table.num_rows

    def part(self, start: int, count: int, *, reverse: bool = False) -> Result:
        """``count`` rows from ``start`` (from 0), which must be there, as an answer of their own."""
        if self._rows is not None:
            rows = self._rows[start : start + count]
            return Result(self.plan, count, self.columns, rows[::-1] if reverse else rows)
        if self._table is None:
            return Result(self.plan, count, self.columns, [])
        table = self._table.slice(start, count)
        if reverse:
            import pyarrow as pa

            table = table.take(pa.array(range(count - 1, -1, -1), pa.int64()))
        part = Result(self.plan, count, self.columns, None, table)
        if self.encoded is not None and not reverse:
            part.encoded = self.encoded.part(start, count)
        return part

    def tagged(self, tag: Tagged | str) -> Result:
        """The same rows under another command tag."""
        return Result(tag, self.rowcount, self.columns, self._rows, self._table)

    def chunks(self, size: int = CHUNK_ROWS) -> Iterator[list[Row]]:
        """The rows as datums, ``size`` at a time, so that a large answer is never held twice."""
        if self._rows is not None:
            for start in range(0, len(self._rows), size):
                yield self._rows[start : start + size]
        elif self._table is not None:
            for start in range(0, self._table.num_rows, size):
                yield self.part(start, min(size, self._table.num_rows - start)).rows

    def batches(self, size: int = CHUNK_ROWS) -> list[pa.RecordBatch] | None:
        """The rows as Arrow batches of up to ``size``, without a copy; None where they are datums."""
        if self._rows is not None or self._table is None:
            return None
        return self._table.to_batches(max_chunksize=size)

    @property
    def tag(self) -> str:
        """PostgreSQL's command tag, such as "SELECT 3" or "INSERT 0 1"."""
        plan = self.plan
        return plan if isinstance(plan, str) else plan.command_tag(self.rowcount)

    @property
    def rows(self) -> list[Row]:
        """The rows as the engine's datums (see herdpy.codec.kinds)."""
        if self._rows is None:
            if self._table is None or self.columns is None:
                return []
            from herdpy.codec.arrow import array_to_datums

            columns = [
                array_to_datums(column.type.field, array.combine_chunks())
                for column, array in zip(self.columns, self._table.columns, strict=True)
            ]
            self._rows = list(zip(*columns, strict=True)) if columns else [()] * self._table.num_rows
        return self._rows

    def converters(self) -> list[Callable[[Datum], object] | None]:
        """For each column what makes Python objects of its datums; None where they are already."""
        return [output_converter(column.type) for column in self.columns or ()]

    def python_rows(self) -> list[tuple[object, ...]]:
        """The rows as Python objects: dates as ``datetime.date``, UUIDs as ``uuid.UUID`` and so on."""
        converters = self.converters()
        if not any(converters):
            return self.rows  # type: ignore[return-value]
        if self._rows is None and self._table is not None and self.columns is not None:
            return self._python_rows_of(self._table, self.columns)
        rows = self.rows
        columns = [
            values if convert is None else [None if v is None else convert(v) for v in values]
            for convert, values in zip(converters, zip(*rows, strict=True), strict=False)
        ]
        return list(zip(*columns, strict=True))

    def _python_rows_of(self, table: pa.Table, columns: tuple[OutputColumn, ...]) -> list[tuple[object, ...]]:
        """The rows of an Arrow answer, made column by column."""
        values = [
            column_to_python(array.combine_chunks(), column.type)
            for column, array in zip(columns, table.columns, strict=True)
        ]
        return list(zip(*values, strict=True))

    def arrow(self) -> pa.Table:
        """The rows as an Arrow table for users, who get the labels of ENUMs and the names of ids."""
        table, columns = self.physical(), self.columns or ()
        if not any(has_labels(column.type) for column in columns):
            return table
        from herdpy_sql.values.label_columns import shown

        return shown(table, [column.type for column in columns])

    def physical(self) -> pa.Table:
        """The rows as the engine's Arrow table; of DuckDB's answers without a copy."""
        if self._table is None:
            import pyarrow as pa

            from herdpy.codec.arrow import arrow_type, datums_to_array

            columns = self.columns or ()
            values = list(zip(*self._rows, strict=True)) if self._rows else [()] * len(columns)
            arrays = [
                datums_to_array(column.type.field, list(datums))
                for column, datums in zip(columns, values, strict=True)
            ]
            schema = pa.schema([pa.field(c.name, arrow_type(c.type.field)) for c in columns])
            self._table = pa.Table.from_arrays(arrays, schema=schema)
        return self._table


class PendingQuery(Protocol):
    """A query that is asked for when its first rows are wanted."""

    async def answer(self) -> Answer:
        """Ask for batches. SqlError as the query raises them."""

    async def export(self, form: Form) -> Export:
        """Ask for bytes."""

    def asking(self) -> AbstractContextManager[None]:
        """Within it the statement can be cancelled while it waits for more."""

    @property
    def held_bytes(self) -> int:
        """How much of the answer may be in memory at the same time; 0: as much as there is."""


class Pieces(Protocol):
    """Where a delivery takes rows from."""

    def prefer(self, form: RowForm) -> None:
        """Rows that are not requested yet had better come with their bytes in this form."""

    async def next(self) -> Result | None:
        """The next rows, at least one; None once there are no more."""

    def close(self) -> None:
        """No more is wanted; again it does nothing."""


class RowStream:
    """The rows of one answer: in pieces that are Results of their own, or as bytes, but not both."""

    def __init__(
        self, tag: Tagged, columns: tuple[OutputColumn, ...], asked: PendingQuery, most_bytes: int = 0
    ) -> None:
        """``most_bytes``: a larger answer is an error, when it has become so; 0: none is."""
        self._size = ResultSize(most_bytes)
        self._tag = tag
        self._columns = columns
        self._asked = asked
        self._answer: Answer | None = None
        self._export: Export | None = None
        self._encoded: EncodedBatches | None = None
        self._form: RowForm | None = None
        self._is_closed = False

    @property
    def held_bytes(self) -> int:
        """See Asked."""
        return self._asked.held_bytes

    @property
    def rows(self) -> int:
        """How many rows the bytes so far are."""
        return 0 if self._export is None else self._export.rows

    async def next(self) -> Result | None:
        """See Pieces. After an error there are no more."""
        if self._is_closed:
            return None
        try:
            batch, encoded = await self._next()
            if batch is not None:
                self._size.take(batch.nbytes)
        except BaseException:
            self.close()
            raise
        if batch is None:
            self.close()
            return None
        piece = Result(self._tag, batch.num_rows, self._columns, None, pa.Table.from_batches([batch]))
        piece.encoded = encoded
        return piece

    def prefer(self, form: RowForm) -> None:
        """See Pieces."""
        self._form = form

    async def _next(self) -> tuple[pa.RecordBatch | None, EncodedRows | None]:
        """The next batch, with its bytes where they were preferred when the query began."""
        if self._answer is None and self._encoded is None:
            if self._form is None:
                self._answer = await self._asked.answer()
            else:
                export = await self._asked.export(WithRows(self._form))
                self._encoded = EncodedBatches(export, self._form)
        with self._asked.asking():
            if self._answer is not None:
                return await self._answer.next(), None
            assert self._encoded is not None
            return await self._encoded.next() or (None, None)

    async def next_bytes(self, form: Form) -> bytes | None:
        """The next rows in a form, which is of no interest but at the first call."""
        if self._is_closed:
            return None
        try:
            if self._export is None:
                self._export = await self._asked.export(form)
            with self._asked.asking():
                data = await self._export.next()
            if data is not None:
                self._size.take(len(data))
        except BaseException:
            self.close()
            raise
        if data is None:
            self.close()
        return data

    def close(self) -> None:
        """See Pieces."""
        self._is_closed = True
        for made in (self._answer, self._export, self._encoded):
            if made is not None:
                made.close()


class Deliverer(Protocol):
    """The session whose statement a delivery is, as far as that concerns it; see ``TransactionBlock``."""

    text: str
    is_running: bool
    implicit: bool
    observer: Observer | None
    waits: StatementWaits

    async def commit(self) -> None:
        """End the open transaction."""

    def abort(self) -> None:
        """An error happened."""


class Delivery:
    """What one query, Execute or FETCH gives of its rows.

    Attributes:
        commits: it is the last statement of an implicit transaction, and ends it.
        rows: how many were taken so far.
    """

    def __init__(self, session: Deliverer, result: Result, pieces: Pieces, limit: int | None = None) -> None:
        """``result`` is given its ``rowcount`` at the end.

        Args:
            limit: ``pieces`` give no more rows than that; if they give as many, ``result`` is not complete.
        """
        self._session = session
        self._result = result
        self._pieces = pieces
        self._limit = limit
        self._text, self._began = session.text, perf_counter()
        self._is_over = False
        self.commits = False
        self.rows = 0

    @property
    def as_bytes(self) -> bool:
        """Whether the rows can be had as bytes; they can when nobody wants some of them later."""
        return isinstance(self._pieces, RowStream)

    def prefer(self, form: RowForm) -> None:
        """See Pieces."""
        self._pieces.prefer(form)

    def take_over(self) -> Pieces:
        """The rows themselves, to be delivered otherwise; this delivery is done with."""
        self._is_over = True
        self._result.stream = None
        return self._pieces

    async def next(self) -> Result | None:
        """The next rows; None once the statement, or its part, is over.

        Raises:
            SqlError: why it failed, perhaps after many rows; 57014 when it was cancelled.
        """
        if self._is_over:
            return None
        try:
            self._goes_on()
            piece = await self._pieces.next()
            if piece is None:
                await self._end()
                return None
        except BaseException as error:
            self._over(error)
            raise
        self.rows += piece.length
        return piece

    async def next_bytes(self, form: Form) -> bytes | None:
        """As :meth:`next`, in the form of the client's protocol; where ``as_bytes`` says that it can be."""
        if self._is_over:
            return None
        pieces = self._pieces
        assert isinstance(pieces, RowStream)
        try:
            self._goes_on()
            data = await pieces.next_bytes(form)
            self.rows = pieces.rows
            if data is None:
                await self._end()
        except BaseException as error:
            self._over(error)
            raise
        return data

    async def whole(self) -> Result:
        """All that is left, held in memory. SqlError 53200 when a recursive query gives too much of it."""
        found = []
        held = self._pieces.held_bytes if isinstance(self._pieces, RowStream) else 0
        size = HeldSize(held)
        try:
            while (piece := await self.next()) is not None:
                found.append(piece)
                if held:
                    size.take(piece.physical().nbytes)
        except SqlError as error:
            if not self._is_over:
                self._over(error)
            raise
        result = self._result
        if len(found) == 1:
            whole = found[0].tagged(result.plan)
        elif found:
            table = pa.concat_tables([piece.physical() for piece in found])
            whole = Result(result.plan, table.num_rows, result.columns, None, table)
        else:
            whole = Result(result.plan, 0, result.columns, [])
        whole.is_complete = result.is_complete
        return whole

    def close(self) -> None:
        """Nobody takes the rest. Again, or after the end, it does nothing."""
        if not self._is_over:
            self._is_over = True
            self._session.is_running = False
            self._pieces.close()

    def _goes_on(self) -> None:
        self._session.is_running = True
        self._session.waits.check()

    async def _end(self) -> None:
        session, result = self._session, self._result
        result.rowcount = self.rows
        result.is_complete = self._limit is None or self.rows < self._limit
        if self.commits and session.implicit:
            await session.commit()
        self._over(None)

    def _over(self, error: BaseException | None) -> None:
        session = self._session
        self._is_over = True
        session.is_running = False
        if error is not None:
            self._pieces.close()
            session.abort()
        if session.observer is not None:
            rows = -1 if error is not None else self.rows
            session.observer(self._text, perf_counter() - self._began, rows, error)
