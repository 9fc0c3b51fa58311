"""ENUM labels and their places, and VECTORs: text to datums and back."""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Callable

from herdpy_sql.errors import SqlError
from herdpy_sql.types import EnumType, SqlType
from herdpy_sql.values import floats

MAX_DIMENSIONS = 16_000


@functools.lru_cache(maxsize=256)
def _places(enum: EnumType) -> dict[str, float]:
    return dict(enum.labels)


@functools.lru_cache(maxsize=256)
def _labels(enum: EnumType) -> dict[float, str]:
    return {place: label for label, place in enum.labels}


def label_reader(sql_type: SqlType) -> Callable[[str], float]:
    """The function from labels to places. SqlError 22P02 for what is no label."""
    enum = sql_type.enum
    assert enum is not None
    places = _places(enum)

    def read(text: str) -> float:
        found = places.get(text)
        if found is None:
            raise SqlError("22P02", f'invalid input value for enum {enum}: "{text}"')
        return found

    return read


def label_writer(sql_type: SqlType) -> Callable[[float], str]:
    """The function from places to labels; a place of no label is shown as itself."""
    assert sql_type.enum is not None
    labels = _labels(sql_type.enum)
    return lambda place: labels.get(place, f"#{place:g}")


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
