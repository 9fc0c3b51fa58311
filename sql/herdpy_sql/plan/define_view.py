"""CREATE, ALTER and DROP VIEW: a view's definition, from the statement to the catalog.

Above ``views``, which reads definitions, and ``view_targets``, which verifies WITH CHECK OPTION.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec.structs import replace as changed
from sqlglot import expressions as exp

from herdpy_sql.catalog import Table
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.define import duplicate
from herdpy_sql.execute.objects import DefinePlan
from herdpy_sql.objects import CatalogObject, ViewDefinition
from herdpy_sql.parse import parse
from herdpy_sql.plan.dropping import drop_plan
from herdpy_sql.plan.namespace import checked_name, not_there, object_of, target_schema
from herdpy_sql.plan.qualified import settle_qualified
from herdpy_sql.plan.remarks import absent_relation, with_remarks
from herdpy_sql.plan.scope import name_of
from herdpy_sql.plan.type_names import mark_types, types_by_id
from herdpy_sql.plan.view_targets import check_option
from herdpy_sql.plan.view_users import BY_ID, renamed_views
from herdpy_sql.plan.views import definition_of, expand, is_cte, view_named, view_query
from herdpy_sql.quoting import quote_ident
from herdpy_sql.types import SqlType

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
        return _alter(command, catalog)
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
    _write_out_stars(tree, catalog)
    uses = (*_by_id(tree, catalog), *types_by_id(tree, catalog))
    check = next((option.split()[1] for option in command.options if option.startswith("CHECK")), "")
    definition = ViewDefinition(tree.sql("postgres"), columns, uses, check)
    if check:
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


def _alter(command: ObjectCommand, catalog: Catalog) -> Plan:
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
            node.set("alias", exp.TableAlias(this=exp.to_identifier(name, quoted=True)))
        node.set("this", exp.to_identifier(str(found.id), quoted=True))
        node.set("db", exp.to_identifier(BY_ID, quoted=True))
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
