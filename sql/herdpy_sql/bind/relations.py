"""FROM: tables, samples of them, joins, derived tables, LATERAL, functions as tables.

Each item comes in as syntax, with the items to its left for LATERAL, and becomes a ``nodes.Item``: the
relations it names and the columns that ``*`` means. Relations are added to the scope last, so that no item
sees its neighbours unless it is LATERAL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from herdpy_sql.absent import absent_function
from herdpy_sql.bind import nodes as q
from herdpy_sql.bind.bounds import note_bounds
from herdpy_sql.catalog import ColumnOrigin, Index, Table
from herdpy_sql.errors import SqlError
from herdpy_sql.expr import nodes as n
from herdpy_sql.expr.coerce import coerce, unify
from herdpy_sql.expr.operate import compare
from herdpy_sql.expr.resolve import no_function
from herdpy_sql.expr.scope import Merged, Relation, Rest, Shown, TableRelation, joined_columns
from herdpy_sql.expr.set_returning import SERIES, series, unnested
from herdpy_sql.expr.syntax import identifier, named_call
from herdpy_sql.library import reshaped, resolve
from herdpy_sql.node_names import clause_refusal, function_word, refusal
from herdpy_sql.objects import VIEW
from herdpy_sql.partition_map import partitions_of
from herdpy_sql.types import BIGINT, DOUBLE, SqlType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from herdpy_sql.bind.binder import Binder
    from herdpy_sql.catalog import Catalog
    from herdpy_sql.expr.scope import Scope


def bind_from(binder: Binder, node: Any, scope: Scope) -> list[q.Item]:
    """The items of FROM, their joins among them; ``scope`` sees their columns then."""
    source = node.args.get("from_")
    if source is None:
        return []
    items: list[q.Item] = []
    _take(binder, _item(binder, source.this, scope, items), node, scope, items)
    return _added(items, scope)


def bind_target(binder: Binder, table: Table, name: str, others: Sequence[Any], scope: Scope) -> list[q.Item]:
    """The rows of the table that UPDATE or DELETE writes to, and the items of FROM or USING after them."""
    items: list[q.Item] = [_scan(binder, table, name, [], scope)]
    for one in others:
        _take(binder, _single(binder, one, scope, items), one, scope, items)
    return _added(items, scope)


def _take(binder: Binder, first: q.Item, node: Any, scope: Scope, items: list[q.Item]) -> None:
    """Add an item and what ``node`` joins to it, or lists behind it, to those before."""
    current = first
    for join in node.args.get("joins") or ():
        if _is_comma(join):
            items.append(current)
            current = _item(binder, join.this, scope, items)
        else:
            current = _join(binder, current, join, scope, items)
    items.append(current)


def _added(items: list[q.Item], scope: Scope) -> list[q.Item]:
    """The items, whose columns ``scope`` sees then."""
    for item in items:
        scope.add(item.relations)
        scope.star += item.star
    return items


def _is_comma(join: Any) -> bool:
    return not any(join.args.get(key) for key in ("kind", "side", "method", "on", "using"))


def _item(binder: Binder, node: Any, scope: Scope, before: Sequence[q.Item]) -> q.Item:
    """One item of FROM; its own nested joins are part of it."""
    item = _single(binder, node, scope, before)
    for join in node.args.get("joins") or ():
        item = _join(binder, item, join, scope, before)
    return item


def _single(binder: Binder, node: Any, scope: Scope, before: Sequence[q.Item]) -> q.Item:
    """An item without what is joined to it."""
    item: q.Item
    if isinstance(node, exp.Table):
        item = _table(binder, node, scope, before)
    elif isinstance(node, exp.Subquery):
        item = _subquery(binder, node, scope, before)
    elif isinstance(node, exp.Lateral):
        item = _lateral(binder, node, scope, before)
    elif isinstance(node, exp.Values):
        item = _derived(binder, node, node.args.get("alias"), scope.inside([], []))
    elif isinstance(node, exp.Unnest):
        item = _unnest(binder, node, _seen(scope, before), *_alias_of(node))
    else:
        raise refusal(node)
    return item


def _alias_of(node: Any) -> tuple[str | None, list[str]]:
    alias = node.args.get("alias") if not isinstance(node, exp.TableAlias) else node
    if alias is None:
        return None, []
    this = alias.args.get("this")
    names = [identifier(column) for column in alias.args.get("columns") or ()]
    return (identifier(this) if this is not None else None), names


def _seen(scope: Scope, before: Sequence[q.Item]) -> Scope:
    """What a LATERAL item sees: the items to its left."""
    star = [part for item in before for part in item.star]
    return scope.inside(star, [relation for item in before for relation in item.relations])


# ---------------------------------------------------------------------------- tables


def _table(binder: Binder, node: Any, scope: Scope, before: Sequence[q.Item]) -> q.Item:
    if not isinstance(node.this, exp.Identifier):
        return _function(binder, node, scope, before)
    for clause in ("pivots", "hints", "version", "laterals", "when", "rows_from", "changes"):
        if node.args.get(clause):
            raise clause_refusal(node, clause)
    name = identifier(node.this)
    own, listed = _alias_of(node)
    schema = identifier(node.args["db"]) if node.args.get("db") else None
    sample = node.args.get("sample")
    if schema is None:
        named: q.WithQuery | None = scope.with_query(name)
        if named is not None:
            if sample:
                raise SqlError("0A000", "TABLESAMPLE clause can only be applied to tables")
            return _reference(named, own or name, listed, scope)
        handed = binder.given.get(name)
        if handed is not None and not sample:
            return _scan(binder, handed.table, own or name, [handed.names, listed], scope)
    table = _found(binder.catalog, schema, name, node.args.get("catalog"))
    if node.args.get("only") and table.partition_key is not None:
        raise SqlError("0A000", "ONLY of a partitioned table is not supported", table=name)
    return _scan(binder, table, own or name, [listed], scope, sample)


def _found(catalog: Catalog, schema: str | None, name: str, database: object) -> Table:
    """The table of that name. SqlError 42P01, 42809 where it is an index's."""
    found = None if database else catalog.find(schema, name)
    if isinstance(found, Table):
        return found
    if isinstance(found, Index):
        detail = "This operation is not supported for indexes."
        raise SqlError("42809", f'cannot open relation "{name}"', detail=detail)
    shown = f"{schema}.{name}" if schema else name
    raise SqlError("42P01", f'relation "{shown}" does not exist', table=name)


def _scan(
    binder: Binder,
    table: Table,
    name: str,
    names: Sequence[Sequence[str]],
    scope: Scope,
    sample: Any = None,
) -> q.TableScan:
    """The rows of a table under ``name``; its columns are called as each of ``names`` says."""
    relation = TableRelation(name, 0, len(table.columns), scope.number, table=table)
    binder.numbering.add(relation)
    for listed in names:
        if listed:
            relation.rename(listed)
    found = q.TableScan([relation], [relation], relation)
    if table.partition_key is not None:
        found.spread = partitions_of(binder.catalog, table)
    binder.scans[relation] = found
    if sample is not None:
        found.sample = _sample(binder, sample, scope)
    return found


_METHODS = ("BERNOULLI", "SYSTEM")


def _sample(binder: Binder, sample: Any, scope: Scope) -> q.TableSample:
    """Raises SqlError 42704 for other methods, 2202H and 2202G for a share or seed that cannot be."""
    method = sample.args.get("method")
    word = str(method.this).upper() if method is not None else ""
    if word not in _METHODS:
        raise SqlError("42704", f"tablesample method {word.lower()} does not exist")
    share = _number(binder, sample.args.get("percent") or sample.args.get("size"), "2202H", scope)
    seed = sample.args.get("seed")
    return q.TableSample(share, None if seed is None else _number(binder, seed, "2202G", scope))


def _number(binder: Binder, node: Any, state: str, scope: Scope) -> n.Expr:
    """A constant or parameter of the clause; columns are not in its reach."""
    if isinstance(node, exp.Null):
        what = "REPEATABLE parameter" if state == "2202G" else "parameter"
        raise SqlError(state, f"TABLESAMPLE {what} cannot be null")
    inner = scope.inside([], [])
    inner.parent = None
    return coerce(binder.tree(node, inner), DOUBLE, "implicit", binder.params)


def _reference(named: q.WithQuery, name: str, listed: Sequence[str], scope: Scope) -> q.Reference:
    relation = scope.listed(name, named.columns)
    relation.is_recursion = named.is_open
    relation.rename(listed)
    return q.Reference([relation], [relation], relation, named)


# ---------------------------------------------------------------------------- queries


def _subquery(binder: Binder, node: Any, scope: Scope, before: Sequence[q.Item]) -> q.Item:
    inner = node.this
    if isinstance(inner, exp.Table) or (isinstance(inner, exp.Subquery) and inner.args.get("joins")):
        return _enclosed(binder, node, scope, before)
    item = _derived(binder, inner, node.args.get("alias"), scope.inside([], []))
    if VIEW in node.meta:  # its columns are its own, whatever they are made of
        view = node.meta[VIEW]
        item.relation.origins = [ColumnOrigin(view, number + 1) for number in range(item.relation.width)]
    return item


def _enclosed(binder: Binder, node: Any, scope: Scope, before: Sequence[q.Item]) -> q.Item:
    """A parenthesised join. An alias hides the names inside."""
    item = _item(binder, node.this, scope, before)
    own, listed = _alias_of(node)
    if own is None:
        return q.Enclosed(item.relations, item.star, item)
    relation = Relation(
        own,
        select=scope.number,
        named=[one for part in item.star for one in part.columns],
        is_recursion=any(one.is_recursion for one in item.relations),
    )
    relation.rename(listed)
    return q.Enclosed([relation], [relation], item)


def _derived(binder: Binder, query: Any, alias: Any, parent: Scope, *, lateral: bool = False) -> q.Derived:
    own, listed = _alias_of(alias) if alias is not None else (None, [])
    if own is None:
        raise SqlError(
            "42601", "subquery in FROM must have an alias", hint="For example, FROM (SELECT ...) [AS] foo."
        )
    bound = binder.query(query, parent)
    relation = parent.listed(own, [(one.name, one.type, one.origin) for one in bound.outputs])
    relation.rename(listed)
    return q.Derived([relation], [relation], relation, bound, lateral)


def _lateral(binder: Binder, node: Any, scope: Scope, before: Sequence[q.Item]) -> q.Item:
    inner = node.this
    if isinstance(inner, exp.Subquery):
        return _derived(binder, inner.this, node.args.get("alias"), _seen(scope, before), lateral=True)
    own, listed = _alias_of(node)
    if isinstance(inner, exp.Unnest):
        return _unnest(binder, inner, _seen(scope, before), own, listed)
    return _called(binder, inner, _seen(scope, before), own, listed, bool(node.args.get("ordinality")))


# ---------------------------------------------------------------------------- functions as tables


def _function(binder: Binder, node: Any, scope: Scope, before: Sequence[q.Item]) -> q.Item:
    own, listed = _alias_of(node)
    seen, numbered = _seen(scope, before), bool(node.args.get("ordinality"))
    if node.args.get("rows_from"):
        nodes = [one.this if isinstance(one, exp.Table) else one for one in node.args["rows_from"]]
        calls = [call for one in nodes for call in _listed(binder, one, seen)]
        return _rows(calls, own, listed, seen, "ordinality" if numbered else None)
    return _called(binder, node.this, seen, own, listed, numbered)


def _called(
    binder: Binder, node: Any, scope: Scope, own: str | None, listed: list[str], numbered: bool
) -> q.Rows:
    """A call under an alias, WITH ORDINALITY if ``numbered``; SqlError 42883 where there is no function."""
    ordinality = "ordinality" if numbered else None
    if isinstance(node, SERIES):
        return _rows([_series(binder, node, scope)], own, listed, scope, ordinality)
    if isinstance(node, exp.Dot):
        raise SqlError("0A000", f"names of other databases are not supported: {node.sql('postgres')}")
    named = named_call(node)
    if named is not None:
        return _rows([_library(binder, *named, scope)], own, listed, scope, ordinality)
    if isinstance(node, exp.Anonymous):
        name = str(node.this).lower()
        raise absent_function(name) or SqlError("42883", f"function {name} does not exist")
    raise refusal(node)


def _unnest(binder: Binder, node: Any, scope: Scope, own: str | None, listed: list[str]) -> q.Rows:
    if own is None:
        own, listed = _alias_of(node)
    offset = node.args.get("offset")
    if isinstance(offset, exp.Identifier):  # the last name, where there are more than arrays
        listed = [*listed, identifier(offset)]
    return _rows(
        _arrays(binder, node.expressions, scope), own, listed, scope, "ordinality" if offset else None
    )


def _arrays(binder: Binder, nodes: Sequence[Any], scope: Scope) -> list[q.FunctionCall]:
    """The elements of arrays side by side: unnest() of several has a column for each."""
    found = [unnested(binder.trees(scope), one) for one in nodes]
    return [q.FunctionCall("unnest", one.type, one) for one in found]


def _series(binder: Binder, node: Any, scope: Scope) -> q.FunctionCall:
    found = series(binder.trees(scope), node)
    return q.FunctionCall("generate_series", found.type, found)


def _library(binder: Binder, name: str, nodes: Sequence[Any], scope: Scope) -> q.FunctionCall:
    args = binder.all(nodes, scope)
    found = resolve(name, tuple([arg.type for arg in args]))
    if found is None:
        raise no_function(name, [arg.type for arg in args])
    given = tuple(
        [coerce(arg, type_, "implicit", binder.params) for arg, type_ in zip(args, found.args, strict=True)]
    )
    type_ = reshaped(found, [arg.type for arg in given], None).result
    return q.FunctionCall(name, type_, found=found, args=given)


def _listed(binder: Binder, node: Any, scope: Scope) -> list[q.FunctionCall]:
    """A call that stands beside others, with a column for each array of unnest() and one of any other.

    Raises SqlError 42883 where there is no function, and 0A000 for rows of several columns.
    """
    if isinstance(node, SERIES):
        return [_series(binder, node, scope)]
    if isinstance(node, exp.Unnest):
        return _arrays(binder, node.expressions, scope)
    if isinstance(node, exp.Explode):
        return _arrays(binder, [node.this, *node.expressions], scope)
    named = named_call(node)
    if named is None:
        one = binder.typed(node, scope)
        return [q.FunctionCall(function_word(node), one.type, one)]
    call = _library(binder, *named, scope)
    assert call.found is not None
    if call.found.routine.columns:
        raise SqlError("0A000", f"rows of {call.name} as values are not supported")
    return [call]


def _rows(
    calls: Sequence[q.FunctionCall],
    own: str | None,
    listed: Sequence[str],
    scope: Scope,
    numbered: str | None,
) -> q.Rows:
    """Calls as one relation; ``numbered`` names the column that numbers the rows."""
    alone = len(calls) == 1
    columns: list[tuple[str, SqlType, ColumnOrigin | None]] = []
    for call in calls:
        fields = call.found.routine.columns if call.found is not None else ()
        columns += [(name, type_, None) for name, type_ in fields]
        if not fields:
            output = "" if call.found is None else call.found.routine.output
            columns.append((output or (own if alone and own else _shown(call, alone)), call.type, None))
    if numbered is not None:
        columns.append((numbered, BIGINT, None))
    relation = scope.listed(own or _shown(calls[0], alone), columns)
    relation.rename(listed)
    return q.Rows([relation], [relation], relation, tuple(calls), numbered is not None)


def _shown(call: q.FunctionCall, alone: bool) -> str:
    """The name of a call's column."""
    return "value" if not alone and "_array_elements" in call.name else call.name


# ---------------------------------------------------------------------------- joins


def _join(binder: Binder, left: q.Item, join: Any, scope: Scope, before: Sequence[q.Item]) -> q.Item:
    right = _item(binder, join.this, scope, [*before, left])
    side = str(join.args.get("side") or "").upper()
    kind = str(join.args.get("kind") or "").upper()
    method = str(join.args.get("method") or "").upper()
    if method not in ("", "NATURAL") or kind not in ("", "INNER", "OUTER", "CROSS"):
        raise SqlError("0A000", f"{method or kind} JOIN is not supported")
    for relation in right.relations:
        if relation.name and any(one.name == relation.name for one in left.relations):
            raise SqlError("42712", f'table name "{relation.name}" specified more than once')
    relations = left.relations + right.relations
    for relation in (left.relations if side in ("RIGHT", "FULL") else []) + (
        right.relations if side in ("LEFT", "FULL") else []
    ):
        relation.outer = True
    joined = q.Joined(relations, left.star + right.star, left, right, side, [])
    if kind == "CROSS" or (method == "" and _is_comma(join)):
        return joined
    using = [identifier(one) for one in join.args.get("using") or ()]
    if method == "NATURAL":
        using = _common_names(left, right)
        if not using:
            joined.conditions = [n.TRUE] if side else []
            return joined
    if using:
        _use(binder, joined, using)
        return joined
    inner = scope.inside(joined.star, relations)
    joined.conditions = [binder.condition(join.args["on"], inner, "JOIN/ON")]
    if not side:
        note_bounds(binder.scans, join.args["on"], inner)
    return joined


def _common_names(left: q.Item, right: q.Item) -> list[str]:
    names = {name for part in right.star for name, _ in part.columns}
    return [name for part in left.star for name, _ in part.columns if name in names]


def _use(binder: Binder, joined: q.Joined, using: Sequence[str]) -> None:
    """USING: a column of each two."""
    merged: list[Shown] = []
    for name in using:
        a, b = joined_columns(name, joined.left.star, joined.right.star)
        joined.conditions.append(compare("=", a, b, binder.params))
        type_, (one, two) = unify([a, b], binder.params, "JOIN/USING")
        if joined.side == "FULL":
            merged.append(Merged(name, n.Coalesce(type_, (one, two))))
        else:
            merged.append(Merged(name, two if joined.side == "RIGHT" else one))
    gone = frozenset(using)
    joined.star = [*merged, *(Rest(part, gone) for part in joined.star)]
