"""Figures of how the packages are built, each with a limit, which is lowered when the figure falls.

A figure above its limit fails, and so does one that has fallen by more than the room that the table leaves.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from tests.house import structure
from tests.house.structure import Module


class Limit(NamedTuple):
    """What a figure may be at most, and how far it may be below that before the limit must be lowered."""

    most: int
    room: int


LIMITS = {
    "class names in several modules": Limit(1, 3),
    "modules in import knots": Limit(0, 3),
    "classes in the longest chain": Limit(4, 0),
    "private names of other files": Limit(1, 3),
    "functions over 70 lines": Limit(0, 1),
}


@pytest.fixture(scope="module")
def found() -> dict[str, list[str]]:
    """What each figure counts."""
    return structure.figures()


@pytest.mark.parametrize("figure", LIMITS)
def test_a_figure_only_falls(figure: str, found: dict[str, list[str]]) -> None:
    limit, cases = LIMITS[figure], found[figure]
    count = len(cases)
    assert count <= limit.most, f"{count} {figure}, {limit.most} at most:\n" + "\n".join(cases)
    assert count >= limit.most - limit.room, f"only {count} {figure}: set the limit in {__name__} to {count}"


def test_the_counting_code_counts() -> None:
    inner = Module("a.b", "a")
    inner.imports, inner.defined = [("a", "c", "c")], {"_x"}
    inner.classes = {"One": [], "Two": ["One"]}
    outer = Module("a.c", "a")
    outer.imports, outer.taken = [("a.b", "Two", "Two")], [("_x", 3)]
    outer.classes = {"One": ["Two"]}
    apart = Module("a.d", "a")
    apart.imports, apart.functions = [("a.b", "", "a.b")], [("long", 1, 71), ("short", 80, 70)]
    modules = {one.name: one for one in (inner, outer, apart)}
    assert structure.repeated_classes(modules) == ["One: a.b, a.c"]
    assert structure.import_knots(modules) == [["a.b", "a.c"]]
    assert structure.class_chains(modules) == {"a.b.One": 1, "a.b.Two": 2, "a.c.One": 3}
    assert structure.foreign_privates(modules) == ["a.c:3: _x"]
    assert structure.long_functions(modules, 70) == ["a.d:1: long has 71 lines"]
