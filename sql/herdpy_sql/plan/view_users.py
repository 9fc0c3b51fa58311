"""Views and the tables that change under them: what a view reads must go on to be what it was.

A view's tables are known by id, and so may be renamed. Its columns are known by name: when one is renamed,
the queries of the views follow. A SELECT over that relation alone has its columns renamed. Anywhere else the
relation gives way to a SELECT of its own that shows it under the names that it had, so that nothing around
it can mean something else. A change that would take a column from under a view, or give it another type, is
refused.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec.structs import replace as changed
from sqlglot import expressions as exp

from herdpy_sql.errors import SqlError
from herdpy_sql.objects import ViewDefinition
from herdpy_sql.parse import parse, split
from herdpy_sql.plan.dropping import carry_out, gather
from herdpy_sql.plan.scope import name_of

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from herdpy_sql.catalog import Catalog, Table
    from herdpy_sql.objects import CatalogObject
    from herdpy_sql.plan.table_change import TableChange
    from herdpy_sql.storage import Clock, View

BY_ID = "#"
"""The schema of names that are ids, in the queries of views."""


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


def _column(name: str) -> exp.Column:
    return exp.Column(this=_quoted(name))


def _quoted(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=True)
