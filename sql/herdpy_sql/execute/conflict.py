"""ON CONFLICT: rows that are inserted unless there is one already, which is then left or changed.

For each row the unique keys that decide ("arbiters") are looked up in the view first. A key that another
transaction is about to add is not visible yet, but locked: inserting beside it raises MustWait, and when the
statement runs again it meets the row. So two inserters never violate a key, and none of them is lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from herdpy_sql.errors import SqlError
from herdpy_sql.execute.base import Outcome
from herdpy_sql.execute.insert import InsertPlan, InsertSelectPlan

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from herdpy.codec.kinds import Datum
    from herdpy_sql.catalog import Index, Table
    from herdpy_sql.execute.base import Compiled, OutputColumn, Plan, Row
    from herdpy_sql.execute.insert import Place, Project
    from herdpy_sql.execute.row_makers import FromOneRow, FromQuery, Maker
    from herdpy_sql.execute.rules import Rules
    from herdpy_sql.storage import Clock, Reader, View
    from herdpy_sql.types import SqlType


class KeyArbiter:
    """The table's own key."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.name = table.key_name
        self._positions = table.key_positions
        self._encode = table.key_codec.encode

    def find(self, view: Reader, row: Sequence[Datum]) -> bytes | None:
        """The key of the row that is there already and excludes ``row``; None when there is none."""
        key = self.mark(row)
        return None if view.get(self.table, key) is None else key

    def mark(self, row: Sequence[Datum]) -> bytes:
        """What every row that excludes ``row`` has too."""
        return self._encode([row[position] for position in self._positions])


class IndexArbiter:
    """A unique index."""

    def __init__(self, table: Table, index: Index) -> None:
        self.table = table
        self.index = index
        self.name = index.name
        self._positions = tuple(part.position for part in index.parts)
        self._predicate = index.predicate
        self._encode = table.index_codec(index).encode

    def find(self, view: Reader, row: Sequence[Datum]) -> bytes | None:
        """See :meth:`KeyArbiter.find`."""
        entry = self.mark(row)
        if entry is None:
            return None
        for _, key in view.index_scan(self.table, self.index, entry, entry + b"\0"):
            return key
        return None

    def mark(self, row: Sequence[Datum]) -> bytes | None:
        """See :meth:`KeyArbiter.mark`; None: it excludes none."""
        values = [row[position] for position in self._positions]
        if None in values or (self._predicate is not None and row[self._predicate] is not True):
            return None
        return self._encode(values)


Arbiter = KeyArbiter | IndexArbiter
_MANY = 1024
"""Rows of executemany that are looked up together."""
Mark = tuple[int, bytes | None]
"""The number of an arbiter, and what rows that exclude each other have in common for it."""


@dataclass(frozen=True)
class Change:
    """DO UPDATE: what becomes of the row that is there.

    Attributes:
        assign: for a position the new datum, computed from that row and the proposed one after it.
        condition: whether to do it at all, of the same two; the row is locked in any case.
        mode: how strongly.
    """

    assign: tuple[tuple[int, Compiled], ...]
    condition: Compiled | None
    text: str
    mode: int


@dataclass(frozen=True)
class OnConflict:
    """What is done with a row whose key is taken; ``change`` None: nothing."""

    table: Table
    arbiters: tuple[Arbiter, ...]
    change: Change | None
    rules: Rules

    def place(
        self, view: View, row: Row, params: Row, clock: Clock, written: set[Mark] | None = None
    ) -> Row | None:
        """Insert ``row``, or do what is to be done instead; the row that is there now, or None for no change.

        Args:
            written: the marks of what the command has written, for commands that propose more than one row.

        Raises:
            SqlError: 21000, the command would change a row a second time; 40001, the row that is there was
            committed after the snapshot that the transaction stands on; and as of the rules and the view.
        """
        if written is not None and not written.isdisjoint(self._marks(row)):
            if self.change is not None:
                raise _twice()
            return None
        key = self._taken(view, row)
        new: Row | None = row
        if key is None:
            if view.newest is not view and self._taken(view.newest, row) is not None:
                raise _unseen()
            view.insert(self.table, row)
        elif self.change is None:
            return None
        else:
            view.lock_row(self.table, key, self.change.mode)
            new = self._changed(view, key, row, params, clock)
        if new is not None and written is not None:
            written.update(self._marks(new))
        return new

    def place_all(
        self, view: View, rows: Iterable[Row], params: Row, clock: Clock, written: set[Mark]
    ) -> list[Row]:
        """:meth:`place` for many rows of one command; those that were inserted or changed."""
        found = []
        for row in rows:
            placed = self.place(view, row, params, clock, written)
            if placed is not None:
                found.append(placed)
        return found

    def are_new(self, view: View, rows: Sequence[Row]) -> bool:
        """Whether none of these rows meets another, or one that is there; False where that is hard to say."""
        if len(self.arbiters) != 1 or not isinstance(self.arbiters[0], KeyArbiter):
            return False
        try:
            keys = set(map(self.arbiters[0].mark, rows))
        except ValueError as error:
            raise SqlError("22000", str(error)) from error
        return len(keys) == len(rows) and not view.existing(self.table.id, keys)

    def _marks(self, row: Row) -> set[Mark]:
        return {(nth, one.mark(row)) for nth, one in enumerate(self.arbiters)} - self._no_marks

    @property
    def _no_marks(self) -> set[Mark]:
        return {(nth, None) for nth in range(len(self.arbiters))}

    def _taken(self, view: Reader, row: Row) -> bytes | None:
        try:
            for arbiter in self.arbiters:
                key = arbiter.find(view, row)
                if key is not None:
                    return key
        except ValueError as error:
            raise SqlError("22000", str(error)) from error
        return None

    def _changed(self, view: View, key: bytes, row: Row, params: Row, clock: Clock) -> Row | None:
        change, table = self.change, self.table
        assert change is not None
        image = view.get(table, key)
        assert image is not None
        old = table.row_codec.decode(image)
        given = (*old, *row)
        if change.condition is not None and change.condition(given, params, clock) is not True:
            return None
        new = list(old)
        for position, value in change.assign:
            new[position] = value(given, params, clock)
        self.rules.verify(new, clock)
        view.update(table, key, image, new)
        return tuple(new)

    def explain(self) -> list[str]:
        """Lines for EXPLAIN."""
        lines = [f"  Conflict Resolution: {'NOTHING' if self.change is None else 'UPDATE'}"]
        if self.arbiters:
            lines.append(f"  Conflict Arbiters: {', '.join(one.name for one in self.arbiters)}")
        if self.change is not None and self.change.text:
            lines.append(f"  Conflict Filter: {self.change.text}")
        return lines


def _unseen() -> SqlError:
    return SqlError(
        "40001",
        "could not serialize access due to concurrent update",
        hint="Run the transaction again from its start.",
    )


def _twice() -> SqlError:
    return SqlError(
        "21000",
        "ON CONFLICT DO UPDATE command cannot affect row a second time",
        hint="Ensure that no rows proposed for insertion within the same command have duplicate constrained "
        "values.",
    )


class ConflictPlan(InsertPlan):
    """INSERT ... VALUES ... ON CONFLICT."""

    def __init__(
        self,
        table: Table,
        makers: tuple[Maker, ...],
        conflict: OnConflict,
        param_types: tuple[SqlType, ...],
        columns: tuple[OutputColumn, ...] | None = None,
        returning: Project | None = None,
    ) -> None:
        super().__init__(table, makers, param_types, columns, returning)
        self.conflict = conflict

    def run(self, view: View, params: Row, clock: Clock, source: object = None) -> Outcome:
        if len(self.makers) == 1:
            placed = self.conflict.place(view, self.makers[0](view, params, clock), params, clock)
            if self.returning is None:
                return Outcome(None, 0 if placed is None else 1)
            rows = [] if placed is None else [placed]
        else:
            rows = self.conflict.place_all(view, list(self._rows(view, params, clock)), params, clock, set())
        returning = self.returning
        if returning is None:
            return Outcome(None, len(rows))
        return Outcome([returning(row, params, clock) for row in rows], len(rows))

    def run_many(self, view: View, param_rows: Iterable[Row], clock: Clock) -> Outcome:
        if len(self.makers) > 1:
            return Outcome(None, sum(self.run(view, params, clock).count for params in param_rows))
        make, count, rest = self.makers[0], 0, iter(param_rows)
        while some := list(islice(rest, _MANY)):
            rows = [make(view, params, clock) for params in some]
            if self.conflict.are_new(view, rows):
                count += view.insert_many(self.table, rows)
                continue
            placed = (
                self.conflict.place(view, row, params, clock) for row, params in zip(rows, some, strict=True)
            )
            count += sum(one is not None for one in placed)
        return Outcome(None, count)

    def explain(self) -> list[str]:
        first, *rest = super().explain()
        return [first, *self.conflict.explain(), *rest]


class ConflictSelectPlan(InsertSelectPlan):
    """INSERT ... SELECT ... ON CONFLICT."""

    def __init__(
        self,
        table: Table,
        query: Plan,
        convert: FromQuery | FromOneRow,
        conflict: OnConflict,
        columns: tuple[OutputColumn, ...] | None = None,
        returning: Project | None = None,
        param_types: tuple[SqlType, ...] | None = None,
    ) -> None:
        super().__init__(table, query, convert, columns, returning, param_types)
        self.conflict = conflict

    def _placer(self, params: Row, clock: Clock) -> Place:
        written: set[Mark] = set()
        return lambda view, rows: self.conflict.place_all(view, rows, params, clock, written)

    def explain(self) -> list[str]:
        first, *rest = super().explain()
        return [first, *self.conflict.explain(), *rest]
