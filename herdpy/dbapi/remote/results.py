"""Results of statements on servers, as the driver's ``Result``. Above ``arrow`` and ``values``.

libpq's result comes from ``wire``; its rows become Python objects or Arrow when a cursor asks for them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from psycopg import pq

from herdpy.dbapi.remote.values import RemoteColumn, RemoteType, rows_of

if TYPE_CHECKING:
    import pyarrow as pa

    from herdpy.dbapi.link import Row


_TUPLES_OK = int(pq.ExecStatus.TUPLES_OK)


class RemoteResult:
    """What a server answered to one statement."""

    __slots__ = ("_columns", "_result", "rowcount", "tag")

    def __init__(self, result: Any) -> None:
        self._result = result
        self._columns: list[RemoteColumn] | None = None  # made when somebody asks
        self.tag: str = (result.command_status or b"").decode()
        self.rowcount: int
        if result.status == _TUPLES_OK:
            self.rowcount = result.ntuples
        else:
            changed = result.command_tuples
            self.rowcount = -1 if changed is None else changed

    @property
    def columns(self) -> list[RemoteColumn] | None:
        """Name and type of each column; None when the statement returns no rows."""
        result = self._result
        if self._columns is None and result.status == _TUPLES_OK:
            self._columns = [
                RemoteColumn(
                    (result.fname(at) or b"").decode(), RemoteType.of(result.ftype(at), result.fmod(at))
                )
                for at in range(result.nfields)
            ]
        return self._columns

    def python_rows(self) -> list[Row]:
        """The rows. DataError 22008 for a date that Python does not have."""
        return rows_of(self._result)

    def arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        from herdpy.dbapi.remote.arrow import table_of

        return table_of(self.columns or [], self.python_rows(), self._result)


class CompletedResult:
    """The answer to a statement that is known to be done, though its own answer was lost."""

    columns = None

    def __init__(self, tag: str, rowcount: int = -1) -> None:
        self.tag = tag
        self.rowcount = rowcount

    def python_rows(self) -> list[Row]:
        """None."""
        return []

    def arrow(self) -> pa.Table:
        """There is none: no rows, no columns."""
        raise AssertionError("no rows, no Arrow")


class BatchResult:
    """The results of one statement that ran for many rows of parameters, as one result.

    The counts are added up, and the rows, if there are any, follow each other.

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

        return table_of(self.columns or [], self.python_rows(), _BatchTexts(self._results))


class _BatchTexts:
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
