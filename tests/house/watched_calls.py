"""Calls into files of ours, seen as they happen on every thread."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from tests.house.structure import ROOTS

Watcher = Callable[[FrameType, str, object], object]
"""What ``sys.setprofile`` takes: called with a frame, an event and what belongs to it."""

_STARTS = tuple(f"{directory}/" for directory, _ in ROOTS)


def is_ours(path: str) -> bool:
    """Whether a file is one of the component roots."""
    return path.startswith(_STARTS)


def short(path: str) -> Path:
    """A file of ours by the directory that its imports start from."""
    return next(
        Path(path).relative_to(start) for directory, start in ROOTS if path.startswith(f"{directory}/")
    )


@contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """Within the block the watcher is called for this thread, and for all that begin meanwhile."""
    threading.setprofile(watcher)
    sys.setprofile(watcher)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
