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

The order of JSONB is that of PostgreSQL 15's compareJsonbContainers: by type, then arrays and objects by how
many they hold, then by what they hold in turn. An empty array at the top is less than all else, as there.

``KeyCodec.encode`` is one function written for the fields. Keys are read column by column: a column's reader
takes the key and where the column starts, and gives the datum and where the next one starts.
"""

from __future__ import annotations

import json
import math
import reprlib
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NoReturn, cast

from herdpy.codec.kinds import (
    EXACT,
    KIND_FACTS,
    VECTOR_ELEMENT,
    ByteForm,
    Datum,
    Grid,
    Interval,
    KeyField,
    compile_function,
    plain_decimal,
    quantum,
    shaped,
    sizes_of,
    unscaled,
)

# One value to its ascending bytes, and back.

#: bytes.translate() tables.
FLIP = bytes(range(255, -1, -1))
_PLUS_ONE = bytes((i + 1) % 256 for i in range(256))
_MINUS_ONE = bytes((i - 1) % 256 for i in range(256))
_NAN32, _NAN64 = 0xFFC0_0000, 0xFFF8_0000_0000_0000

_FLOAT32, _FLOAT64 = struct.Struct(">f"), struct.Struct(">d")
_BITS32, _BITS64 = struct.Struct(">I"), struct.Struct(">Q")


def float32_bits(value: float) -> int:
    """Return the unsigned integer whose order is the floats' own; OverflowError if it needs 64 bits."""
    if math.isnan(value):
        return _NAN32
    bits: int = _BITS32.unpack(_FLOAT32.pack(value + 0.0))[0]
    return bits ^ 0xFFFF_FFFF if bits >> 31 else bits | 0x8000_0000


def float64_bits(value: float) -> int:
    """Return the unsigned integer whose order is the doubles' own."""
    if math.isnan(value):
        return _NAN64
    bits: int = _BITS64.unpack(_FLOAT64.pack(value + 0.0))[0]
    return bits ^ 0xFFFF_FFFF_FFFF_FFFF if bits >> 63 else bits | 0x8000_0000_0000_0000


def bits_float32(bits: int) -> float:
    """Return the float of ``float32_bits``."""
    bits = bits ^ 0x8000_0000 if bits >> 31 else bits ^ 0xFFFF_FFFF
    value: float = _FLOAT32.unpack(_BITS32.pack(bits))[0]
    return value


def bits_float64(bits: int) -> float:
    """Return the double of ``float64_bits``."""
    bits = bits ^ 0x8000_0000_0000_0000 if bits >> 63 else bits ^ 0xFFFF_FFFF_FFFF_FFFF
    value: float = _FLOAT64.unpack(_BITS64.pack(bits))[0]
    return value


def text_bytes(value: str) -> bytes:
    """Return the bytes of an ascending TEXT column; ValueError if it contains U+0000."""
    content = value.encode()
    if b"\0" in content:
        raise ValueError("text cannot contain the character U+0000")
    return content + b"\0"


def bytes_bytes(value: bytes) -> bytes:
    """Return the bytes of an ascending BYTES column."""
    return value.replace(b"\0", b"\0\xff") + b"\0\0"


def raw_bytes(value: bytes, width: int) -> bytes:
    """Return the bytes of an ascending column of bytes that are as many in every value; else ValueError."""
    if len(value) != width:
        raise ValueError(f"not {width} bytes")
    return value


def decimal_bytes(value: Decimal) -> bytes:
    """Return the bytes of an ascending DECIMAL column; ValueError if it is not finite."""
    if not value.is_finite():
        raise ValueError(f"{value} is not a finite number")
    if not value:
        return b"\x02"
    exponent = value.adjusted()
    digits = str(EXACT.scaleb(value.copy_abs(), -exponent)).replace(".", "").rstrip("0")
    digits += "0" if len(digits) % 2 else ""
    body = struct.pack(">I", exponent + 0x8000_0000) + bytes.fromhex(digits).translate(_PLUS_ONE) + b"\0"
    return b"\x03" + body if value > 0 else b"\x01" + body.translate(FLIP)


def read_text(key: bytes, at: int) -> tuple[str, int]:
    """Return the ascending TEXT that starts there, and where the next column starts."""
    end = key.index(b"\0", at)
    return key[at:end].decode(), end + 1


def read_bytes(key: bytes, at: int) -> tuple[bytes, int]:
    """Return the ascending BYTES that starts there, and where the next column starts."""
    end = key.index(b"\0", at)
    while key[end + 1] == 0xFF:
        end = key.index(b"\0", end + 2)
    return key[at:end].replace(b"\0\xff", b"\0"), end + 2


def read_decimal(key: bytes, at: int) -> tuple[Decimal, int]:
    """Return the ascending DECIMAL that starts there, and where the next column starts."""
    if key[at] == 2:
        return Decimal(0), at + 1
    negative = key[at] == 1
    exponent = int.from_bytes(key[at + 1 : at + 5], "big")
    end = key.index(b"\xff" if negative else b"\0", at + 5)
    digits = key[at + 5 : end]
    if negative:
        exponent, digits = 0xFFFF_FFFF - exponent, digits.translate(FLIP)
    text = digits.translate(_MINUS_ONE).hex()
    whole = EXACT.create_decimal(text).scaleb(exponent - 0x8000_0000 - len(text) + 1, EXACT)
    return plain_decimal(whole.copy_negate() if negative else whole), end + 1


_EMPTY, _NULL, _STRING, _NUMBER, _FALSE, _TRUE, _ARRAY, _OBJECT = range(8)
# JSONB.

_DECODER = json.JSONDecoder(parse_int=Decimal, parse_float=Decimal)


def jsonb_bytes(text: str) -> bytes:
    """Return the ascending bytes of a JSONB datum."""
    value = _DECODER.decode(text)
    if value == [] and isinstance(value, list):
        return bytes((_EMPTY,))
    out = bytearray()
    _write(value, out)
    return bytes(out)


def _write(value: Any, out: bytearray) -> None:
    match value:
        case None:
            out.append(_NULL)
        case bool():
            out.append(_TRUE if value else _FALSE)
        case str():
            out.append(_STRING)
            out += text_bytes(value)
        case Decimal():
            out.append(_NUMBER)
            out += decimal_bytes(value)
        case list():
            out.append(_ARRAY)
            out += len(value).to_bytes(4, "big")
            for one in value:
                _write(one, out)
        case _:
            out.append(_OBJECT)
            out += len(value).to_bytes(4, "big")
            for key, one in value.items():
                out += text_bytes(key)
                _write(one, out)


def read_jsonb(key: bytes, at: int) -> tuple[str, int]:
    """Return the ascending JSONB that starts there, and where the next column starts."""
    tag = key[at]
    at += 1
    match tag:
        case 0:
            return "[]", at
        case 1:
            return "null", at
        case 2:
            text, at = read_text(key, at)
            return json.dumps(text, ensure_ascii=False), at
        case 3:
            number, at = read_decimal(key, at)
            return format(number, "f"), at
        case 4 | 5:
            return ("false" if tag == _FALSE else "true"), at
    count = int.from_bytes(key[at : at + 4], "big")
    at += 4
    parts = []
    for _ in range(count):
        name = ""
        if tag == _OBJECT:
            name, at = read_text(key, at)
            name = f"{json.dumps(name, ensure_ascii=False)}: "
        value, at = read_jsonb(key, at)
        parts.append(name + value)
    inner = ", ".join(parts)
    return (f"{{{inner}}}" if tag == _OBJECT else f"[{inner}]"), at


# Reading a key.

ColumnDecoder = Callable[[bytes, int], tuple[Datum, int]]

#: The struct format in a key of slots that are numbers.
_FORMATS = {"B": "B", "h": "H", "i": "I", "q": "Q", "f": "I", "d": "Q"}
#: A nullable column's tags.
VALUE, NULL_FIRST, NULL_LAST = 1, b"\x00", b"\x02"


def column_decoder(one: KeyField) -> ColumnDecoder:
    """Return a function from (key, where the column starts) to its datum and where the next starts."""
    decode = _value_decoder(one)
    if not one.nullable:
        return decode
    null = (NULL_FIRST if one.nulls_first else NULL_LAST)[0]

    def decode_nullable(key: bytes, at: int) -> tuple[Datum, int]:
        tag = key[at]
        if tag == null:
            return None, at + 1
        if tag != VALUE:
            raise ValueError(f"no value has the tag {tag}")
        return decode(key, at + 1)

    return decode_nullable


def _value_decoder(one: KeyField) -> ColumnDecoder:
    facts = KIND_FACTS[one.kind]
    if facts.is_variable:
        return _variable_decoder(one)
    width = facts.width
    top = (1 << 8 * width) - 1
    datum = _datum_reader(one)

    def decode_fixed(key: bytes, at: int) -> tuple[Datum, int]:
        end = at + width
        if end > len(key):
            raise ValueError("it ends too early")
        bits = int.from_bytes(key[at:end], "big")
        return datum(top - bits if one.descending else bits), end

    return decode_fixed


def _datum_reader(one: KeyField) -> Callable[[int], Datum]:
    """Return the function from a fixed column's ascending bytes, as one integer, to its datum."""
    facts = KIND_FACTS[one.kind]
    width, half = facts.width, 1 << 8 * facts.width - 1
    match facts.form:
        case ByteForm.BOOL:
            return bool
        case ByteForm.RAW:
            return lambda bits: bits.to_bytes(width, "big")
        case ByteForm.SCALED:
            unit = quantum(one.scale)
            return lambda bits: EXACT.multiply(bits - half, unit)
        case ByteForm.INTERVAL:
            return lambda bits: _interval(bits - half)
    if facts.slot in _FLOATS:
        return bits_float32 if facts.slot == "f" else bits_float64
    return lambda bits: bits - half


_FLOATS = "fd"


def _variable_decoder(one: KeyField) -> ColumnDecoder:
    readers: dict[ByteForm, ColumnDecoder] = {
        ByteForm.TEXT: read_text,
        ByteForm.BYTES: read_bytes,
        ByteForm.DECIMAL: read_decimal,
        ByteForm.JSONB: read_jsonb,
    }
    read = readers.get(KIND_FACTS[one.kind].form) or _array_reader(one)

    def decode_descending(key: bytes, at: int) -> tuple[Datum, int]:
        value, end = read(key[at:].translate(FLIP), 0)
        return value, at + end

    return decode_descending if one.descending else read


def _interval(span: int) -> Interval:
    """Return the interval of that span with the most months and days that are in it, all of one sign."""
    sign = -1 if span < 0 else 1
    days, us = divmod(abs(span), 86_400_000_000)
    months = min(days // 30, 2**31 - 1)
    rest = min(days - months * 30, 2**31 - 1)
    us += (days - months * 30 - rest) * 86_400_000_000
    return Interval(sign * months, sign * rest, sign * us)


def _array_reader(one: KeyField) -> ColumnDecoder:
    element = one.element or VECTOR_ELEMENT
    read = column_decoder(KeyField(element.kind, element.scale, nullable=True, element=element.element))

    def read_array(key: bytes, at: int) -> tuple[Datum, int]:
        found: list[Datum] = []
        while key[at]:
            value, at = read(key, at)
            found.append(value)
        return tuple(found), at + 1

    def read_shaped(key: bytes, at: int) -> tuple[Datum, int]:
        found, at = read_array(key, at)
        sizes = struct.unpack_from(f">{key[at]}I", key, at + 1)
        return shaped(cast("tuple[Datum, ...]", found), sizes), at + 1 + 4 * len(sizes)

    is_array = KIND_FACTS[one.kind].form is ByteForm.ARRAY
    return read_shaped if is_array and one.scale > 1 else read_array


# The codec of a key.

KeyEncoder = Callable[[Sequence[Datum]], bytes]

_ERRORS = (struct.error, ValueError, TypeError, AttributeError, ArithmeticError)


class KeyCodec:
    """Encodes and decodes keys of these fields; see the module for the bytes and their order."""

    def __init__(self, fields: Sequence[KeyField]) -> None:
        """Raise ValueError if a field is JSON."""
        self.fields = tuple(fields)
        for i, one in enumerate(self.fields):
            if not KIND_FACTS[one.kind].ordered:
                raise ValueError(
                    f"key column {i}: {one.kind.name} has no order, so it cannot be part of a key"
                )
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
        "raw_bytes": raw_bytes,
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
    value, down, facts = f"v{i}", one.descending, KIND_FACTS[one.kind]
    bits = 8 * facts.width
    match facts.form:
        case ByteForm.NUMBER if facts.slot in _FLOATS:
            value = f"float{bits}_bits({value})"
            return _FORMATS[facts.slot], f"{(1 << bits) - 1} - {value}" if down else value
        case ByteForm.SCALED:
            whole = f"int(multiply({value}, ten{i})) if {value}.same_quantum(unit{i})"
            value = f"({whole} else unscaled({value}, scale{i}))"
        case ByteForm.RAW:
            expression = f"raw_bytes({value}, {facts.width})"
            return "", f"{expression}.translate(flip)" if down else expression
        case ByteForm.TEXT | ByteForm.BYTES | ByteForm.DECIMAL | ByteForm.JSONB | ByteForm.INTERVAL:
            expression = f"{facts.form.name.lower()}_bytes({value})"
            return "", f"{expression}.translate(flip)" if down else expression
        case ByteForm.ARRAY | ByteForm.VECTOR:
            expression = f"array{i}({value})"
            return "", f"{expression}.translate(flip)" if down else expression
        case ByteForm.BOOL:
            return _FORMATS[facts.slot], f"255 - {value}" if down else value
    shifted = f"{(1 << bits - 1) - 1} - {value}" if down else f"{value} + {1 << bits - 1}"
    if facts.slot not in _FORMATS:
        return "", f"({shifted}).to_bytes({facts.width}, 'big')"
    return _FORMATS[facts.slot], shifted


def _interval_bytes(value: Any) -> bytes:
    return int(value.span + (1 << 127)).to_bytes(16, "big")


def _array_maker(one: KeyField) -> Callable[[Any], bytes] | None:
    """Return what makes the bytes of an ascending ARRAY or VECTOR."""
    form = KIND_FACTS[one.kind].form
    if form is ByteForm.VECTOR:
        element = VECTOR_ELEMENT
    elif form is ByteForm.ARRAY and one.element is not None:
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

    return shaped_bytes if form is ByteForm.ARRAY and one.scale > 1 else array_bytes


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
