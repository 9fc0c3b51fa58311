"""UPDATE, DELETE, MERGE and TRUNCATE: find the rows, lock them, and only then write.

All matching rows are collected, and all new images computed, before the first write: a statement never
meets its own changes (the Halloween problem). A row that another transaction holds makes the view raise
MustWait, and the session runs the statement again from its start.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from herdpy.codec.kinds import sizes_of
from herdpy_sql.deferred import refuse_pending
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.base import Plan, PlanOutcome, SourceChanged, ended
from herdpy_sql.execute.insert import datum_rows
from herdpy_sql.execute.kept_back import KeptBack
from herdpy_sql.execute.sources import KeyGet
from herdpy_sql.lock_modes import NO_KEY_UPDATE, UPDATE
from herdpy_sql.sequences import SequenceState, definition_of, owned_by

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

    import pyarrow as pa

    from herdpy.codec.kinds import Datum
    from herdpy_sql.catalog import Table
    from herdpy_sql.clock import Clock
    from herdpy_sql.execute.base import Compiled, OutputColumn, Row, Rules
    from herdpy_sql.execute.insert import FromQuery, Project
    from herdpy_sql.execute.sources import RowSource
    from herdpy_sql.storage import Reader, View
    from herdpy_sql.types import SqlType

_STEP_ROWS = 64

Write = tuple[bytes, bytes, list["Datum"]]  # key, old image, new row
Match = tuple[bytes, bytes, "Row", "Row"]  # key, image, the old row, what the source computed besides


class Matches:
    """The rows that a statement is about; ``brief``: one at most, found by its key."""

    source: object = None
    engine = "own"
    brief = False

    def find(self, view: View, params: Row, clock: Clock, answer: pa.Table | None) -> list[Match]:
        """Each matching row, once."""
        raise NotImplementedError

    def explain(self) -> list[str]:
        """Lines for EXPLAIN."""
        raise NotImplementedError


class OwnMatches(Matches):
    """Rows of an own source that satisfy a condition over the physical row.

    Attributes:
        reads: the positions of the columns that the condition looks at.
        subqueries: run first; the values of each are one more parameter, see ``SubqueryValues``.
    """

    reads: frozenset[int] = frozenset()

    def __init__(
        self,
        source: RowSource,
        condition: Compiled | None,
        condition_text: str,
        subqueries: tuple[Plan, ...] = (),
    ) -> None:
        self.access = source
        self.condition = condition
        self.condition_text = condition_text
        self.subqueries = subqueries
        self.decode = source.table.row_codec.decode
        self.brief = isinstance(source, KeyGet) and not subqueries

    def find(self, view: View, params: Row, clock: Clock, answer: pa.Table | None) -> list[Match]:
        decode, condition, found = self.decode, self.condition, list[Match]()
        if self.subqueries:
            params = with_subqueries(self.subqueries, view, params, clock)
        pairs = self.access.look_up if self.brief else self.access.pairs
        for key, image in pairs(view, (), params, clock):
            row = decode(image)
            if condition is None or condition(row, params, clock) is True:
                found.append((key, image, row, ()))
        return found

    def search(self, reader: Reader, params: Row, clock: Clock) -> Iterator[Match | None]:
        """As ``find``, with None where one may pause."""
        decode, condition = self.decode, self.condition
        view = cast("View", reader)  # sources only read
        if self.subqueries:
            params = with_subqueries(self.subqueries, view, params, clock)
        for count, (key, image) in enumerate(self.access.pairs(view, (), params, clock), 1):
            row = decode(image)
            if condition is None or condition(row, params, clock) is True:
                yield key, image, row, ()
            if not count % _STEP_ROWS:
                yield None

    def explain(self) -> list[str]:
        lines = self.access.explain()
        if self.condition_text:
            lines.append(f"  Filter: {self.condition_text}")
        return lines + explained_subqueries(self.subqueries)


def with_subqueries(subqueries: Iterable[Plan], view: View, params: Row, clock: Clock) -> Row:
    """The parameters, and behind them the values of each subquery as an array."""
    arrays = [plan.run(view, params, clock).rows or () for plan in subqueries]
    return (*params, *(tuple([value for (value,) in rows]) for rows in arrays))


def explained_subqueries(subqueries: Iterable[Plan]) -> list[str]:
    """Lines for EXPLAIN."""
    lines: list[str] = []
    for plan in subqueries:
        first, *rest = plan.explain()
        lines += ["  Subquery", f"    -> {first}", *(f"       {line}" for line in rest)]
    return lines


class JoinedMatches(Matches):
    """Rows of an own source, looked up for each row of other relations; of several the first decides.

    Conditions, and what SET and RETURNING compute, are over the physical row and that other row behind it.
    """

    def __init__(
        self, others: Plan, source: RowSource, condition: Compiled | None, condition_text: str
    ) -> None:
        """``others`` gives the rows of the other relations, all their columns in order."""
        self.others = others
        self.access = source
        self.condition = condition
        self.condition_text = condition_text

    def find(self, view: View, params: Row, clock: Clock, answer: pa.Table | None) -> list[Match]:
        condition, decode, pairs = self.condition, self.access.table.row_codec.decode, self.access.pairs
        found: dict[bytes, Match] = {}
        for other in self.others.run(view, params, clock).rows or ():
            for key, image in pairs(view, other, params, clock):
                if key in found:
                    continue
                row = decode(image)
                if condition is None or condition(row + other, params, clock) is True:
                    found[key] = key, image, row, other
        return list(found.values())

    def explain(self) -> list[str]:
        first, *more = self.others.explain()
        title, *rest = self.access.explain()
        lines = ["Key Join", f"  -> {first}", *(f"     {line}" for line in more)]
        lines += [f"  -> {title}", *(f"     {line}" for line in rest)]
        return [*lines, f"       Filter: {self.condition_text}"] if self.condition_text else lines


class ColumnarMatches(Matches):
    """Rows that the columnar engine found: all physical columns, then what it computed."""

    engine = "columnar"

    def __init__(self, table: Table, query: Plan, positions: tuple[int, ...]) -> None:
        self.table = table
        self.use(query)
        self.positions = positions  # the physical columns that the answer begins with

    def use(self, query: Plan) -> None:
        """Ask ``query`` for the rows."""
        self.query = query
        self.source = query.source

    @property
    def computed(self) -> Sequence[OutputColumn]:
        """The columns of the answer behind the physical ones."""
        return (self.query.columns or ())[len(self.positions) :]

    def find(self, view: View, params: Row, clock: Clock, answer: pa.Table | None) -> list[Match]:
        table, count = self.table, len(self.positions)
        encode = table.key_codec.encode
        outcome = self.query.run(view, params, clock, answer)
        rows = outcome.rows
        if rows is None:
            rows = datum_rows(outcome.table, self.query.columns or ())
        seen: set[bytes] = set()
        found: list[Match] = []
        key_positions = [self.positions.index(p) for p in table.key_positions]
        for given in rows:
            key = encode([given[i] for i in key_positions])
            if key in seen:  # a join may find a row twice: the first decides, as in PostgreSQL
                continue
            seen.add(key)
            image, row = self._current(view, key, given)
            found.append((key, image, row, given[count:]))
        return found

    def current(self, view: View, given: Row) -> tuple[bytes, bytes, Row]:
        """Key, image and datums of the row that an answer begins with. SourceChanged: it is another now."""
        key = self.table.key_codec.encode([given[self.positions.index(p)] for p in self.table.key_positions])
        return key, *self._current(view, key, given)

    def _current(self, view: View, key: bytes, given: Row) -> tuple[bytes, Row]:
        table = self.table
        image = view.get(table, key)
        if image is None:
            raise SourceChanged(f"a row of {table.name} was deleted meanwhile")
        row = table.row_codec.decode(image)
        if any(row[p] != given[i] for i, p in enumerate(self.positions)):
            old = [row[p] for p in self.positions]
            if not same_values(old, given[: len(old)]):
                raise SourceChanged(f"a row of {table.name} was changed meanwhile")
        return image, row

    def explain(self) -> list[str]:
        return self.query.explain()


def same_values(old: list[Datum], new: Row) -> bool:
    """Whether two rows hold the same values, NaN being one."""
    return all(a == b or _same_nan(a, b) for a, b in zip(old, new, strict=True))


def _same_nan(a: Datum, b: Datum) -> bool:
    """Whether values that are not equal differ in nothing but NaN, which arrays may hold too."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return sizes_of(a) == sizes_of(b) and len(a) == len(b) and same_values(list(a), tuple(b))
    return isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b)


def _found_and_locked(
    matches: Matches, table: Table, view: View, reader: Reader, params: Row, clock: Clock
) -> Generator[None, None, list[Match]]:
    """The rows that ``matches`` has in a snapshot, locked, and still as they were there.

    Raises:
        SourceChanged: another transaction has changed one meanwhile.
        MustWait: another transaction holds one.
    """
    assert isinstance(matches, OwnMatches)
    found = []
    for one in matches.search(reader, params, clock):
        if one is None:
            yield
        else:
            found.append(one)
    for start in range(0, len(found), _STEP_ROWS):
        some = found[start : start + _STEP_ROWS]
        view.lock_rows(table, [match[0] for match in some])
        for key, image, _, _ in some:
            if view.get(table, key) != image:
                raise SourceChanged(f"a row of {table.name} was changed meanwhile")
        yield
    return found


def _unchanged(view: View, table: Table, found: list[Match]) -> list[Match]:
    """Without rows that a stage before has changed: PostgreSQL neither changes, counts nor returns them."""
    if not isinstance(view, KeptBack):
        return found
    return [match for match in found if not view.is_changed(table, match[0])]


def _is_changed(view: View, table: Table, key: bytes) -> bool:
    return isinstance(view, KeptBack) and view.is_changed(table, key)


def row_mode(table: Table, changed: set[int]) -> int:
    """How strongly an update of these columns locks its rows: what may be referred to, or the rest only."""
    unique = (index.parts for index in table.indexes if index.unique)
    identity = {part.position for parts in (table.key, *unique) for part in parts}
    return NO_KEY_UPDATE if identity.isdisjoint(changed) else UPDATE


class UpdatePlan(Plan):
    """UPDATE: ``assign`` gives, for a position, the new datum from the row that ``find`` gave.

    Attributes:
        reads: the positions of the columns that ``assign`` and the condition look at; None: of any.
    """

    tag = "UPDATE"
    reads: frozenset[int] | None = None

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
        self.brief = matches.brief
        self.lock_mode = row_mode(table, {position for position, _ in assign})

    @property
    def tables_written(self) -> tuple[Table, ...]:
        return (self.table,)

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> PlanOutcome:
        table = self.table
        writes = []
        found = _unchanged(view, table, self.matches.find(view, params, clock, source))
        for match in found:
            view.lock_row(table, match[0], self.lock_mode)
            writes.append(self._written(match, params, clock))
        for key, image, new in writes:
            view.update(table, key, image, new)
        if self.returning is None:
            return PlanOutcome(None, len(writes))
        return PlanOutcome(self._returned(self.returning, found, writes, params, clock), len(writes))

    def slices(
        self, view: View, reader: Reader, params: Row, clock: Clock
    ) -> Generator[None, None, PlanOutcome]:
        """As ``run``, in steps of few rows between which others may use the database.

        Only for matches of an own source. The transaction of ``view`` must keep the locks that it takes.

        Args:
            reader: a snapshot of what ``view`` saw when the statement began.

        Raises:
            SourceChanged, MustWait: as of ``run``.
        """
        found = yield from _found_and_locked(self.matches, self.table, view, reader, params, clock)
        total, returning = len(found), self.returning
        rows: list[Row] | None = None if returning is None else []
        found.reverse()
        while found:  # what is done is let go of step by step, too
            key, image, new = self._written(found.pop(), params, clock)
            view.update(self.table, key, image, new)
            if rows is not None and returning is not None:
                rows.append(returning(tuple(new), params, clock))
            if not len(found) % _STEP_ROWS:
                yield
        return PlanOutcome(rows, total)

    def _written(self, match: Match, params: Row, clock: Clock) -> Write:
        """What becomes of a row, checked."""
        key, image, row, computed = match
        new = list(row)
        given = row + computed
        for position, value in self.assign:
            new[position] = value(given, params, clock)
        self.rules.verify(new, clock)
        return key, image, new

    def _returned(
        self, returning: Project, found: list[Match], writes: list[Write], params: Row, clock: Clock
    ) -> list[Row]:
        return [
            returning((*new, *computed), params, clock)
            for (_, _, new), (_, _, _, computed) in zip(writes, found, strict=True)
        ]

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
        self.brief = matches.brief

    @property
    def tables_written(self) -> tuple[Table, ...]:
        return (self.table,)

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> PlanOutcome:
        table = self.table
        found = _unchanged(view, table, self.matches.find(view, params, clock, source))
        for key, _, _, _ in found:
            view.lock_row(table, key)
        rows = None
        if self.returning is not None:
            rows = [self.returning(row + computed, params, clock) for _, _, row, computed in found]
        for key, image, _, _ in found:
            view.delete(table, key, image)
        return PlanOutcome(rows, len(found))

    def slices(
        self, view: View, reader: Reader, params: Row, clock: Clock
    ) -> Generator[None, None, PlanOutcome]:
        """See UpdatePlan."""
        found = yield from _found_and_locked(self.matches, self.table, view, reader, params, clock)
        total, returning = len(found), self.returning
        rows: list[Row] | None = None if returning is None else []
        found.reverse()
        while found:
            key, image, row, _ = found.pop()
            if rows is not None and returning is not None:
                rows.append(returning(row, params, clock))
            view.delete(self.table, key, image)
            if not len(found) % _STEP_ROWS:
                yield
        return PlanOutcome(rows, total)

    def explain(self) -> list[str]:
        first, *rest = self.matches.explain()
        return [f"Delete on {self.table.name}", f"  -> {first}", *(f"     {line}" for line in rest)]


class TruncatePlan(Plan):
    """TRUNCATE of one or more tables."""

    tag = "TRUNCATE TABLE"

    def __init__(self, tables: tuple[Table, ...], *, restart: bool = False) -> None:
        """``restart``: the sequences of their columns begin again (RESTART IDENTITY)."""
        self.tables = tables
        self.restart = restart

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> PlanOutcome:
        for table in self.tables:
            refuse_pending(view.deferred, table, "TRUNCATE")
            view.truncate(table)
            for one in owned_by(view.catalog, table) if self.restart else ():
                view.restart_sequence(one, SequenceState(definition_of(one).start, False))
        return PlanOutcome(None, 0)

    def explain(self) -> list[str]:
        return [f"Truncate {', '.join(table.name for table in self.tables)}"]


DO_UPDATE, DO_DELETE, DO_INSERT, DO_NOTHING = "Update", "Delete", "Insert", "Do Nothing"


MergeWrite = tuple[bytes | None, bytes | None, "Row | None"]
"""Key and image of the row there is (None: none), what it becomes (None: it goes)."""


@dataclass(frozen=True)
class Action:
    """What a WHEN clause does, over the query's row.

    Attributes:
        assign: UPDATE: for a position the new datum.
        insert: INSERT: the new row.
    """

    kind: str
    assign: tuple[tuple[int, Compiled], ...] = ()
    insert: FromQuery | None = None


class MergePlan(Plan):
    """MERGE. The query's row: the target's live columns, the number of the clause, what clauses compute."""

    tag = "MERGE"

    def __init__(
        self, table: Table, matches: ColumnarMatches, actions: tuple[Action, ...], rules: Rules
    ) -> None:
        self.table = table
        self.matches = matches
        self.actions = actions
        self.rules = rules
        self._modes = [row_mode(table, {position for position, _ in one.assign}) for one in actions]
        self.param_types = matches.query.param_types
        self.source = matches.source
        self.engine = matches.engine

    @property
    def tables_written(self) -> tuple[Table, ...]:
        return (self.table,)

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> PlanOutcome:
        return ended(self.slices(view, params, clock, source))

    def slices(
        self, view: View, params: Row, clock: Clock, source: pa.Table | None
    ) -> Generator[None, None, PlanOutcome]:
        """As ``run``, in steps of few rows between which others may use the database.

        The transaction of ``view`` must keep the locks that it takes.
        """
        query = self.matches.query
        found = query.run(view, params, clock, source)
        rows = found.rows if found.rows is not None else datum_rows(found.table, query.columns or ())
        place = len(self.matches.positions)
        touched: set[bytes] = set()
        writes: list[MergeWrite] = []
        for count, row in enumerate(rows, 1):
            number = row[place]
            if number is not None:
                write = self._written(view, int(number) - 1, row, touched, clock)  # type: ignore[arg-type]
                writes += [] if write is None else [write]
            if not count % _STEP_ROWS:
                yield
        for count, write in enumerate(writes, 1):
            self._write(view, write)
            if not count % _STEP_ROWS:
                yield
        return PlanOutcome(None, len(writes))

    def _written(
        self, view: View, nth: int, given: Row, touched: set[bytes], clock: Clock
    ) -> MergeWrite | None:
        """What becomes of a pair that the clause ``nth`` takes, checked; the target's row is locked."""
        action = self.actions[nth]
        if action.kind == DO_NOTHING:
            return None
        if action.insert is not None:
            return None, None, action.insert.row(view, given, clock)
        key, image, old = self.matches.current(view, given)
        if key in touched or _is_changed(view, self.table, key):
            raise SqlError(
                "21000",
                "MERGE command cannot affect row a second time",
                hint="Ensure that not more than one source row matches any one target row.",
            )
        touched.add(key)
        if action.kind == DO_DELETE:
            view.lock_row(self.table, key)
            return key, image, None
        view.lock_row(self.table, key, self._modes[nth])
        new = list(old)
        for position, value in action.assign:
            new[position] = value(given, (), clock)
        self.rules.verify(new, clock)
        return key, image, tuple(new)

    def _write(self, view: View, write: MergeWrite) -> None:
        key, image, new = write
        if key is None or image is None:
            assert new is not None
            view.insert(self.table, new)
        elif new is None:
            view.delete(self.table, key, image)
        else:
            view.update(self.table, key, image, new)

    def explain(self) -> list[str]:
        first, *rest = self.matches.explain()
        actions = ", ".join(action.kind for action in self.actions)
        lines = [f"Merge on {self.table.name}", f"  Actions: {actions}", f"  -> {first}"]
        return [*lines, *(f"     {line}" for line in rest)]
