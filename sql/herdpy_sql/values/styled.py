"""Texts of values as a session's settings have them read and written: of the types for which that matters.

    writer(type, style)(datum) -> str           DateStyle, IntervalStyle, TimeZone, extra_float_digits ...
    reader(type)(text, style, now) -> Datum     DateStyle's order, IntervalStyle, TimeZone, the time
    settled(type, text) -> Datum or UNSETTLED   what a text is in every session, at every time

Above ``forms``, which has the texts of sessions with :data:`~herdpy_sql.values.styles.PLAIN` style.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from itertools import product
from typing import Any

from herdpy.codec.kinds import mapped
from herdpy_sql.errors import SqlError
from herdpy_sql.types import Base, SqlType
from herdpy_sql.values import arrays, moments
from herdpy_sql.values.bytea import escaped_text
from herdpy_sql.values.floats import float32_text, float64_text
from herdpy_sql.values.forms import from_text, to_text
from herdpy_sql.values.intervals import parse_interval, styled_interval
from herdpy_sql.values.moment_output import styled_date, styled_timestamp, styled_timestamptz
from herdpy_sql.values.precision import fitting
from herdpy_sql.values.styles import PLAIN, Style

StyledReader = Callable[[str, Style, int | None], Any]
"""From a text, the session's style and a TIMESTAMPTZ, which is now, to the datum."""

_READ: dict[Base, StyledReader] = {
    Base.DATE: moments.parse_date,
    Base.TIME: moments.parse_time,
    Base.TIMESTAMP: moments.parse_timestamp,
    Base.TIMESTAMPTZ: moments.parse_timestamptz,
}
READ_BY_STYLE = frozenset({*_READ, Base.INTERVAL})
"""Types whose texts mean other values in other sessions."""
_WRITTEN: dict[Base, Callable[[Any, Style], str]] = {
    Base.DATE: styled_date,
    Base.TIMESTAMP: styled_timestamp,
    Base.TIMESTAMPTZ: styled_timestamptz,
    Base.INTERVAL: styled_interval,
    Base.REAL: lambda value, style: _float_text(value, style, float32_text, 6),
    Base.DOUBLE: lambda value, style: _float_text(value, style, float64_text, 15),
    Base.BYTEA: lambda value, style: escaped_text(value) if style.binary == "escape" else f"\\x{value.hex()}",
}
WRITTEN_BY_STYLE = frozenset(_WRITTEN)
"""Types whose values have other texts in other sessions."""
IMMUTABLE_TEXTS = frozenset({Base.REAL, Base.DOUBLE, Base.BYTEA})
"""Those of them whose casts to text PostgreSQL calls immutable all the same."""


def _float_text(value: float, style: Style, shortest: Callable[[float], str], digits: int) -> str:
    if style.float_digits > 0 or not math.isfinite(value):
        return shortest(value)
    return f"{value:.{max(digits + style.float_digits, 1)}g}"


def is_read_by_style(sql_type: SqlType) -> bool:
    """Whether texts of the type, or of an array's elements, mean other values in other sessions."""
    return (sql_type.element or sql_type.base) in READ_BY_STYLE


def is_written_by_style(sql_type: SqlType) -> bool:
    """Whether values of the type, or of an array's elements, have other texts in other sessions."""
    return (sql_type.element or sql_type.base) in WRITTEN_BY_STYLE


@functools.lru_cache(maxsize=1024)
def writer(sql_type: SqlType, style: Style) -> Callable[[Any], str]:
    """The function from datums of ``sql_type`` (never None) to their text in such a session."""
    if sql_type.element is not None:
        write = writer(sql_type.element_type, style)
        return lambda value: arrays.join_array(mapped(value, write))
    styled = _WRITTEN.get(sql_type.base)
    if styled is None or (style == PLAIN and sql_type.base is not Base.TIMESTAMPTZ):
        return to_text(sql_type)
    return lambda value: styled(value, style)


@functools.lru_cache(maxsize=512)
def reader(sql_type: SqlType) -> StyledReader:
    """The function from texts to datums of ``sql_type``.

    SqlError as ``from_text``; 0A000 for "now" and its like where the time is None.
    """
    if sql_type.element is not None:
        one = reader(sql_type.element_type)
        return lambda text, style, now: arrays.parse_array(text, lambda part: one(part, style, now))
    read = _base_reader(sql_type)
    fit = fitting(sql_type)
    if fit is None:
        return read
    return lambda text, style, now: fit(read(text, style, now))


def _base_reader(sql_type: SqlType) -> StyledReader:
    if sql_type.base is Base.INTERVAL:
        mask = sql_type.length
        return lambda text, style, now: parse_interval(text, style, mask)
    read = _READ.get(sql_type.base)
    if read is not None:
        return read
    plain = from_text(sql_type)
    return lambda text, style, now: plain(text)


class _Unsettled:
    """The class of :data:`UNSETTLED`."""


UNSETTLED = _Unsettled()
_ORDERS = ("MDY", "DMY", "YMD")
_SAMPLES = {
    Base.INTERVAL: [PLAIN, Style(intervals="sql_standard")],
    Base.TIME: [PLAIN],
    Base.TIMESTAMPTZ: [Style(zone, order=order) for zone, order in product(("UTC", "<+05>-05"), _ORDERS)],
}
_OF_ORDERS = [Style(order=order) for order in _ORDERS]


def settled(sql_type: SqlType, text: str) -> Any:
    """What the text is in every session; UNSETTLED where sessions differ, or the time matters.

    Raises:
        SqlError: no session reads it.
    """
    base = sql_type.element or sql_type.base
    if base not in READ_BY_STYLE or (sql_type.element is None and moments.is_plain(base, text)):
        return from_text(sql_type)(text)
    read = reader(sql_type)
    found: list[Any] = []
    for style in _SAMPLES.get(base, _OF_ORDERS):
        try:
            found.append(read(text, style, None))
        except SqlError as error:
            if error.sqlstate == "0A000":
                return UNSETTLED
            found.append(error)
    if all(isinstance(one, SqlError) for one in found):
        raise found[0]
    return found[0] if all(one == found[0] for one in found) else UNSETTLED
