"""The most memory that processes have at one moment, while something is done. Linux: /proc has it.

What counts is memory of their own (anonymous and shared): pages of files, such as LMDB's map, are the
system's to take away.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self, TypeAlias

Family: TypeAlias = list[int]
"""A process, and after it all that it has started, and what these have."""

_EVERY_S = 0.1
_KIB = 1024


def memory_bytes(pid: int) -> int:
    """A process's own memory; 0 when it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    kept = [line.split() for line in lines if line.startswith(("RssAnon:", "RssShmem:"))]
    return sum(int(fields[1]) for fields in kept) * _KIB


def families(roots: Mapping[str, int]) -> dict[str, Family]:
    """Each root with its descendants, as they are now."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (parent := _parent(int(name))):
            children.setdefault(parent, []).append(int(name))

    def family(pid: int) -> Family:
        return [pid, *(one for child in children.get(pid, ()) for one in family(child))]

    return {name: family(pid) for name, pid in roots.items()}


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


class MemoryWatch:
    """``with MemoryWatch(roots, weigh) as watch``: afterwards ``watch.peaks``.

    Args:
        roots: process ids by name.
        weigh: what to call parts of the families, and how many bytes each has.

    Attributes:
        peaks: the most bytes of each part, of all samples.
    """

    def __init__(
        self, roots: Mapping[str, int], weigh: Callable[[dict[str, Family]], Mapping[str, int]]
    ) -> None:
        self.peaks: dict[str, int] = {}
        self._roots, self._weigh = roots, weigh
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory", daemon=True)

    def _watch(self) -> None:
        while True:
            for name, size in self._weigh(families(self._roots)).items():
                self.peaks[name] = max(size, self.peaks.get(name, 0))
            if self._over.wait(_EVERY_S):
                return

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
