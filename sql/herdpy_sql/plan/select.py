"""SELECT on own plans: tables joined by key, conditions, order, limit, aggregates of all rows; else NotOwn.

The shape that is ours: plain tables joined by inner or left joins, any scalar expressions that
``herdpy_sql.expr`` evaluates, ORDER BY, LIMIT, OFFSET, FOR UPDATE. GROUP BY, DISTINCT, windows, set
operations, subqueries and WITH are the columnar engine's.

Each argument of an aggregate becomes an output of an own SELECT (``steps.StepPlanner``), and the SELECT list
is computed of what they give. Only what is exact and needs no order is taken (``expr.aggregates`` says what
is own). A lone min or max along a key or index is the first row in that order. It is own where few rows are
read: a columnar query costs a millisecond before it has read the first.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sqlglot import expressions as exp

from herdpy_sql.errors import SqlError
from herdpy_sql.execute.base import OutputColumn
from herdpy_sql.execute.query import Accumulator, AggregatePlan, SelectPlan
from herdpy_sql.expr import Params, rebuild, settle, split_conjuncts, unify, walk
from herdpy_sql.expr import nodes as n
from herdpy_sql.expr.aggregates import AGGREGATES
from herdpy_sql.expr.nodes import Case, ColumnRef, Const
from herdpy_sql.expr.operate import compare
from herdpy_sql.expr.scope import Merged, Rest, Shown, TableRelation, joined_columns
from herdpy_sql.expr.syntax import is_row
from herdpy_sql.plan.access import OWN_ROWS, PathReach
from herdpy_sql.plan.clauses import bind_outputs, condition, limits_of, project
from herdpy_sql.plan.locking import LockableItem, clauses_of, locks_of, refuse_locks
from herdpy_sql.plan.own import NotOwn, bind_own, has_aggregate, own
from herdpy_sql.plan.scope import alias_of, name_of, table_of
from herdpy_sql.plan.steps import NotWorth, OwnQuery, StepPlanner
from herdpy_sql.types import BIGINT, SqlType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from herdpy_sql.catalog import Catalog
    from herdpy_sql.execute.base import Plan
    from herdpy_sql.execute.locking import RowLock
    from herdpy_sql.expr.nodes import Expr
    from herdpy_sql.plan.settings import PlanSettings


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
    query = OwnQuery()
    _from(query, tree, catalog, params)
    where = tree.args.get("where")
    if where is not None:
        query.where += split_conjuncts(condition(where.this, query.scope, params, "WHERE"))
    query.scope.clause = "SELECT"
    query.outputs = bind_outputs(tree.expressions, query.scope, params, targets, aggregates=True)
    if any(has_aggregate(expr) for _, expr in query.outputs):
        return bind_aggregates(tree, query, catalog, params, settings)
    _ordering(query, tree, params)
    query.limit, query.offset = limits_of(tree, params)
    query.locking = _locking(query, tree)
    return StepPlanner(query, params, settings, catalog).plan()


def _from(query: OwnQuery, tree: exp.Select, catalog: Catalog, params: Params) -> None:
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
        before = query.scope.star
        query.scope.star = list(before)
        item = _add(query, join.this, catalog, outer=left)
        conditions: list[Expr] = []
        if join.args.get("using"):
            conditions += _using(query, join, before, params)
        on = join.args.get("on")
        if on is not None:
            conditions += split_conjuncts(condition(on, query.scope, params, "JOIN/ON"))
        if left:
            query.joins[item.name] = conditions
        else:
            query.where += conditions
    if len(query.items) > MAX_TABLES:
        raise NotOwn(f"more than {MAX_TABLES} tables")


def _add(query: OwnQuery, node: exp.Expression, catalog: Catalog, *, outer: bool = False) -> TableRelation:
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
        raise NotOwn("a subquery or function in FROM")
    for key, value in node.args.items():
        if value and key not in {"this", "alias", "db", "joins"}:
            raise NotOwn(f"{key} in FROM")
    if node.args.get("joins"):
        raise NotOwn("a nested join")
    table = table_of(catalog, node)
    item = query.scope.add_table(alias_of(node, table), table, outer=outer)
    query.items.append(item)
    return item


def _using(query: OwnQuery, join: exp.Join, before: list[Shown], params: Params) -> list[Expr]:
    """The conditions of USING; ``before`` is what ``*`` stood for without the table that is joined."""
    scope = query.scope
    conditions: list[Expr] = []
    merged: list[Shown] = []
    added = scope.star[len(before) :]
    for node in join.args["using"]:
        name = name_of(node)
        left, right = joined_columns(name, before, added)
        conditions.append(own(compare("=", left, right, params)))
        merged.append(Merged(name, unify([left, right], params, "JOIN/USING")[1][0]))
    names = frozenset(one.name for one in merged if isinstance(one, Merged))
    scope.star = [*merged, *(Rest(part, names) for part in scope.star)]
    return conditions


def _ordering(query: OwnQuery, tree: exp.Select, params: Params) -> None:
    order = tree.args.get("order")
    query.scope.clause = "ORDER BY"
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


def _order_expr(query: OwnQuery, node: exp.Expression, params: Params) -> Expr:
    """An output column by number or name, else an expression over the tables."""
    if is_row(node):
        raise NotOwn("ORDER BY of a row")
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
    return settle(bind_own(node, query.scope, params), params)


def _locking(query: OwnQuery, tree: exp.Select) -> dict[str, RowLock]:
    """How the tables in FROM are locked, by alias."""
    clauses = clauses_of(tree)
    if not clauses:
        return {}
    refuse_locks(tree)
    items = [LockableItem(item.name, item.name in query.joins, item.table) for item in query.items]
    return locks_of(clauses, items)


_PLACES = "aggregates"


def bind_aggregates(
    tree: exp.Select,
    query: OwnQuery,
    catalog: Catalog,
    params: Params,
    settings: PlanSettings,
) -> Plan:
    """The own plan of a SELECT with aggregates, bound in ``query``; NotOwn when it is not ours."""
    for clause in ("order", "limit", "offset", "locks"):
        if tree.args.get(clause):
            raise NotOwn(f"{clause.upper()} of an aggregate")
    found, written = _Aggregates(), query.outputs
    outputs = [(name, found.over_results(expr)) for name, expr in written]
    query.outputs = [("", expr) for expr in found.arguments]
    planner = _first_in_order(query, found, params, settings, catalog)
    given = planner[1] if planner is not None else _ArgumentPlanner(query, params, settings, catalog).plan()
    assert isinstance(given, SelectPlan)
    plan = AggregatePlan(
        given,
        tuple(found.aggregates),
        tuple(OutputColumn(name, expr.type) for name, expr in outputs),
        tuple(params.types),
        project([expr for _, expr in outputs]),
    )
    beneath = ((label, expr) for label, expr in given.bound if label != "Output: ")
    plan.bound = (*((f"Output: {name}", expr) for name, expr in written), *beneath)
    return plan


@dataclass
class _Aggregates:
    """The aggregates of a SELECT list.

    Attributes:
        arguments: what the SELECT below must give.
        results: of each aggregate, as a column.
    """

    aggregates: list[Accumulator] = field(default_factory=list)
    arguments: list[Expr] = field(default_factory=list)
    results: list[ColumnRef] = field(default_factory=list)

    def over_results(self, output: Expr) -> Expr:
        """An output as an expression over the results. NotOwn beside columns, which must be grouped."""
        found = rebuild(output, self._taken_out)
        if any(isinstance(one, ColumnRef) and one.table != _PLACES for one in walk(found)):
            raise NotOwn("a column beside aggregates")
        return own(found)

    def _taken_out(self, expr: Expr) -> Expr | None:
        if not isinstance(expr, n.Aggregate):
            return None
        if not AGGREGATES[expr.name].is_own(expr):
            raise NotOwn(f"{expr.name} of {', '.join(arg.type.name for arg in expr.args)}")
        number = len(self.results)
        self.aggregates.append(self._accumulated(expr))
        nullable = expr.name != "count"
        self.results.append(ColumnRef(expr.type, number, str(number), _PLACES, nullable=nullable))
        return self.results[number]

    def _accumulated(self, call: n.Aggregate) -> Accumulator:
        """It, of what the SELECT below gives; its argument is computed where FILTER's test holds."""
        condition = None if call.test is None else self._argument(own(call.test))
        if not call.args:
            return Accumulator(call.name, BIGINT, condition=condition)
        argument = own(call.args[0])
        of = argument.type
        if call.test is not None and not isinstance(argument, ColumnRef | Const):
            argument = Case(of, None, ((call.test, argument),), Const(of, None))
        distinct = call.distinct and call.name not in {"min", "max"}
        return Accumulator(call.name, of, self._argument(argument), condition, distinct)

    def _argument(self, expr: Expr) -> int:
        if expr not in self.arguments:
            self.arguments.append(expr)
        return self.arguments.index(expr)


class _ArgumentPlanner(StepPlanner):
    """Plans the SELECT below the aggregates."""

    def _point(self, *_: object) -> None:
        """The arguments of one row are a SELECT as any other here."""

    def _judge(self, *, sorted_after: bool, filtered: bool) -> None:
        """NotWorth also where rows would be counted that the columnar engine scans faster."""
        super()._judge(sorted_after=sorted_after, filtered=filtered)
        if self.settings.engine == "own" or not self.query.items or self.query.limit is not None:
            return
        if self.reach > PathReach.SOME and (self.rows is None or self.rows > OWN_ROWS):
            raise NotWorth("a range of unknown size")


def _first_in_order(
    query: OwnQuery, found: _Aggregates, params: Params, settings: PlanSettings, catalog: Catalog
) -> tuple[OwnQuery, Plan] | None:
    """A lone min or max of a column as the first row in its order, where rows come so; else None."""
    if len(found.aggregates) != 1 or found.aggregates[0].name not in {"min", "max"}:
        return None
    (only,), (column, *more) = found.aggregates, found.arguments
    descending = only.name == "max"
    if more or not isinstance(column, ColumnRef) or (descending and column.nullable):
        return None  # NULLs would come first
    ordered = replace(query, order=[(column, descending, False)], limit=Const(BIGINT, 1))
    try:
        plan = _ArgumentPlanner(ordered, params, settings, catalog).plan()
    except NotOwn:
        return None
    assert isinstance(plan, SelectPlan)
    return None if plan.sort else (ordered, plan)
