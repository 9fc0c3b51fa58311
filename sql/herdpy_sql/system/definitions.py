"""Definitions as SQL text, and object ids: what pg_get_indexdef and its relatives say.

Object ids follow from the catalog's own ids: tables and indexes have theirs plus 16384, as users'
objects begin there; what has no id of its own (keys, constraints, defaults) is told apart by high bits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from herdpy_sql.objects import FIRST_USER_OID
from herdpy_sql.quoting import quote_ident
from herdpy_sql.system.conditions import expression_text
from herdpy_sql.types import Base

if TYPE_CHECKING:
    from herdpy_sql.catalog import Check, Column, Index, KeyPart, Table

_KEY, _CONSTRAINT, _CHECK, _DEFAULT = 1 << 28, 1 << 29, 1 << 30, 3 << 29
_CHECK_ROOM = 256

_STRING = re.compile(r"'(?:[^']|'')*'\Z")


@dataclass(frozen=True, slots=True)
class Relating:
    """An index as the catalog shows it: the key of a table is one too."""

    oid: int
    name: str
    table: Table
    parts: tuple[KeyPart, ...]
    unique: bool
    primary: bool
    constraint: bool
    predicate: int | None = None


def table_oid(table: Table) -> int:
    """The object id of a table."""
    return table.oid


def indexes_of(table: Table) -> Iterator[Relating]:
    """The indexes of a table, its primary key first; a hidden key is not told of."""
    if not table.has_hidden_key:
        oid = _KEY + table.oid
        yield Relating(oid, table.key_name, table, table.key, unique=True, primary=True, constraint=True)
    for index in table.indexes:
        yield _secondary(table, index)


def _secondary(table: Table, index: Index) -> Relating:
    oid = FIRST_USER_OID + index.id
    return Relating(
        oid,
        index.name,
        table,
        index.parts,
        unique=index.unique,
        primary=False,
        constraint=index.constraint,
        predicate=index.predicate,
    )


def constraint_oid(index: Relating) -> int:
    """The object id of the constraint that an index serves."""
    return _CONSTRAINT + index.oid % _CONSTRAINT


def check_oid(table: Table, number: int) -> int:
    """The object id of a table's CHECK constraint."""
    return _CHECK + table.oid * _CHECK_ROOM % _CONSTRAINT + number


def check_columns(table: Table, check: Check) -> list[int]:
    """The numbers of the columns that a CHECK speaks of."""
    from herdpy_sql.plan.table_change import columns_named

    names = columns_named(check.condition)
    return [at + 1 for at in table.visible if table.columns[at].name in names]


def default_oid(table: Table, position: int) -> int:
    """The object id of a column's default."""
    return _DEFAULT + (table.id * 1600 + position) % _CONSTRAINT


def default_text(column: Column) -> str | None:
    """A default as PostgreSQL prints it: strings with the type that they have become."""
    if column.default is None or not _STRING.match(column.default):
        return column.default
    shown = "bpchar" if column.type.base is Base.CHAR else column.type.base.value
    if column.type.base in (Base.ENUM, Base.ARRAY, Base.VECTOR):
        shown = column.type.name
    return f"{column.default}::{shown}"


def key_text(table: Table, position: int) -> str:
    """What a part of an index is on: a column, or an expression (in parentheses unless it is a call)."""
    column = table.columns[position]
    if not column.hidden or column.generated is None:
        return quote_ident(column.name)
    text = expression_text(table, column.generated)
    return f"({text})" if text.startswith("(") else text


def predicate_text(index: Relating) -> str | None:
    """The condition of a partial index, in parentheses."""
    if index.predicate is None:
        return None
    return expression_text(index.table, index.table.columns[index.predicate].generated or "")


def _part_text(table: Table, part: KeyPart) -> str:
    text = key_text(table, part.position)
    if part.descending:
        return f"{text} DESC" if part.nulls_first else f"{text} DESC NULLS LAST"
    return f"{text} NULLS FIRST" if part.nulls_first else text


def index_text(index: Relating, *, schema: bool) -> str:
    """CREATE INDEX as pg_get_indexdef prints it; ``schema``: with the table's schema."""
    parts = ", ".join(_part_text(index.table, part) for part in index.parts)
    unique = "UNIQUE " if index.unique else ""
    predicate = predicate_text(index)
    where = "" if predicate is None else f" WHERE {predicate}"
    table = (f"{quote_ident(index.table.schema)}." if schema else "") + quote_ident(index.table.name)
    return f"CREATE {unique}INDEX {quote_ident(index.name)} ON {table} USING btree ({parts}){where}"


def constraint_text(index: Relating) -> str:
    """PRIMARY KEY (...) or UNIQUE (...)."""
    names = ", ".join(quote_ident(index.table.columns[part.position].name) for part in index.parts)
    return f"{'PRIMARY KEY' if index.primary else 'UNIQUE'} ({names})"
