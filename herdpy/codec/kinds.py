"""The physical kinds of values, and the datum that stands for each in memory.

This is the bottom of the house: SQL types map onto kinds (``herdpy_sql.types``), row images and
keys are made of them (``herdpy.codec.rows``, ``herdpy.codec.keys``). Kind numbers are on disk:
never renumber one.

========================  ==========================================================
kind                      datum (the Python value inside the engine; None is NULL)
========================  ==========================================================
BOOL                      bool
INT16, INT32, INT64       int
FLOAT32, FLOAT64          float (a FLOAT32 datum is already rounded to 32 bits)
DECIMAL64, DECIMAL128     decimal.Decimal with exactly ``scale`` fraction digits, finite
DECIMAL                   decimal.Decimal, any precision and scale, finite
TEXT, JSON                str (JSON keeps the text as it was given)
BYTES                     bytes
DATE                      int, days since 1970-01-01
TIME                      int, microseconds since midnight
TIMESTAMP, TIMESTAMPTZ    int, microseconds since 1970-01-01 00:00 (UTC for TIMESTAMPTZ)
UUID                      bytes, 16 of them, in RFC 4122 order
INTERVAL                  Interval: months, days and microseconds, each with its sign
ARRAY                     tuple of the element's datums; a Grid (``grids``) of several dimensions
JSONB                     str, the one text of the value (``herdpy_sql.values.jsonb``)
VECTOR                    tuple of floats that are rounded to 32 bits
========================  ==========================================================

Dates and times are integers because comparing, encoding and handing them to Arrow then costs
nothing; they become ``datetime`` objects at the edge (``herdpy_sql.values``). The least and the
greatest integer of DATE (32 bits), TIMESTAMP and TIMESTAMPTZ (64 bits) are -infinity and infinity.
"""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

#: Arrow counts an interval's time in nanoseconds of 64 bits, and so does DuckDB.
MAX_INTERVAL_US = (2**63 - 1) // 1000


class Interval(NamedTuple):
    """The datum of an INTERVAL. Two that PostgreSQL takes for equal (1 month, 30 days) are not equal here."""

    months: int = 0
    days: int = 0
    us: int = 0

    @property
    def span(self) -> int:
        """Microseconds, a month being 30 days and a day 24 hours: what PostgreSQL compares by."""
        return (self.months * 30 + self.days) * 86_400_000_000 + self.us


PLAIN = frozenset(
    {type(None), bool, int, float, str, bytes, Decimal, dt.date, dt.time, dt.datetime, dt.timedelta}
)
"""Python's own classes of values."""


def plain(value: Any) -> Any:
    """A value of a subclass (a member of an IntEnum, a pandas.Timestamp) as one of Python's own class.

    What the subclass makes of ``str()`` or of its hash is its own business: the value is what is meant. Other
    values are given back as they are. A time with nanoseconds is rounded, as PostgreSQL rounds its text.
    """
    if type(value) in PLAIN:
        return value
    for kind, convert in _PLAIN:
        if isinstance(value, kind):
            return convert(value)
    return value


def is_no_time(value: object) -> bool:
    """Whether it is pandas.NaT, which calls itself a datetime and has no time."""
    return type(value).__name__ == "NaTType"


def _plain_datetime(value: Any) -> Any:
    if is_no_time(value):
        return value
    found = dt.datetime.combine(_plain_date(value), _plain_time(value.timetz()))
    nanoseconds = getattr(value, "nanosecond", 0)
    more = nanoseconds > 500 or (nanoseconds == 500 and found.microsecond % 2 == 1)
    return found + dt.timedelta(microseconds=1) if more else found


def _plain_date(value: Any) -> dt.date:
    return dt.date(value.year, value.month, value.day)


def _plain_time(value: Any) -> dt.time:
    return dt.time(
        value.hour, value.minute, value.second, value.microsecond, tzinfo=value.tzinfo, fold=value.fold
    )


def _plain_timedelta(value: Any) -> Any:
    if is_no_time(value):
        return value
    found = dt.timedelta(value.days, value.seconds, value.microseconds)
    nanoseconds = getattr(value, "nanoseconds", 0)
    more = nanoseconds > 500 or (nanoseconds == 500 and found.microseconds % 2 == 1)
    return found + dt.timedelta(microseconds=1) if more else found


_PLAIN: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (str, str.__str__),
    (int, int.__int__),
    (float, float.__float__),
    (bytes, lambda value: b"".join((value, b""))),
    (Decimal, Decimal),
    (dt.datetime, _plain_datetime),
    (dt.date, _plain_date),
    (dt.time, _plain_time),
    (dt.timedelta, _plain_timedelta),
)

Datum = bool | int | float | Decimal | str | bytes | Interval | tuple[Any, ...] | None


class Kind(enum.IntEnum):
    """A physical kind; the number is on disk."""

    BOOL = 1
    INT16 = 2
    INT32 = 3
    INT64 = 4
    FLOAT32 = 5
    FLOAT64 = 6
    DECIMAL64 = 7
    DECIMAL128 = 8
    DECIMAL = 9
    TEXT = 10
    BYTES = 11
    DATE = 12
    TIME = 13
    TIMESTAMP = 14
    TIMESTAMPTZ = 15
    UUID = 16
    JSON = 17
    INTERVAL = 18
    ARRAY = 19
    JSONB = 20
    VECTOR = 21


DATE_INFINITY = 2**31 - 1
DATE_NEGATIVE_INFINITY = -(2**31)
TIMESTAMP_INFINITY = 2**63 - 1
TIMESTAMP_NEGATIVE_INFINITY = -(2**63)


@dataclass(frozen=True, slots=True)
class Field:
    """One column of a row image.

    Attributes:
        kind: the physical kind.
        scale: digits after the point, for DECIMAL64 and DECIMAL128; a VECTOR's dimensions (0: any); those of
            an ARRAY (0: one), which Arrow and keys must know and images do not.
        missing: the datum of rows that were written before the column was added.
        element: what an ARRAY is of.
    """

    kind: Kind
    scale: int = 0
    missing: Datum = None
    element: Field | None = None


@dataclass(frozen=True, slots=True)
class KeyField:
    """One column of a key. Ascending keys put NULL last and descending ones first unless told.

    An ARRAY's key has its shape where ``scale``, its dimensions, is above 1; then it tells any two apart.
    """

    kind: Kind
    scale: int = 0
    descending: bool = False
    nullable: bool = False
    nulls_first: bool = False
    element: Field | None = None
