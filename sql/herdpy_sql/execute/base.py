"""What every plan is: made once, run many times, asked for its columns, its tag and its explanation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from herdpy.codec.kinds import Datum

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    import pyarrow as pa

    from herdpy_sql.catalog import Catalog, ColumnOrigin, Table
    from herdpy_sql.storage import Clock, View
    from herdpy_sql.types import SqlType

Row = tuple[Datum, ...]
Remark = tuple[str, ...]
"""A notice that the client gets: severity ("NOTICE"), SQLSTATE, message; a detail may follow."""
Compiled = Callable[[Sequence[Datum], Sequence[Datum], "Clock"], Datum]
"""An expression ready to run: (row, parameters, clock) -> datum."""


class SourceChanged(Exception):  # noqa: N818 - a signal to the session, not an error
    """A row that the columnar source saw has changed since; nothing of the statement has happened."""


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """A column of a result.

    Attributes:
        name, type: several columns may have the same name.
        origin: the column of a table that it shows as it is; None where it shows something else.
    """

    name: str
    type: SqlType
    origin: ColumnOrigin | None = None


@dataclass(slots=True)
class PlanOutcome:
    """What a run gave.

    Attributes:
        rows: the result's rows, or None when there are none or they are in ``table``.
        count: rows returned or changed, as the command tag says it.
        table: the columnar engine's answer.
    """

    rows: list[Row] | None
    count: int
    table: pa.Table | None = None


class Plan:
    """A statement that is ready to run.

    Attributes:
        tag: the command's name, as in its command tag: "SELECT", "CREATE TABLE".
        columns: of the result, or None for a statement that returns no rows.
        param_types: the types of $1, $2 ... in order.
        read_only: whether it changes nothing and locks nothing.
        source: the query to be run first, outside the engine's turn, whose answer ``run`` is given.
        engine: "own" or "columnar", for EXPLAIN and for the scheduler.
        concurrently: it was asked for so, which no transaction block may.
        remarks: notices that the client gets besides the answer.
        brief: it touches one row at most, by its key, or it only begins or commits: it takes microseconds.
    """

    tag: str = ""
    columns: tuple[OutputColumn, ...] | None = None
    param_types: tuple[SqlType, ...] = ()
    read_only: bool = False
    source: Any = None
    engine: str = "own"
    brief: bool = False
    concurrently: bool = False
    remarks: tuple[Remark, ...] = ()

    @property
    def inner(self) -> Plan:
        """The plan of the statement within this one; itself where there is none."""
        return self

    @property
    def tables_written(self) -> tuple[Table, ...]:
        """The tables whose rows its source chooses to be changed."""
        return ()

    def moved(self, catalog: Catalog) -> Plan | None:
        """The same plan for another catalog, or None when the statement must be planned again."""
        return None

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> PlanOutcome:
        """Carry the statement out. SqlError, storage.MustWait or SourceChanged; then nothing happened
        that the view does not undo with the statement."""
        raise NotImplementedError(f"{type(self).__name__} is carried out by the session")

    def run_many(self, view: View, param_rows: Iterable[Row], clock: Clock) -> PlanOutcome:
        """Carry it out once for each row of parameters; the count is the sum, results are dropped."""
        count = 0
        for params in param_rows:
            count += self.run(view, params, clock).count
        return PlanOutcome(None, count)

    def explain(self) -> list[str]:
        """Lines that say what will be done, the outermost step first."""
        return [self.tag.title()]

    def command_tag(self, count: int) -> str:
        """PostgreSQL's command tag: "SELECT 3", "INSERT 0 3", "CREATE TABLE"."""
        if self.tag == "INSERT":
            return f"INSERT 0 {count}"
        if self.tag in {"SELECT", "UPDATE", "DELETE", "MERGE"}:
            return f"{self.tag} {count}"
        return self.tag


def ended(steps: Generator[None, None, PlanOutcome]) -> PlanOutcome:
    """What a plan's ``slices`` give in the end, all its steps taken at once."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            outcome: PlanOutcome = stop.value
            return outcome
