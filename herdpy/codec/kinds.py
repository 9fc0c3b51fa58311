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
========================  ==========================================================

Dates and times are integers because comparing, encoding and handing them to Arrow then costs
nothing; they become ``datetime`` objects at the edge (``herdpy_sql.values``). The least and the
greatest integer of DATE (32 bits), TIMESTAMP and TIMESTAMPTZ (64 bits) are -infinity and infinity.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from decimal import Decimal

Datum = bool | int | float | Decimal | str | bytes | None


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


DATE_INFINITY = 2**31 - 1
DATE_NEGATIVE_INFINITY = -(2**31)
TIMESTAMP_INFINITY = 2**63 - 1
TIMESTAMP_NEGATIVE_INFINITY = -(2**63)


@dataclass(frozen=True, slots=True)
class Field:
    """One column of a row image.

    Attributes:
        kind: the physical kind.
        scale: digits after the point, for DECIMAL64 and DECIMAL128.
        missing: the datum of rows that were written before the column was added.
    """

    kind: Kind
    scale: int = 0
    missing: Datum = None


@dataclass(frozen=True, slots=True)
class KeyField:
    """One column of a key. Ascending keys put NULL last and descending ones first unless told."""

    kind: Kind
    scale: int = 0
    descending: bool = False
    nullable: bool = False
    nulls_first: bool = False
