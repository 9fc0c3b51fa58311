"""Columns that get another name: the queries of the views that read them follow.

A SELECT over that relation alone has its columns renamed. Anywhere else the relation gives way to a SELECT
of its own that shows it under the names that it had, so that nothing around it can mean something else.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec.structs import replace as changed
from sqlglot import expressions as exp

from herdpy_sql.objects import ViewDefinition
from herdpy_sql.parse import parse, split
from herdpy_sql.plan.scope import name_of
from herdpy_sql.plan.view_users import views_naming

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from herdpy_sql.catalog import Catalog, Table
    from herdpy_sql.objects import CatalogObject
    from herdpy_sql.plan.table_change import TableChange
    from herdpy_sql.storage import Clock, View

BY_ID = "#"
"""The schema of names that are ids, in the queries of views."""


def rename_in_views(change: TableChange, old: str, new: str) -> None:
    """Have the views that read a column follow once it has its new name."""
    table = change.old
    columns = [table.columns[position].name for position in table.visible]
    moved = renamed_views(change.catalog, table, columns, old, new)

    def put(view: View, table: Table, clock: Clock) -> Generator[None, None, None]:
        for one in moved:
            view.put_object(one)
        yield

    if moved:
        change.afterwards.append(put)


def renamed_views(
    catalog: Catalog, relation: Table | CatalogObject, columns: Sequence[str], old: str, new: str
) -> list[CatalogObject]:
    """The views that read a column of a relation with these columns, with queries that name it anew."""
    found = []
    for one in views_naming(catalog, relation, old):
        definition = one.definition
        assert isinstance(definition, ViewDefinition)
        tree = parse(split(definition.query)[0])
        assert isinstance(tree, exp.Expression)
        for node in list(tree.find_all(exp.Table)):
            schema = node.args.get("db")
            if schema is not None and str(schema.this) == BY_ID and node.name == str(relation.id):
                _follow(node, columns, old, new)
        found.append(replace(one, definition=changed(definition, query=tree.sql("postgres"))))
    return found


def _follow(node: exp.Table, columns: Sequence[str], old: str, new: str) -> None:
    select = node.find_ancestor(exp.Select)
    if select is not None and _is_alone(select, node):
        _rename_within(select, old, new)
        return
    alias = node.args["alias"].copy()
    inner = exp.Table(this=node.this.copy(), db=node.args["db"].copy())
    inner.set("alias", exp.TableAlias(this=alias.this.copy()))
    items = [
        exp.Alias(this=_column(new), alias=_quoted(old)) if name == old else _column(name) for name in columns
    ]
    derived = exp.Subquery(this=exp.Select(expressions=items, from_=exp.From(this=inner)), alias=alias)
    for key in ("joins", "laterals"):
        if node.args.get(key):
            derived.set(key, node.args[key])
    node.replace(derived)


def _is_alone(select: exp.Select, node: exp.Table) -> bool:
    """Whether every name in a SELECT is one of that relation's columns, or one that the SELECT gives."""
    source = select.args.get("from_")
    if source is None or source.this is not node or node.args["alias"].args.get("columns"):
        return False
    if select.args.get("joins") or node.args.get("joins") or select.args.get("laterals"):
        return False
    if any(one is not select for one in select.find_all(exp.Query)):
        return False
    nested = select.find_ancestor(exp.Query) is not None
    return not nested or {key for key, value in select.args.items() if value} <= {"expressions", "from_"}


def _rename_within(select: exp.Select, old: str, new: str) -> None:
    given = {one.alias for one in select.expressions if isinstance(one, exp.Alias)}
    items = []
    for one in select.expressions:
        plain = isinstance(one, exp.Column) and _names(one, old)
        items.append(exp.Alias(this=one.copy(), alias=_quoted(old)) if plain else one)
    select.set("expressions", items)
    for node in list(select.find_all(exp.Column)):
        if _names(node, old) and not (old in given and _is_output(node)):
            node.set("this", _quoted(new))


def _is_output(node: exp.Column) -> bool:
    """Whether a name in ORDER BY or GROUP BY means what the SELECT calls so."""
    parent = node.parent
    ordered = isinstance(parent, exp.Ordered) and isinstance(parent.parent, exp.Order)
    return not node.table and ordered


def _names(node: exp.Column, name: str) -> bool:
    return isinstance(node.this, exp.Identifier) and name_of(node.this) == name


def _column(name: str) -> exp.Column:
    return exp.Column(this=_quoted(name))


def _quoted(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=True)
