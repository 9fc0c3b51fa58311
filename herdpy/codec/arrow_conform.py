"""Arrow arrays as they come from clients become arrays of a field's own type.

What PostgreSQL assigns without a cast is taken: integers of other widths (range-checked), integers and
decimals as floats, decimals of another scale (rounded half away from zero), dates as timestamps, timestamps
that are midnights as dates, times of other units (nanoseconds rounded to microseconds), every encoding of
strings and bytes. Timestamps with and without a zone become one another in UTC. Whole floats become integers,
as pandas hands over integers with NULLs. A client's buffers are validated before anything looks into them.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa

from herdpy.codec.arrow import (
    LISTS,
    Array,
    array_to_datums,
    arrow_type,
    changed_lists,
    dress,
    element_of,
    has_type,
    is_text,
    is_vector,
    list_contents,
    list_row,
    nulls_of,
    pc,
    plain_lists,
    spans_of,
    storage,
    storage_type,
)
from herdpy.codec.jsonb import canonical_jsonb
from herdpy.codec.kinds import KIND_FACTS, ByteForm, Field, KeyField, Kind, quantum
from herdpy.codec.rows import decimal_text

_ROW = re.compile(r"row (\d+): ")
_PLAIN_DECIMAL = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?$"
ROUNDING = Context(prec=200_000)
MICROSECONDS_A_DAY = 86_400_000_000
_FLOAT_DIGITS = {16: 3, 32: 6, 64: 15}  # what PostgreSQL keeps of a float when it becomes a NUMERIC


class OutOfRangeError(ValueError):
    """A value is of the right sort and too large for the field."""


def conform(array: Any, field: Field | KeyField, precision: int | None = None) -> Array:
    """Return the array (or chunked array) as the field's Arrow type; NULLs stay.

    Raises:
        OutOfRangeError: a number does not fit.
        ValueError: a value is not one of the field, with the first such row (from 0) named; or the Arrow type
            is none that the field can take; or the buffers are not what Arrow's format allows.
    """
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
        array = pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array
    try:
        # Arrow's full check of a time refuses 24:00, which PostgreSQL has.
        kind = _without_times(array.type)
        (array if kind == array.type else array.view(kind)).validate(full=True)
    except pa.ArrowInvalid as error:
        raise ValueError(f"not a valid Arrow array: {error}") from error
    array = _plain(array)
    if field.kind in LISTS and not pa.types.is_null(array.type):
        return _list(array, field, precision)
    target: Any = arrow_type(field, precision)
    if has_type(array, field):
        if pa.types.is_decimal(target) and array.type.precision > target.precision:
            return _cast(array, target)
        return _checked(array, field.kind)
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), target)
    result = _converted(array, field, target)
    if result is None:
        raise ValueError(f"an Arrow column of type {array.type} cannot be stored as {field.kind.name}")
    return _checked(result, field.kind)


def _without_times(kind: Any) -> Any:
    """Return the type of the same buffers with numbers for times of day, within lists too."""
    if pa.types.is_time(kind):
        return pa.int32() if kind.bit_width == 32 else pa.int64()
    return pa.list_(_without_times(kind.value_type)) if pa.types.is_list(kind) else kind


def _plain(array: Array) -> Array:
    """Return the array without the encodings that leave its values the same."""
    while True:
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        elif pa.types.is_run_end_encoded(array.type):
            array = pc.run_end_decode(array)
        elif array.type == pa.bool8():
            array = array.cast(pa.bool_())
        elif isinstance(array.type, pa.BaseExtensionType) and array.type != pa.uuid():
            array = array.storage
        else:
            return array


def _converted(array: Array, field: Field | KeyField, target: pa.DataType) -> Array | None:
    """Return the array cast to the target type, or None if the types have nothing in common."""
    given, types = array.type, pa.types
    if types.is_integer(given) or types.is_floating(given) or types.is_decimal(given):
        return _of_numbers(array, field, target)
    if is_text(given):
        return _of_texts(array, target)
    if types.is_temporal(given):
        return _of_moments(array, target)
    return _of_bytes(array, target)


def _of_numbers(array: Array, field: Field | KeyField, target: pa.DataType) -> Array | None:
    given, types = array.type, pa.types
    if types.is_integer(target):
        return _cast(array, target)
    if types.is_floating(target):
        return _floats(array, target)
    if types.is_decimal(target):
        return _decimals(array, target, field.scale)
    if KIND_FACTS[field.kind].form is ByteForm.DECIMAL:
        text_of = _float_text(given) if types.is_floating(given) else _number_text
        return _by_row(array, pa.string(), text_of)
    return None


def _of_texts(array: Array, target: pa.DataType) -> Array | None:
    if pa.types.is_string(target):
        return _cast(array, target)
    if target == pa.uuid():
        return dress(_by_row(array, pa.binary(16), lambda value: uuid.UUID(value).bytes), target)
    return None


def _of_moments(array: Array, target: pa.DataType) -> Array | None:
    given, types = array.type, pa.types
    if types.is_interval(target) and types.is_duration(given):
        return _durations(array, target)
    if types.is_date(target) and types.is_date(given):
        return array.cast(target, safe=False)
    if types.is_date(target) and types.is_timestamp(given):
        return _days(array, target)
    if types.is_time(target) and types.is_time(given):
        return _microseconds(array, target)
    if types.is_timestamp(target) and (types.is_timestamp(given) or types.is_date(given)):
        return _microseconds(array, target)
    return None


def _of_bytes(array: Array, target: pa.DataType) -> Array | None:
    given, types = array.type, pa.types
    is_fixed = types.is_fixed_size_binary(given)
    if types.is_binary(target) and (is_fixed or types.is_large_binary(given) or types.is_binary_view(given)):
        return _cast(array, target)
    if is_fixed and storage_type(target) == given:
        return dress(array, target)
    return None


def _list(array: Array, field: Field | KeyField, precision: int | None) -> Array:
    """Return lists of any form as those of the field, their values conformed."""
    lists = plain_lists(array)
    if lists is None:
        raise ValueError(f"an Arrow column of type {array.type} cannot be stored as {field.kind.name}")
    if is_vector(field):
        _check_vector(lists, field.scale)
    element = element_of(field)
    found = changed_lists(lists, lambda values: storage(_values_of(lists, values, element, precision)))
    if not is_vector(field) and field.scale > 1:
        array_to_datums(Field(field.kind, field.scale, element=field.element), found)  # looks at the shapes
    return found


def _values_of(lists: Array, values: Array, element: Field, precision: int | None) -> Array:
    """Return the values of lists conformed; errors name the list that holds the value."""
    try:
        return conform(values, element, precision)
    except ValueError as error:
        named = _ROW.match(str(error))
        if named is None:
            raise
        _, offsets = list_contents(lists)
        row = list_row(offsets, int(named[1]))
        raise type(error)(f"row {row}: {str(error)[named.end() :]}") from error


def _check_vector(array: Array, dimensions: int) -> None:
    lengths = pc.fill_null(pc.list_value_length(array), dimensions or 1).to_numpy(zero_copy_only=False)
    wrong = (lengths != dimensions) if dimensions else (lengths < 1)
    _refuse(array, wrong, f"does not have {dimensions} dimensions" if dimensions else "has no dimension")
    if array.values.null_count:
        raise ValueError("a vector cannot contain NULL")


def _durations(array: Array, target: pa.DataType) -> Array:
    """Return durations as intervals of their microseconds."""
    us = array.cast(pa.duration("us")).cast(pa.int64()).to_pylist()
    return pa.array([None if one is None else (0, 0, one * 1000) for one in us], target)


def _cast(array: Array, target: pa.DataType) -> Array:
    """Return the array cast to the type, exactly; ValueError names the first row that does not fit."""
    try:
        return array.cast(target)
    except pa.ArrowInvalid as error:
        row = _first_refused(array, target)
        raise OutOfRangeError(f"row {row}: {_shown(array, row)} does not fit {target}") from error


def _first_refused(array: Array, target: pa.DataType) -> int:
    """Return the first row that cannot be cast, by halving."""
    low, high = 0, len(array)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            array.slice(low, middle - low).cast(target)
            low = middle
        except pa.ArrowInvalid:
            high = middle
    return low


def _shown(array: Array, row: int) -> str:
    """Return a value as messages show it; some times are beyond what Python's objects hold."""
    try:
        return repr(array[row].as_py())
    except (OverflowError, ValueError):
        return f"the {array.type}"


def _refuse(array: Array, wrong: Any, why: str, kind: type[ValueError] = ValueError) -> None:
    """Raise an error naming the first row where ``wrong`` (a numpy array of booleans) is true."""
    if bool(wrong.any()):
        row = int(np.argmax(wrong))
        raise kind(f"row {row}: {_shown(array, row)} {why}")


def _floats(array: Array, target: pa.DataType) -> Array:
    result = array.cast(target, safe=False)
    if pa.types.is_floating(array.type):
        before, after = (pc.fill_null(a, 0.0).to_numpy(zero_copy_only=False) for a in (array, result))
        _refuse(array, np.isinf(after) & ~np.isinf(before), f"does not fit {target}", OutOfRangeError)
    return result


def _decimals(array: Array, target: Any, scale: int) -> Array:
    """Return numbers as decimals of the scale, rounded half away from zero."""
    given = array.type
    if pa.types.is_floating(given):
        unit, text_of = quantum(scale), _float_text(given)
        text = _by_row(array, pa.string(), lambda value: str(_rounded(Decimal(text_of(value)), unit)))
        return _cast(text, target)
    if pa.types.is_integer(given):
        array = array.cast(pa.decimal256(20, 0))
    elif given.scale > scale:
        wide = array.cast(pa.decimal256(76, given.scale))
        array = pc.round(wide, ndigits=scale, round_mode="half_towards_infinity")
    return _cast(array, target)


def _rounded(value: Decimal, unit: Decimal) -> Decimal:
    return value.quantize(unit, ROUND_HALF_UP, ROUNDING)


def _days(array: Array, target: pa.DataType) -> Array:
    """Return timestamps that are midnights as dates."""
    a_day = 86_400 * {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}[array.type.unit]
    counts = pc.fill_null(array.view(pa.int64()), 0).to_numpy(zero_copy_only=False)
    _refuse(array, counts % a_day != 0, "has a time of day, which no date has")
    return array.cast(target, safe=False)


def _microseconds(array: Array, target: pa.DataType) -> Array:
    """Return times, timestamps or dates as microseconds: the nearest, and in UTC where there is a zone."""
    given = array.type
    if pa.types.is_date(given):
        array, given = array.cast(pa.timestamp("s"), safe=False), pa.timestamp("s")
    counts = array.view(pa.int32() if given.bit_width == 32 else pa.int64()).cast(pa.int64())
    if given.unit == "ns":
        kept = pc.fill_null(counts, 0).to_numpy(zero_copy_only=False)
        rounded = kept // 1000 + (kept % 1000 >= 500)
        counts = pa.array(rounded, pa.int64(), mask=nulls_of(array))
    elif given.unit != "us":
        factor = 1_000_000 if given.unit == "s" else 1000
        kept = pc.fill_null(counts, 0).to_numpy(zero_copy_only=False)
        _refuse(array, np.abs(kept) > (2**63 - 1) // factor, f"does not fit {target}", OutOfRangeError)
        counts = pc.multiply(counts, factor)
    return counts.view(target)


def _checked(array: Array, kind: Kind) -> Array:
    """Return the array if its values are ones that the kind may have; DECIMAL in plain notation."""
    match KIND_FACTS[kind].form:
        case ByteForm.TEXT:
            offsets, data = spans_of(array)
            content = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]
            if len(content) and not content.all():
                zero = pc.match_substring(array, "\0")
                wrong = pc.fill_null(zero, False).to_numpy(zero_copy_only=False)
                _refuse(array, wrong, "contains the character U+0000")
        case ByteForm.JSONB:
            return _by_row(array, pa.string(), canonical_jsonb, ValueError)
        case ByteForm.NUMBER if pa.types.is_time(array.type):
            counts = pc.fill_null(array.view(pa.int64()), 0).to_numpy(zero_copy_only=False)
            _refuse(array, (counts < 0) | (counts > MICROSECONDS_A_DAY), "is not a time of day")
        case ByteForm.DECIMAL:
            plain = pc.fill_null(pc.match_substring_regex(array, _PLAIN_DECIMAL), True)
            if not pc.all(plain, min_count=0).as_py():
                return _by_row(array, pa.string(), lambda text: decimal_text(Decimal(text)).decode())
    return array


def _by_row(
    array: Array,
    target: pa.DataType,
    convert: Callable[[Any], Any],
    kind: type[ValueError] = OutOfRangeError,
) -> Array:
    """Return an array of each value converted; ValueError names the row that cannot be."""
    result: list[Any] = []
    for row, value in enumerate(array.to_pylist()):
        try:
            result.append(None if value is None else convert(value))
        except (ValueError, InvalidOperation) as error:
            raise kind(f"row {row}: {value!r} does not fit: {error}") from error
    return pa.array(result, target)


def _number_text(value: Decimal | int) -> str:
    return format(value, "f") if isinstance(value, Decimal) else str(value)


def _float_text(given: Any) -> Callable[[float], str]:
    """Return a function from a float of that type to the digits that PostgreSQL keeps of it."""
    form = f".{_FLOAT_DIGITS[given.bit_width]}g"

    def convert(value: float) -> str:
        return decimal_text(Decimal(format(value, form))).decode()

    return convert
