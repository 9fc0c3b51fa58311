"""Store layer, inside: the errors of keys and unique indexes, worded as PostgreSQL words them."""

from __future__ import annotations

from collections.abc import Sequence

from herdpy.codec.kinds import Datum
from herdpy_sql.catalog import KeyPart, Table
from herdpy_sql.errors import SqlError
from herdpy_sql.hidden_columns import part_text
from herdpy_sql.types import SqlType
from herdpy_sql.values import to_text


def duplicate(table: Table, parts: Sequence[KeyPart], name: str, values: Sequence[Datum]) -> SqlError:
    """The error for a row whose key, or unique index entry, exists already."""
    message = f'duplicate key value violates unique constraint "{name}"'
    return _twice(table, parts, name, values, message, "already exists")


def not_unique(table: Table, parts: Sequence[KeyPart], name: str, values: Sequence[Datum]) -> SqlError:
    """The error for a unique index that the rows there do not allow."""
    return _twice(table, parts, name, values, f'could not create unique index "{name}"', "is duplicated")


def _twice(
    table: Table, parts: Sequence[KeyPart], name: str, values: Sequence[Datum], message: str, what: str
) -> SqlError:
    names = ", ".join(part_text(table, part.position) for part in parts)
    shown = ", ".join(_shown(table.columns[part.position].type, values[part.position]) for part in parts)
    return SqlError(
        "23505",
        message,
        detail=f"Key ({names})=({shown}) {what}.",
        schema="public",
        table=table.name,
        constraint=name,
    )


def _shown(sql_type: SqlType, value: Datum) -> str:
    """A value as PostgreSQL's text output shows it."""
    return "null" if value is None else to_text(sql_type)(value)
