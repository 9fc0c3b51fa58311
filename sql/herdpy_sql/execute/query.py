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

    def note(self) -> str:
        """What EXPLAIN says of a join behind its name; nothing unless it was measured."""
        return ""

    def removed(self) -> list[str]:
        """What EXPLAIN says under a filter; nothing unless it was measured."""
        return []


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
            rows = run_step(step, rows, view, params, clock, self.locking)
        yield from rows

    @property
    def is_short(self) -> bool:
        """Whether every step looks up few rows for each before it, and nothing else."""
        plain = not any(step.left or step.after for step in self.steps)
        return bool(self.steps) and plain and all(step.source.few for step in self.steps)

    def at_once(self, view: View, params: Row, clock: Clock) -> list[Row]:
        """The same rows where they are few: without a generator for each step, which would cost more."""
        rows: list[Row] = [()]
        for step in self.steps:
            decode, condition, look_up = step.decode, step.condition, step.source.look_up
            rows = [
                outer + decode(image) for outer in rows for _, image in look_up(view, outer, params, clock)
            ]
            if condition is not None:
                rows = [row for row in rows if condition(row, params, clock) is True]
        return rows


def run_step(
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
        asked = bool(sort) or limit is not None or offset is not None or rows.locking
        self.at_once = not asked and rows.is_short

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> Outcome:
        if self.at_once:
            found, project = self.pipeline.at_once(view, params, clock), self.project
            if project is not None:
                found = [project(row, params, clock) for row in found]
            return Outcome(found, len(found))
        found = list(self.stream(view, params, clock))
        return Outcome(found, len(found))

    def stream(self, view: View, params: Row, clock: Clock) -> Iterator[Row]:
        """The result's rows one by one, as they are found."""
        rows: Iterable[Row] = self.pipeline.rows(view, params, clock)
        limit = count_of(self.limit, params, clock, "LIMIT", "2201W")
        skip = min(count_of(self.offset, params, clock, "OFFSET", "2201X") or 0, sys.maxsize)
        stop = None if limit is None else min(limit + skip, sys.maxsize)
        if self.sort:
            rows = self.sorted_rows(rows, stop, params, clock)
        if skip or stop is not None:
            rows = itertools.islice(rows, skip, stop)
        project = self.project
        if project is None:
            return iter(rows)
        return (project(row, params, clock) for row in rows)

    def sorted_rows(self, rows: Iterable[Row], stop: int | None, params: Row, clock: Clock) -> Iterable[Row]:
        """The first ``stop`` rows (None: all) as ORDER BY wants them."""
        return sort_rows(rows, self.sort, stop, params, clock)

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
            lines += [f"{inner}  {line}" for line in last.removed()]
        return lines
    lines = [f"{indent}{arrow}{'Left ' if last.left else ''}Key Join{last.note()}"]
    if last.after_text:
        lines.append(f"{inner}  Filter: {last.after_text}")
    deeper = inner + "  "
    lines += _explain_steps(steps[:-1], deeper)
    title, *rest = last.source.explain()
    lines += [f"{deeper}-> {title}", *(f"{deeper}   {line}" for line in rest)]
    if last.condition_text:
        lines.append(f"{deeper}     Filter: {last.condition_text}")
        lines += [f"{deeper}     {line}" for line in last.removed()]
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


def count_of(value: Compiled | None, params: Row, clock: Clock, what: str, sqlstate: str) -> int | None:
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
