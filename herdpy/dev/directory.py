"""The directory of a local cluster: whose it is, what runs, one command at a time; and the errors.
errors.

    cluster.json  the state                cluster.lock  held by the command that changes something
    log/          every process's output   zookeeper/, bookie-1/, server-1/ ...  data and configuration

The state is what is written down about the cluster: its processes, their ports, and who they are now. It is
one JSON file, replaced as a whole (written beside, synced, renamed), so that a reader at any moment sees
what held before a change or after it. It is written before a process becomes its program and after it has
ended: whatever runs is in it.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from herdpy.dev.process import ProcessIdentity
from herdpy.testing.process import await_until


class DevError(Exception):
    """Base of the errors of local clusters."""


class BusyError(DevError):
    """Another command works on the cluster's directory at this moment."""


class NoClusterError(DevError):
    """There is no cluster in the directory."""


class ForeignDirectoryError(DevError):
    """The directory holds something that is not a local cluster; nothing in it was touched."""


class UnknownNameError(DevError):
    """The cluster has no process of that name."""


class NotRunningError(DevError):
    """The process does not run, so that it cannot be paused or resumed."""


# The directory.

FORMAT = 1
Kind = Literal["zookeeper", "bookie", "recovery", "server"]
ADDRESS = "127.0.0.1"


@dataclass
class DevMember:
    """One process of the cluster: `ports` by what they are for, `process` None when none was started.

    `address` is where it listens: the loopback one, or that of the network namespace that it runs in.
    """

    name: str
    kind: Kind
    ports: dict[str, int]
    process: ProcessIdentity | None = None
    address: str = ADDRESS
    namespace: str | None = None

    @property
    def is_running(self) -> bool:
        """Whether the process that was started has not ended."""
        return self.process is not None and self.process.is_running


@dataclass
class PortKeeper:
    """A process that does nothing but keep ports of the cluster reserved (reservations.py)."""

    process: ProcessIdentity
    ports: list[int]


@dataclass
class DevOptions:
    """What the cluster was made with, so that a process comes back as it was.

    `server_settings` by section.name, `bookie_configuration` lines of every bookie's file, `java_options`
    flags of every virtual machine.
    """

    server_settings: dict[str, str] = field(default_factory=dict)
    bookie_configuration: dict[str, str] = field(default_factory=dict)
    java_options: list[str] = field(default_factory=list)


@dataclass
class ClusterState:
    """The cluster as it is written down."""

    members: list[DevMember] = field(default_factory=list)
    options: DevOptions = field(default_factory=DevOptions)
    keepers: list[PortKeeper] = field(default_factory=list)

    def member(self, name: str) -> DevMember:
        """The member of that name. Raises UnknownNameError."""
        for member in self.members:
            if member.name == name:
                return member
        names = ", ".join(member.name for member in self.members)
        raise UnknownNameError(f"there is no {name} in this cluster; there are {names}")

    def of_kind(self, kind: Kind) -> list[DevMember]:
        """The members of one kind, in the order of their numbers."""
        return [member for member in self.members if member.kind == kind]

    @property
    def running(self) -> Iterator[DevMember]:
        """The members whose process runs."""
        return (member for member in self.members if member.is_running)

    def save(self, path: Path) -> None:
        """Replace the file by this state."""
        beside = path.with_name(path.name + ".new")
        with beside.open("w") as out:
            json.dump({"format": FORMAT, **asdict(self)}, out, indent=1)
            out.write("\n")
            out.flush()
            os.fsync(out.fileno())
        beside.replace(path)

    @classmethod
    def load(cls, path: Path) -> ClusterState | None:
        """The state of that file; None when there is none. Raises ForeignDirectoryError when it is another's
        file.
        """
        try:
            text = path.read_text()
        except FileNotFoundError:
            return None
        try:
            found = json.loads(text)
            if found["format"] != FORMAT:
                raise ForeignDirectoryError(f"{path} has format {found['format']}, not {FORMAT}")
            keepers = [
                PortKeeper(ProcessIdentity(**one["process"]), one["ports"]) for one in found["keepers"]
            ]
            return cls([_member(one) for one in found["members"]], DevOptions(**found["options"]), keepers)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ForeignDirectoryError(f"{path} is not the state of a local cluster: {error}") from error


def _member(found: dict[str, Any]) -> DevMember:
    if found["kind"] not in get_args(Kind):
        raise ValueError(f"no kind of process: {found['kind']}")
    process = found["process"]
    identity = ProcessIdentity(**process) if process is not None else None
    ports = {str(name): int(port) for name, port in found["ports"].items()}
    address, namespace = str(found.get("address", ADDRESS)), found.get("namespace")
    return DevMember(str(found["name"]), found["kind"], ports, identity, address, namespace)


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
