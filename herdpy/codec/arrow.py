"""Which Arrow type a kind has, and datums to and from Arrow arrays.

BOOL bool; INT16, INT32, INT64 int16 to int64; FLOAT32, FLOAT64 float, double; DECIMAL64, DECIMAL128
decimal128(18 or 38 unless the precision is given, scale); DECIMAL string in plain notation (Arrow has no
decimal without a fixed scale); TEXT, JSON, JSONB string; BYTES binary; DATE date32; TIME time64[us];
TIMESTAMP timestamp[us]; TIMESTAMPTZ timestamp[us, UTC]; UUID arrow.uuid, which DuckDB reads as its UUID (and
gives back as one if ``arrow_lossless_conversion`` is set); INTERVAL month_day_nano_interval; ARRAY a list of
its element's type (of a UUID's storage, for Arrow makes no lists of extension types), of several dimensions a
list of lists; VECTOR a list of float32. "Storage" is the array under an extension type; other types are their
own.

Arrow has no infinite dates, DuckDB has: infinity is the greatest integer in both, but DuckDB's
-infinity is the least plus one. Arrays made here have DuckDB's, and arrays read here may have it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from herdpy.codec.kinds import (
    EXACT,
    KIND_FACTS,
    MAX_INTERVAL_US,
    VECTOR_ELEMENT,
    ByteForm,
    Datum,
    Field,
    Interval,
    KeyField,
    Kind,
    parts_of,
    quantum,
    sizes_of,
    stacked,
)
from herdpy.codec.plain_arrow import PLAIN_TYPES
from herdpy.codec.rows import array_decoder, array_encoder, read_vector, vector_bytes
from herdpy.imports import lazy_module

Array = Any
NumpyArray = np.ndarray[Any, Any]

# Intervals, arrays and vectors.

INTERVAL = pa.month_day_nano_interval()
_SLOT = np.dtype([("months", "<i4"), ("days", "<i4"), ("us", "<i8")])
LISTS = frozenset(
    kind for kind, facts in KIND_FACTS.items() if facts.form in {ByteForm.ARRAY, ByteForm.VECTOR}
)


def element_of(field: Field | KeyField) -> Field:
    """Return the field of what an Arrow list of an ARRAY or VECTOR is of: arrays, of several dimensions."""
    if is_vector(field):
        return VECTOR_ELEMENT
    assert field.element is not None
    if field.scale > 1:
        return Field(field.kind, field.scale - 1, element=field.element)
    return field.element


def is_vector(field: Field | KeyField) -> bool:
    """Return whether a field's values are vectors."""
    return KIND_FACTS[field.kind].form is ByteForm.VECTOR


def intervals_from_slots(slots: NumpyArray, nulls: NumpyArray | None) -> NumpyArray:
    """Return Arrow's values of the 16-byte slots of images."""
    values = np.ascontiguousarray(slots).view(_SLOT).copy()
    values["us"] *= 1000
    if nulls is not None:
        values[nulls] = np.zeros(1, _SLOT)[0]
    return values


def slots_from_intervals(array: Array) -> NumpyArray:
    """Return the 16-byte slots of an array of intervals; undefined where NULL."""
    values = interval_words(array).copy()
    values["us"] //= 1000
    return values.view("V16")


def interval_words(array: Array) -> NumpyArray:
    """Return the buffer of an array of intervals; its ``us`` are nanoseconds still."""
    if not len(array):
        return np.empty(0, _SLOT)
    return np.frombuffer(array.buffers()[1], _SLOT, len(array), array.offset * 16)


def intervals_to_array(datums: Sequence[Any]) -> Array:
    """Return the Arrow array of intervals; OverflowError if one has more time than Arrow can count."""
    for one in datums:
        if one is not None and abs(one[2]) > MAX_INTERVAL_US:
            raise OverflowError("an interval's time is out of range")
    return pa.array([None if d is None else (d[0], d[1], d[2] * 1000) for d in datums], INTERVAL)


def array_to_intervals(array: Array) -> list[Interval]:
    """Return the intervals of an array, those of NULLs undefined."""
    words = interval_words(array)
    columns = (words["months"].tolist(), words["days"].tolist(), (words["us"] // 1000).tolist())
    return list(map(Interval, *columns))


def lists_to_array(target: Any, values: Array, lengths: Sequence[int | None]) -> Array:
    """Return lists of those lengths (None: NULL) over the values end to end, of type ``target``."""
    ends = np.cumsum([0, *(length or 0 for length in lengths)])
    mask = pa.array([length is None for length in lengths], pa.bool_()) if None in lengths else None
    offsets = pa.array(ends, pa.int32())
    return pa.ListArray.from_arrays(offsets, values.cast(target.value_type), type=target, mask=mask)


def contents_reader(field: Field) -> Callable[[bytes], tuple[Datum, ...]]:
    """Return what reads an image's bytes of an ARRAY or VECTOR."""
    if is_vector(field):
        return read_vector
    assert field.element is not None
    return array_decoder(field.element)


def contents_writer(field: Field) -> Callable[[Any], bytes]:
    """Return what makes them."""
    if is_vector(field):
        return vector_bytes
    assert field.element is not None
    return array_encoder(field.element)


def list_spans(array: Array) -> tuple[list[int], Array]:
    """Return the n + 1 offsets of a list array and the values that they point into."""
    return array.offsets.to_pylist(), array.values


def list_contents(array: Array) -> tuple[Array, Array]:
    """Return the values that lists hold, end to end, and the n + 1 offsets at which each begins in them."""
    first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
    return array.values.slice(first, last - first), pc.subtract(array.offsets, first)


def changed_lists(array: Array, change: Callable[[Array], Array]) -> Array:
    """Return lists of the same lengths, NULLs too, of what ``change`` makes of the values of all of them."""
    values, offsets = list_contents(array)
    mask = array.is_null() if array.null_count else None
    return pa.ListArray.from_arrays(offsets, change(values), mask=mask)


def list_row(offsets: Array, nth: int) -> int:
    """Return which list holds the value with that number of ``list_contents``."""
    return int(np.searchsorted(offsets.to_numpy(), nth, side="right")) - 1


def is_text(kind: Any) -> bool:
    """Return whether values of an Arrow type are strings, in any of their layouts."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def plain_lists(array: Array) -> Array | None:
    """Return lists of any of Arrow's forms in the usual one; None: these are no lists."""
    given, types = array.type, pa.types
    if types.is_fixed_size_list(given) or types.is_large_list(given) or types.is_list_view(given):
        return array.cast(pa.list_(given.value_type))
    return array if types.is_list(given) else None


# All kinds.

Buffer = Any  # numpy's stubs do not know that a pyarrow.Buffer is a buffer, nor the other way round
pc: Any = lazy_module("pyarrow.compute")

#: The numpy type of each kind whose Arrow values are plain numbers in a buffer.
NUMBERS = {
    kind: f"<{'f' if facts.slot in 'fd' else 'i'}{facts.width}"
    for kind, facts in KIND_FACTS.items()
    if facts.form is ByteForm.NUMBER
}


class RaggedError(ValueError):
    """An array has not the dimensions of its field, or the arrays within it differ in theirs."""


def arrow_type(field: Field | KeyField, precision: int | None = None) -> pa.DataType:
    """Return the Arrow type of a field's values.

    ``precision`` is a decimal's number of digits where it is known: 18 for DECIMAL64 and 38 for
    DECIMAL128 otherwise. UUID is the ``arrow.uuid`` extension, which DuckDB takes as its UUID.
    """
    if (plain := PLAIN_TYPES.get(field.kind)) is not None:
        return plain
    facts = KIND_FACTS[field.kind]
    match facts.form:
        case ByteForm.SCALED:
            return pa.decimal128(precision or facts.digits, field.scale)
        case ByteForm.INTERVAL:
            return INTERVAL
        case ByteForm.ARRAY | ByteForm.VECTOR:
            return pa.list_(storage_type(arrow_type(element_of(field), precision)))
        case _:
            return pa.string()


def has_type(array: Array, field: Field | KeyField) -> bool:
    """Return whether an array is of a field's type, whatever a decimal's precision."""
    form = KIND_FACTS[field.kind].form
    if form is ByteForm.SCALED:
        return bool(pa.types.is_decimal128(array.type) and array.type.scale == field.scale)
    if form is ByteForm.ARRAY and pa.types.is_list(array.type):
        wanted: Any = arrow_type(field)
        held: Any = array.type
        while pa.types.is_list(wanted) and pa.types.is_list(held):
            wanted, held = wanted.value_type, held.value_type
        if pa.types.is_decimal128(wanted):
            return bool(pa.types.is_decimal128(held) and held.scale == wanted.scale)
        return bool(held == wanted)
    return bool(array.type == arrow_type(field))


def full_width(field: Field | KeyField, array: Array) -> Array:
    """Return a column in a kept form (decimal64, a dictionary) as ``arrow_type`` says; others as they are."""
    is_short = pa.types.is_decimal64(array.type) or pa.types.is_dictionary(array.type)
    return array.cast(arrow_type(field)) if is_short else array


def storage_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of an array's buffers."""
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def storage(array: Array) -> Array:
    """Return the array under an extension array, or the array itself."""
    return array.storage if isinstance(array.type, pa.BaseExtensionType) else array


def dress(array: Array, kind: pa.DataType) -> Array:
    """Return a storage array as an array of that type."""
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, array)
    return array


def buffer_of(values: NumpyArray) -> Buffer:
    """Return a numpy array's memory as Arrow's buffer."""
    memory: Any = values
    return pa.py_buffer(memory)


def nulls_of(array: Array) -> NumpyArray | None:
    """Return a boolean array that is true where a value is NULL, or None if none is."""
    if not array.null_count:
        return None
    mask: NumpyArray = array.is_null().to_numpy(zero_copy_only=False)
    return mask


def validity(nulls: NumpyArray | None) -> Buffer | None:
    """Return the validity bitmap of an array with those NULLs."""
    if nulls is None or not nulls.any():
        return None
    return buffer_of(np.packbits(~nulls, bitorder="little"))


def numbers_of(array: Array, dtype: str) -> NumpyArray:
    """Return the values in an array's buffer without copying them; what a NULL holds is undefined."""
    width = np.dtype(dtype).itemsize
    if not len(array):
        return np.empty(0, dtype)
    return np.frombuffer(array.buffers()[1], dtype, len(array), array.offset * width)


def raw_of(array: Array, width: int) -> NumpyArray:
    """Return the bytes of each value of an array whose values have as many; undefined where NULL."""
    return numbers_of(storage(array), f"V{width}")


def integers_of(array: Array, kind: Kind) -> NumpyArray:
    """Return the datums of an array of a number kind as numpy has them; undefined where NULL."""
    values = numbers_of(array, NUMBERS[kind])
    least = KIND_FACTS[kind].least
    if least is not None and len(values) and values.min() <= least + 1:
        return np.where(values == least + 1, least, values).astype(values.dtype)
    return values


def hide_negative_infinity(values: NumpyArray, kind: Kind) -> NumpyArray:
    """Return datums as Arrow values: -infinity is one more there, as DuckDB has it."""
    least = KIND_FACTS[kind].least
    if least is not None and len(values) and values.min() == least:
        return np.where(values == least, least + 1, values).astype(values.dtype)
    return values


def spans_of(array: Array) -> tuple[NumpyArray, Buffer]:
    """Return the n + 1 offsets of a string or binary array and the buffer they point into."""
    _, offsets, data = array.buffers()
    if not len(array):
        return np.zeros(1, np.int32), b""
    return np.frombuffer(offsets, np.int32, len(array) + 1, array.offset * 4), data or b""


def datums_to_array(field: Field, datums: Sequence[Datum], precision: int | None = None) -> Array:
    """Return the Arrow array of a column of datums; ArrowInvalid (a ValueError) if one does not fit."""
    facts, target = KIND_FACTS[field.kind], arrow_type(field, precision)
    if facts.form is ByteForm.NUMBER and pa.types.is_temporal(target):
        least = facts.least
        raised: Any = datums
        if least is not None and least in datums:
            raised = [least + 1 if d == least else d for d in datums]
        return pa.array(raised, pa.int32() if facts.width == 4 else pa.int64()).view(target)
    if facts.form is ByteForm.DECIMAL:
        return pa.array([None if d is None else format(d, "f") for d in datums], target)
    if facts.form is ByteForm.INTERVAL:
        return intervals_to_array(datums)
    if field.kind in LISTS:
        lists: Any = datums if is_vector(field) else [_parts(field, one) for one in datums]
        whole = [one for values in lists if values is not None for one in values]
        values = storage(datums_to_array(element_of(field), whole, precision))
        return lists_to_array(target, values, [None if one is None else len(one) for one in lists])
    return dress(pa.array(datums, storage_type(target)), target)


def array_to_datums(field: Field, array: Array) -> list[Datum]:
    """Return the datums of an array of the field's type (see ``conform`` for other types)."""
    if not has_type(array, field):
        raise TypeError(f"{array.type} is not the Arrow type of {field.kind.name}: conform it first")
    kind = field.kind
    match KIND_FACTS[kind].form:
        case ByteForm.NUMBER:
            return _with_nulls(integers_of(array, kind).tolist(), array)
        case ByteForm.INTERVAL:
            return _with_nulls(array_to_intervals(array), array)
        case ByteForm.ARRAY | ByteForm.VECTOR:
            return _lists(field, array)
        case ByteForm.DECIMAL:
            return [None if text is None else Decimal(text) for text in array.to_pylist()]
        case ByteForm.RAW:
            return _with_nulls(raw_of(array, KIND_FACTS[kind].width).tolist(), array)
        case ByteForm.SCALED:
            return _with_nulls(_decimals(array, field.scale), array)
    listed: list[Datum] = array.to_pylist()
    return listed


def _lists(field: Field, array: Array) -> list[Datum]:
    element = element_of(field)
    ends, values = list_spans(array)
    whole = array_to_datums(element, dress(values, arrow_type(element)))
    if not is_vector(field) and field.scale > 1:
        present = array.is_valid().to_pylist()
        return [
            _stacked(whole[a:b], row) if valid else None
            for row, (valid, (a, b)) in enumerate(zip(present, itertools.pairwise(ends), strict=True))
        ]
    lists: list[Datum] = [tuple(whole[a:b]) for a, b in itertools.pairwise(ends)]
    return _with_nulls(lists, array)


def _stacked(parts: list[Any], row: int) -> tuple[Any, ...]:
    """Return the array of arrays of one dimension less."""
    if None in parts:
        raise RaggedError(f"row {row}: NULL where an array must be")
    try:
        return stacked(parts)
    except ValueError as error:
        raise RaggedError(f"row {row}: {error}") from None


def _parts(field: Field, array: Any) -> Any:
    """Return what the outermost list of a field's array holds."""
    if array is None or not array:
        return array
    held = len(sizes_of(array))
    if held != (field.scale or 1):
        raise RaggedError(f"an array of {held} dimensions where {field.scale or 1} are declared")
    return parts_of(array) if held > 1 else array


def _with_nulls(values: list[Any], array: Array) -> list[Datum]:
    nulls = nulls_of(array)
    if nulls is not None:
        for i in np.flatnonzero(nulls).tolist():
            values[i] = None
    return values


def _decimals(array: Array, scale: int) -> list[Decimal]:
    """Return the values of a decimal128 array; those of NULLs are undefined."""
    words = words_of(array)
    multiply: Callable[[int, Decimal], Decimal] = EXACT.multiply
    unit = quantum(scale)
    low = words[:, 0].view(np.int64)
    if bool((words[:, 1].view(np.int64) == low >> 63).all()):
        return [multiply(n, unit) for n in low.tolist()]
    highs, lows = words[:, 1].view(np.int64).tolist(), words[:, 0].tolist()
    return [multiply((h << 64) + n, unit) for h, n in zip(highs, lows, strict=True)]


def words_of(array: Array) -> NumpyArray:
    """Return a decimal128 array's values as (n, 2) unsigned words, the low one first."""
    if not len(array):
        return np.empty((0, 2), "<u8")
    return np.frombuffer(array.buffers()[1], "<u8", len(array) * 2, array.offset * 16).reshape(-1, 2)
