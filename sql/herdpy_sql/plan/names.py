"""Names of what is defined: checked, and made up as PostgreSQL makes them (t_a_b_key, t_a_b_key1 ...).

Identifiers of CREATE come in; names of at most 63 bytes that nothing else has go out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import expressions as exp

from herdpy_sql.errors import SqlError
from herdpy_sql.execute.define import duplicate
from herdpy_sql.plan.namespace import checked_name, target_schema, temporary_schema
from herdpy_sql.plan.scope import PUBLIC, name_of
from herdpy_sql.sequences import fresh_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from herdpy_sql.catalog import Catalog


def new_name(node: exp.Expression, catalog: Catalog, *, temporary: bool = False) -> tuple[str, str]:
    """The schema and name of what is created."""
    if not isinstance(node, exp.Table):
        raise SqlError("42601", "syntax error: a table name was expected")
    database = node.args.get("db")
    name = checked_name(name_of(node.this))
    schema = None if database is None else name_of(database)
    if temporary or schema == "pg_temp":
        if schema not in {None, "pg_temp"}:
            raise SqlError("42P16", "cannot create temporary relation in non-temporary schema")
        return temporary_schema(catalog), name
    return target_schema(catalog, schema, name), name


def on_commit(tree: exp.Expression, *, temporary: bool) -> str:
    """What ON COMMIT says becomes of a temporary table: "DROP", "DELETE", or "" where it stays."""
    found = str(tree.args.get("on_commit") or "")
    if found and not temporary:
        raise SqlError("42P16", "ON COMMIT can only be used on temporary tables")
    return "" if found == "PRESERVE" else found


def refuse_repeated(names: Sequence[str]) -> None:
    """SqlError 42P07 for a name given twice."""
    for i, name in enumerate(names):
        if name in names[:i]:
            raise duplicate(name)


__all__ = ["FreshNames", "checked_name", "fresh_name", "new_name", "on_commit", "refuse_repeated"]


class FreshNames:
    """Fresh names of constraints and indexes: t_a_b_key, t_a_b_key1 ..."""

    def __init__(self, table: str, catalog: Catalog, schema: str = PUBLIC) -> None:
        self.table = table
        self.taken = {table, *(name for one, name in catalog.relations if one == schema)}
        self.taken |= {table.key_name for table in catalog.tables.values() if table.schema == schema}

    def new(self, columns: Sequence[str], suffix: str) -> str:
        """A name for these columns, taken from now on."""
        found = fresh_name(self.table, columns, suffix, self.taken)
        self.taken.add(found)
        return found
