"""Names: which table a FROM item is, which column a name in an expression is.

While a statement is bound, columns are numbered in one wide row: the physical columns of the first table,
then those of the second, and so on. When it is known which of them are needed, the planner renumbers
the expressions to the narrow rows that plans run on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlglot import expressions as exp

from herdpy_sql.catalog import Index, Table
from herdpy_sql.errors import SqlError
from herdpy_sql.expr import NoQueries
from herdpy_sql.expr.nodes import ColumnRef, Unread
from herdpy_sql.misspellings import missing_column, missing_relation
from herdpy_sql.plan.own import NotOwn
from herdpy_sql.system_relations import find_relation

if TYPE_CHECKING:
    from herdpy_sql.catalog import Catalog, ColumnOrigin
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
    return find_table(catalog, name_of(database) if database else None, name_of(node.this))


def alias_of(node: exp.Table, table: Table) -> str:
    """The name by which a FROM item is referred to."""
    alias = node.args.get("alias")
    if alias is None:
        return table.name
    if alias.args.get("columns"):
        raise NotOwn("column aliases in FROM")
    return name_of(alias.this)


@dataclass(frozen=True, slots=True)
class ScopeItem:
    """A table in FROM: its columns are numbered from ``base`` in the wide row."""

    alias: str
    table: Table
    base: int
    outer: bool = False  # the inner side of a left join: all its columns may be NULL

    @property
    def end(self) -> int:
        """One past the number of its last column."""
        return self.base + len(self.table.columns)

    def column(self, position: int) -> ColumnRef:
        """The reference to its column at ``position``."""
        found = self.table.columns[position]
        return ColumnRef(
            found.type,
            self.base + position,
            found.name,
            self.alias,
            nullable=self.outer or not found.not_null,
        )


@dataclass
class TableScope(NoQueries):
    """The scope of expressions over the tables of FROM (herdpy_sql.expr's ``Scope``).

    ``merged`` names the columns that USING joined: unqualified, they are the first table's.
    """

    items: list[ScopeItem] = field(default_factory=list)
    merged: dict[str, ColumnRef] = field(default_factory=dict)
    volatile: bool = False

    def add(self, alias: str, table: Table, *, outer: bool = False) -> ScopeItem:
        """Add a FROM item; SqlError 42712 when the name is taken."""
        if any(item.alias == alias for item in self.items):
            raise SqlError("42712", f'table name "{alias}" specified more than once')
        item = ScopeItem(alias, table, self.items[-1].end if self.items else 0, outer)
        self.items.append(item)
        return item

    def resolve(self, table: str | None, name: str) -> ColumnRef:
        """The column meant; SqlError 42703, 42702 (ambiguous) or 42P01 (no such table in FROM)."""
        if table is not None:
            for item in self.items:
                if item.alias == table:
                    position = item.table.positions.get(name)
                    if position is None:
                        raise missing_column(table, name, self._known())
                    return item.column(position)
            raise missing_relation(table, [(item.alias, item.table.name) for item in self.items])
        if name in self.merged:
            return self.merged[name]
        found = [item for item in self.items if name in item.table.positions]
        if not found:
            if any(item.alias == name for item in self.items):
                raise Unread(f'the rows of "{name}" as values')
            raise missing_column(None, name, self._known())
        if len(found) > 1:
            raise SqlError("42702", f'column reference "{name}" is ambiguous', column=name)
        return found[0].column(found[0].table.positions[name])

    def _known(self) -> list[tuple[str, str]]:
        """(relation, column) of all that can be named."""
        return [
            (item.alias, item.table.columns[position].name)
            for item in self.items
            for position in item.table.visible
        ]

    def origin(self, number: int) -> ColumnOrigin | None:
        """The column of a table that has this number in the wide row."""
        for item in self.items:
            if item.base <= number < item.end:
                return item.table.origin(number - item.base)
        return None

    def star(self, alias: str | None) -> list[ColumnRef]:
        """What ``*`` or ``alias.*`` stands for."""
        if alias is not None:
            for item in self.items:
                if item.alias == alias:
                    return [item.column(position) for position in item.table.visible]
            raise SqlError("42P01", f'missing FROM-clause entry for table "{alias}"', table=alias)
        if not self.items:
            raise SqlError("42601", "SELECT * with no tables specified is not valid")
        columns = list(self.merged.values())
        for item in self.items:
            columns += [
                item.column(position)
                for position in item.table.visible
                if item.table.columns[position].name not in self.merged
            ]
        return columns


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
