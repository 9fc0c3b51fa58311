"""Views: their queries kept as text, and put in for their names before a statement is planned.

In the text a table or view is named by its id ("#"."16390"), so that neither another search_path nor another
name of the table changes what is meant; stars are written out. Both engines plan what comes out of here as
if the view's query had been written as a subquery.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import expressions as exp

from herdpy_sql.catalog import Table
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.define import duplicate
from herdpy_sql.execute.objects import DefinePlan
from herdpy_sql.objects import VIEW, CatalogObject, ViewDefinition
from herdpy_sql.parse import parse, split
from herdpy_sql.plan.alter_view import alter_view
from herdpy_sql.plan.dropping import drop_plan
from herdpy_sql.plan.namespace import checked_name, not_there, object_of, target_schema
from herdpy_sql.plan.qualified import settle_qualified
from herdpy_sql.plan.remarks import absent_relation
from herdpy_sql.plan.scope import name_of
from herdpy_sql.plan.type_names import mark_types, shorten_types, types_by_id, types_by_name
from herdpy_sql.plan.view_renames import BY_ID
from herdpy_sql.quoting import quote_ident
from herdpy_sql.types import SqlType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from herdpy_sql.catalog import Catalog
    from herdpy_sql.execute.base import OutputColumn, Plan
    from herdpy_sql.parse.object_commands import ObjectCommand
    from herdpy_sql.storage import View

    Planned = Callable[[exp.Expression], Plan]

_DEEPEST = 32


def definition_of(one: CatalogObject) -> ViewDefinition:
    """The definition of a view."""
    assert isinstance(one.definition, ViewDefinition)
    return one.definition


def has_views(catalog: Catalog) -> bool:
    """Whether there is any view; kept with the catalog."""
    found = catalog.derived.get("has views")
    if found is None:
        found = any(one.kind == "view" for one in catalog.objects.values())
        catalog.derived["has views"] = found
    return bool(found)


# --- putting queries in for names --------------------------------------------------------------------------


def expand(tree: exp.Expression, catalog: Catalog, depth: int = 0) -> exp.Expression:
    """The statement with the query of each view in the view's place; ``tree`` itself is changed."""
    if depth > _DEEPEST:
        raise SqlError("54001", "views are nested too deeply")
    for node in list(tree.find_all(exp.Table)):
        view = view_named(node, catalog)
        if view is None or is_target(node) or _is_common(node):
            continue
        inner = expand(view_query(view, catalog), catalog, depth + 1)
        alias = node.args.get("alias")
        listed = [exp.to_identifier(name, quoted=True) for name, _type in definition_of(view).columns]
        given = list(alias.args.get("columns") or ()) if alias is not None else []
        name = alias.this if alias is not None else exp.to_identifier(view.name, quoted=True)
        subquery = exp.Subquery(
            this=inner, alias=exp.TableAlias(this=name, columns=[*given, *listed[len(given) :]])
        )
        subquery.meta[VIEW] = view.oid
        if node.args.get("joins"):
            subquery.set("joins", node.args["joins"])
        if node is tree:
            return subquery
        node.replace(subquery)
    return tree


def view_named(node: exp.Table, catalog: Catalog) -> CatalogObject | None:
    """The view that a FROM item names; None for anything else."""
    if not isinstance(node.this, exp.Identifier):
        return None
    schema = node.args.get("db")
    found = catalog.find(None if schema is None else name_of(schema), name_of(node.this))
    return found if isinstance(found, CatalogObject) and found.kind == "view" else None


def is_target(node: exp.Table) -> bool:
    """Whether a table's name is what a statement writes to."""
    parent = node.parent
    if isinstance(parent, exp.Schema):
        node, parent = parent, parent.parent  # type: ignore[assignment]
    if not isinstance(parent, exp.Insert | exp.Update | exp.Delete | exp.Merge | exp.Create):
        return False
    return parent.args.get("this") is node


def _is_common(node: exp.Table) -> bool:
    """Whether a name without a schema is that of a query in a WITH around it."""
    if node.args.get("db") is not None:
        return False
    name = name_of(node.this)
    above: exp.Expr | None = node
    while above is not None:
        given = above.args.get("with_")
        if given is not None and any(one.alias.lower() == name.lower() for one in given.expressions):
            return True
        above = above.parent
    return False


def view_query(view: CatalogObject, catalog: Catalog) -> exp.Expression:
    """The query of a view, its tables by the names that they have now."""
    tree = parse(split(definition_of(view).query)[0])
    assert isinstance(tree, exp.Expression)
    for node in tree.find_all(exp.Table):
        schema = node.args.get("db")
        if schema is not None and str(schema.this) == BY_ID:
            number = int(node.name)
            one: Table | CatalogObject | None = catalog.tables.get(number) or catalog.objects.get(number)
            if one is None:
                raise SqlError("42P01", f"relation with OID {number} does not exist")
            node.set("this", exp.to_identifier(one.name, quoted=True))
            node.set("db", exp.to_identifier(one.schema, quoted=True))
            if node.args.get("alias") is None:
                node.set("alias", exp.TableAlias(this=exp.to_identifier(one.name, quoted=True)))
    types_by_name(tree, catalog)
    return tree


def view_text(view: CatalogObject, catalog: Catalog) -> str:
    """The query of a view as SQL, for people."""
    tree = view_query(view, catalog)
    for node in tree.find_all(exp.Table):
        schema = node.args.get("db")
        if schema is not None and name_of(schema) in catalog.path:
            node.set("db", None)
        alias = node.args.get("alias")
        if alias is not None and alias.name == node.name and not alias.args.get("columns"):
            node.set("alias", None)
    shorten_types(tree, catalog)
    for name in tree.find_all(exp.Identifier):
        if str(name.this).isidentifier() and str(name.this).islower():
            name.set("quoted", False)
    return tree.sql("postgres", pretty=True)


# --- definitions -------------------------------------------------------------------------------------------


def plan(command: ObjectCommand, catalog: Catalog, planned: Planned) -> Plan:
    """The plan of a statement about views; ``planned`` plans a query."""
    if command.name == "CREATE VIEW":
        return _create(command, catalog, planned)
    if command.name == "ALTER VIEW":
        return alter_view(command, catalog)
    found, skipped = [], []
    for schema, name in dict.fromkeys(command.names):
        one = object_of(catalog, "view", schema, name)
        if one is not None:
            found.append(one)
        elif "IF EXISTS" not in command.options:
            raise not_there("view", schema, name)
        else:
            skipped.append(absent_relation(catalog, "view", schema, name))
    return drop_plan(command.name, found, catalog, cascade="CASCADE" in command.options, skipped=skipped)


def _create(command: ObjectCommand, catalog: Catalog, planned: Planned) -> Plan:
    if "TEMPORARY" in command.options:
        raise SqlError("0A000", "temporary views are not supported")
    assert command.query is not None
    ((schema, name),) = command.names
    schema = target_schema(catalog, schema, checked_name(name))
    tree = parse(command.query)
    if not isinstance(tree, exp.Query | exp.Values):
        raise SqlError("42601", "syntax error in CREATE VIEW")
    if tree.find(exp.Parameter):
        raise SqlError("42P02", "there is no parameter $1")
    if isinstance(tree, exp.Select) and tree.args.get("into"):
        raise SqlError("0A000", "views must not contain SELECT INTO")
    settle_qualified(tree, catalog)
    whole = expand(tree.copy(), catalog)
    mark_types(whole, catalog)
    query = planned(whole)
    columns = _columns(query.columns or (), command.columns)
    write_out_stars(tree, catalog)
    uses = (*_by_id(tree, catalog), *types_by_id(tree, catalog))
    check = next((option.split()[1] for option in command.options if option.startswith("CHECK")), "")
    definition = ViewDefinition(tree.sql("postgres"), columns, uses, check)
    if check:
        from herdpy_sql.plan.view_targets import check_option

        check_option(view_query(CatalogObject(0, schema, name, definition), catalog), catalog)
    there = catalog.relations.get((schema, name))
    if there is None:
        return DefinePlan(command.name, name, lambda view: _make(view, schema, name, definition))
    if "OR REPLACE" not in command.options:
        raise duplicate(name)
    if not isinstance(there, CatalogObject) or there.kind != "view":
        raise SqlError("42809", f'"{name}" is not a view')
    _check_replaced(definition_of(there).columns, columns)
    if there.id in uses:
        raise SqlError("42P17", f'infinite recursion detected in rules for relation "{name}"')
    replaced = replace(there, definition=definition)
    return DefinePlan(command.name, name, lambda view: view.put_object(replaced))


def _make(view: View, schema: str, name: str, definition: ViewDefinition) -> None:
    if view.catalog.is_taken(schema, name):
        raise duplicate(name)
    view.put_object(CatalogObject(view.next_id, schema, name, definition))


def _columns(found: tuple[OutputColumn, ...], named: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    if len(named) > len(found):
        raise SqlError("42601", "CREATE VIEW specifies more column names than columns")
    names = [*named, *(column.name for column in found[len(named) :])]
    for i, name in enumerate(names):
        if name in names[:i]:
            raise SqlError("42701", f'column "{name}" specified more than once', column=name)
    types = [_type_text(column.type) if column.type.base.value != "unknown" else "text" for column in found]
    return tuple(zip(names, types, strict=True))


def _type_text(one: SqlType) -> str:
    """A type as a view's definition has it: an ENUM always with its schema."""
    if one.enum is None:
        return str(one)
    name = f"{quote_ident(one.enum.schema)}.{quote_ident(one.enum.name)}"
    return name + "[]" * (one.dimensions if one.element is not None else 0)


def _check_replaced(before: tuple[tuple[str, str], ...], after: tuple[tuple[str, str], ...]) -> None:
    if len(after) < len(before):
        raise SqlError("42P16", "cannot drop columns from view")
    for (old, old_type), (new, new_type) in zip(before, after, strict=False):
        if old != new:
            raise SqlError(
                "42P16",
                f'cannot change name of view column "{old}" to "{new}"',
                hint="Use ALTER VIEW ... RENAME COLUMN ... to change name of view column instead.",
            )
        if old_type != new_type:
            raise SqlError(
                "42P16", f'cannot change data type of view column "{old}" from {old_type} to {new_type}'
            )


def _by_id(tree: exp.Expression, catalog: Catalog) -> tuple[int, ...]:
    """Have the query name what it reads by ids; which these are."""
    uses: list[int] = []
    for node in list(tree.find_all(exp.Table)):
        if not isinstance(node.this, exp.Identifier) or _is_common(node):
            continue
        schema, name = node.args.get("db"), name_of(node.this)
        found = catalog.find(None if schema is None else name_of(schema), name)
        if not isinstance(found, Table | CatalogObject):
            continue
        uses.append(found.id)
        if node.args.get("alias") is None:
            node.set("alias", exp.TableAlias(this=exp.to_identifier(name, quoted=True)))
        node.set("this", exp.to_identifier(str(found.id), quoted=True))
        node.set("db", exp.to_identifier(BY_ID, quoted=True))
    return tuple(dict.fromkeys(uses))


def write_out_stars(tree: exp.Expression, catalog: Catalog) -> None:
    """Replace * and t.* by the columns that they stand for now, wherever all of FROM is plain."""
    for select in tree.find_all(exp.Select):
        items = list(_from_items(select))
        known = {alias: names for alias, names in ((a, _item_columns(n, catalog)) for a, n in items) if names}
        using = any(
            join.args.get("using") or join.args.get("method") for join in select.args.get("joins") or ()
        )
        outputs: list[exp.Expression] = []
        for node in select.expressions:
            if (
                isinstance(node, exp.Star)
                and not using
                and len(known) == len(items)
                and not any(node.args.values())
            ):
                for alias, names in known.items():
                    outputs += [_column(alias, name) for name in names]
            elif isinstance(node, exp.Column) and isinstance(node.this, exp.Star) and node.table in known:
                outputs += [_column(node.table, name) for name in known[node.table]]
            else:
                outputs.append(node)
        select.set("expressions", outputs)


def _column(table: str, name: str) -> exp.Column:
    return exp.Column(this=exp.to_identifier(name, quoted=True), table=exp.to_identifier(table, quoted=True))


def _from_items(select: exp.Select) -> Iterator[tuple[str, exp.Expression]]:
    source = select.args.get("from_")
    nodes = [] if source is None else [source.this]
    nodes += [join.this for join in select.args.get("joins") or ()]
    for node in nodes:
        alias = node.args.get("alias")
        named = alias.this if alias is not None else node.this if isinstance(node, exp.Table) else None
        yield (name_of(named) if isinstance(named, exp.Identifier) else "", node)


def _item_columns(node: exp.Expression, catalog: Catalog) -> list[str]:
    """The names of a FROM item's columns; none where they are not plain."""
    alias = node.args.get("alias")
    if (
        not isinstance(node, exp.Table)
        or (alias is not None and alias.args.get("columns"))
        or _is_common(node)
    ):
        return []
    view = view_named(node, catalog)
    if view is not None:
        return [name for name, _type in definition_of(view).columns]
    if not isinstance(node.this, exp.Identifier):
        return []
    schema = node.args.get("db")
    found = catalog.find(None if schema is None else name_of(schema), name_of(node.this))
    return [found.columns[p].name for p in found.visible] if isinstance(found, Table) else []
