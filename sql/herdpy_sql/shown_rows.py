"""Rows and values as the details of errors show them. Above ``catalog`` and ``values``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdpy_sql.values import to_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from herdpy.codec.kinds import Datum
    from herdpy_sql.catalog import Table
    from herdpy_sql.types import SqlType

_MOST_CHARACTERS = 64


def shown_value(type_: SqlType, value: Datum) -> str:
    """A value as PostgreSQL's text output shows it."""
    return "null" if value is None else to_text(type_)(value)


def failing_row(table: Table, row: Sequence[Datum]) -> str:
    """What the detail of an error says of a row that is refused."""
    shown = []
    for position in table.visible:
        text = shown_value(table.columns[position].type, row[position])
        shown.append(text if len(text) <= _MOST_CHARACTERS else text[:_MOST_CHARACTERS] + "...")
    return f"Failing row contains ({', '.join(shown)})."
