"""CREATE and DROP: the definitions are made by the planner; here they go to the view.

Ids come from the catalog that the view sees when the plan runs, not from the one it was planned with.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from herdpy_sql.errors import SqlError
from herdpy_sql.execute.base import Outcome, Plan

if TYPE_CHECKING:
    from collections.abc import Generator

    import pyarrow as pa

    from herdpy_sql.catalog import Index, Table
    from herdpy_sql.execute.base import Row
    from herdpy_sql.storage import Clock, View


class CreateTablePlan(Plan):
    """CREATE TABLE; ``table`` and its indexes have no ids yet."""

    tag = "CREATE TABLE"

    def __init__(self, table: Table, *, if_not_exists: bool) -> None:
        self.table = table
        self.if_not_exists = if_not_exists

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> Outcome:
        catalog, table = view.catalog, self.table
        taken = catalog.by_name.keys() | catalog.index_by_name.keys()
        if table.name in taken:
            if self.if_not_exists:
                return Outcome(None, 0)
            raise duplicate(table.name)
        for name in (table.key_name, *(index.name for index in table.indexes)):
            if name in taken or name == table.name:
                raise duplicate(name)
        number = catalog.next_id
        indexes = tuple(
            replace(index, id=number + 1 + i, table_id=number) for i, index in enumerate(table.indexes)
        )
        view.create_table(replace(table, id=number, indexes=indexes))
        return Outcome(None, 0)

    def explain(self) -> list[str]:
        return [f"Create Table {self.table.name}"]


class DropTablePlan(Plan):
    """DROP TABLE."""

    tag = "DROP TABLE"

    def __init__(self, tables: tuple[Table, ...]) -> None:
        self.tables = tables

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> Outcome:
        for table in self.tables:
            view.drop_table(table)
        return Outcome(None, 0)

    def explain(self) -> list[str]:
        return [f"Drop Table {', '.join(table.name for table in self.tables) or '(nothing)'}"]


class CreateIndexPlan(Plan):
    """CREATE INDEX; None when IF NOT EXISTS found the name taken."""

    tag = "CREATE INDEX"

    def __init__(self, table: Table, index: Index | None) -> None:
        self.table = table
        self.index = index

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> Outcome:
        if self.index is not None:
            view.create_index(self.table, replace(self.index, id=view.catalog.next_id))
        return Outcome(None, 0)

    def slices(
        self, view: View, params: Row, clock: Clock, source: pa.Table | None
    ) -> Generator[None, None, Outcome]:
        """As ``run``, in steps of few rows between which others may use the database, but not the table.

        The transaction of ``view`` must keep the locks that it takes.
        """
        if self.index is not None:
            yield from view.create_index_slowly(self.table, replace(self.index, id=view.catalog.next_id))
        return Outcome(None, 0)

    def explain(self) -> list[str]:
        return [f"Create Index {self.index.name if self.index else '(nothing)'} on {self.table.name}"]


class DropIndexPlan(Plan):
    """DROP INDEX."""

    tag = "DROP INDEX"

    def __init__(self, indexes: tuple[tuple[Table, Index], ...]) -> None:
        self.indexes = indexes

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> Outcome:
        for table, index in self.indexes:
            view.drop_index(table, index)
        return Outcome(None, 0)

    def explain(self) -> list[str]:
        return [f"Drop Index {', '.join(index.name for _, index in self.indexes) or '(nothing)'}"]


def duplicate(name: str) -> SqlError:
    """42P07: PostgreSQL calls tables and indexes alike relations."""
    return SqlError("42P07", f'relation "{name}" already exists')
