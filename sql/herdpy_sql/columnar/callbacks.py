"""The functions that DuckDB calls back for, one row's values at a time (``macros`` vectorises them).

First functions of text that DuckDB has not, or has with another meaning, and the forms in which it compares
numbers; then the table of all. NUMERICs come and go as text.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_FLOOR, Decimal
from typing import Any

import pyarrow as pa

from herdpy.codec.keys import jsonb_bytes
from herdpy.codec.kinds import Interval
from herdpy_sql.clock import Clock
from herdpy_sql.errors import SqlError
from herdpy_sql.expr import intervals
from herdpy_sql.expr import numeric as arithmetic
from herdpy_sql.expr.numeric import division_scale, quotient_at, scale_of
from herdpy_sql.library.texts import split_part, translate
from herdpy_sql.types import (
    BYTEA,
    DATE,
    DOUBLE,
    INTERVAL,
    REAL,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    Base,
    SqlType,
)
from herdpy_sql.values import floats, letter_case, numeric
from herdpy_sql.values.booleans import parse_boolean
from herdpy_sql.values.bytea import parse_bytea
from herdpy_sql.values.numeric import EXACT, fit, numeric_text, rescale
from herdpy_sql.values.styled import reader, writer
from herdpy_sql.values.styles import Style
from herdpy_sql.values.uuids import parse_uuid


def _interval(value: Any) -> Interval:
    """The datum of (months, days, nanoseconds)."""
    months, days, nanos = value
    return Interval(int(months), int(days), int(nanos) // 1000)


def similar(pattern: str) -> str:
    """A SIMILAR TO pattern as a regular expression."""
    out, at, bracket = [], 0, False
    while at < len(pattern):
        char = pattern[at]
        if char == "\\" and at + 1 < len(pattern):
            at += 1
            out.append("\\" + pattern[at] if not pattern[at].isalnum() else pattern[at])
        elif bracket:
            bracket = char != "]"
            out.append(char)
        elif char == "[":
            bracket = True
            out.append(char)
        elif char in "%_":
            out.append(".*" if char == "%" else ".")
        elif char in ".^$":
            out.append("\\" + char)
        elif char == "(":
            out.append("(?:")
        else:
            out.append(char)
        at += 1
    return "^(?:" + "".join(out) + ")$"


def replacement(text: str) -> str:
    """A replacement of regexp_replace as DuckDB reads it: the whole match is \\0 rather than \\&."""
    out, at = [], 0
    while at < len(text):
        char = text[at]
        if char == "\\" and at + 1 < len(text):
            at += 1
            following = text[at]
            if following == "&":
                out.append("\\0")
            elif following.isdigit() or following == "\\":
                out.append("\\" + following)
            else:
                out.append("\\\\" + following)
        else:
            out.append("\\\\" if char == "\\" else char)
        at += 1
    return "".join(out)


def surrogate_of(value: Decimal, precision: int, scale: int) -> str:
    """A value of DECIMAL(p+2, s+1) that compares with every DECIMAL(p, s) as ``value`` does."""
    most = Decimal(1).scaleb(precision - scale)
    if abs(value) >= most:
        return str(most if value > 0 else -most)
    quantum = Decimal(1).scaleb(-scale)
    floor = value.quantize(quantum, rounding=ROUND_FLOOR, context=EXACT)
    if floor == value:
        return format(floor, "f")
    return format(EXACT.add(floor, quantum / 2), "f")


def without_zeros(value: Decimal) -> Decimal:
    """The value without trailing zeros after the point: one form for equal numbers."""
    result = value.normalize(EXACT)
    return rescale(result, 0) if scale_of(result) <= 0 else result


def number_key(value: Decimal) -> str:
    """Text that sorts (by code point) as the numbers do; equal numbers have equal text."""
    if not value:
        return "1"
    digits = "".join(map(str, value.as_tuple().digits)).lstrip("0").rstrip("0")
    body = f"{value.adjusted() + 200000:06d}{digits}"
    if value > 0:
        return "2" + body
    return "0" + "".join(chr(ord("9") - ord(c) + ord("0")) for c in body) + "~"


D = Decimal
_MAX_SERIES = 10_000_000


def _binary(function: Callable[[Decimal, Decimal], Decimal]) -> Callable[[str, str], str]:
    return lambda a, b: numeric_text(function(D(a), D(b)))


def _sum(values: list[str | None]) -> str | None:
    present = [D(v) for v in values if v is not None]
    if not present:
        return None
    total = present[0]
    for value in present[1:]:
        total = arithmetic.add(total, value)
    return numeric_text(total)


def _extreme(pick: Callable[..., Decimal], values: list[str | None]) -> str | None:
    present = [D(v) for v in values if v is not None]
    return numeric_text(pick(present)) if present else None


def _variance(kind: str, count: int, values: list[str | None]) -> str | None:
    """numeric_stddev_internal: from N, sum(X) and sum(X*X)."""
    n, sum_x, sum_x2 = D(count), D(0), D(0)
    for value in values:
        if value is not None:
            x = D(value)
            sum_x, sum_x2 = arithmetic.add(sum_x, x), arithmetic.add(sum_x2, arithmetic.multiply(x, x))
    sample = kind in ("var_samp", "stddev_samp")
    if count == 0 or (sample and count <= 1):
        return None
    numerator = arithmetic.subtract(arithmetic.multiply(n, sum_x2), arithmetic.multiply(sum_x, sum_x))
    if numerator <= 0:
        return "0"
    divisor = arithmetic.multiply(n, n - 1 if sample else n)
    scale = division_scale(numerator, divisor)
    result = quotient_at(numerator, divisor, scale)
    if kind.startswith("stddev"):
        result = rescale(arithmetic.WIDE.sqrt(result), scale)
    return numeric_text(result)


def _series(start: str, end: str, step: str) -> list[str]:
    """generate_series of NUMERIC."""
    value, last, by = D(start), D(end), D(step)
    if not by:
        raise SqlError("22023", "step size cannot equal zero")
    if (last - value) / by > _MAX_SERIES:
        raise SqlError("0A000", f"generate_series of more than {_MAX_SERIES} numerics is not supported")
    found = []
    while value <= last if by > 0 else value >= last:
        found.append(numeric_text(value))
        value = arithmetic.add(value, by)
    return found


FUNCTIONS: tuple[tuple[str, Callable[..., Any], tuple[Any, ...], Any], ...] = (
    ("pg_numadd", _binary(arithmetic.add), ("VARCHAR", "VARCHAR"), "VARCHAR"),
    ("pg_numsub", _binary(arithmetic.subtract), ("VARCHAR", "VARCHAR"), "VARCHAR"),
    ("pg_nummul", _binary(arithmetic.multiply), ("VARCHAR", "VARCHAR"), "VARCHAR"),
    ("pg_numdiv", _binary(arithmetic.divide), ("VARCHAR", "VARCHAR"), "VARCHAR"),
    ("pg_numavg", _binary(arithmetic.divide), ("VARCHAR", "VARCHAR"), "VARCHAR"),
    ("pg_nummod", _binary(arithmetic.remainder), ("VARCHAR", "VARCHAR"), "VARCHAR"),
    ("pg_numneg", lambda a: numeric_text(arithmetic.negate(D(a))), ("VARCHAR",), "VARCHAR"),
    ("pg_numabs", lambda a: numeric_text(D(a).copy_abs()), ("VARCHAR",), "VARCHAR"),
    ("pg_numsign", lambda a: (D(a) > 0) - (D(a) < 0), ("VARCHAR",), "INTEGER"),
    ("pg_numsqrt", lambda a: numeric_text(arithmetic.square_root(D(a))), ("VARCHAR",), "VARCHAR"),
    (
        "pg_numround",
        lambda a, n: numeric_text(arithmetic.round_to(D(a), n)),
        ("VARCHAR", "INTEGER"),
        "VARCHAR",
    ),
    (
        "pg_numtrunc",
        lambda a, n: numeric_text(arithmetic.truncate_to(D(a), n)),
        ("VARCHAR", "INTEGER"),
        "VARCHAR",
    ),
    ("pg_numceil", lambda a: numeric_text(arithmetic.ceiling(D(a))), ("VARCHAR",), "VARCHAR"),
    ("pg_numfloor", lambda a: numeric_text(arithmetic.floor(D(a))), ("VARCHAR",), "VARCHAR"),
    ("pg_numexp", lambda a: numeric_text(arithmetic.exponential(D(a))), ("VARCHAR",), "VARCHAR"),
    ("pg_numln", lambda a: numeric_text(arithmetic.natural_log(D(a))), ("VARCHAR",), "VARCHAR"),
    ("pg_numlog", _binary(arithmetic.logarithm), ("VARCHAR", "VARCHAR"), "VARCHAR"),
    ("pg_numpow", _binary(arithmetic.power), ("VARCHAR", "VARCHAR"), "VARCHAR"),
    ("pg_numintdiv", _binary(arithmetic.whole_quotient), ("VARCHAR", "VARCHAR"), "VARCHAR"),
    ("pg_similar", similar, ("VARCHAR",), "VARCHAR"),
    ("pg_replacement", replacement, ("VARCHAR",), "VARCHAR"),
    ("pg_numkey", lambda a: number_key(D(a)), ("VARCHAR",), "VARCHAR"),
    ("pg_surrogate", lambda a, p, s: surrogate_of(D(a), p, s), ("VARCHAR", "INTEGER", "INTEGER"), "VARCHAR"),
    ("pg_numnorm", lambda a: numeric_text(without_zeros(D(a))), ("VARCHAR",), "VARCHAR"),
    ("pg_numgreatest", lambda a: _extreme(max, a), ("VARCHAR[]",), "VARCHAR"),
    ("pg_numleast", lambda a: _extreme(min, a), ("VARCHAR[]",), "VARCHAR"),
    (
        "pg_wrap",
        lambda a, n, bits: ((a << n) + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1)),
        ("BIGINT", "INTEGER", "INTEGER"),
        "BIGINT",
    ),
    ("pg_initcap", letter_case.initcap, ("VARCHAR",), "VARCHAR"),
    ("pg_lowertext", letter_case.lower, ("VARCHAR",), "VARCHAR"),
    ("pg_uppertext", letter_case.upper, ("VARCHAR",), "VARCHAR"),
    ("pg_reverse", lambda a: a[::-1], ("VARCHAR",), "VARCHAR"),
    ("pg_translate", translate, ("VARCHAR", "VARCHAR", "VARCHAR"), "VARCHAR"),
    ("pg_split_part", split_part, ("VARCHAR", "VARCHAR", "INTEGER"), "VARCHAR"),
    ("pg_jsonbkey", jsonb_bytes, ("VARCHAR",), "BLOB"),
    (
        "pg_limit",
        lambda a, p, s: numeric_text(fit(D(a), SqlType(Base.NUMERIC, precision=p, scale=s))),
        ("VARCHAR", "INTEGER", "INTEGER"),
        "VARCHAR",
    ),
    ("pg_numsum", _sum, ("VARCHAR[]",), "VARCHAR"),
    ("pg_numseries", _series, ("VARCHAR", "VARCHAR", "VARCHAR"), "VARCHAR[]"),
    ("pg_variance", _variance, ("VARCHAR", "BIGINT", "VARCHAR[]"), "VARCHAR"),
    ("pg_numeric", lambda a: numeric_text(numeric.parse_numeric(a)), ("VARCHAR",), "VARCHAR"),
    ("pg_textdouble", floats.parse_double, ("VARCHAR",), "DOUBLE"),
    ("pg_textinteger", lambda a: numeric_text(rescale(D(a), 0)), ("VARCHAR",), "VARCHAR"),
    ("pg_floatnumeric", lambda a: numeric_text(numeric.from_float(a, 6)), ("FLOAT",), "VARCHAR"),
    ("pg_doublenumeric", lambda a: numeric_text(numeric.from_float(a, 15)), ("DOUBLE",), "VARCHAR"),
    ("pg_real", floats.parse_real, ("VARCHAR",), "FLOAT"),
    ("pg_double", floats.parse_double, ("VARCHAR",), "DOUBLE"),
    ("pg_bytea", parse_bytea, ("VARCHAR",), "BLOB"),
    ("pg_uuidform", lambda a: parse_uuid(a).hex(), ("VARCHAR",), "VARCHAR"),
    ("pg_boolean", parse_boolean, ("VARCHAR",), "BOOLEAN"),
)


_MOMENTS = (
    ("pg_datedays", DATE, "INTEGER"),
    ("pg_timeus", TIME, "BIGINT"),
    ("pg_timestampus", TIMESTAMP, "BIGINT"),
    ("pg_timestamptzus", TIMESTAMPTZ, "BIGINT"),
)


def styled(style: Style) -> tuple[tuple[str, Callable[..., Any], tuple[Any, ...], Any], ...]:
    """As :data:`FUNCTIONS`: those that depend on the session's settings.

    Names that end with ``_at`` take what is now, too, of which "today" and its like are.
    """
    clock = Clock(0, 0, style)

    def plus(us: int, interval: Any) -> int:
        return intervals.add_zoned(clock, us, _interval(interval))

    readers: list[tuple[str, Callable[..., Any], tuple[Any, ...], Any]] = []
    for name, type_, result in _MOMENTS:
        read = reader(type_)
        readers += [
            (name, lambda text, read=read: read(text, style, None), ("VARCHAR",), result),
            (
                f"{name}_at",
                lambda text, now, read=read: read(text, style, now),
                ("VARCHAR", "BIGINT"),
                result,
            ),
        ]
    return (
        *readers,
        ("pg_zonedtext", writer(TIMESTAMPTZ, style), ("BIGINT",), "VARCHAR"),
        ("pg_styleddate", writer(DATE, style), ("INTEGER",), "VARCHAR"),
        ("pg_styledtimestamp", writer(TIMESTAMP, style), ("BIGINT",), "VARCHAR"),
        ("pg_escapedtext", writer(BYTEA, style), ("BLOB",), "VARCHAR"),
        (
            "pg_intervaltext",
            lambda value: writer(INTERVAL, style)(_interval(value)),
            ("INTERVAL",),
            "VARCHAR",
        ),
        ("pg_floattext", writer(REAL, style), ("FLOAT",), "VARCHAR"),
        ("pg_doubletext", writer(DOUBLE, style), ("DOUBLE",), "VARCHAR"),
        ("pg_zonedplusus", plus, ("BIGINT", "INTERVAL"), "BIGINT"),
    )


_ARROW: dict[str, pa.DataType] = {
    "VARCHAR": pa.string(),
    "VARCHAR[]": pa.list_(pa.string()),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "FLOAT": pa.float32(),
    "BLOB": pa.binary(),
    "BOOLEAN": pa.bool_(),
}


def arrow_of(name: str) -> pa.DataType:
    """The Arrow type of a function's result."""
    return _ARROW[name]


__all__ = ["FUNCTIONS", "SqlError", "arrow_of"]
