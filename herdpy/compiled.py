"""Whether the hot modules run compiled or from their sources; decided once, when ``herdpy`` is imported.

Below every room. ``make compiled``, and wheels for a platform, put a binary beside the source of each hot
module; Python takes binaries first. It is all of them or none: they share one library, whose code takes the
classes of all for those that it was compiled with. So where ``HERDPY_PURE=1`` is set, or one source has
changed since, all of them come from their sources. The list of what was compiled is written by
``tools/compile_modules.py``.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

PURE = "HERDPY_PURE"
"""The variable of the environment that asks for the sources."""
_PACKAGES = frozenset({"herdpy", "herdpy_sql", "herdpy_server", "herdpy_spark"})
_HERE = os.path.dirname(os.path.abspath(__file__))
_LIST = os.path.join(_HERE, "compiled_modules.json")

Implementation = Literal["compiled", "pure"]


class _FromSources:
    """Finds the source of a module that has a binary too."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See ``importlib.abc.MetaPathFinder``."""
        if name.partition(".")[0] not in _PACKAGES:
            return None
        from importlib.machinery import ExtensionFileLoader, PathFinder
        from importlib.util import spec_from_file_location

        found = PathFinder.find_spec(name, path, target)
        if found is None or not isinstance(found.loader, ExtensionFileLoader):
            return found
        assert found.origin is not None
        folder, file = os.path.split(found.origin)
        return spec_from_file_location(name, os.path.join(folder, file.partition(".")[0] + ".py"))


def _chosen() -> tuple[Implementation, str]:
    """Which it is, and why it is "pure"."""
    if not os.path.exists(_LIST):
        return "pure", "no module was compiled"
    if os.environ.get(PURE, "0") not in {"", "0"}:
        return "pure", f"{PURE} is set"
    import json
    from importlib.machinery import EXTENSION_SUFFIXES

    with open(_LIST, encoding="utf-8") as file:
        listed: dict[str, list[int] | None] = json.load(file)
    root = os.path.dirname(_HERE)
    for source, stat in listed.items():
        path = os.path.join(root, source)
        if stat is not None and _stat(path) != stat:
            return "pure", f"{source} has changed since it was compiled: run make compiled again"
        if not any(os.path.exists(path.removesuffix(".py") + suffix) for suffix in EXTENSION_SUFFIXES):
            return "pure", f"{source} was compiled for another Python than {sys.version.split()[0]}"
    return "compiled", ""


def _stat(path: str) -> list[int] | None:
    """Size and time of the last change of a source; None: there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return [found.st_size, found.st_mtime_ns]


IMPLEMENTATION, REASON = _chosen()
"""What runs, and why it is not compiled."""

if IMPLEMENTATION == "pure" and os.path.exists(_LIST):
    sys.meta_path.insert(0, _FromSources())
