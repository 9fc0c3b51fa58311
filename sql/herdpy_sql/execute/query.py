"""Own SELECTs: rows of a source, joined, filtered, sorted, limited and projected.

A row is a tuple of datums: the needed columns of the first table, then those of each joined table. The
steps are generators over such tuples, so that LIMIT stops the scan. A lookup of one row by its key with
nothing else to do has a class of its own, because that is the statement the engine is measured by.
"""

from __future__ import annotations

import heapq
import itertools
import math
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from herdpy_sql.errors import SqlError
from herdpy_sql.execute.base import Outcome, Plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa

    from herdpy.codec.kinds import Datum
    from herdpy_sql.execute.base import Compiled, OutputColumn, Row
    from herdpy_sql.execute.sources import KeyGet, Source
    from herdpy_sql.storage import Clock, View
    from herdpy_sql.types import SqlType


@dataclass(frozen=True)
class Step:
    """One table of a query: the source, how its rows are decoded, and what they must satisfy.

    Attributes:
        condition: over the row including this table's columns; of a left join, its ON condition.
        after: of a left join, a WHERE condition on the joined row, NULLs included.
        left: whether an outer row without a match is kept, with NULLs.
        width: how many columns this table adds.
    """

    source: Source
    decode: Callable[[bytes], tuple[Datum, ...]]
    condition: Compiled | None = None
    condition_text: str = ""
    left: bool = False
    after: Compiled | None = None
    after_text: str = ""
    width: int = 0


@dataclass(frozen=True)
class SortKey:
    """One item of ORDER BY."""

    value: Compiled
    descending: bool
    nulls_first: bool
    text: str
    floating: bool = False


@dataclass(frozen=True)
class Rows:
    """A pipeline that yields rows; also the row source of INSERT ... SELECT."""

    steps: tuple[Step, ...]
    condition: Compiled | None = None  # with no table at all
    locking: bool = False

    def rows(self, view: View, params: Row, clock: Clock) -> Iterator[Row]:
        """The joined and filtered rows."""
        if not self.steps:
            if self.condition is None or self.condition((), params, clock) is True:
                yield ()
            return
        rows: Iterable[Row] = ((),)
        for step in self.steps:
            rows = _step(step, rows, view, params, clock, self.locking)
        yield from rows


def _step(
    step: Step, outer_rows: Iterable[Row], view: View, params: Row, clock: Clock, locking: bool
) -> Iterator[Row]:
    decode, condition, after = step.decode, step.condition, step.after
    pairs = step.source.pairs
    nothing = (None,) * step.width
    for outer in outer_rows:
        matched = False
        for key, image in pairs(view, outer, params, clock):
            row = outer + decode(image)
            if condition is None or condition(row, params, clock) is True:
                matched = True
                if after is None or after(row, params, clock) is True:
                    if locking:
                        view.lock_row(step.source.table, key)
                    yield row
        if step.left and not matched:
            row = outer + nothing
            if after is None or after(row, params, clock) is True:
                yield row


class SelectPlan(Plan):
    """A SELECT over own sources. ``order_text`` says why no sort is needed, or what is sorted."""

    tag = "SELECT"
    read_only = True

    def __init__(
        self,
        rows: Rows,
        columns: tuple[OutputColumn, ...],
        param_types: tuple[SqlType, ...],
        project: Callable[[Row, Row, Clock], Row] | None,
        sort: tuple[SortKey, ...] = (),
        limit: Compiled | None = None,
        offset: Compiled | None = None,
    ) -> None:
        self.pipeline = rows
        self.columns = columns
        self.param_types = param_types
        self.project = project
        self.sort = sort
        self.limit = limit
        self.offset = offset
        self.read_only = not rows.locking

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> Outcome:
        found = list(self.stream(view, params, clock))
        return Outcome(found, len(found))

    def stream(self, view: View, params: Row, clock: Clock) -> Iterator[Row]:
        """The result's rows one by one, as they are found."""
        rows: Iterable[Row] = self.pipeline.rows(view, params, clock)
        limit = _count(self.limit, params, clock, "LIMIT", "2201W")
        skip = min(_count(self.offset, params, clock, "OFFSET", "2201X") or 0, sys.maxsize)
        stop = None if limit is None else min(limit + skip, sys.maxsize)
        if self.sort:
            rows = sort_rows(rows, self.sort, stop, params, clock)
        if skip or stop is not None:
            rows = itertools.islice(rows, skip, stop)
        project = self.project
        if project is None:
            return iter(rows)
        return (project(row, params, clock) for row in rows)

    def explain(self) -> list[str]:
        lines: list[str] = []
        indent = ""

        def add(text: str) -> None:
            nonlocal indent
            lines.append(f"{indent}{'-> ' if indent else ''}{text}")
            indent += "   " if indent else "  "

        if self.limit is not None or self.offset is not None:
            add("Limit")
        if self.sort:
            add("Sort by " + ", ".join(key.text for key in self.sort))
        if self.pipeline.locking:
            add("Lock Rows")
        return lines + _explain_steps(self.pipeline.steps, indent)


def _explain_steps(steps: Sequence[Step], indent: str) -> list[str]:
    if not steps:
        return [f"{indent}{'-> ' if indent else ''}Result"]
    arrow = "-> " if indent else ""
    inner = indent + ("   " if indent else "")
    last = steps[-1]
    if len(steps) == 1:
        title, *rest = last.source.explain()
        lines = [f"{indent}{arrow}{title}", *(f"{inner}{line}" for line in rest)]
        if last.condition_text:
            lines.append(f"{inner}  Filter: {last.condition_text}")
        return lines
    lines = [f"{indent}{arrow}{'Left ' if last.left else ''}Key Join"]
    if last.after_text:
        lines.append(f"{inner}  Filter: {last.after_text}")
    deeper = inner + "  "
    lines += _explain_steps(steps[:-1], deeper)
    title, *rest = last.source.explain()
    lines += [f"{deeper}-> {title}", *(f"{deeper}   {line}" for line in rest)]
    if last.condition_text:
        lines.append(f"{deeper}     Filter: {last.condition_text}")
    return lines


class PointSelect(Plan):
    """A SELECT of plain columns of the one row with a given key."""

    tag = "SELECT"
    read_only = True
    brief = True

    def __init__(
        self,
        source: KeyGet,
        columns: tuple[OutputColumn, ...],
        param_types: tuple[SqlType, ...],
        decode: Callable[[bytes], tuple[Datum, ...]],
    ) -> None:
        self.columns = columns
        self.param_types = param_types
        self.get = source
        self._table = source.table
        self._key = source.key
        self._decode = decode

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> Outcome:
        key = self._key((), params, clock)
        if key is not None:
            image = view.get(self._table, key)
            if image is not None:
                return Outcome([self._decode(image)], 1)
        return Outcome([], 0)

    def explain(self) -> list[str]:
        return self.get.explain()


def _count(value: Compiled | None, params: Row, clock: Clock, what: str, sqlstate: str) -> int | None:
    """The number of a LIMIT or OFFSET; NULL is none."""
    if value is None:
        return None
    number = value((), params, clock)
    if number is None:
        return None
    assert isinstance(number, int)
    if number < 0:
        raise SqlError(sqlstate, f"{what} must not be negative")
    return number


def sort_rows(
    rows: Iterable[Row], keys: Sequence[SortKey], stop: int | None, params: Row, clock: Clock
) -> list[Row]:
    """The first ``stop`` rows (None: all) in the order of ``keys``; equal ones as they came."""
    if stop == 0:
        return []
    if stop is not None and len(keys) == 1:
        only = keys[0]
        key = _sort_function(only, params, clock)
        pick = heapq.nlargest if only.descending else heapq.nsmallest
        return pick(stop, rows, key=key)
    found = list(rows)
    for one in reversed(keys):  # stable sorts, the least significant first
        found.sort(key=_sort_function(one, params, clock), reverse=one.descending)
    return found if stop is None else found[:stop]


def _sort_function(one: SortKey, params: Row, clock: Clock) -> Callable[[Row], tuple[int, Datum]]:
    value = one.value
    # In a reversed sort what is greatest comes first.
    null = (1, 0) if one.nulls_first == one.descending else (-1, 0)
    if one.floating:

        def of_float(row: Row) -> tuple[int, Datum]:
            datum = value(row, params, clock)
            if datum is None:
                return null
            return (0.5, 0) if math.isnan(datum) else (0, datum)  # type: ignore[return-value, arg-type]

        return of_float

    def of_datum(row: Row) -> tuple[int, Datum]:
        datum = value(row, params, clock)
        return null if datum is None else (0, datum)

    return of_datum
