"""Functions and operators of arrays: shapes, subscripts, joining, filling; elements; assignment to elements.

Rules and messages are those of PostgreSQL 15, src/backend/utils/adt/array_userfuncs.c and arrayfuncs.c.
Elements are equal as SQL has them: by the bytes of their keys. Assignment is ``SET a[1] = 2`` and ``SET
a[1:2] = '{3,4}'`` (array_set_element and array_set_slice there); but indexes begin at 1, so that nothing can
be put before the first element (0A000).
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

from herdpy.codec.keys import KeyCodec
from herdpy.codec.kinds import Grid, KeyField, parts_of, shaped, sizes_of, stacked
from herdpy_sql.clock import Clock
from herdpy_sql.errors import SqlError
from herdpy_sql.library.routine import Poly, Resolved, add, routine
from herdpy_sql.types import BOOLEAN, INTEGER, TEXT, Base, SqlType, array_of, need_equality
from herdpy_sql.values.arrays import RAGGED, check_dimensions
from herdpy_sql.values.styled import writer

A, E = Poly.ARRAY, Poly.ELEMENT
_SIZES = array_of(Base.INTEGER)
FROM_FIRST, TO_LAST = -(2**31), 2**31 - 1
"""What stands for a bound of a slice that is left out."""


def array_of_arrays(arrays: tuple[Any, ...]) -> tuple[Any, ...]:
    """``ARRAY[a, b]`` of arrays. SqlError 2202E where they differ in their sizes, 54000 beyond 6."""
    if not any(arrays):  # empty ones, or NULLs
        return ()
    check_dimensions(1 + max(len(sizes_of(one)) for one in arrays if one))
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
    check_dimensions(1 + max(len(sizes_of(one)) for one in arrays))
    try:
        return stacked(arrays)
    except ValueError:
        raise SqlError("2202E", "cannot accumulate arrays of different dimensionality") from None


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
    """``array[low:high][low:high]``: dimensions without bounds are taken as they are."""
    sizes = sizes_of(array)
    if len(bounds) > 2 * len(sizes):
        return ()
    spans = _spans(bounds, sizes)
    if not all(spans):
        return ()
    return shaped(_picked(array, spans), [len(span) for span in spans])


def _spans(bounds: tuple[int, ...], sizes: tuple[int, ...]) -> list[range]:
    spans = [
        range(max(low, 1) - 1, min(high, size))
        for low, high, size in zip(bounds[::2], bounds[1::2], sizes, strict=False)
    ]
    return spans + [range(size) for size in sizes[len(spans) :]]


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
    check_dimensions(len(sizes))
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


_TEXTS = array_of(Base.TEXT)
_SEARCHED = "searching for elements in multidimensional arrays is not supported"


@functools.lru_cache(maxsize=256)
def _identity(element: SqlType) -> Callable[[Any], Any]:
    """What is the same for equal elements. SqlError 42883 for a type without equality."""
    need_equality(element)
    field = element.plain.field
    encode = KeyCodec([KeyField(field.kind, element=field.element)]).encode
    return lambda value: None if value is None else encode((value,))


def _of(found: Resolved, place: int = 0) -> Callable[[Any], Any]:
    return _identity(found.args[place].element_type)


@routine("cast", (Poly.ANY,), Poly.ANY, typed=True, clocked=True)
def _cast(found: Resolved, clock: Clock, value: Any) -> Any:
    from herdpy_sql.expr.casts import cast_function

    function = cast_function(found.args[0], found.result, explicit=True)
    if function is None:
        return value
    return function.implementation(clock, value) if function.needs_clock else function.implementation(value)


@routine("@>", (A, A), BOOLEAN, typed=True)
def _contains(found: Resolved, whole: Any, part: Any) -> bool:
    same = _of(found)
    held = {same(one) for one in whole if one is not None}
    return all(one is not None and same(one) in held for one in part)


@routine("<@", (A, A), BOOLEAN, typed=True)
def _contained(found: Resolved, part: Any, whole: Any) -> bool:
    inside: bool = _contains(found, whole, part)
    return inside


@routine("&&", (A, A), BOOLEAN, typed=True)
def _overlaps(found: Resolved, one: Any, other: Any) -> bool:
    same = _of(found)
    held = {same(value) for value in one if value is not None}
    return any(value is not None and same(value) in held for value in other)


@routine("array_position", (A, E), INTEGER, typed=True, strict=False)
def _position(found: Resolved, array: Any, wanted: Any, start: int | None = 1) -> int | None:
    if array is None:
        return None
    if start is None:
        raise SqlError("22004", "initial position must not be null")
    only_one_dimension(array, SqlError("0A000", _SEARCHED))
    same = _of(found)
    key = same(wanted)
    return next((i + 1 for i, one in enumerate(array) if i + 1 >= start and same(one) == key), None)


add("array_position", (A, E, INTEGER), INTEGER, _position, typed=True, strict=False)


@routine("array_positions", (A, E), SqlType(Base.ARRAY, element=Base.INTEGER), typed=True, strict=False)
def _positions(found: Resolved, array: Any, wanted: Any) -> Any:
    if array is None:
        return None
    only_one_dimension(array, SqlError("0A000", _SEARCHED))
    same = _of(found)
    key = same(wanted)
    return tuple([i + 1 for i, one in enumerate(array) if same(one) == key])


@routine("array_remove", (A, E), A, typed=True, strict=False)
def _remove(found: Resolved, array: Any, wanted: Any) -> Any:
    if array is None:
        return None
    only_one_dimension(
        array, SqlError("0A000", "removing elements from multidimensional arrays is not supported")
    )
    same = _of(found)
    key = same(wanted)
    return tuple([one for one in array if same(one) != key])


@routine("array_replace", (A, E, E), A, typed=True, strict=False)
def _replace(found: Resolved, array: Any, old: Any, new: Any) -> Any:
    if array is None:
        return None
    same = _of(found)
    key = same(old)
    made = [new if same(one) == key else one for one in array]
    return Grid(made, array.sizes) if isinstance(array, Grid) else tuple(made)


@routine("array_to_string", (A, TEXT), TEXT, typed=True, clocked=True)
def _to_string(found: Resolved, clock: Clock, array: Any, separator: str, null: str | None = None) -> str:
    write = writer(found.args[0].element_type, clock.style)
    shown = [null if one is None else write(one) for one in array]
    return separator.join([one for one in shown if one is not None])


@routine("array_to_string", (A, TEXT, TEXT), TEXT, typed=True, strict=False, clocked=True)
def _to_string_with(found: Resolved, clock: Clock, array: Any, separator: Any, null: Any) -> str | None:
    return None if array is None or separator is None else _to_string(found, clock, array, separator, null)


def _split(text: str | None, separator: str | None, null: str | None = None) -> Any:
    if text is None:
        return None
    if not text:
        return ()
    parts = list(text) if separator is None else [text] if separator == "" else text.split(separator)
    return tuple([None if null is not None and part == null else part for part in parts])


add("string_to_array", (TEXT, TEXT), _TEXTS, _split, strict=False)
add("string_to_array", (TEXT, TEXT, TEXT), _TEXTS, _split, strict=False)
add("string_to_table", (TEXT, TEXT), TEXT, _split, strict=False, setof=True)
add("string_to_table", (TEXT, TEXT, TEXT), TEXT, _split, strict=False, setof=True)


@routine("enum_range", (E,), A, typed=True, strict=False)
def _enum_range(found: Resolved, value: Any) -> Any:
    enum = found.args[0].enum
    if enum is None:
        raise SqlError("42883", f"function enum_range({found.args[0].name}) does not exist")
    return tuple([place for _, place in enum.labels])


def _enum_end(at: int) -> Callable[..., Any]:
    return lambda found, value: found.args[0].enum.labels[at][1] if found.args[0].enum else None


add("enum_first", (E,), E, _enum_end(0), typed=True, strict=False)
add("enum_last", (E,), E, _enum_end(-1), typed=True, strict=False)


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
    written = [_known(bound) if was else None for was, bound in zip(given, bounds, strict=True)]
    array = array or ()
    if source is None:
        return array
    sizes = sizes_of(array)
    pairs = list(zip(written[::2], written[1::2], strict=True))
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
