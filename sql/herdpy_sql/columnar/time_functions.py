"""The clock in the columnar engine, and the nodes of EXTRACT, date_trunc, AT TIME ZONE and INTERVAL.

The clock is not read here: the moments of the transaction and of the statement come as parameters, so a
query means the same wherever it runs. What fields and units mean is the library's to say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from herdpy_sql.columnar import casts, library
from herdpy_sql.columnar.binder import Binder, handles
from herdpy_sql.columnar.functions import CLOCKS_AND_DICE, call
from herdpy_sql.duck import Typed
from herdpy_sql.errors import SqlError
from herdpy_sql.expr.syntax import interval_words
from herdpy_sql.types import (
    DATE,
    INTERVAL,
    TEXT,
    TIME,
    TIMESTAMP,
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


@handles(exp.Extract)
def _extract(binder: Binder, node: Any, scope: Scope) -> Typed:
    unit = Typed(quote(str(node.this.name).lower()), TEXT)
    return call(binder, "extract", [unit, binder.bind(node.expression, scope)])


@handles(exp.Interval)
def _interval(binder: Binder, node: Any, scope: Scope) -> Typed:
    if not isinstance(node.this, exp.Literal):
        raise SqlError("0A000", "INTERVAL of anything but a literal is not supported")
    return casts.settle(binder, Typed("", SqlType(Base.UNKNOWN), literal=interval_words(node)), INTERVAL)
