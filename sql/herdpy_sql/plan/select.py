"""SELECT on own plans: tables joined by key, conditions, order, limit, aggregates of all rows; else NotOwn.

The shape that is ours: plain tables joined by inner or left joins, any scalar expressions that
``herdpy_sql.expr`` evaluates, ORDER BY, LIMIT, OFFSET, FOR UPDATE. GROUP BY, DISTINCT, windows, set
operations, subqueries and WITH are the columnar engine's.

Each argument of an aggregate becomes an output of an own SELECT (``steps.StepPlanner``), and the SELECT list
is bound over what they give. Only what is exact and needs no order is taken: count, sum and avg of integers
and NUMERIC, min and max. A lone min or max along a key or index is the first row in that order. It is own
where few rows are read: a columnar query costs a millisecond before it has read the first.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sqlglot import expressions as exp

from herdpy_sql.errors import SqlError
from herdpy_sql.execute.base import OutputColumn
from herdpy_sql.execute.query import Aggregate, AggregatePlan, SelectPlan
from herdpy_sql.expr import NoQueries, NotOwn, Params, bind, coerce, settle, split_conjuncts
from herdpy_sql.expr.nodes import Case, ColumnRef, Const
from herdpy_sql.expr.output_names import output_name
from herdpy_sql.expr.syntax import AGGREGATE_CLASSES
from herdpy_sql.plan.access import OWN_ROWS, PathReach
from herdpy_sql.plan.clauses import bind_outputs, condition, limits_of, project
from herdpy_sql.plan.locking import LockableItem, clauses_of, locks_of, refuse_locks
from herdpy_sql.plan.scope import ScopeItem, TableScope, alias_of, name_of, quoted, table_of
from herdpy_sql.plan.steps import NotWorth, OwnQuery, StepPlanner
from herdpy_sql.types import BIGINT, BOOLEAN, NUMERIC, TEXT, Base, SqlType

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
    if has_aggregates(tree):
        return bind_aggregates(tree, query, catalog, params, settings, targets)
    query.outputs = bind_outputs(tree.expressions, query.scope, params, targets)
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


def _add(query: OwnQuery, node: exp.Expression, catalog: Catalog, *, outer: bool = False) -> ScopeItem:
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
        raise NotOwn("a subquery or function in FROM")
    for key, value in node.args.items():
        if value and key not in {"this", "alias", "db", "joins"}:
            raise NotOwn(f"{key} in FROM")
    if node.args.get("joins"):
        raise NotOwn("a nested join")
    table = table_of(catalog, node)
    return query.scope.add(alias_of(node, table), table, outer=outer)


def _using(
    query: OwnQuery, join: exp.Join, before: list[ScopeItem], item: ScopeItem, params: Params
) -> list[Expr]:
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
class _Pair(NoQueries):
    """The scope of the two sides of USING."""

    left: ColumnRef
    right: ColumnRef
    volatile: bool = False

    def resolve(self, table: str | None, name: str) -> ColumnRef:
        del table
        return self.left if name == "l" else self.right


def _ordering(query: OwnQuery, tree: exp.Select, params: Params) -> None:
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


def _order_expr(query: OwnQuery, node: exp.Expression, params: Params) -> Expr:
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


def _locking(query: OwnQuery, tree: exp.Select) -> dict[str, RowLock]:
    """How the tables in FROM are locked, by alias."""
    clauses = clauses_of(tree)
    if not clauses:
        return {}
    refuse_locks(tree)
    items = [LockableItem(item.alias, item.alias in query.joins, item.table) for item in query.scope.items]
    return locks_of(clauses, items)


_OWN = (exp.Count, exp.Sum, exp.Avg, exp.Min, exp.Max)
_INTEGERS = frozenset({Base.SMALLINT, Base.INTEGER, Base.BIGINT})
_ORDERED = _INTEGERS | {
    Base.NUMERIC,
    Base.REAL,
    Base.DOUBLE,
    Base.TEXT,
    Base.VARCHAR,
    Base.CHAR,
    Base.DATE,
    Base.TIME,
    Base.TIMESTAMP,
    Base.TIMESTAMPTZ,
    Base.ENUM,
}
"""Types of which min and max are the least and greatest datum."""
_HASHED = _ORDERED - {Base.REAL, Base.DOUBLE}
"""Types whose datums are equal, as Python has it, where SQL has them equal."""
_PLACES = "aggregates"


def has_aggregates(tree: exp.Select) -> bool:
    """Whether its SELECT list has aggregates that might be own."""
    return any(isinstance(one, _OWN) for item in tree.expressions for one in item.walk(prune=_is_query))


def _is_query(node: exp.Expression) -> bool:
    return isinstance(node, exp.Query)


def bind_aggregates(
    tree: exp.Select,
    query: OwnQuery,
    catalog: Catalog,
    params: Params,
    settings: PlanSettings,
    targets: Sequence[SqlType] | None,
) -> Plan:
    """The own plan of a SELECT whose FROM and WHERE are in ``query``; NotOwn when it is not ours."""
    for clause in ("order", "limit", "offset", "locks"):
        if tree.args.get(clause):
            raise NotOwn(f"{clause.upper()} of an aggregate")
    found = _Aggregates(query.scope, params)
    nodes = [found.taken_out(node) for node in tree.expressions]
    outputs = bind_outputs(nodes, found, params, targets)
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
    beneath = (
        (label if label != "Output: " else "Argument of an aggregate:", expr) for label, expr in given.bound
    )
    plan.bound = (*((f"Output: {name}", expr) for name, expr in outputs), *beneath)
    return plan


@dataclass
class _Aggregates(NoQueries):
    """The aggregates of a SELECT list, and the scope of what is computed of them.

    Attributes:
        arguments: what the SELECT below must give.
        results: of each aggregate, as a column.
    """

    scope: TableScope
    params: Params
    aggregates: list[Aggregate] = field(default_factory=list)
    arguments: list[Expr] = field(default_factory=list)
    results: list[ColumnRef] = field(default_factory=list)
    volatile: bool = False

    def resolve(self, table: str | None, name: str) -> ColumnRef:
        """The aggregate that stands at ``name``; other columns are for the columnar engine to refuse."""
        if table != _PLACES or not name.isdecimal():
            raise NotOwn("a column beside aggregates")
        return self.results[int(name)]

    def star(self, alias: str | None) -> list[ColumnRef]:
        """Stars beside aggregates are refused before."""
        raise NotOwn("a star beside aggregates")

    def taken_out(self, item: exp.Expression) -> exp.Expression:
        """An item of the SELECT list with a column in place of each aggregate; it keeps its name."""
        if item.find(exp.Query, exp.Window, exp.Star) is not None and _has_more_than_counts(item):
            raise NotOwn("an aggregate beside others")
        inner = item.this if isinstance(item, exp.Alias) else item
        alias = item.args["alias"].copy() if isinstance(item, exp.Alias) else _named(inner)
        return exp.Alias(this=inner.copy().transform(self._replaced, copy=False), alias=alias)

    def _replaced(self, node: exp.Expression) -> exp.Expression:
        if isinstance(node, exp.Filter):
            if type(node.this) not in _OWN:
                raise NotOwn("filter")
            return self._place(node.this, node.expression.this)
        return self._place(node, None) if type(node) in _OWN else node

    def _place(self, node: exp.Expression, condition: exp.Expression | None) -> exp.Expression:
        test = None
        if condition is not None:
            test = coerce(bind(condition, self.scope, self.params, BOOLEAN), BOOLEAN, "implicit", self.params)
        aggregate, type_ = self._bound(node, test)
        if test is not None:
            aggregate = replace(aggregate, condition=self._argument(test))
        number = str(len(self.results))
        nullable = aggregate.name != "count"
        self.results.append(ColumnRef(type_, len(self.results), number, _PLACES, nullable=nullable))
        self.aggregates.append(aggregate)
        return exp.column(quoted(number), table=_PLACES)

    def _bound(self, node: exp.Expression, test: Expr | None) -> tuple[Aggregate, SqlType]:
        """An aggregate and the type of what it gives; its argument is computed where FILTER's test holds."""
        name, inner = AGGREGATE_CLASSES[type(node)], node.this
        if node.args.get("expressions"):
            raise NotOwn(name)
        if isinstance(inner, exp.Star) and name == "count":
            return Aggregate(name, BIGINT), BIGINT
        distinct = isinstance(inner, exp.Distinct)
        if distinct:
            if len(inner.expressions) != 1 or inner.args.get("on"):
                raise NotOwn(name)
            inner = inner.expressions[0]
        if isinstance(inner, exp.Order) or inner is None or inner.find(*_OWN) is not None:
            raise NotOwn(name)
        argument = settle(bind(inner, self.scope, self.params), self.params)
        base = argument.type.base
        if name == "count":
            known = not distinct or base in _HASHED
            result = BIGINT
        elif name in {"min", "max"}:
            known = base in _ORDERED
            distinct = False
            result = _extreme_type(argument.type)
        else:
            known = base in _INTEGERS or (base is Base.NUMERIC and not distinct)
            result = BIGINT if name == "sum" and base in _INTEGERS - {Base.BIGINT} else NUMERIC
        if not known:
            raise NotOwn(f"{name} of {argument.type.name}")
        of = argument.type
        if test is not None and not isinstance(argument, ColumnRef | Const):
            argument = Case(of, None, ((test, argument),), Const(of, None))
        return Aggregate(name, of, self._argument(argument), distinct=distinct), result

    def _argument(self, expr: Expr) -> int:
        if expr not in self.arguments:
            self.arguments.append(expr)
        return self.arguments.index(expr)


def _named(node: exp.Expression) -> exp.Identifier:
    """The name that an item has without an alias: FILTER does not change it."""
    plain = node.copy().transform(lambda one: one.this if isinstance(one, exp.Filter) else one, copy=False)
    return quoted(output_name(plain))


def _has_more_than_counts(item: exp.Expression) -> bool:
    """Whether it has a query, a window or a star that is not ``count(*)``'s."""
    return any(
        not isinstance(one.parent, exp.Count) or not isinstance(one, exp.Star)
        for one in item.find_all(exp.Query, exp.Window, exp.Star)
    )


def _extreme_type(type_: SqlType) -> SqlType:
    if type_.base is Base.VARCHAR:
        return TEXT
    return type_ if type_.base is Base.CHAR else type_.plain


class _ArgumentPlanner(StepPlanner):
    """Plans the SELECT below the aggregates."""

    def _point(self, *_: object) -> None:
        """The arguments of one row are a SELECT as any other here."""

    def _judge(self, *, sorted_after: bool, filtered: bool) -> None:
        """NotWorth also where rows would be counted that the columnar engine scans faster."""
        super()._judge(sorted_after=sorted_after, filtered=filtered)
        if self.settings.engine == "own" or not self.query.scope.items or self.query.limit is not None:
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
