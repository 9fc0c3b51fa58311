"""Rows and values as the details of errors show them. Above ``catalog`` and ``values``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdpy_sql.errors import SqlError
from herdpy_sql.hidden_columns import part_text
from herdpy_sql.values import to_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from herdpy.codec.kinds import Datum
    from herdpy_sql.catalog import KeyPart, Table
    from herdpy_sql.types import SqlType

_MOST_CHARACTERS = 64


def shown_value(type_: SqlType, value: Datum) -> str:
    """A value as PostgreSQL's text output shows it."""
    return "null" if value is None else to_text(type_)(value)


def duplicate_key(table: Table, parts: Sequence[KeyPart], name: str, key: Sequence[Datum]) -> SqlError:
    """23505 for a row whose ``key``, the values of these parts, another one has."""
    message = f'duplicate key value violates unique constraint "{name}"'
    return twice(table, parts, name, key, message, "already exists")


def twice(
    table: Table, parts: Sequence[KeyPart], name: str, key: Sequence[Datum], message: str, what: str
) -> SqlError:
    """23505 with this message, of values that are there twice."""
    names = ", ".join(part_text(table, part.position) for part in parts)
    pairs = zip(parts, key, strict=True)
    shown = ", ".join(shown_value(table.columns[part.position].type, value) for part, value in pairs)
    return SqlError(
        "23505",
        message,
        detail=f"Key ({names})=({shown}) {what}.",
        schema=table.schema,
        table=table.name,
        constraint=name,
    )


def failing_row(table: Table, row: Sequence[Datum]) -> str:
    """What the detail of an error says of a row that is refused."""
    shown = []
    for position in table.visible:
        text = shown_value(table.columns[position].type, row[position])
        shown.append(text if len(text) <= _MOST_CHARACTERS else text[:_MOST_CHARACTERS] + "...")
    return f"Failing row contains ({', '.join(shown)})."
