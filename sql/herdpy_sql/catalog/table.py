"""A table and what is part of it: columns, keys, indexes, checks; and the codecs of its rows and keys."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from herdpy.codec.keys import KeyCodec
from herdpy.codec.kinds import Datum, Field, KeyField
from herdpy.codec.rows import RowCodec
from herdpy_sql.foreign_keys import ForeignKey
from herdpy_sql.objects import FIRST_USER_OID
from herdpy_sql.types import SqlType

if TYPE_CHECKING:
    from collections.abc import Mapping

PUBLIC = "public"
"""The schema of what is made without naming one."""

HIDDEN_KEY = "__rowid"
"""Name of the BIGINT column that keys a table declared without a primary key."""


@dataclass(frozen=True, slots=True)
class ColumnOrigin:
    """A column of a table as PostgreSQL numbers them: the table's object id, the column's number from 1."""

    table_oid: int
    number: int


@dataclass(frozen=True, slots=True)
class Column:
    """A column; its place in ``Table.columns`` is its place in row images, for ever.

    Attributes:
        default: the DEFAULT expression as SQL text, or None.
        missing: the datum of rows written before the column was added.
        hidden: not shown by ``SELECT *`` (the hidden key, and what expression indexes keep).
        dropped: keeps its place in row images, and is otherwise gone.
        identity: "ALWAYS" or "BY DEFAULT" of an identity column, whose default takes values of its sequence.
        generated: the expression that its value is always made of, as SQL text over the row; or None.
    """

    name: str
    type: SqlType
    not_null: bool = False
    default: str | None = None
    missing: Datum = None
    hidden: bool = False
    dropped: bool = False
    generated: str | None = None
    identity: str = ""

    @property
    def visible(self) -> bool:
        """Whether ``SELECT *`` shows it."""
        return not (self.hidden or self.dropped)

    @property
    def numbers_rows(self) -> bool:
        """Whether it is the hidden key."""
        return self.hidden and self.generated is None


@dataclass(frozen=True, slots=True)
class KeyPart:
    """One column of a key or index, by its position in ``Table.columns``."""

    position: int
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class Index:
    """A secondary index. Its keys end with the row's key unless it is unique and no part is NULL.

    Attributes:
        constraint: made by a UNIQUE constraint rather than by CREATE UNIQUE INDEX.
        predicate: of a partial index, the position of the hidden column that is true of the rows it has.
    """

    id: int
    name: str
    table_id: int
    parts: tuple[KeyPart, ...]
    unique: bool = False
    constraint: bool = False
    predicate: int | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """A CHECK constraint, its condition as SQL text over the table's columns.

    Attributes:
        validated: the rows that were there when it was made were checked (not so: NOT VALID).
    """

    name: str
    condition: str
    validated: bool = True


def is_temporary(schema: str) -> bool:
    """Whether a schema is a session's own, for temporary tables."""
    return schema.startswith("pg_temp_")


@dataclass(frozen=True)
class Table:
    """A table with everything that depends on it. ``key`` is never empty (see HIDDEN_KEY).

    Attributes:
        identity_full: the log has each row as it was before it is changed or deleted (REPLICA IDENTITY FULL).
        schema: the schema that it is in.
        on_commit: what becomes of a temporary table at a commit: "DROP", "DELETE" (its rows), or "".
    """

    id: int
    name: str
    columns: tuple[Column, ...]
    key: tuple[KeyPart, ...]
    key_name: str
    checks: tuple[Check, ...] = ()
    indexes: tuple[Index, ...] = ()
    identity_full: bool = False
    schema: str = PUBLIC
    on_commit: str = ""
    foreign_keys: tuple[ForeignKey, ...] = ()

    @property
    def oid(self) -> int:
        """Its object id, where PostgreSQL's clients want one."""
        return FIRST_USER_OID + self.id

    def origin(self, position: int) -> ColumnOrigin | None:
        """What tells that a value is from the column at ``position``; None of the hidden key."""
        return None if self.columns[position].hidden else ColumnOrigin(self.oid, position + 1)

    @property
    def is_temporary(self) -> bool:
        """Whether it is a session's own."""
        return is_temporary(self.schema)

    @property
    def has_hidden_key(self) -> bool:
        """Whether the table was declared without a primary key."""
        return self.columns[self.key[0].position].hidden

    @functools.cached_property
    def positions(self) -> Mapping[str, int]:
        """Position of each live column (the hidden one too) by name."""
        return MappingProxyType({c.name: i for i, c in enumerate(self.columns) if not c.dropped})

    @functools.cached_property
    def visible(self) -> tuple[int, ...]:
        """Positions of the columns that ``SELECT *`` shows."""
        return tuple(i for i, c in enumerate(self.columns) if c.visible)

    @functools.cached_property
    def fields(self) -> tuple[Field, ...]:
        """The fields of this table's row images."""
        return tuple(replace(c.type.field, missing=c.missing) for c in self.columns)

    @functools.cached_property
    def row_codec(self) -> RowCodec:
        """Encodes and decodes this table's row images (all physical columns)."""
        return RowCodec(self.fields)

    @functools.cached_property
    def key_codec(self) -> KeyCodec:
        """Encodes and decodes the keys of this table's rows."""
        return KeyCodec(self._key_fields(self.key))

    @functools.cached_property
    def key_positions(self) -> tuple[int, ...]:
        """Positions of the key's columns, in key order."""
        return tuple(part.position for part in self.key)

    def index_codec(self, index: Index) -> KeyCodec:
        """Encodes the columns of ``index`` (without the row key that may follow)."""
        found = self._index_codecs.get(index.id)
        if found is not None and (found[0] is index.parts or found[0] == index.parts):
            return found[1]
        # Ids of indexes whose creation failed are used again, with other parts.
        codec = KeyCodec(self._key_fields(index.parts))
        self._index_codecs[index.id] = (index.parts, codec)
        return codec

    @functools.cached_property
    def derived(self) -> dict[str, object]:
        """What others derive from this definition and keep with it (compiled checks, defaults)."""
        return {}

    @functools.cached_property
    def _index_codecs(self) -> dict[int, tuple[tuple[KeyPart, ...], KeyCodec]]:
        return {}

    def _key_fields(self, parts: tuple[KeyPart, ...]) -> tuple[KeyField, ...]:
        return tuple(
            KeyField(
                kind=self.fields[p.position].kind,
                scale=self.fields[p.position].scale,
                element=self.fields[p.position].element,
                descending=p.descending,
                nullable=not self.columns[p.position].not_null,
                nulls_first=p.nulls_first,
            )
            for p in parts
        )
