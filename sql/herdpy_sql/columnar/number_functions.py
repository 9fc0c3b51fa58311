"""Functions of numbers in the columnar engine: abs, round, sqrt, ln, trigonometry.

Each chooses by its argument, as PostgreSQL does: NUMERIC stays exact (natively on DECIMALs, else by a
function over its text), all else becomes DOUBLE PRECISION. Functions register themselves in
``functions.FUNCTIONS``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from herdpy_sql.columnar import casts
from herdpy_sql.columnar.arithmetic import arithmetic
from herdpy_sql.columnar.functions import FUNCTIONS, Function, integer_argument, register
from herdpy_sql.columnar.typed import INTEGERS, Typed, numeric_text, typed
from herdpy_sql.types import DOUBLE, INTEGER, NUMERIC, UUID, Base, SqlType

if TYPE_CHECKING:
    from herdpy_sql.columnar.binder import Binder


def _double_function(name: str, form: str) -> None:
    def function(binder: Binder, arguments: list[Typed]) -> Typed:
        values = [_double(binder, a) for a in arguments]
        if len(values) != form.count("{"):
            raise ValueError
        return typed(form.format(*(v.sql for v in values)), DOUBLE, *values)

    FUNCTIONS[name] = function


def _double(binder: Binder, x: Typed) -> Typed:
    if not x.unknown and x.base not in (*INTEGERS, Base.NUMERIC, Base.REAL, Base.DOUBLE):
        raise TypeError
    return casts.as_double(binder, x)


for _name, _form in (
    ("sin", "sin({})"),
    ("cos", "cos({})"),
    ("tan", "tan({})"),
    ("asin", "pg_finput('asin', {})"),
    ("acos", "pg_finput('acos', {})"),
    ("atan", "atan({})"),
    ("atan2", "atan2({}, {})"),
    ("degrees", "degrees({})"),
    ("radians", "radians({})"),
    ("cbrt", "cbrt({})"),
):
    _double_function(_name, _form)


@register("pi")
def _pi(binder: Binder, arguments: list[Typed]) -> Typed:
    return Typed("pi()", DOUBLE)


@register("random")
def _random(binder: Binder, arguments: list[Typed]) -> Typed:
    return Typed("random()", DOUBLE, volatile=True)


@register("gen_random_uuid")
def _gen_random_uuid(binder: Binder, arguments: list[Typed]) -> Typed:
    return Typed("gen_random_uuid()", UUID, volatile=True)


@register("abs")
def _abs(binder: Binder, arguments: list[Typed]) -> Typed:
    (x,) = arguments
    if x.unknown:
        x = casts.settle(binder, x, DOUBLE)
    if x.is_text_numeric:
        return typed(f"pg_numabs({x.sql})", NUMERIC, x)
    _double(binder, x)
    return replace(typed(f"abs({x.sql})", SqlType(x.base), x, dec=x.dec), scale_sql=x.scale_sql)


@register("sign")
def _sign(binder: Binder, arguments: list[Typed]) -> Typed:
    (x,) = arguments
    if x.base is Base.NUMERIC:
        sql = f"pg_numsign({x.sql})" if x.dec is None else f"sign({x.sql})"
        return typed(f"CAST({sql} AS DECIMAL(1,0))", NUMERIC, x, dec=(1, 0))
    x = _double(binder, x)
    return typed(f"CAST(sign({x.sql}) AS DOUBLE)", DOUBLE, x)


def _rounding(name: str) -> Function:
    def function(binder: Binder, arguments: list[Typed]) -> Typed:
        (x,) = arguments
        if x.base is Base.NUMERIC:
            if x.dec is None:
                return typed(f"pg_num{name}({x.sql})", NUMERIC, x)
            p, s = x.dec
            dec = (min(max(p - s + 1, 1), 38), 0)
            return typed(f"CAST({name}({x.sql}) AS DECIMAL({dec[0]},0))", NUMERIC, x, dec=dec)
        x = _double(binder, x)
        return typed(f"{name}({x.sql})", DOUBLE, x)

    return function


FUNCTIONS["ceil"] = FUNCTIONS["ceiling"] = _rounding("ceil")
FUNCTIONS["floor"] = _rounding("floor")


def _to_places(name: str) -> Function:
    def function(binder: Binder, arguments: list[Typed]) -> Typed:
        x = arguments[0]
        if len(arguments) == 1:
            if x.base is not Base.NUMERIC:
                x = _double(binder, x)
                form = f"round_even({x.sql}, 0)" if name == "round" else f"trunc({x.sql})"
                return typed(form, DOUBLE, x)
            places = Typed("0", INTEGER, literal="0")
        else:
            if x.base in (Base.REAL, Base.DOUBLE):
                raise TypeError
            x, places = casts.as_numeric(binder, x), integer_argument(binder, arguments[1])
            if len(arguments) > 2:
                raise ValueError
        if places.literal is not None and x.dec is not None and places.literal.isdigit():
            n, (p, s) = int(places.literal), x.dec
            width = p - s + n + 1
            if n >= s and p - s + n <= 38:
                dec = (max(p - s + n, 1), n)
                return typed(f"CAST({x.sql} AS DECIMAL({dec[0]},{n}))", NUMERIC, x, places, dec=dec)
            if name == "round" and width <= 38:
                return typed(f"CAST({x.sql} AS DECIMAL({width},{n}))", NUMERIC, x, places, dec=(width, n))
        return typed(f"pg_num{name}({numeric_text(x)}, {places.sql})", NUMERIC, x, places)

    return function


FUNCTIONS["round"] = _to_places("round")
FUNCTIONS["trunc"] = _to_places("trunc")


@register("sqrt")
def _sqrt(binder: Binder, arguments: list[Typed]) -> Typed:
    (x,) = arguments
    if x.base is Base.NUMERIC:
        return typed(f"pg_numsqrt({numeric_text(x)})", NUMERIC, x)
    x = _double(binder, x)
    return typed(f"pg_fsqrt({x.sql})", DOUBLE, x)


@register("exp")
def _exp(binder: Binder, arguments: list[Typed]) -> Typed:
    (x,) = arguments
    if x.base is Base.NUMERIC:
        return typed(f"pg_numexp({numeric_text(x)})", NUMERIC, x)
    x = _double(binder, x)
    return typed(f"pg_fexp({x.sql})", DOUBLE, x)


@register("ln")
def _ln(binder: Binder, arguments: list[Typed]) -> Typed:
    (x,) = arguments
    if x.base is Base.NUMERIC:
        return typed(f"pg_numln({numeric_text(x)})", NUMERIC, x)
    x = _double(binder, x)
    return typed(f"pg_flog('ln', {x.sql})", DOUBLE, x)


@register("log", "log10")
def _log(binder: Binder, arguments: list[Typed]) -> Typed:
    if len(arguments) == 2:
        a, b = (casts.as_numeric(binder, x) for x in arguments)
        if a.base is not Base.NUMERIC or b.base is not Base.NUMERIC:
            raise TypeError
        return typed(f"pg_numlog({numeric_text(a)}, {numeric_text(b)})", NUMERIC, a, b)
    (x,) = arguments
    if x.base is Base.NUMERIC:
        return typed(f"pg_numlog('10', {numeric_text(x)})", NUMERIC, x)
    x = _double(binder, x)
    return typed(f"pg_flog('log', {x.sql})", DOUBLE, x)


@register("power", "pow")
def _power(binder: Binder, arguments: list[Typed]) -> Typed:
    a, b = arguments
    return arithmetic(binder, "^", a, b)


@register("mod")
def _mod(binder: Binder, arguments: list[Typed]) -> Typed:
    a, b = arguments
    return arithmetic(binder, "%", a, b)


@register("div")
def _div(binder: Binder, arguments: list[Typed]) -> Typed:
    a, b = (casts.as_numeric(binder, x) for x in arguments)
    return typed(f"pg_numintdiv({numeric_text(a)}, {numeric_text(b)})", NUMERIC, a, b)
