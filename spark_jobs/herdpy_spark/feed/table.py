"""The table that a feed follows, by its name along the log, and the feed's columns. No I/O.

A feed follows a name: one in schema public, or "schema.name". Tables come to be under it, change, and go;
the rows of the log name them by ids, which are never used twice. The stream's columns are settled when it
is made: what has a place in them is carried, and what has none ends the stream with an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from herdpy.codec.arrow import arrow_type
from herdpy.codec.arrow_bytes import images_to_batch
from herdpy.codec.rows import RowCodec
from herdpy.log.published import PublishedManifest
from herdpy.log.records import (
    TYPES,
    AlterTable,
    CreateIndex,
    CreateTable,
    DropIndex,
    DropTable,
    PutObject,
    Record,
)
from herdpy_sql.catalog import Column, Table, is_temporary, names_meant, relabelled
from herdpy_sql.definitions import decode_index, decode_table
from herdpy_sql.objects import decode_object

Field: TypeAlias = "pa.Field[Any]"
Array = Any  # pyarrow's stubs know arrays by element type, and these functions take any

OP, KEY, AFTER, BEFORE, LSN_, POSITION, TRANSACTION, REQUEST, TIME, SCHEMA, SEQUENCE, OTHER_KEY = (
    "op",
    "key",
    "after",
    "before",
    "lsn",
    "position",
    "transaction_id",
    "request_id",
    "commit_time",
    "schema",
    "sequence",
    "other_key",
)
SEQUENCE_TYPE = pa.struct(
    [
        pa.field("ledger", pa.int64()),
        pa.field("entry", pa.int64()),
        pa.field("transaction", pa.int32()),
        pa.field("position", pa.int64()),
    ]
)


class SchemaChangedError(ValueError):
    """A table under the followed name has a column for which the stream has no place."""


@dataclass(frozen=True, slots=True)
class Dress:
    """How values stand in the feed: a column's Arrow type, and how an array of the codecs becomes that."""

    type_of: Callable[[Column], pa.DataType]
    convert: Callable[[Column, Array], Array]


def _plain_type(column: Column) -> pa.DataType:
    return arrow_type(column.type.field, column.type.precision)


def _same(column: Column, array: Array) -> Array:
    return array


PLAIN = Dress(_plain_type, _same)
"""Values as the codecs have them."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where the feed's columns are in a table: positions in ``Table.columns``, None for one that it lacks."""

    key: tuple[int | None, ...]
    row: tuple[int | None, ...]


class FeedShape:
    """The columns of a feed.

    Attributes:
        schema: of its Arrow batches.
        key, row: the fields of the key, and of the row after and before.
        newest: see :meth:`by_place`; None: columns are found by name.
    """

    def __init__(
        self, key: Sequence[Field], row: Sequence[Field], dress: Dress = PLAIN, newest: Table | None = None
    ) -> None:
        self.key = tuple(key)
        self.row = tuple(row)
        self.dress = dress
        self.newest = newest
        self._placed: tuple[Table, Places] | None = None
        row_type = pa.struct(self.row)
        self.schema = pa.schema(
            [
                pa.field(OP, pa.string()),
                pa.field(KEY, pa.struct(self.key)),
                pa.field(AFTER, row_type),
                pa.field(BEFORE, row_type),
                pa.field(LSN_, pa.string()),
                pa.field(POSITION, pa.int64()),
                pa.field(TRANSACTION, pa.string()),
                pa.field(REQUEST, pa.string()),
                pa.field(TIME, pa.timestamp("us", "UTC")),
                pa.field(SCHEMA, pa.string()),
                pa.field(SEQUENCE, SEQUENCE_TYPE),
                pa.field(OTHER_KEY, pa.struct(self.key)),
            ]
        )

    @classmethod
    def of(cls, table: Table, dress: Dress = PLAIN) -> FeedShape:
        """The columns of a feed of this table."""
        columns = table.columns
        return cls(
            [_field(columns[at], dress) for at in table.key_positions],
            [_field(columns[at], dress) for at in table.visible],
            dress,
        )

    @classmethod
    def by_place(cls, table: Table, dress: Dress = PLAIN) -> FeedShape:
        """The columns of this table, whatever they were called before and whichever were not there yet.

        For readers that know how the table is at the end of what they read. A column's place is its own for
        ever, so older rows have their values under the names of today, and in a column that was added later
        what the table's rows have there. What an older definition has in another type, or what was another
        table's, is NULL: where it may be so, the feed has a ``truncate`` after it.
        """
        named = cls.of(table, dress)
        return cls(named.key, named.row, dress, table)

    @classmethod
    def from_schema(cls, schema: pa.Schema, dress: Dress = PLAIN) -> FeedShape:
        """The shape that has this schema; ValueError when it is not that of a feed."""
        try:
            key, row = schema.field(KEY).type, schema.field(AFTER).type
            made = cls(list(key), list(row), dress)
        except (KeyError, TypeError) as error:
            raise ValueError("the schema is not that of a feed: it has no structs key and after") from error
        if not made.schema.equals(schema):
            raise ValueError(f"the schema is not that of a feed. Expected: {made.schema}; given: {schema}")
        return made

    def places(self, table: Table) -> Places:
        """Where a table has the feed's columns.

        Raises:
            SchemaChangedError: the table has a column that the feed lacks, or has with another type.
        """
        if self._placed is not None and self._placed[0] is table:
            return self._placed[1]
        if self.newest is not None:
            made = Places(
                self._same_places(table, self.newest.key_positions, table.key_positions),
                self._same_places(table, self.newest.visible, table.visible),
            )
        else:
            made = Places(
                self._places(table, table.key_positions, self.key, "key"),
                self._places(table, table.visible, self.row, "row"),
            )
        self._placed = (table, made)
        return made

    @cached_property
    def absent(self) -> tuple[Array, ...]:
        """For each column of the row, one value: what rows have that were written before it was there."""
        newest = self.newest
        if newest is None:
            return tuple(pa.nulls(1, field.type) for field in self.row)
        return tuple(added_values(newest, self.dress).values())

    def at(self, table: Table | None) -> FeedShape:
        """This one: the columns stay what they are."""
        return self

    def _same_places(
        self, table: Table, places: Sequence[int], there: Sequence[int]
    ) -> tuple[int | None, ...]:
        newest = self.newest
        assert newest is not None
        if table.id != newest.id:
            return (None,) * len(places)
        same = {at for at in there if self.dress.type_of(table.columns[at]) == self._newest_type(newest, at)}
        return tuple(at if at in same else None for at in places)

    def _newest_type(self, newest: Table, at: int) -> pa.DataType | None:
        column = newest.columns[at] if at < len(newest.columns) else None
        return None if column is None or column.dropped else self.dress.type_of(column)

    def misfit(self, table: Table) -> str | None:
        """Why rows of a table have no place in the feed; None: they have."""
        try:
            self.places(table)
        except SchemaChangedError as error:
            return str(error)
        return None

    def _places(
        self, table: Table, positions: Sequence[int], fields: Sequence[Field], of: str
    ) -> tuple[int | None, ...]:
        there = {table.columns[at].name: at for at in positions}
        known = {field.name: field.type for field in fields}
        for name, at in there.items():
            column, wanted = table.columns[at], known.get(name)
            if wanted is None:
                raise SchemaChangedError(
                    f'table "{table.name}" (id {table.id}) has a column "{name}" ({column.type}) in its {of},'
                    " which this stream has not"
                )
            if self.dress.type_of(column) != wanted:
                raise SchemaChangedError(
                    f'column "{name}" of table "{table.name}" (id {table.id}) is of type {column.type},'
                    f" and this stream has it as {wanted}"
                )
        return tuple(there.get(field.name) for field in fields)


def added_values(table: Table, dress: Dress) -> dict[int, Array]:
    """By the place of each visible column, one value: what rows have that were there before it was added."""
    positions = list(table.visible)
    precisions = [table.columns[at].type.precision for at in positions]
    names = [table.columns[at].name for at in positions]
    batch = images_to_batch(table.fields, names, positions, [RowCodec(()).encode(())], precisions)
    return {
        at: dress.convert(table.columns[at], array)
        for at, array in zip(positions, batch.columns, strict=True)
    }


def _field(column: Column, dress: Dress) -> Field:
    return pa.field(column.name, dress.type_of(column))


class Shapes(Protocol):
    """Which columns a feed has where a table's definition holds."""

    def at(self, table: Table | None) -> FeedShape:
        """The feed's columns for rows of this table."""

    def misfit(self, table: Table) -> str | None:
        """Why rows of a table have no place in the feed; None: they have."""


class AdaptingShape:
    """``Shapes`` of a feed whose columns are always those of the table."""

    def __init__(self, dress: Dress) -> None:
        self._dress = dress
        self._made: tuple[Table | None, FeedShape] = (None, FeedShape((), (), dress))

    def at(self, table: Table | None) -> FeedShape:
        """The table's own columns; none where there is no table."""
        if self._made[0] is not table:
            made = FeedShape((), (), self._dress) if table is None else FeedShape.of(table, self._dress)
            self._made = (table, made)
        return self._made[1]

    def misfit(self, table: Table) -> str | None:
        """None."""
        return None


#: Types of the records that may change what the name means.
DEFINING = frozenset(
    TYPES[one] for one in (CreateTable, AlterTable, DropTable, CreateIndex, DropIndex, PutObject)
)


class FollowedTable:
    """What a name means at a place of the log.

    Attributes:
        name: of the table that is followed.
        table: its definition; None where no table has the name.
        renamed: how many tables came to the name with rows that they had under another one.
    """

    def __init__(self, name: str, table: Table | None) -> None:
        self.name = name
        self.table = table
        self.renamed = 0
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
                    self.renamed += 1
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
