"""Arrow arrays of strings, as the files of types read and write whole columns of SQL's text.

Beside ``form``. pyarrow and numpy are imported when the first column comes: most users of types have none.
"""

from __future__ import annotations

from typing import Any

from herdpy.imports import lazy_module

pa: Any = lazy_module("pyarrow")
pc: Any = lazy_module("pyarrow.compute")
np: Any = lazy_module("numpy")

Array = Any  # pyarrow's stubs know arrays by element type, and these functions take any


def as_held(array: Array, *_more: Any) -> Array:
    """The array itself: its values are SQL's text."""
    return array


def cast_to_text(array: Array, *_more: Any) -> Array:
    """The text that Arrow writes."""
    return pc.cast(array, pa.string())


def made_by_arrow(values: Any, target: Any) -> Array:
    """The array that Arrow makes of Python's objects. ValueError where one does not fit."""
    return pa.array(values, target)


def data_of(strings: Array) -> Any:
    """The bytes of all the strings, as numpy has them."""
    offsets = offsets_of(strings)
    data = strings.buffers()[2]
    if data is None or not len(strings):
        return np.empty(0, np.uint8)
    return np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]


def offsets_of(strings: Array) -> Any:
    """Where each string begins, and where the last one ends."""
    if not len(strings):
        return np.zeros(1, np.int32)
    return np.frombuffer(strings.buffers()[1], np.int32, len(strings) + 1, strings.offset * 4)


def has_letters(strings: Array) -> bool:
    """Whether there is a character after "9"."""
    data = data_of(strings)
    return bool(len(data)) and bool((data > 0x39).any())


def lengths_in(strings: Array, allowed: set[int]) -> bool:
    """Whether each string has one of these lengths, in bytes."""
    lengths = set(np.unique(np.diff(offsets_of(strings))).tolist())
    return lengths <= (allowed | {0} if strings.null_count else allowed)


def is_within(numbers: Array, least: int, most: int) -> bool:
    """Whether each number of an Arrow array is between these."""
    ends = pc.min_max(numbers).as_py()
    return ends["min"] is None or (ends["min"] >= least and ends["max"] <= most)


def is_from(numbers: Array, least: int) -> bool:
    """Whether no number of an Arrow array is below ``least``."""
    found = pc.min(numbers).as_py()
    return found is None or found >= least
