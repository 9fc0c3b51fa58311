"""DuckDB's text of aggregates: what each name of ``expr.aggregates`` becomes.

DISTINCT, ORDER BY and FILTER become a ``Frame``; arguments are emitted free of GROUP BY's rule, which holds
outside aggregates. SUM and AVG of integers and NUMERIC run natively on integers and DECIMALs; only AVG's last
division (one a group) is done by an exact function. OVER is in ``windows``. Above ``emit``, whose fold this
extends.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from herdpy_sql.columnar import casts, emit
from herdpy_sql.columnar.comparisons import direction, order_key, sort_key
from herdpy_sql.columnar.emission import Emission
from herdpy_sql.columnar.emit import EMITTERS, Emitter
from herdpy_sql.duck import INTEGERS, MAX_DIGITS, Typed, numeric_text
from herdpy_sql.errors import SqlError
from herdpy_sql.expr import nodes as n
from herdpy_sql.expr.rows import is_document
from herdpy_sql.types import BIGINT, BOOLEAN, DOUBLE, INTEGER, INTERVAL, NUMERIC, REAL, TEXT, Base


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
AggregateText = Callable[[Emission, list[Typed], Frame], Typed]

TEXTS: dict[str, AggregateText] = {}


def register(*names: str) -> Callable[[AggregateText], AggregateText]:
    """Register the text of an aggregate under its names."""

    def add(function: AggregateText) -> AggregateText:
        for name in names:
            TEXTS[name] = function
        return function

    return add


def _aggregate(emitter: Emitter, expr: n.Aggregate) -> Typed:
    groups, emitter.groups = emitter.groups, None
    parts, found = _applied(emitter, expr, Frame())
    emitter.groups = groups
    _refuse_rows(parts)
    if any(part.agg for part in parts):
        raise SqlError("42803", "aggregate function calls cannot be nested")
    if any(part.window for part in parts):
        raise SqlError("42803", "aggregate function calls cannot contain window function calls")
    return replace(found, agg=True)


def _refuse_rows(parts: Sequence[Typed]) -> None:
    """SqlError 0A000 for a set-returning function among the arguments of an aggregate."""
    if any(part.setof for part in parts):
        raise SqlError(
            "0A000",
            "aggregate function calls cannot contain set-returning function calls",
            hint="You might be able to move the set-returning function into a LATERAL FROM item.",
        )


def over_window(emitter: Emitter, expr: n.Aggregate, over: str) -> Typed:
    """An aggregate over a window, whose clause is ``over``: GROUP BY's rule holds inside it."""
    parts, found = _applied(emitter, expr, Frame(over=over))
    if any(part.window for part in parts):
        raise SqlError("42P20", "window function calls cannot be nested")
    return replace(found, agg=any(part.agg for part in parts), window=True)


def _applied(emitter: Emitter, expr: n.Aggregate, frame: Frame) -> tuple[list[Typed], Typed]:
    """The call's arguments, keys and condition, and its text."""
    args = [emitter.emit(arg) for arg in expr.args]
    keys = [emitter.emit(one.key) for one in expr.order]
    parts = [*args, *keys]
    frame.distinct = "DISTINCT " if expr.distinct else ""
    if expr.test is not None:
        test = emitter.emit(expr.test)
        parts.append(test)
        frame.test = test.sql
    if expr.name in _ORDERED_SETS:
        return parts, _ORDERED_SETS[expr.name](frame.guarded(keys[0]), args, expr.order[0], frame)
    known = [isinstance(arg, n.Const | n.Param) for arg in expr.args]
    guarded = [x if constant else frame.guarded(x) for x, constant in zip(args, known, strict=True)]
    pairs = zip(map(frame.guarded, keys), expr.order, strict=True)
    frame.order = ", ".join(sort_key(x) + direction(one.descending, one.nulls_first) for x, one in pairs)
    name = expr.name
    if name == "json_agg" and is_document(expr.args[0]):
        name = "json_agg of rows"
    return parts, TEXTS[name](emitter.emission, guarded, frame)


def _mode(x: Typed, args: list[Typed], key: n.OrderItem, frame: Frame) -> Typed:
    word = "DESC" if key.descending else "ASC"
    return Typed(f"mode({x.sql} ORDER BY {sort_key(x)} {word}){frame.filter}", x.type, x.dec)


def _percentile_cont(x: Typed, args: list[Typed], key: n.OrderItem, frame: Frame) -> Typed:
    return Typed(_quantile("quantile_cont", x, args[0], key, frame), x.type)


def _percentile_disc(x: Typed, args: list[Typed], key: n.OrderItem, frame: Frame) -> Typed:
    if x.is_text_numeric:
        raise SqlError("0A000", "percentile_disc of numeric without precision is not supported")
    return Typed(_quantile("quantile_disc", x, args[0], key, frame), x.type, x.dec)


def _quantile(name: str, x: Typed, fraction: Typed, key: n.OrderItem, frame: Frame) -> str:
    word = " DESC" if key.descending else ""
    return f"{name}({x.sql}, {fraction.sql} ORDER BY {x.sql}{word}){frame.filter}"


_ORDERED_SETS = {"mode": _mode, "percentile_cont": _percentile_cont, "percentile_disc": _percentile_disc}

EMITTERS[n.Aggregate] = _aggregate


def _grouping(emitter: Emitter, expr: n.Grouping) -> Typed:
    parts = [emitter.emit(arg) for arg in expr.args]
    return Typed(f"CAST(grouping({', '.join(p.sql for p in parts)}) AS INTEGER)", INTEGER, agg=True)


EMITTERS[n.Grouping] = _grouping

_GROWTH = 12  # digits that a sum may gain: 10^12 rows


@register("count")
def _count(emission: Emission, arguments: list[Typed], frame: Frame) -> Typed:
    if not arguments:
        return Typed(frame.apply("count", "*"), BIGINT)
    (x,) = arguments
    return Typed(frame.apply("count", order_key(x) if frame.distinct else x.sql), BIGINT)


@register("sum")
def _sum(emission: Emission, arguments: list[Typed], frame: Frame) -> Typed:
    (x,) = arguments
    base = x.base
    if base in (Base.SMALLINT, Base.INTEGER):
        return Typed(f"CAST({frame.apply('sum', x.sql)} AS BIGINT)", BIGINT)
    if base is Base.BIGINT:
        return Typed(f"CAST({frame.apply('sum', x.sql)} AS DECIMAL(32,0))", NUMERIC, (32, 0))
    if base is Base.NUMERIC:
        return _sum_numeric(emission, x, frame)
    if base in (Base.REAL, Base.DOUBLE):
        total = frame.apply("sum", x.sql)
        wide = f"pg_fsum({total}, {frame.apply('bool_or', f'isinf({x.sql})', ordered=False)})"
        if base is Base.REAL:
            return Typed(f"pg_tofloat({wide})", REAL)
        return Typed(wide, DOUBLE)
    return _of_intervals(emission, "interval_sum", x, frame)


def _sum_numeric(emission: Emission, x: Typed, frame: Frame) -> Typed:
    if x.dec is None or (
        x.dec[0] > MAX_DIGITS - 6 and emission.digits(MAX_DIGITS + 1, x.dec[1]) > MAX_DIGITS
    ):
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
def _avg(emission: Emission, arguments: list[Typed], frame: Frame) -> Typed:
    (x,) = arguments
    base = x.base
    if base in INTEGERS or base is Base.NUMERIC:
        total = (
            _sum_numeric(emission, x, frame)
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
        x = casts.as_double(emission, x)
        infinite = frame.apply("bool_or", f"isinf({x.sql})", ordered=False)
        wide = f"pg_fsum({frame.apply('avg', x.sql)}, {infinite})"
        return Typed(wide, DOUBLE)
    return _of_intervals(emission, "interval_avg", x, frame)


def _of_intervals(emission: Emission, name: str, x: Typed, frame: Frame) -> Typed:
    found = emit.call(emission, name, [Typed(frame.apply("list", x.sql), INTERVAL, array=1)])
    assert found is not None
    return found


def _gathered(emission: Emission, name: str, x: Typed, frame: Frame) -> Typed:
    """jsonb_agg and json_agg: the values as a list, which a function of the library makes JSON of."""
    if x.array:
        x = _as_json(emission, x, name)
        name = name.replace("json_of_list", "json_of_rows") if name.startswith("json_") else name
    sql = numeric_text(x) if x.base is Base.NUMERIC else x.sql
    listed = Typed(frame.apply("list", sql), x.type, array=1)
    found = emit.call(emission, name, [listed])
    assert found is not None
    return found


def _as_json(emission: Emission, x: Typed, name: str) -> Typed:
    """An array as the kind of JSON that the function of that name makes."""
    found = emit.call(emission, "to_jsonb" if name.startswith("jsonb") else "to_json", [x])
    assert found is not None
    return found


def _json_agg(name: str) -> AggregateText:
    def function(emission: Emission, arguments: list[Typed], frame: Frame) -> Typed:
        (x,) = arguments
        return _gathered(emission, name, x, frame)

    return function


def _json_object_agg(name: str) -> AggregateText:
    def function(emission: Emission, arguments: list[Typed], frame: Frame) -> Typed:
        key, x = arguments
        if x.array:
            x = _as_json(emission, x, name)
        sql = numeric_text(x) if x.base is Base.NUMERIC else x.sql
        keys = Typed(frame.apply("list", key.sql), TEXT, array=1)
        found = emit.call(emission, name, [keys, Typed(frame.apply("list", sql), x.type, array=1)])
        assert found is not None
        return found

    return function


TEXTS["jsonb_object_agg"] = _json_object_agg("jsonb_of_pairs")
TEXTS["json_object_agg"] = _json_object_agg("json_of_pairs")


TEXTS["jsonb_agg"] = _json_agg("jsonb_of_list")
TEXTS["json_agg"] = _json_agg("json_of_list")
TEXTS["json_agg of rows"] = _json_agg("json_of_rows")


def _extreme(name: str) -> AggregateText:
    def function(emission: Emission, arguments: list[Typed], frame: Frame) -> Typed:
        (x,) = arguments
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


TEXTS["min"] = _extreme("min")
TEXTS["max"] = _extreme("max")


def _boolean(name: str) -> AggregateText:
    def function(emission: Emission, arguments: list[Typed], frame: Frame) -> Typed:
        (x,) = arguments
        return Typed(frame.apply(name, x.sql), BOOLEAN)

    return function


TEXTS["bool_and"] = TEXTS["every"] = _boolean("bool_and")
TEXTS["bool_or"] = _boolean("bool_or")


def _spread(kind: str, duck: str) -> AggregateText:
    def function(emission: Emission, arguments: list[Typed], frame: Frame) -> Typed:
        (x,) = arguments
        if x.base in (Base.REAL, Base.DOUBLE):
            x = casts.as_double(emission, x)
            odd = frame.apply("bool_or", f"NOT isfinite({x.sql})", ordered=False)
            return Typed(f"pg_fspread({frame.apply(duck, x.sql)}, {odd})", DOUBLE)
        x = casts.as_numeric(emission, x)
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
        TEXTS[_name] = _spread(_kind, _duck)


_MEANS = frozenset({"regr_avgx", "regr_avgy"})
_RATIOS = frozenset({"corr", "regr_slope", "regr_intercept", "regr_r2"})
"""What is NULL where DuckDB divides zero by zero: of points that all lie on a line along an axis."""
_LARGE = "1e150"  # the square of which may be out of range


def _pair(name: str) -> AggregateText:
    def function(emission: Emission, arguments: list[Typed], frame: Frame) -> Typed:
        y, x = arguments
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
    TEXTS[_name] = _pair(_name)


def _bits(name: str) -> AggregateText:
    def function(emission: Emission, arguments: list[Typed], frame: Frame) -> Typed:
        (x,) = arguments
        return Typed(frame.apply(name, x.sql), x.type)

    return function


for _name in ("bit_and", "bit_or", "bit_xor"):
    TEXTS[_name] = _bits(_name)


@register("regr_count")
def _regr_count(emission: Emission, arguments: list[Typed], frame: Frame) -> Typed:
    y, x = arguments
    return Typed(f"CAST({frame.apply('regr_count', f'{y.sql}, {x.sql}')} AS BIGINT)", BIGINT)


@register("string_agg")
def _string_agg(emission: Emission, arguments: list[Typed], frame: Frame) -> Typed:
    x, separator = arguments
    return Typed(frame.apply("string_agg", f"{x.sql}, coalesce({separator.sql}, '')"), TEXT)


@register("array_agg")
def _array_agg(emission: Emission, arguments: list[Typed], frame: Frame) -> Typed:
    (x,) = arguments
    if x.array:
        return emit.gathered(emission, replace(x, sql=frame.apply("list", x.sql), array=x.array + 1))
    sql = numeric_text(x) if x.scale_sql is not None else x.sql
    return Typed(frame.apply("list", sql), x.type, None if x.scale_sql is not None else x.dec, array=1)
