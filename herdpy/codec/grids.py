"""The datum of an array of several dimensions: its elements in order, and how many each dimension has.

An array of one dimension is a plain tuple, and so is one without elements, which has no dimensions. A
:class:`Grid` is a tuple of all elements too, the last dimension's fastest, so that whoever only looks at
elements need not know. What is made of a Grid by slicing or adding is a plain tuple: shape it again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

MAX_DIMENSIONS = 6


class Grid(tuple[Any, ...]):
    """The elements of an array of two dimensions or more.

    Attributes:
        sizes: how many elements each dimension has, the outermost first; none is 0.
    """

    sizes: tuple[int, ...]

    def __new__(cls, elements: Iterable[Any], sizes: Sequence[int]) -> Grid:
        """ValueError where the sizes are not those of that many elements."""
        made = super().__new__(cls, elements)
        made.sizes = tuple(sizes)
        if not 2 <= len(made.sizes) <= MAX_DIMENSIONS or math.prod(made.sizes) != len(made) or not made:
            raise ValueError(f"{len(made)} elements are no array of {made.sizes}")
        return made

    def __getnewargs__(self) -> tuple[Any, ...]:  # for pickle
        return tuple(self), self.sizes

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Grid) and self.sizes == other.sizes and super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self.sizes, tuple(self)))

    def __repr__(self) -> str:
        return f"Grid({tuple(self)!r}, {self.sizes})"


def shaped(elements: Iterable[Any], sizes: Sequence[int]) -> tuple[Any, ...]:
    """The datum of an array of those sizes: () where one of them is 0, a plain tuple of one dimension."""
    if 0 in sizes or not sizes:
        return ()
    return tuple(elements) if len(sizes) == 1 else Grid(elements, sizes)


def sizes_of(array: tuple[Any, ...]) -> tuple[int, ...]:
    """How many elements each dimension of an array has; () of one without elements."""
    if isinstance(array, Grid):
        return array.sizes
    return (len(array),) if array else ()


def parts_of(array: tuple[Any, ...]) -> list[Any]:
    """What the outermost dimension holds: elements, or arrays of one dimension less."""
    if not isinstance(array, Grid):
        return list(array)
    flat, inner = tuple(array), array.sizes[1:]
    width = math.prod(inner)
    return [shaped(flat[at : at + width], inner) for at in range(0, len(flat), width)]


def stacked(parts: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    """The array whose outermost dimension holds these; ValueError where they differ in their sizes."""
    if not parts:
        return ()
    if len(sizes_of(parts[0])) >= MAX_DIMENSIONS:
        raise ValueError(f"an array has at most {MAX_DIMENSIONS} dimensions")
    sizes = sizes_of(parts[0])
    if any(sizes_of(part) != sizes for part in parts):
        raise ValueError("the arrays in an array differ in their dimensions")
    return shaped([one for part in parts for one in part], (len(parts), *sizes)) if sizes else ()


def nested(array: tuple[Any, ...], convert: Callable[[Any], Any] | None = None) -> list[Any]:
    """Lists within lists of the elements, each of them converted."""
    if isinstance(array, Grid):
        return [nested(part, convert) for part in parts_of(array)]
    return list(array) if convert is None else [convert(one) for one in array]


def mapped(array: tuple[Any, ...], convert: Callable[[Any], Any]) -> tuple[Any, ...]:
    """The array of the same shape with each element converted; NULLs stay."""
    made = [None if one is None else convert(one) for one in array]
    return Grid(made, array.sizes) if isinstance(array, Grid) else tuple(made)


def of_lists(lists: Sequence[Any], convert: Callable[[Any], Any]) -> tuple[Any, ...]:
    """The array of lists (or tuples) within lists, each element converted; NULLs stay.

    ValueError where lists of one depth differ in their lengths, or elements stand beside lists.
    """
    if not any(type(one) in (list, tuple) for one in lists):
        return tuple([None if one is None else convert(one) for one in lists])
    if not all(type(one) in (list, tuple) for one in lists):
        raise ValueError("the arrays in an array differ in their dimensions")
    return stacked([of_lists(one, convert) for one in lists])
