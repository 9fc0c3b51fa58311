"""The directory of an embedded database: its layout, its lock, and how its log and its store are opened.

::

    DIR/HERDPY        format version and uuid, JSON; made last, so a directory without it is no database
    DIR/LOCK          locked (flock) by the process that has it open; holds that process's id
    DIR/log/          the ledgers and their list (docs/log-format.md)
    DIR/store/        LMDB's data.mdb and lock.mdb
    DIR/spill/        what DuckDB, and large transactions, do not hold in memory; of no use after them
    DIR/RESTORED      of a restored database: the log that it was restored from, JSON

A directory can be made of a snapshot (``seed``): its store, and an empty log that goes on where the
snapshot's state was. The marker is written last, so that after a crash the directory is no database yet,
and is made again.

The log is opened first: it says where it ends, and whether it reaches back to its beginning. A store that
cannot be trusted is set aside and filled anew from a whole log; where the log was trimmed, or is behind the
store, nothing can be made right, and opening is refused with what to do.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import logging
import os
import secrets
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from herdpy.formats import LEVEL_HINT, NEWEST_LEVEL
from herdpy.log import START, FileLog, LogError, LogSettings
from herdpy.log.commit_log import Acknowledge
from herdpy.log.files import replace_file, sync_directory
from herdpy.log.ledger_list import FILE_NAME, FileLedgerList, LedgerListState
from herdpy.log.lsn import LSN
from herdpy.machine import sync_all
from herdpy_server.store import Store, StoreDamagedError, probe
from herdpy_server.tablespace.log_errors import sql_error
from herdpy_sql.errors import SqlError

FIRST_LEVEL = 1
"""Of directories whose marker has no other: ``format`` is the level (``herdpy.formats``)."""
OF_THE_FILE_SYSTEM = frozenset({"lost+found"})
"""What a fresh file system has at its root: a disk of its own may be mounted at a data directory."""
RESTORED = "RESTORED"
"""The file that says which log a database was restored from (``herdpy_server.backup.timeline``)."""
REPLICA_MARKER = "TABLESPACE"
"""The file in a replica's directory with the tablespace's uuid."""
_OURS = frozenset(
    {
        *("LOCK", "log", "store", "spill", "HERDPY.new", "users.json", "users.new", RESTORED),
        *("NODE", "NODE.new", "tablespaces", "kept", "snapshots", "restoring"),  # of a node of a cluster
        *("SESSION", "SESSION.new"),  # of a node, too
    }
)


@dataclass(slots=True)
class DirectoryLock:
    """Held from opening to closing; the kernel gives it back if the process dies."""

    descriptor: int

    def release(self) -> None:
        """Let another process open the directory."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


@dataclass(frozen=True, slots=True)
class Directory:
    """Where the parts of a database lie."""

    path: Path

    @property
    def log(self) -> Path:
        return self.path / "log"

    @property
    def store(self) -> Path:
        return self.path / "store"

    @property
    def spill(self) -> Path:
        return self.path / "spill"

    @property
    def marker(self) -> Path:
        return self.path / "HERDPY"

    def exists(self) -> bool:
        """Whether there is a database here."""
        return self.marker.is_file()

    def read_format(self) -> dict[str, object]:
        """What the marker says; SqlError when it is not one that this version reads."""
        try:
            found = json.loads(self.marker.read_text())
            version = found["format"]
        except (ValueError, KeyError, TypeError) as error:
            raise SqlError(
                "XX001", f"{self.marker} is damaged: {error}", hint="Restore it from a copy."
            ) from error
        if not isinstance(version, int) or not FIRST_LEVEL <= version <= NEWEST_LEVEL:
            raise SqlError(
                "0A000",
                f"{self.path} has format {version}, and this HerdPy reads formats up to {NEWEST_LEVEL}",
                hint=LEVEL_HINT,
            )
        return dict(found)

    def level(self) -> int:
        """What may be written here (``herdpy.formats``); SqlError as ``read_format``."""
        return int(str(self.read_format()["format"]))

    def level_reader(self) -> Callable[[], int]:
        """What gives the level, and reads the marker only until that is the newest: it never falls.

        SqlError as ``read_format``, when it is called.
        """
        known = 0

        def read() -> int:
            nonlocal known
            if known < NEWEST_LEVEL:
                known = self.level()
            return known

        return read

    def raise_level(self) -> None:
        """Give the directory, which the caller has locked, the newest level: older versions refuse it.

        Raises:
            SqlError: as ``read_format``; 58030, the marker cannot be written.
        """
        found = self.read_format()
        if found["format"] != NEWEST_LEVEL:
            try:
                self._write(found | {"format": NEWEST_LEVEL})
            except OSError as error:
                raise SqlError("58030", f"{self.marker} cannot be written: {error.strerror}") from error

    def lock(self, *, create: bool) -> DirectoryLock:
        """Take the directory for this process, making it when ``create``.

        Raises:
            SqlError: 58P01 it does not exist, 55006 another process has it, 42501 or 58030 the
                operating system refuses.
        """
        try:
            if create:
                self.path.mkdir(parents=True, exist_ok=True)
            elif not self.path.is_dir():
                raise SqlError("58P01", f"there is no database at {self.path}")
            return self._flock()
        except PermissionError as error:
            raise SqlError(
                "42501",
                f"cannot open {self.path}: {error.strerror}",
                hint="Give this user the directory (chown), or name another.",
            ) from error
        except (FileExistsError, NotADirectoryError) as error:
            raise SqlError("58030", f"{self.path} is not a directory") from error
        except OSError as error:
            raise SqlError("58030", f"cannot open {self.path}: {error.strerror}") from error

    def _flock(self) -> DirectoryLock:
        if not self.exists() and (strangers := self._strangers()):
            raise SqlError(
                "55000",
                f"{self.path} is neither empty nor a HerdPy database",
                detail=f"It holds {strangers[0]}.",
                hint="Name an empty or a new directory.",
            )
        descriptor = os.open(self.path / "LOCK", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        except BlockingIOError:
            holder = os.pread(descriptor, 64, 0).decode(errors="replace").strip() or "unknown"
            os.close(descriptor)
            raise SqlError(
                "55006",
                f"another process has {self.path} open",
                detail=f"Its process id is {holder}.",
                hint="Close it there, or share one process: threads may each have a connection.",
            ) from None
        except BaseException:  # the lock goes with the descriptor
            os.close(descriptor)
            raise
        return DirectoryLock(descriptor)

    def _strangers(self) -> list[str]:
        return sorted({*os.listdir(self.path)} - _OURS - OF_THE_FILE_SYSTEM)

    def _write(self, marker: dict[str, object]) -> None:
        replace_file(self.marker, (json.dumps(marker) + "\n").encode())

    def write_marker(self) -> None:
        """Say that this is a database; the last step of making one."""
        self._write({"format": NEWEST_LEVEL, "uuid": str(uuid.uuid4())})
        # Names last once their directory is synced: those of the first files, and of what holds them.
        for directory in (self.log, self.store, self.path, self.path.parent, self.path.parent.parent):
            with contextlib.suppress(PermissionError):  # not ours, so we did not make it
                sync_directory(directory)


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


def seed(
    path: Path,
    data: Path,
    lsn: LSN,
    *,
    log_id: str = "",
    files: Mapping[str, bytes] = MappingProxyType({}),
    checked: bool = False,
) -> None:
    """Make the database in directory ``path``; the snapshot's file ``data``, on the same file system, stays.

    Ledgers that the database makes have ids after the snapshot's, so positions go on growing.

    Args:
        log_id: of its log; empty: a new one.
        files: small files beside the store, by name; nobody else may read them.
        checked: all of ``data`` was read and found whole.

    Raises:
        OSError: it cannot be written.
    """
    directory = Directory(path)
    for part in (directory.store, directory.log):
        part.mkdir(parents=True, exist_ok=True)
    for left in (directory.store / "data.mdb", directory.log / FILE_NAME):
        left.unlink(missing_ok=True)
    for name, contents in files.items():
        _write_private(path / name, contents)
    os.link(data, directory.store / "data.mdb")
    if checked:
        (directory.store / probe.CLOSED).touch()
    state = LedgerListState(
        version=0,
        log_id=log_id or secrets.token_hex(16),
        next_ledger_id=max(1, lsn.ledger_id + 1),
        base=lsn,
    )
    FileLedgerList(str(directory.log)).write(state, 0)
    directory.write_marker()


def _write_private(path: Path, contents: bytes) -> None:
    """A file as a whole, synced, that its owner alone reads."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(contents)
        file.flush()
        sync_all(file.fileno())


logger = logging.getLogger("herdpy.opening")

_RESTORE = "Restore the directory from a copy."


def open_log(
    directory: Directory,
    settings: LogSettings,
    acknowledge: Acknowledge,
    loop: asyncio.AbstractEventLoop | None = None,
) -> FileLog:
    """The log of a directory, recovered. SqlError XX001 when it is damaged."""
    try:
        return FileLog(str(directory.log), acknowledge, settings=settings, loop=loop)
    except LogError as error:
        raise sql_error(error) from error


def open_store(
    directory: Directory, log: FileLog, column_cache_bytes: int, segment_bytes: int
) -> tuple[Store, str | None]:
    """The store of a directory, and why it has to be rebuilt from the log, if it has.

    Raises:
        SqlError: XX001, the store is damaged and the log cannot rebuild it, or the log lost entries
            that the store has.
    """

    def opened() -> Store:
        return Store.open(directory.store, column_cache_bytes=column_cache_bytes, segment_bytes=segment_bytes)

    try:
        store = opened()
    except StoreDamagedError as error:
        reason = str(error)
    else:
        if store.durable <= log.lac:
            return store, None
        reason = f"the store is at {store.durable}, but the log ends at {log.lac}"
        store.close()
        raise SqlError("XX001", f"the log of {directory.path} lost entries: {reason}", hint=_RESTORE)
    if log.base != START:
        raise SqlError(
            "XX001",
            f"the store of {directory.path} is damaged: {reason}",
            detail="The log cannot rebuild it: its oldest ledgers were trimmed.",
            hint=_RESTORE,
        )
    aside = directory.store.with_name(f"store.damaged-{time.time_ns() // 1_000_000_000}")
    os.rename(directory.store, aside)
    logger.warning("the store was damaged (%s): set aside as %s, rebuilding from the log", reason, aside)
    return opened(), reason
