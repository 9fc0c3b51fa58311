"""CREATE, DROP and other changes of definitions: the planner makes them out; here they go to the view.

Ids come from the catalog that the view sees when the plan runs, not from the one it was planned with. With a
table come the sequences of its SERIAL and identity columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from herdpy_sql.deferred import refuse_pending
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.base import Plan, PlanOutcome
from herdpy_sql.hidden_columns import without_orphans
from herdpy_sql.objects import FIRST_USER_OID, CatalogObject
from herdpy_sql.sequences import SequenceState, fresh_name, sequence_default, sequences_of

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    import pyarrow as pa

    from herdpy.codec.kinds import Datum
    from herdpy_sql.catalog import Index, Table
    from herdpy_sql.clock import Clock
    from herdpy_sql.execute.base import Compiled, Row
    from herdpy_sql.objects import SequenceDefinition
    from herdpy_sql.storage import MustWait, View


class CreateTablePlan(Plan):
    """CREATE TABLE; ``table`` and its indexes have no ids yet."""

    tag = "CREATE TABLE"

    def __init__(
        self,
        table: Table,
        *,
        if_not_exists: bool,
        sequences: tuple[tuple[int, SequenceDefinition], ...] = (),
    ) -> None:
        """``sequences``: those of its columns, by position, which come to be with it."""
        self.table = table
        self.if_not_exists = if_not_exists
        self.sequences = sequences

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> PlanOutcome:
        catalog, table = view.catalog, self.table
        if catalog.is_taken(table.schema, table.name):
            if self.if_not_exists:
                return PlanOutcome(None, 0)
            raise duplicate(table.name)
        if catalog.object("enum", table.schema, table.name) is not None:
            raise SqlError(
                "42710",
                f'type "{table.name}" already exists',
                hint="A relation has a type of its own name: use one that no type has.",
            )
        for name in (table.key_name, *(index.name for index in table.indexes)):
            if catalog.is_taken(table.schema, name) or name == table.name:
                raise duplicate(name)
        if self.sequences:  # their ids come right before its own
            number = view.next_id + len(self.sequences)
            table = with_sequences(view, replace(table, id=number), dict(self.sequences))
        number = view.next_id
        indexes = tuple(
            replace(index, id=number + 1 + i, table_id=number) for i, index in enumerate(table.indexes)
        )
        for parent in {one.table_id for one in table.foreign_keys} - {0}:
            view.lock_definition(
                catalog.tables[parent]
            )  # who takes rows out of it now does not look here yet
        keys = tuple(replace(one, table_id=one.table_id or number) for one in table.foreign_keys)
        view.create_table(replace(table, id=number, indexes=indexes, foreign_keys=keys))
        return PlanOutcome(None, 0)

    def explain(self) -> list[str]:
        return [f"Create Table {self.table.name}"]


class DropTablePlan(Plan):
    """DROP TABLE."""

    tag = "DROP TABLE"

    def __init__(
        self,
        tables: tuple[Table, ...],
        detached: tuple[tuple[int, str], ...] = (),
        objects: tuple[CatalogObject, ...] = (),
    ) -> None:
        """What goes, too: ``detached``, foreign keys of other tables (id of the table, name); ``objects``,
        views and the sequences of columns."""
        self.tables = tables
        self.detached = detached
        self.objects = objects

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> PlanOutcome:
        for table in self.tables:
            refuse_pending(view.deferred, table, "DROP TABLE")
        detach(view, self.detached)
        for one in reversed(self.objects):
            view.drop_object(one)
        for table in self.tables:
            view.drop_table(view.catalog.tables[table.id])
        return PlanOutcome(None, 0)

    def explain(self) -> list[str]:
        return [f"Drop Table {', '.join(table.name for table in self.tables) or '(nothing)'}"]


class CreateIndexPlan(Plan):
    """CREATE INDEX; None when IF NOT EXISTS found the name taken."""

    tag = "CREATE INDEX"

    def __init__(self, table: Table, index: Index | None, *, concurrently: bool = False) -> None:
        """``concurrently``: it was asked for so, which no transaction block may; it is done so anyway."""
        self.table = table
        self.index = index
        self.concurrently = concurrently

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> PlanOutcome:
        if self.index is not None:
            view.create_index(self.table, replace(self.index, id=view.next_id))
        return PlanOutcome(None, 0)

    def slices(
        self, view: View, params: Row, clock: Clock, source: pa.Table | None
    ) -> Generator[MustWait | None, None, PlanOutcome]:
        """As ``run``, in steps of few rows between which others may use the database and write to the table.

        The transaction of ``view`` must keep the locks that it takes at the end; what it must wait for then
        is given.
        """
        if self.index is not None:
            yield from view.create_index_online(self.table, replace(self.index, id=view.next_id))
        return PlanOutcome(None, 0)

    def explain(self) -> list[str]:
        return [f"Create Index {self.index.name if self.index else '(nothing)'} on {self.table.name}"]


class DropIndexPlan(Plan):
    """DROP INDEX."""

    tag = "DROP INDEX"

    def __init__(self, indexes: tuple[tuple[Table, Index], ...]) -> None:
        self.indexes = indexes

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> PlanOutcome:
        for table, index in self.indexes:
            view.drop_index(view.catalog.tables[table.id], index)
            left = view.catalog.tables[table.id]
            kept = without_orphans(left)
            if kept is not left:
                view.alter_table(left, kept)
        return PlanOutcome(None, 0)

    def explain(self) -> list[str]:
        return [f"Drop Index {', '.join(index.name for _, index in self.indexes) or '(nothing)'}"]


def duplicate(name: str) -> SqlError:
    """42P07: PostgreSQL calls tables and indexes alike relations."""
    return SqlError("42P07", f'relation "{name}" already exists')


Work = Callable[["View"], None]


class DefinePlan(Plan):
    """A statement that changes definitions.

    Args:
        tag: its command tag. text: what EXPLAIN says it does. work: does it, with ids of the view's catalog.
    """

    def __init__(self, tag: str, text: str, work: Work | None) -> None:
        self.tag = tag
        self._text = text
        self._work = work

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> PlanOutcome:
        if self._work is not None:
            self._work(view)
        return PlanOutcome(None, 0)

    def explain(self) -> list[str]:
        return [f"{self.tag.title()} {self._text if self._work is not None else '(nothing)'}"]


def with_sequences(view: View, table: Table, wanted: Mapping[int, SequenceDefinition]) -> Table:
    """Make the sequences of columns, by position: the definition of ``table``, whose id is settled, with
    the columns' defaults that take their values."""
    columns = list(table.columns)
    names = [name for schema, name in view.catalog.relations if schema == table.schema]
    names += [table.name, table.key_name, *(index.name for index in table.indexes)]
    for position, definition in wanted.items():
        column = columns[position]
        name = fresh_name(table.name, (column.name,), "seq", names)
        names.append(name)
        owned = msgspec.structs.replace(definition, owner=(table.id, position))
        one = CatalogObject(view.next_id, table.schema, name, owned)
        view.put_object(one)
        view.restart_sequence(one, SequenceState(owned.start, False))
        columns[position] = replace(column, default=sequence_default(one))
    return replace(table, columns=tuple(columns)) if wanted else table


def value_takers(table: Table, positions: Iterable[int]) -> dict[int, Compiled]:
    """What gives a row there its value of each such column: the next of the column's sequence."""
    return {
        position: _taker(sequence)
        for position in positions
        for sequence in sequences_of(table.columns[position].default)
    }


def _taker(sequence: int) -> Compiled:
    text = str(sequence + FIRST_USER_OID)

    def take(row: Sequence[Datum], params: Sequence[Datum], clock: Clock) -> Datum:
        assert clock.sequences is not None
        return clock.sequences.nextval(text)

    return take


def detach(view: View, names: Iterable[tuple[int, str]]) -> None:
    """Drop foreign keys: (id of the table that refers, name of the constraint)."""
    for number, name in names:
        table = view.catalog.tables[number]
        kept = tuple(one for one in table.foreign_keys if one.name != name)
        view.alter_table(table, replace(table, foreign_keys=kept))
