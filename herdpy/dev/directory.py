"""The directory of a local cluster: whose it is, what is where, and one command at a time.

cluster.json  the state (state.py)     cluster.lock  held by the command that changes something
log/          every process's output   zookeeper/, bookie-1/, server-1/ ...  data and configuration
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from herdpy.dev.errors import BusyError, ForeignDirectoryError, NoClusterError
from herdpy.dev.state import ClusterState
from herdpy.testing.waiting import await_until

_STATE = "cluster.json"
_LOCK = "cluster.lock"
_LOG = "log"
_OURS_BEFORE_THE_STATE = {_LOCK, _LOG, f"{_STATE}.new"}


class ClusterDirectory:
    """The directory at `path`, which need not exist yet."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    def data(self, name: str) -> Path:
        """The directory of one process's data and configuration."""
        return self.path / name

    def log(self, name: str) -> Path:
        """The file that one process's output is appended to; `save` makes the directory for it."""
        return self.path / _LOG / f"{name}.log"

    def load(self) -> ClusterState:
        """The state. Raises NoClusterError, ForeignDirectoryError."""
        state = ClusterState.load(self.path / _STATE)
        if state is None:
            raise NoClusterError(f"there is no cluster in {self.path}")
        return state

    def save(self, state: ClusterState) -> None:
        """Write the state down."""
        (self.path / _LOG).mkdir(exist_ok=True)
        state.save(self.path / _STATE)

    def claim(self) -> ClusterState:
        """The state of the cluster that is here, or a new one, which `save` makes the directory's.

        Raises ForeignDirectoryError when there is anything else in the directory.
        """
        state = ClusterState.load(self.path / _STATE)
        if state is None:
            foreign = sorted({one.name for one in self.path.iterdir()} - _OURS_BEFORE_THE_STATE)
            if foreign:
                found = ", ".join(foreign[:3])
                raise ForeignDirectoryError(
                    f"{self.path} holds other things ({found}): name a new or empty directory"
                )
            state = ClusterState()
        return state

    def wipe(self, state: ClusterState) -> None:
        """Remove everything that a cluster made here; what others put into the directory stays."""
        for name in [_LOG, *(member.name for member in state.members)]:
            shutil.rmtree(self.path / name, ignore_errors=True)
        for name in (_STATE, f"{_STATE}.new", _LOCK):  # the state after the data: until then `down` finds it
            (self.path / name).unlink(missing_ok=True)
        try:
            self.path.rmdir()
        except OSError:  # others' files
            return

    @contextmanager
    def locked(self, what: str, *, create: bool = False, timeout_s: float = 0.0) -> Iterator[None]:
        """Keep other commands out of the directory while `what` goes on.

        Raises BusyError when another is at work and does not end within `timeout_s`; ForeignDirectoryError,
        NoClusterError. With `create` the directory is made where there is none.
        """
        if create:
            self._make()
        elif not (self.path / _STATE).exists():
            raise NoClusterError(f"there is no cluster in {self.path}")
        while True:
            descriptor = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
            with open(descriptor, "r+") as lock:
                if not await_until(lambda: _try_lock(lock.fileno()), timeout_s):
                    raise BusyError(f"{lock.read().strip() or 'another command'} is at work in {self.path}")
                if not _is_still(self.path / _LOCK, lock.fileno()):  # wiped by whoever had it before
                    if create:
                        self._make()
                        continue
                    raise NoClusterError(f"there is no cluster in {self.path}")
                lock.truncate(0)
                lock.write(f"herdpy dev {what} (process {os.getpid()})")
                lock.flush()
                yield
                return

    def _make(self) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise ForeignDirectoryError(f"{self.path} is not a directory")
        self.path.mkdir(parents=True, exist_ok=True)
        if (
            not (self.path / _STATE).exists()
            and not (self.path / _LOCK).exists()
            and any(self.path.iterdir())
        ):
            self.claim()  # says what is in the way, and leaves it without a lock file of ours


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_still(path: Path, descriptor: int) -> bool:
    """Whether the open file is still the one at `path`."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False
