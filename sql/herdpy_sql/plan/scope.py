"""Names: which table a FROM item is, which column a name in an expression is.

While a statement is bound, columns are numbered in one wide row: the physical columns of the first table,
then those of the second, and so on. When it is known which of them are needed, the planner renumbers
the expressions to the narrow rows that plans run on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlglot import expressions as exp

from herdpy_sql.errors import SqlError
from herdpy_sql.expr import NotOwn
from herdpy_sql.expr.nodes import ColumnRef

if TYPE_CHECKING:
    from herdpy_sql.catalog import Catalog, ColumnOrigin, Table

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


def find_table(catalog: Catalog, schema: str | None, name: str) -> Table:
    """The table of that name; SqlError 42P01, or 42501 for one of the system's."""
    table = catalog.by_name.get(name) if schema in {None, PUBLIC} else None
    if table is None:
        from herdpy_sql.system import find_relation  # loads DuckDB, which most statements do not need

        if find_relation(schema, name) is not None:
            raise SqlError("42501", f'permission denied: "{name}" is a system catalog', table=name)
        shown = f"{schema}.{name}" if schema else name
        raise SqlError("42P01", f'relation "{shown}" does not exist', table=name)
    return table


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
class Item:
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
class TableScope:
    """The scope of expressions over the tables of FROM (herdpy_sql.expr's ``Scope``).

    ``merged`` names the columns that USING joined: unqualified, they are the first table's.
    """

    items: list[Item] = field(default_factory=list)
    merged: dict[str, ColumnRef] = field(default_factory=dict)
    volatile: bool = False

    def add(self, alias: str, table: Table, *, outer: bool = False) -> Item:
        """Add a FROM item; SqlError 42712 when the name is taken."""
        if any(item.alias == alias for item in self.items):
            raise SqlError("42712", f'table name "{alias}" specified more than once')
        item = Item(alias, table, self.items[-1].end if self.items else 0, outer)
        self.items.append(item)
        return item

    def resolve(self, table: str | None, name: str) -> ColumnRef:
        """The column meant; SqlError 42703, 42702 (ambiguous) or 42P01 (no such table in FROM)."""
        if table is not None:
            for item in self.items:
                if item.alias == table:
                    position = item.table.positions.get(name)
                    if position is None:
                        raise SqlError("42703", f"column {table}.{name} does not exist", column=name)
                    return item.column(position)
            raise SqlError("42P01", f'missing FROM-clause entry for table "{table}"', table=table)
        if name in self.merged:
            return self.merged[name]
        found = [item for item in self.items if name in item.table.positions]
        if not found:
            raise SqlError("42703", f'column "{name}" does not exist', column=name)
        if len(found) > 1:
            raise SqlError("42702", f'column reference "{name}" is ambiguous', column=name)
        return found[0].column(found[0].table.positions[name])

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
