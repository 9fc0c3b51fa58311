"""What each aggregate of the columnar engine means: typed arguments and a frame to typed DuckDB text.

SUM and AVG of integers and NUMERIC run natively on integers and DECIMALs; only AVG's last division
(one a group) is done by an exact function. They register themselves in ``aggregates.AGGREGATES``.
"""

from __future__ import annotations

from dataclasses import replace

from herdpy_sql.columnar import casts, library
from herdpy_sql.columnar.aggregates import AGGREGATES, ANONYMOUS, Aggregate, Frame, register
from herdpy_sql.columnar.binder import Binder
from herdpy_sql.columnar.operators import order_key
from herdpy_sql.columnar.typed import INTEGERS, MAX_DIGITS, STRINGS, Typed, numeric_text
from herdpy_sql.errors import SqlError
from herdpy_sql.types import BIGINT, BOOLEAN, BYTEA, DOUBLE, INTERVAL, NUMERIC, REAL, TEXT, Base

_GROWTH = 12  # digits that a sum may gain: 10^12 rows


@register("count")
def _count(binder: Binder, arguments: list[Typed], frame: Frame) -> Typed:
    if not arguments:
        return Typed(frame.apply("count", "*"), BIGINT)
    (x,) = arguments
    x = casts.settle_text(binder, x)
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
        x = casts.as_double(binder, x)
        infinite = frame.apply("bool_or", f"isinf({x.sql})", ordered=False)
        wide = f"pg_fsum({frame.apply('avg', x.sql)}, {infinite})"
        return Typed(wide, DOUBLE)
    if base is Base.INTERVAL:
        return _of_intervals(binder, "interval_avg", x, frame)
    raise ValueError


def _of_intervals(binder: Binder, name: str, x: Typed, frame: Frame) -> Typed:
    found = library.call(binder, name, [Typed(frame.apply("list", x.sql), INTERVAL, array=1)])
    assert found is not None
    return found


def _gathered(binder: Binder, name: str, x: Typed, frame: Frame) -> Typed:
    """jsonb_agg and json_agg: the values as a list, which a function of the library makes JSON of."""
    x = casts.settle_text(binder, x)
    if x.array:
        x = _as_json(binder, x, name)
        name = name.replace("json_of_list", "json_of_rows") if name.startswith("json_") else name
    sql = numeric_text(x) if x.base is Base.NUMERIC else x.sql
    listed = Typed(frame.apply("list", sql), x.type, array=1)
    found = library.call(binder, name, [listed])
    assert found is not None
    return found


def _as_json(binder: Binder, x: Typed, name: str) -> Typed:
    """An array as the kind of JSON that the function of that name makes."""
    found = library.call(binder, "to_jsonb" if name.startswith("jsonb") else "to_json", [x])
    assert found is not None
    return found


def _json_agg(name: str) -> Aggregate:
    def function(binder: Binder, arguments: list[Typed], frame: Frame) -> Typed:
        (x,) = arguments
        return _gathered(binder, name, x, frame)

    return function


def _json_object_agg(name: str) -> Aggregate:
    def function(binder: Binder, arguments: list[Typed], frame: Frame) -> Typed:
        key, x = casts.as_text(binder, arguments[0]), casts.settle_text(binder, arguments[1])
        if x.array:
            x = _as_json(binder, x, name)
        sql = numeric_text(x) if x.base is Base.NUMERIC else x.sql
        keys = Typed(frame.apply("list", key.sql), TEXT, array=1)
        found = library.call(binder, name, [keys, Typed(frame.apply("list", sql), x.type, array=1)])
        assert found is not None
        return found

    return function


AGGREGATES["jsonb_object_agg"] = _json_object_agg("jsonb_of_pairs")
AGGREGATES["json_object_agg"] = _json_object_agg("json_of_pairs")


AGGREGATES["jsonb_agg"] = _json_agg("jsonb_of_list")
AGGREGATES["json_agg"] = _json_agg("json_of_list")
AGGREGATES["json_agg of rows"] = _json_agg("json_of_rows")
ANONYMOUS.update(("jsonb_agg", "json_agg", "jsonb_object_agg", "json_object_agg"))


def _extreme(name: str) -> Aggregate:
    def function(binder: Binder, arguments: list[Typed], frame: Frame) -> Typed:
        (x,) = arguments
        x = casts.settle_text(binder, x)
        if x.base in (Base.BOOLEAN, Base.UUID, Base.JSON, Base.JSONB, Base.BYTEA, Base.VECTOR):
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
        x = casts.coerce(binder, x, BOOLEAN)
        return Typed(frame.apply(name, x.sql), BOOLEAN)

    return function


AGGREGATES["bool_and"] = AGGREGATES["every"] = _boolean("bool_and")
AGGREGATES["bool_or"] = _boolean("bool_or")


def _spread(kind: str, duck: str) -> Aggregate:
    def function(binder: Binder, arguments: list[Typed], frame: Frame) -> Typed:
        (x,) = arguments
        if x.base in (Base.REAL, Base.DOUBLE):
            x = casts.as_double(binder, x)
            odd = frame.apply("bool_or", f"NOT isfinite({x.sql})", ordered=False)
            return Typed(f"pg_fspread({frame.apply(duck, x.sql)}, {odd})", DOUBLE)
        x = casts.as_numeric(binder, x)
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
        y, x = (casts.as_double(binder, a) for a in arguments)
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
    y, x = (casts.as_double(binder, a) for a in arguments)
    return Typed(f"CAST({frame.apply('regr_count', f'{y.sql}, {x.sql}')} AS BIGINT)", BIGINT)


@register("string_agg")
def _string_agg(binder: Binder, arguments: list[Typed], frame: Frame) -> Typed:
    x, separator = arguments
    if not x.unknown and x.base not in STRINGS and x.base is not Base.BYTEA:
        raise ValueError
    if x.base is Base.BYTEA:
        raise SqlError("0A000", f"string_agg of {BYTEA} is not supported")
    x, separator = casts.as_text(binder, x), casts.as_text(binder, separator)
    return Typed(frame.apply("string_agg", f"{x.sql}, coalesce({separator.sql}, '')"), TEXT)


@register("array_agg")
def _array_agg(binder: Binder, arguments: list[Typed], frame: Frame) -> Typed:
    (x,) = arguments
    x = casts.settle_text(binder, x)
    if x.array:
        return library.gathered(binder, replace(x, sql=frame.apply("list", x.sql), array=x.array + 1))
    sql = numeric_text(x) if x.scale_sql is not None else x.sql
    return Typed(frame.apply("list", sql), x.type, None if x.scale_sql is not None else x.dec, array=1)
