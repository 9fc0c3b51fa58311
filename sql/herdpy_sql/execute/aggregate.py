"""Own aggregates without GROUP BY: the rows of an own SELECT come in, one row goes out.

What is gathered is exact and does not depend on the order of rows: integers, NUMERIC, and least or
greatest values. The planner's side is ``plan.select``.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from herdpy_sql.errors import SqlError
from herdpy_sql.execute.base import Outcome
from herdpy_sql.execute.query import SelectPlan
from herdpy_sql.expr.numeric import add, divide
from herdpy_sql.types import Base
from herdpy_sql.values.numeric import normal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from herdpy_sql.execute.base import OutputColumn, Row
    from herdpy_sql.storage import Clock, View
    from herdpy_sql.types import SqlType

_CHUNK = 1024
_BIGINT = 1 << 63
_FLOATS = frozenset({Base.REAL, Base.DOUBLE})

State = Any
"""What an aggregate has gathered; None before there is a value."""


@dataclass(frozen=True)
class Aggregate:
    """One aggregate over the rows that the SELECT below gives.

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


def _extreme(one: Aggregate, values: list[Any]) -> Any:
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
        aggregates: tuple[Aggregate, ...],
        columns: tuple[OutputColumn, ...],
        param_types: tuple[SqlType, ...],
        finish: Callable[[Row, Row, Clock], Row],
    ) -> None:
        super().__init__(given.pipeline, columns, param_types, None)
        self.read_only = given.read_only
        self.given = given
        self.aggregates = aggregates
        self.finish = finish

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> Outcome:
        return Outcome([self.finish(self._gathered(view, params, clock), params, clock)], 1)

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


def _once(one: Aggregate, rows: Sequence[Row]) -> list[Any]:
    values = one.values(rows)
    return list(set(values)) if one.distinct else values
