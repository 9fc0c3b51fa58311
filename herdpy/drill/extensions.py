"""Drills, workloads and faults by name: HerdPy's own, and those that other packages bring.

Layer: the bottom of herdpy.drill, beside history. A package names what it brings in an entry point of the
registry's group. What stands in no entry point is named in full, as ``module:name``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import Protocol, TypeVar


class Named(Protocol):
    """What has a name to be found by: a drill, a class of workloads, a class of faults."""

    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=Named)


class ExtensionError(LookupError):
    """There is nothing of that name, or what has it is not what the registry holds; the text says which."""


class DrillRegistry(dict[str, T]):
    """The objects of one kind by name. An own name cannot be taken by an extension.

    ``registry[name]`` imports an extension when it is first needed, and raises ExtensionError where there is
    none of that name. Iteration gives HerdPy's own, and the extensions that were needed so far.
    """

    def __init__(self, noun: str, is_one: Callable[[object], bool], own: Iterable[T]) -> None:
        """noun: "workload", for messages; its plural ends the name of the group of entry points."""
        super().__init__((one.name, one) for one in own)
        self.group = f"herdpy.drill.{noun}s"
        self._noun = noun
        self._is_one = is_one

    def __missing__(self, name: str) -> T:
        if ":" in name:
            found = self._checked(name, lambda: _imported(name))
            return self.setdefault(found.name, found)
        if (extension := self.extension(name)) is None:
            raise ExtensionError(f"there is no {self._noun} {name}")
        return extension

    def extension(self, name: str) -> T | None:
        """The one of that name, own or by entry point; None: there is none. No full name is imported.

        Raises ExtensionError when the entry point names something else.
        """
        if name in self:
            return self[name]
        for point in self._points():
            if point.name == name:
                found = self[name] = self._checked(point.value, point.load)
                return found
        return None

    def extensions(self) -> list[str]:
        """The names that entry points have and HerdPy has not, sorted."""
        return sorted({point.name for point in self._points()} - self.keys())

    def _points(self) -> Iterable[EntryPoint]:
        return entry_points(group=self.group)

    def _checked(self, origin: str, load: Callable[[], object]) -> T:
        try:
            found = load()
        except (ImportError, AttributeError, ValueError) as error:
            raise ExtensionError(f"the {self._noun} {origin} cannot be imported: {error}") from error
        if not self._is_one(found):
            raise ExtensionError(f"{origin} is no {self._noun}")
        return found  # type: ignore[return-value] # is_one has looked


def _imported(path: str) -> object:
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)
