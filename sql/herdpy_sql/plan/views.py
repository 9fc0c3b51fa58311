"""Views: their queries kept as text, and put in for their names before a statement is planned.

Below ``view_targets`` (writing to a view) and ``define_view`` (CREATE, ALTER and DROP VIEW).

In the text a table or view is named by its id ("#"."16390"), so that neither another search_path nor another
name of the table changes what is meant; stars are written out. Both engines plan what comes out of here as
if the view's query had been written as a subquery.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import expressions as exp

from herdpy_sql.catalog import Table
from herdpy_sql.errors import SqlError
from herdpy_sql.objects import VIEW, CatalogObject, ViewDefinition
from herdpy_sql.parse import parse, split
from herdpy_sql.plan.scope import name_of
from herdpy_sql.plan.type_names import shorten_types, types_by_name
from herdpy_sql.plan.view_users import BY_ID

if TYPE_CHECKING:
    from herdpy_sql.catalog import Catalog

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


def expand(tree: exp.Expression, catalog: Catalog, depth: int = 0) -> exp.Expression:
    """The statement with the query of each view in the view's place; ``tree`` itself is changed."""
    if depth > _DEEPEST:
        raise SqlError("54001", "views are nested too deeply")
    for node in list(tree.find_all(exp.Table)):
        view = view_named(node, catalog)
        if view is None or is_target(node) or is_cte(node):
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


def is_cte(node: exp.Table) -> bool:
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
