"""Views and the tables that change under them: what a view reads must go on to be what it was.

A view's tables are known by id, and so may be renamed; its columns are known by name, and followed by
``view_renames``. A change that would take a column from under a view, or give it another type, is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import expressions as exp

from herdpy_sql.errors import SqlError
from herdpy_sql.objects import ViewDefinition
from herdpy_sql.parse import parse, split
from herdpy_sql.plan.dropping import carry_out, gather
from herdpy_sql.plan.scope import name_of

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from herdpy_sql.catalog import Catalog, Table
    from herdpy_sql.objects import CatalogObject
    from herdpy_sql.plan.table_change import TableChange
    from herdpy_sql.storage import Clock, View


def views_naming(catalog: Catalog, table: Table | CatalogObject, column: str) -> Iterator[CatalogObject]:
    """The views that read a table and name such a column, of that table or perhaps of another."""
    for one in catalog.objects.values():
        if isinstance(one.definition, ViewDefinition) and table.id in one.definition.uses:
            tree = parse(split(one.definition.query)[0])
            assert isinstance(tree, exp.Expression)
            if any(_names(node, column) for node in tree.find_all(exp.Column, exp.Join)):
                yield one


def _names(node: exp.Expression, column: str) -> bool:
    if isinstance(node, exp.Join):
        using = node.args.get("using") or ()
        return any(name_of(one) == column for one in using) or bool(node.args.get("method"))
    return isinstance(node.this, exp.Identifier) and name_of(node.this) == column


def drop_views(change: TableChange, column: str, *, cascade: bool) -> list[str]:
    """Have the views that read the column dropped with it: which those are, as in the refusal's detail.

    SqlError 2BP01 where that was not asked for.
    """
    catalog, table = change.catalog, change.old
    users = list(views_naming(catalog, table, column))
    reasons = [f"view {one.name} depends on column {column} of table {table.name}" for one in users]
    if users and cascade:
        dropping = gather(users, catalog)

        def drop(view: View, table: Table, clock: Clock) -> Generator[None, None, None]:
            carry_out(view, dropping)
            yield

        change.afterwards.append(drop)
        return reasons + dropping.reasons
    if users:
        raise SqlError(
            "2BP01",
            f"cannot drop column {column} of table {table.name} because other objects depend on it",
            detail="\n".join(reasons),
            hint="Use DROP ... CASCADE to drop the dependent objects too.",
        )
    return reasons


def refuse_retyping(catalog: Catalog, table: Table, column: str) -> None:
    """0A000 when a view reads the column."""
    for one in views_naming(catalog, table, column):
        raise SqlError(
            "0A000",
            "cannot alter type of a column used by a view or rule",
            detail=f'rule _RETURN on view {one.name} depends on column "{column}"',
        )
