"""Aggregates of the columnar engine: from a syntax tree to typed DuckDB text.

DISTINCT, ORDER BY, FILTER and WITHIN GROUP become a ``Frame``; arguments are bound free of GROUP BY's rule,
which holds outside aggregates. ``AGGREGATES`` says what each name means. SUM and AVG of integers and NUMERIC
run natively on integers and DECIMALs; only AVG's last division (one a group) is done by an exact function.
OVER is in ``windows``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from herdpy_sql.columnar import casts, emit, rows, set_returning
from herdpy_sql.columnar.binder import Binder, handles
from herdpy_sql.columnar.comparisons import direction_of, order_key, sort_key
from herdpy_sql.columnar.emit import condition
from herdpy_sql.columnar.routines import full_type, types_of
from herdpy_sql.duck import INTEGERS, MAX_DIGITS, TEXTUAL, Typed, numeric_text
from herdpy_sql.errors import SqlError
from herdpy_sql.expr.resolve import no_function
from herdpy_sql.expr.syntax import AGGREGATE_CLASSES, ORDERED_SET_CLASSES, is_row
from herdpy_sql.types import (
    BIGINT,
    BOOLEAN,
    BYTEA,
    DOUBLE,
    FACTS,
    INTEGER,
    INTERVAL,
    NUMERIC,
    REAL,
    TEXT,
    Base,
    need_equality,
)

if TYPE_CHECKING:
    from herdpy_sql.columnar.scope import Scope


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


def register(*names: str) -> Callable[[Aggregate], Aggregate]:
    """Register an aggregate under its names."""

    def add(function: Aggregate) -> Aggregate:
        for name in names:
            AGGREGATES[name] = function
        return function

    return add


def _as_text(binder: Binder, x: Typed) -> Typed:
    return casts.as_text(binder, emit.settle_text(binder, x))


def _as_double(binder: Binder, x: Typed) -> Typed:
    return casts.as_double(binder, emit.coerce(binder, x, DOUBLE) if x.unknown else x)


@handles(*AGGREGATE_CLASSES)
def _plain(binder: Binder, node: Any, scope: Scope) -> Typed:
    return bind_aggregate(binder, node, scope, Frame())


def anonymous(binder: Binder, node: Any, scope: Scope) -> Typed:
    """An aggregate by a name that sqlglot does not know."""
    return call(binder, str(node.this).lower(), node.expressions, scope)


def call(binder: Binder, name: str, nodes: list[Any], scope: Scope, frame: Frame | None = None) -> Typed:
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
    name = AGGREGATE_CLASSES.get(type(node), "")
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
    for argument in arguments if frame.distinct else ():
        need_equality(full_type(argument))
    if order is not None:
        keys = []
        for ordered in order.expressions:
            (key,), _ = _inside(binder, [ordered.this], scope)
            keys.append(sort_key(emit.settle_text(binder, key)) + direction_of(ordered))
        frame = replace(frame, order=", ".join(keys))
    function = AGGREGATES.get(name)
    if function is None:
        raise no_function(name, types_of(*arguments))
    try:
        result = function(binder, [frame.guarded(argument) for argument in arguments], frame)
    except (ValueError, IndexError, TypeError):
        raise no_function(name, types_of(*arguments)) from None
    return replace(result, vars=outer, agg=not windowed or inner_agg, window=windowed)


def _ordered_set(binder: Binder, node: Any, scope: Scope, frame: Frame) -> Typed:
    """PERCENTILE_CONT, PERCENTILE_DISC and MODE WITHIN GROUP (ORDER BY ...)."""
    name = ORDERED_SET_CLASSES.get(type(node.this))
    if name is None:
        raise SqlError("0A000", "this ordered-set aggregate is not supported")
    if len(node.expression.expressions) != 1:
        raise SqlError("0A000", f"{name} over several columns is not supported")
    ordered = node.expression.expressions[0]
    (x,), outer = _inside(binder, [ordered.this], scope)
    x = frame.guarded(emit.settle_text(binder, x))
    desc = " DESC" if ordered.args.get("desc") else ""
    if name == "mode":
        direction = desc or " ASC"
        sql = f"mode({x.sql} ORDER BY {sort_key(x)}{direction}){frame.filter}"
        return Typed(sql, x.type, x.dec, vars=outer, agg=True)
    (fraction,), _ = _inside(binder, [node.this.this], scope)
    fraction = _as_double(binder, fraction)
    if name == "percentile_cont":
        if x.base is not Base.INTERVAL:
            x = _as_double(binder, x)
        sql = f"quantile_cont({x.sql}, {fraction.sql} ORDER BY {x.sql}{desc}){frame.filter}"
        return Typed(sql, x.type, vars=outer, agg=True)
    if x.is_text_numeric:
        raise SqlError("0A000", "percentile_disc of numeric without precision is not supported")
    sql = f"quantile_disc({x.sql}, {fraction.sql} ORDER BY {x.sql}{desc}){frame.filter}"
    return Typed(sql, x.type, x.dec, vars=outer, agg=True)


@handles(exp.Grouping)
def _grouping(binder: Binder, node: Any, scope: Scope) -> Typed:
    parts = binder.bind_all(node.expressions, scope)
    if any(p.vars for p in parts):
        raise SqlError(
            "42803", "arguments to GROUPING must be grouping expressions of the associated query level"
        )
    return Typed(f"CAST(grouping({', '.join(p.sql for p in parts)}) AS INTEGER)", INTEGER, agg=True)


_GROWTH = 12  # digits that a sum may gain: 10^12 rows


@register("count")
def _count(binder: Binder, arguments: list[Typed], frame: Frame) -> Typed:
    if not arguments:
        return Typed(frame.apply("count", "*"), BIGINT)
    (x,) = arguments
    x = emit.settle_text(binder, x)
    return Typed(frame.apply("count", order_key(x) if frame.distinct else x.sql), BIGINT)


@register("sum")
def _sum(binder: Binder, arguments: list[Typed], frame: Frame) -> Typed:
    (x,) = arguments
    if x.unknown:
        raise SqlError("42725", "function sum(unknown) is not unique")
    base = x.base
    if base in (Base.SMALLINT, Base.INTEGER):
        return Typed(f"CAST({frame.apply('sum', x.sql)} AS BIGINT)", BIGINT)
    if base is Base.BIGINT:
        return Typed(f"CAST({frame.apply('sum', x.sql)} AS DECIMAL(32,0))", NUMERIC, (32, 0))
    if base is Base.NUMERIC:
        return _sum_numeric(binder, x, frame)
    if base in (Base.REAL, Base.DOUBLE):
        total = frame.apply("sum", x.sql)
        wide = f"pg_fsum({total}, {frame.apply('bool_or', f'isinf({x.sql})', ordered=False)})"
        if base is Base.REAL:
            return Typed(f"pg_tofloat({wide})", REAL)
        return Typed(wide, DOUBLE)
    if base is Base.INTERVAL:
        return _of_intervals(binder, "interval_sum", x, frame)
    raise ValueError


def _sum_numeric(binder: Binder, x: Typed, frame: Frame) -> Typed:
    if x.dec is None or (x.dec[0] > MAX_DIGITS - 6 and binder.digits(MAX_DIGITS + 1, x.dec[1]) > MAX_DIGITS):
        text = frame.apply("list", numeric_text(x))
        return Typed(f"pg_numsum({text})", NUMERIC)
    dec = (min(x.dec[0] + _GROWTH, MAX_DIGITS), x.dec[1])
    sql = f"CAST({frame.apply('sum', x.sql)} AS DECIMAL({dec[0]},{dec[1]}))"
    scale = None
    if x.scale_sql is not None:
        used = f"CASE WHEN {x.sql} IS NOT NULL THEN {x.scale_sql} END"
        scale = replace(frame, distinct="").apply("max", used, ordered=False)
    return Typed(sql, NUMERIC, dec, scale)


@register("avg")
def _avg(binder: Binder, arguments: list[Typed], frame: Frame) -> Typed:
    (x,) = arguments
    base = x.base
    if base in INTEGERS or base is Base.NUMERIC:
        total = (
            _sum_numeric(binder, x, frame)
            if base is Base.NUMERIC
            else Typed(frame.apply("sum", x.sql), BIGINT)
        )
        text = numeric_text(total) if total.base is Base.NUMERIC else f"CAST({total.sql} AS VARCHAR)"
        if total.dec is not None and total.dec[0] != total.dec[1] and total.scale_sql is None:
            text = f"CAST({frame.apply('sum', x.sql)} AS VARCHAR)"
        counted = order_key(x) if frame.distinct else x.sql
        count = frame.apply("count", counted, ordered=False)
        return Typed(f"pg_numavg({text}, CAST(nullif({count}, 0) AS VARCHAR))", NUMERIC)
    if base in (Base.REAL, Base.DOUBLE):
        x = _as_double(binder, x)
        infinite = frame.apply("bool_or", f"isinf({x.sql})", ordered=False)
        wide = f"pg_fsum({frame.apply('avg', x.sql)}, {infinite})"
        return Typed(wide, DOUBLE)
    if base is Base.INTERVAL:
        return _of_intervals(binder, "interval_avg", x, frame)
    raise ValueError


def _of_intervals(binder: Binder, name: str, x: Typed, frame: Frame) -> Typed:
    found = emit.call(binder, name, [Typed(frame.apply("list", x.sql), INTERVAL, array=1)])
    assert found is not None
    return found


def _gathered(binder: Binder, name: str, x: Typed, frame: Frame) -> Typed:
    """jsonb_agg and json_agg: the values as a list, which a function of the library makes JSON of."""
    x = emit.settle_text(binder, x)
    if x.array:
        x = _as_json(binder, x, name)
        name = name.replace("json_of_list", "json_of_rows") if name.startswith("json_") else name
    sql = numeric_text(x) if x.base is Base.NUMERIC else x.sql
    listed = Typed(frame.apply("list", sql), x.type, array=1)
    found = emit.call(binder, name, [listed])
    assert found is not None
    return found


def _as_json(binder: Binder, x: Typed, name: str) -> Typed:
    """An array as the kind of JSON that the function of that name makes."""
    found = emit.call(binder, "to_jsonb" if name.startswith("jsonb") else "to_json", [x])
    assert found is not None
    return found


def _json_agg(name: str) -> Aggregate:
    def function(binder: Binder, arguments: list[Typed], frame: Frame) -> Typed:
        (x,) = arguments
        return _gathered(binder, name, x, frame)

    return function


def _json_object_agg(name: str) -> Aggregate:
    def function(binder: Binder, arguments: list[Typed], frame: Frame) -> Typed:
        key, x = _as_text(binder, arguments[0]), emit.settle_text(binder, arguments[1])
        if x.array:
            x = _as_json(binder, x, name)
        sql = numeric_text(x) if x.base is Base.NUMERIC else x.sql
        keys = Typed(frame.apply("list", key.sql), TEXT, array=1)
        found = emit.call(binder, name, [keys, Typed(frame.apply("list", sql), x.type, array=1)])
        assert found is not None
        return found

    return function


AGGREGATES["jsonb_object_agg"] = _json_object_agg("jsonb_of_pairs")
AGGREGATES["json_object_agg"] = _json_object_agg("json_of_pairs")


AGGREGATES["jsonb_agg"] = _json_agg("jsonb_of_list")
AGGREGATES["json_agg"] = _json_agg("json_of_list")
AGGREGATES["json_agg of rows"] = _json_agg("json_of_rows")
ANONYMOUS.update(("jsonb_agg", "json_agg", "jsonb_object_agg", "json_object_agg"))


_WITHOUT_EXTREMES = frozenset({"B", "U"})
"""Categories of types that PostgreSQL has no min() and max() for."""


def _extreme(name: str) -> Aggregate:
    def function(binder: Binder, arguments: list[Typed], frame: Frame) -> Typed:
        (x,) = arguments
        x = emit.settle_text(binder, x)
        if FACTS[x.base].category in _WITHOUT_EXTREMES:
            raise ValueError
        if x.array:
            if x.array > 1 or (x.base is Base.NUMERIC and x.dec is None):
                listed = frame.apply(f"arg_{name}", f"{x.sql}, {order_key(x)}")
                return Typed(listed, x.type, x.dec, array=x.array)
            return Typed(frame.apply(name, x.sql), x.type, x.dec, array=1)
        if x.is_text_numeric:
            return Typed(frame.apply(f"arg_{name}", f"{x.sql}, pg_numkey({x.sql})"), NUMERIC)
        type_ = TEXT if x.base is Base.VARCHAR else (x.type if x.base is Base.CHAR else x.type.plain)
        scale = None
        if x.scale_sql is not None:
            scale = frame.apply(f"arg_{name}", f"{x.scale_sql}, {x.sql}", ordered=False)
        return Typed(frame.apply(name, x.sql), type_, x.dec, scale)

    return function


AGGREGATES["min"] = _extreme("min")
AGGREGATES["max"] = _extreme("max")


def _boolean(name: str) -> Aggregate:
    def function(binder: Binder, arguments: list[Typed], frame: Frame) -> Typed:
        (x,) = arguments
        if not x.unknown and x.base is not Base.BOOLEAN:
            raise ValueError
        x = emit.coerce(binder, x, BOOLEAN)
        return Typed(frame.apply(name, x.sql), BOOLEAN)

    return function


AGGREGATES["bool_and"] = AGGREGATES["every"] = _boolean("bool_and")
AGGREGATES["bool_or"] = _boolean("bool_or")


def _spread(kind: str, duck: str) -> Aggregate:
    def function(binder: Binder, arguments: list[Typed], frame: Frame) -> Typed:
        (x,) = arguments
        if x.base in (Base.REAL, Base.DOUBLE):
            x = _as_double(binder, x)
            odd = frame.apply("bool_or", f"NOT isfinite({x.sql})", ordered=False)
            return Typed(f"pg_fspread({frame.apply(duck, x.sql)}, {odd})", DOUBLE)
        x = casts.as_numeric(binder, emit.coerce(binder, x, NUMERIC) if x.unknown else x)
        if x.base is not Base.NUMERIC:
            raise ValueError
        count = frame.apply("count", x.sql, ordered=False)
        text = frame.apply("list", numeric_text(x), ordered=False)
        return Typed(f"pg_variance('{kind}', {count}, {text})", NUMERIC)

    return function


for _names, _kind, _duck in (
    (("stddev", "stddev_samp"), "stddev_samp", "stddev_samp"),
    (("stddev_pop",), "stddev_pop", "stddev_pop"),
    (("variance", "var_samp"), "var_samp", "var_samp"),
    (("var_pop",), "var_pop", "var_pop"),
):
    for _name in _names:
        AGGREGATES[_name] = _spread(_kind, _duck)


_MEANS = frozenset({"regr_avgx", "regr_avgy"})
_RATIOS = frozenset({"corr", "regr_slope", "regr_intercept", "regr_r2"})
"""What is NULL where DuckDB divides zero by zero: of points that all lie on a line along an axis."""
_LARGE = "1e150"  # the square of which may be out of range


def _pair(name: str) -> Aggregate:
    def function(binder: Binder, arguments: list[Typed], frame: Frame) -> Typed:
        y, x = (_as_double(binder, a) for a in arguments)
        found = frame.apply(name, f"{y.sql}, {x.sql}")
        if name in _MEANS:
            return Typed(found, DOUBLE)
        odd = frame.apply("bool_or", f"NOT isfinite({y.sql} * 0 + {x.sql} * 0)", ordered=False)
        if name not in _RATIOS:
            return Typed(f"pg_fspread({found}, {odd})", DOUBLE)
        large = f"greatest(abs({y.sql}), abs({x.sql})) > {_LARGE}"
        return Typed(f"pg_fratio({found}, {odd}, {frame.apply('bool_or', large, ordered=False)})", DOUBLE)

    return function


for _name in (
    "corr", "covar_pop", "covar_samp", "regr_slope", "regr_intercept", "regr_r2", "regr_avgx", "regr_avgy",
    "regr_sxx", "regr_syy", "regr_sxy",
):  # fmt: skip
    AGGREGATES[_name] = _pair(_name)
    ANONYMOUS.add(_name)


def _bits(name: str) -> Aggregate:
    def function(binder: Binder, arguments: list[Typed], frame: Frame) -> Typed:
        (x,) = arguments
        if x.base not in INTEGERS:
            raise ValueError
        return Typed(frame.apply(name, x.sql), x.type)

    return function


for _name in ("bit_and", "bit_or", "bit_xor"):
    AGGREGATES[_name] = _bits(_name)
    ANONYMOUS.add(_name)


@register("regr_count")
def _regr_count(binder: Binder, arguments: list[Typed], frame: Frame) -> Typed:
    y, x = (_as_double(binder, a) for a in arguments)
    return Typed(f"CAST({frame.apply('regr_count', f'{y.sql}, {x.sql}')} AS BIGINT)", BIGINT)


@register("string_agg")
def _string_agg(binder: Binder, arguments: list[Typed], frame: Frame) -> Typed:
    x, separator = arguments
    if not x.unknown and x.base not in TEXTUAL and x.base is not Base.BYTEA:
        raise ValueError
    if x.base is Base.BYTEA:
        raise SqlError("0A000", f"string_agg of {BYTEA} is not supported")
    x, separator = _as_text(binder, x), _as_text(binder, separator)
    return Typed(frame.apply("string_agg", f"{x.sql}, coalesce({separator.sql}, '')"), TEXT)


@register("array_agg")
def _array_agg(binder: Binder, arguments: list[Typed], frame: Frame) -> Typed:
    (x,) = arguments
    x = emit.settle_text(binder, x)
    if x.array:
        return emit.gathered(binder, replace(x, sql=frame.apply("list", x.sql), array=x.array + 1))
    sql = numeric_text(x) if x.scale_sql is not None else x.sql
    return Typed(frame.apply("list", sql), x.type, None if x.scale_sql is not None else x.dec, array=1)
