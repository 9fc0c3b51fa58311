"""Codec layer, inside: writes the functions that read images of rows. ``rows`` has the format.

Fields and the positions wanted -> what to unpack and where each column's bytes are, as source -> a
function for images of the newest layout, and one more for each older layout that comes along.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, NoReturn

from herdpy.codec._compile import EXACT, compile_function, quantum
from herdpy.codec._contents import array_decoder, read_interval, read_vector
from herdpy.codec._rowslots import ERRORS, SLOTS, VARIABLE, Decoder, bitmap_width, slot_width
from herdpy.codec.kinds import Datum, Field, Kind


def make_decoder(fields: tuple[Field, ...], positions: tuple[int, ...]) -> Decoder:
    """Return a decoder of the newest layout, which makes one for each older layout it meets."""
    for position in positions:
        if not 0 <= position < len(fields):
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
    wanted = {p for p in positions if p < count}
    formats, targets, variable = _read_plan(fields[:count], wanted)
    start = header + sum(slot_width(field.kind) for field in fields[:count])
    values = {p: _decoding(p, fields[p].kind, variable.get(p, ""), start) for p in wanted}
    plain = "".join(f"{values[p] if p < count else f'missing{p}'}, " for p in positions)
    careful = "".join(
        f"None if bits & {1 << p} else {values[p]}, " if p < count else f"missing{p}, " for p in positions
    )
    read = [f"{''.join(targets)} = unpack_from(image, {header})"] if targets else []
    if len(wanted) == count:
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
    namespace: dict[str, Any] = {f"missing{p}": fields[p].missing for p in positions}
    namespace |= {f"unit{p}": quantum(fields[p].scale) for p in positions}
    for p in positions:
        element = fields[p].element
        if element is not None:
            namespace[f"array{p}"] = array_decoder(element)
        elif fields[p].kind == Kind.VECTOR:
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
        if i not in needed:
            formats.append(f"{slot_width(field.kind)}x")
            continue
        formats.append("?" if field.kind == Kind.BOOL else SLOTS[field.kind])
        targets.append(f"e{i}, " if field.kind in VARIABLE else f"c{i}, ")
    return formats, targets, starts


def _decoding(p: int, kind: Kind, before: str, start: int) -> str:
    """Return the expression of column p's datum; ``before`` names the end of the one before, or ""."""
    content = f"image[{f'{start} + {before}' if before else start}:{start} + e{p}]"
    match kind:
        case Kind.TEXT | Kind.JSON | Kind.JSONB:
            return f"{content}.decode()"
        case Kind.ARRAY | Kind.VECTOR:
            return f"array{p}({content})"
        case Kind.INTERVAL:
            return f"read_interval(c{p})"
        case Kind.BYTES:
            return content
        case Kind.DECIMAL:
            return f"Decimal({content}.decode())"
        case Kind.DECIMAL64:
            return f"multiply(c{p}, unit{p})"
        case Kind.DECIMAL128:
            return f"multiply(from_bytes(c{p}, 'little', signed=True), unit{p})"
        case _:
            return f"c{p}"


def _refuse_image(image: bytes, error: Exception) -> NoReturn:
    raise ValueError(f"not a row image of this table ({len(image)} bytes): {error}") from error
