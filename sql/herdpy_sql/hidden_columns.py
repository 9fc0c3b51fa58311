"""The hidden columns that indexes on expressions and partial indexes keep their values in.

Beside ``catalog``. How they are made and found again is ``plan.indexes``'s affair; here is what
whoever shows or drops an index asks.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from herdpy_sql.catalog import Index, Table

_CALL = re.compile(r"\w+\([^()]*\)\Z")


def part_text(table: Table, position: int) -> str:
    """What a key is on, as messages say it: a column's name, or the expression."""
    column = table.columns[position]
    if not column.hidden or column.generated is None:
        return column.name
    return column.generated if _CALL.match(column.generated) else f"({column.generated})"


def index_names(table: Table, index: Index) -> list[str]:
    """What the columns of an index add to a name that is made for it."""
    names: list[str] = []
    for part in index.parts:
        column = table.columns[part.position]
        name = "expr" if column.hidden else column.name
        number = sum(one.rstrip("0123456789") == name for one in names)
        names.append(f"{name}{number}" if number else name)
    return names


def without_orphans(table: Table) -> Table:
    """The table without the hidden columns that none of its indexes needs."""
    needed = {part.position for index in table.indexes for part in index.parts}
    needed |= {index.predicate for index in table.indexes if index.predicate is not None}
    columns = tuple(
        replace(column, name=dropped_name(at), hidden=False, dropped=True, generated=None)
        if column.hidden and column.generated is not None and at not in needed
        else column
        for at, column in enumerate(table.columns)
    )
    return table if columns == table.columns else replace(table, columns=columns)


def dropped_name(position: int) -> str:
    """What PostgreSQL calls a column that was dropped."""
    return f"........pg.dropped.{position + 1}........"
