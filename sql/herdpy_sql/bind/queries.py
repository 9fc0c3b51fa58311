"""Queries bound to typed trees: SELECT, VALUES, TABLE, set operations, ORDER BY and LIMIT.

``bind_query`` takes any query and gives a ``nodes.Query``. Of a SELECT, FROM comes first and WHERE with it,
then GROUP BY, the select list, HAVING, ORDER BY, DISTINCT and LIMIT. Its columns may have no type yet, since
a set operation or an INSERT above may still give them one (``Query.settle``). Queries inside others, in FROM,
in WITH and in expressions, come back here by ``Binder.query``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from herdpy_sql.bind import nodes as q
from herdpy_sql.bind.binder import Binder, Handed, Notes
from herdpy_sql.bind.bounds import note_bounds
from herdpy_sql.bind.grouping import bind_group, fixed_columns, has_aggregate
from herdpy_sql.bind.relations import bind_from
from herdpy_sql.bind.with_queries import bind_with
from herdpy_sql.errors import SqlError
from herdpy_sql.expr import nodes as n
from herdpy_sql.expr.coerce import Params, coerce, common_type, settle, unify
from herdpy_sql.expr.output_names import output_name
from herdpy_sql.expr.scope import Scope
from herdpy_sql.expr.syntax import identifier, is_row
from herdpy_sql.node_names import clause_refusal, refusal
from herdpy_sql.types import BIGINT, Base, need_equality, need_ordering

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from herdpy_sql.catalog import Catalog
    from herdpy_sql.types import SqlType


def bind_query(
    tree: exp.Expression,
    catalog: Catalog,
    params: Params,
    *,
    targets: Sequence[SqlType | None] | None = None,
    given: Mapping[str, Handed] | None = None,
    notes: Notes | None = None,
) -> tuple[q.Query, Binder]:
    """The meaning of a SELECT, VALUES, TABLE, set operation or WITH query over ``catalog``.

    Args:
        tree: in the postgres dialect; it is not changed.
        targets: types that the columns' untyped literals and parameters shall take (INSERT ... SELECT).
        given: relations by name that are handed over with the question.
        notes: gets the typed trees of the query's clauses, each with what it is for.

    Raises:
        SqlError: 42P01, 42703, 42702, 42803, 42883, 42804 ... as PostgreSQL; 0A000 for what is valid
            and not supported.
    """
    binder = binder_of(catalog, params, given, notes)
    try:
        found = binder.query(tree, None, settle=targets is None)
    except RecursionError:
        raise SqlError("54001", "stack depth limit exceeded") from None
    if targets is not None:
        found.settle(targets, params)
    return found, binder


def binder_of(
    catalog: Catalog, params: Params, given: Mapping[str, Handed] | None = None, notes: Notes | None = None
) -> Binder:
    """What binds a statement's queries and expressions; the arguments are those of :func:`bind_query`."""
    return Binder(catalog, params, _query, given or {}, notes)


def _query(binder: Binder, node: Any, parent: Scope | None, settle: bool) -> q.Query:
    while isinstance(node, exp.Paren):
        node = node.this
    scope = binder.scope(parent)
    with_ = node.args.get("with_")
    before = bind_with(binder, with_, scope)
    if isinstance(node, exp.Subquery):
        if not any(node.args.get(key) for key in ("with_", "order", "limit", "offset", "joins")):
            return _query(binder, node.this, parent, settle)
        found = _enclosed(binder, node, scope)
    elif isinstance(node, exp.Select):
        found = _select(binder, node, scope)
    elif isinstance(node, exp.SetOperation):
        found = _set_operation(binder, node, scope)
    elif isinstance(node, exp.Values):
        found = _values(binder, node, scope)
    elif isinstance(node, exp.Table):
        found = _select(binder, exp.Select(expressions=[exp.Star()], from_=exp.From(this=node)), scope)
    else:
        raise refusal(node)
    if settle:
        found.settle((), binder.params)
    found.outer = frozenset(scope.outer)
    found.with_queries, found.recursive = before, with_ is not None and bool(with_.args.get("recursive"))
    return found


# ---------------------------------------------------------------------------- SELECT

_NOT_READ = ("into", "qualify", "sample", "laterals", "match", "pivots", "connect", "prewhere")


def _select(binder: Binder, node: Any, scope: Scope) -> q.Select:
    for clause in _NOT_READ:
        if node.args.get(clause):
            raise clause_refusal(node, clause)
    if not node.expressions and node.args.get("distinct"):
        raise SqlError("42601", "syntax error: SELECT DISTINCT with an empty list")
    select = q.Select([], source=bind_from(binder, node, scope))
    where = node.args.get("where")
    if where is not None:
        select.where = binder.condition(where.this, scope, "WHERE")
        note_bounds(binder.scans, where.this, scope)
    for window in node.args.get("windows") or ():
        scope.windows[identifier(window.this)] = window
    select.groups = bind_group(binder, node, scope)
    scope.clause = "SELECT"
    select.outputs = _outputs(binder, node, scope)
    having = node.args.get("having")
    if having is not None:
        select.having = binder.condition(having.this, scope, "HAVING")
    scope.clause = "ORDER BY"
    select.order = _order(binder, node, scope, select.outputs)
    _distinct(binder, node, scope, select)
    _grouped(scope, select)
    select.limit = _limit(binder, node, scope)
    return select


def _outputs(binder: Binder, node: Any, scope: Scope) -> list[q.Output]:
    outputs: list[q.Output] = []
    for item in [_of_relation(one, scope) for one in node.expressions]:
        if isinstance(item, exp.Star):
            if any(item.args.values()):
                raise SqlError("0A000", "* with EXCEPT or REPLACE is not supported")
            outputs += _starred(binder, scope, None)
        elif isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
            outputs += _starred(binder, scope, identifier(item.args["table"]))
        else:
            inner = item.this if isinstance(item, exp.Alias) else item
            expr = binder.tree(inner, scope)
            if isinstance(item, exp.Alias):
                name = identifier(item.args["alias"])
            else:
                name = output_name(inner, q.inner_name(expr))
            binder.note(f"Output: {name}", expr)
            outputs.append(q.Output(name, expr, scope.origin(expr)))
    return outputs


def _of_relation(item: Any, scope: Scope) -> Any:
    """``(relation).*`` as ``relation.*``, which it is; any other item as it stands. SqlError 42703."""
    if not isinstance(item, exp.Dot) or not isinstance(item.expression, exp.Star):
        return item
    inner = item.this.unnest()
    if not isinstance(inner, exp.Column) or inner.args.get("table") or isinstance(inner.this, exp.Star):
        return item
    name = identifier(inner.this)
    if scope.relation(name) is None or scope.has_column(name):
        scope.resolve(None, name)
        return item
    return exp.Column(this=exp.Star(), table=inner.this)


def _starred(binder: Binder, scope: Scope, table: str | None) -> list[q.Output]:
    """The columns that ``*`` stands for, as they are."""
    outputs = []
    for name, expr in scope.starred(table):
        binder.note(f"Output: {name}", expr)
        outputs.append(q.Output(name, expr, scope.origin(expr)))
        if isinstance(expr, n.ColumnRef) and not scope.is_own(expr):  # the row of a relation further out
            scope.note_outer(expr)
    return outputs


def output_place(node: Any, outputs: Sequence[q.Output], clause: str) -> int | None:
    """The output column that an ordinal or a bare name in ORDER BY or DISTINCT ON means."""
    if isinstance(node, exp.Literal):
        if node.is_string or not str(node.this).isdigit():
            raise SqlError("42601", f"non-integer constant in {clause}")
        place = int(node.this)
        if not 1 <= place <= len(outputs):
            raise SqlError("42P10", f"{clause} position {place} is not in select list")
        return place - 1
    if isinstance(node, exp.Column) and not node.args.get("table") and not isinstance(node.this, exp.Star):
        name = identifier(node.this)
        matches = [place for place, output in enumerate(outputs) if output.name == name]
        if len(matches) > 1 and len({n.fingerprint(outputs[place].expr) for place in matches}) > 1:
            raise SqlError("42702", f'{clause} "{name}" is ambiguous')
        if matches:
            return matches[0]
    return None


def _order(binder: Binder, node: Any, scope: Scope, outputs: Sequence[q.Output]) -> list[q.Key]:
    order = node.args.get("order")
    distinct = node.args.get("distinct")
    keys: list[q.Key] = []
    for ordered in order.expressions if order is not None else ():
        inner = ordered.this
        if is_row(inner) and distinct is None:
            keys += _row_keys(binder, ordered, scope)
            continue
        place = output_place(inner, outputs, "ORDER BY")
        if place is not None:
            need_ordering(outputs[place].type)
            keys.append(_key(ordered, place, None))
            continue
        found = binder.tree(inner, scope)
        binder.note("Order by:", found)
        found = settle(found, binder.params)
        need_ordering(found.type)
        if distinct is not None and distinct.args.get("on") is None:
            keys.append(_key(ordered, _shown_at(found, outputs), None))
        else:
            keys.append(_key(ordered, None, found))
    return keys


def _key(ordered: exp.Expression, place: int | None, expr: n.Expr | None) -> q.Key:
    """An item's direction: NULLs are last unless DESC or NULLS FIRST."""
    descending = bool(ordered.args.get("desc"))
    first = ordered.args.get("nulls_first")
    return q.Key(place, expr, descending, descending if first is None else bool(first))


def _row_keys(binder: Binder, ordered: exp.Expression, scope: Scope) -> list[q.Key]:
    """A row's fields: NULL is the greatest value of one, whatever is said of rows that are NULL."""
    descending = bool(ordered.args.get("desc"))
    parts = [binder.typed(one, scope) for one in ordered.this.expressions]
    for part in parts:
        need_ordering(part.type)
    return [q.Key(None, part, descending, descending) for part in parts]


def _shown_at(expr: n.Expr, outputs: Sequence[q.Output]) -> int:
    """The output that an expression is; SqlError 42P10."""
    wanted = n.fingerprint(expr)
    for place, output in enumerate(outputs):
        if n.fingerprint(output.expr) == wanted:
            return place
    raise SqlError("42P10", "for SELECT DISTINCT, ORDER BY expressions must appear in select list")


def _distinct(binder: Binder, node: Any, scope: Scope, select: q.Select) -> None:
    distinct = node.args.get("distinct")
    if distinct is None:
        return
    on = distinct.args.get("on")
    if on is None:
        select.distinct = True
        for output in select.outputs:
            need_equality(output.type)
        return
    for item in on.expressions if isinstance(on, exp.Tuple) else [on]:
        place = output_place(item, select.outputs, "SELECT DISTINCT ON")
        expr = None if place is not None else binder.typed(item, scope)
        need_equality(expr.type if expr is not None else select.outputs[place or 0].type)
        select.distinct_on.append(q.Key(place, expr, False, False))
    _check_distinct_on(select)


def _check_distinct_on(select: q.Select) -> None:
    """SqlError 42P10 where the order begins with something else than DISTINCT ON is of."""
    keys = {_fingerprint(key, select.outputs) for key in select.distinct_on}
    wanted = set(keys)
    for key in select.order:
        if not wanted:
            return
        found = _fingerprint(key, select.outputs)
        if found not in keys:
            raise SqlError("42P10", "SELECT DISTINCT ON expressions must match initial ORDER BY expressions")
        wanted.discard(found)


def _fingerprint(key: q.Key, outputs: Sequence[q.Output]) -> Any:
    return n.fingerprint(key.expr if key.place is None else outputs[key.place].expr)


def _grouped(scope: Scope, select: q.Select) -> None:
    """What is grouped by besides; SqlError 42803, and 42P19 for aggregates of a recursion."""
    keys = (*select.order, *select.distinct_on)
    exprs = [output.expr for output in select.outputs]
    exprs += [select.having] if select.having is not None else []
    exprs += [key.expr for key in keys if key.expr is not None]
    aggregated = any(map(has_aggregate, exprs))
    if aggregated and any(one.is_recursion for one in scope.relations):
        raise SqlError("42P19", "aggregate functions are not allowed in a recursive query's recursive term")
    if aggregated or select.groups is not None or select.having is not None:
        select.fixed = fixed_columns(scope, select.groups, exprs)


# ---------------------------------------------------------------------------- LIMIT


def _limit(binder: Binder, node: Any, scope: Scope) -> q.LimitClause:
    """The clauses of a query; SqlError 2201W or 2201X for negative constants."""
    limit, offset = node.args.get("limit"), node.args.get("offset")
    count, ties = None, False
    if isinstance(limit, exp.Fetch):
        options = limit.args.get("limit_options")
        if options is not None and options.args.get("percent"):
            raise SqlError("0A000", "FETCH FIRST ... PERCENT is not supported")
        ties = options is not None and bool(options.args.get("with_ties"))
        count = _count(binder, limit.args.get("count") or exp.Literal.number(1), scope, "LIMIT")
    elif limit is not None:
        if limit.args.get("expressions"):
            raise SqlError("42601", 'syntax error at or near "BY"')
        count = _count(binder, limit.expression, scope, "LIMIT")
    skipped = _count(binder, offset.expression, scope, "OFFSET") if offset is not None else None
    return q.LimitClause(count, skipped, ties and count is not None)


_NUMBERS = frozenset({Base.NUMERIC, Base.REAL, Base.DOUBLE})


def _count(binder: Binder, node: Any, scope: Scope, word: str) -> n.Expr | None:
    """A number of rows; None for all."""
    if isinstance(node, exp.Column | exp.Var) and node.name.lower() == "all":
        return None
    inner = scope.inside([], [], clause="LIMIT")
    inner.parent = None
    found = binder.tree(node, inner)
    if isinstance(found, n.Const) and found.value is None:
        return None
    found = coerce(found, BIGINT, "explicit" if found.type.base in _NUMBERS else "implicit", binder.params)
    if isinstance(found, n.Const) and isinstance(found.value, int) and found.value < 0:
        raise SqlError("2201W" if word == "LIMIT" else "2201X", f"{word} must not be negative")
    return found


# ---------------------------------------------------------------------------- other queries


def _ordered(binder: Binder, node: Any, scope: Scope, inner: q.Query) -> q.Query:
    """ORDER BY, LIMIT and OFFSET over a query whose columns alone can be named."""
    order = node.args.get("order")
    limit = _limit(binder, node, scope)
    if order is None and not limit.is_given:
        return inner
    keys = []
    for ordered in order.expressions if order is not None else ():
        place = output_place(ordered.this, inner.outputs, "ORDER BY")
        if place is None:
            if isinstance(ordered.this, exp.Column):
                raise SqlError("42703", f'column "{identifier(ordered.this.this)}" does not exist')
            raise SqlError(
                "0A000",
                "invalid UNION/INTERSECT/EXCEPT ORDER BY clause",
                detail="Only result column names can be used, not expressions or functions.",
            )
        need_ordering(inner.outputs[place].type)
        keys.append(_key(ordered, place, None))
    return q.Ordered(inner.outputs, inner=inner, order=keys, limit=limit)


def _enclosed(binder: Binder, node: Any, scope: Scope) -> q.Query:
    """A parenthesised query with clauses of its own."""
    if node.args.get("joins"):
        star = exp.Select(expressions=[exp.Star()], from_=exp.From(this=node))
        return _select(binder, star, scope)
    return _ordered(binder, node, scope, _query(binder, node.this, scope, True))


def _values(binder: Binder, node: Any, scope: Scope) -> q.Query:
    scope.clause = "VALUES"
    rows = [
        binder.all(row.expressions if isinstance(row, exp.Tuple) else [row], scope)
        for row in node.expressions
    ]
    if len({len(row) for row in rows}) != 1:
        raise SqlError("42601", "VALUES lists must all be the same length")
    columns = [unify(column, binder.params, "VALUES")[1] for column in zip(*rows, strict=True)]
    outputs = [q.Output(f"column{i}", column[0]) for i, column in enumerate(columns, 1)]
    found = q.Values(outputs, rows=list(zip(*columns, strict=True)))
    return _ordered(binder, node, scope, found)


_WORDS: dict[type[exp.Expression], str] = {
    exp.Union: "UNION",
    exp.Except: "EXCEPT",
    exp.Intersect: "INTERSECT",
}


def _branches(node: Any) -> list[Any]:
    """The queries of a chain of the same operation (UNION ALL of many, deep to the left)."""
    cls, distinct = type(node), bool(node.args.get("distinct"))
    found = []
    current = node
    while True:
        found.append(current.expression)
        left = current.this
        plain = not any(left.args.get(key) for key in ("order", "limit", "offset", "with_"))
        alike = type(left) is cls and bool(left.args.get("distinct")) is distinct
        if alike and plain and cls is not exp.Except:
            current = left
            continue
        found.append(left)
        return found[::-1]


def _set_operation(binder: Binder, node: Any, scope: Scope) -> q.Query:
    word = _WORDS[type(node)]
    distinct = bool(node.args.get("distinct"))
    branches = [_query(binder, branch, scope, False) for branch in _branches(node)]
    width = len(branches[0].outputs)
    if any(len(branch.outputs) != width for branch in branches):
        raise SqlError("42601", f"each {word} query must have the same number of columns")
    types = [common_type(list(column), word) for column in zip(*[one.types for one in branches], strict=True)]
    for branch in branches:
        branch.settle(types, binder.params)
    first = branches[0].outputs
    outputs = [
        q.Output(output.name, n.QueryColumn(type_, place))
        for place, (output, type_) in enumerate(zip(first, types, strict=True))
    ]
    for output in outputs if distinct or word != "UNION" else ():
        need_equality(output.type)
    found = q.SetOperation(outputs, word=word, distinct=distinct, branches=branches)
    return _ordered(binder, node, scope, found)
