"""Untyped literals: the text of a literal as a DuckDB constant of the type its place decides.

Bad text is PostgreSQL's error at once (22P02, 22007, 22008, 22003), as there, where such literals
are read while the statement is parsed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from herdpy.codec.kinds import Interval
from herdpy_sql.columnar import exact, forms
from herdpy_sql.columnar.typed import Typed, quote, retyped
from herdpy_sql.errors import SqlError
from herdpy_sql.types import NUMERIC, Base, SqlType
from herdpy_sql.values import from_text
from herdpy_sql.values.moments import parse_zoned

if TYPE_CHECKING:
    from herdpy_sql.columnar.binder import Binder

_INTEGER = re.compile(r"\s*[+-]?\d+\s*", re.ASCII)
_LIMITS = {Base.SMALLINT: 2**15, Base.INTEGER: 2**31, Base.BIGINT: 2**63}


def bad(type_: SqlType, text: str) -> SqlError:
    """22P02, in PostgreSQL's words."""
    return SqlError("22P02", f'invalid input syntax for type {type_.base.value}: "{text}"')


def decimal_literal(value: Decimal) -> Typed:
    """A NUMERIC constant, native when its digits fit."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    if exponent > 0:
        value = Decimal((sign, digits + (0,) * exponent, 0))
        digits, exponent = value.as_tuple().digits, 0
    scale = -exponent
    precision = max(len(digits), scale + 1)
    text = format(value, "f")
    if precision <= 38:
        return Typed(f"CAST('{text}' AS DECIMAL({precision},{scale}))", NUMERIC, dec=(precision, scale))
    return Typed(f"'{text}'", NUMERIC)


def parse(x: Typed, text: str, target: SqlType, binder: Binder) -> Typed:
    """The literal ``text`` as a constant of ``target`` (whose length or precision is not applied)."""
    base = target.base
    if base in (Base.TEXT, Base.VARCHAR, Base.CHAR, Base.UNKNOWN):
        return retyped(x, quote(text.rstrip(" ") if base is Base.CHAR else text), target)
    if base in _LIMITS:
        if not _INTEGER.fullmatch(text):
            raise bad(target, text)
        value, limit = int(text), _LIMITS[base]
        if not -limit <= value < limit:
            raise SqlError("22003", f'value "{text}" is out of range for type {base.value}')
        name = {Base.SMALLINT: "SMALLINT", Base.INTEGER: "INTEGER", Base.BIGINT: "BIGINT"}[base]
        return retyped(x, f"CAST({value} AS {name})", target)
    if base is Base.BOOLEAN:
        return retyped(x, "true" if forms.boolean(text) else "false", target)
    if base is Base.NUMERIC:
        constant = decimal_literal(exact.parse(text))
        return retyped(x, constant.sql, target if constant.dec is None else NUMERIC, constant.dec)
    if base in (Base.REAL, Base.DOUBLE):
        return retyped(x, _float(text, target), target)
    if base is Base.TIMESTAMPTZ and not parse_zoned(text)[1]:  # in the session's zone, as it runs
        return retyped(x, f"pg_timestamptz({quote(text)})", target)
    if base in _MOMENTS:
        datum = from_text(SqlType(base))(text)
        return retyped(x, _moment(base, datum), target)
    if base in _CONSTANTS:
        return retyped(x, _CONSTANTS[base](from_text(target)(text)), target)
    function = _FUNCTIONS[base]
    check = forms.CHECKS.get(base)
    if check is not None:
        check(text)
    return retyped(x, f"{function}({quote(text)})", target)


def _float(text: str, target: SqlType) -> str:
    value = forms.parse_float(text, target)
    name = "FLOAT" if target.base is Base.REAL else "DOUBLE"
    return f"CAST('{value!r}' AS {name})"


def _moment(base: Base, datum: Any) -> str:
    """A constant of a type of ``_MOMENTS``; years of four digits are written as DuckDB reads them."""
    if base is Base.DATE and _PLAIN_DAYS[0] <= datum <= _PLAIN_DAYS[1]:
        return f"DATE '{date.fromordinal(datum + _EPOCH_DAY)}'"
    return _MOMENTS[base].format(max(datum, _LEAST.get(base, datum)))


_EPOCH_DAY = date(1970, 1, 1).toordinal()
_PLAIN_DAYS = date(1000, 1, 1).toordinal() - _EPOCH_DAY, date.max.toordinal() - _EPOCH_DAY
_MOMENTS = {
    Base.DATE: "pg_asdate_bare({})",
    Base.TIME: "(TIME '00:00:00' + to_microseconds({}))",
    Base.TIMESTAMP: "pg_astimestamp_bare(CAST({} AS BIGINT))",
    Base.TIMESTAMPTZ: "pg_astimestamptz_bare(CAST({} AS BIGINT))",
}
_LEAST = {Base.DATE: -(2**31) + 1, Base.TIMESTAMP: -(2**63) + 1, Base.TIMESTAMPTZ: -(2**63) + 1}
_FUNCTIONS = {
    Base.BYTEA: "pg_bytea",
    Base.UUID: "pg_uuid",
    Base.JSON: "pg_json",
    Base.DATE: "pg_date",
    Base.TIME: "pg_time",
    Base.TIMESTAMP: "pg_timestamp",
    Base.TIMESTAMPTZ: "pg_timestamptz",
}


def interval_constant(value: Interval) -> str:
    """DuckDB text of an interval."""
    months, days, microseconds = value
    parts = [
        f"to_months({months})" if months else "",
        f"to_days({days})" if days else "",
        f"to_microseconds(CAST({microseconds} AS BIGINT))" if microseconds else "",
    ]
    return f"({' + '.join(part for part in parts if part) or 'to_days(0)'})"


_CONSTANTS: dict[Base, Callable[[Any], str]] = {
    Base.INTERVAL: interval_constant,
    Base.JSONB: quote,
    Base.VECTOR: lambda value: f"CAST([{', '.join(map(repr, value))}] AS FLOAT[])",
    Base.ENUM: lambda value: f"CAST({value!r} AS DOUBLE)",
}
