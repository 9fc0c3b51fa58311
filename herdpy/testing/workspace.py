"""Temporary directories that do not outlive a crash for long.

Each is locked (flock) by the processes that use it; a lock goes when its process ends, however it ends, and
the next process that makes a directory removes those nobody holds. Their servers have died with their parent.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LOCK = "lock"


def home_directory() -> Path:
    """Where this user's directories are; made when it is not there."""
    home = Path(tempfile.gettempdir()) / f"herdpy-testing-{os.getuid()}"
    home.mkdir(mode=0o700, exist_ok=True)
    return home


@contextmanager
def workspace(root: Path | None = None) -> Iterator[Path]:
    """A directory for a cluster: `root` itself, which stays, or a new temporary one, which is removed at the
    end.
    """
    if root is not None:
        root.mkdir(parents=True, exist_ok=True)
        yield root
        return
    home = home_directory()
    with _everybody(home):
        _sweep(home)
        directory = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=home))
        mine = (directory / _LOCK).open("w")
        fcntl.flock(mine, fcntl.LOCK_SH)
    with mine:
        try:
            yield directory
        finally:
            shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def held(directory: Path) -> Iterator[Path]:
    """`directory`, in the home directory, for several processes; the last one that leaves removes it."""
    with _everybody(directory.parent):
        directory.mkdir(exist_ok=True)
        mine = (directory / _LOCK).open("w")
        fcntl.flock(mine, fcntl.LOCK_SH)
    try:
        with mine:
            yield directory
    finally:
        with _everybody(directory.parent):
            _remove_unless_held(directory)


@contextmanager
def _everybody(home: Path) -> Iterator[None]:
    """Directories are made and removed by one process at a time."""
    with (home / _LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _sweep(home: Path) -> None:
    for directory in home.iterdir():
        if directory.is_dir():
            _remove_unless_held(directory)


def _remove_unless_held(directory: Path) -> None:
    try:
        with (directory / _LOCK).open("r") as theirs:
            fcntl.flock(theirs, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(directory, ignore_errors=True)
    except FileNotFoundError:  # made by nobody who lives: a lock follows at once
        shutil.rmtree(directory, ignore_errors=True)
    except BlockingIOError:
        return  # in use
