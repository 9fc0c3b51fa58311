"""A replica's directory: whether its store may be read, and another one put in its place.

Beside ``seeding``. All of it blocks, and is for threads.

    <replica>/QUARANTINED   why the store is not to be read; gone once there is another
    <replica>/store/        LMDB
    <replica>/seed/         see ``seeding``
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

DATA = "data.mdb"
_MARK = "QUARANTINED"


def put_in_place(seeded: Path | None, store: Path) -> None:
    """The seed becomes the store; None: an empty one does, which gets everything from the log.

    The old one is gone first: after a crash in between the store is empty, which says so itself.
    """
    if store.exists():
        shutil.rmtree(store)
    store.mkdir(parents=True, exist_ok=True)
    _sync([store, store.parent])
    if seeded is not None:
        seeded.rename(store / DATA)
        shutil.rmtree(seeded.parent, ignore_errors=True)
    _sync([store, store.parent])


def _sync(directories: Iterable[Path]) -> None:
    for directory in directories:
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def mark(replica: Path, reason: str) -> None:
    """Have it known after a crash that the store in ``replica`` is not to be read."""
    replica.mkdir(parents=True, exist_ok=True)
    with (replica / _MARK).open("w") as file:
        file.write(reason)
        file.flush()
        os.fsync(file.fileno())
    _sync([replica])


def marked(replica: Path) -> str | None:
    """Why the store in ``replica`` is not to be read; None: it may be."""
    try:
        return (replica / _MARK).read_text() or "it was quarantined"
    except FileNotFoundError:
        return None


def unmark(replica: Path) -> None:
    """There is another store now."""
    (replica / _MARK).unlink(missing_ok=True)
    _sync([replica])
