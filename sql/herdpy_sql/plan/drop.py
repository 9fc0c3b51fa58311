"""DROP TABLE, DROP INDEX and TRUNCATE: names to the tables and indexes that go.

A ``Command`` of the small parser comes in; a plan goes out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdpy_sql.catalog import Index, Table
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.change import TruncatePlan
from herdpy_sql.execute.define import DropIndexPlan, DropTablePlan
from herdpy_sql.plan.scope import find_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from herdpy_sql.catalog import Catalog
    from herdpy_sql.execute.base import Plan
    from herdpy_sql.parse import Command


def drop(command: Command, catalog: Catalog) -> Plan:
    """The plan of DROP TABLE, DROP INDEX or TRUNCATE."""
    names = list(dict.fromkeys(command.names))
    if command.name == "TRUNCATE":
        return TruncatePlan(tuple(find_table(catalog, schema, name) for schema, name in names))
    existing = "IF EXISTS" in command.options
    if command.name == "DROP INDEX":
        return DropIndexPlan(tuple(_indexes(names, catalog, existing=existing)))
    finder: Callable[..., Table] = find_table
    tables = []
    for schema, name in names:
        try:
            tables.append(finder(catalog, schema, name))
        except SqlError as error:
            if error.sqlstate != "42P01":
                raise
            if name in catalog.index_by_name:
                raise SqlError(
                    "42809", f'"{name}" is not a table', hint="Use DROP INDEX to remove an index."
                ) from error
            if not existing:
                raise SqlError("42P01", f'table "{name}" does not exist', table=name) from error
    return DropTablePlan(tuple(tables))


def _indexes(
    names: Sequence[tuple[str | None, str]], catalog: Catalog, *, existing: bool
) -> Iterable[tuple[Table, Index]]:
    for _, name in names:
        index = catalog.index_by_name.get(name)
        if index is None:
            owner = next((t for t in catalog.tables.values() if t.key_name == name), None)
            if owner is not None and not owner.has_hidden_key:
                raise _required(name, owner)
            if existing:
                continue
            if name in catalog.by_name:
                raise SqlError("42809", f'"{name}" is not an index', hint="Use DROP TABLE to remove a table.")
            raise SqlError("42704", f'index "{name}" does not exist')
        table = catalog.tables[index.table_id]
        if index.constraint:
            raise _required(name, table)
        yield table, index


def _required(name: str, table: Table) -> SqlError:
    return SqlError(
        "2BP01",
        f"cannot drop index {name} because constraint {name} on table {table.name} requires it",
    )
