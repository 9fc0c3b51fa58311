"""Views that are written to: what is said of a view of plain columns of one table is said of the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import expressions as exp

from herdpy_sql.catalog import Table
from herdpy_sql.errors import SqlError
from herdpy_sql.plan.rules import bind_check
from herdpy_sql.plan.scope import name_of
from herdpy_sql.plan.views import definition_of, view_named, view_query

if TYPE_CHECKING:
    from herdpy_sql.catalog import Catalog
    from herdpy_sql.objects import CatalogObject

_SIMPLE = {"expressions", "from_", "where"}


def through_view(tree: exp.Expression, catalog: Catalog) -> exp.Expression:
    """The statement about the table of the view that it names; as it is where that is not such a view.

    SqlError 42703 for what is no column of the view, 0A000 for a statement that is about more than the view.
    """
    if not isinstance(tree, exp.Insert | exp.Update | exp.Delete):
        return tree
    target = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
    view = view_named(target, catalog) if isinstance(target, exp.Table) else None
    query = None if view is None else view_query(view, catalog)
    if view is None or query is None or not _is_simple(query, catalog):
        return tree
    names = [name for name, _type in definition_of(view).columns]
    columns = {
        name: name_of(item.unalias().this) for name, item in zip(names, query.expressions, strict=True)
    }
    _refuse_more(tree)
    alias = target.args.get("alias")
    called = name_of(alias.this) if alias is not None else view.name
    _name_columns(tree, view, columns, called)
    table = query.args["from_"].this
    made = exp.Table(this=table.this.copy(), db=table.args["db"].copy())
    made.set("alias", exp.TableAlias(this=_quoted(called)))
    target.replace(made)
    where = query.args.get("where")
    if where is not None and definition_of(view).check and not isinstance(tree, exp.Delete):
        tree.meta["check_option"] = view.name, _unqualified(where.this)
    if where is not None and not isinstance(tree, exp.Insert):
        condition = where.this.copy()
        for node in condition.find_all(exp.Column):
            node.set("table", _quoted(called))
        given = tree.args.get("where")
        both: exp.Expression = exp.Paren(this=condition)
        if given is not None:
            both = exp.And(this=exp.Paren(this=given.this.copy()), expression=both)
        tree.set("where", exp.Where(this=both))
    return tree


def _is_simple(query: exp.Expression, catalog: Catalog) -> bool:
    """Whether it shows plain columns of one table, each once."""
    if not isinstance(query, exp.Select) or {key for key, value in query.args.items() if value} - _SIMPLE:
        return False
    source = query.args.get("from_")
    if source is None or not isinstance(source.this, exp.Table) or source.this.args.get("joins"):
        return False
    table = source.this
    if table.args.get("sample") or table.args["alias"].args.get("columns") or table.args.get("db") is None:
        return False
    if any(one is not query for one in query.find_all(exp.Query)):
        return False
    if not isinstance(catalog.find(name_of(table.args["db"]), name_of(table.this)), Table):
        return False
    items = [item.unalias() for item in query.expressions]
    plain = all(isinstance(item, exp.Column) and isinstance(item.this, exp.Identifier) for item in items)
    return plain and len({name_of(item.this) for item in items}) == len(items)


def _unqualified(condition: exp.Expression) -> exp.Expression:
    found = condition.copy()
    for node in found.find_all(exp.Column):
        node.set("table", None)
        node.set("db", None)
    return found


def is_updatable(view: CatalogObject, catalog: Catalog) -> bool:
    """Whether statements that change the view go to its table."""
    return _is_simple(view_query(view, catalog), catalog)


def check_option(query: exp.Expression, catalog: Catalog) -> None:
    """That rows written through a view can be held to its condition.

    Raises SqlError 0A000 for a view that cannot be written to, and for what own plans do not evaluate.
    """
    if not _is_simple(query, catalog):
        raise SqlError(
            "0A000", "WITH CHECK OPTION is supported only on automatically updatable views",
            hint="It is for views of plain columns of one table.",
        )  # fmt: skip
    where, source = query.args.get("where"), query.args["from_"].this
    if where is not None:
        table = catalog.find(name_of(source.args["db"]), name_of(source.this))
        assert isinstance(table, Table)
        bind_check(table, _unqualified(where.this))


def _refuse_more(tree: exp.Expression) -> None:
    parts = [tree.args.get(key) for key in ("where", "returning")]
    if isinstance(tree, exp.Update):
        parts += tree.expressions
    if any(tree.args.get(key) for key in ("from_", "using", "with_", "conflict")) or any(
        part.find(exp.Query) for part in parts if part is not None
    ):
        raise SqlError("0A000", "changing a view by other tables, WITH or ON CONFLICT is not supported")


def _name_columns(tree: exp.Expression, view: CatalogObject, columns: dict[str, str], called: str) -> None:
    """Have the statement name the table's columns."""
    if isinstance(tree, exp.Insert):
        named = tree.this.expressions if isinstance(tree.this, exp.Schema) else None
        source = tree.args.get("expression")
        if named is None and isinstance(source, exp.Values) and source.expressions:
            named = list(map(_quoted, list(columns)[: _width(source.expressions[0])]))
        elif named is None:
            named = list(map(_quoted, columns))
        mapped = [_quoted(_base(columns, view, one)) for one in named]
        target = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
        if not tree.args.get("default"):
            tree.set("this", exp.Schema(this=target, expressions=mapped))
    returning = tree.args.get("returning")
    if returning is not None:
        returning.set("expressions", [one for node in returning.expressions for one in _shown(node, columns)])
    parts = [returning, tree.args.get("where"), *(tree.expressions if isinstance(tree, exp.Update) else ())]
    for part in parts:
        for node in list(part.find_all(exp.Column)) if part is not None else ():
            qualifier = node.args.get("table")
            if isinstance(node.this, exp.Identifier) and (
                qualifier is None or name_of(qualifier) in {called, view.name}
            ):
                if _is_default(node):
                    continue
                node.set("this", _quoted(_base(columns, view, node.this)))


def _shown(node: exp.Expression, columns: dict[str, str]) -> list[exp.Expression]:
    """An item of RETURNING, under the names of the view's columns."""
    if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
        return [exp.Alias(this=exp.Column(this=_quoted(name)), alias=_quoted(name)) for name in columns]
    if isinstance(node, exp.Column):
        return [exp.Alias(this=node.copy(), alias=_quoted(name_of(node.this)))]
    return [node]


def _base(columns: dict[str, str], view: CatalogObject, node: exp.Expression) -> str:
    name = name_of(node.this if isinstance(node, exp.Column) else node)
    if name not in columns:
        raise SqlError("42703", f'column "{name}" of relation "{view.name}" does not exist', column=name)
    return columns[name]


def _is_default(node: exp.Column) -> bool:
    return not node.this.args.get("quoted") and str(node.this.this).upper() == "DEFAULT"


def _width(row: exp.Expression) -> int:
    return len(row.expressions) if isinstance(row, exp.Tuple) else 1


def _quoted(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=True)
