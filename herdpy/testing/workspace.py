"""Temporary directories that do not outlive a crash for long.

Each is locked (flock) by the process that made it; the lock goes when the process ends, however it ends, and
the next process that makes one removes the directories nobody holds. Their servers have died with their
parent.
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


@contextmanager
def workspace(root: Path | None = None) -> Iterator[Path]:
    """A directory for a cluster: `root` itself, which stays, or a new temporary one, which is removed at the
    end.
    """
    if root is not None:
        root.mkdir(parents=True, exist_ok=True)
        yield root
        return
    home = Path(tempfile.gettempdir()) / f"herdpy-testing-{os.getuid()}"
    home.mkdir(mode=0o700, exist_ok=True)
    with (home / _LOCK).open("w") as everybody:
        fcntl.flock(everybody, fcntl.LOCK_EX)
        _sweep(home)
        directory = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=home))
        mine = (directory / _LOCK).open("w")
        fcntl.flock(mine, fcntl.LOCK_EX)
    with mine:
        try:
            yield directory
        finally:
            shutil.rmtree(directory, ignore_errors=True)


def _sweep(home: Path) -> None:
    for lock in home.glob(f"*/{_LOCK}"):
        with lock.open("w") as theirs:
            try:
                fcntl.flock(theirs, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue  # in use
            shutil.rmtree(lock.parent, ignore_errors=True)
