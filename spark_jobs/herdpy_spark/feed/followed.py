"""The table that a feed follows: what its name means along the log. Without I/O, below ``changes``.

A feed follows a name: one in schema public, or "schema.name". Tables come to be under it, change, and go;
each has an id of its own, by which the rows of the log name it, and ids are never used twice. Sessions'
temporary tables are never followed.
"""

from __future__ import annotations

from dataclasses import replace

from herdpy.log.published import PublishedManifest
from herdpy.log.records import AlterTable, CreateIndex, CreateTable, DropIndex, DropTable, PutObject, Record
from herdpy_sql.catalog import Table, is_temporary, names_meant
from herdpy_sql.definitions import decode_index, decode_table
from herdpy_sql.enum_types import relabelled
from herdpy_sql.objects import decode_object

#: Types of the records that may change what the name means.
DEFINING = frozenset(
    one.type for one in (CreateTable, AlterTable, DropTable, CreateIndex, DropIndex, PutObject)
)


class FollowedTable:
    """What a name means at a place of the log.

    Attributes:
        name: of the table that is followed.
        table: its definition; None where no table has the name.
    """

    def __init__(self, name: str, table: Table | None) -> None:
        self.name = name
        self.table = table
        self._meant = names_meant(name)

    @property
    def id(self) -> int:
        """The table's id; -1 where there is none."""
        return self.table.id if self.table is not None else -1

    def see(self, record: Record) -> bool:
        """Go past a record of ``DEFINING``; whether the table came to be, changed, or is gone now."""
        match record:
            case CreateTable():
                made = decode_table(record.definition)
                if not self._takes(made):
                    return False
                self.table = made
                return True
            case AlterTable():
                made = decode_table(record.definition)
                if made.id == self.id:  # it may have another name now
                    self.table = made if self._rank(made) is not None else None
                elif self._takes(made):
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
            case PutObject() if self.table is not None:  # an ENUM may have more labels now
                one = decode_object(record.definition)
                self.table = relabelled(self.table, {one.id: one})
            case _:
                pass
        return False

    def _takes(self, made: Table) -> bool:
        """Whether the name means this table from now on."""
        rank = self._rank(made)
        if rank is None or self.table is None:
            return rank is not None
        now = self._rank(self.table)
        return now is None or rank <= now

    def _rank(self, table: Table) -> int | None:
        named = (table.schema, table.name)
        return None if table.is_temporary or named not in self._meant else self._meant.index(named)


def published_table(manifest: PublishedManifest, name: str) -> Table | None:
    """The table of a published snapshot that the name means; None: none."""
    for schema, own in names_meant(name):
        found = None if is_temporary(schema) else manifest.table(own, schema)
        if found is not None:
            return decode_table(found.definition.encode())
    return None
