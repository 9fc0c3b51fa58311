"""What a load is, what its writers are to stage, and how it begins, is given up and asked for.

The lowest module of the package, below ``rows`` and ``publishing``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from herdpy.codec.arrow import arrow_type
from herdpy.log.records import LoadOp
from herdpy_server.sessions.bulk import LoadRules
from herdpy_server.tablespace import now_us
from herdpy_server.tablespace.cluster import ReadLevel
from herdpy_sql.catalog import Catalog, Table
from herdpy_sql.clock import Clock
from herdpy_sql.errors import SqlError
from herdpy_sql.plan.assignment import refuse_generated, target_position
from herdpy_sql.plan.rules import default_of, has_volatile_default
from herdpy_sql.staged import staged_positions

if TYPE_CHECKING:
    from herdpy_server.sessions import Session
    from herdpy_server.store.loads import LoadOutcome


MAX_ID_BYTES = 64


class LoadMode(StrEnum):
    """What rows do to a table, and to the rows there that have their keys."""

    APPEND = "append"  # they are new, or the load is refused
    OVERWRITE = "overwrite"  # all that was there goes before
    UPSERT = "upsert"  # they take the others' place
    IGNORE = "ignore"  # they are passed over
    DELETE = "delete"  # the others go; the rows are keys

    @property
    def op(self) -> LoadOp:
        """As the log says it."""
        return _OPS[self]

    @property
    def needs_key(self) -> bool:
        """Whether it finds rows by a primary key."""
        return self in (LoadMode.UPSERT, LoadMode.IGNORE, LoadMode.DELETE)


_OPS = {
    LoadMode.APPEND: LoadOp.INSERT,
    LoadMode.OVERWRITE: LoadOp.INSERT,
    LoadMode.UPSERT: LoadOp.UPSERT,
    LoadMode.IGNORE: LoadOp.IGNORE,
    LoadMode.DELETE: LoadOp.DELETE,
}


@dataclass(frozen=True, slots=True)
class BulkLoad:
    """One load.

    Attributes:
        id: its maker's name for it; nothing is loaded twice under one.
        table: by name.
        table_id: that the table must have; 0: any.
    """

    id: str
    table: str
    mode: LoadMode
    table_id: int = 0

    def __post_init__(self) -> None:
        check_id(self.id)

    def find(self, catalog: Catalog) -> Table:
        """The table. SqlError 42P01 there is none, 55000 another one, 42P10 it does not fit the mode."""
        table = catalog.table_named(self.table)
        if table is None:
            raise SqlError("42P01", f'relation "{self.table}" does not exist', table=self.table)
        if self.table_id not in (0, table.id):
            raise SqlError(
                "55000",
                f'table "{self.table}" was dropped and made again since the load began',
                hint="Begin another load.",
                table=self.table,
            )
        if table.is_routed:
            raise SqlError(
                "0A000",
                f'staged loads into "{self.table}" are not supported: it has, or is, a partition',
                hint="Use COPY or INSERT, or load a table and attach it.",
                table=self.table,
            )
        if self.mode.needs_key and table.has_hidden_key:
            raise SqlError(
                "42P10",
                f'mode {self.mode} finds rows by the primary key, and table "{self.table}" has none',
                table=self.table,
            )
        return table


def check_id(load_id: str) -> None:
    """SqlError 22023 for what is no id of a load."""
    if not 1 <= len(load_id.encode()) <= MAX_ID_BYTES or "\0" in load_id:
        raise SqlError("22023", f"a load's id has 1 to {MAX_ID_BYTES} bytes of UTF-8")


class StagingPlan(NamedTuple):
    """What to stage.

    Attributes:
        table_id: of the table that was found.
        schema: of what is staged; a field that is not nullable has no NULL.
        defaults: one row of those columns that the writers do not have and that are staged nevertheless; None
            when there are none.
    """

    table_id: int
    schema: pa.Schema
    defaults: pa.RecordBatch | None


def staged_schema(table: Table, mode: LoadMode, left_out: Collection[int] = ()) -> pa.Schema:
    """Of what is staged: the columns at ``left_out`` are not."""
    fields = []
    for at in staged_positions(table, keys_only=mode is LoadMode.DELETE):
        if at in left_out:
            continue
        column = table.columns[at]
        kind = arrow_type(table.fields[at], column.type.precision)
        fields.append(pa.field(column.name, kind, nullable=not column.not_null))
    return pa.schema(fields)


def plan_load(catalog: Catalog, load: BulkLoad, columns: Sequence[str], clock: Clock) -> StagingPlan:
    """What writers that have ``columns`` stage.

    Some columns that they do not have are not staged (``may_lack``).

    Raises:
        SqlError: 42P01, 42P10, 55000 as ``BulkLoad.find``; 42703, 42701 a column is not the table's, or
            twice; 22023 a column of the key is missing; 23502 one that is missing has no DEFAULT.
    """
    table = load.find(catalog)
    given = _positions(table, columns)
    staged = staged_positions(table, keys_only=load.mode is LoadMode.DELETE)
    missing = [at for at in staged if at not in given]
    if load.mode in (LoadMode.UPSERT, LoadMode.DELETE):
        _need_key(table, load.mode, missing)
    left_out = [at for at in missing if may_lack(table, load.mode, at)]
    _refuse_nulls(table, missing)
    same = [at for at in missing if at not in left_out]
    defaults = _defaults(table, same, clock) if same else None
    return StagingPlan(table.id, staged_schema(table, load.mode, left_out), defaults)


def may_lack(table: Table, mode: LoadMode, position: int) -> bool:
    """Whether staged rows may lack a column, so that who publishes knows what stands in each of them.

    That is the DEFAULT, where it is another value for each row. An upsert's new rows have it always, for the
    rows that are there keep the value that they have.
    """
    if mode is LoadMode.UPSERT:
        return position not in table.key_positions
    return mode is not LoadMode.DELETE and has_volatile_default(table, position)


def _need_key(table: Table, mode: LoadMode, missing: Sequence[int]) -> None:
    names = [table.columns[at].name for at in missing if at in table.key_positions]
    if names:
        raise SqlError(
            "22023",
            f"mode {mode} needs column {', '.join(names)} of table {table.name}",
            hint="Rows are found by all columns of the primary key.",
            table=table.name,
        )


def _positions(table: Table, columns: Sequence[str]) -> set[int]:
    found: set[int] = set()
    for name in columns:
        at = target_position(table, name, found)
        refuse_generated(table, at)
        found.add(at)
    return found


def _refuse_nulls(table: Table, missing: Sequence[int]) -> None:
    for at in missing:
        column = table.columns[at]
        if default_of(table, at) is None and column.not_null:
            raise SqlError(
                "23502",
                f'null value in column "{column.name}" of relation "{table.name}" '
                "violates not-null constraint",
                detail="The load does not have the column, and it has no DEFAULT.",
                table=table.name,
                column=column.name,
            )


def _defaults(table: Table, missing: Sequence[int], clock: Clock) -> pa.RecordBatch:
    found = LoadRules(table, clock).defaults(missing, 1, 0)
    return pa.RecordBatch.from_arrays(
        [found[at] for at in missing], names=[table.columns[at].name for at in missing]
    )


async def begin_load(session: Session, load: BulkLoad, columns: Sequence[str]) -> StagingPlan | LoadOutcome:
    """What to stage for a load, or what it came to when it was published before.

    Raises:
        SqlError: as ``plan_load``; 25006 another node leads.
    """
    session.checks.take_basis()
    known = session.tablespace.store.load(load.id)
    if known is not None:
        return known
    session.check_writable("a load")
    now = now_us()
    try:
        plan = plan_load(session.catalog, load, columns, Clock(now, now, session.settings.style))
    except SqlError as error:
        await session.checks.durable_definitions(error)
        raise
    await session.checks.durable_definitions()
    await confirm(session)
    return plan


async def may_load(session: Session) -> None:
    """Return when this replica may stage and publish. SqlError 25006 another node leads."""
    session.checks.take_basis()
    session.check_writable("a load")
    await confirm(session)


async def find_load(session: Session, load_id: str) -> LoadOutcome | None:
    """What became of a load; None: it was not published, or so long ago that it is forgotten.

    Raises:
        SqlError: 25006, another node leads, and may know more.
    """
    check_id(load_id)
    session.checks.take_basis()
    known = session.tablespace.store.load(load_id)
    if known is None:
        session.check_writable("a question for a load")
        await confirm(session)
    return known


async def give_up(
    session: Session, load_id: str, remove: Callable[[], Awaitable[None]]
) -> LoadOutcome | None:
    """Have what was staged for a load removed, unless it was published: then, what it came to.

    In a task of the loop. Nobody publishes the load meanwhile; whoever does is waited for.

    Raises:
        SqlError: as :func:`find_load`, or what ``remove`` meets.
    """
    async with session.tablespace.load_turns.turn(load_id, session.waits.until):
        known = await find_load(session, load_id)
        if known is None:
            await remove()
    return known


async def confirm(session: Session) -> None:
    """Return when it is certain that nobody else led when the session's statement began. SqlError."""
    guard = session.tablespace.guard
    if guard is not None:
        await guard.confirm(ReadLevel(), session.checks.basis)
