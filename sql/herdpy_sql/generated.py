"""Generated columns of rows that lie in Arrow columns, as loads bring them.

Beside ``staged``. A value depends on its row alone: whoever applies a load, or only reads the log, computes
the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from herdpy.codec.arrow import array_to_datums, datums_to_array
from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from herdpy_sql.catalog import Table
    from herdpy_sql.storage import Clock

Array = Any  # pyarrow's stubs know arrays by element type, and these functions take any


def fill_generated(table: Table, arrays: list[Array], clock: Clock) -> None:
    """Put the generated columns among the physical columns of some rows.

    Raises:
        SqlError: an expression fails; the row is in its field ``nth``, from 0.
    """
    from herdpy_sql.plan.rules import generated_columns_used, rules_of

    rules = rules_of(table)
    count = len(arrays[0]) if arrays else 0
    columns: list[Any] = [[None] * count] * len(arrays)
    for position in generated_columns_used(table):
        columns[position] = array_to_datums(table.fields[position], arrays[position])
    rows: list[list[Any]] = list(map(list, zip(*columns, strict=True)))
    for at, row in enumerate(rows):
        try:
            rules.generate(row, clock)
        except SqlError as error:
            error.fields["nth"] = str(at)
            raise
    for position, _ in rules.generated:
        column = table.columns[position]
        made = [row[position] for row in rows]
        arrays[position] = datums_to_array(table.fields[position], made, column.type.precision)
