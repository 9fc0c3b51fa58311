"""SELECT of aggregates without GROUP BY on own plans: ``SELECT sum(x), count(*) FROM t WHERE k = $1``.

Each aggregate's argument becomes an output of an own SELECT (``steps.Planner``), and the SELECT list is bound
over what they give. Only what is exact and needs no order is taken: count, sum and avg of integers and
NUMERIC, min and max. A lone min or max along a key or index is the first row in that order. It is own
where few rows are read: a columnar query costs a millisecond before it has read the first.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sqlglot import expressions as exp

from herdpy_sql.execute.aggregate import Aggregate, AggregatePlan
from herdpy_sql.execute.base import OutputColumn
from herdpy_sql.execute.query import SelectPlan
from herdpy_sql.expr import NotOwn, Params, bind, coerce, settle
from herdpy_sql.expr.nodes import Case, ColumnRef, Const
from herdpy_sql.plan.access import Reach
from herdpy_sql.plan.estimate import OWN_ROWS
from herdpy_sql.plan.output import output_name, project
from herdpy_sql.plan.steps import NotWorth, Planner, Query
from herdpy_sql.types import BIGINT, BOOLEAN, NUMERIC, TEXT, Base, SqlType

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from herdpy_sql.catalog import Catalog
    from herdpy_sql.execute.base import Plan
    from herdpy_sql.expr.nodes import Expr
    from herdpy_sql.plan.scope import TableScope
    from herdpy_sql.plan.settings import PlanSettings

    BindOutputs = Callable[..., list[tuple[str, Expr]]]

_NAMES: dict[type[exp.Expression], str] = {
    exp.Count: "count",
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
}
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
    return any(
        isinstance(one, tuple(_NAMES)) for item in tree.expressions for one in item.walk(prune=_is_query)
    )


def _is_query(node: exp.Expression) -> bool:
    return isinstance(node, exp.Query)


def bind_aggregates(
    tree: exp.Select,
    query: Query,
    catalog: Catalog,
    params: Params,
    settings: PlanSettings,
    bind_outputs: BindOutputs,
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
    given = planner[1] if planner is not None else _Planner(query, params, settings, catalog).plan()
    assert isinstance(given, SelectPlan)
    return AggregatePlan(
        given,
        tuple(found.aggregates),
        tuple(OutputColumn(name, expr.type) for name, expr in outputs),
        tuple(params.types),
        project([expr for _, expr in outputs]),
    )


@dataclass
class _Aggregates:
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

    def taken_out(self, item: exp.Expression) -> exp.Expression:
        """An item of the SELECT list with a column in place of each aggregate; it keeps its name."""
        if item.find(exp.Query, exp.Window, exp.Star) is not None and _has_more_than_counts(item):
            raise NotOwn("an aggregate beside others")
        inner = item.this if isinstance(item, exp.Alias) else item
        alias = item.args["alias"].copy() if isinstance(item, exp.Alias) else _named(inner)
        return exp.Alias(this=inner.copy().transform(self._replaced, copy=False), alias=alias)

    def _replaced(self, node: exp.Expression) -> exp.Expression:
        if isinstance(node, exp.Filter):
            if type(node.this) not in _NAMES:
                raise NotOwn("filter")
            return self._place(node.this, node.expression.this)
        return self._place(node, None) if type(node) in _NAMES else node

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
        return exp.column(exp.to_identifier(number, quoted=True), table=_PLACES)

    def _bound(self, node: exp.Expression, test: Expr | None) -> tuple[Aggregate, SqlType]:
        """An aggregate and the type of what it gives; its argument is computed where FILTER's test holds."""
        name, inner = _NAMES[type(node)], node.this
        if node.args.get("expressions"):
            raise NotOwn(name)
        if isinstance(inner, exp.Star) and name == "count":
            return Aggregate(name, BIGINT), BIGINT
        distinct = isinstance(inner, exp.Distinct)
        if distinct:
            if len(inner.expressions) != 1 or inner.args.get("on"):
                raise NotOwn(name)
            inner = inner.expressions[0]
        if isinstance(inner, exp.Order) or inner is None or inner.find(*_NAMES) is not None:
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
    return exp.to_identifier(output_name(plain), quoted=True)


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


class _Planner(Planner):
    """Plans the SELECT below the aggregates."""

    def _point(self, *_: object) -> None:
        """The arguments of one row are a SELECT as any other here."""

    def _judge(self, *, sorted_after: bool, filtered: bool) -> None:
        """NotWorth also where rows would be counted that the columnar engine scans faster."""
        super()._judge(sorted_after=sorted_after, filtered=filtered)
        if self.settings.engine == "own" or not self.query.scope.items or self.query.limit is not None:
            return
        if self.reach > Reach.SOME and (self.rows is None or self.rows > OWN_ROWS):
            raise NotWorth("a range of unknown size")


def _first_in_order(
    query: Query, found: _Aggregates, params: Params, settings: PlanSettings, catalog: Catalog
) -> tuple[Query, Plan] | None:
    """A lone min or max of a column as the first row in its order, where rows come so; else None."""
    if len(found.aggregates) != 1 or found.aggregates[0].name not in {"min", "max"}:
        return None
    (only,), (column, *more) = found.aggregates, found.arguments
    descending = only.name == "max"
    if more or not isinstance(column, ColumnRef) or (descending and column.nullable):
        return None  # NULLs would come first
    ordered = replace(query, order=[(column, descending, False)], limit=Const(BIGINT, 1))
    try:
        plan = _Planner(ordered, params, settings, catalog).plan()
    except NotOwn:
        return None
    assert isinstance(plan, SelectPlan)
    return None if plan.sort else (ordered, plan)
