"""The errors of foreign keys, as PostgreSQL words them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from herdpy.codec.kinds import Datum
    from herdpy_sql.catalog import Table
    from herdpy_sql.execute.links import Link, Values


def not_present(link: Link, values: Values) -> SqlError:
    """23503: a row refers to one that is not there."""
    shown = _shown(link.child, link.key.columns, values)
    return _violation(
        link,
        f'insert or update on table "{link.child.name}" violates foreign key constraint "{link.key.name}"',
        f'Key {shown} is not present in table "{link.parent.name}".',
    )


def mixed(link: Link) -> SqlError:
    """23503: some of the columns of a MATCH FULL key are NULL."""
    return _violation(
        link,
        f'insert or update on table "{link.child.name}" violates foreign key constraint "{link.key.name}"',
        "MATCH FULL does not allow mixing of null and nonnull key values.",
    )


def still_referenced(link: Link, values: Values) -> SqlError:
    """23503: a row that others refer to goes, or has other values now; ``values`` are what it had."""
    shown = _shown(link.parent, link.key.referenced, values)
    return _violation(
        link,
        f'update or delete on table "{link.parent.name}" violates foreign key constraint '
        f'"{link.key.name}" on table "{link.child.name}"',
        f'Key {shown} is still referenced from table "{link.child.name}".',
    )


def _violation(link: Link, message: str, detail: str) -> SqlError:
    return SqlError(
        "23503",
        message,
        detail=detail,
        schema=link.child.schema,
        table=link.child.name,
        constraint=link.key.name,
    )


def _shown(table: Table, positions: Sequence[int], values: Sequence[Datum]) -> str:
    from herdpy_sql.values import to_text

    names = ", ".join(table.columns[position].name for position in positions)
    texts = [
        "null" if value is None else to_text(table.columns[position].type)(value)
        for position, value in zip(positions, values, strict=True)
    ]
    return f"({names})=({', '.join(texts)})"
