"""Codec layer, inside: intervals, arrays and vectors to the bytes that an image has of them, and back.

An INTERVAL is 16 bytes: months and days (4 each) and microseconds (8), little-endian, two's complement. A
VECTOR is its numbers, 4 bytes each, IEEE 754. An ARRAY is

=================  ==============================================================================
bytes              meaning
=================  ==============================================================================
1                  the number of dimensions, 6 at most; 0 when there are no elements (and nothing follows)
4 for each         its size, the outermost dimension's first, unsigned; n, the number of elements, is their
                   product
ceil(n / 8)        null bitmap, as an image's
the rest           the elements that are not NULL, in order: one slot each where their kind's slots hold
                   the value, else their length (4, unsigned) and their bytes
=================  ==============================================================================
"""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from herdpy.codec._compile import EXACT, quantum, unscaled
from herdpy.codec._rowslots import SLOTS, VARIABLE
from herdpy.codec.grids import MAX_DIMENSIONS, Grid, shaped
from herdpy.codec.kinds import MAX_INTERVAL_US, Datum, Field, Interval, Kind

_INTERVAL = struct.Struct("<iiq")
_LENGTH = struct.Struct("<I")
_PLAIN = frozenset(
    {
        Kind.INT16,
        Kind.INT32,
        Kind.INT64,
        Kind.FLOAT32,
        Kind.FLOAT64,
        Kind.DATE,
        Kind.TIME,
        Kind.TIMESTAMP,
        Kind.TIMESTAMPTZ,
    }
)
Encode = Callable[[Any], bytes]
Decode = Callable[[bytes], Any]


def interval_bytes(value: Interval) -> bytes:
    """Return an interval's slot; ValueError if its time is beyond what Arrow can count."""
    if not -MAX_INTERVAL_US <= value[2] <= MAX_INTERVAL_US:
        raise ValueError("an interval's time is out of range")
    return _INTERVAL.pack(*value)


def read_interval(data: bytes) -> Interval:
    """Return the interval of a slot."""
    return Interval(*_INTERVAL.unpack(data))


def vector_bytes(values: tuple[float, ...]) -> bytes:
    """Return a vector's bytes; OverflowError if a number needs 64 bits."""
    return struct.pack(f"<{len(values)}f", *values)


def read_vector(data: bytes) -> tuple[float, ...]:
    """Return the vector of those bytes."""
    return struct.unpack(f"<{len(data) // 4}f", data)


@functools.cache
def _head(dimensions: int) -> struct.Struct:
    return struct.Struct(f"<B{dimensions}I")


@functools.cache
def array_encoder(element: Field) -> Encode:
    """Return the function from a tuple of datums to an array's bytes."""
    form = "?" if element.kind == Kind.BOOL else SLOTS[element.kind]
    if form == "?" or element.kind in _PLAIN:

        def join(values: list[Any]) -> bytes:
            return struct.pack(f"<{len(values)}{form}", *values)

    else:
        encode = _pieces(element)[0]
        fixed = element.kind not in VARIABLE

        def join(values: list[Any]) -> bytes:
            pieces = [encode(value) for value in values]
            if fixed:
                return b"".join(pieces)
            return b"".join([part for piece in pieces for part in (_LENGTH.pack(len(piece)), piece)])

    def encode_array(values: tuple[Datum, ...]) -> bytes:
        if not isinstance(values, tuple):
            raise TypeError("an array is a tuple")
        count = len(values)
        if not count:
            return b"\0"
        sizes = values.sizes if isinstance(values, Grid) else (count,)
        bits, present = 0, list(values)
        if None in values:
            bits = sum(1 << i for i, value in enumerate(values) if value is None)
            present = [value for value in values if value is not None]
        return (
            _head(len(sizes)).pack(len(sizes), *sizes)
            + bits.to_bytes((count + 7) // 8, "little")
            + join(present)
        )

    return encode_array


@functools.cache
def array_decoder(element: Field) -> Decode:
    """Return the function from an array's bytes to the tuple; ValueError or struct.error of damaged ones."""
    form = "?" if element.kind == Kind.BOOL else SLOTS[element.kind]
    if form == "?" or element.kind in _PLAIN:
        split: Callable[[bytes, int], Any] = functools.partial(_split_plain, form)
    elif element.kind in VARIABLE:
        split = functools.partial(_split_variable, _pieces(element)[1])
    else:
        split = functools.partial(_split_fixed, _pieces(element)[1], struct.calcsize("<" + form))

    def decode_array(data: bytes) -> tuple[Any, ...]:
        if data[:1] == b"\0" and len(data) == 1:
            return ()
        dimensions = data[0] if data else 0
        if not 1 <= dimensions <= MAX_DIMENSIONS:
            raise ValueError(f"an array of {dimensions} dimensions")
        head = _head(dimensions)
        sizes = head.unpack_from(data)[1:]
        count = math.prod(sizes)
        if count > 8 * len(data):  # each has a bit at least
            raise ValueError("a damaged array")
        start = head.size + (count + 7) // 8
        bits = int.from_bytes(data[head.size : start], "little")
        if not bits:
            return shaped(split(data[start:], count), sizes)
        found = iter(split(data[start:], count - bits.bit_count()))
        return shaped([None if bits >> i & 1 else next(found) for i in range(count)], sizes)

    return decode_array


def _split_plain(form: str, data: bytes, count: int) -> tuple[Any, ...]:
    return struct.unpack(f"<{count}{form}", data)


def _split_fixed(decode: Decode, width: int, data: bytes, count: int) -> list[Any]:
    if len(data) != count * width:
        raise ValueError("a damaged array")
    return [decode(data[at : at + width]) for at in range(0, len(data), width)]


def _split_variable(decode: Decode, data: bytes, count: int) -> list[Any]:
    found, at = [], 0
    for _ in range(count):
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        if at + length > len(data):
            raise ValueError("a damaged array")
        found.append(decode(data[at : at + length]))
        at += length
    if at != len(data):
        raise ValueError("a damaged array")
    return found


def _pieces(element: Field) -> tuple[Encode, Decode]:
    """Return what makes one element's bytes, and what reads them."""
    match element.kind:
        case Kind.TEXT | Kind.JSON | Kind.JSONB:
            return str.encode, bytes.decode
        case Kind.BYTES | Kind.UUID:
            return bytes, bytes
        case Kind.DECIMAL:
            return (lambda value: format(value, "f").encode()), (lambda data: Decimal(data.decode()))
        case Kind.INTERVAL:
            return interval_bytes, read_interval
        case Kind.VECTOR:
            return vector_bytes, read_vector
        case Kind.DECIMAL64 | Kind.DECIMAL128:
            width, scale, unit = (
                8 if element.kind == Kind.DECIMAL64 else 16,
                element.scale,
                quantum(element.scale),
            )
            return (
                lambda value: unscaled(value, scale).to_bytes(width, "little", signed=True),
                lambda data: EXACT.multiply(Decimal(int.from_bytes(data, "little", signed=True)), unit),
            )
        case _:
            raise ValueError(f"there are no arrays of {element.kind.name}")
