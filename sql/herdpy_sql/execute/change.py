"""UPDATE, DELETE and TRUNCATE: find the rows, lock them, and only then write.

All matching rows are collected, and all new images computed, before the first write: a statement never
meets its own changes (the Halloween problem). A row that another transaction holds makes the view raise
MustWait, and the session runs the statement again from its start.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from herdpy_sql.execute.base import Outcome, Plan, SourceChanged
from herdpy_sql.execute.insert import datum_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from herdpy.codec.kinds import Datum
    from herdpy_sql.catalog import Table
    from herdpy_sql.execute.base import Compiled, OutputColumn, Row
    from herdpy_sql.execute.insert import Project, Rules
    from herdpy_sql.execute.sources import Source
    from herdpy_sql.storage import Clock, View
    from herdpy_sql.types import SqlType

Match = tuple[bytes, bytes, "Row", "Row"]  # key, image, the old row, what the source computed besides


class Matches:
    """The rows that a statement is about."""

    source: object = None
    engine = "own"

    def find(self, view: View, params: Row, clock: Clock, answer: pa.Table | None) -> Iterator[Match]:
        """Each matching row, once."""
        raise NotImplementedError

    def explain(self) -> list[str]:
        """Lines for EXPLAIN."""
        raise NotImplementedError


class OwnMatches(Matches):
    """Rows of an own source that satisfy a condition over the physical row."""

    def __init__(self, source: Source, condition: Compiled | None, condition_text: str) -> None:
        self.access = source
        self.condition = condition
        self.condition_text = condition_text
        self.decode = source.table.row_codec.decode

    def find(self, view: View, params: Row, clock: Clock, answer: pa.Table | None) -> Iterator[Match]:
        decode, condition = self.decode, self.condition
        for key, image in self.access.pairs(view, (), params, clock):
            row = decode(image)
            if condition is None or condition(row, params, clock) is True:
                yield key, image, row, ()

    def explain(self) -> list[str]:
        lines = self.access.explain()
        return [*lines, f"  Filter: {self.condition_text}"] if self.condition_text else lines


class ColumnarMatches(Matches):
    """Rows that the columnar engine found: all physical columns, then what it computed."""

    engine = "columnar"

    def __init__(self, table: Table, query: Plan, positions: tuple[int, ...]) -> None:
        self.table = table
        self.query = query
        self.source = query.source
        self.positions = positions  # the physical columns that the answer begins with

    def find(self, view: View, params: Row, clock: Clock, answer: pa.Table | None) -> Iterator[Match]:
        table, count = self.table, len(self.positions)
        encode, decode = table.key_codec.encode, table.row_codec.decode
        found = self.query.run(view, params, clock, answer)
        rows = found.rows if found.rows is not None else datum_rows(found.table, self.query.columns or ())
        seen: set[bytes] = set()
        key_positions = [self.positions.index(p) for p in table.key_positions]
        for given in rows:
            key = encode([given[i] for i in key_positions])
            if key in seen:  # a join may find a row twice: the first decides, as in PostgreSQL
                continue
            seen.add(key)
            image = view.get(table, key)
            if image is None:
                raise SourceChanged(f"a row of {table.name} was deleted meanwhile")
            row = decode(image)
            if any(row[p] != given[i] for i, p in enumerate(self.positions)):
                old = [row[p] for p in self.positions]
                if not _same(old, given[:count]):
                    raise SourceChanged(f"a row of {table.name} was changed meanwhile")
            yield key, image, row, given[count:]

    def explain(self) -> list[str]:
        return self.query.explain()


def _same(old: list[Datum], new: Row) -> bool:
    """Whether two rows hold the same values, NaN being one."""
    return all(a == b or _both_nan(a, b) for a, b in zip(old, new, strict=True))


def _both_nan(a: Datum, b: Datum) -> bool:
    return isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b)


class UpdatePlan(Plan):
    """UPDATE: ``assign`` gives, for a position, the new datum from the row that ``find`` gave."""

    tag = "UPDATE"

    def __init__(
        self,
        table: Table,
        matches: Matches,
        assign: tuple[tuple[int, Compiled], ...],
        rules: Rules,
        param_types: tuple[SqlType, ...],
        columns: tuple[OutputColumn, ...] | None = None,
        returning: Project | None = None,
    ) -> None:
        self.table = table
        self.matches = matches
        self.assign = assign
        self.rules = rules
        self.param_types = param_types
        self.columns = columns
        self.returning = returning
        self.source = matches.source
        self.engine = matches.engine

    @property
    def tables_written(self) -> tuple[Table, ...]:
        return (self.table,)

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> Outcome:
        table, assign, verify = self.table, self.assign, self.rules.verify
        writes = []
        for key, image, row, computed in list(self.matches.find(view, params, clock, source)):
            view.lock_row(table, key)
            new = list(row)
            given = row + computed
            for position, value in assign:
                new[position] = value(given, params, clock)
            verify(new, clock)
            writes.append((key, image, new))
        for key, image, new in writes:
            view.update(table, key, image, new)
        if self.returning is None:
            return Outcome(None, len(writes))
        returning = self.returning
        return Outcome([returning(tuple(new), params, clock) for _, _, new in writes], len(writes))

    def explain(self) -> list[str]:
        first, *rest = self.matches.explain()
        return [f"Update on {self.table.name}", f"  -> {first}", *(f"     {line}" for line in rest)]


class DeletePlan(Plan):
    """DELETE."""

    tag = "DELETE"

    def __init__(
        self,
        table: Table,
        matches: Matches,
        param_types: tuple[SqlType, ...],
        columns: tuple[OutputColumn, ...] | None = None,
        returning: Callable[[Row, Row, Clock], Row] | None = None,
    ) -> None:
        self.table = table
        self.matches = matches
        self.param_types = param_types
        self.columns = columns
        self.returning = returning
        self.source = matches.source
        self.engine = matches.engine

    @property
    def tables_written(self) -> tuple[Table, ...]:
        return (self.table,)

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> Outcome:
        table = self.table
        found = list(self.matches.find(view, params, clock, source))
        for key, _, _, _ in found:
            view.lock_row(table, key)
        rows = None
        if self.returning is not None:
            rows = [self.returning(row, params, clock) for _, _, row, _ in found]
        for key, image, _, _ in found:
            view.delete(table, key, image)
        return Outcome(rows, len(found))

    def explain(self) -> list[str]:
        first, *rest = self.matches.explain()
        return [f"Delete on {self.table.name}", f"  -> {first}", *(f"     {line}" for line in rest)]


class TruncatePlan(Plan):
    """TRUNCATE of one or more tables."""

    tag = "TRUNCATE TABLE"

    def __init__(self, tables: tuple[Table, ...]) -> None:
        self.tables = tables

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> Outcome:
        for table in self.tables:
            view.truncate(table)
        return Outcome(None, 0)

    def explain(self) -> list[str]:
        return [f"Truncate {', '.join(table.name for table in self.tables)}"]
