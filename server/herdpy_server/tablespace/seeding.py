"""A directory made of a snapshot: its store, and an empty log that goes on where the snapshot's state was.

The marker is written last, so that after a crash the directory is no database yet, and is made again.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from herdpy.log.ledger_list import FILE_NAME, FileLedgerList, LedgerListState
from herdpy.log.lsn import LSN
from herdpy_server.tablespace.directory import OF_THE_FILE_SYSTEM, Directory
from herdpy_sql.errors import SqlError

_PARTS = {"LOCK", "log", "store", "HERDPY.new"}


def check_room(path: Path, besides: frozenset[str] = frozenset()) -> None:
    """SqlError 55000 when a database, or anything but its unfinished parts and ``besides``, is in the way."""
    if Directory(path).exists():
        raise SqlError("55000", f"there is a database in {path} already", hint="Name another directory.")
    strangers = sorted(set(os.listdir(path)) - _PARTS - OF_THE_FILE_SYSTEM - besides) if path.is_dir() else []
    if strangers:
        raise SqlError(
            "55000",
            f"{path} is not empty",
            detail=f"It holds {strangers[0]}.",
            hint="Name an empty or a new directory.",
        )


def seed(path: Path, data: Path, lsn: LSN) -> None:
    """Make the database in directory ``path``; the snapshot's file ``data``, on the same file system, stays.

    Ledgers that the database makes have ids after the snapshot's, so positions go on growing.

    Raises:
        OSError: it cannot be written.
    """
    directory = Directory(path)
    for part in (directory.store, directory.log):
        part.mkdir(parents=True, exist_ok=True)
    for left in (directory.store / "data.mdb", directory.log / FILE_NAME):
        left.unlink(missing_ok=True)
    os.link(data, directory.store / "data.mdb")
    state = LedgerListState(
        version=0, log_id=secrets.token_hex(16), next_ledger_id=max(1, lsn.ledger_id + 1), base=lsn
    )
    FileLedgerList(str(directory.log)).write(state, 0)
    directory.write_marker()
