"""The doors through which a process changes disk, and the error that comes right behind one of them.

Within ``Doors`` every call that changes something outside memory is a *step*. While it is armed, steps are
counted, and the nth does its work and then raises: what is outside has changed, and memory has not followed.
"""

from __future__ import annotations

import asyncio
import errno
import os
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from types import FrameType
from typing import Any
from unittest.mock import patch

import lmdb

from herdpy.log import FileLog
from herdpy.log.files import OsFiles
from herdpy_server.store import Store

OS_CALLS = ("replace", "rename", "link", "unlink", "remove", "fsync", "fdatasync", "ftruncate", "mkdir")
NEEDLESS = {"fsync", "fdatasync"}
"""They are steps, and do nothing: no power is cut here, and the disk takes its time."""
ERRORS: dict[str, Callable[[], BaseException]] = {
    "KeyboardInterrupt": KeyboardInterrupt,
    "CancelledError": asyncio.CancelledError,
    "MemoryError": MemoryError,
    "ENOSPC": lambda: OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
    "EIO": lambda: OSError(errno.EIO, os.strerror(errno.EIO)),
    "RuntimeError": lambda: RuntimeError("injected"),
}


class Doors:
    """Counts steps, and strikes at one.

    Attributes:
        steps: the names of those that were counted, with who took them.
        struck: the step at which it struck; None while it has not.
        raised: what it raised there.
    """

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.struck: str | None = None
        self.raised: BaseException | None = None
        self._left: int | None = None
        self._error: Callable[[], BaseException] = KeyboardInterrupt
        self._mutex = threading.Lock()
        self._stack = ExitStack()

    def arm(self, nth: int, error: Callable[[], BaseException]) -> None:
        """From now on steps are counted: strike at the ``nth``."""
        self.steps, self.struck, self._left, self._error = [], None, nth, error

    def disarm(self) -> None:
        self._left = None

    def stepped(self, name: str, own: Callable[[], BaseException] | None = None) -> None:
        """A step was taken: raise when it is the one. ``own``: what a library raises for a RuntimeError."""
        with self._mutex:
            if self._left is None:
                return
            name = f"{name} < {_callers()}"
            self.steps.append(name)
            self._left -= 1
            if self._left:
                return
            self.struck, self._left = name, None
        error = self._error()
        self.raised = own() if own is not None and isinstance(error, RuntimeError) else error
        raise self.raised

    def __enter__(self) -> Doors:
        for name in OS_CALLS:
            self._put(os, name)
        for name in ("pwrite", "fdatasync", "fsync"):  # which it keeps as they are
            self._put(OsFiles, name, staticmethod)
        self._put(FileLog, "_write")  # a group of entries is stored
        self._put(Store, "_apply")  # an entry is applied
        opened = lmdb.open
        self._stack.enter_context(
            patch.object(lmdb, "open", lambda *a, **k: _Environment(self, opened(*a, sync=False, **k)))
        )
        return self

    def __exit__(self, *_: object) -> None:
        self.disarm()
        self._stack.close()

    def patch(self, owner: Any, name: str, call: Any) -> None:
        """Put a door in place, until the end of the block."""
        self._stack.enter_context(patch.object(owner, name, call))

    def _put(self, owner: Any, name: str, wrap: Callable[[Any], Any] = lambda call: call) -> None:
        call = getattr(owner, name)

        def through(*args: Any, **options: Any) -> Any:
            done = None if name in NEEDLESS else call(*args, **options)
            self.stepped(name)
            return done

        self._stack.enter_context(patch.object(owner, name, wrap(through)))


class _Environment:
    """An LMDB environment whose commits are steps."""

    def __init__(self, doors: Doors, env: Any) -> None:
        self._doors, self._env = doors, env

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    def begin(self, *args: Any, **options: Any) -> Any:
        txn = self._env.begin(*args, **options)
        return _Transaction(self._doors, txn) if options.get("write") else txn

    def open_db(self, key: bytes, txn: Any = None, **options: Any) -> Any:
        return self._env.open_db(key, txn=getattr(txn, "_txn", txn), **options)


class _Transaction:
    def __init__(self, doors: Doors, txn: Any) -> None:
        self._doors, self._txn = doors, txn

    def __getattr__(self, name: str) -> Any:
        return getattr(self._txn, name)

    def commit(self) -> None:
        self._txn.commit()
        self._doors.stepped("lmdb commit", lambda: lmdb.DiskError("injected"))

    def __enter__(self) -> _Transaction:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.commit()
        else:
            self._txn.abort()


def _callers() -> str:
    """Who took the step: the two nearest functions of HerdPy."""
    found: list[str] = []
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and len(found) < 2:
        path = frame.f_code.co_filename
        if "/herdpy" in path and "/tests/" not in path:
            found.append(f"{path.rpartition('/')[2]}:{frame.f_code.co_name}")
        frame = frame.f_back
    return " < ".join(found)
