"""ANALYZE's look at a table: a query, for whoever answers columnar ones, whose answer is its statistics.

It has the face of ``ColumnarQuery`` (scans, run, stream), so it runs in a worker process over the same
columns, and needs no SQL: rows are counted, values are taken from at most SAMPLE_ROWS rows at equal steps.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from herdpy.codec.arrow import array_to_datums, full_width
from herdpy.imports import lazy_module
from herdpy_sql.columnar.query import Scan
from herdpy_sql.execute.base import OutputColumn
from herdpy_sql.plan.statistics import LONGEST, ColumnStatistics, TableStatistics, encode, position_codec
from herdpy_sql.types import TEXT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from herdpy.codec.kinds import Datum, Field
    from herdpy_sql.catalog import Table
    from herdpy_sql.clock import Clock
    from herdpy_sql.columnar.engine import Interrupt, Limits
    from herdpy_sql.types import SqlType

pc: Any = lazy_module("pyarrow.compute")

SAMPLE_ROWS = 30_000
"""As many as PostgreSQL looks at by default."""
_COMMON = 50
_BOUNDS = 100


@dataclass(frozen=True)
class StatisticsQuery:
    """Looks at one table. Its answer is one row with one text: the statistics, as JSON."""

    table: Table

    @property
    def scans(self) -> tuple[Scan, ...]:
        """All columns that are there."""
        return (Scan("sampled", self.table, self.positions),)

    @property
    def positions(self) -> tuple[int, ...]:
        """Of the columns that are looked at."""
        return tuple(i for i, column in enumerate(self.table.columns) if not column.dropped)

    @property
    def columns(self) -> tuple[OutputColumn, ...]:
        """Of the answer."""
        return (OutputColumn("statistics", TEXT),)

    param_types: tuple[SqlType, ...] = ()
    handed: Mapping[str, pa.Table] = field(default_factory=dict)  # nothing is

    @property
    def schema(self) -> pa.Schema:
        """Of the answer."""
        return pa.schema([pa.field("statistics", pa.string())])

    def run(
        self,
        sources: Mapping[str, pa.Table],
        params: Sequence[Datum],
        clock: Clock,
        limits: Limits | None = None,
        interrupt: Interrupt | None = None,
    ) -> pa.Table:
        """See ColumnarQuery.run."""
        found = sources["sampled"]
        columns = {}
        for position, array in zip(self.positions, found.columns, strict=True):
            if interrupt is not None:
                interrupt.check()
            one = _looked_at(self.table.fields[position], array)
            if one is not None:
                columns[position] = one
        text = encode(TableStatistics(found.num_rows, columns)).decode()
        return pa.table([pa.array([text])], schema=self.schema)

    def stream(
        self,
        sources: Mapping[str, pa.Table],
        params: Sequence[Datum],
        clock: Clock,
        limits: Limits | None = None,
        interrupt: Interrupt | None = None,
        batch_rows: int = 8192,
    ) -> Iterator[pa.RecordBatch]:
        """See ColumnarQuery.stream."""
        yield from self.run(sources, params, clock, limits, interrupt).to_batches()


def _looked_at(field: Field, array: Any) -> ColumnStatistics | None:
    """The statistics of a column; None for a type that has no order."""
    count = len(array)
    if not count:
        return ColumnStatistics()
    sample = array = full_width(field, array)
    if count > SAMPLE_ROWS:
        sample = array.take(pa.array(np.linspace(0, count - 1, SAMPLE_ROWS, dtype=np.int64)))
    sample = sample.combine_chunks() if isinstance(sample, pa.ChunkedArray) else sample
    if isinstance(sample, pa.ChunkedArray):  # of no chunks
        return ColumnStatistics()
    try:
        encode_one = position_codec(field).encode
        values = sorted(encode_one([v])[:LONGEST] for v in array_to_datums(field, sample) if v is not None)
    except (ValueError, KeyError, TypeError):
        return None
    if not values:
        return ColumnStatistics(nulls=1.0)
    counts = Counter(values)
    share = 1 / len(sample)
    least = max(2.0, 1.25 * len(values) / len(counts))
    common = [(value, n) for value, n in counts.most_common(_COMMON) if n >= least]
    frequent = {value for value, _ in common}
    others = [value for value in values if value not in frequent]
    steps = np.linspace(0, len(others) - 1, min(_BOUNDS + 1, len(others)), dtype=np.int64)
    return ColumnStatistics(
        nulls=array.null_count / count,
        distinct=_distinct(array, len(counts), len(values)),
        common=tuple((value.hex(), n * share) for value, n in common),
        bounds=tuple(others[int(step)].hex() for step in steps),
    )


def _distinct(array: Any, seen: int, looked_at: int) -> int:
    """How many values there are: counted where Arrow can, else as if the sample were the table."""
    try:
        storage = array.cast(array.type.storage_type) if isinstance(array.type, pa.ExtensionType) else array
        return int(pc.count_distinct(storage, mode="only_valid").as_py())
    except pa.ArrowNotImplementedError:
        return round(seen * len(array) / looked_at) if seen > looked_at * 0.9 else seen
