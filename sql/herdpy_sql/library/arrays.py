"""Functions and operators of arrays' elements. These are equal as SQL has them: by the bytes of their keys.

What looks at shapes is in ``array_shapes``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from herdpy.codec.grids import Grid
from herdpy.codec.keys import KeyCodec
from herdpy.codec.kinds import KeyField
from herdpy_sql.errors import SqlError
from herdpy_sql.library.array_shapes import only_one_dimension
from herdpy_sql.library.routine import Poly, Resolved, add, routine
from herdpy_sql.storage import Clock
from herdpy_sql.types import BOOLEAN, INTEGER, TEXT, Base, SqlType, array_of
from herdpy_sql.values import to_text

A, E = Poly.ARRAY, Poly.ELEMENT
_TEXTS = array_of(Base.TEXT)
_SEARCHED = "searching for elements in multidimensional arrays is not supported"


@functools.lru_cache(maxsize=256)
def _identity(element: SqlType) -> Callable[[Any], Any]:
    """What is the same for equal elements. SqlError 42883 for a type without equality."""
    if element.base is Base.JSON:
        raise SqlError("42883", "could not identify an equality operator for type json")
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


@routine("array_to_string", (A, TEXT), TEXT, typed=True)
def _to_string(found: Resolved, array: Any, separator: str, null: str | None = None) -> str:
    write = to_text(found.args[0].element_type)
    shown = [null if one is None else write(one) for one in array]
    return separator.join([one for one in shown if one is not None])


@routine("array_to_string", (A, TEXT, TEXT), TEXT, typed=True, strict=False)
def _to_string_with(found: Resolved, array: Any, separator: Any, null: Any) -> str | None:
    return None if array is None or separator is None else _to_string(found, array, separator, null)


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
