"""Rows out of a published snapshot and the ledgers after it, without any server. Above ``leases``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from herdpy.log.lsn import LSN, START
from herdpy_spark import log
from herdpy_spark.batch.rows import StateKeeper
from herdpy_spark.log import LogAddress, LogPlan
from herdpy_spark.options import OptionError
from herdpy_sql.catalog import Table
from herdpy_sql.definitions import decode_table
from herdpy_sql.errors import SqlError
from herdpy_sql.values import from_text

if TYPE_CHECKING:
    from herdpy.codec.kinds import Datum


@dataclass(frozen=True, slots=True)
class LogRows:
    """See ``Rows``.

    Attributes:
        plans: of the tables; of several, each has one partition.
        keeper: keeps the state while a task reads; None: nobody removes it.
    """

    plans: tuple[LogPlan, ...]
    keeper: StateKeeper | None

    @property
    def lsn(self) -> LSN:
        """See ``Rows``."""
        return self.plans[0].upto

    @property
    def definitions(self) -> tuple[bytes, ...]:
        """See ``Rows``."""
        return tuple(plan.definition for plan in self.plans)

    @property
    def count(self) -> int:
        """See ``Rows``."""
        return sum(len(plan.ranges) for plan in self.plans)

    @contextmanager
    def held(self) -> Iterator[None]:
        """See ``Rows``."""
        with nullcontext() if self.keeper is None else self.keeper.held():
            yield

    def read(
        self, number: int, columns: Sequence[str], low: bytes | None, high: bytes | None
    ) -> Iterator[pa.RecordBatch]:
        """See ``Rows``."""
        plan, within = self._partition(number)
        bounds = _both(plan.ranges[within], (low, high))
        if bounds[0] is not None and bounds[1] is not None and bounds[0] >= bounds[1]:
            return
        ranges = tuple(bounds if at == within else one for at, one in enumerate(plan.ranges))
        yield from log.read_partition(replace(plan, ranges=ranges), within, columns)

    def _partition(self, number: int) -> tuple[LogPlan, int]:
        for plan in self.plans:
            if number < len(plan.ranges):
                return plan, number
            number -= len(plan.ranges)
        raise IndexError(number)


def _both(
    one: tuple[bytes | None, bytes | None], other: tuple[bytes | None, bytes | None]
) -> tuple[bytes | None, bytes | None]:
    lows = [bound for bound in (one[0], other[0]) if bound is not None]
    highs = [bound for bound in (one[1], other[1]) if bound is not None]
    return max(lows, default=None), min(highs, default=None)


def plan_table(
    address: LogAddress,
    table: str,
    at: LSN | int | None,
    *,
    partitions: int,
    bounds: tuple[str | None, str | None],
    keeper: StateKeeper | None,
    least: LSN = START,
) -> LogRows:
    """Plan a table at one position.

    Args:
        bounds: of the first key column, as text.
        least: as of ``herdpy_spark.log.plan_table``.

    Raises:
        OptionError: a bound is no value of the key.
        herdpy.log.LogError: as of ``herdpy_spark.log.plan_table``.
    """
    is_bounded = bounds != (None, None)
    plan = log.plan_table(address, table, at, 1 if is_bounded else partitions, least=least)
    if is_bounded:
        definition = decode_table(plan.definition)
        low, high = (bound(definition, text) for text in bounds)
        plan = log.plan_table(address, table, plan.upto, partitions, low=low, high=high)
    return LogRows((plan,), keeper)


def plan_tables(
    address: LogAddress,
    tables: Sequence[str],
    at: LSN | int | None,
    keeper: StateKeeper | None,
    least: LSN = START,
) -> LogRows:
    """Plan several tables at one position. Errors as of :func:`plan_table`."""
    return LogRows(tuple(log.plan_tables(address, tables, at, least=least)), keeper)


def bound(table: Table, text: str | None) -> tuple[Datum, ...] | None:
    """A value of the first key column. OptionError when the text is none, or there is no key."""
    if text is None:
        return None
    if table.has_hidden_key:
        raise OptionError(f"the options lowerBound, upperBound: table {table.name} has no primary key")
    column = table.columns[table.key[0].position]
    try:
        return (from_text(column.type)(text),)
    except SqlError as error:
        raise OptionError(f"the options lowerBound, upperBound: {error.message}") from error
