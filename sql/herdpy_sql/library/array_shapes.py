"""Functions and operators that look at the shape of arrays, or make one: sizes, subscripts, joining, filling.

Rules and messages are those of PostgreSQL 15, src/backend/utils/adt/array_userfuncs.c and arrayfuncs.c.
"""

from __future__ import annotations

import math
from typing import Any

from herdpy.codec.grids import MAX_DIMENSIONS, parts_of, shaped, sizes_of, stacked
from herdpy_sql.errors import SqlError
from herdpy_sql.library.routine import Poly, add, routine
from herdpy_sql.types import BOOLEAN, INTEGER, TEXT, Base, array_of
from herdpy_sql.values.arrays import RAGGED

A, E = Poly.ARRAY, Poly.ELEMENT
_SIZES = array_of(Base.INTEGER)
FROM_FIRST, TO_LAST = -(2**31), 2**31 - 1
"""What stands for a bound of a slice that is left out."""


def array_of_arrays(arrays: tuple[Any, ...]) -> tuple[Any, ...]:
    """``ARRAY[a, b]`` of arrays. SqlError 2202E where they differ in their sizes, 54000 beyond 6."""
    if not any(arrays):  # empty ones, or NULLs
        return ()
    _check_dimensions(1 + max(len(sizes_of(one)) for one in arrays if one))
    try:
        return stacked([one or () for one in arrays])
    except ValueError:
        raise SqlError("2202E", RAGGED) from None


def gathered(arrays: tuple[Any, ...]) -> tuple[Any, ...]:
    """``array_agg`` of arrays. SqlError 22004 and 2202E for those that do not go together."""
    if None in arrays:
        raise SqlError("22004", "cannot accumulate null arrays")
    if () in arrays:
        raise SqlError("2202E", "cannot accumulate empty arrays")
    _check_dimensions(1 + max(len(sizes_of(one)) for one in arrays))
    try:
        return stacked(arrays)
    except ValueError:
        raise SqlError("2202E", "cannot accumulate arrays of different dimensionality") from None


def _check_dimensions(count: int) -> None:
    if count > MAX_DIMENSIONS:
        raise SqlError(
            "54000", f"number of array dimensions ({count}) exceeds the maximum allowed ({MAX_DIMENSIONS})"
        )


add("array_stacked", (A,), A, lambda *arrays: array_of_arrays(arrays), rest=A, strict=False)
add("array_gathered", (A,), A, gathered)


def only_one_dimension(array: tuple[Any, ...], error: SqlError) -> None:
    """Raise ``error`` for an array of several."""
    if len(sizes_of(array)) > 1:
        raise error


def _append(array: Any, one: Any) -> Any:
    only_one_dimension(array or (), SqlError("22000", "argument must be empty or one-dimensional array"))
    return (*(array or ()), one)


def _prepend(one: Any, array: Any) -> Any:
    only_one_dimension(array or (), SqlError("22000", "argument must be empty or one-dimensional array"))
    return (one, *(array or ()))


def _cat(one: Any, other: Any) -> Any:
    if not one or not other:  # NULL or empty
        return other if one is None or (other is not None and not one) else one
    first, second = sizes_of(one), sizes_of(other)
    if len(first) == len(second):
        sizes, inner = (first[0] + second[0], *first[1:]), first[1:] == second[1:]
    elif len(first) == len(second) - 1:
        sizes, inner = (second[0] + 1, *second[1:]), first == second[1:]
    elif len(first) == len(second) + 1:
        sizes, inner = (first[0] + 1, *first[1:]), second == first[1:]
    else:
        detail = f"Arrays of {len(first)} and {len(second)} dimensions are not compatible for concatenation."
        raise SqlError("2202E", "cannot concatenate incompatible arrays", detail=detail)
    if not inner:
        what = "element" if len(first) == len(second) else "array"
        detail = f"Arrays with differing {what} dimensions are not compatible for concatenation."
        raise SqlError("2202E", "cannot concatenate incompatible arrays", detail=detail)
    return shaped((*one, *other), sizes)


for _name, _args, _call in (
    ("array_append", (A, E), _append),
    ("array_prepend", (E, A), _prepend),
    ("array_cat", (A, A), _cat),
    ("||", (A, A), _cat),
    ("||", (A, E), _append),
    ("||", (E, A), _prepend),
):
    add(_name, _args, A, _call, strict=False)


def _size(array: Any, nth: int) -> int | None:
    sizes = sizes_of(array)
    return sizes[nth - 1] if 0 < nth <= len(sizes) else None


add("cardinality", (A,), INTEGER, len)
add("array_ndims", (A,), INTEGER, lambda array: len(sizes_of(array)) or None)
add("array_length", (A, INTEGER), INTEGER, _size)
add("array_upper", (A, INTEGER), INTEGER, _size)
add("array_lower", (A, INTEGER), INTEGER, lambda array, nth: None if _size(array, nth) is None else 1)
add("array_dims", (A,), TEXT, lambda array: "".join(f"[1:{size}]" for size in sizes_of(array)) or None)


def _subscript(array: Any, *indexes: int) -> Any:
    sizes = sizes_of(array)
    if len(indexes) != len(sizes) or not all(0 < i <= n for i, n in zip(indexes, sizes, strict=True)):
        return None
    place = 0
    for index, size in zip(indexes, sizes, strict=True):
        place = place * size + index - 1
    return array[place]


def _slice(array: Any, *bounds: int) -> Any:
    """``array[low:high][low:high]``: dimensions that are not told are taken as they are."""
    sizes = sizes_of(array)
    if len(bounds) > 2 * len(sizes):
        return ()
    spans = _spans(bounds, sizes)
    if not all(spans):
        return ()
    return shaped(_picked(array, spans), [len(span) for span in spans])


def _spans(bounds: tuple[int, ...], sizes: tuple[int, ...]) -> list[range]:
    told = [
        range(max(low, 1) - 1, min(high, size))
        for low, high, size in zip(bounds[::2], bounds[1::2], sizes, strict=False)
    ]
    return told + [range(size) for size in sizes[len(told) :]]


def _picked(array: tuple[Any, ...], spans: list[range]) -> list[Any]:
    span, *inner = spans
    if not inner:
        return list(array[span.start : span.stop])
    parts = parts_of(array)
    return [one for at in span for one in _picked(parts[at], inner)]


add("subscript", (A, INTEGER), E, _subscript, rest=INTEGER)
add("slice", (A, INTEGER, INTEGER), A, _slice, rest=INTEGER)


@routine("array_fill", (E, _SIZES, _SIZES), A, strict=False)
def _fill(value: Any, sizes: Any, firsts: Any = (1,)) -> Any:
    if sizes is None or firsts is None or None in sizes or None in firsts:
        raise SqlError("22004", "dimension array or low bound array cannot be null")
    if len(sizes_of(sizes)) > 1 or len(sizes_of(firsts)) > 1:
        raise SqlError(
            "2202E", "wrong number of array subscripts", detail="Dimension array must be one dimensional."
        )
    _check_dimensions(len(sizes))
    if firsts != (1,) and len(firsts) != len(sizes):
        detail = "Low bound array has different size than dimensions array."
        raise SqlError("2202E", "wrong number of array subscripts", detail=detail)
    if set(firsts) - {1}:
        raise SqlError("0A000", "arrays whose indexes do not begin at 1 are not supported")
    if any(size < 0 for size in sizes) or math.prod(sizes) > 2**27:
        raise SqlError("54000", f"array size exceeds the maximum allowed ({2**27 - 1})")
    return shaped((value,) * math.prod(sizes), sizes) if sizes else ()


add("array_fill", (E, _SIZES), A, _fill, strict=False)


@routine("trim_array", (A, INTEGER), A)
def _trim(array: Any, count: int) -> Any:
    size = (sizes_of(array) or (0,))[0]
    if not 0 <= count <= size:
        raise SqlError("2202E", f"number of elements to trim must be between 0 and {size}")
    return _slice(array, 1, size - count)


def _subscripts(array: Any, nth: int, backwards: bool = False) -> tuple[int, ...]:
    found = range(1, (_size(array, nth) or 0) + 1)
    return tuple(found[::-1] if backwards else found)


add("generate_subscripts", (A, INTEGER), INTEGER, _subscripts, setof=True)
add("generate_subscripts", (A, INTEGER, BOOLEAN), INTEGER, _subscripts, setof=True)
