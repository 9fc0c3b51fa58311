"""The table that a feed follows: what its name means along the log. Without I/O, below ``changes``.

A feed follows a name. Tables come to be under it, change, and go; each has an id of its own, by which the
rows of the log name it, and ids are never used twice.
"""

from __future__ import annotations

from dataclasses import replace

from herdpy.log.records import AlterTable, CreateIndex, CreateTable, DropIndex, DropTable, Record
from herdpy_sql.catalog import Table
from herdpy_sql.definitions import decode_index, decode_table

#: Types of the records that may change what the name means.
DEFINING = frozenset(one.type for one in (CreateTable, AlterTable, DropTable, CreateIndex, DropIndex))


class FollowedTable:
    """What a name means at a place of the log.

    Attributes:
        name: of the table that is followed.
        table: its definition; None where no table has the name.
    """

    def __init__(self, name: str, table: Table | None) -> None:
        self.name = name
        self.table = table

    @property
    def id(self) -> int:
        """The table's id; -1 where there is none."""
        return self.table.id if self.table is not None else -1

    def see(self, record: Record) -> bool:
        """Go past a record of ``DEFINING``; whether the table came to be, changed, or is gone now."""
        match record:
            case CreateTable():
                made = decode_table(record.definition)
                if made.name != self.name:
                    return False
                self.table = made
                return True
            case AlterTable():
                made = decode_table(record.definition)
                if made.id == self.id:  # it may have another name now
                    self.table = made if made.name == self.name else None
                elif made.name == self.name:
                    self.table = made
                else:
                    return False
                return True
            case DropTable() if record.table_id == self.id:
                self.table = None
                return True
            case CreateIndex() if self.table is not None and record.table_id == self.id:
                indexes = (*self.table.indexes, decode_index(record.definition))
                self.table = replace(self.table, indexes=indexes)
            case DropIndex() if self.table is not None and record.table_id == self.id:
                indexes = tuple(one for one in self.table.indexes if one.id != record.index_id)
                self.table = replace(self.table, indexes=indexes)
            case _:
                pass
        return False
