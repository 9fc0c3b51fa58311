"""A translated query: what it needs, and how it is run over Arrow tables.

Over ``transfer``, which says how values go into DuckDB and how they come back.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from herdpy.imports import lazy_module
from herdpy_sql.columnar import engine
from herdpy_sql.columnar.bounds import NOTHING, PartitionChoice, ScanRange
from herdpy_sql.columnar.callbacks import surrogate_of
from herdpy_sql.columnar.emission import CONTEXT, FIRST_SURROGATE, STATEMENT_US, TRANSACTION_US, Surrogate
from herdpy_sql.columnar.engine import Interrupt, Limits
from herdpy_sql.columnar.ready_cursors import READY, ReadyCursor
from herdpy_sql.columnar.transfer import answered, column_type, duck_value, given_names
from herdpy_sql.errors import SqlError
from herdpy_sql.types import Base
from herdpy_sql.values.time_zones import zone_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import duckdb

    from herdpy.codec.kinds import Datum
    from herdpy_sql.catalog import Table
    from herdpy_sql.clock import Clock
    from herdpy_sql.execute.base import OutputColumn
    from herdpy_sql.library import Resolved
    from herdpy_sql.types import SqlType
else:
    duckdb = lazy_module("duckdb")


_FOR_GOOD = frozenset({"57014", "53200", "53400", "08P01"})
"""Errors that have nothing to do with values."""

_TOO_DARING: dict[str, int] = {}
"""Texts of queries whose results had too many digits, and how many times more nobody tries them."""
_SKIPPED = 50
_REMEMBERED = 1000


@dataclass(frozen=True, slots=True)
class Scan:
    """A base table that a query reads.

    Attributes:
        name: what the query calls it; the key of ``run``'s ``sources``.
        positions: the columns that the query needs, in the order in which it wants them.
        range: what the query's conditions say of the key.
        chosen: of a partition: whether it may have any rows for these parameters; None: it may for any.
    """

    name: str
    table: Table
    positions: tuple[int, ...]
    range: ScanRange = field(default_factory=ScanRange)
    chosen: PartitionChoice | None = None

    @property
    def types(self) -> list[SqlType]:
        """The types of the columns at ``positions``."""
        return [self.table.columns[position].type for position in self.positions]

    def bounds(self, params: Sequence[Datum]) -> tuple[bytes | None, bytes | None]:
        """Key bytes from (inclusive) and to (exclusive), None where open; a superset of what is needed."""
        if self.chosen is not None and not self.chosen.may_have(self.table, params):
            return NOTHING
        return self.range.bounds(self.table, params)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class ColumnarQuery:
    """A SELECT as DuckDB runs it. Immutable: made once, run many times, from any thread.

    Attributes:
        sql: DuckDB's text; its parameters are numbered by ``marks``.
        marks: for each parameter of ``sql``, the statement's parameter number (from 1), or what it
            is computed from (the clock, a surrogate).
        given: what it reads of relations that are no tables; ``handed``: their rows, by the scan's name.
        routines: functions of the library that ``sql`` calls.
        context: the number of what they look things up in (``contexts.running``).
        careful: the same query where no result can have too many digits, and much slower; None where it is
            the same. It runs when this one fails.
        at_once: no row of the answer is there before all are computed.
        is_recursive: there is a WITH RECURSIVE in it, so that its answer may have no end.
        spreads: of each partitioned table its id, and those of all the partitions that it was made for.
    """

    sql: str
    scans: tuple[Scan, ...]
    columns: tuple[OutputColumn, ...]
    param_types: tuple[SqlType, ...]
    marks: tuple[int, ...] = ()
    surrogates: tuple[Surrogate, ...] = ()
    given: tuple[Scan, ...] = ()
    handed: Mapping[str, pa.Table] = field(default_factory=dict)
    routines: tuple[Resolved, ...] = ()
    context: int = 0
    careful: ColumnarQuery | None = None
    at_once: bool = False
    is_recursive: bool = False
    spreads: tuple[tuple[int, tuple[int, ...]], ...] = ()

    def handing(self, relations: Mapping[int, pa.Table], param_types: tuple[SqlType, ...]) -> ColumnarQuery:
        """The query with the rows of its given relations, by the ids of their tables.

        Args:
            param_types: of the whole statement, which may have more parameters.
        """
        handed = {one.name: relations[one.table.id].select(list(one.positions)) for one in self.given}
        return replace(self, handed=handed, param_types=param_types)

    def run(
        self,
        sources: Mapping[str, pa.Table],
        params: Sequence[Datum],
        clock: Clock,
        limits: Limits | None = None,
        interrupt: Interrupt | None = None,
    ) -> pa.Table:
        """The answer as an Arrow table whose types are those of ``arrow_type`` for ``columns``.

        Args:
            sources: for each scan, by its name, its columns in the order of ``positions``.
            params: a datum for each of ``param_types``.

        Raises:
            SqlError: what the statement did wrong, with PostgreSQL's SQLSTATE; 57014 when
                interrupted; 53200 when it needs more memory than it may have.
        """
        if self.careful is None:
            return self._run(sources, params, clock, limits or Limits(), interrupt)
        skip = _TOO_DARING.get(self.sql, 0)
        if not skip:
            try:
                return self._run(sources, params, clock, limits or Limits(), interrupt)
            except SqlError as error:
                if error.sqlstate in _FOR_GOOD:
                    raise
        found = self._carefully.run(sources, params, clock, limits, interrupt)
        if len(_TOO_DARING) >= _REMEMBERED:
            _TOO_DARING.clear()
        _TOO_DARING[self.sql] = (skip or _SKIPPED) - 1
        return found

    def _run(
        self,
        sources: Mapping[str, pa.Table],
        params: Sequence[Datum],
        clock: Clock,
        limits: Limits,
        interrupt: Interrupt | None,
    ) -> pa.Table:
        with self._opened(sources, params, clock, limits, interrupt) as opened:
            table = _fetch(opened, limits)
            opened.ready.answer_bytes = table.nbytes
        return self._typed(table)

    @property
    def _carefully(self) -> ColumnarQuery:
        assert self.careful is not None
        return replace(self.careful, param_types=self.param_types, handed=self.handed, context=self.context)

    def stream(
        self,
        sources: Mapping[str, pa.Table],
        params: Sequence[Datum],
        clock: Clock,
        limits: Limits | None = None,
        interrupt: Interrupt | None = None,
        batch_rows: int = 8192,
    ) -> Iterator[pa.RecordBatch]:
        """The answer in batches of ``schema``, none of them empty, made as they are asked for.

        Errors as of :meth:`run`, at any batch.
        """
        if self.careful is not None:  # once a row is given away it is too late to begin again
            if self.at_once:
                yield from self.run(sources, params, clock, limits, interrupt).to_batches(batch_rows)
            else:
                yield from self._carefully.stream(sources, params, clock, limits, interrupt, batch_rows)
            return
        with self._opened(sources, params, clock, limits or Limits(), interrupt) as opened:
            nbytes = 0
            for batch in opened.relation().to_arrow_reader(batch_rows):
                nbytes += batch.nbytes
                if batch.num_rows:
                    yield from self._typed(pa.Table.from_batches([batch])).to_batches()
                if interrupt is not None:
                    interrupt.check()
            opened.ready.answer_bytes = nbytes

    @property
    def schema(self) -> pa.Schema:
        """Of the answer."""
        return pa.schema([pa.field(column.name, column_type(column.type)) for column in self.columns])

    @contextlib.contextmanager
    def _opened(
        self,
        sources: Mapping[str, pa.Table],
        params: Sequence[Datum],
        clock: Clock,
        limits: Limits,
        interrupt: Interrupt | None,
    ) -> Iterator[_Opened]:
        """The query, not begun. What fails in the block raises SqlError."""
        if len(params) != len(self.param_types):
            raise SqlError(
                "08P01",
                f"bind message supplies {len(params)} parameters, "
                f"but the statement requires {len(self.param_types)}",
            )
        values = [self._value(mark, params, clock) for mark in self.marks]
        if engine.zone_of_duck(clock.zone) is None and self._has_zoned_moments():
            zone_of(clock.zone)
            raise SqlError("0A000", f'the columnar engine does not have the time zone "{clock.zone}"')
        connection = engine.database(limits.memory_bytes, limits.threads, limits.temp_directory, clock.style)
        given = {scan.name: sources[scan.name] for scan in self.scans}
        ready: ReadyCursor | None = None
        has_ended = False
        try:
            if interrupt is not None:
                interrupt.check()

            def register(cursor: Any) -> None:
                engine.provide(connection, self.sql, self.routines, clock.style)
                self._register(cursor, given)

            ready = READY.take(connection, self.sql, given, register)
            yield _Opened(ready, values, interrupt)
            ready.settle(limits.memory_bytes or engine.MEMORY_BYTES)
            has_ended = True
        except (duckdb.Error, OSError) as error:  # OSError: of a stream
            if interrupt is not None:
                interrupt.check()
            raise engine.sql_error(error) from None
        except pa.ArrowException as error:
            raise SqlError("XX000", f"internal error of the columnar engine: {error}") from None
        finally:
            if interrupt is not None:
                interrupt.attach(None)
            if ready is not None and has_ended and not self.given:
                READY.give_back(ready)
            elif ready is not None:
                ready.cursor.close()

    def _has_zoned_moments(self) -> bool:
        """Whether a TIMESTAMPTZ is in it, which DuckDB may ask for its zone's clock."""
        types = [*self.param_types, *(one.type for one in self.columns)]
        types += [one for scan in (*self.scans, *self.given) for one in scan.types]
        return (
            any((one.element or one.base) is Base.TIMESTAMPTZ for one in types)
            or "timestamptz" in self.sql.lower()
        )

    def _register(self, cursor: Any, sources: Mapping[str, pa.Table]) -> None:
        """Give a cursor of DuckDB all that the query reads."""
        for scan in self.scans:
            cursor.register(scan.name, given_names(sources[scan.name], scan.types))
        for scan in self.given:
            cursor.register(scan.name, given_names(self.handed[scan.name], scan.types))

    def _typed(self, table: pa.Table) -> pa.Table:
        arrays: list[Any] = []
        fields = []
        for column, array in zip(self.columns, table.columns, strict=True):
            wanted = column_type(column.type)
            arrays.append(answered(array, wanted))
            fields.append(pa.field(column.name, wanted))
        return pa.table(arrays, schema=pa.schema(fields))

    def _value(self, mark: int, params: Sequence[Datum], clock: Clock) -> Any:
        if mark >= FIRST_SURROGATE:
            surrogate = self.surrogates[mark - FIRST_SURROGATE]
            value = params[surrogate.param - 1]
            if value is None:
                return None
            return surrogate_of(Decimal(str(value)), surrogate.precision, surrogate.scale)
        if mark == CONTEXT:
            return self.context
        if mark == TRANSACTION_US:
            return clock.transaction_us
        if mark == STATEMENT_US:
            return clock.statement_us
        return duck_value(params[mark - 1], self.param_types[mark - 1])


@dataclass(frozen=True, slots=True)
class _Opened:
    """A query with its columns and parameters, which is run once."""

    ready: ReadyCursor
    values: Sequence[Any]
    interrupt: Interrupt | None

    def relation(self) -> Any:
        """DuckDB's relation; from now on the query can be interrupted."""
        return self.ready.relation(self.values, self._attach)

    def _attach(self) -> None:
        if self.interrupt is not None:
            self.interrupt.attach(self.ready.cursor)


def _fetch(opened: _Opened, limits: Limits) -> pa.Table:
    if limits.seconds is None:
        whole: pa.Table = opened.relation().to_arrow_table()
        return whole
    deadline = time.monotonic() + limits.seconds
    reader = opened.relation().to_arrow_reader(100_000)
    batches = []
    for batch in reader:
        batches.append(batch)
        if time.monotonic() > deadline:
            raise SqlError("57014", "canceling statement due to statement timeout")
    return pa.Table.from_batches(batches, reader.schema)
