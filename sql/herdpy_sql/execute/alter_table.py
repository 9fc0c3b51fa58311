"""ALTER TABLE: what its actions make of a table, carried out in steps of few rows.

The planner lets the actions of a statement work on a :class:`TableChange`, one after another. AlterTablePlan
carries the sum of them out, with at most one rewrite of the rows, all or nothing.

Where images can stay as they are (columns added with a constant, dropped, renamed) only the definition
changes, once the rows are found to satisfy it. Else every row is written anew under the new definition:
the table keeps its id, so that what refers to it goes on to. The log then has a Truncate, the AlterTable
and the rows, and a follower of the log need not know how they were computed.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from herdpy_sql.catalog import Column
from herdpy_sql.deferred import refuse_pending
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.base import Plan, PlanOutcome, ended
from herdpy_sql.execute.define import duplicate, value_takers, with_sequences
from herdpy_sql.execute.uniques import check_all
from herdpy_sql.hidden_columns import dropped_name, without_orphans
from herdpy_sql.sequences import definition_of, owned_by, relation_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from herdpy_sql.catalog import Catalog, Check, Index, KeyPart, Table
    from herdpy_sql.clock import Clock
    from herdpy_sql.execute.base import Compiled, Remark, Row, Rules
    from herdpy_sql.objects import SequenceDefinition
    from herdpy_sql.storage import View

_STEP_ROWS = 64
Afterwards = Callable[["View", "Table", "Clock"], Generator[None, None, None]]
"""What is validated once the definition is in force: (view, the table as it is now, clock), in steps."""


@dataclass
class TableChange:
    """What becomes of a table.

    Attributes:
        old: as it is; ``table``: as it will be, positions of columns as they are, new indexes not in it.
        rewritten: every row is written anew (else the images stay as they are).
        convert: new datums of columns, by position, computed from the old row; for a rewrite.
        retyped: positions of columns that get another type.
        missing: what rows have in added columns, by position, computed once.
        not_null: positions of columns that must be found without NULL.
        checks: names of CHECK constraints that the rows must be found to satisfy.
        fresh: indexes to be made of the rows, without ids; ``gone``: indexes that are dropped.
        sequences: those that are made for columns, by position; rows there get values in added columns.
        afterwards: see :data:`Afterwards`.
        last: what is done to the definition when all actions have been: foreign keys may refer to keys that
            the statement makes.
        remarks: notices that the client gets.
    """

    catalog: Catalog
    old: Table
    table: Table
    rewritten: bool = False
    convert: dict[int, Compiled] = field(default_factory=dict)
    retyped: set[int] = field(default_factory=set)
    missing: dict[int, Compiled] = field(default_factory=dict)
    not_null: set[int] = field(default_factory=set)
    checks: set[str] = field(default_factory=set)
    fresh: list[Index] = field(default_factory=list)
    gone: list[Index] = field(default_factory=list)
    sequences: dict[int, SequenceDefinition] = field(default_factory=dict)
    afterwards: list[Afterwards] = field(default_factory=list)
    last: list[Callable[[], None]] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)

    def position(self, name: str) -> int:
        """Where a column that is shown stands; SqlError 42703."""
        position = self.table.positions.get(name)
        if position is None or self.table.columns[position].hidden:
            raise SqlError(
                "42703",
                f'column "{name}" of relation "{self.table.name}" does not exist',
                column=name,
                table=self.table.name,
            )
        return position

    def set_column(self, position: int, column: Column) -> None:
        """Give a column another definition."""
        columns = list(self.table.columns)
        columns[position] = column
        self.table = replace(self.table, columns=tuple(columns))

    def add_column(self, column: Column) -> int:
        """Add a column behind all others; where it stands."""
        self.table = replace(self.table, columns=(*self.table.columns, column))
        return len(self.table.columns) - 1

    def set_nullable(self, position: int, *, nullable: bool) -> None:
        """Allow NULL or not. The keys of index entries differ by that, so they are made anew."""
        column = self.table.columns[position]
        if column.not_null != nullable:
            return
        self.leave_hidden_key(position)
        self.set_column(position, replace(column, not_null=not nullable))
        for index in self.table.indexes:
            if any(part.position == position for part in index.parts):
                self.remake_index(index)

    def remake_index(self, index: Index) -> None:
        """Drop an index and make it again of the rows."""
        self.drop_index(index)
        self.fresh.append(replace(index, id=0))

    def drop_index(self, index: Index) -> None:
        """Take an index away, one that this statement made, too."""
        if index in self.table.indexes:
            self.table = replace(
                self.table, indexes=tuple(one for one in self.table.indexes if one is not index)
            )
            self.gone.append(next(one for one in self.old.indexes if one.id == index.id))
        else:
            self.fresh.remove(index)

    @property
    def indexes(self) -> tuple[Index, ...]:
        """Those that there will be."""
        return (*self.table.indexes, *self.fresh)

    def set_key(self, parts: tuple[KeyPart, ...], name: str) -> None:
        """Key the table, which has none, by these columns. SqlError 42P16 when it has one."""
        table = self.table
        if not table.has_hidden_key:
            raise SqlError("42P16", f'multiple primary keys for table "{table.name}" are not allowed')
        hidden = table.key[0].position
        for part in parts:
            if not table.columns[part.position].not_null:
                self.set_nullable(part.position, nullable=False)
                self.not_null.add(part.position)
        self.table = replace(self.table, key=parts, key_name=name)
        self.set_column(hidden, dropped_column(self.table.columns[hidden], hidden))
        self.rewritten = True

    def leave_hidden_key(self, position: int) -> None:
        """Key the rows by the hidden number alone, and write them anew, where a column that is changed stands
        behind it: it was the partition key, of a partitioned table that the table is no partition of now."""
        table = self.table
        if table.has_hidden_key and position in table.key_positions:
            self.table = replace(table, key=table.key[:1])
            self.rewritten = True

    def add_check(self, check: Check) -> None:
        """Add a CHECK constraint, which the rows must satisfy unless it is NOT VALID."""
        self.table = replace(self.table, checks=(*self.table.checks, check))
        if check.validated:
            self.checks.add(check.name)


def dropped_column(column: Column, position: int) -> Column:
    """What is left of a column: its place in row images, named as PostgreSQL names it."""
    return Column(dropped_name(position), column.type, missing=column.missing, dropped=True)


class AlterTablePlan(Plan):
    """ALTER TABLE; ``rules_of`` gives the rules of a definition."""

    def __init__(
        self,
        change: TableChange,
        rules_of: Callable[[Table], Rules],
        *,
        tag: str = "ALTER TABLE",
        concurrently: bool = False,
    ) -> None:
        self.tag = tag
        self.concurrently = concurrently  # asked for so, which no transaction block may
        self.change = change
        self.remarks = tuple(change.remarks)
        self.rules_of = rules_of

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> PlanOutcome:
        return ended(self.slices(view, params, clock, source))

    def slices(
        self, view: View, params: Row, clock: Clock, source: pa.Table | None
    ) -> Generator[None, None, PlanOutcome]:
        """As ``run``, in steps of few rows between which others may use the database, but not the table.

        The transaction of ``view`` must keep the locks that it takes.
        """
        change = self.change
        old, number = change.old, change.old.id
        refuse_pending(view.deferred, old, "ALTER TABLE")
        view.lock_definition(old)
        self._check_names(view)
        new = with_sequences(view, self._definition(clock), change.sequences)
        if change.rewritten:
            yield from self._rewrite(view, new, clock)
        else:
            if change.not_null or change.checks:
                yield from self._validate(view, new, clock)
            self._drop_indexes(view)
            if view.catalog.tables[number] != new:
                view.alter_table(view.catalog.tables[number], new)
        for index in change.fresh:
            made = replace(index, id=view.next_id, table_id=number)
            yield from view.create_index_slowly(view.catalog.tables[number], made)
        table = view.catalog.tables[number]
        for index in table.indexes:
            if index.deferrable and (change.rewritten or index not in old.indexes):
                yield from check_all(view, table, index)
        for validate in change.afterwards:
            yield from validate(view, view.catalog.tables[number], clock)
        self._take_sequences(view)
        return PlanOutcome(None, 0)

    def _take_sequences(self, view: View) -> None:
        """The sequences of its columns go with a column that is dropped, and along to another schema."""
        now = view.catalog.tables[self.change.old.id]
        for one in owned_by(view.catalog, now):
            owner = definition_of(one).owner
            assert owner is not None
            if now.columns[owner[1]].dropped:
                view.drop_object(one)
            elif one.schema != now.schema:
                view.put_object(replace(one, schema=now.schema))

    def _check_names(self, view: View) -> None:
        """42P07 when another transaction took a name meanwhile."""
        change, catalog = self.change, view.catalog
        old, new = change.old, change.table
        names = [index.name for index in change.fresh if index.name not in {i.name for i in change.gone}]
        if old.schema != new.schema:
            names = [*relation_names(new, catalog)]
        elif old.name != new.name:
            names.append(new.name)
        for name in names:
            if catalog.is_taken(new.schema, name):
                raise duplicate(name)

    def _definition(self, clock: Clock) -> Table:
        """The new definition, with what the rows there have in added columns."""
        columns = list(self.change.table.columns)
        for position, compute in self.change.missing.items():
            columns[position] = replace(columns[position], missing=compute((), (), clock))
        table = replace(self.change.table, columns=tuple(columns))
        kept = without_orphans(replace(table, indexes=self.change.indexes))
        return replace(kept, indexes=table.indexes)

    def _drop_indexes(self, view: View) -> None:
        for index in self.change.gone:
            view.drop_index(view.catalog.tables[self.change.old.id], index)

    # Rows that stay as they are.

    def _validate(self, view: View, new: Table, clock: Clock) -> Iterator[None]:
        judge = self._judge(new)
        decode = new.row_codec.decode
        for count, (_, image) in enumerate(view.scan(self.change.old), 1):
            judge(decode(image), clock)
            if not count % _STEP_ROWS:
                yield

    def _judge(self, new: Table) -> Callable[[Row | list[object], Clock], None]:
        """What refuses a row that does not satisfy what the statement demands."""
        change = self.change
        rules = self.rules_of(new)
        checks = [(name, condition) for name, condition in rules.checks if name in change.checks]
        demanded = sorted(change.not_null)

        def judge(row: Row | list[object], clock: Clock) -> None:
            for position in demanded:
                if row[position] is None:
                    name = new.columns[position].name
                    raise SqlError(
                        "23502",
                        f'column "{name}" of relation "{new.name}" contains null values',
                        table=new.name,
                        column=name,
                    )
            for name, condition in checks:
                if condition(row, (), clock) is False:  # type: ignore[arg-type]
                    raise SqlError(
                        "23514",
                        f'check constraint "{name}" of relation "{new.name}" is violated by some row',
                        table=new.name,
                        constraint=name,
                    )

        return judge

    # Rows that are written anew.

    def _rewrite(self, view: View, new: Table, clock: Clock) -> Generator[None, None, None]:
        old = self.change.old
        with closing(view.snapshot()) as snapshot:
            images = snapshot.scan(old)
            self._drop_indexes(view)
            bare = view.catalog.tables[old.id]
            view.truncate(bare)
            view.alter_table(bare, new)
            new = view.catalog.tables[old.id]
            converted = self._converter(view, new)
            judge = self._judge(new)
            decode = old.row_codec.decode
            rows: list[Row] = []
            for _, image in images:
                row = converted(decode(image), clock)
                judge(row, clock)
                rows.append(row)
                if len(rows) == _STEP_ROWS:
                    self._write(view, new, rows)
                    rows = []
                    yield
            self._write(view, new, rows)

    def _converter(self, view: View, new: Table) -> Callable[[Row, Clock], Row]:
        """The function from an old row to a new one."""
        change, rules = self.change, self.rules_of(new)
        kept = len(change.old.columns)
        added = [column.missing for column in new.columns[kept:]]
        gone = [at for at, column in enumerate(new.columns) if column.dropped]
        hidden = new.key[0].position if new.has_hidden_key and new.key[0].position >= kept else None
        counted = {at: one for at, one in value_takers(new, change.sequences).items() if at >= kept}
        convert = tuple({**change.convert, **counted}.items())

        def converted(row: Row, clock: Clock) -> Row:
            made = [*row, *added]
            for position, compute in convert:
                made[position] = compute(row, (), clock)
            for position in gone:
                made[position] = None
            if hidden is not None:
                made[hidden] = view.next_row_id(new)
            rules.generate(made, clock)
            return tuple(made)

        return converted

    def _write(self, view: View, new: Table, rows: list[Row]) -> None:
        try:
            view.insert_many(new, rows)
        except SqlError as error:
            name = error.fields.get("constraint")
            if error.sqlstate != "23505" or name is None:
                raise
            detail = (error.detail or "").replace("already exists", "is duplicated")
            raise SqlError(
                "23505",
                f'could not create unique index "{name}"',
                detail=detail or None,
                table=new.name,
                constraint=name,
            ) from error

    def explain(self) -> list[str]:
        how = "rewriting its rows" if self.change.rewritten else "its rows stay"
        return [f"Alter Table {self.change.old.name}: {how}"]


class AlterNothing(Plan):
    """ALTER ... IF EXISTS of what does not; or what is accepted and changes nothing."""

    def __init__(self, tag: str = "ALTER TABLE") -> None:
        self.tag = tag

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> PlanOutcome:
        return PlanOutcome(None, 0)


class RenameIndexPlan(Plan):
    """ALTER INDEX ... RENAME TO."""

    tag = "ALTER INDEX"

    def __init__(self, table: Table, changed: Table, name: str) -> None:
        self.table = table
        self.changed = changed
        self.name = name

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> PlanOutcome:
        if view.catalog.is_taken(self.table.schema, self.name):
            raise duplicate(self.name)
        view.alter_table(self.table, self.changed)
        return PlanOutcome(None, 0)

    def explain(self) -> list[str]:
        return [f"Rename an Index of {self.table.name} to {self.name}"]


class ReindexPlan(Plan):
    """REINDEX: the indexes are made anew of the rows, under their names."""

    tag = "REINDEX"

    def __init__(self, indexes: tuple[tuple[Table, Index], ...]) -> None:
        self.indexes = indexes

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> PlanOutcome:
        for _ in self.slices(view, params, clock, source):
            pass
        return PlanOutcome(None, 0)

    def slices(
        self, view: View, params: Row, clock: Clock, source: pa.Table | None
    ) -> Generator[None, None, PlanOutcome]:
        """As ``run``, in steps of few rows."""
        for table, index in self.indexes:
            view.drop_index(view.catalog.tables[table.id], index)
            fresh = replace(index, id=view.next_id)
            yield from view.create_index_slowly(view.catalog.tables[table.id], fresh)
        return PlanOutcome(None, 0)

    def explain(self) -> list[str]:
        return [f"Reindex {', '.join(index.name for _, index in self.indexes) or '(nothing)'}"]
