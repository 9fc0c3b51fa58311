"""What needs what is dropped: foreign keys to a table from others, which go with CASCADE or keep it there."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from herdpy_sql.errors import SqlError
from herdpy_sql.execute.links import unique_access

if TYPE_CHECKING:
    from herdpy_sql.catalog import Catalog, Index, Table
    from herdpy_sql.foreign_keys import ForeignKey

CASCADE_HINT = "Use DROP ... CASCADE to drop the dependent objects too."


def references_to(catalog: Catalog, dropped: Collection[Table]) -> list[tuple[Table, ForeignKey]]:
    """The foreign keys to these tables from others."""
    numbers = {table.id for table in dropped}
    return [
        (child, one)
        for table in dropped
        for child, one in catalog.referencing.get(table.id, ())
        if child.id not in numbers
    ]


def refuse_references(catalog: Catalog, dropped: Collection[Table]) -> None:
    """2BP01 when other tables refer to those that are to be dropped."""
    found = references_to(catalog, dropped)
    if not found:
        return
    one_table = len(dropped) == 1
    what = f"table {next(iter(dropped)).name}" if one_table else "desired object(s)"
    raise SqlError(
        "2BP01",
        f"cannot drop {what} because other objects depend on {'it' if one_table else 'them'}",
        detail="\n".join(
            f"constraint {one.name} on table {child.name} depends on table {parent.name}"
            for child, one in found
            for parent in dropped
            if parent.id == one.table_id
        ),
        hint=CASCADE_HINT,
    )


def refuse_index(catalog: Catalog, table: Table, index: Index) -> None:
    """2BP01 when a foreign key refers to what only this unique index keeps unique."""
    rest = replace(table, indexes=tuple(one for one in table.indexes if one is not index))
    found = [
        (child, one)
        for child, one in catalog.referencing.get(table.id, ())
        if unique_access(rest, one.referenced) is None
    ]
    if found:
        raise SqlError(
            "2BP01",
            f"cannot drop index {index.name} because other objects depend on it",
            detail="\n".join(
                f"constraint {one.name} on table {child.name} depends on index {index.name}"
                for child, one in found
            ),
            hint=CASCADE_HINT,
        )


def truncated(catalog: Catalog, tables: Sequence[Table], *, cascade: bool) -> tuple[Table, ...]:
    """What TRUNCATE of these tables empties. SqlError 0A000 when others refer to them, without CASCADE."""
    found = list(tables)
    while others := references_to(catalog, found):
        child, one = others[0]
        if not cascade:
            parent = catalog.tables[one.table_id]
            raise SqlError(
                "0A000",
                "cannot truncate a table referenced in a foreign key constraint",
                detail=f'Table "{child.name}" references "{parent.name}".',
                hint=f'Truncate table "{child.name}" at the same time, or use TRUNCATE ... CASCADE.',
            )
        found.append(child)
    return tuple(found)
