"""SELECT on own plans: tables joined by key, conditions, order, limit; else NotOwn.

The shape that is ours: plain tables joined by inner or left joins, any scalar expressions that
``herdpy_sql.expr`` evaluates, ORDER BY, LIMIT, OFFSET, FOR UPDATE; and aggregates of all rows
(``aggregate``). GROUP BY, DISTINCT, windows, set operations, subqueries and WITH are the columnar
engine's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import expressions as exp

from herdpy_sql.errors import SqlError
from herdpy_sql.expr import NotOwn, Params, bind, coerce, settle, split_conjuncts
from herdpy_sql.expr.nodes import ColumnRef
from herdpy_sql.plan.aggregate import bind_aggregates, has_aggregates
from herdpy_sql.plan.lock_clauses import Locked, clauses_of, locks_of, refuse_locks
from herdpy_sql.plan.output import output_name
from herdpy_sql.plan.scope import Item, TableScope, alias_of, name_of, table_of
from herdpy_sql.plan.steps import Planner, Query
from herdpy_sql.types import BIGINT, BOOLEAN, Base

if TYPE_CHECKING:
    from collections.abc import Sequence

    from herdpy_sql.catalog import Catalog
    from herdpy_sql.execute.base import Plan
    from herdpy_sql.execute.locking import RowLock
    from herdpy_sql.expr.nodes import Expr
    from herdpy_sql.plan.settings import PlanSettings
    from herdpy_sql.types import SqlType

_KNOWN = {"expressions", "from_", "joins", "where", "order", "limit", "offset", "locks", "kind", "hint"}
MAX_TABLES = 8


def bind_select(
    tree: exp.Expression,
    catalog: Catalog,
    params: Params,
    settings: PlanSettings,
    targets: Sequence[SqlType] | None = None,
) -> Plan:
    """The own plan of a query; NotOwn when it is not ours (NotWorth when it should not be)."""
    if isinstance(tree, exp.Values):
        raise NotOwn("VALUES")
    if not isinstance(tree, exp.Select):
        raise NotOwn(type(tree).__name__)
    for key, value in tree.args.items():
        if value and key not in _KNOWN:
            raise NotOwn(key.rstrip("_").upper())
    if not tree.expressions:
        raise NotOwn("an empty SELECT list")
    query = Query()
    _from(query, tree, catalog, params)
    where = tree.args.get("where")
    if where is not None:
        query.where += split_conjuncts(condition(where.this, query.scope, params, "WHERE"))
    if has_aggregates(tree):
        return bind_aggregates(tree, query, catalog, params, settings, bind_outputs, targets)
    query.outputs = bind_outputs(tree.expressions, query.scope, params, targets)
    _ordering(query, tree, params)
    query.limit, query.offset = limits_of(tree, params)
    query.locking = _locking(query, tree)
    return Planner(query, params, settings, catalog).plan()


def condition(node: exp.Expression, scope: TableScope, params: Params, clause: str) -> Expr:
    """A bound condition; SqlError 42804 when it is not boolean."""
    found = bind(node, scope, params, BOOLEAN)
    if found.type.base is Base.UNKNOWN:
        found = coerce(found, BOOLEAN, "implicit", params)
    if found.type != BOOLEAN:
        raise SqlError("42804", f"argument of {clause} must be type boolean, not type {found.type}")
    return found


def _from(query: Query, tree: exp.Select, catalog: Catalog, params: Params) -> None:
    source = tree.args.get("from_")
    if source is None:
        if tree.args.get("joins"):
            raise NotOwn("joins without FROM")
        return
    _add(query, source.this, catalog)
    outer_seen = False
    for join in tree.args.get("joins") or ():
        side, kind, method = (str(join.args.get(k) or "").upper() for k in ("side", "kind", "method"))
        if side not in {"", "LEFT"} or kind not in {"", "INNER", "OUTER", "CROSS"} or method:
            raise NotOwn(f"{method} {side} {kind} JOIN".strip())
        left = side == "LEFT"
        if outer_seen and not left:
            raise NotOwn("an inner join after a left join")
        outer_seen = left
        before = list(query.scope.items)
        item = _add(query, join.this, catalog, outer=left)
        conditions: list[Expr] = []
        if join.args.get("using"):
            conditions += _using(query, join, before, item, params)
        on = join.args.get("on")
        if on is not None:
            conditions += split_conjuncts(condition(on, query.scope, params, "JOIN/ON"))
        if left:
            query.joins[item.alias] = conditions
        else:
            query.where += conditions
    if len(query.scope.items) > MAX_TABLES:
        raise NotOwn(f"more than {MAX_TABLES} tables")


def _add(query: Query, node: exp.Expression, catalog: Catalog, *, outer: bool = False) -> Item:
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
        raise NotOwn("a subquery or function in FROM")
    for key, value in node.args.items():
        if value and key not in {"this", "alias", "db", "joins"}:
            raise NotOwn(f"{key} in FROM")
    if node.args.get("joins"):
        raise NotOwn("a nested join")
    table = table_of(catalog, node)
    return query.scope.add(alias_of(node, table), table, outer=outer)


def _using(query: Query, join: exp.Join, before: list[Item], item: Item, params: Params) -> list[Expr]:
    conditions = []
    for node in join.args["using"]:
        name = name_of(node)
        left = TableScope(before, query.scope.merged).resolve(None, name)
        position = item.table.positions.get(name)
        if position is None:
            raise SqlError(
                "42703",
                f'column "{name}" specified in USING clause does not exist in right table',
                column=name,
            )
        right = item.column(position)
        pair = _Pair(left, right)
        node_pair = exp.EQ(this=exp.column("l"), expression=exp.column("r"))
        conditions.append(bind(node_pair, pair, params, BOOLEAN))
        query.scope.merged[name] = left
    return conditions


@dataclass
class _Pair:
    """The scope of the two sides of USING."""

    left: ColumnRef
    right: ColumnRef
    volatile: bool = False

    def resolve(self, table: str | None, name: str) -> ColumnRef:
        del table
        return self.left if name == "l" else self.right


def bind_outputs(
    nodes: Sequence[exp.Expression],
    scope: TableScope,
    params: Params,
    targets: Sequence[SqlType] | None = None,
) -> list[tuple[str, Expr]]:
    """The columns of a SELECT list or RETURNING: names and expressions, stars written out.

    ``targets`` are the types that bare literals and parameters take at their places.
    """
    found: list[tuple[str, Expr]] = []

    def bind_as(one: exp.Expression) -> Expr:
        target = targets[len(found)] if targets is not None and len(found) < len(targets) else None
        return settle(bind(one, scope, params, target), params)

    for node in nodes:
        if isinstance(node, exp.Star):
            if any(node.args.values()):
                raise NotOwn("* with EXCEPT or REPLACE")
            found += [(column.name, column) for column in scope.star(None)]
        elif isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
            found += [(column.name, column) for column in scope.star(name_of(node.args["table"]))]
        elif isinstance(node, exp.Alias):
            found.append((name_of(node.args["alias"]), bind_as(node.this)))
        else:
            found.append((output_name(node), bind_as(node)))
    return found


def _ordering(query: Query, tree: exp.Select, params: Params) -> None:
    order = tree.args.get("order")
    for item in order.expressions if order is not None else ():
        ordered = item if isinstance(item, exp.Ordered) else exp.Ordered(this=item)
        if ordered.args.get("with_fill"):
            raise NotOwn("WITH FILL")
        query.order.append(
            (
                _order_expr(query, ordered.this, params),
                bool(ordered.args.get("desc")),
                bool(ordered.args.get("nulls_first")),
            )
        )


def _order_expr(query: Query, node: exp.Expression, params: Params) -> Expr:
    """An output column by number or name, else an expression over the tables."""
    if isinstance(node, exp.Literal):
        if node.is_string or not str(node.this).isdigit():
            raise SqlError("42601", "non-integer constant in ORDER BY")
        number = int(str(node.this))
        if not 1 <= number <= len(query.outputs):
            raise SqlError("42P10", f"ORDER BY position {number} is not in select list")
        return query.outputs[number - 1][1]
    if isinstance(node, exp.Column) and not node.args.get("table"):
        name = name_of(node.this)
        named = [expr for output, expr in query.outputs if output == name]
        if named:
            if any(expr != named[0] for expr in named):
                raise SqlError("42702", f'ORDER BY "{name}" is ambiguous')
            return named[0]
    return settle(bind(node, query.scope, params), params)


def limits_of(tree: exp.Select, params: Params) -> tuple[Expr | None, Expr | None]:
    limit, offset = tree.args.get("limit"), tree.args.get("offset")
    found: list[Expr | None] = []
    for node in (limit, offset):
        if node is None:
            found.append(None)
            continue
        if isinstance(node, exp.Fetch):
            options = node.args.get("limit_options")
            if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
                raise NotOwn("FETCH with PERCENT or TIES")
            value = node.args.get("count") or exp.Literal.number(1)
        else:
            if node.args.get("offset") or node.args.get("expressions"):
                raise SqlError("42601", "LIMIT #,# syntax is not supported", hint="Use LIMIT and OFFSET.")
            value = node.expression
        if isinstance(value, exp.Var) and str(value.this).upper() == "ALL":
            found.append(None)
            continue
        bound = bind(value, TableScope(), params, BIGINT)
        found.append(coerce(bound, BIGINT, "assignment", params))
    return found[0], found[1]


def _locking(query: Query, tree: exp.Select) -> dict[str, RowLock]:
    """How the tables in FROM are locked, by alias."""
    clauses = clauses_of(tree)
    if not clauses:
        return {}
    refuse_locks(tree)
    items = [Locked(item.alias, item.alias in query.joins, item.table) for item in query.scope.items]
    return locks_of(clauses, items)
