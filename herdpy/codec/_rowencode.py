"""Codec layer, inside: writes the function that makes images of rows. ``rows`` has the format.

Fields -> an encoding of each column, as source -> one straight-line function of all. A value that
does not fit is looked for only after that function failed.
"""

from __future__ import annotations

import reprlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NoReturn

from herdpy.codec._compile import EXACT, compile_function, quantum, unscaled
from herdpy.codec._contents import array_encoder, interval_bytes, vector_bytes
from herdpy.codec._rowslots import ERRORS, SLOTS, Encoder, bitmap_width
from herdpy.codec.kinds import Datum, Field, Kind

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
    match kind:
        case Kind.TEXT | Kind.JSON | Kind.JSONB:
            content = f"v{i}.encode()"
        case Kind.ARRAY | Kind.VECTOR:
            content = f"array{i}(v{i})"
        case Kind.INTERVAL:
            return _Encoding([f"v{i} = interval_bytes(v{i})"], f"v{i}", f"v{i} = empty")
        case Kind.DECIMAL:
            content = f"decimal_text(v{i})"
        case Kind.BYTES:
            content = f"v{i}"
        case Kind.DECIMAL64 | Kind.DECIMAL128:
            whole = f"int(multiply(v{i}, ten{i})) if v{i}.same_quantum(unit{i}) else unscaled(v{i}, scale{i})"
            if kind == Kind.DECIMAL128:
                return _Encoding(
                    [f"v{i} = ({whole}).to_bytes(16, 'little', signed=True)"], f"v{i}", f"v{i} = empty"
                )
            return _Encoding([f"v{i} = {whole}"], f"v{i}", f"v{i} = 0")
        case Kind.UUID:
            return _Encoding(
                [f"if len(v{i}) != 16: raise ValueError('not 16 bytes')"], f"v{i}", f"v{i} = empty"
            )
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
    slots = "".join(SLOTS[field.kind] for field in fields)
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
        if field.kind == Kind.ARRAY:
            assert field.element is not None
            names[f"array{i}"] = array_encoder(field.element)
        elif field.kind == Kind.VECTOR:
            names[f"array{i}"] = vector_bytes
        if field.kind in {Kind.DECIMAL64, Kind.DECIMAL128}:
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
        namespace = _encoding_names([field]) | {"pack": struct.Struct("<" + SLOTS[field.kind]).pack}
        try:
            compile_function("encode_column", "v0", body, namespace)(value)
        except ERRORS as error:
            shown = reprlib.repr(value)
            raise ValueError(f"column {i} ({field.kind.name}) cannot hold {shown}: {error}") from error
    raise ValueError("the variable columns of a row exceed 4 GiB together")
