"""What every row of a table must satisfy, and the errors when one does not. Below plans that write rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from herdpy.codec.grids import sizes_of
from herdpy_sql.errors import SqlError
from herdpy_sql.values import to_text
from herdpy_sql.values.arrays import wrong_shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from herdpy.codec.kinds import Datum
    from herdpy_sql.catalog import Table
    from herdpy_sql.execute.base import Compiled
    from herdpy_sql.storage import Clock


@dataclass(frozen=True)
class Rules:
    """What every row of a table must satisfy.

    Attributes:
        not_null: positions that may not be NULL.
        checks: (name, condition) over the physical row; NULL passes.
        generated: (position, value) of the columns that are always computed from the rest of the row.
        shapes: (position, dimensions) of the columns that are arrays.
        options: (view, condition) of the views WITH CHECK OPTION that the row is written through; NULL fails.
    """

    table: Table
    not_null: tuple[int, ...]
    checks: tuple[tuple[str, Compiled], ...]
    generated: tuple[tuple[int, Compiled], ...] = ()
    options: tuple[tuple[str, Compiled], ...] = ()
    shapes: tuple[tuple[int, int], ...] = ()

    def generate(self, row: list[Datum], clock: Clock) -> None:
        """Compute the generated columns, into the row."""
        for position, compute in self.generated:
            row[position] = compute(row, (), clock)

    def verify(self, row: Sequence[Datum], clock: Clock) -> None:
        """SqlError 23502, 23514, 44000 or 0A000, naming table, column and constraint.

        Generated columns are computed first: where there are any, ``row`` is a list.
        """
        if self.generated:
            self.generate(row, clock)  # type: ignore[arg-type]
        for position in self.not_null:
            if row[position] is None:
                self.refuse_null(position, row)
        for position, dimensions in self.shapes:
            self.check_shape(position, dimensions, row[position])
        for name, condition in self.checks:
            if condition(row, (), clock) is False:
                raise SqlError(
                    "23514",
                    f'new row for relation "{self.table.name}" violates check constraint "{name}"',
                    detail=self._failing(row),
                    table=self.table.name,
                    constraint=name,
                )
        for name, condition in self.options:
            if condition(row, (), clock) is not True:
                raise SqlError(
                    "44000",
                    f'new row violates check option for view "{name}"',
                    detail=self._failing(row),
                )

    def check_shape(self, position: int, dimensions: int, value: Any) -> None:
        """SqlError 0A000 unless the array has as many dimensions as its column was declared with."""
        if value and len(sizes_of(value)) != dimensions:
            column = self.table.columns[position]
            raise wrong_shape(column.name, column.type, len(sizes_of(value)), self.table.name)

    def refuse_null(self, position: int, row: Sequence[Datum]) -> NoReturn:
        """Raise the violation of NOT NULL at ``position``."""
        column = self.table.columns[position].name
        raise SqlError(
            "23502",
            f'null value in column "{column}" of relation "{self.table.name}" violates not-null constraint',
            detail=self._failing(row),
            table=self.table.name,
            column=column,
        )

    def _failing(self, row: Sequence[Datum]) -> str:
        shown = []
        for position in self.table.visible:
            value = row[position]
            text = "null" if value is None else to_text(self.table.columns[position].type)(value)
            shown.append(text if len(text) <= 64 else text[:64] + "...")
        return f"Failing row contains ({', '.join(shown)})."
