"""Store layer, inside: the errors of keys and unique indexes, worded as PostgreSQL words them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from uuid import UUID

from herdpy.codec.kinds import (
    DATE_INFINITY,
    DATE_NEGATIVE_INFINITY,
    TIMESTAMP_INFINITY,
    TIMESTAMP_NEGATIVE_INFINITY,
    Datum,
    Kind,
)
from herdpy_sql.catalog import KeyPart, Table
from herdpy_sql.errors import SqlError

_EPOCH = date(1970, 1, 1)
_EPOCH_TIME = datetime(1970, 1, 1, tzinfo=UTC)


def duplicate(table: Table, parts: Sequence[KeyPart], name: str, values: Sequence[Datum]) -> SqlError:
    """The error for a row whose key, or unique index entry, exists already."""
    names = ", ".join(table.columns[part.position].name for part in parts)
    shown = ", ".join(_shown(table.fields[part.position].kind, values[part.position]) for part in parts)
    return SqlError(
        "23505",
        f'duplicate key value violates unique constraint "{name}"',
        detail=f"Key ({names})=({shown}) already exists.",
        schema="public",
        table=table.name,
        constraint=name,
    )


def not_unique(table: Table, parts: Sequence[KeyPart], name: str, values: Sequence[Datum]) -> SqlError:
    """The error for a unique index that the rows there do not allow."""
    names = ", ".join(table.columns[part.position].name for part in parts)
    shown = ", ".join(_shown(table.fields[part.position].kind, values[part.position]) for part in parts)
    return SqlError(
        "23505",
        f'could not create unique index "{name}"',
        detail=f"Key ({names})=({shown}) is duplicated.",
        schema="public",
        table=table.name,
        constraint=name,
    )


def _shown(kind: Kind, value: Datum) -> str:
    """A value as PostgreSQL's text output shows it."""
    match value:
        case None:
            return "null"
        case bool():
            return "t" if value else "f"
        case bytes():
            return str(UUID(bytes=value)) if kind is Kind.UUID else f"\\x{value.hex()}"
        case Decimal():
            return format(value, "f")
        case float():
            return repr(value).removesuffix(".0")
        case int() if kind is Kind.DATE:
            return _shown_date(value)
        case int() if kind is Kind.TIME:
            return _shown_time(value)
        case int() if kind in {Kind.TIMESTAMP, Kind.TIMESTAMPTZ}:
            return _shown_timestamp(value, kind)
        case _:
            return str(value)


def _shown_date(days: int) -> str:
    if days in {DATE_INFINITY, DATE_NEGATIVE_INFINITY}:
        return "infinity" if days > 0 else "-infinity"
    try:
        return (_EPOCH + timedelta(days=days)).isoformat()
    except OverflowError:
        return f"{days} days after 1970-01-01"


def _shown_time(microseconds: int) -> str:
    seconds, fraction = divmod(microseconds, 1_000_000)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{text}.{fraction:06d}".rstrip("0") if fraction else text


def _shown_timestamp(microseconds: int, kind: Kind) -> str:
    if microseconds in {TIMESTAMP_INFINITY, TIMESTAMP_NEGATIVE_INFINITY}:
        return "infinity" if microseconds > 0 else "-infinity"
    days, rest = divmod(microseconds, 86_400_000_000)
    return f"{_shown_date(days)} {_shown_time(rest)}{'+00' if kind is Kind.TIMESTAMPTZ else ''}"
