"""A table's definition while ALTER TABLE changes it, and what its rows must go through for that.

The actions of one statement work on a :class:`TableChange` one after another; ``execute.alter_table`` then
carries the sum of them out, with at most one rewrite of the rows, all or nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sqlglot import expressions as exp

from herdpy_sql.catalog import HIDDEN_KEY, Column, KeyPart
from herdpy_sql.errors import SqlError
from herdpy_sql.hidden_columns import dropped_name
from herdpy_sql.plan.names import FreshNames
from herdpy_sql.plan.rules import scalar
from herdpy_sql.plan.scope import name_of
from herdpy_sql.types import BIGINT

if TYPE_CHECKING:
    from herdpy_sql.catalog import Catalog, Check, Index, Table
    from herdpy_sql.execute.base import Compiled, Remark
    from herdpy_sql.objects import SequenceDefinition
    from herdpy_sql.storage import Clock, View

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
        remarks: what the client is told besides.
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

    def drop_key(self) -> None:
        """Let the rows be keyed by a hidden number; the columns stay NOT NULL."""
        if self.table.has_hidden_key:
            return
        position = self.add_column(Column(HIDDEN_KEY, BIGINT, not_null=True, hidden=True))
        names = FreshNames(self.table.name, self.catalog, self.table.schema)
        names.taken.discard(self.table.key_name)
        self.table = replace(self.table, key=(KeyPart(position),), key_name=names.new([], "pkey"))
        self.rewritten = True

    def drop_column(self, position: int) -> None:
        """Drop a column and the indexes, checks and key that are about it."""
        column = self.table.columns[position]
        for index in self.indexes:
            if index.predicate == position or any(part.position == position for part in index.parts):
                self.drop_index(index)
        if position in self.table.key_positions:
            self.drop_key()
        kept = tuple(one for one in self.table.checks if column.name not in columns_named(one.condition))
        self.checks -= {one.name for one in self.table.checks} - {one.name for one in kept}
        self.table = replace(self.table, checks=kept)
        self.convert.pop(position, None)
        self.missing.pop(position, None)
        self.not_null.discard(position)
        self.set_column(position, dropped_column(column, position))

    def add_check(self, check: Check) -> None:
        """Add a CHECK constraint, which the rows must satisfy unless it is NOT VALID."""
        self.table = replace(self.table, checks=(*self.table.checks, check))
        if check.validated:
            self.checks.add(check.name)


def dropped_column(column: Column, position: int) -> Column:
    """What is left of a column: its place in row images, named as PostgreSQL names it."""
    return Column(dropped_name(position), column.type, missing=column.missing, dropped=True)


def columns_named(text: str) -> set[str]:
    """The names of the columns in an expression that the catalog keeps as text."""
    return {name_of(node.this) for node in scalar(text).find_all(exp.Column) if not node.is_star}
