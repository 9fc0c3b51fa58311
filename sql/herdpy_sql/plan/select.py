"""SELECT on own plans: tables joined by key, conditions, order, limit, aggregates of all rows.

A bound query comes in (``bind``), and the plan comes out, or why own plans do not run it. The shape that is
ours: plain tables joined by inner or left joins, any scalar expressions that ``herdpy_sql.expr`` evaluates,
ORDER BY, LIMIT, OFFSET, FOR UPDATE. GROUP BY, DISTINCT, windows, set operations, subqueries and WITH are the
columnar engine's.

Each argument of an aggregate becomes an output of an own SELECT (``steps.StepPlanner``), and the SELECT list
is computed of what they give. Only what is exact and needs no order is taken (``expr.aggregates`` says what
is own). A lone min or max along a key or index is the first row in that order. It is own where few rows are
read: a columnar query costs a millisecond before it has read the first.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sqlglot import expressions as exp

from herdpy_sql.bind import nodes as q
from herdpy_sql.bind.grouping import has_aggregate
from herdpy_sql.execute.base import OutputColumn, Plan
from herdpy_sql.execute.query import Accumulator, AggregatePlan, SelectPlan
from herdpy_sql.expr import Params, rebuild, split_conjuncts
from herdpy_sql.expr import nodes as n
from herdpy_sql.expr.aggregates import AGGREGATES
from herdpy_sql.expr.nodes import Case, ColumnRef, Const, foreign_reason
from herdpy_sql.node_names import NODES
from herdpy_sql.plan.access import OWN_ROWS, PathReach
from herdpy_sql.plan.clauses import project
from herdpy_sql.plan.locking import LockableItem, clauses_of, locks_of, refuse_locks
from herdpy_sql.plan.own import Refusal, refusal_of
from herdpy_sql.plan.relations import relation_of
from herdpy_sql.plan.steps import OwnQuery, StepPlanner
from herdpy_sql.types import BIGINT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from herdpy_sql.catalog import Catalog
    from herdpy_sql.execute.locking import RowLock
    from herdpy_sql.expr.nodes import Expr
    from herdpy_sql.plan.settings import PlanSettings


_KNOWN = {"expressions", "from_", "joins", "where", "order", "limit", "offset", "locks", "kind", "hint"}
MAX_TABLES = 8


def own_select(
    tree: exp.Expression, bound: q.Query, catalog: Catalog, params: Params, settings: PlanSettings
) -> Plan | Refusal:
    """The own plan of a query, or why there is none; ``tree`` is what it was bound from."""
    if not isinstance(tree, exp.Select) or not isinstance(bound, q.Select):
        return Refusal(NODES.get(type(tree), "a subquery"))
    for key, value in tree.args.items():
        if value and key not in _KNOWN:
            return Refusal(key.rstrip("_").upper())
    query = OwnQuery()
    if reason := take_from(query, bound.source, settings):
        return Refusal(reason)
    query.where += split_conjuncts(bound.where)
    query.outputs = bound.outputs
    joined = [one for conditions in query.joins.values() for one in conditions]
    if refusal := refusal_of([*joined, *query.where]):
        return refusal
    if any(has_aggregate(output.expr) for output in query.outputs):
        return _aggregates(tree, query, catalog, params, settings)
    if refusal := refusal_of(output.expr for output in query.outputs):
        return refusal
    query.order = [(_key_expr(key, bound.outputs), key.descending, key.nulls_first) for key in bound.order]
    query.limit, query.offset = bound.limit.count, bound.limit.offset
    counts = [one for one in (query.limit, query.offset) if one is not None]
    if bound.limit.ties:
        return Refusal("FETCH with PERCENT or TIES")
    if refusal := refusal_of([*(expr for expr, _, _ in query.order), *counts]):
        return refusal
    query.locking = _locking(query, tree)
    return StepPlanner(query, params, settings, catalog).plan()


def _key_expr(key: q.Key, outputs: Sequence[q.Output]) -> Expr:
    if key.place is not None:
        return outputs[key.place].expr
    assert key.expr is not None
    return key.expr


def take_from(query: OwnQuery, source: Sequence[q.Item], settings: PlanSettings) -> str:
    """Take the tables of FROM and the conditions that join them; why that is not ours, or nothing."""
    outer_seen = False
    for side, item, conditions in _joins(source):
        in_memory = relation_of(item, settings.given)
        if in_memory is not None:
            relation = in_memory.item
        elif isinstance(item, q.TableScan):
            relation = item.relation
        else:
            return "a nested join" if isinstance(item, q.Joined) else "a subquery or function in FROM"
        if isinstance(item, q.TableScan) and item.sample is not None:
            return "sample in FROM"
        if side not in ("", "LEFT"):
            return f"{side} JOIN"
        if outer_seen and not side:
            return "an inner join after a left join"
        outer_seen = bool(side)
        parts = [part for one in conditions for part in split_conjuncts(one)]
        if in_memory is not None:
            query.relations[relation.name] = in_memory
        if side:
            query.joins[relation.name] = parts
        else:
            query.where += parts
        query.items.append(relation)
    return f"more than {MAX_TABLES} tables" if len(query.items) > MAX_TABLES else ""


def _joins(source: Sequence[q.Item]) -> Iterator[tuple[str, q.Item, list[Expr]]]:
    """The items of FROM from the left: how each is joined to those before it, and on what conditions."""
    for item in source:
        spine: list[q.Joined] = []
        first = item
        while isinstance(first, q.Joined):
            spine.append(first)
            first = first.left
        yield "", first, []
        for joined in reversed(spine):
            yield joined.side, joined.right, joined.conditions


def _locking(query: OwnQuery, tree: exp.Select) -> dict[str, RowLock]:
    """How the tables in FROM are locked, by alias."""
    clauses = clauses_of(tree)
    if not clauses:
        return {}
    refuse_locks(tree)
    items = [LockableItem(item.name, item.name in query.joins, item.table) for item in query.items]
    return locks_of(clauses, items)


_PLACES = "aggregates"


def _aggregates(
    tree: exp.Select, query: OwnQuery, catalog: Catalog, params: Params, settings: PlanSettings
) -> Plan | Refusal:
    """The own plan of a SELECT with aggregates, or why there is none."""
    for clause in ("order", "limit", "offset", "locks"):
        if tree.args.get(clause):
            return Refusal(f"{clause.upper()} of an aggregate")
    found, written = _Aggregates(), query.outputs
    outputs = [(one.name, found.over_results(one.expr)) for one in written]
    if found.refused:
        return Refusal(found.refused)
    query.outputs = [q.Output("", expr) for expr in found.arguments]
    given = _first_in_order(query, found, params, settings, catalog)
    if given is None:
        planned = _ArgumentPlanner(query, params, settings, catalog).plan()
        if isinstance(planned, Refusal):
            return planned
        given = planned
    assert isinstance(given, SelectPlan)
    plan = AggregatePlan(
        given,
        tuple(found.aggregates),
        tuple(OutputColumn(name, expr.type) for name, expr in outputs),
        tuple(params.types),
        project([expr for _, expr in outputs]),
    )
    beneath = ((label, expr) for label, expr in given.bound if label != "Output: ")
    plan.bound = (*((f"Output: {one.name}", one.expr) for one in written), *beneath)
    return plan


@dataclass
class _Aggregates:
    """The aggregates of a SELECT list.

    Attributes:
        arguments: what the SELECT below must give.
        results: of each aggregate, as a column.
        refused: what of them own plans do not evaluate.
    """

    aggregates: list[Accumulator] = field(default_factory=list)
    arguments: list[Expr] = field(default_factory=list)
    results: list[ColumnRef] = field(default_factory=list)
    refused: str = ""

    def over_results(self, output: Expr) -> Expr:
        """An output as an expression over the results."""
        found = rebuild(output, self._taken_out)
        self.refused = self.refused or foreign_reason(found)
        return found

    def _taken_out(self, expr: Expr) -> Expr | None:
        if not isinstance(expr, n.Aggregate):
            return None
        parts = (*expr.args, *(() if expr.test is None else (expr.test,)))
        kind = AGGREGATES.get(expr.name)
        if kind is None or not kind.is_own(expr):
            self.refused = self.refused or f"{expr.name} of {', '.join(arg.type.name for arg in expr.args)}"
        elif refusal := refusal_of(parts):
            self.refused = self.refused or refusal.reason
        if self.refused:
            return expr
        number = len(self.results)
        self.aggregates.append(self._accumulated(expr))
        nullable = expr.name != "count"
        self.results.append(ColumnRef(expr.type, number, str(number), _PLACES, nullable=nullable))
        return self.results[number]

    def _accumulated(self, call: n.Aggregate) -> Accumulator:
        """It, of what the SELECT below gives; its argument is computed where FILTER's test holds."""
        condition = None if call.test is None else self._argument(call.test)
        if not call.args:
            return Accumulator(call.name, BIGINT, condition=condition)
        argument = call.args[0]
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

    def _better_elsewhere(self, *, sorted_after: bool, filtered: bool) -> str:
        """Also where rows would be counted that the columnar engine scans faster."""
        if better := super()._better_elsewhere(sorted_after=sorted_after, filtered=filtered):
            return better
        if self.settings.engine == "own" or not self.query.items or self.query.limit is not None:
            return ""
        unknown = self.reach > PathReach.SOME and (self.rows is None or self.rows > OWN_ROWS)
        return "a range of unknown size" if unknown else ""


def _first_in_order(
    query: OwnQuery, found: _Aggregates, params: Params, settings: PlanSettings, catalog: Catalog
) -> Plan | None:
    """A lone min or max of a column as the first row in its order, where rows come so; else None."""
    if len(found.aggregates) != 1 or found.aggregates[0].name not in {"min", "max"}:
        return None
    (only,), (column, *more) = found.aggregates, found.arguments
    descending = only.name == "max"
    if more or not isinstance(column, ColumnRef) or (descending and column.nullable):
        return None  # NULLs would come first
    ordered = replace(query, order=[(column, descending, False)], limit=Const(BIGINT, 1))
    plan = _ArgumentPlanner(ordered, params, settings, catalog).plan()
    return None if not isinstance(plan, SelectPlan) or plan.sort else plan
