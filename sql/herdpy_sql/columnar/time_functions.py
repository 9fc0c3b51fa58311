"""The clock and the dice in the columnar engine, EXTRACT, date_trunc and AT TIME ZONE.

The clock is not read here: the moments of the transaction and of the statement come as parameters, so a
query means the same wherever it runs. Functions register themselves in ``functions.FUNCTIONS``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from herdpy_sql.columnar import casts, library
from herdpy_sql.columnar.binder import Binder, handles
from herdpy_sql.columnar.functions import CLOCKS_AND_DICE, call
from herdpy_sql.columnar.routines import types_of
from herdpy_sql.duck import Typed, once, typed
from herdpy_sql.errors import SqlError
from herdpy_sql.expr.extracts import MONOTONOUS, unit_of
from herdpy_sql.expr.resolve import no_function
from herdpy_sql.expr.syntax import interval_words
from herdpy_sql.library.times import WHOLE_FIELDS
from herdpy_sql.types import (
    DATE,
    INTERVAL,
    NUMERIC,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    Base,
    SqlType,
)
from herdpy_sql.values.form import quote

if TYPE_CHECKING:
    from herdpy_sql.columnar.scope import Scope


_NOW = CLOCKS_AND_DICE["now"]


@handles(exp.CurrentTimestamp)
def _now(binder: Binder, node: Any, scope: Scope) -> Typed:
    return _with_digits(binder, _NOW, node.this)


def _with_digits(binder: Binder, moment: Typed, digits: Any) -> Typed:
    """``current_timestamp(digits)``."""
    if digits is None:
        return moment
    if not isinstance(digits, exp.Literal) or not str(digits.this).isdigit():
        raise SqlError("42601", "syntax error: digits of seconds must be a constant")
    return library.rounded(binder, moment, min(int(digits.this), 6))


@handles(exp.CurrentDate)
def _today(binder: Binder, node: Any, scope: Scope) -> Typed:
    return Typed(f"CAST({_NOW.sql} AS DATE)", DATE)


@handles(exp.Localtimestamp)
def _local(binder: Binder, node: Any, scope: Scope) -> Typed:
    found = Typed(f"CAST({_NOW.sql} AS TIMESTAMP)", TIMESTAMP)
    return _with_digits(binder, found, node.this)


@handles(exp.Localtime)
def _local_time(binder: Binder, node: Any, scope: Scope) -> Typed:
    moment = f"CAST({_NOW.sql} AS TIMESTAMP)"
    return _with_digits(binder, Typed(f"pg_timeofday({moment})", TIME), node.this)


@handles(exp.AtTimeZone)
def _at_zone(binder: Binder, node: Any, scope: Scope) -> Typed:
    return call(binder, "timezone", binder.bind_all([node.args["zone"], node.this], scope))


@handles(exp.TimestampTrunc)
def _date_trunc(binder: Binder, node: Any, scope: Scope) -> Typed:
    unit = Typed(quote(str(node.args["unit"].name).rstrip("()")), TEXT)
    zone = node.args.get("zone")
    rest = [node.this] if zone is None else [node.this, zone]
    return call(binder, "date_trunc", [unit, *binder.bind_all(rest, scope)])


_DATE_FIELDS = {
    "year",
    "month",
    "day",
    "quarter",
    "week",
    "dow",
    "isodow",
    "doy",
    "isoyear",
    "decade",
    "century",
    "millennium",
}
_OFFSETS = {"timezone": "{0}", "timezone_hour": "{0} // 3600", "timezone_minute": "{0} // 60 % 60"}
_SCALED = {"second": (1_000_000, 6), "milliseconds": (1000, 3), "microseconds": (1, 0)}


@handles(exp.Extract)
def _extract(binder: Binder, node: Any, scope: Scope) -> Typed:
    return extract(binder, str(node.this.name).lower(), binder.bind(node.expression, scope))


def extract(binder: Binder, unit: str, x: Typed) -> Typed:
    """EXTRACT: NUMERIC, with six fraction digits for seconds and the epoch."""
    unit = unit_of(unit)
    if x.unknown:
        x = casts.settle(binder, x, TIMESTAMPTZ)
    base = x.base
    if base not in (Base.DATE, Base.TIME, Base.TIMESTAMP, Base.TIMESTAMPTZ, Base.INTERVAL):
        raise no_function("pg_catalog.extract", [TEXT, *types_of(x)])
    if base is Base.INTERVAL:
        found = library.call(binder, "extract", [Typed(quote(unit), TEXT), x])
        assert found is not None
        return found
    if unit == "julian" and base in (Base.DATE, Base.TIMESTAMP, Base.TIMESTAMPTZ):
        found = library.call(binder, "extract", [Typed(quote(unit), TEXT), x])
        assert found is not None
        return found
    if unit == "epoch":
        return once(x, _epoch)
    if base is Base.TIMESTAMPTZ and unit in _OFFSETS:
        seconds = _OFFSETS[unit].format(f"pg_offset({x.sql})")
        return typed(f"CAST({seconds} AS DECIMAL(10,0))", NUMERIC, x, dec=(10, 0))
    if base is Base.TIMESTAMPTZ:  # its fields are those of the session's clock
        x = casts.cast(binder, x, TIMESTAMP)
    if unit in _OFFSETS or unit == "julian":
        raise SqlError("0A000", f'unit "{unit}" not supported for type {base.value}')
    if unit not in WHOLE_FIELDS and unit not in _SCALED and unit not in _OFFSETS:
        raise SqlError("22023", f'unit "{unit}" not recognized for type {base.value}')
    if (base is Base.DATE and unit not in _DATE_FIELDS) or (base is Base.TIME and unit in _DATE_FIELDS):
        raise SqlError("0A000", f'unit "{unit}" not supported for type {base.value}')
    if unit in _SCALED:
        divisor, scale = _SCALED[unit]
        sql = f"CAST(CAST(microsecond({x.sql}) AS BIGINT) AS DECIMAL(10,0))"
        if scale:
            small = format(1 / divisor, f".{scale}f")
            sql = (
                f"CAST({sql} * CAST('{small}' AS DECIMAL({scale},{scale})) AS DECIMAL({10 + scale},{scale}))"
            )
        return typed(sql, NUMERIC, x, dec=(10 + scale, scale))
    form = WHOLE_FIELDS.get(unit)
    if form is None:
        raise SqlError("22023", f'unit "{unit}" not recognized for type {base.value}')
    return once(x, lambda x: _of_finite(x, f"CAST({form.format(x.sql)} AS DECIMAL(10,0))", unit, (10, 0)))


def _epoch(x: Typed) -> Typed:
    if x.base is Base.DATE:
        return _of_finite(x, f"CAST(CAST(epoch({x.sql}) AS BIGINT) AS DECIMAL(19,0))", "epoch", (19, 0))
    micros = f"CAST(epoch_us({x.sql}) AS DECIMAL(19,0))"
    sql = f"CAST({micros} * CAST('0.000001' AS DECIMAL(6,6)) AS DECIMAL(26,6))"
    return _of_finite(x, sql, "epoch", (26, 6))


def _of_finite(x: Typed, sql: str, unit: str, dec: tuple[int, int]) -> Typed:
    """A field; or the error that NUMERIC, which has no infinity here, makes of an infinite one."""
    if unit in MONOTONOUS and x.base is not Base.TIME:
        sql = f"CASE WHEN isinf({x.sql}) THEN error('SQLSTATE 0A000: {_NO_INFINITY}') ELSE {sql} END"
    return typed(sql, NUMERIC, x, dec=dec)


_NO_INFINITY = "NaN and infinity are not supported in type numeric"


@handles(exp.Interval)
def _interval(binder: Binder, node: Any, scope: Scope) -> Typed:
    if not isinstance(node.this, exp.Literal):
        raise SqlError("0A000", "INTERVAL of anything but a literal is not supported")
    return casts.settle(binder, Typed("", SqlType(Base.UNKNOWN), literal=interval_words(node)), INTERVAL)
