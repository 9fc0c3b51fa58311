"""Assignment to elements and slices of arrays: ``SET a[1] = 2``, ``SET a[1:2] = '{3,4}'``.

Rules and messages are those of PostgreSQL 15, src/backend/utils/adt/arrayfuncs.c, array_set_element and
array_set_slice; but indexes begin at 1, so that nothing can be put before the first element (0A000).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from herdpy.codec.grids import shaped, sizes_of
from herdpy_sql.errors import SqlError

MOST_ELEMENTS = 2**24 - 1
"""How many elements an array may have by assignment: a short statement is not to take all memory."""

_NO_NULL = "array subscript in assignment must not be null"
_BEFORE_FIRST = "arrays whose indexes do not begin at 1 are not supported"


def put_element(array: tuple[Any, ...] | None, value: Any, *indexes: int | None) -> tuple[Any, ...]:
    """``array`` with ``value`` at ``indexes``; one dimension grows, with NULLs between.

    SqlError 22004, 2202E, 54000, and 0A000 for what would lie before the first element.
    """
    places = [_known(index) for index in indexes]
    array = array or ()
    sizes = sizes_of(array) or (0,) * len(places)
    if len(sizes) != len(places):
        raise SqlError("2202E", "wrong number of array subscripts")
    if not array and len(places) > 1:
        return shaped((value,), _first_sizes([(place, place) for place in places]))
    if len(places) == 1:
        (place,) = places
        return _spread(array, place, place, (value,))
    _check_inside([(place, place) for place in places], sizes)
    return _over(array, sizes, [range(place - 1, place) for place in places], (value,))


def put_slice(
    given: Sequence[bool], array: tuple[Any, ...] | None, source: tuple[Any, ...] | None, *bounds: int | None
) -> tuple[Any, ...]:
    """``array`` with the elements of ``source`` in the slice whose bounds are low, high, low, high, ...

    ``given`` says which of them were written. A source that is NULL changes nothing. Errors as above.
    """
    told = [_known(bound) if was else None for was, bound in zip(given, bounds, strict=True)]
    array = array or ()
    if source is None:
        return array
    sizes = sizes_of(array)
    pairs = list(zip(told[::2], told[1::2], strict=True))
    if not array:
        return _first(pairs, source)
    if len(sizes) < len(pairs):
        raise SqlError("2202E", "wrong number of array subscripts")
    pairs += [(None, None)] * (len(sizes) - len(pairs))
    spans = [
        (1 if low is None else low, size if high is None else high)
        for (low, high), size in zip(pairs, sizes, strict=True)
    ]
    for low, high in spans:
        if low > high:
            raise SqlError("2202E", "upper bound cannot be less than lower bound")
    if len(spans) > 1:
        _check_inside(spans, sizes)
    _check_enough(source, math.prod(high - low + 1 for low, high in spans))
    if len(spans) == 1:
        return _spread(array, *spans[0], source)
    return _over(array, sizes, [range(low - 1, high) for low, high in spans], source)


def _known(index: int | None) -> int:
    if index is None:
        raise SqlError("22004", _NO_NULL)
    return index


def _first(pairs: list[tuple[int | None, int | None]], source: tuple[Any, ...]) -> tuple[Any, ...]:
    """What a slice makes of an array without elements."""
    spans = [(low, high) for low, high in pairs if low is not None and high is not None]
    if len(spans) < len(pairs):
        detail = (
            "When assigning to a slice of an empty array value, slice boundaries must be fully specified."
        )
        raise SqlError("2202E", "array slice subscript must provide both boundaries", detail=detail)
    count = math.prod(high - low + 1 for low, high in spans)
    if any(high < low - 1 for low, high in spans) or count > MOST_ELEMENTS:
        raise _too_many()
    _check_enough(source, count)
    return shaped(tuple(source)[:count], _first_sizes(spans) if count else ())


def _first_sizes(spans: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    if any(low != 1 for low, _ in spans):
        raise SqlError("0A000", _BEFORE_FIRST)
    return tuple([high for _, high in spans])


def _spread(array: tuple[Any, ...], low: int, high: int, source: tuple[Any, ...]) -> tuple[Any, ...]:
    """One dimension, which grows where it must; an empty one would begin at ``low``."""
    if low < 1 or (not array and low > 1):
        raise SqlError("0A000", _BEFORE_FIRST)
    if high > MOST_ELEMENTS:
        raise _too_many()
    between = (None,) * (low - 1 - len(array))
    return (*array[: low - 1], *between, *source[: high - low + 1], *array[high:])


def _over(
    array: tuple[Any, ...], sizes: tuple[int, ...], spans: list[range], source: tuple[Any, ...]
) -> tuple[Any, ...]:
    flat = list(array)
    for indexes, one in zip(itertools.product(*spans), source, strict=False):
        place = 0
        for index, size in zip(indexes, sizes, strict=True):
            place = place * size + index
        flat[place] = one
    return shaped(flat, sizes)


def _check_inside(spans: Sequence[tuple[int, int]], sizes: tuple[int, ...]) -> None:
    if any(low < 1 or high > size for (low, high), size in zip(spans, sizes, strict=True)):
        raise SqlError("2202E", "array subscript out of range")


def _check_enough(source: tuple[Any, ...], count: int) -> None:
    if len(source) < count:
        raise SqlError("2202E", "source array too small")


def _too_many() -> SqlError:
    return SqlError("54000", f"array size exceeds the maximum allowed ({MOST_ELEMENTS})")
