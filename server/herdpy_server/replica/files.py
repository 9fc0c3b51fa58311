"""A replica's directory: whether its store may be read, and another one put in its place.

Beside ``seeding``. All of it blocks, and is for threads.

    <replica>/QUARANTINED   why the store is not to be read; gone once there is another
    <replica>/LOG_DAMAGED   the same, and the store is whole: it is the log that does not go on
    <replica>/KEPT          why the store is evidence: it is neither replaced nor deleted unasked
    <replica>/store/        LMDB
    <replica>/seed/         see ``seeding``
"""

from __future__ import annotations

import shutil
from pathlib import Path

import lmdb

from herdpy.log.files import replace_file, sync_directory
from herdpy.log.lsn import LSN, START
from herdpy_server.store import Store, StoreDamagedError

DATA = "data.mdb"
_MARK = "QUARANTINED"
_LOG = "LOG_DAMAGED"
_KEPT = "KEPT"


def put_in_place(seeded: Path | None, store: Path) -> None:
    """The seed becomes the store; None: an empty one does, which gets everything from the log.

    The old one is gone first: after a crash in between the store is empty, which says so itself.
    """
    if store.exists():
        shutil.rmtree(store)
    store.mkdir(parents=True, exist_ok=True)
    sync_directory(store)
    sync_directory(store.parent)
    if seeded is not None:
        seeded.rename(store / DATA)
        shutil.rmtree(seeded.parent, ignore_errors=True)
    sync_directory(store)
    sync_directory(store.parent)


def mark(replica: Path, reason: str, *, is_whole: bool = False) -> None:
    """Have it known after a crash that the store in ``replica`` is not to be read.

    Args:
        is_whole: nothing is wrong with the store: what comes next in the log cannot be read.
    """
    _write(replica, _LOG if is_whole else _MARK, reason)


def marked(replica: Path) -> str | None:
    """Why the store in ``replica`` is not to be read; None: it may be."""
    reason = _read(replica, _MARK, "it was quarantined")
    return _read(replica, _LOG, "the log is damaged") if reason is None else reason


def is_whole(replica: Path) -> bool:
    """Whether the store that is not to be read could be, if only the log went on."""
    return (replica / _LOG).exists() and not (replica / _MARK).exists()


def unmark(replica: Path) -> None:
    """There is another store now."""
    _remove(replica, _MARK)
    _remove(replica, _LOG)


def keep(replica: Path, reason: str) -> None:
    """Have it known that the store in ``replica`` has what may be nowhere else."""
    _write(replica, _KEPT, reason)


def kept(replica: Path) -> str | None:
    """Why the store in ``replica`` is evidence; None: it is not, as far as is known."""
    return _read(replica, _KEPT, "it is kept")


def release(replica: Path) -> None:
    """The store is no evidence any more: an operator has decided, or the log has what it has."""
    _remove(replica, _KEPT)


def position_of(store: Path) -> LSN:
    """Up to where the store at ``store`` has the log, though nobody may read it; START: there is nothing."""
    if not (store / DATA).exists():
        return START
    try:
        opened = Store.open(store, read_only=True)
    except (StoreDamagedError, lmdb.Error, OSError):
        return START  # it is evidence of nothing
    try:
        return opened.durable
    finally:
        opened.close()


def set_aside(replica: Path, kept_ones: Path) -> Path:
    """Move a replica's directory to where nobody looks for replicas; where it is now."""
    position = position_of(replica / "store")
    name = f"{replica.name}-{position.ledger_id}-{position.entry_id}"
    kept_ones.mkdir(parents=True, exist_ok=True)
    number, place = 1, kept_ones / name
    while place.exists():
        number += 1
        place = kept_ones / f"{name}-{number}"
    replica.rename(place)
    sync_directory(kept_ones)
    sync_directory(replica.parent)
    return place


def _write(replica: Path, name: str, reason: str) -> None:
    replica.mkdir(parents=True, exist_ok=True)
    replace_file(replica / name, reason.encode())


def _read(replica: Path, name: str, otherwise: str) -> str | None:
    try:
        return (replica / name).read_text() or otherwise
    except FileNotFoundError:
        return None


def _remove(replica: Path, name: str) -> None:
    (replica / name).unlink(missing_ok=True)
    sync_directory(replica)
