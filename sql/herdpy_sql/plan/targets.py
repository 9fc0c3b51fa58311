"""The table that a statement writes to or locks, in a query that finds its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import expressions as exp

if TYPE_CHECKING:
    from herdpy_sql.catalog import Table


def in_schema(target: exp.Expression, table: Table) -> exp.Expression:
    """The target for a query, with its schema: no WITH query is meant."""
    found = target.copy()
    if found.args.get("db") is None:
        found.set("db", exp.to_identifier(table.schema, quoted=True))
    return found


def row_columns(table: Table, alias: str) -> list[exp.Expression]:
    """All live physical columns of a table, hidden ones too, for a query."""
    return [
        exp.column(exp.to_identifier(column.name, quoted=True), table=exp.to_identifier(alias, quoted=True))
        for column in table.columns
        if not column.dropped
    ]
