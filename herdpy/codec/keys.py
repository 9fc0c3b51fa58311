"""Codec layer: the values of a key become bytes that sort as the values do.

The store keeps rows and index entries in the order of their keys' bytes, so a range of values is
a range of bytes. A key is its columns' bytes one after another; no column's bytes are a proper
prefix of another value's in the same column, so the next column decides only between equals.

======================  ========================================================================
kind                    bytes of an ascending column
======================  ========================================================================
BOOL                    1: 0 or 1
INT16, INT32, INT64     2, 4, 8: big-endian, sign bit flipped
DATE                    4: as INT32; -infinity is least and infinity greatest
TIME, TIMESTAMP(TZ)     8: as INT64
DECIMAL64, DECIMAL128   8, 16: value * 10**scale, big-endian, sign bit flipped
FLOAT32, FLOAT64        4, 8: IEEE 754 big-endian; sign bit flipped when positive, all bits
                        flipped when negative; -0.0 is written as 0.0, and every NaN as the one
                        that sorts after infinity
UUID                    16: as they are
TEXT                    UTF-8, which sorts as code points do (collation "C"), then 0x00
BYTES                   each 0x00 as 0x00 0xFF, the others as they are; then 0x00 0x00
DECIMAL                 0x01 negative, 0x02 zero, 0x03 positive. If positive there follow the
                        exponent E of value = D.DDD * 10**E (4, big-endian, sign bit flipped),
                        the digits without trailing zeros, two a byte as BCD + 1 (the last one
                        padded with a 0), and 0x00. If negative, the same of the absolute value,
                        all bits flipped
INTERVAL                16: its span in microseconds (a month has 30 days, a day 24 hours),
                        big-endian, sign bit flipped
ARRAY                   each element as 0x01 and its ascending bytes, a NULL as 0x02; then 0x00; where the
                        column has several dimensions, how many the value has (1 byte; 0: it is empty), and
                        the size of each (4)
VECTOR                  as an ARRAY of FLOAT32
JSONB                   0x01 null; 0x02 and a string as TEXT; 0x03 and a number as DECIMAL; 0x04
                        false; 0x05 true; 0x06 array and 0x07 object, the number of elements or
                        pairs (4, big-endian) and these, a pair's key as TEXT; 0x00 an empty
                        array that is the whole value
======================  ========================================================================

A descending column is the same bytes with all bits flipped. A nullable column has a tag before
it, never flipped: 0x01 before a value; NULL is 0x00 alone where NULLs come first, 0x02 alone where
they come last. ``KeyField.nulls_first`` is taken as it stands, whatever the direction.

Values that compare equal in PostgreSQL have the same bytes: 1.0 and 1.00, -0.0 and 0.0. What comes
back from ``decode`` is therefore equal to what went in, but not always displayed alike; the row
image keeps the display. JSON has no order and is refused.

``KeyCodec.encode`` is one function written for the fields; ``_keydecode`` reads column by column.
"""

from __future__ import annotations

import reprlib
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from herdpy.codec._compile import EXACT, compile_function, quantum, unscaled
from herdpy.codec._keybytes import (
    FLIP,
    bytes_bytes,
    decimal_bytes,
    float32_bits,
    float64_bits,
    text_bytes,
    uuid_bytes,
)
from herdpy.codec._keydecode import BITS, INTEGERS, NULL_FIRST, NULL_LAST, VALUE, column_decoder
from herdpy.codec.grids import Grid, sizes_of
from herdpy.codec.jsonkeys import jsonb_bytes
from herdpy.codec.kinds import Datum, Field, KeyField, Kind

KeyEncoder = Callable[[Sequence[Datum]], bytes]

_ERRORS = (struct.error, ValueError, TypeError, AttributeError, ArithmeticError)


class KeyCodec:
    """Encodes and decodes keys of these fields; see the module for the bytes and their order."""

    def __init__(self, fields: Sequence[KeyField]) -> None:
        """Raise ValueError if a field is JSON."""
        self.fields = tuple(fields)
        for i, one in enumerate(self.fields):
            if one.kind == Kind.JSON:
                raise ValueError(f"key column {i}: JSON has no order, so it cannot be part of a key")
        self._encoders: dict[int, KeyEncoder] = {}
        #: encode(values): the key. ValueError names the column that does not fit or may not be NULL.
        self.encode: KeyEncoder = self._encoder(len(self.fields))
        self._columns = [column_decoder(one) for one in self.fields]

    def encode_prefix(self, values: Sequence[Datum]) -> bytes:
        """Return what every key begins with whose first columns are these values; errors as ``encode``."""
        return self._encoder(len(values))(values)

    def decode(self, key: bytes) -> tuple[Datum, ...]:
        """Return the values of a key; ValueError if it is not a whole key of these fields."""
        values: list[Datum] = []
        at = 0
        try:
            for decode in self._columns:
                value, at = decode(key, at)
                values.append(value)
        except (*_ERRORS, IndexError) as error:
            raise ValueError(f"not a key of this index: {key[:32]!r}: {error}") from error
        if at != len(key):
            raise ValueError(f"not a key of this index: {key[:32]!r}: it goes on after its last column")
        return tuple(values)

    def _encoder(self, count: int) -> KeyEncoder:
        found = self._encoders.get(count)
        if found is None:
            if count > len(self.fields):
                raise ValueError(f"{count} values for a key of {len(self.fields)} columns")
            found = self._encoders[count] = _make_encoder(self.fields[:count])
        return found


def successor(prefix: bytes) -> bytes | None:
    """Return the least bytes greater than all that start with ``prefix``; None if there are none."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes((kept[-1] + 1,)) if kept else None


@dataclass(slots=True)
class _Packed:
    """A run of columns that one struct packs: its format and arguments, as source."""

    format: str = ">"
    arguments: list[str] = field(default_factory=list)


def _make_encoder(fields: tuple[KeyField, ...]) -> KeyEncoder:
    """Write encode(): adjacent columns of fixed width in one pack, the others joined to them."""
    names: dict[str, Any] = {"errors": _ERRORS, "refuse": lambda values: _refuse(fields, values)}
    pieces: list[str | _Packed] = []
    for i, one in enumerate(fields):
        names |= _expression_names(i, one)
        format_, expression = _encoding(i, one)
        if not one.nullable and format_:
            if not (pieces and isinstance(pieces[-1], _Packed)):
                pieces.append(_Packed())
            run = pieces[-1]
            assert isinstance(run, _Packed)
            run.format += format_
            run.arguments.append(expression)
            continue
        if format_:
            names[f"pack{i}"] = struct.Struct(f">B{format_}").pack
            expression = f"pack{i}({VALUE}, {expression})"
        elif one.nullable:
            expression = f"tag + {expression}"
        if one.nullable:
            null = NULL_FIRST if one.nulls_first else NULL_LAST
            expression = f"({null!r} if v{i} is None else {expression})"
        pieces.append(expression)
    sources = []
    for n, piece in enumerate(pieces):
        if isinstance(piece, _Packed):
            names[f"run{n}"] = struct.Struct(piece.format).pack
            sources.append(f"run{n}({', '.join(piece.arguments)})")
        else:
            sources.append(piece)
    body = [
        f"{''.join(f'v{i}, ' for i in range(len(fields))) or '()'} = values",
        "try:",
        f"    return {' + '.join(sources) or repr(b'')}",
        "except errors:",
        "    refuse(values)",
    ]
    return compile_function("encode_key", "values", body, names)


def _expression_names(i: int, one: KeyField) -> dict[str, Any]:
    """Return what the expressions of ``_encoding`` refer to."""
    return {
        "multiply": EXACT.multiply,
        "unscaled": unscaled,
        "float32_bits": float32_bits,
        "float64_bits": float64_bits,
        "text_bytes": text_bytes,
        "bytes_bytes": bytes_bytes,
        "uuid_bytes": uuid_bytes,
        "decimal_bytes": decimal_bytes,
        "flip": FLIP,
        "tag": bytes([VALUE]),
        "jsonb_bytes": jsonb_bytes,
        "interval_bytes": _interval_bytes,
        f"array{i}": _array_maker(one),
        f"ten{i}": 10**one.scale,
        f"unit{i}": quantum(one.scale),
        f"scale{i}": one.scale,
    }


def _encoding(i: int, one: KeyField) -> tuple[str, str]:
    """Return the struct format of column i, or "" when it makes its own bytes, and the expression."""
    value, down = f"v{i}", one.descending
    match one.kind:
        case Kind.FLOAT32 | Kind.FLOAT64:
            width = 64 if one.kind == Kind.FLOAT64 else 32
            value = f"float{width}_bits({value})"
            return "Q" if width == 64 else "I", f"{(1 << width) - 1} - {value}" if down else value
        case Kind.DECIMAL64 | Kind.DECIMAL128:
            whole = f"int(multiply({value}, ten{i})) if {value}.same_quantum(unit{i})"
            value = f"({whole} else unscaled({value}, scale{i}))"
        case Kind.TEXT | Kind.BYTES | Kind.UUID | Kind.DECIMAL | Kind.JSONB | Kind.INTERVAL:
            expression = f"{one.kind.name.lower()}_bytes({value})"
            return "", f"{expression}.translate(flip)" if down else expression
        case Kind.ARRAY | Kind.VECTOR:
            expression = f"array{i}({value})"
            return "", f"{expression}.translate(flip)" if down else expression
        case Kind.BOOL:
            return "B", f"255 - {value}" if down else value
    bits = BITS[INTEGERS[one.kind]] if one.kind in INTEGERS else 128
    shifted = f"{(1 << bits - 1) - 1} - {value}" if down else f"{value} + {1 << bits - 1}"
    if bits == 128:
        return "", f"({shifted}).to_bytes(16, 'big')"
    return INTEGERS[one.kind], shifted


def _interval_bytes(value: Any) -> bytes:
    return int(value.span + (1 << 127)).to_bytes(16, "big")


def _array_maker(one: KeyField) -> Callable[[Any], bytes] | None:
    """Return what makes the bytes of an ascending ARRAY or VECTOR."""
    if one.kind == Kind.VECTOR:
        element = Field(Kind.FLOAT32)
    elif one.kind == Kind.ARRAY and one.element is not None:
        element = one.element
    else:
        return None
    encode = _make_encoder((KeyField(element.kind, element.scale, nullable=True, element=element.element),))

    def array_bytes(values: Sequence[Datum]) -> bytes:
        if one.scale < 2 and isinstance(values, Grid):
            raise ValueError("the column has arrays of one dimension")
        return b"".join([encode((value,)) for value in values]) + b"\0"

    def shaped_bytes(values: Any) -> bytes:
        sizes = sizes_of(values)
        return array_bytes(values) + struct.pack(f">B{len(sizes)}I", len(sizes), *sizes)

    return shaped_bytes if one.kind == Kind.ARRAY and one.scale > 1 else array_bytes


def _refuse(fields: Sequence[KeyField], values: Sequence[Datum]) -> NoReturn:
    """Raise ValueError naming the first column whose value its kind cannot hold."""
    for i, (one, value) in enumerate(zip(fields, values, strict=True)):
        if value is None:
            if not one.nullable:
                raise ValueError(f"key column {i} ({one.kind.name}) cannot be NULL")
            continue
        format_, expression = _encoding(0, one)
        names = _expression_names(0, one) | {"v0": value}
        try:
            result = eval(expression, names)
            if format_:
                struct.pack(">" + format_, result)
        except _ERRORS as error:
            shown = reprlib.repr(value)
            raise ValueError(f"key column {i} ({one.kind.name}) cannot hold {shown}: {error}") from error
    raise AssertionError("a key was refused though each of its columns can be encoded")
