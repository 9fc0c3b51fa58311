"""Columns of values to columns of PostgreSQL's text, all at once where Arrow writes as PostgreSQL does.

Under ``columns`` and COPY's lines. The inverse of ``copy.columns_in``; what Arrow writes otherwise goes value
by value.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute

from herdpy.codec.arrow import array_to_datums
from herdpy_server.wire.formats import encoder
from herdpy_sql.types import Base, SqlType

Array = Any
pc: Any = pyarrow.compute

_STRINGS = frozenset({Base.TEXT, Base.VARCHAR, Base.JSON, Base.JSONB, Base.UNKNOWN})
_DAYS = (-719_162, 2_932_896)  # years 1 to 9999
# Below these Arrow and PostgreSQL write no exponent.
_FLOATS = {Base.REAL: 1e6, Base.DOUBLE: 1e10}
_US = (-62_135_596_800_000_000, 253_402_300_799_999_999)


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
