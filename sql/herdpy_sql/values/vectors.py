"""VECTOR: a datum is a tuple of numbers of 32 bits. Above ``form`` and ``floats``, below ``forms``.

The forms are pgvector's.
"""

from __future__ import annotations

import math
import struct
from typing import Any

from herdpy.codec.kinds import plain
from herdpy_sql.errors import SqlError
from herdpy_sql.types import SqlType
from herdpy_sql.values import floats
from herdpy_sql.values.form import Bytes, DuckForms, Reader, TypeForms, always, mismatch, wrong_length

MAX_DIMENSIONS = 16_000
_COUNT = struct.Struct("!h")


def vector_text(values: tuple[float, ...]) -> str:
    """pgvector's text: ``[1,2.5]``."""
    return f"[{','.join(map(floats.float32_text, values))}]"


def parse_vector(text: str) -> tuple[float, ...]:
    """Read a VECTOR. SqlError 22P02, 22003, 22000 or 54000."""
    body = text.strip()
    if body[:1] != "[" or body[-1:] != "]":
        raise SqlError(
            "22P02",
            f'invalid input syntax for type vector: "{text}"',
            detail='Vector contents must start with "[".' if body[:1] != "[" else None,
        )
    if not body[1:-1].strip():
        raise SqlError("22000", "vector must have at least 1 dimension")
    values = []
    for part in body[1:-1].split(","):
        try:
            value = float(part)
        except ValueError:
            raise SqlError("22P02", f'invalid input syntax for type vector: "{text}"') from None
        values.append(checked_number(value))
    if len(values) > MAX_DIMENSIONS:
        raise SqlError("54000", f"vector cannot have more than {MAX_DIMENSIONS} dimensions")
    return tuple(values)


def checked_number(value: float) -> float:
    """A number of a vector, rounded to 32 bits. SqlError 22000 for NaN and infinity, 22003 out of range."""
    if math.isnan(value):
        raise SqlError("22000", "NaN not allowed in vector")
    if math.isinf(value):
        raise SqlError("22000", "infinite value not allowed in vector")
    try:
        found: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        raise SqlError("22003", f'"{value:g}" is out of range for type vector') from None
    return found


def fit_vector(value: tuple[float, ...], sql_type: SqlType) -> tuple[float, ...]:
    """``value`` itself. SqlError 22000 when it has not as many dimensions as VECTOR(n) says."""
    if sql_type.length is not None and len(value) != sql_type.length:
        raise SqlError("22000", f"expected {sql_type.length} dimensions, not {len(value)}")
    return value


def _read(sql_type: SqlType) -> Reader:
    if sql_type.length is None:
        return parse_vector
    return lambda text: fit_vector(parse_vector(text), sql_type)


def _take(sql_type: SqlType) -> Reader:
    read = _read(sql_type)

    def vector(value: object) -> Any:
        if value is None:
            return None
        if isinstance(value, str):
            return read(plain(value))
        listed: Any = value.tolist() if hasattr(value, "tolist") else value
        if not isinstance(listed, list | tuple):
            raise mismatch(value, "vector")
        numbers = tuple([checked_number(float(one)) for one in listed])
        if not numbers:
            raise SqlError("22000", "vector must have at least 1 dimension")
        return fit_vector(numbers, sql_type)

    return vector


def _give(value: tuple[float, ...] | None) -> object:
    return None if value is None else [floats.shortest32(one) for one in value]


def _unpack_numbers(data: Bytes) -> tuple[float, ...]:
    """pgvector's form: how many numbers (2 bytes), nothing (2), and the numbers (4 each)."""
    if len(data) < 4:
        raise wrong_length(len(data), 4)
    (count,) = _COUNT.unpack_from(data)
    if len(data) != 4 + 4 * count or count < 1:
        raise wrong_length(len(data), 4 + 4 * count)
    return tuple([checked_number(one) for one in struct.unpack_from(f"!{count}f", data, 4)])


def _pack(values: tuple[float, ...]) -> bytes:
    return struct.pack(f"!hh{len(values)}f", len(values), 0, *values)


def _unpack(sql_type: SqlType) -> Reader:
    return lambda data: fit_vector(_unpack_numbers(data), sql_type)


FORMS: TypeForms = TypeForms(
    write=always(vector_text),
    read=_read,
    take=_take,
    give=always(_give),
    pack=always(_pack),
    unpack=_unpack,
    duck=DuckForms(
        "FLOAT[]",
        constant=lambda value: f"CAST([{', '.join(map(repr, value))}] AS FLOAT[])",
        client=list,
    ),
    lists=True,
)
