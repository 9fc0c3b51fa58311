"""Own SELECTs: rows of a source, joined, filtered, sorted, limited and projected, or aggregated to one row.

A row is a tuple of datums: the needed columns of the first table, then those of each joined table. The steps
are generators over such tuples, so that LIMIT stops the scan. A lookup of one row by its key with nothing
else to do has a class of its own, because that is the statement the engine is measured by.

What an aggregate gathers is exact and does not depend on the order of rows: integers, NUMERIC, and least or
greatest values.
"""

from __future__ import annotations

import heapq
import itertools
import math
import sys
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from herdpy_sql.errors import SqlError
from herdpy_sql.execute.base import Plan, PlanOutcome
from herdpy_sql.expr.numeric import add, divide
from herdpy_sql.types import Base
from herdpy_sql.values.numeric import normal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa

    from herdpy.codec.kinds import Datum
    from herdpy_sql.clock import Clock
    from herdpy_sql.execute.base import Compiled, OutputColumn, Row
    from herdpy_sql.execute.sources import KeyGet, RowSource
    from herdpy_sql.storage import View
    from herdpy_sql.types import SqlType


@dataclass(frozen=True)
class JoinStep:
    """One table of a query: the source, how its rows are decoded, and what they must satisfy.

    Attributes:
        condition: over the row including this table's columns; of a left join, its ON condition.
        after: of a left join, a WHERE condition on the joined row, NULLs included.
        left: whether an outer row without a match is kept, with NULLs.
        width: how many columns this table adds.
    """

    source: RowSource
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
    """One item of ORDER BY.

    Attributes:
        floating: its values are floats, of which NaN is the greatest.
        order: what a value sorts by, where that is not the value itself.
    """

    value: Compiled
    descending: bool
    nulls_first: bool
    text: str
    floating: bool = False
    order: Callable[[Any], Any] | None = None


@dataclass(frozen=True)
class JoinedRows:
    """A pipeline that yields rows; also the row source of INSERT ... SELECT."""

    steps: tuple[JoinStep, ...]
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
    step: JoinStep, outer_rows: Iterable[Row], view: View, params: Row, clock: Clock, locking: bool
) -> Iterator[Row]:
    decode, condition, after = step.decode, step.condition, step.after
    pairs = step.source.opened(view, params, clock).pairs
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
        rows: JoinedRows,
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

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> PlanOutcome:
        if self.at_once:
            found, project = self.pipeline.at_once(view, params, clock), self.project
            if project is not None:
                found = [project(row, params, clock) for row in found]
            return PlanOutcome(found, len(found))
        found = list(self.stream(view, params, clock))
        return PlanOutcome(found, len(found))

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


def _explain_steps(steps: Sequence[JoinStep], indent: str) -> list[str]:
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
        self.decode = decode

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> PlanOutcome:
        key = self._key((), params, clock)
        if key is not None:
            image = view.get(self._table, key)
            if image is not None:
                return PlanOutcome([self.decode(image)], 1)
        return PlanOutcome([], 0)

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

    order = one.order
    if order is not None:

        def of_key(row: Row) -> tuple[int, Datum]:
            datum = value(row, params, clock)
            return null if datum is None else (0, order(datum))

        return of_key

    def of_datum(row: Row) -> tuple[int, Datum]:
        datum = value(row, params, clock)
        return null if datum is None else (0, datum)

    return of_datum


_CHUNK = 1024
_BIGINT = 1 << 63
_FLOATS = frozenset({Base.REAL, Base.DOUBLE})

State = Any
"""What an aggregate has gathered; None before there is a value."""


@dataclass(frozen=True)
class Accumulator:
    """What one aggregate makes of the rows that the SELECT below gives.

    Attributes:
        name: count, sum, avg, min or max.
        of: the type of its argument.
        argument: the place of its argument in a row; None of ``count(*)``.
        condition: the place of its FILTER's condition.
        distinct: equal values count once.
    """

    name: str
    of: SqlType
    argument: int | None = None
    condition: int | None = None
    distinct: bool = False

    def values(self, rows: Sequence[Row]) -> list[Any]:
        """The values of some rows that count."""
        if self.condition is not None:
            at = self.condition
            rows = [row for row in rows if row[at] is True]
        place = self.argument
        if place is None:
            return list(rows)
        return [row[place] for row in rows if row[place] is not None]

    def gather(self, state: State, values: list[Any]) -> State:
        """``state`` with some values more."""
        if not values:
            return state
        if self.name == "count":
            return (state or 0) + len(values)
        if self.name in {"min", "max"}:
            return _extreme(self, values if state is None else [state, *values])
        total: int | Decimal
        if self.of.base is Base.NUMERIC:
            total = values[0]
            for value in values[1:]:
                total = add(total, value)  # type: ignore[arg-type]
        else:
            total = sum(values)
        if state is None:
            return (len(values), total)
        count, before = state
        return (count + len(values), add(before, total) if isinstance(total, Decimal) else before + total)

    def result(self, state: State) -> Any:
        """The value in the end. SqlError 22003 when it is out of its type's range."""
        if self.name == "count":
            return state or 0
        if state is None or self.name in {"min", "max"}:
            return state
        count, total = state
        if self.name == "avg":
            return divide(normal(Decimal(total)), Decimal(count))
        if self.of.base is Base.BIGINT or self.of.base is Base.NUMERIC:
            return normal(Decimal(total))
        if not -_BIGINT <= total < _BIGINT:
            raise SqlError("22003", "bigint out of range")
        return total


def _extreme(one: Accumulator, values: list[Any]) -> Any:
    """The least or greatest value, of equal ones the last; NaN is the greatest."""
    pick: Callable[..., Any] = min if one.name == "min" else max
    values.reverse()
    if one.of.base in _FLOATS:
        return pick(values, key=lambda value: (math.isnan(value), value))
    return pick(values)


class AggregatePlan(SelectPlan):
    """A SELECT of aggregates over the rows of ``given``, whose columns are their arguments."""

    def __init__(
        self,
        given: SelectPlan,
        aggregates: tuple[Accumulator, ...],
        columns: tuple[OutputColumn, ...],
        param_types: tuple[SqlType, ...],
        finish: Callable[[Row, Row, Clock], Row],
    ) -> None:
        super().__init__(given.pipeline, columns, param_types, None)
        self.read_only = given.read_only
        self.given = given
        self.aggregates = aggregates
        self.finish = finish

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> PlanOutcome:
        return PlanOutcome([self.finish(self._gathered(view, params, clock), params, clock)], 1)

    def stream(self, view: View, params: Row, clock: Clock) -> Iterator[Row]:
        yield self.finish(self._gathered(view, params, clock), params, clock)

    def _gathered(self, view: View, params: Row, clock: Clock) -> Row:
        """The aggregates' values, in their order."""
        aggregates = self.aggregates
        if self.given.at_once:
            few = self.given.run(view, params, clock).rows or []
            return tuple([one.result(one.gather(None, _once(one, few))) for one in aggregates])
        states: list[State] = [None] * len(aggregates)
        seen: list[set[Any]] = [set() for _ in aggregates]
        rows = self.given.stream(view, params, clock)
        while chunk := list(itertools.islice(rows, _CHUNK)):
            for i, one in enumerate(aggregates):
                values = one.values(chunk)
                if one.distinct:
                    values = list(set(values) - seen[i])
                    seen[i].update(values)
                states[i] = one.gather(states[i], values)
        return tuple([one.result(state) for one, state in zip(aggregates, states, strict=True)])

    def explain(self) -> list[str]:
        first, *rest = self.given.explain()
        return ["Aggregate", f"  -> {first}", *(f"     {line}" for line in rest)]


def _once(one: Accumulator, rows: Sequence[Row]) -> list[Any]:
    values = one.values(rows)
    return list(set(values)) if one.distinct else values
