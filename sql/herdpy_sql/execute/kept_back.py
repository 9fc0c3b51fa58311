"""The view of a statement in stages: its writes wait until every stage has read what it reads.

Above ``insert``, below the plans that change rows: they ask it which rows an earlier stage has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from herdpy_sql.execute.insert import IndexArbiter

if TYPE_CHECKING:
    from herdpy.codec.kinds import Datum
    from herdpy_sql.catalog import Table
    from herdpy_sql.execute.base import Row
    from herdpy_sql.storage import View


class KeptBack:
    """A view whose writes are not made yet: reads see none of them. What is not here is the real view's.

    Attributes:
        relations: the rows that stages have given, by the ids of their tables (``relations.StagedView``).
    """

    def __init__(self, view: View) -> None:
        self._view = view
        self.relations: dict[int, Sequence[Row]] = {}
        self._writes: list[Callable[[View], None]] = []
        self._changed: set[tuple[int, bytes]] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._view, name)

    def insert(self, table: Table, values: Sequence[Datum]) -> None:
        """As of the view, later; what excludes others is locked now, while ON CONFLICT has seen none."""
        view = self._view
        view.lock_row(table, table.key_codec.encode([values[part.position] for part in table.key]))
        for index in table.indexes:
            if index.unique and (entry := IndexArbiter(table, index).mark(values)) is not None:
                view.lock_many(index.id, [entry])
        self._writes.append(lambda view: view.insert(table, values))

    def insert_many(self, table: Table, rows: Iterable[Sequence[Datum]]) -> int:
        """As of the view, later."""
        taken = list(rows)
        self._writes.append(lambda view: _insert_many(view, table, taken))
        return len(taken)

    def update(self, table: Table, key: bytes, image: bytes, values: Sequence[Datum]) -> None:
        """As of the view, later, unless the row is changed already."""
        if self._is_first(table, key):
            self._writes.append(lambda view: view.update(table, key, image, values))

    def delete(self, table: Table, key: bytes, image: bytes) -> None:
        """As of the view, later, unless the row is changed already."""
        if self._is_first(table, key):
            self._writes.append(lambda view: view.delete(table, key, image))

    def is_changed(self, table: Table, key: bytes) -> bool:
        """Whether a stage has changed or deleted a row."""
        return (table.id, key) in self._changed

    def _is_first(self, table: Table, key: bytes) -> bool:
        if self.is_changed(table, key):
            return False
        self._changed.add((table.id, key))
        return True

    def make(self, view: View) -> None:
        """Make the writes, in the order in which they were asked for."""
        for write in self._writes:
            write(view)


def _insert_many(view: View, table: Table, rows: list[Sequence[Datum]]) -> None:
    view.insert_many(table, rows)
