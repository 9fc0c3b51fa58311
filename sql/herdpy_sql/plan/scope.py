"""Names of tables: which one a FROM item or the target of a statement is.

What the names of columns mean is ``expr.scope``'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import expressions as exp

from herdpy_sql.catalog import Index, Table
from herdpy_sql.errors import SqlError
from herdpy_sql.system_relations import find_relation

if TYPE_CHECKING:
    from herdpy_sql.catalog import Catalog
    from herdpy_sql.objects import CatalogObject


PUBLIC = "public"


def name_of(node: exp.Expression | None) -> str:
    """An identifier's name, folded to lower case unless it was quoted."""
    if isinstance(node, exp.Identifier):
        return str(node.this) if node.args.get("quoted") else str(node.this).lower()
    if isinstance(node, exp.Var):
        return str(node.this).lower()
    raise SqlError(
        "42601", f"syntax error: a name was expected, not {node.sql('postgres') if node else 'nothing'}"
    )


def quoted(name: str) -> exp.Identifier:
    """A name as it is, for a query that is made here."""
    return exp.to_identifier(name, quoted=True)


def find_table(catalog: Catalog, schema: str | None, name: str) -> Table:
    """The table of that name; SqlError 42P01, or 42501 for one of the system's."""
    table = catalog.find(schema, name)
    if not isinstance(table, Table):
        if find_relation(schema, name) is not None:
            raise SqlError("42501", f'permission denied: "{name}" is a system catalog', table=name)
        if table is not None:
            raise no_table(name, table)
        shown = f"{schema}.{name}" if schema else name
        raise SqlError("42P01", f'relation "{shown}" does not exist', table=name)
    return table


def no_table(name: str, found: Index | CatalogObject) -> SqlError:
    """The error where an index, a sequence or a view is taken for a table."""
    if isinstance(found, Index):
        return SqlError(
            "42809",
            f'cannot open relation "{name}"',
            detail="This operation is not supported for indexes.",
        )
    if found.kind == "view":
        return SqlError(
            "55000",
            f'cannot change view "{name}"',
            detail="Views are not updatable.",
            hint="Change the tables that the view reads.",
        )
    return SqlError("42809", f'"{name}" is not a table', table=name)


def table_of(catalog: Catalog, node: exp.Expression | None) -> Table:
    """The table that a target or FROM item names; as :func:`find_table`."""
    if isinstance(node, exp.Schema):
        node = node.this
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
        raise SqlError("42601", "syntax error: a table name was expected")
    if node.args.get("catalog"):
        raise SqlError("0A000", "cross-database references are not implemented")
    database = node.args.get("db")
    found = find_table(catalog, name_of(database) if database else None, name_of(node.this))
    if node.args.get("only") and found.partition_key is not None:
        raise SqlError("0A000", "ONLY of a partitioned table is not supported", table=found.name)
    return found


def own_tables(catalog: Catalog) -> list[Table]:
    """The tables that are no other session's."""
    return [table for table in catalog.tables.values() if not catalog.is_others(table.schema)]


def in_schema(target: exp.Expression, table: Table) -> exp.Expression:
    """The target for a query, with its schema: no WITH query is meant."""
    found = target.copy()
    if found.args.get("db") is None:
        found.set("db", quoted(table.schema))
    return found


def row_columns(table: Table, alias: str) -> list[exp.Expression]:
    """All live physical columns of a table, hidden ones too, for a query."""
    return [
        exp.column(quoted(column.name), table=quoted(alias)) for column in table.columns if not column.dropped
    ]
