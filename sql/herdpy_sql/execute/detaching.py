"""Foreign keys that are dropped with what they refer to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from herdpy_sql.storage import View


def detach(view: View, names: Iterable[tuple[int, str]]) -> None:
    """Drop foreign keys: (id of the table that refers, name of the constraint)."""
    for number, name in names:
        table = view.catalog.tables[number]
        kept = tuple(one for one in table.foreign_keys if one.name != name)
        view.alter_table(table, replace(table, foreign_keys=kept))
