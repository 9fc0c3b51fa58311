"""The embedded database in a directory: its state as a snapshot of a moment, for tasks on this machine.

The one module that knows the server's packages, which the extra ``server`` has. A database that nobody has
open is opened for a moment (a crash may have left something to recover); of one that another process has
open, the checkpoint is published as it stands, and what was committed since is read from its log's files,
which say a second later what is certain.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from herdpy.distribution import install_line
from herdpy.log.files import OsFiles
from herdpy.log.ledger_list import FileLedgerList
from herdpy.log.lsn import LSN
from herdpy.log.published import SnapshotRef
from herdpy_spark.log import LogAddress, end
from herdpy_sql.errors import SqlError

_LONGEST_LEASE_S = 3600.0
_IN_USE = "55006"


class DirectoryError(Exception):
    """The directory has no database that can be read; the message says why."""


@dataclass(frozen=True, slots=True)
class Publication:
    """A snapshot of a directory, kept until nobody has read it for an hour; it can be pickled.

    Attributes:
        address: the database's log, and where the snapshot is.
        ref: the snapshot.
        newest: all that is known to be committed: the snapshot's position, or the end of the log's files.
        kept: the file whose time says when it was used.
    """

    address: LogAddress
    ref: SnapshotRef
    newest: LSN
    kept: str

    @contextmanager
    def held(self) -> Iterator[None]:
        """Says that it is in use. DirectoryError when it was removed."""
        self._touch()
        yield
        self._touch()

    def release(self) -> None:
        """Leaves the snapshot to the next DataFrame, which may use it again."""

    def _touch(self) -> None:
        try:
            os.utime(self.kept)
        except FileNotFoundError:
            raise DirectoryError(
                f"the DataFrame was not read for longer than an hour, and {self.kept} was removed: make the "
                "DataFrame again"
            ) from None


def publish(path: str, tablespace: str = "herdpy") -> Publication:
    """Publish what the directory's database has now to a temporary place of this user.

    Raises:
        DirectoryError: there is no database, or it cannot be read.
    """
    if not os.path.isdir(os.path.join(path, "log")):
        raise DirectoryError(f"there is no database in the directory {path}")
    place = _place(path)
    try:
        from herdpy_server.embedded import Database
    except ImportError as error:
        raise DirectoryError(f"a directory needs the database: {install_line('spark')} ({error})") from error
    try:
        database = Database.acquire(path)
    except SqlError as error:
        if error.sqlstate != _IN_USE:
            raise DirectoryError(f"{path}: {error.message}") from error
        at = _publish_checkpoint(path, str(place), tablespace)
    else:
        try:
            at = database.publish(str(place), tablespace).lsn
        except SqlError as error:
            raise DirectoryError(f"{path}: {error.message}") from error
        finally:
            database.release()
    ref = SnapshotRef(str(place), tablespace, at)
    kept = os.path.join(place, ref.directory, "manifest.json")
    os.utime(kept)
    _sweep(place / tablespace)
    address = LogAddress.of_database(path, tablespace=tablespace, snapshot_url=str(place))
    return Publication(address, ref, max(at, end(address)), kept)


def _publish_checkpoint(path: str, url: str, tablespace: str) -> LSN:
    from herdpy_server.publishing.snapshot import Moment, frozen_state, there, write_snapshot
    from herdpy_server.store import StoreDamagedError

    try:
        state = frozen_state(Path(path) / "store")
    except StoreDamagedError as error:
        raise DirectoryError(f"{path}: {error}") from error
    try:
        log = FileLedgerList(os.path.join(path, "log"), OsFiles()).read()
        if log is None:
            raise DirectoryError(f"there is no log in the directory {path}")
        manifest = there(url, tablespace, state.lsn)
        if manifest is None or manifest.log_id != log.log_id:
            moment = Moment(log.log_id, None, time.time_ns() // 1000)
            write_snapshot(state, url, tablespace, moment)
        return state.lsn
    finally:
        state.close()


def _place(path: str) -> Path:
    """Where snapshots of the directory are: below a directory that only this user may write."""
    root = Path(tempfile.gettempdir()) / f"herdpy-spark-{os.getuid()}"
    root.mkdir(mode=0o700, exist_ok=True)
    found = root.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise DirectoryError(f"{root} is not a directory of this user alone")
    place = root / sha256(os.path.realpath(path).encode()).hexdigest()[:32]
    place.mkdir(exist_ok=True)
    return place


def _sweep(snapshots: Path) -> None:
    """Remove what nobody has read for as long as a lease can be."""
    before_s = time.time() - _LONGEST_LEASE_S
    for one in snapshots.iterdir() if snapshots.is_dir() else ():
        try:
            used_s = (one / "manifest.json").stat().st_mtime
        except FileNotFoundError:
            used_s = one.stat().st_mtime  # being written, or left by a crash
        if used_s < before_s:
            shutil.rmtree(one, ignore_errors=True)
