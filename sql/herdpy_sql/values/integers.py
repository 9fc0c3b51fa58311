"""SMALLINT, INTEGER and BIGINT: a datum is an ``int`` within the range. Above ``form``, below ``forms``."""

from __future__ import annotations

import math
import re
import struct
from decimal import Decimal
from typing import Any

from herdpy.codec.kinds import plain
from herdpy_sql.errors import SqlError
from herdpy_sql.types import Base, SqlType
from herdpy_sql.values.form import (
    Array,
    ColumnForms,
    DuckForms,
    Reader,
    TypeForms,
    always,
    fixed_reader,
    lossy,
    mismatch,
)
from herdpy_sql.values.string_columns import cast_to_text, has_letters, made_by_arrow, pc

INTEGER_RANGES = {
    Base.SMALLINT: (-(2**15), 2**15 - 1),
    Base.INTEGER: (-(2**31), 2**31 - 1),
    Base.BIGINT: (-(2**63), 2**63 - 1),
}
_BLANKS = " \t\n\r\f\v"
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)


def _read(sql_type: SqlType) -> Reader:
    low, high = INTEGER_RANGES[sql_type.base]
    name = sql_type.base.value
    return lambda text: _parse_integer(text, low, high, name)


def _parse_integer(text: str, low: int, high: int, name: str) -> int:
    stripped = text.strip(_BLANKS)
    match = _INTEGER.match(stripped)
    if match is None:
        raise SqlError("22P02", f'invalid input syntax for type {name}: "{text}"')
    # As PostgreSQL does: digits beyond the least value are found before what comes after them.
    digits = match[0].lstrip("+-").lstrip("0")
    value = int(match[0]) if len(digits) <= 19 else low - 1
    too_long = abs(value) > -low
    if match.end() < len(stripped) and not too_long:
        raise SqlError("22P02", f'invalid input syntax for type {name}: "{text}"')
    if not low <= value <= high:
        raise SqlError("22003", f'value "{text}" is out of range for type {name}')
    return value


def _take(sql_type: SqlType) -> Reader:
    low, high = INTEGER_RANGES[sql_type.base]
    parse = _read(sql_type)
    name = sql_type.base.value

    def convert(value: object) -> Any:
        if type(value) is int:
            if low <= value <= high:
                return value
            raise SqlError("22003", f"{name} out of range")
        if value is None:
            return None
        value = plain(value)
        if isinstance(value, str):
            return parse(value)
        if isinstance(value, bool):
            raise mismatch(value, name)
        if isinstance(value, float | Decimal):
            if isinstance(value, Decimal):
                if not value.is_finite() or value != value.to_integral_value():
                    raise lossy(value, name)
                if value.adjusted() > 20:  # the digits of 1e200000 take long to write out
                    raise SqlError("22003", f"{name} out of range")
            elif not math.isfinite(value) or value != int(value):
                raise lossy(value, name)
            return convert(int(value))
        index = getattr(value, "__index__", None)  # enumerations and numpy integers
        if index is None:
            raise mismatch(value, name)
        return convert(index())

    return convert


def _text_bytes(value: int) -> bytes:
    return b"%d" % value


def _read_column(strings: Array, target: Any, *_more: Any) -> Array | None:
    # Arrow would read 0x10 too.
    return None if has_letters(strings) else pc.cast(strings, target)


_COLUMNS = ColumnForms(write=cast_to_text, read=_read_column, python=int, take=made_by_arrow)


def _forms(size: str, duck: str) -> TypeForms:
    form = struct.Struct(f"!{size}")
    return TypeForms(
        write=always(str),
        read=_read,
        take=_take,
        pack=always(form.pack),
        unpack=always(fixed_reader(form)),
        columns=_COLUMNS,
        duck=DuckForms(duck, f"pg_{duck.lower()}", constant=lambda value: f"CAST({value} AS {duck})"),
        fixed=form,
        text_bytes=_text_bytes,
        unquoted=True,
    )


SMALLINT_FORMS: TypeForms = _forms("h", "SMALLINT")
INTEGER_FORMS: TypeForms = _forms("i", "INTEGER")
BIGINT_FORMS: TypeForms = _forms("q", "BIGINT")
