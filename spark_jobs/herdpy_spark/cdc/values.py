"""The feed's columns as messages take them: each value is JSON's, or Avro's, after ``to_pylist``. No I/O.

The lowest module of ``cdc``. ``TEXT`` has dates, times and timestamps as ISO 8601 texts. ``DEBEZIUM`` has
them as Debezium's adaptive precision does: days, microseconds, and text for a timestamp with time zone.
``AVRO`` is as ``DEBEZIUM``, with exact decimals. In all of them uuid, json and interval are texts, ENUMs
their labels, vectors lists of floats, and numeric is a text where it is no decimal of Arrow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute

from herdpy.codec.arrow import arrow_type, changed_lists
from herdpy_spark.feed.table import Dress
from herdpy_spark.texts import interval_texts, time_texts, uuid_texts
from herdpy_sql.catalog import Column
from herdpy_sql.values.label_columns import check_places, labels_of, labels_type

Array = Any
pc: Any = pyarrow.compute

_INFINITE = {"infinity": (0, 0), "-infinity": (0, 1)}  # the greatest integer; the least, or one more


@dataclass(frozen=True, slots=True)
class _Leaves:
    """What values of Arrow types that JSON or Avro lack are: the type, and arrays of it from the codec's."""

    decimals: bool
    date: tuple[pa.DataType, Callable[[Array], Array]]
    time: tuple[pa.DataType, Callable[[Array], Array]]
    timestamp: tuple[pa.DataType, Callable[[Array], Array]]
    timestamptz: tuple[pa.DataType, Callable[[Array], Array]]


def _texts(array: Array, ints: pa.DataType, bits: int, zone: str) -> Array:
    """Dates and timestamps as ISO 8601, infinity as SQL writes it."""
    numbers = array.cast(ints)
    most, least = 2 ** (bits - 1) - 1, -(2 ** (bits - 1))
    infinite = pc.or_(pc.equal(numbers, most), pc.less_equal(numbers, least + 1))
    plain = pa.date32() if bits == 32 else pa.timestamp("us")
    texts = pc.if_else(infinite, pa.scalar(0, ints), numbers).cast(plain).cast(pa.string())
    texts = pc.replace_substring(texts, " ", "T")
    if zone:
        texts = pc.binary_join_element_wise(texts, zone, "")
    words = pc.if_else(pc.greater(numbers, 0), "infinity", "-infinity")
    return pc.if_else(infinite, words, texts)


def _date_texts(array: Array) -> Array:
    return _texts(array, pa.int32(), 32, "")


def _timestamp_texts(array: Array) -> Array:
    return _texts(array, pa.int64(), 64, "")


def timestamptz_texts(array: Array) -> Array:
    """Timestamps with time zone as ISO 8601, in UTC."""
    return _texts(array, pa.int64(), 64, "Z")


def _days(array: Array) -> Array:
    return array.cast(pa.int32())


def _microseconds(array: Array) -> Array:
    return array.cast(pa.int64())


_NUMBERS = (pa.int64(), _microseconds)
_TEXT_LEAVES = _Leaves(
    False,
    (pa.string(), _date_texts),
    (pa.string(), time_texts),
    (pa.string(), _timestamp_texts),
    (pa.string(), timestamptz_texts),
)
_DEBEZIUM_LEAVES = _Leaves(False, (pa.int32(), _days), _NUMBERS, _NUMBERS, (pa.string(), timestamptz_texts))
_AVRO_LEAVES = replace(_DEBEZIUM_LEAVES, decimals=True)


def _leaf(kind: pa.DataType, leaves: _Leaves) -> tuple[pa.DataType, Callable[[Array], Array]] | None:
    """What becomes of values that are no lists; None: they stay."""
    if kind == pa.uuid() or kind == pa.binary(16):  # lists have a UUID's storage
        return pa.string(), lambda array: uuid_texts(array if kind == pa.binary(16) else array.storage)
    if pa.types.is_interval(kind):
        return pa.string(), interval_texts
    if pa.types.is_decimal(kind):
        return None if leaves.decimals else (pa.string(), lambda array: array.cast(pa.string()))
    if pa.types.is_date32(kind):
        return leaves.date
    if pa.types.is_time64(kind):
        return leaves.time
    if pa.types.is_timestamp(kind):
        return leaves.timestamp if kind.tz is None else leaves.timestamptz
    return None


def _type(kind: pa.DataType, leaves: _Leaves) -> pa.DataType:
    if pa.types.is_list(kind):
        return pa.list_(_type(kind.value_type, leaves))
    leaf = _leaf(kind, leaves)
    return kind if leaf is None else leaf[0]


def _converted(array: Array, leaves: _Leaves) -> Array:
    if pa.types.is_list(array.type):
        return changed_lists(array, lambda inner: _converted(inner, leaves))
    leaf = _leaf(array.type, leaves)
    return array if leaf is None else leaf[1](array)


def _dress(leaves: _Leaves) -> Dress:
    def type_of(column: Column) -> pa.DataType:
        if column.type.has_places:
            labels: pa.DataType = labels_type(column.type)
            return labels
        return _type(arrow_type(column.type.field, column.type.precision), leaves)

    def convert(column: Column, array: Array) -> Array:
        if column.type.has_places:
            check_places(array, column.type)
            return labels_of(array, column.type)
        return _converted(array, leaves)

    return Dress(type_of, convert)


TEXT = _dress(_TEXT_LEAVES)
DEBEZIUM = _dress(_DEBEZIUM_LEAVES)
AVRO = _dress(_AVRO_LEAVES)
