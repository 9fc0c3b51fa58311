"""What a statement answers: rows of datums, or an Arrow table, each turned into the other late.

A large answer is not held: its rows are still to come, and are taken piece by piece from ``stream``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

from herdpy_sql.values import output_converter

if TYPE_CHECKING:
    import pyarrow as pa

    from herdpy.codec.kinds import Datum
    from herdpy_server.sessions.copying import CopySink, CopySource
    from herdpy_server.sessions.streams import Delivery
    from herdpy_sql.plan import OutputColumn

Row = tuple["Datum", ...]

CHUNK_ROWS = 4096
"""Rows that ``Result.chunks`` gives at a time, unless told otherwise."""


class Tagged(Protocol):
    """What knows the command tag of a statement; a plan does."""

    def command_tag(self, count: int) -> str:
        """Such as "SELECT 3"."""


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
    """

    __slots__ = ("_rows", "_table", "columns", "copy", "is_complete", "plan", "rowcount", "stream")

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
        self.copy: CopySink | CopySource | None = None
        self.stream: Delivery | None = None

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
        return Result(self.plan, count, self.columns, None, table)

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
        rows = self.rows
        converters = self.converters()
        if not any(converters):
            return rows  # type: ignore[return-value]
        columns = [
            values if convert is None else [None if v is None else convert(v) for v in values]
            for convert, values in zip(converters, zip(*rows, strict=True), strict=False)
        ]
        return list(zip(*columns, strict=True))

    def arrow(self) -> pa.Table:
        """The rows as an Arrow table for users, who get the labels of ENUMs."""
        table, columns = self.physical(), self.columns or ()
        if not any(column.type.enum for column in columns):
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
