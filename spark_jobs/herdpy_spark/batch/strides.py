"""Partitions at even steps of a column, as Spark's JDBC source cuts a table. Above ``rows``.

There ``partitionColumn``, ``lowerBound``, ``upperBound`` and ``numPartitions`` mean steps from the one bound
to the other. The first partition has all that comes before them too, the last all that comes after, so the
bounds choose no rows. A table of HerdPy is in the order of its key, so the column is the key's first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa

from herdpy.log.lsn import LSN
from herdpy_spark.batch.rows import BatchRows, bound, narrowed
from herdpy_spark.options import OptionError
from herdpy_sql.catalog import Table
from herdpy_sql.types import Base

if TYPE_CHECKING:
    from herdpy.codec.kinds import Datum

_COUNTED = frozenset({Base.SMALLINT, Base.INTEGER, Base.BIGINT, Base.NUMERIC, Base.DATE})
_MOMENTS = frozenset({Base.TIMESTAMP, Base.TIMESTAMPTZ})


@dataclass(frozen=True, slots=True)
class StridedRows:
    """See ``BatchRows``: one table's rows, of which each partition has a range of keys.

    Attributes:
        rows: the state, in one partition.
        cuts: encoded keys, ascending, at which a partition ends and the next one begins.
    """

    rows: BatchRows
    cuts: tuple[bytes, ...]

    @property
    def lsn(self) -> LSN:
        """See ``BatchRows``."""
        return self.rows.lsn

    @property
    def definitions(self) -> tuple[bytes, ...]:
        """See ``BatchRows``."""
        return self.rows.definitions

    @property
    def count(self) -> int:
        """See ``BatchRows``."""
        return len(self.cuts) + 1

    def held(self) -> AbstractContextManager[None]:
        """See ``BatchRows``."""
        return self.rows.held()

    def release(self) -> None:
        """See ``BatchRows``."""
        self.rows.release()

    def read(
        self, number: int, columns: Sequence[str], low: bytes | None, high: bytes | None
    ) -> Iterator[pa.RecordBatch]:
        """See ``BatchRows``."""
        edges = (None, *self.cuts, None)
        first, last = narrowed((edges[number], edges[number + 1]), (low, high))
        if first is None or last is None or first < last:
            yield from self.rows.read(0, columns, first, last)


@dataclass(frozen=True, slots=True)
class Strides:
    """How a table shall be cut.

    Attributes:
        column: its name, in any case as SQL folds it, or exactly.
        low, high: values of the column, as text.
        count: how many partitions.
    """

    column: str
    low: str
    high: str
    count: int

    def of(self, rows: BatchRows, table: Table) -> StridedRows:
        """A state of the table in these partitions.

        Raises:
            OptionError: the column is not the key's first or has no steps, a bound is no value of it, or the
                first one is not below the second.
        """
        low, high = self._bounds(table)
        cuts = sorted({table.key_codec.encode_prefix((cut,)) for cut in self._cuts(low, high)})
        return StridedRows(rows, tuple(cuts))

    def _bounds(self, table: Table) -> tuple[Datum, Datum]:
        first = None if table.has_hidden_key else table.columns[table.key[0].position]
        if first is None or first.name not in (self.column, self.column.lower()):
            known = "and it has none" if first is None else first.name
            raise OptionError(
                f"the option partitionColumn: table {table.name} is cut at the first column of its key, "
                f"{known}; leave the option out for ranges of as many rows each"
            )
        if first.type.base not in _COUNTED | _MOMENTS:
            raise OptionError(
                f"the option partitionColumn: {first.name} is {first.type}; "
                "steps are of numbers, dates and timestamps"
            )
        low, high = (bound(table, text) for text in (self.low, self.high))
        assert low is not None
        assert high is not None
        if not low < high:
            raise OptionError(f"the options lowerBound, upperBound: {self.low} is not below {self.high}")
        return low[0], high[0]

    def _cuts(self, low: Datum, high: Datum) -> list[Datum]:
        """Where one step ends and the next begins; fewer of bounds that are close."""
        if isinstance(low, int) and isinstance(high, int):
            return [
                cut for nth in range(1, self.count) if (cut := low + (high - low) * nth // self.count) > low
            ]
        assert isinstance(low, Decimal)
        assert isinstance(high, Decimal)
        return [low + (high - low) * nth / self.count for nth in range(1, self.count)]
