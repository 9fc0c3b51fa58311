"""Views: defined, put in for their names, written to, and kept while what they read changes.

A view's query is kept as text. In it a table or view is named by its id ("#"."16390"), so that neither
another search_path nor another name of the table changes what is meant; stars are written out. ``expand``
puts the queries in for the views' names before a statement is planned, so both engines plan what comes out
as if it had been written as a subquery. ``through_view`` makes a statement that writes to a view of plain
columns of one table one about the table.

Columns are known to a view by name: when one is renamed, the queries of the views follow. A SELECT over that
relation alone has its columns renamed. Anywhere else the relation gives way to a SELECT of its own that shows
it under the names that it had, so that nothing around it can mean something else. A change that would take a
column from under a view, or give it another type, is refused.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec.structs import replace as changed
from sqlglot import expressions as exp

from herdpy_sql.catalog import Table, is_temporary
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.define import DefinePlan, duplicate
from herdpy_sql.objects import VIEW, CatalogObject, ViewDefinition
from herdpy_sql.parse import parse, split
from herdpy_sql.parse.as_of import as_of
from herdpy_sql.plan.assignment import is_default
from herdpy_sql.plan.drop import carry_out, drop_objects, gather
from herdpy_sql.plan.names import (
    absent_relation,
    checked_name,
    notice,
    object_of,
    place_of,
    target_schema,
    with_remarks,
)
from herdpy_sql.plan.qualified import settle_qualified
from herdpy_sql.plan.rules import bind_check
from herdpy_sql.plan.scope import name_of, quoted
from herdpy_sql.plan.type_names import mark_types, shorten_types, types_by_id, types_by_name
from herdpy_sql.quoting import quote_ident
from herdpy_sql.types import SqlType

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from herdpy_sql.catalog import Catalog
    from herdpy_sql.clock import Clock
    from herdpy_sql.execute.alter_table import TableChange
    from herdpy_sql.storage import View


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
        listed = [quoted(name) for name, _type in definition_of(view).columns]
        given = list(alias.args.get("columns") or ()) if alias is not None else []
        name = alias.this if alias is not None else quoted(view.name)
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
            node.set("this", quoted(one.name))
            node.set("db", quoted(one.schema))
            if node.args.get("alias") is None:
                node.set("alias", exp.TableAlias(this=quoted(one.name)))
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
    made.set("alias", exp.TableAlias(this=quoted(called)))
    target.replace(made)
    where = query.args.get("where")
    if where is not None and definition_of(view).check and not isinstance(tree, exp.Delete):
        tree.meta["check_option"] = view.name, _unqualified(where.this)
    if where is not None and not isinstance(tree, exp.Insert):
        condition = where.this.copy()
        for node in condition.find_all(exp.Column):
            node.set("table", quoted(called))
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
            named = list(map(quoted, list(columns)[: _width(source.expressions[0])]))
        elif named is None:
            named = list(map(quoted, columns))
        mapped = [quoted(_base(columns, view, one)) for one in named]
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
                if is_default(node):
                    continue
                node.set("this", quoted(_base(columns, view, node.this)))


def _shown(node: exp.Expression, columns: dict[str, str]) -> list[exp.Expression]:
    """An item of RETURNING, under the names of the view's columns."""
    if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
        return [exp.Alias(this=exp.Column(this=quoted(name)), alias=quoted(name)) for name in columns]
    if isinstance(node, exp.Column):
        return [exp.Alias(this=node.copy(), alias=quoted(name_of(node.this)))]
    return [node]


def _base(columns: dict[str, str], view: CatalogObject, node: exp.Expression) -> str:
    name = name_of(node.this if isinstance(node, exp.Column) else node)
    if name not in columns:
        raise SqlError("42703", f'column "{name}" of relation "{view.name}" does not exist', column=name)
    return columns[name]


def _width(row: exp.Expression) -> int:
    return len(row.expressions) if isinstance(row, exp.Tuple) else 1


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
        exp.Alias(this=_bare_column(new), alias=quoted(old)) if name == old else _bare_column(name)
        for name in columns
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
        items.append(exp.Alias(this=one.copy(), alias=quoted(old)) if plain else one)
    select.set("expressions", items)
    for node in list(select.find_all(exp.Column)):
        if _names(node, old) and not (old in given and _is_output(node)):
            node.set("this", quoted(new))


def _is_output(node: exp.Column) -> bool:
    """Whether a name in ORDER BY or GROUP BY means what the SELECT calls so."""
    parent = node.parent
    ordered = isinstance(parent, exp.Ordered) and isinstance(parent.parent, exp.Order)
    return not node.table and ordered


def _bare_column(name: str) -> exp.Column:
    return exp.Column(this=quoted(name))


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from herdpy_sql.catalog import Catalog
    from herdpy_sql.execute.base import OutputColumn, Plan
    from herdpy_sql.parse.object_commands import ObjectCommand
    from herdpy_sql.storage import View

    Planned = Callable[[exp.Expression], Plan]


def plan(command: ObjectCommand, catalog: Catalog, planned: Planned) -> Plan:
    """The plan of a statement about views; ``planned`` plans a query."""
    if command.name == "CREATE VIEW":
        return _create(command, catalog, planned)
    if command.name == "ALTER VIEW":
        return alter_view(command, catalog)
    return drop_objects(command, catalog, "view")


def _create(command: ObjectCommand, catalog: Catalog, planned: Planned) -> Plan:
    assert command.query is not None
    ((named, name),) = command.names
    temporary = "TEMPORARY" in command.options
    schema = place_of(catalog, named, checked_name(name), temporary=temporary)
    tree = parse(command.query)
    if not isinstance(tree, exp.Query | exp.Values):
        raise SqlError("42601", "syntax error in CREATE VIEW")
    if as_of(tree) is not None:
        raise SqlError("0A000", "a view cannot read AS OF SYSTEM TIME, but a query of it can")
    if tree.find(exp.Parameter):
        raise SqlError("42P02", "there is no parameter $1")
    if isinstance(tree, exp.Select) and tree.args.get("into"):
        raise SqlError("0A000", "views must not contain SELECT INTO")
    settle_qualified(tree, catalog)
    whole = expand(tree.copy(), catalog)
    mark_types(whole, catalog)
    query = planned(whole)
    columns = _columns(query.columns or (), command.columns)
    _write_out_stars(tree, catalog)
    uses = (*_by_id(tree, catalog), *types_by_id(tree, catalog))
    remarks = []
    if not is_temporary(schema) and _reads_temporary(uses, catalog):
        schema = place_of(catalog, named, name, temporary=True)
        remarks.append(notice(f'view "{name}" will be a temporary view'))
    check = next((option.split()[1] for option in command.options if option.startswith("CHECK")), "")
    definition = ViewDefinition(tree.sql("postgres"), columns, uses, check)
    if check:
        check_option(view_query(CatalogObject(0, schema, name, definition), catalog), catalog)
    there = catalog.relations.get((schema, name))
    if there is None:
        made = DefinePlan(command.name, name, lambda view: _make(view, schema, name, definition))
        return with_remarks(made, remarks)
    if "OR REPLACE" not in command.options:
        raise duplicate(name)
    if not isinstance(there, CatalogObject) or there.kind != "view":
        raise SqlError("42809", f'"{name}" is not a view')
    _check_replaced(definition_of(there).columns, columns)
    if there.id in uses:
        raise SqlError("42P17", f'infinite recursion detected in rules for relation "{name}"')
    replaced = replace(there, definition=definition)
    return with_remarks(DefinePlan(command.name, name, lambda view: view.put_object(replaced)), remarks)


def _reads_temporary(uses: tuple[int, ...], catalog: Catalog) -> bool:
    found = (catalog.tables.get(number) or catalog.objects.get(number) for number in uses)
    return any(one is not None and is_temporary(one.schema) for one in found)


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


def alter_view(command: ObjectCommand, catalog: Catalog) -> Plan:
    """The plan of ALTER VIEW. SqlError 42P01, 42703, 42701, 42P07."""
    ((schema, name),) = command.names
    one = object_of(catalog, "view", schema, name)
    if one is None:
        if "IF EXISTS" in command.options:
            skipped = absent_relation(catalog, "relation", schema, name)
            return with_remarks(DefinePlan(command.name, name, None), [skipped])
        raise SqlError("42P01", f'relation "{f"{schema}.{name}" if schema else name}" does not exist')
    definition = one.definition
    assert isinstance(definition, ViewDefinition)
    if command.action == "OWNER":
        return DefinePlan(command.name, name, None)
    readers: list[CatalogObject] = []
    if command.action == "RENAME COLUMN":
        before, after = command.words
        names = [column for column, _type in definition.columns]
        if before not in names:
            raise SqlError("42703", f'column "{before}" does not exist')
        if after in names:
            raise SqlError("42701", f'column "{after}" of relation "{name}" already exists')
        columns = tuple((after if n == before else n, kind) for n, kind in definition.columns)
        moved = replace(one, definition=changed(definition, columns=columns))
        readers = renamed_views(catalog, one, names, before, after)
    elif command.action == "RENAME":
        moved = replace(one, name=checked_name(command.words[0]))
    else:
        moved = replace(one, schema=target_schema(catalog, command.words[0], one.name))
    if (moved.schema, moved.name) != (one.schema, one.name) and catalog.is_taken(moved.schema, moved.name):
        raise duplicate(moved.name)

    def put(view: View) -> None:
        for changed_view in (moved, *readers):
            view.put_object(changed_view)

    return DefinePlan(command.name, name, put)


def _by_id(tree: exp.Expression, catalog: Catalog) -> tuple[int, ...]:
    """Have the query name what it reads by ids; which these are."""
    uses: list[int] = []
    for node in list(tree.find_all(exp.Table)):
        if not isinstance(node.this, exp.Identifier) or is_cte(node):
            continue
        schema, name = node.args.get("db"), name_of(node.this)
        found = catalog.find(None if schema is None else name_of(schema), name)
        if not isinstance(found, Table | CatalogObject):
            continue
        uses.append(found.id)
        if node.args.get("alias") is None:
            node.set("alias", exp.TableAlias(this=quoted(name)))
        node.set("this", quoted(str(found.id)))
        node.set("db", quoted(BY_ID))
    return tuple(dict.fromkeys(uses))


def _write_out_stars(tree: exp.Expression, catalog: Catalog) -> None:
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
    return exp.Column(this=quoted(name), table=quoted(table))


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
    if not isinstance(node, exp.Table) or (alias is not None and alias.args.get("columns")) or is_cte(node):
        return []
    view = view_named(node, catalog)
    if view is not None:
        return [name for name, _type in definition_of(view).columns]
    if not isinstance(node.this, exp.Identifier):
        return []
    schema = node.args.get("db")
    found = catalog.find(None if schema is None else name_of(schema), name_of(node.this))
    return [found.columns[p].name for p in found.visible] if isinstance(found, Table) else []
