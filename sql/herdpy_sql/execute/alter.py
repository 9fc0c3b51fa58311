"""ALTER TABLE: keys that are added to a table that has rows, and what the log has of rows that change.

A table's rows lie in the order of its key, so giving it a key is to write it anew: the old one is
dropped and a new one of the same name is filled, in one statement.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from herdpy_sql.errors import SqlError
from herdpy_sql.execute.base import Outcome, Plan

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from herdpy_sql.catalog import Index, KeyPart, Table
    from herdpy_sql.execute.base import Row
    from herdpy_sql.storage import Clock, View


class AddKeyPlan(Plan):
    """ALTER TABLE ... ADD PRIMARY KEY, of a table that has none."""

    tag = "ALTER TABLE"

    def __init__(self, table: Table, key: tuple[KeyPart, ...], name: str) -> None:
        self.table = table
        self.key = key
        self.name = name

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> Outcome:
        table = self.table
        images = [image for _, image in view.scan(table)]
        view.drop_table(table)
        new = self._definition(view.catalog.next_id)
        view.create_table(new)
        try:
            view.insert_many(new, self._rows(images))
        except SqlError as error:
            if error.sqlstate != "23505" or error.fields.get("constraint") != self.name:
                raise
            detail = (error.detail or "").replace("already exists", "is duplicated")
            raise SqlError(
                "23505", f'could not create unique index "{self.name}"', detail=detail or None
            ) from error
        return Outcome(None, 0)

    def _definition(self, number: int) -> Table:
        """The table with the key, without the hidden column, which is the last."""
        old = self.table
        keyed = {part.position for part in self.key}
        columns = tuple(
            replace(column, not_null=column.not_null or position in keyed)
            for position, column in enumerate(old.columns)
            if not column.hidden
        )
        indexes = tuple(
            replace(index, id=number + 1 + i, table_id=number) for i, index in enumerate(old.indexes)
        )
        return replace(old, id=number, columns=columns, key=self.key, key_name=self.name, indexes=indexes)

    def _rows(self, images: list[bytes]) -> Iterator[Row]:
        old = self.table
        hidden = old.key[0].position
        decode = old.row_codec.decode
        keyed = [part.position for part in self.key]
        for image in images:
            values = decode(image)
            for position in keyed:
                if values[position] is None:
                    name = old.columns[position].name
                    raise SqlError(
                        "23502",
                        f'column "{name}" of relation "{old.name}" contains null values',
                        table=old.name,
                        column=name,
                    )
            yield (*values[:hidden], *values[hidden + 1 :])

    def explain(self) -> list[str]:
        return [f"Add Primary Key {self.name} to {self.table.name}"]


class AddUniquePlan(Plan):
    """ALTER TABLE ... ADD UNIQUE."""

    tag = "ALTER TABLE"

    def __init__(self, table: Table, index: Index) -> None:
        self.table = table
        self.index = index

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> Outcome:
        view.create_index(self.table, replace(self.index, id=view.catalog.next_id))
        return Outcome(None, 0)

    def explain(self) -> list[str]:
        return [f"Add Unique Constraint {self.index.name} to {self.table.name}"]


class IdentityPlan(Plan):
    """ALTER TABLE ... REPLICA IDENTITY.

    Args:
        full: the log is to have each row as it was before it is changed or deleted.
    """

    tag = "ALTER TABLE"

    def __init__(self, table: Table, *, full: bool) -> None:
        self.table = table
        self.full = full

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> Outcome:
        if self.table.identity_full != self.full:
            view.alter_table(self.table, replace(self.table, identity_full=self.full))
        return Outcome(None, 0)

    def explain(self) -> list[str]:
        return [f"Replica Identity {'Full' if self.full else 'Default'} of {self.table.name}"]
