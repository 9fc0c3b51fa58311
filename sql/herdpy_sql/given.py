"""Relations that a query is handed with its question: what data-modifying WITH queries have returned.

Such a relation is described by a table that no catalog has, so that its rows travel and are typed as those of
any table. Its columns have names of ours; the user's are kept beside it, since two of them may be the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from herdpy.codec.arrow import datums_to_array
from herdpy_sql.catalog import Column, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from herdpy.codec.kinds import Datum
    from herdpy_sql.execute.base import OutputColumn


@dataclass(frozen=True)
class Given:
    """A relation by that name.

    Attributes:
        table: describes its rows; its id (below 0) tells it from others of the statement.
        names: its columns' names for the user.
    """

    name: str
    table: Table
    names: tuple[str, ...]

    def arrow(self, rows: Sequence[Sequence[Datum]]) -> pa.Table:
        """Rows of datums as they are handed over."""
        columns = self.table.columns
        arrays = [
            datums_to_array(column.type.field, [row[i] for row in rows]) for i, column in enumerate(columns)
        ]
        return pa.table(arrays, names=[column.name for column in columns])


def given(nth: int, name: str, columns: Sequence[OutputColumn], names: Sequence[str]) -> Given:
    """The relation of a result's columns; ``names`` rename the first of them."""
    own = tuple(Column(f"c{i}", column.type) for i, column in enumerate(columns))
    shown = tuple(names[i] if i < len(names) else column.name for i, column in enumerate(columns))
    return Given(name, Table(-nth, name, own, (), ""), shown)
