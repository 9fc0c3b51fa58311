"""What exists: tables, columns, indexes, checks and roles, as immutable values.

A :class:`Catalog` is never changed in place: each definition gives a new one with a higher
version, so that a plan is valid exactly as long as the catalog it was made from is the session's,
and a transaction that defines tables simply carries its own. Definitions travel in the log and lie
in the store as the bytes of :func:`encode_table` and :func:`encode_index` (JSON).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

import msgspec

from herdpy.codec.keys import KeyCodec
from herdpy.codec.kinds import Datum, Field, KeyField, Kind
from herdpy.codec.rows import RowCodec
from herdpy_sql.types import Base, SqlType

if TYPE_CHECKING:
    from collections.abc import Mapping

FIRST_USER_OID = 16384
"""PostgreSQL's object ids of what users make begin here."""

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
        hidden: not shown by ``SELECT *`` (the hidden key).
        dropped: keeps its place in row images, and is otherwise gone.
    """

    name: str
    type: SqlType
    not_null: bool = False
    default: str | None = None
    missing: Datum = None
    hidden: bool = False
    dropped: bool = False

    @property
    def visible(self) -> bool:
        """Whether ``SELECT *`` shows it."""
        return not (self.hidden or self.dropped)


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
    """

    id: int
    name: str
    table_id: int
    parts: tuple[KeyPart, ...]
    unique: bool = False
    constraint: bool = False


@dataclass(frozen=True, slots=True)
class Check:
    """A CHECK constraint, its condition as SQL text over the table's columns."""

    name: str
    condition: str


@dataclass(frozen=True)
class Table:
    """A table with everything that depends on it. ``key`` is never empty (see HIDDEN_KEY).

    Attributes:
        identity_full: the log has each row as it was before it is changed or deleted (REPLICA IDENTITY FULL).
    """

    id: int
    name: str
    columns: tuple[Column, ...]
    key: tuple[KeyPart, ...]
    key_name: str
    checks: tuple[Check, ...] = ()
    indexes: tuple[Index, ...] = ()
    identity_full: bool = False

    @property
    def oid(self) -> int:
        """Its object id, where PostgreSQL's clients want one."""
        return FIRST_USER_OID + self.id

    def origin(self, position: int) -> ColumnOrigin | None:
        """What tells that a value is from the column at ``position``; None of the hidden key."""
        return None if self.columns[position].hidden else ColumnOrigin(self.oid, position + 1)

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
        return tuple(Field(c.type.kind, c.type.scale or 0, c.missing) for c in self.columns)

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
                descending=p.descending,
                nullable=not self.columns[p.position].not_null,
                nulls_first=p.nulls_first,
            )
            for p in parts
        )


@dataclass(frozen=True)
class Catalog:
    """Every table of a tablespace. ``next_id`` numbers tables and indexes alike, never twice.

    Attributes:
        roles: definitions by name, which mean nothing here; None as long as there never was one.
    """

    version: int = 0
    next_id: int = 1
    tables: Mapping[int, Table] = field(default_factory=dict)
    roles: Mapping[str, bytes] | None = None

    @functools.cached_property
    def by_name(self) -> Mapping[str, Table]:
        """Tables by name."""
        return {table.name: table for table in self.tables.values()}

    @functools.cached_property
    def index_by_name(self) -> Mapping[str, Index]:
        """Secondary indexes by name."""
        return {index.name: index for table in self.tables.values() for index in table.indexes}

    def with_table(self, table: Table) -> Catalog:
        """This catalog with ``table`` added, or changed."""
        highest = max([table.id, *(index.id for index in table.indexes)])
        return replace(
            self,
            version=self.version + 1,
            next_id=max(self.next_id, highest + 1),
            tables={**self.tables, table.id: table},
        )

    def without_table(self, table_id: int) -> Catalog:
        """This catalog without that table and its indexes."""
        rest = {key: table for key, table in self.tables.items() if key != table_id}
        return replace(self, version=self.version + 1, tables=rest)

    def with_index(self, index: Index) -> Catalog:
        """This catalog with ``index`` added to its table."""
        table = self.tables[index.table_id]
        return self.with_table(replace(table, indexes=(*table.indexes, index)))

    def without_index(self, table_id: int, index_id: int) -> Catalog:
        """This catalog without that index."""
        table = self.tables[table_id]
        return self.with_table(
            replace(table, indexes=tuple(index for index in table.indexes if index.id != index_id))
        )

    def with_role(self, name: str, definition: bytes) -> Catalog:
        """This catalog with that role added, or changed."""
        return replace(self, version=self.version + 1, roles={**(self.roles or {}), name: definition})

    def without_role(self, name: str) -> Catalog:
        """This catalog without that role. KeyError when it is not there."""
        rest = dict(self.roles or {})
        del rest[name]
        return replace(self, version=self.version + 1, roles=rest)


def encode_table(table: Table) -> bytes:
    """The definition of a table as bytes, for the log and the store."""
    raw = {
        "id": table.id,
        "name": table.name,
        "columns": [_encode_column(column) for column in table.columns],
        "key": [_encode_part(part) for part in table.key],
        "key_name": table.key_name,
        "checks": [{"name": check.name, "condition": check.condition} for check in table.checks],
        "indexes": [_index_dict(index) for index in table.indexes],
    }
    if table.identity_full:
        raw["identity_full"] = True
    return msgspec.json.encode(raw)


def encode_index(index: Index) -> bytes:
    """The definition of an index as bytes, for the log."""
    return msgspec.json.encode(_index_dict(index))


def decode_table(data: bytes) -> Table:
    """The inverse of :func:`encode_table`."""
    raw = msgspec.json.decode(data)
    return Table(
        id=raw["id"],
        name=raw["name"],
        columns=tuple(_decode_column(column) for column in raw["columns"]),
        key=tuple(KeyPart(**part) for part in raw["key"]),
        key_name=raw["key_name"],
        checks=tuple(Check(**check) for check in raw["checks"]),
        indexes=tuple(_decode_index(index) for index in raw["indexes"]),
        identity_full=raw.get("identity_full", False),
    )


def decode_index(data: bytes) -> Index:
    """The inverse of :func:`encode_index`."""
    return _decode_index(msgspec.json.decode(data))


def _index_dict(index: Index) -> dict[str, object]:
    return {
        "id": index.id,
        "name": index.name,
        "table_id": index.table_id,
        "parts": [_encode_part(part) for part in index.parts],
        "unique": index.unique,
        "constraint": index.constraint,
    }


def _decode_index(raw: dict[str, object]) -> Index:
    parts = tuple(KeyPart(**part) for part in raw.pop("parts"))  # type: ignore[attr-defined]
    return Index(parts=parts, **raw)  # type: ignore[arg-type]


def _encode_part(part: KeyPart) -> dict[str, object]:
    return {"position": part.position, "descending": part.descending, "nulls_first": part.nulls_first}


def _encode_column(column: Column) -> dict[str, object]:
    kind = column.type.kind
    missing = None
    if column.missing is not None:
        missing = RowCodec([Field(kind, column.type.scale or 0)]).encode([column.missing]).hex()
    return {
        "name": column.name,
        "type": [column.type.base.value, column.type.length, column.type.precision, column.type.scale],
        "kind": kind.name,
        "not_null": column.not_null,
        "default": column.default,
        "missing": missing,
        "hidden": column.hidden,
        "dropped": column.dropped,
    }


def _decode_column(raw: dict[str, object]) -> Column:
    base, length, precision, scale = cast("tuple[str, int | None, int | None, int | None]", raw["type"])
    sql_type = SqlType(Base(base), length, precision, scale)
    missing: Datum = None
    if raw["missing"] is not None:
        row = RowCodec([Field(Kind[str(raw["kind"])], sql_type.scale or 0)])
        missing = row.decode(bytes.fromhex(str(raw["missing"])))[0]
    return Column(
        name=str(raw["name"]),
        type=sql_type,
        not_null=bool(raw["not_null"]),
        default=raw["default"],  # type: ignore[arg-type]
        missing=missing,
        hidden=bool(raw["hidden"]),
        dropped=bool(raw["dropped"]),
    )
