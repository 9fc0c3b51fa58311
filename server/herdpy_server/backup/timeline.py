"""From which log a database was restored: a file beside its store, as long as it has that log.

Below whoever names a log in a repository, and ``restoring``, which makes the file.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from herdpy.log.ledger_list import FileLedgerList
from herdpy_server.tablespace.directory import RESTORED

FORMAT = 1


class Restored(msgspec.Struct, frozen=True):
    """What the file says.

    Attributes:
        log_id: the database's own log.
        parent, branched: the log that it was restored from, and the position, as ``ledger:entry``.
        transactions: how many transactions of the entry at ``branched`` it has; None: all of them.
        repository, backup: which backup it was.
        restored_us: when, in microseconds since 1970-01-01 UTC.
        target: where it was to stop (``StopPosition``), which may be between two positions.
    """

    log_id: str
    parent: str
    branched: str
    transactions: int | None
    repository: str
    backup: str
    restored_us: int
    target: str = ""
    format: int = FORMAT

    def encode(self) -> bytes:
        """The file's contents."""
        return msgspec.json.format(msgspec.json.encode(self)) + b"\n"


def read_restored(directory: Path) -> Restored | None:
    """What the file of a directory says; None when it was not restored, or its log is another since."""
    try:
        found = msgspec.json.decode((directory / RESTORED).read_bytes(), type=Restored)
    except (FileNotFoundError, msgspec.MsgspecError):
        return None
    state = FileLedgerList(str(directory / "log")).read()
    return found if state is not None and state.log_id == found.log_id else None


def timeline_of(directory: Path) -> tuple[str | None, str | None]:
    """``parent`` and ``branched`` of the ``LogRecord`` of a directory's log; None for both: it has none."""
    found = read_restored(directory)
    return (None, None) if found is None else (found.parent, found.branched)
