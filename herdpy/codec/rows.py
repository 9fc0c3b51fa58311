"""Codec layer: a row becomes an image, the bytes that the log carries and the store holds.

An image of n columns, every integer little-endian, nothing aligned:

=================  ==============================================================================
bytes              meaning
=================  ==============================================================================
2                  n, the number of columns in this image, unsigned
ceil(n / 8)        null bitmap: bit ``i % 8`` of byte ``i // 8`` is set when column i is NULL
sum of the slots   one slot for each column, in column order (below)
the rest           variable area: the bytes of the variable columns, in column order, end to end
=================  ==============================================================================

==========================================  ======  =============================================
kind                                        slot    holds
==========================================  ======  =============================================
BOOL                                        1       0 or 1
INT16                                       2       two's complement
INT32, DATE                                 4       two's complement; days since 1970-01-01
INT64, TIME, TIMESTAMP, TIMESTAMPTZ         8       two's complement; microseconds (see ``kinds``)
FLOAT32, FLOAT64                            4, 8    IEEE 754
DECIMAL64, DECIMAL128                       8, 16   value * 10**scale, two's complement
UUID                                        16      the bytes in RFC 4122 order
INTERVAL                                    16      months (4), days (4), microseconds (8)
TEXT, JSON, BYTES, DECIMAL, JSONB, ARRAY,   4       unsigned: where the column's bytes end,
VECTOR
                                                    counted from the start of the variable area;
                                                    they start where the variable column before
                                                    ends (0 for the first)
==========================================  ======  =============================================

TEXT, JSON and JSONB are UTF-8; DECIMAL is the number
in ASCII with all its digits and no exponent ("-12.50", "1000"), which keeps its display scale. The
slot of a NULL is all zeros, except that a variable column's still says where it would end, which is
the end of the one before.

Columns are only appended: a dropped one keeps its place (and is written as NULL), so the layout
of an image of n columns follows from the first n fields of any later definition of the table,
and the columns that an image lacks have the datum ``Field.missing``. A row is therefore read
with today's definition, whatever the definition was when it was written.

A VECTOR is its numbers, 4 bytes each, IEEE 754. An ARRAY is

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

``RowCodec`` holds the functions that ``make_encoder`` and ``make_decoder`` write for a table's fields: an
encoding of each column, as source, makes one straight-line function of all (a value that does not fit is
looked for only after that function failed); what to unpack, and where each column's bytes are, makes a
function for images of the newest layout, and one more for each older layout that comes along.
``make_patcher`` writes one that changes some columns of an image and leaves its other bytes as they are.
"""

from __future__ import annotations

import functools
import math
import reprlib
import struct
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NoReturn

from herdpy.codec.kinds import (
    EXACT,
    KIND_FACTS,
    MAX_DIMENSIONS,
    MAX_INTERVAL_US,
    ByteForm,
    Datum,
    Field,
    Grid,
    Interval,
    Kind,
    compile_function,
    quantum,
    shaped,
    unscaled,
)

# The layout of an image.

VARIABLE = frozenset(kind for kind, facts in KIND_FACTS.items() if facts.is_variable)
"""The kinds whose slots say where their bytes end."""

Encoder = Callable[[Sequence[Datum]], bytes]
Decoder = Callable[[bytes], tuple[Datum, ...]]
Patcher = Callable[[bytes, Sequence[Datum]], bytes]

#: What an expression of a codec raises when a value does not fit.
ERRORS = (struct.error, ValueError, TypeError, AttributeError, ArithmeticError)


def bitmap_width(columns: int) -> int:
    """Return the bytes of the null bitmap of an image of that many columns."""
    return (columns + 7) // 8


#: Bytes of a value, in a slot and in a key, of the kinds whose keys all have as many.
FIXED_WIDTHS = {
    kind: facts.width
    for kind, facts in KIND_FACTS.items()
    if not facts.is_variable and facts.form is not ByteForm.INTERVAL
}


# Intervals, arrays and vectors.

_INTERVAL = struct.Struct("<iiq")
_LENGTH = struct.Struct("<I")
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
    form = _plain_format(element.kind)
    if form:

        def join(values: list[Any]) -> bytes:
            return struct.pack(f"<{len(values)}{form}", *values)

    else:
        encode = _pieces(element)[0]
        fixed = not KIND_FACTS[element.kind].is_variable

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
    form, facts = _plain_format(element.kind), KIND_FACTS[element.kind]
    if form:
        split: Callable[[bytes, int], Any] = functools.partial(_split_plain, form)
    elif facts.is_variable:
        split = functools.partial(_split_variable, _pieces(element)[1])
    else:
        split = functools.partial(_split_fixed, _pieces(element)[1], facts.width)

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


def _plain_format(kind: Kind) -> str:
    """Return the struct format of the datums of a kind that struct packs as they are, or ""."""
    facts = KIND_FACTS[kind]
    if facts.form is ByteForm.BOOL:
        return "?"
    return facts.slot if facts.form is ByteForm.NUMBER else ""


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
    facts = KIND_FACTS[element.kind]
    match facts.form:
        case ByteForm.TEXT | ByteForm.JSONB:
            return str.encode, bytes.decode
        case ByteForm.BYTES | ByteForm.RAW:
            return bytes, bytes
        case ByteForm.DECIMAL:
            return (lambda value: format(value, "f").encode()), (lambda data: Decimal(data.decode()))
        case ByteForm.INTERVAL:
            return interval_bytes, read_interval
        case ByteForm.VECTOR:
            return vector_bytes, read_vector
        case ByteForm.SCALED:
            width, scale, unit = facts.width, element.scale, quantum(element.scale)
            return (
                lambda value: unscaled(value, scale).to_bytes(width, "little", signed=True),
                lambda data: EXACT.multiply(Decimal(int.from_bytes(data, "little", signed=True)), unit),
            )
        case _:
            raise ValueError(f"there are no arrays of {element.kind.name}")


# Images of rows.

#: PostgreSQL's NUMERIC has 131,072 digits before the point; anything past this is not a number to store.
MAX_EXPONENT = 200_000


@dataclass(frozen=True, slots=True)
class _Encoding:
    """How one column is encoded, as source: ``v0`` is its datum, ``b0`` its bytes, ``e0`` their end."""

    lines: list[str]  # what prepares the column
    argument: str  # what goes into its slot
    null: str  # what stands in place of the lines when the datum is None
    piece: str = ""  # what goes into the variable area


def _encoding(i: int, kind: Kind, end: str) -> _Encoding:
    """Return column i's encoding; ``end`` is the expression of the end before it, or ""."""
    facts = KIND_FACTS[kind]
    match facts.form:
        case ByteForm.TEXT | ByteForm.JSONB:
            content = f"v{i}.encode()"
        case ByteForm.ARRAY | ByteForm.VECTOR:
            content = f"array{i}(v{i})"
        case ByteForm.INTERVAL:
            return _Encoding([f"v{i} = interval_bytes(v{i})"], f"v{i}", f"v{i} = empty")
        case ByteForm.DECIMAL:
            content = f"decimal_text(v{i})"
        case ByteForm.BYTES:
            content = f"v{i}"
        case ByteForm.SCALED:
            whole = f"int(multiply(v{i}, ten{i})) if v{i}.same_quantum(unit{i}) else unscaled(v{i}, scale{i})"
            if facts.slot.endswith("s"):
                return _Encoding(
                    [f"v{i} = ({whole}).to_bytes({facts.width}, 'little', signed=True)"],
                    f"v{i}",
                    f"v{i} = empty",
                )
            return _Encoding([f"v{i} = {whole}"], f"v{i}", f"v{i} = 0")
        case ByteForm.RAW:
            check = f"if len(v{i}) != {facts.width}: raise ValueError('not {facts.width} bytes')"
            return _Encoding([check], f"v{i}", f"v{i} = empty")
        case _:
            return _Encoding([], f"v{i}", f"v{i} = 0")
    length = f"{end} + len(b{i})" if end else f"len(b{i})"
    return _Encoding(
        [f"b{i} = {content}", f"e{i} = {length}"], f"e{i}", f"b{i} = empty; e{i} = {end or 0}", f"b{i}"
    )


def make_encoder(fields: tuple[Field, ...]) -> Encoder:
    """Write encode(): straight-line code when no column is NULL, else the same with a bitmap."""
    count, bitmap = len(fields), bitmap_width(len(fields))
    plain: list[str] = []
    careful: list[str] = []
    arguments = pieces = end = ""
    for i, field in enumerate(fields):
        encoding = _encoding(i, field.kind, end)
        plain += encoding.lines
        careful += [f"if v{i} is None:", f"    bits |= {1 << i}", f"    {encoding.null}"]
        careful += ["else:", *(f"    {line}" for line in encoding.lines)] if encoding.lines else []
        arguments += f", {encoding.argument}"
        if encoding.piece:
            pieces += f" + {encoding.piece}"
            end = encoding.argument
    any_null = " or ".join(f"v{i} is None" for i in range(count)) or "False"
    body = [
        f"{''.join(f'v{i}, ' for i in range(count)) or '()'} = values",
        "try:",
        f"    if {any_null}:",
        "        bits = 0",
        *(f"        {line}" for line in careful),
        f"        return pack_nulls({count}, bits.to_bytes({bitmap}, 'little'){arguments}){pieces}",
        *(f"    {line}" for line in plain),
        f"    return pack({count}{arguments}){pieces}",
        "except errors:",
        "    refuse(values)",
    ]
    slots = "".join(KIND_FACTS[field.kind].slot for field in fields)
    namespace = _encoding_names(fields) | {
        "pack": struct.Struct(f"<H{bitmap}x{slots}").pack,
        "pack_nulls": struct.Struct(f"<H{bitmap}s{slots}").pack,
        "errors": ERRORS,
        "refuse": lambda values: _refuse_row(fields, values),
    }
    return compile_function("encode_row", "values", body, namespace)


def _encoding_names(fields: Sequence[Field]) -> dict[str, Any]:
    names: dict[str, Any] = {
        "empty": b"",
        "multiply": EXACT.multiply,
        "unscaled": unscaled,
        "decimal_text": decimal_text,
        "interval_bytes": interval_bytes,
    }
    for i, field in enumerate(fields):
        form = KIND_FACTS[field.kind].form
        if form is ByteForm.ARRAY:
            assert field.element is not None
            names[f"array{i}"] = array_encoder(field.element)
        elif form is ByteForm.VECTOR:
            names[f"array{i}"] = vector_bytes
        elif form is ByteForm.SCALED:
            names |= {f"ten{i}": 10**field.scale, f"unit{i}": quantum(field.scale), f"scale{i}": field.scale}
    return names


def decimal_text(value: Decimal) -> bytes:
    """Return a DECIMAL's bytes in an image; ValueError if it is not finite or absurdly long."""
    if not value.is_finite() or abs(value.adjusted()) > MAX_EXPONENT:
        raise ValueError("it is not finite, or beyond what NUMERIC can hold")
    return format(value, "f").encode()


def _refuse_row(fields: Sequence[Field], values: Sequence[Datum]) -> NoReturn:
    """Raise ValueError naming the first column whose value its kind cannot hold."""
    for i, (field, value) in enumerate(zip(fields, values, strict=True)):
        encoding = _encoding(0, field.kind, "")
        body = ["if v0 is not None:", *(f"    {line}" for line in encoding.lines)]
        body.append(f"    pack({encoding.argument}), empty + {encoding.piece or 'empty'}")
        namespace = _encoding_names([field]) | {"pack": struct.Struct("<" + KIND_FACTS[field.kind].slot).pack}
        try:
            compile_function("encode_column", "v0", body, namespace)(value)
        except ERRORS as error:
            shown = reprlib.repr(value)
            raise ValueError(f"column {i} ({field.kind.name}) cannot hold {shown}: {error}") from error
    raise ValueError("the variable columns of a row exceed 4 GiB together")


def make_patcher(fields: tuple[Field, ...], positions: Sequence[int]) -> Patcher | None:
    """Write patch(image, values): the image with the ``values`` of these columns, as ``encode`` makes it.

    It gives no bytes where the whole row must be encoded: of an older layout, where one of the columns is or
    becomes NULL, and where a value or the image is wrong. None where a column has no slot of its own.
    """
    if not positions or any(fields[p].kind in VARIABLE for p in positions):
        return None
    count, header = len(fields), 2 + bitmap_width(len(fields))
    starts = [header]
    for field in fields:
        starts.append(starts[-1] + KIND_FACTS[field.kind].width)
    last = max((i for i, field in enumerate(fields) if field.kind in VARIABLE), default=None)
    size = f"{starts[-1]}" if last is None else f"{starts[-1]} + end_of(image, {starts[last]})[0]"
    nulls = [f"v{p} is None or image[{2 + p // 8}] & {1 << p % 8}" for p in positions]
    encodings = [_encoding(p, fields[p].kind, "") for p in positions]
    pieces, at = [], 0
    for p, encoding in sorted(zip(positions, encodings, strict=True), key=lambda one: one[0]):
        pieces += [f"image[{at}:{starts[p]}]", f"pack{p}({encoding.argument})"]
        at = starts[p + 1]
    body = [
        *(f"v{p} = values[{p}]" for p in positions),
        "try:",
        f"    if image[:2] != count or {' or '.join(nulls)} or len(image) != {size}:",
        "        return empty",
        *(f"    {line}" for encoding in encodings for line in encoding.lines),
        f"    return {' + '.join(pieces)} + image[{at}:]",
        "except errors:",
        "    return empty",
    ]
    namespace = _encoding_names(fields) | {
        "count": struct.pack("<H", count),
        "end_of": struct.Struct("<I").unpack_from,
        "errors": (*ERRORS, IndexError),
        **{f"pack{p}": struct.Struct("<" + KIND_FACTS[fields[p].kind].slot).pack for p in positions},
    }
    return compile_function("patch_row", "image, values", body, namespace)


# Rows of images.


def make_decoder(fields: tuple[Field, ...], positions: tuple[int, ...]) -> Decoder:
    """Return a decoder of the newest layout, which makes one for each older layout it meets.

    A position of -1 stands for None.
    """
    for position in positions:
        if not -1 <= position < len(fields):
            raise IndexError(f"no column {position} among {len(fields)}")
    older: dict[int, Decoder] = {}

    def decode_older(image: bytes) -> tuple[Datum, ...]:
        count = int.from_bytes(image[:2], "little")
        decode = older.get(count)
        if decode is None:
            if len(image) < 2 or count >= len(fields):
                raise ValueError(f"an image of {count} columns, where {len(fields)} are known")
            decode = older[count] = _make_layout_decoder(fields, count, positions, decode_older)
        return decode(image)

    return _make_layout_decoder(fields, len(fields), positions, decode_older)


def _make_layout_decoder(
    fields: tuple[Field, ...], count: int, positions: tuple[int, ...], otherwise: Decoder
) -> Decoder:
    """Write the decoder of images of ``count`` columns; ``otherwise`` gets the images of another count."""
    header = 2 + bitmap_width(count)
    decoded = {p for p in positions if 0 <= p < count}
    formats, targets, variable = _read_plan(fields[:count], decoded)
    start = header + sum(KIND_FACTS[field.kind].width for field in fields[:count])
    values = {p: _decoding(p, fields[p].kind, variable.get(p, ""), start) for p in decoded}
    absent = {p: f"missing{p}" if p >= 0 else "None" for p in positions}
    plain = "".join(f"{values.get(p, absent[p])}, " for p in positions)
    careful = "".join(
        f"None if bits & {1 << p} else {values[p]}, " if p in decoded else f"{absent[p]}, " for p in positions
    )
    read = [f"{''.join(targets)} = unpack_from(image, {header})"] if targets else []
    if len(decoded) == count:
        last = next((f" + e{p}" for p in reversed(range(count)) if fields[p].kind in VARIABLE), "")
        read += [f"if len(image) != {start}{last}: raise ValueError('its length is wrong')"]
    body = [
        "try:",
        f"    if image[:{header}] == plain:",
        *(f"        {line}" for line in read),
        f"        return ({plain})",
        "    if image[:2] != count: return otherwise(image)",
        *(f"    {line}" for line in read),
        f"    bits = from_bytes(image[2:{header}], 'little')",
        f"    return ({careful})",
        "except errors as error:",
        "    refuse(image, error)",
    ]
    named = [p for p in positions if p >= 0]
    namespace: dict[str, Any] = {f"missing{p}": fields[p].missing for p in named}
    namespace |= {f"unit{p}": quantum(fields[p].scale) for p in named}
    for p in named:
        element = fields[p].element
        if element is not None:
            namespace[f"array{p}"] = array_decoder(element)
        elif KIND_FACTS[fields[p].kind].form is ByteForm.VECTOR:
            namespace[f"array{p}"] = read_vector
    namespace |= {
        "unpack_from": struct.Struct("<" + "".join(formats)).unpack_from,
        "count": struct.pack("<H", count),
        "plain": struct.pack("<H", count) + bytes(header - 2),
        "otherwise": otherwise,
        "from_bytes": int.from_bytes,
        "multiply": EXACT.multiply,
        "read_interval": read_interval,
        "Decimal": Decimal,
        "errors": ERRORS,
        "refuse": _refuse_image,
    }
    return compile_function("decode_row", "image", body, namespace)


def _read_plan(fields: Sequence[Field], wanted: set[int]) -> tuple[list[str], list[str], dict[int, str]]:
    """Return the formats to unpack, the names they go to, and where each variable column starts.

    Slots that nobody wants are padding; a variable column needs the end of the one before it too.
    """
    formats: list[str] = []
    targets: list[str] = []
    starts: dict[int, str] = {}
    needed = set(wanted)
    before = None
    for i, field in enumerate(fields):
        if field.kind in VARIABLE:
            if i in wanted:
                starts[i] = "" if before is None else f"e{before}"
                needed |= set() if before is None else {before}
            before = i
    for i, field in enumerate(fields[: max(needed, default=-1) + 1]):
        facts = KIND_FACTS[field.kind]
        if i not in needed:
            formats.append(f"{facts.width}x")
            continue
        formats.append("?" if facts.form is ByteForm.BOOL else facts.slot)
        targets.append(f"e{i}, " if facts.is_variable else f"c{i}, ")
    return formats, targets, starts


def _decoding(p: int, kind: Kind, before: str, start: int) -> str:
    """Return the expression of column p's datum; ``before`` names the end of the one before, or ""."""
    content = f"image[{f'{start} + {before}' if before else start}:{start} + e{p}]"
    facts = KIND_FACTS[kind]
    match facts.form:
        case ByteForm.TEXT | ByteForm.JSONB:
            return f"{content}.decode()"
        case ByteForm.ARRAY | ByteForm.VECTOR:
            return f"array{p}({content})"
        case ByteForm.INTERVAL:
            return f"read_interval(c{p})"
        case ByteForm.BYTES:
            return content
        case ByteForm.DECIMAL:
            return f"Decimal({content}.decode())"
        case ByteForm.SCALED:
            whole = f"from_bytes(c{p}, 'little', signed=True)" if facts.slot.endswith("s") else f"c{p}"
            return f"multiply({whole}, unit{p})"
        case _:
            return f"c{p}"


def _refuse_image(image: bytes, error: Exception) -> NoReturn:
    raise ValueError(f"not a row image of this table ({len(image)} bytes): {error}") from error


# The codec of a table.

MAX_COLUMNS = 0xFFFF


class RowCodec:
    """Encodes rows of these fields, and decodes their images, older layouts included."""

    def __init__(self, fields: Sequence[Field]) -> None:
        """Raise ValueError if there are more than 65,535 fields."""
        if len(fields) > MAX_COLUMNS:
            raise ValueError(f"a row has at most {MAX_COLUMNS} columns, not {len(fields)}")
        self.fields = tuple(fields)
        self._decoders: dict[tuple[int, ...], Decoder] = {}
        #: encode(values): the image of a row. ValueError names the column that does not fit.
        self.encode: Encoder = make_encoder(self.fields)
        #: decode(image): every column of a row. ValueError if it is not an image of these fields.
        self.decode: Decoder = self.decoder(range(len(self.fields)))

    def decoder(self, positions: Sequence[int]) -> Decoder:
        """Return a function that decodes these columns only, in this order.

        IndexError if there is no such column. The function raises ValueError as ``decode`` does.
        Decoders are kept: asking again costs a dictionary lookup.
        """
        key = tuple(positions)
        found = self._decoders.get(key)
        if found is None:
            if -1 in key:
                raise IndexError("columns are counted from 0")
            found = self._decoders[key] = make_decoder(self.fields, key)
        return found

    def sparse_decoder(self, positions: Collection[int]) -> Decoder:
        """Return a function that decodes whole rows, with None for all but these columns, kept as above."""
        key = tuple([p if p in positions else -1 for p in range(len(self.fields))])
        found = self._decoders.get(key)
        if found is None:
            found = self._decoders[key] = make_decoder(self.fields, key)
        return found

    def patcher(self, positions: Sequence[int]) -> Patcher | None:
        """Return a function that changes these columns of an image, see :func:`make_patcher`."""
        return make_patcher(self.fields, positions)
