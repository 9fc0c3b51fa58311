"""Relations that are in memory while a statement runs: the rows of a stage before it, or of unnest().

A step of an own plan reads one as it reads a table (``sources``). Instead of an image such a source gives the
row itself, and the step's decoder takes the columns that it needs. Rows that are joined by equal values are
looked up in a table that one run makes (``opened``). Above ``sources``; ``stages`` keeps the rows of stages.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

from herdpy_sql.execute.sources import Pair, RowSource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from herdpy_sql.catalog import Table
    from herdpy_sql.clock import Clock
    from herdpy_sql.execute.base import Compiled, Row
    from herdpy_sql.storage import View

_WATCHED = 1023
"""Of so many rows and one the view's ``watch`` is asked once."""

RowsOf = Callable[["View", "Row", "Clock"], Sequence["Row"]]
"""What gives a relation's rows: (view, parameters, clock) -> rows."""


class StagedView(Protocol):
    """The view of a statement in stages; ``relations`` has the rows of stages by the ids of their tables."""

    relations: dict[int, Sequence[Row]]


def rows_of_stage(table_id: int) -> RowsOf:
    """The rows that a stage before has given."""
    return lambda view, params, clock: cast("StagedView", view).relations[table_id]


def unnested_rows(arrays: Sequence[Compiled], *, numbered: bool) -> RowsOf:
    """The elements of arrays beside each other, NULL where one is shorter; ``numbered`` from 1."""

    def rows(view: View, params: Row, clock: Clock) -> list[Row]:
        columns = [cast("Sequence[Any]", array((), params, clock) or ()) for array in arrays]
        found = itertools.zip_longest(*columns)
        return [(*row, nth) for nth, row in enumerate(found, 1)] if numbered else list(found)

    return rows


def column_picker(positions: Sequence[int]) -> Callable[[Any], Row]:
    """What takes these columns of a relation's row: the decoder of its step."""
    if len(positions) > 1:
        return operator.itemgetter(*positions)
    if not positions:
        return lambda row: ()
    only = positions[0]
    return lambda row: (row[only],)


@dataclass(frozen=True)
class RelationRows(RowSource):
    """The rows of a relation: all, or those whose columns equal values of the row joined so far.

    Attributes:
        table: describes the rows; it is in no catalog.
        title: what EXPLAIN calls it.
        equals: (position, value over the outer row) of the columns that rows are looked up by.
    """

    table: Table
    rows: RowsOf
    title: str
    equals: tuple[tuple[int, Compiled], ...] = ()
    conditions: str = ""

    def opened(self, view: View, params: Row, clock: Clock) -> RowSource:
        rows = self.rows(view, params, clock)
        return _LookedUp(self, rows) if self.equals else _Listed(self, rows)

    def pairs(self, view: View, outer: Row, params: Row, clock: Clock) -> Iterator[Pair]:
        return self.opened(view, params, clock).pairs(view, outer, params, clock)

    def explain(self) -> list[str]:
        return self._lines(self.title)


class _Listed(RowSource):
    """All rows of a relation, for one run."""

    def __init__(self, relation: RelationRows, rows: Sequence[Row]) -> None:
        self.table = relation.table
        self._rows = rows

    def pairs(self, view: View, outer: Row, params: Row, clock: Clock) -> Iterator[Pair]:
        watch = getattr(view, "watch", None)  # a snapshot has none
        for count, row in enumerate(self._rows):
            if watch is not None and not count & _WATCHED:
                watch()
            yield _pair(row)


class _LookedUp(RowSource):
    """The rows of a relation by the values of some columns, for one run. NULL equals nothing."""

    def __init__(self, relation: RelationRows, rows: Sequence[Row]) -> None:
        self.table = relation.table
        self._values = [value for _, value in relation.equals]
        self._found: dict[Row, list[Pair]] = {}
        pick = column_picker([position for position, _ in relation.equals])
        for row in rows:
            key = pick(row)
            if None not in key:
                self._found.setdefault(key, []).append(_pair(row))

    def pairs(self, view: View, outer: Row, params: Row, clock: Clock) -> Iterator[Pair]:
        key = tuple([value(outer, params, clock) for value in self._values])
        return iter(self._found.get(key, ()))


def _pair(row: Row) -> Pair:
    """A row in the place of a key and an image."""
    return cast("Pair", (b"", row))
