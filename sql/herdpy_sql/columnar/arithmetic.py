"""Arithmetic of the columnar engine: ``+ - * / % ^``, negation, bits, and dates with intervals.

Operands come in as typed DuckDB text; PostgreSQL's rules choose the result's type, and the text that goes
out raises PostgreSQL's errors on overflow. NUMERIC stays native while its digits fit a DECIMAL.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from herdpy_sql.columnar import casts, library
from herdpy_sql.columnar.binder import Binder, handles
from herdpy_sql.columnar.macros import BARE, copies
from herdpy_sql.duck import (
    INTEGERS,
    MAX_DIGITS,
    NUMBERS,
    TIMES,
    Typed,
    decimal_text,
    duck_type,
    no_function,
    no_operator,
    numeric_text,
    typed,
)
from herdpy_sql.errors import SqlError
from herdpy_sql.types import (
    BIGINT,
    DATE,
    DOUBLE,
    INTEGER,
    INTERVAL,
    NUMERIC,
    REAL,
    TIME,
    TIMESTAMP,
    Base,
    SqlType,
)

if TYPE_CHECKING:
    from herdpy_sql.columnar.scope import Scope


def as_(x: Typed, type_: SqlType) -> str:
    """A number's text in another number type (never NUMERIC)."""
    return x.sql if x.base is type_.base else f"CAST({x.sql} AS {duck_type(type_)})"


def arithmetic(binder: Binder, symbol: str, a: Typed, b: Typed) -> Typed:
    """``a symbol b``; SqlError 42883 or 42725."""
    if a.unknown and b.unknown and symbol == "^":
        a = casts.settle(binder, a, DOUBLE)
    elif a.unknown and b.unknown:
        raise SqlError("42725", f"operator is not unique: unknown {symbol} unknown")
    if _is_library(symbol, a, b):
        found = library.call(binder, symbol, [a, b])
        if found is None:
            raise no_operator(symbol, a, b)
        return replace(found, name=None)
    if a.unknown:
        a = casts.settle(binder, a, _partner(symbol, b, left=True))
    elif b.unknown:
        b = casts.settle(binder, b, _partner(symbol, a, left=False))
    if a.base in NUMBERS and b.base in NUMBERS:
        return _numbers(binder, symbol, a, b)
    return _temporal(binder, symbol, a, b)


def _is_library(symbol: str, a: Typed, b: Typed) -> bool:
    """Whether the library does it: JSONB and vectors, intervals by numbers."""
    if a.array or b.array or {a.base, b.base} & {Base.JSONB, Base.VECTOR}:
        return True
    return symbol in "*/" and Base.INTERVAL in (a.base, b.base)


def _partner(symbol: str, other: Typed, *, left: bool) -> SqlType:
    """The type of an untyped operand beside ``other``: the same, but dates take intervals' rules."""
    base = other.base
    if base in (Base.TIMESTAMP, Base.TIMESTAMPTZ, Base.TIME) and symbol == "+":
        return INTERVAL
    if base is Base.DATE and symbol == "+":
        return INTEGER if not left else INTERVAL
    if base is Base.INTERVAL and symbol in "*/":
        return DOUBLE
    return other.type


def _numbers(binder: Binder, symbol: str, a: Typed, b: Typed) -> Typed:
    x, y = NUMBERS[a.base], NUMBERS[b.base]
    if x <= 3 and y <= 3:
        if symbol == "^":
            return _floats(symbol, casts.as_double(binder, a), casts.as_double(binder, b), DOUBLE)
        type_ = a.type if x >= y else b.type
        operator = "//" if symbol == "/" else symbol
        return typed(f"({as_(a, type_)} {operator} {as_(b, type_)})", type_, a, b)
    if x >= 5 or y >= 5:
        if symbol == "%":
            raise no_operator(symbol, a, b)
        if a.base is Base.REAL and b.base is Base.REAL and symbol != "^":
            return _floats(symbol, a, b, REAL)
        return _floats(symbol, casts.as_double(binder, a), casts.as_double(binder, b), DOUBLE)
    return numeric(binder, symbol, casts.as_numeric(binder, a), casts.as_numeric(binder, b))


def _floats(symbol: str, a: Typed, b: Typed, type_: SqlType) -> Typed:
    macro = {"+": "pg_fadd", "-": "pg_fsub", "*": "pg_fmul", "/": "pg_fdiv", "^": "pg_fpow"}[symbol]
    result = typed(f"{macro}({a.sql}, {b.sql})", type_, a, b)
    if macro not in BARE or result.weight * copies(macro) > _BARE_WEIGHT:
        return result
    sql = f"{macro}_bare({a.sql}, {b.sql})"
    return replace(result, sql=sql, weight=result.weight * copies(macro))


_BARE_WEIGHT = 300
"""How long an expression may be, in operands, whose own operands are there several times."""


_NUMERIC_FUNCTIONS = {
    "+": "pg_numadd",
    "-": "pg_numsub",
    "*": "pg_nummul",
    "/": "pg_numdiv",
    "%": "pg_nummod",
    "^": "pg_numpow",
}


def numeric(binder: Binder, symbol: str, a: Typed, b: Typed) -> Typed:
    """NUMERIC arithmetic: native where the result's digits fit a DECIMAL, else exact on text."""
    if a.dec is not None and b.dec is not None and symbol in "+-*":
        (p1, s1), (p2, s2) = a.dec, b.dec
        sa, sb = a.scale_sql or str(s1), b.scale_sql or str(s2)
        mixed = a.scale_sql is not None or b.scale_sql is not None
        if symbol == "*":
            scale = s1 + s2
            scale_sql = f"({sa}) + ({sb})" if mixed else None
            precision = binder.product_digits(p1, p2, scale)
            if precision <= MAX_DIGITS:
                # DuckDB multiplies two DECIMALs of up to 18 digits as one of 18 and no more.
                left = f"CAST({a.sql} AS DECIMAL(19,{s1}))" if max(p1, p2) <= 18 < precision else a.sql
                result = typed(f"({left} * {b.sql})", NUMERIC, a, b, dec=(precision, scale))
                native = max(p1, p2) <= 18 and precision <= 18  # it is of this type already
                sql = result.sql if native else f"CAST({result.sql} AS DECIMAL({precision},{scale}))"
                return replace(result, sql=sql, dec=(precision, scale), scale_sql=scale_sql)
        else:
            scale = max(s1, s2)
            precision = max(p1 - s1, p2 - s2) + scale + 1
            scale_sql = f"greatest({sa}, {sb})" if mixed else None
            precision = binder.digits(precision, scale)
            if precision < 18:  # DuckDB gives the sum one digit more than its operands have
                x, y = (decimal_text(one, (precision - 1, scale)) for one in (a, b))
                result = typed(f"({x} {symbol} {y})", NUMERIC, a, b, dec=(precision, scale))
                return replace(result, scale_sql=scale_sql)
            if precision <= MAX_DIGITS:
                cast = f"AS DECIMAL({precision},{scale}))"
                result = typed(f"(CAST({a.sql} {cast} {symbol} CAST({b.sql} {cast})", NUMERIC, a, b)
                sql = f"CAST({result.sql} {cast}"
                return replace(result, sql=sql, dec=(precision, scale), scale_sql=scale_sql)
    return typed(f"{_NUMERIC_FUNCTIONS[symbol]}({numeric_text(a)}, {numeric_text(b)})", NUMERIC, a, b)


def _temporal(binder: Binder, symbol: str, a: Typed, b: Typed) -> Typed:
    x, y = a.base, b.base
    pair = f"({a.sql} {symbol} {b.sql})"
    if symbol in "+-":
        if symbol == "+" and (y in TIMES or (y is Base.TIME and x is Base.INTERVAL)) and x not in TIMES:
            return _temporal_sum(b, a)
        if symbol == "+":
            return _temporal_sum(a, b)
        if x is Base.DATE and y in (Base.SMALLINT, Base.INTEGER):
            return typed(f"({a.sql} - {as_(b, INTEGER)})", DATE, a, b)
        if x is Base.DATE and y is Base.DATE:
            return typed(f"CAST({pair} AS INTEGER)", INTEGER, a, b)
        if x in TIMES and y in TIMES:
            type_ = a.type if TIMES[x] >= TIMES[y] else b.type
            left, right = casts.cast(binder, a, type_).sql, casts.cast(binder, b, type_).sql
            return typed(f"pg_tsdiff({left}, {right})", INTERVAL, a, b)
        if x is Base.TIME and y is Base.TIME:
            return typed(f"to_microseconds(epoch_us({a.sql}) - epoch_us({b.sql}))", INTERVAL, a, b)
        if y is Base.INTERVAL and x in TIMES:  # months go before days and these before the rest, as in a sum
            return _temporal_sum(a, typed(f"(-{b.sql})", INTERVAL, b))
        if y is Base.INTERVAL and x in (Base.INTERVAL, Base.TIME):
            return typed(pair, a.type, a, b)
    raise no_operator(symbol, a, b)


_ONE_UNIT = re.compile(r"(?:\(-)?\(to_(?:months|days|microseconds)\([^()]*(?:\([^()]*\))?\)\)\)?")
"""A constant interval of months alone, days alone or time alone: DuckDB adds those as PostgreSQL does."""


def _temporal_sum(a: Typed, b: Typed) -> Typed:
    x, y = a.base, b.base
    pair = f"({a.sql} + {b.sql})"
    if x is Base.DATE and y in (Base.SMALLINT, Base.INTEGER):
        return typed(f"({a.sql} + {as_(b, INTEGER)})", DATE, a, b)
    if x is Base.DATE and y is Base.TIME:
        return typed(pair, TIMESTAMP, a, b)
    if x is Base.DATE and y is Base.INTERVAL:
        return typed(f"(CAST({a.sql} AS TIMESTAMP) + {b.sql})", TIMESTAMP, a, b)
    if y is Base.INTERVAL and x is Base.TIMESTAMPTZ and not _ONE_UNIT.fullmatch(b.sql):
        return typed(f"pg_zonedplus({a.sql}, {b.sql})", a.type, a, b)
    if y is Base.INTERVAL and x in (Base.TIMESTAMP, Base.TIMESTAMPTZ, Base.INTERVAL):
        return typed(pair, a.type, a, b)
    if y is Base.INTERVAL and x is Base.TIME:
        return typed(pair, TIME, a, b)
    raise no_operator("+", a, b)


_SYMBOLS: dict[type[exp.Expression], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.Pow: "^",
}


@handles(*_SYMBOLS)
def _arithmetic(binder: Binder, node: Any, scope: Scope) -> Typed:
    a, b = binder.bind(node.this, scope), binder.bind(node.expression, scope)
    if "start" not in node.meta:
        return arithmetic(binder, _SYMBOLS[type(node)], a, b)
    length = node.meta["end"] - node.meta["start"] + 1  # written as a function: mod(a, b), power(a, b)
    name = "mod" if isinstance(node, exp.Mod) else ("pow" if length == 3 else "power")
    found = library.call(binder, name, [a, b])
    if found is None:
        raise no_function(name, [a, b])
    return replace(found, name=name)


_LEAST = {
    str(-least): Typed(f"CAST('{least}' AS {type_.base.value})", type_, literal=str(least))
    for type_, least in ((INTEGER, -(2**31)), (BIGINT, -(2**63)))
}


@handles(exp.Neg)
def _negate(binder: Binder, node: Any, scope: Scope) -> Typed:
    inner = node.this.unnest()
    least = _LEAST.get(inner.name) if isinstance(inner, exp.Literal) and not inner.is_string else None
    if least is not None:  # PostgreSQL reads the sign with the digits: -2147483648 is an integer
        return least
    x = binder.bind(node.this, scope)
    if x.literal is not None and not x.unknown and not x.literal.startswith("-"):
        return Typed(f"(-{x.sql})", x.type, literal="-" + x.literal)
    if x.unknown:
        raise SqlError(
            "42725", "operator is not unique: - unknown", hint="You might need to add explicit type casts."
        )
    if x.is_text_numeric:
        return typed(f"pg_numneg({x.sql})", NUMERIC, x)
    if x.base is Base.NUMERIC:
        return Typed(f"(-{x.sql})", NUMERIC, x.dec, x.scale_sql, vars=x.vars, agg=x.agg, window=x.window)
    if x.base not in NUMBERS and x.base is not Base.INTERVAL:
        raise no_operator("-", x, None)
    return typed(f"(-{x.sql})", x.type, x)


_BITS: dict[type[exp.Expression], tuple[str, str]] = {
    exp.BitwiseAnd: ("&", "({0} & {1})"),
    exp.BitwiseOr: ("|", "({0} | {1})"),
    exp.BitwiseXor: ("#", "xor({0}, {1})"),
}


@handles(*_BITS)
def _bits(binder: Binder, node: Any, scope: Scope) -> Typed:
    symbol, form = _BITS[type(node)]
    a, b = binder.bind(node.this, scope), binder.bind(node.expression, scope)
    if a.unknown:
        a = casts.settle(binder, a, b.type)
    if b.unknown:
        b = casts.settle(binder, b, a.type)
    if a.base not in INTEGERS or b.base not in INTEGERS:
        raise no_operator(symbol, a, b)
    type_ = a.type if INTEGERS[a.base] >= INTEGERS[b.base] else b.type
    return typed(form.format(as_(a, type_), as_(b, type_)), type_, a, b)


@handles(exp.BitwiseLeftShift, exp.BitwiseRightShift)
def _shift(binder: Binder, node: Any, scope: Scope) -> Typed:
    left = isinstance(node, exp.BitwiseLeftShift)
    symbol = "<<" if left else ">>"
    a, b = binder.bind(node.this, scope), casts.coerce(binder, binder.bind(node.expression, scope), INTEGER)
    if a.base not in INTEGERS:
        raise no_operator(symbol, a, b)
    bits = {Base.SMALLINT: 31, Base.INTEGER: 31, Base.BIGINT: 63}[a.base]
    width = 16 * 2 ** (INTEGERS[a.base] - 1)
    macro = f"pg_{'shl' if left else 'shr'}({as_(a, BIGINT)}, {b.sql} & {bits}, {width})"
    return typed(f"CAST({macro} AS {duck_type(a.type)})", a.type, a, b)


@handles(exp.BitwiseNot)
def _bit_not(binder: Binder, node: Any, scope: Scope) -> Typed:
    x = binder.bind(node.this, scope)
    if x.base not in INTEGERS:
        raise no_operator("~", x, None)
    return typed(f"(~{x.sql})", x.type, x)
