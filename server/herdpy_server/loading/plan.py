"""What the writers of a load are to stage. Above ``load``; pure but for the clock that is passed in."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from herdpy.codec.arrow import arrow_type
from herdpy_server.loading.load import BulkLoad, LoadMode
from herdpy_server.sessions.bulk import LoadRules
from herdpy_sql.errors import SqlError
from herdpy_sql.plan.assignment import refuse_generated
from herdpy_sql.plan.rules import default_of, has_volatile_default
from herdpy_sql.staged import staged_positions

if TYPE_CHECKING:
    from herdpy_sql.catalog import Catalog, Table
    from herdpy_sql.storage import Clock


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

    A column that they do not have and whose DEFAULT is another value in each row is not staged: who publishes
    evaluates it.

    Raises:
        SqlError: 42P01, 42P10, 55000 as ``BulkLoad.find``; 42703, 42701 a column is not the table's, or
            twice; 22023 the mode needs one that is missing; 23502 one that is missing has no DEFAULT.
    """
    table = load.find(catalog)
    given = _positions(table, columns)
    staged = staged_positions(table, keys_only=load.mode is LoadMode.DELETE)
    missing = [at for at in staged if at not in given]
    if missing and load.mode in (LoadMode.UPSERT, LoadMode.DELETE):
        names = ", ".join(table.columns[at].name for at in missing)
        raise SqlError(
            "22023",
            f"mode {load.mode} needs column {names} of table {table.name}",
            hint="An upsert replaces whole rows: what is not given would be lost."
            if load.mode is LoadMode.UPSERT
            else "Rows to delete are found by all columns of the primary key.",
            table=table.name,
        )
    left_out = [at for at in missing if has_volatile_default(table, at)]
    same = [at for at in missing if at not in left_out]
    defaults = _defaults(table, same, clock) if same else None
    return StagingPlan(table.id, staged_schema(table, load.mode, left_out), defaults)


def _positions(table: Table, columns: Sequence[str]) -> set[int]:
    found: set[int] = set()
    for name in columns:
        at = table.positions.get(name)
        if at is None or table.columns[at].hidden:
            raise SqlError(
                "42703",
                f'column "{name}" of relation "{table.name}" does not exist',
                table=table.name,
                column=name,
            )
        refuse_generated(table, at)
        if at in found:
            raise SqlError("42701", f'column "{name}" specified more than once', column=name)
        found.add(at)
    return found


def _defaults(table: Table, missing: Sequence[int], clock: Clock) -> pa.RecordBatch:
    rules = LoadRules(table, clock)
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
    found = rules.defaults(missing, 1, 0)
    return pa.RecordBatch.from_arrays(
        [found[at] for at in missing], names=[table.columns[at].name for at in missing]
    )
