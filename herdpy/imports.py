"""How a process imports: what it may never need when that is used first, and much at once in less time.

Below every room.
"""

from __future__ import annotations

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any


class _LazyModule(ModuleType):
    """Keeps what was used of the module among its own attributes, so only a first use comes here."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(import_module(self.__name__), name)
        setattr(self, name, value)
        return value


def lazy_module(name: str) -> Any:
    """The module of that name, imported when something of it is used first.

    For what takes long to import and what a process may never need, such as DuckDB in one that answers
    statements by key. Using an attribute of it raises ImportError where it is not installed.
    """
    return _LazyModule(name)


@contextmanager
def importing(*, freeze: bool = False) -> Iterator[None]:
    """Import much at once: the garbage collector waits meanwhile.

    A thousand modules leave next to no garbage and several hundred thousand objects, which it would look
    through time and again: a fifth of the time that their import takes.

    Args:
        freeze: never look through what is there afterwards either. For main programs: a library must not.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if freeze:
            gc.freeze()
            atexit.register(gc.unfreeze)  # or modules find their objects alive when the process ends
        gc.enable()
