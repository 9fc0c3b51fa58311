"""What a load is: its id, its table, and what its rows do there. The lowest module of the package."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from herdpy.log.records import LoadOp
from herdpy_sql.catalog import Catalog, Table
from herdpy_sql.errors import SqlError

MAX_ID_BYTES = 64


class LoadMode(StrEnum):
    """What rows do to a table, and to the rows there that have their keys."""

    APPEND = "append"  # they are new, or the load is refused
    OVERWRITE = "overwrite"  # all that was there goes before
    UPSERT = "upsert"  # they take the others' place
    IGNORE = "ignore"  # they are passed over
    DELETE = "delete"  # the others go; the rows are keys

    @property
    def op(self) -> LoadOp:
        """As the log says it."""
        return _OPS[self]

    @property
    def needs_key(self) -> bool:
        """Whether it finds rows by a primary key."""
        return self in (LoadMode.UPSERT, LoadMode.IGNORE, LoadMode.DELETE)


_OPS = {
    LoadMode.APPEND: LoadOp.INSERT,
    LoadMode.OVERWRITE: LoadOp.INSERT,
    LoadMode.UPSERT: LoadOp.UPSERT,
    LoadMode.IGNORE: LoadOp.IGNORE,
    LoadMode.DELETE: LoadOp.DELETE,
}


@dataclass(frozen=True, slots=True)
class BulkLoad:
    """One load.

    Attributes:
        id: its maker's name for it; nothing is loaded twice under one.
        table: by name.
        table_id: that the table must have; 0: any.
    """

    id: str
    table: str
    mode: LoadMode
    table_id: int = 0

    def __post_init__(self) -> None:
        check_id(self.id)

    def find(self, catalog: Catalog) -> Table:
        """The table. SqlError 42P01 there is none, 55000 another one, 42P10 it does not fit the mode."""
        table = catalog.table_named(self.table)
        if table is None:
            raise SqlError("42P01", f'relation "{self.table}" does not exist', table=self.table)
        if self.table_id not in (0, table.id):
            raise SqlError(
                "55000",
                f'table "{self.table}" was dropped and made again since the load began',
                hint="Begin another load.",
                table=self.table,
            )
        if self.mode.needs_key and table.has_hidden_key:
            raise SqlError(
                "42P10",
                f'mode {self.mode} finds rows by the primary key, and table "{self.table}" has none',
                table=self.table,
            )
        return table


def check_id(load_id: str) -> None:
    """SqlError 22023 for what is no id of a load."""
    if not 1 <= len(load_id.encode()) <= MAX_ID_BYTES or "\0" in load_id:
        raise SqlError("22023", f"a load's id has 1 to {MAX_ID_BYTES} bytes of UTF-8")
