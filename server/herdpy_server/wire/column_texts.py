"""Columns of values to columns of PostgreSQL's text and back: all at once where Arrow does as PostgreSQL.

Under ``columns`` and COPY's text formats. What Arrow writes otherwise goes value by value.
:func:`column_from_text` gives None (or raises ArrowInvalid) when there is a text that Arrow might not read as
PostgreSQL would: then the caller reads the values one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from herdpy.codec.arrow import array_to_datums, arrow_type
from herdpy.imports import lazy_module
from herdpy_server.wire.formats import encoder
from herdpy_sql.types import Base, SqlType
from herdpy_sql.values.json_texts import parse_json

Array = Any
pc: Any = lazy_module("pyarrow.compute")

_STRINGS = frozenset({Base.TEXT, Base.VARCHAR, Base.JSON, Base.JSONB, Base.UNKNOWN})
_DAYS = (-719_162, 2_932_896)  # years 1 to 9999
# Below these Arrow and PostgreSQL write no exponent.
_FLOATS = {Base.REAL: 1e6, Base.DOUBLE: 1e10}
_US = (-62_135_596_800_000_000, 253_402_300_799_999_999)
_PLAIN_NUMERIC = r"^-?(0|[1-9][0-9]{0,999})(\.[0-9]{1,999})?$"
_ZERO_NUMERIC = r"^-0(\.0+)?$"
_DAY_1 = -719_162 * 86_400_000_000  # 0001-01-01


def column_to_text(array: Array, sql_type: SqlType, zone: str) -> Array:
    """The PostgreSQL text of every value, as an Arrow array of strings; NULL stays NULL."""
    base = sql_type.base
    if base in _STRINGS:
        return array
    if base in {Base.SMALLINT, Base.INTEGER, Base.BIGINT}:
        return pc.cast(array, pa.string())
    if base is Base.BOOLEAN:
        return pc.if_else(array, "t", "f")
    if base is Base.CHAR:
        return array if sql_type.length is None else pc.utf8_rpad(array, sql_type.length, " ")
    found = None
    if base is Base.NUMERIC:
        found = _numeric(array, sql_type)
    elif base is Base.DATE and _within(array.view(pa.int32()), _DAYS):
        found = pc.cast(array, pa.string())
    elif base in {Base.TIMESTAMP, Base.TIMESTAMPTZ} and _within(array.view(pa.int64()), _US):
        if base is Base.TIMESTAMP or zone == "UTC":
            plain = pc.cast(array.view(pa.int64()).view(pa.timestamp("us")), pa.string())
            found = _trimmed(plain, "+00" if base is Base.TIMESTAMPTZ else "")
    elif base in _FLOATS and _is_plain(array, _FLOATS[base]):
        found = pc.cast(array, pa.string())
    elif base is Base.TIME and _within(array.view(pa.int64()), (0, 86_399_999_999)):
        found = _trimmed(pc.cast(array, pa.string()), "")
    return _one_by_one(array, sql_type, zone) if found is None else found


def _within(numbers: Array, bounds: tuple[int, int]) -> bool:
    ends = pc.min_max(numbers).as_py()
    return ends["min"] is None or (ends["min"] >= bounds[0] and ends["max"] <= bounds[1])


def _is_plain(floats: Array, most: float) -> bool:
    """Whether Arrow writes them as PostgreSQL does: as short as can be, without an exponent."""
    size = pc.abs(floats)
    plain = pc.or_(pc.equal(size, 0.0), pc.and_(pc.greater_equal(size, 1e-4), pc.less(size, most)))
    return pc.all(plain).as_py() is not False


def _trimmed(moments: Array, suffix: str) -> Array:
    """Without the zeros of six digits after the point, and with ``suffix``."""
    trimmed = pc.utf8_rtrim(pc.utf8_rtrim(moments, "0"), ".")
    # A time such as 10:20:00.000000 lost no more than its fraction: the point stopped it.
    return pc.binary_join_element_wise(trimmed, suffix, "") if suffix else trimmed


def _numeric(array: Array, sql_type: SqlType) -> Array | None:
    if not pa.types.is_decimal(array.type):
        return array
    scale = sql_type.scale or 0
    # Arrow writes an exponent only below the sixth digit after the point.
    return pc.cast(array, pa.string()) if scale <= 6 else None


def _one_by_one(array: Array, sql_type: SqlType, zone: str) -> Array:
    write = encoder(sql_type, False, zone)
    datums = array_to_datums(sql_type.field, array)
    texts = [None if datum is None else write(datum) for datum in datums]
    return pa.array(texts, pa.binary()).view(pa.string())


@cache
def _booleans() -> Array:
    """False and true in turn. Not made at import: a list given to pyarrow makes it import pandas."""
    return pa.array(["f", "t", "false", "true", "0", "1", "no", "yes", "off", "on", "n", "y"])


def column_from_text(strings: Array, sql_type: SqlType, zone: str) -> Array | None:
    """The values that an Arrow array of strings stands for; None when they must be read one by one."""
    base = sql_type.base
    if base in {Base.TEXT, Base.VARCHAR, Base.CHAR}:
        return _text_from_text(strings, sql_type)
    if base is Base.NUMERIC:
        return _numeric_from_text(strings, sql_type)
    if base is Base.TIMESTAMPTZ:
        return _timestamptz(strings, zone)
    convert = _CONVERTERS.get(base)
    return None if convert is None else convert(strings, arrow_type(sql_type.field))


def _data(strings: Array) -> Any:
    """The bytes of all the strings, as numpy has them."""
    offsets = _offsets(strings)
    data = strings.buffers()[2]
    if data is None or not len(strings):
        return np.empty(0, np.uint8)
    return np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]


def _offsets(strings: Array) -> Any:
    if not len(strings):
        return np.zeros(1, np.int32)
    return np.frombuffer(strings.buffers()[1], np.int32, len(strings) + 1, strings.offset * 4)


def _has_letters(data: Any) -> bool:
    return bool(len(data)) and bool((data > 0x39).any())


def _text_from_text(strings: Array, sql_type: SqlType) -> Array | None:
    if sql_type.base is Base.CHAR:
        strings = pc.utf8_rtrim(strings, " ")
    if sql_type.length is not None and len(strings) > strings.null_count:
        longest = pc.max(pc.utf8_length(strings)).as_py()
        if longest > sql_type.length:
            return None
    return strings


def _integer_from_text(strings: Array, wanted: Any) -> Array | None:
    # Arrow would read 0x10 too.
    return None if _has_letters(_data(strings)) else pc.cast(strings, wanted)


def _float_from_text(strings: Array, wanted: Any) -> Array | None:
    values = pc.cast(strings, wanted)
    plain = values.fill_null(1).to_numpy(zero_copy_only=False)
    if not np.isfinite(plain).all() or not plain.all():
        return None  # overflow, underflow and special words are PostgreSQL's to judge
    return values


def _numeric_from_text(strings: Array, sql_type: SqlType) -> Array | None:
    wanted = arrow_type(sql_type.field, sql_type.precision)
    if pa.types.is_decimal(wanted):
        return None if _has_letters(_data(strings)) else pc.cast(strings, wanted)
    if sql_type.precision is not None:
        return None
    good = pc.match_substring_regex(strings, _PLAIN_NUMERIC)
    zero = pc.match_substring_regex(strings, _ZERO_NUMERIC)
    if pc.all(good).as_py() is False or pc.any(zero).as_py() is True:
        return None
    return strings


def _boolean(strings: Array, wanted: Any) -> Array | None:
    found = pc.index_in(strings, _booleans())
    if found.null_count != strings.null_count:
        return None
    return pc.cast(pc.bit_wise_and(found, 1), wanted)


def _date(strings: Array, wanted: Any) -> Array | None:
    values = pc.cast(strings, wanted)
    return values if _least(values.view(pa.int32())) >= -719_162 else None


def _time(strings: Array, wanted: Any) -> Array | None:
    if not _lengths_in(strings, {8, *range(10, 16)}):
        return None
    moments = pc.binary_join_element_wise("1970-01-01", strings, " ")  # Arrow casts no string to a time
    return pc.cast(moments, pa.timestamp("us")).view(pa.int64()).view(wanted)


def _timestamp(strings: Array, wanted: Any) -> Array | None:
    if not _lengths_in(strings, {19, *range(21, 27)}):
        return None
    values = pc.cast(strings, wanted)
    return values if _least(values.view(pa.int64())) >= _DAY_1 else None


def _timestamptz(strings: Array, zone: str) -> Array | None:
    # PostgreSQL's offsets end at 15:59:59, Arrow's at 23:59.
    named = pc.match_substring_regex(strings, r":[0-9.]+[+-](0[0-9]|1[0-5])(:[0-9]{2})?$")
    wanted = pa.timestamp("us", "UTC")
    if pc.any(named).as_py() is True:
        if pc.all(named).as_py() is False:
            return None
        values = pc.cast(strings, wanted)
    elif zone == "UTC" and _lengths_in(strings, {19, *range(21, 27)}):
        values = pc.cast(strings, pa.timestamp("us")).view(pa.int64()).view(wanted)
    else:
        return None
    return values if _least(values.view(pa.int64())) >= _DAY_1 else None


def _least(numbers: Array) -> int:
    found = pc.min(numbers).as_py()
    return 0 if found is None else int(found)


def _lengths_in(strings: Array, allowed: set[int]) -> bool:
    lengths = set(np.unique(np.diff(_offsets(strings))).tolist())
    return lengths <= (allowed | {0} if strings.null_count else allowed)


def _uuid(strings: Array, wanted: Any) -> Array | None:
    if strings.null_count or not _lengths_in(strings, {36}):
        return None
    characters = _data(strings).reshape(-1, 36)
    if not (characters[:, [8, 13, 18, 23]] == 0x2D).all():
        return None
    digits = np.delete(characters, [8, 13, 18, 23], axis=1).tobytes()
    if b"-" in digits or b" " in digits:
        return None
    try:
        data = bytes.fromhex(digits.decode("ascii"))
    except ValueError:
        return None
    if len(data) != 16 * len(strings):
        return None  # there were blanks other than " ", which fromhex passes over
    storage = pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(strings), [None, pa.py_buffer(data)])
    return pa.ExtensionArray.from_storage(wanted, storage)


def _bytea(strings: Array, wanted: Any) -> Array | None:
    found: list[bytes | None] = []
    for text in strings.to_pylist():
        if text is None:
            found.append(None)
            continue
        if text[:2] != "\\x" or not (text[2:].isalnum() or len(text) == 2):
            return None
        try:
            found.append(bytes.fromhex(text[2:]))
        except ValueError:
            return None
    return pa.array(found, wanted)


def _json(strings: Array, wanted: Any) -> Array | None:
    del wanted
    for text in strings.to_pylist():
        if text is not None:
            parse_json(text)
    return strings


_CONVERTERS: dict[Base, Callable[[Array, Any], Array | None]] = {
    Base.BOOLEAN: _boolean,
    Base.SMALLINT: _integer_from_text,
    Base.INTEGER: _integer_from_text,
    Base.BIGINT: _integer_from_text,
    Base.REAL: _float_from_text,
    Base.DOUBLE: _float_from_text,
    Base.DATE: _date,
    Base.TIME: _time,
    Base.TIMESTAMP: _timestamp,
    Base.UUID: _uuid,
    Base.BYTEA: _bytea,
    Base.JSON: _json,
}
