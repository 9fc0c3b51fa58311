"""What a server answered to rows of parameters that were sent one by one, as one answer. Below ``link``."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from herdpy.dbapi.remote.values import RemoteColumn, RemoteResult, rows_of

if TYPE_CHECKING:
    import pyarrow as pa

    from herdpy.dbapi.link import Row


class Gathered:
    """The answers as one: the counts are added up, and the rows, if there are any, follow each other.

    Attributes:
        columns: those of the first answer, or None when it returned no rows.
        rowcount: the sum.
        tag: the command tag with the sum as its count.
    """

    __slots__ = ("_results", "columns", "rowcount", "tag")

    def __init__(self, results: Sequence[Any]) -> None:
        first = RemoteResult(results[0])
        self.columns: list[RemoteColumn] | None = first.columns
        self._results = results if first.columns is not None else ()
        if first.columns is not None:
            self.rowcount = sum(result.ntuples for result in results)
        else:
            self.rowcount = sum(result.command_tuples or 0 for result in results)
        counts = first.tag[-1:].isdigit()
        self.tag = f"{first.tag.rpartition(' ')[0]} {self.rowcount}" if counts else first.tag

    def python_rows(self) -> list[Row]:
        """The rows. DataError 22008 for a date that Python does not have."""
        return [row for result in self._results for row in rows_of(result)]

    def arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        from herdpy.dbapi.remote.arrow import table_of

        return table_of(self.columns or [], self.python_rows(), _Texts(self._results))


class _Texts:
    """The values of all answers as PostgreSQL's text, by the number of their row among all."""

    def __init__(self, results: Sequence[Any]) -> None:
        self._results = results
        self._ends = list(accumulate(result.ntuples for result in results))

    def get_value(self, row: int, column: int) -> bytes | None:
        """As libpq's result has it."""
        at = bisect_right(self._ends, row)
        before = self._ends[at - 1] if at else 0
        value: bytes | None = self._results[at].get_value(row - before, column)
        return value
