"""Codec layer, inside: the layout of a row image, by kinds. ``rows`` has the format.

``_rowencode`` and ``_rowdecode`` write their code from it, and the Arrow paths lay out matrices by it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from herdpy.codec.kinds import Datum, Kind

#: The struct format of each kind's slot.
SLOTS = {
    Kind.BOOL: "B",
    Kind.INT16: "h",
    Kind.INT32: "i",
    Kind.INT64: "q",
    Kind.FLOAT32: "f",
    Kind.FLOAT64: "d",
    Kind.DECIMAL64: "q",
    Kind.DECIMAL128: "16s",
    Kind.DECIMAL: "I",
    Kind.TEXT: "I",
    Kind.BYTES: "I",
    Kind.DATE: "i",
    Kind.TIME: "q",
    Kind.TIMESTAMP: "q",
    Kind.TIMESTAMPTZ: "q",
    Kind.UUID: "16s",
    Kind.JSON: "I",
    Kind.INTERVAL: "16s",
    Kind.ARRAY: "I",
    Kind.JSONB: "I",
    Kind.VECTOR: "I",
}
VARIABLE = frozenset({Kind.TEXT, Kind.JSON, Kind.BYTES, Kind.DECIMAL, Kind.ARRAY, Kind.JSONB, Kind.VECTOR})

Encoder = Callable[[Sequence[Datum]], bytes]
Decoder = Callable[[bytes], tuple[Datum, ...]]

#: What an expression of a codec raises when a value does not fit.
ERRORS = (struct.error, ValueError, TypeError, AttributeError, ArithmeticError)


def bitmap_width(columns: int) -> int:
    """Return the bytes of the null bitmap of an image of that many columns."""
    return (columns + 7) // 8


def slot_width(kind: Kind) -> int:
    """Return the bytes of a kind's slot."""
    return struct.calcsize("<" + SLOTS[kind])
