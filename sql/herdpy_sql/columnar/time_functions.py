"""Functions of dates and times in the columnar engine: now(), date_trunc, EXTRACT, AT TIME ZONE.

The clock is not read here: the moments of the transaction and of the statement come as parameters, so a
query means the same wherever it runs. Functions register themselves in ``functions.FUNCTIONS``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlglot import exp

from herdpy_sql.columnar import casts, library
from herdpy_sql.columnar.binder import STATEMENT_US, TRANSACTION_US, Binder, handles
from herdpy_sql.columnar.functions import integer_argument, no_function, register
from herdpy_sql.columnar.scope import Scope
from herdpy_sql.columnar.typed import Typed, quote, typed
from herdpy_sql.errors import SqlError
from herdpy_sql.expr.bind import interval_words
from herdpy_sql.types import DATE, INTERVAL, NUMERIC, TEXT, TIMESTAMP, TIMESTAMPTZ, Base, SqlType


def _timestamptz(mark: int) -> Typed:
    return Typed(f"make_timestamptz(CAST(${mark} AS BIGINT))", TIMESTAMPTZ)


@handles(exp.CurrentTimestamp)
def _now(binder: Binder, node: Any, scope: Scope) -> Typed:
    length = node.meta["end"] - node.meta["start"] + 1 if "start" in node.meta else 0
    return replace(_timestamptz(TRANSACTION_US), name="now" if length == 3 else "current_timestamp")


@register("now", "transaction_timestamp")
def _now_function(binder: Binder, arguments: list[Typed]) -> Typed:
    return _timestamptz(TRANSACTION_US)


@register("statement_timestamp", "clock_timestamp")
def _statement(binder: Binder, arguments: list[Typed]) -> Typed:
    return _timestamptz(STATEMENT_US)


@handles(exp.CurrentDate)
def _today(binder: Binder, node: Any, scope: Scope) -> Typed:
    return Typed(f"CAST({_timestamptz(TRANSACTION_US).sql} AS DATE)", DATE, name="current_date")


@handles(exp.Localtimestamp)
def _local(binder: Binder, node: Any, scope: Scope) -> Typed:
    return Typed(f"CAST({_timestamptz(TRANSACTION_US).sql} AS TIMESTAMP)", TIMESTAMP, name="localtimestamp")


@handles(exp.AtTimeZone)
def _at_zone(binder: Binder, node: Any, scope: Scope) -> Typed:
    x = binder.bind(node.this, scope)
    zone = casts.coerce(binder, binder.bind(node.args["zone"], scope), TEXT)
    if x.unknown:
        x = casts.settle(binder, x, TIMESTAMPTZ)
    if x.base is Base.DATE:
        x = casts.cast(binder, x, TIMESTAMPTZ)
    result = {Base.TIMESTAMP: TIMESTAMPTZ, Base.TIMESTAMPTZ: TIMESTAMP}.get(x.base)
    if result is None:
        raise no_function("pg_catalog.timezone", [zone, x])
    return replace(typed(f"timezone({zone.sql}, {x.sql})", result, x, zone), name="timezone")


_UNITS = {
    "microseconds", "milliseconds", "second", "minute", "hour", "day", "week", "month", "quarter", "year",
    "decade", "century", "millennium",
}  # fmt: skip


@handles(exp.TimestampTrunc)
def _date_trunc(binder: Binder, node: Any, scope: Scope) -> Typed:
    unit = str(node.args["unit"].name).lower().rstrip("()")
    x = binder.bind(node.this, scope)
    if x.unknown:
        x = casts.settle(binder, x, TIMESTAMPTZ)
    if x.base is Base.DATE:
        x = casts.cast(binder, x, TIMESTAMPTZ)
    if x.base is Base.INTERVAL:
        found = library.call(binder, "date_trunc", [Typed(quote(unit), TEXT), x])
        assert found is not None
        return found
    if x.base not in (Base.TIMESTAMP, Base.TIMESTAMPTZ):
        raise no_function("date_trunc", [Typed("", TEXT), x])
    if unit not in _UNITS:
        raise SqlError("22023", f'unit "{unit}" not recognized for type {x.base.value}')
    return replace(typed(f"date_trunc({quote(unit)}, {x.sql})", x.type, x), name="date_trunc")


_FIELDS = {
    "year": "year({0})", "month": "month({0})", "day": "day({0})", "hour": "hour({0})",
    "minute": "minute({0})",
    "quarter": "quarter({0})", "week": "weekofyear({0})", "dow": "dayofweek({0})", "isodow": "isodow({0})",
    "doy": "dayofyear({0})", "isoyear": "isoyear({0})", "decade": "decade({0})", "century": "century({0})",
    "millennium": "millennium({0})",
}  # fmt: skip
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
_SCALED = {"second": (1_000_000, 6), "milliseconds": (1000, 3), "microseconds": (1, 0)}


@handles(exp.Extract)
def _extract(binder: Binder, node: Any, scope: Scope) -> Typed:
    return replace(
        extract(binder, str(node.this.name).lower(), binder.bind(node.expression, scope)), name="extract"
    )


def extract(binder: Binder, unit: str, x: Typed) -> Typed:
    """EXTRACT: NUMERIC, with six fraction digits for seconds and the epoch."""
    unit = {"dayofweek": "dow", "dayofyear": "doy", "dayofweekiso": "isodow", "weekiso": "week"}.get(
        unit, unit
    )
    unit = {
        "seconds": "second",
        "minutes": "minute",
        "hours": "hour",
        "days": "day",
        "months": "month",
        "years": "year",
    }.get(unit, unit)
    if x.unknown:
        x = casts.settle(binder, x, TIMESTAMPTZ)
    base = x.base
    if base not in (Base.DATE, Base.TIME, Base.TIMESTAMP, Base.TIMESTAMPTZ, Base.INTERVAL):
        raise no_function("pg_catalog.extract", [Typed("", TEXT), x])
    if base is Base.INTERVAL:
        found = library.call(binder, "extract", [Typed(quote(unit), TEXT), x])
        assert found is not None
        return found
    if unit == "epoch":
        if base is Base.DATE:
            sql = f"CAST(CAST(epoch({x.sql}) AS BIGINT) AS DECIMAL(19,0))"
            return typed(sql, NUMERIC, x, dec=(19, 0))
        micros = f"CAST(epoch_us({x.sql}) AS DECIMAL(19,0))"
        sql = f"CAST({micros} * CAST('0.000001' AS DECIMAL(6,6)) AS DECIMAL(26,6))"
        return typed(sql, NUMERIC, x, dec=(26, 6))
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
    form = _FIELDS.get(unit)
    if form is None:
        raise SqlError("22023", f'unit "{unit}" not recognized for type {base.value}')
    return typed(f"CAST({form.format(x.sql)} AS DECIMAL(10,0))", NUMERIC, x, dec=(10, 0))


@register("date_part")
def _date_part(binder: Binder, arguments: list[Typed]) -> Typed:
    unit, x = arguments
    if unit.literal is None:
        raise SqlError("0A000", "date_part of a unit that is not a constant is not supported")
    return casts.as_double(binder, extract(binder, unit.literal.lower(), x))


@handles(exp.Interval)
def _interval(binder: Binder, node: Any, scope: Scope) -> Typed:
    if not isinstance(node.this, exp.Literal):
        raise SqlError("0A000", "INTERVAL of anything but a literal is not supported")
    return casts.settle(binder, Typed("", SqlType(Base.UNKNOWN), literal=interval_words(node)), INTERVAL)


@register("make_date")
def _make_date(binder: Binder, arguments: list[Typed]) -> Typed:
    y, m, d = (integer_argument(binder, a) for a in arguments)
    return typed(f"make_date({y.sql}, {m.sql}, {d.sql})", DATE, y, m, d)
