"""Aggregates of the columnar engine: from a syntax tree to a name, arguments and a frame.

DISTINCT, ORDER BY, FILTER and WITHIN GROUP become a ``Frame``; arguments are bound free of GROUP BY's
rule, which holds outside aggregates. ``AGGREGATES`` says what each name means (``aggregate_functions``);
OVER is in ``windows``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from herdpy_sql.columnar import casts, rows, set_returning
from herdpy_sql.columnar.binder import Binder, handles
from herdpy_sql.columnar.functions import no_function
from herdpy_sql.columnar.operators import condition, is_row, order_key
from herdpy_sql.columnar.ordering import direction_of
from herdpy_sql.columnar.scope import Scope
from herdpy_sql.columnar.typed import Typed
from herdpy_sql.errors import SqlError
from herdpy_sql.types import INTEGER, Base


@dataclass(slots=True)
class Frame:
    """How an aggregate is applied: DISTINCT, ORDER BY, FILTER's condition and OVER, as DuckDB text."""

    distinct: str = ""
    order: str = ""
    test: str = ""
    over: str = ""

    @property
    def filter(self) -> str:
        """FILTER's clause."""
        return f" FILTER (WHERE {self.test})" if self.test else ""

    def guarded(self, argument: Typed) -> Typed:
        """An argument that is computed only where FILTER's condition holds: DuckDB computes it for every row,
        and it may fail. A column or a constant cannot, and a condition that is drawn cannot be asked twice.
        """
        if not self.test or argument.literal is not None or _PLAIN.fullmatch(argument.sql):
            return argument
        if any(drawn in self.test for drawn in _DRAWN):
            return argument
        return replace(argument, sql=f"CASE WHEN {self.test} THEN {argument.sql} END")

    def apply(self, name: str, arguments: str, *, ordered: bool = True) -> str:
        """``name(arguments)`` with everything around it."""
        order = f" ORDER BY {self.order}" if self.order and ordered else ""
        return f"{name}({self.distinct}{arguments}{order}){self.filter}{self.over}"


_PLAIN = re.compile(r'[\w."$]+')
_DRAWN = ("random()", "gen_random_uuid()")
Aggregate = Callable[[Binder, list[Typed], Frame], Typed]

AGGREGATES: dict[str, Aggregate] = {}
ANONYMOUS = {"every", "bit_xor", "regr_count", "row_number", "rank", "dense_rank", "string_agg", "array_agg"}

_NODES: dict[type[exp.Expression], str] = {
    exp.Count: "count",
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
    exp.LogicalAnd: "bool_and",
    exp.LogicalOr: "bool_or",
    exp.Stddev: "stddev",
    exp.StddevSamp: "stddev_samp",
    exp.StddevPop: "stddev_pop",
    exp.Variance: "variance",
    exp.VariancePop: "var_pop",
    exp.GroupConcat: "string_agg",
    exp.ArrayAgg: "array_agg",
    exp.JSONArrayAgg: "json_agg",
    exp.JSONBObjectAgg: "jsonb_object_agg",
    exp.JSONObjectAgg: "json_object_agg",
    exp.Corr: "corr",
    exp.CovarPop: "covar_pop",
    exp.CovarSamp: "covar_samp",
    exp.BitwiseAndAgg: "bit_and",
    exp.BitwiseOrAgg: "bit_or",
    exp.BitwiseXorAgg: "bit_xor",
    exp.RegrSlope: "regr_slope",
    exp.RegrIntercept: "regr_intercept",
    exp.RegrCount: "regr_count",
    exp.RegrR2: "regr_r2",
    exp.RegrAvgx: "regr_avgx",
    exp.RegrAvgy: "regr_avgy",
    exp.RegrSxx: "regr_sxx",
    exp.RegrSyy: "regr_syy",
    exp.RegrSxy: "regr_sxy",
}


def register(*names: str) -> Callable[[Aggregate], Aggregate]:
    """Register an aggregate under its names."""

    def add(function: Aggregate) -> Aggregate:
        for name in names:
            AGGREGATES[name] = function
        return function

    return add


@handles(*_NODES)
def _plain(binder: Binder, node: Any, scope: Scope) -> Typed:
    return bind_aggregate(binder, node, scope, Frame())


def call(
    binder: Binder, name: str, nodes: list[Any], node: Any, scope: Scope, frame: Frame | None = None
) -> Typed:
    """An aggregate that sqlglot does not know by class."""
    return _apply(binder, name, *_ordered(nodes), scope, frame or Frame())


def _ordered(nodes: list[Any]) -> tuple[list[Any], Any]:
    """Arguments, and the ORDER BY that stands behind the last of them."""
    if nodes and isinstance(nodes[-1], exp.Order):
        return [*nodes[:-1], nodes[-1].this], nodes[-1]
    return nodes, None


@handles(exp.Filter)
def _filter(binder: Binder, node: Any, scope: Scope) -> Typed:
    return _filtered(binder, node, scope, Frame())


def _filtered(binder: Binder, node: Any, scope: Scope, frame: Frame) -> Typed:
    test, leftover = _inside(binder, [node.expression.this], scope)
    x = condition(binder, test[0], "FILTER")
    inner = replace(frame, test=x.sql)
    result = bind_aggregate(binder, node.this, scope, inner)
    return replace(result, vars=result.vars | leftover)


@handles(exp.WithinGroup)
def _within(binder: Binder, node: Any, scope: Scope) -> Typed:
    return bind_aggregate(binder, node, scope, Frame())


def bind_aggregate(binder: Binder, node: Any, scope: Scope, frame: Frame) -> Typed:
    """The aggregate that ``node`` calls, applied as ``frame`` says; SqlError 42809 for other functions."""
    if isinstance(node, exp.Filter):
        return _filtered(binder, node, scope, frame)
    if isinstance(node, exp.WithinGroup):
        return _ordered_set(binder, node, scope, frame)
    if isinstance(node, exp.Anonymous):
        name = str(node.this).lower()
        if name not in AGGREGATES:
            raise SqlError("42809", f"{name} is not an aggregate or window function")
        return _apply(binder, name, *_ordered(node.expressions), scope, frame)
    name = _NODES.get(type(node), "")
    if not name:
        raise SqlError("42809", f"{node.sql_name().lower()} is not an aggregate or window function")
    first, order = node.this, None
    nodes: list[Any]
    if isinstance(first, exp.Order):
        first, order = first.this, first
    if isinstance(first, exp.Distinct):
        frame = replace(frame, distinct="DISTINCT ")
        nodes = list(first.expressions)
        if len(nodes) == 1 and isinstance(nodes[0], exp.Order):
            order, nodes = nodes[0], [nodes[0].this]
    else:
        nodes = [] if first is None or isinstance(first, exp.Star) else [first]
    separator = node.args.get("separator")
    if isinstance(separator, exp.Order):
        order, separator = separator, separator.this
    for extra in (separator, node.args.get("expression")):
        if extra is not None:
            nodes.append(extra)
    nodes += node.expressions if name != "count" or not isinstance(first, exp.Star) else []
    return _apply(binder, name, nodes, order, scope, frame)


def _inside(
    binder: Binder, nodes: list[Any], scope: Scope, name: str = ""
) -> tuple[list[Typed], frozenset[tuple[int, str, int]]]:
    """Bind an aggregate's arguments: no aggregate or window inside, and columns need not be grouped."""
    grouped, scope.grouped = scope.grouped, False
    try:
        parts = [_argument(binder, name, node, scope) for node in nodes]
    finally:
        scope.grouped = grouped
    set_returning.refuse_in_arguments(parts, "aggregate")
    if any(p.agg for p in parts):
        raise SqlError("42803", "aggregate function calls cannot be nested")
    if any(p.window for p in parts):
        raise SqlError("42803", "aggregate function calls cannot contain window function calls")
    outer = frozenset(v for p in parts for v in p.vars if v[0] != scope.number)
    return parts, outer


def _argument(binder: Binder, name: str, node: Any, scope: Scope) -> Typed:
    if name == "count":
        return rows.counted(binder, node, scope)
    return rows.argument(binder, node, scope) if name in rows.MAKERS else binder.bind(node, scope)


def _apply(binder: Binder, name: str, nodes: list[Any], order: Any, scope: Scope, frame: Frame) -> Typed:
    windowed = bool(frame.over)
    if not windowed and scope.clause in ("WHERE", "JOIN/ON", "GROUP BY", "LIMIT"):
        where = "JOIN conditions" if scope.clause == "JOIN/ON" else scope.clause
        raise SqlError("42803", f"aggregate functions are not allowed in {where}")
    if windowed:
        arguments = [_argument(binder, name, node, scope) for node in nodes]
        if any(a.window for a in arguments):
            raise SqlError("42P20", "window function calls cannot be nested")
        outer = frozenset(v for a in arguments for v in a.vars)
        inner_agg = any(a.agg for a in arguments)
    else:
        arguments, outer = _inside(binder, nodes, scope, name)
        if name == "json_agg" and (rows.whole(nodes[0], scope) is not None or is_row(nodes[0])):
            name = "json_agg of rows"
        inner_agg = False
    if order is not None:
        keys = []
        for ordered in order.expressions:
            (key,), _ = _inside(binder, [ordered.this], scope)
            keys.append(order_key(casts.settle_text(binder, key)) + direction_of(ordered))
        frame = replace(frame, order=", ".join(keys))
    function = AGGREGATES.get(name)
    if function is None:
        raise no_function(name, arguments)
    try:
        result = function(binder, [frame.guarded(argument) for argument in arguments], frame)
    except (ValueError, IndexError, TypeError):
        raise no_function(name, arguments) from None
    return replace(result, vars=outer, agg=not windowed or inner_agg, window=windowed, name=name.split()[0])


def _ordered_set(binder: Binder, node: Any, scope: Scope, frame: Frame) -> Typed:
    """PERCENTILE_CONT, PERCENTILE_DISC and MODE WITHIN GROUP (ORDER BY ...)."""
    names = {exp.PercentileCont: "percentile_cont", exp.PercentileDisc: "percentile_disc", exp.Mode: "mode"}
    name = names.get(type(node.this))
    if name is None:
        raise SqlError("0A000", "this ordered-set aggregate is not supported")
    if len(node.expression.expressions) != 1:
        raise SqlError("0A000", f"{name} over several columns is not supported")
    ordered = node.expression.expressions[0]
    (x,), outer = _inside(binder, [ordered.this], scope)
    x = frame.guarded(casts.settle_text(binder, x))
    desc = " DESC" if ordered.args.get("desc") else ""
    if name == "mode":
        direction = desc or " ASC"
        sql = f"mode({x.sql} ORDER BY {order_key(x)}{direction}){frame.filter}"
        return Typed(sql, x.type, x.dec, vars=outer, agg=True, name=name)
    (fraction,), _ = _inside(binder, [node.this.this], scope)
    fraction = casts.as_double(binder, fraction)
    if name == "percentile_cont":
        if x.base is not Base.INTERVAL:
            x = casts.as_double(binder, x)
        sql = f"quantile_cont({x.sql}, {fraction.sql} ORDER BY {x.sql}{desc}){frame.filter}"
        return Typed(sql, x.type, vars=outer, agg=True, name=name)
    if x.is_text_numeric:
        raise SqlError("0A000", "percentile_disc of numeric without precision is not supported")
    sql = f"quantile_disc({x.sql}, {fraction.sql} ORDER BY {x.sql}{desc}){frame.filter}"
    return Typed(sql, x.type, x.dec, vars=outer, agg=True, name=name)


@handles(exp.Grouping)
def _grouping(binder: Binder, node: Any, scope: Scope) -> Typed:
    parts = binder.bind_all(node.expressions, scope)
    if any(p.vars for p in parts):
        raise SqlError(
            "42803", "arguments to GROUPING must be grouping expressions of the associated query level"
        )
    return Typed(
        f"CAST(grouping({', '.join(p.sql for p in parts)}) AS INTEGER)", INTEGER, agg=True, name="grouping"
    )
