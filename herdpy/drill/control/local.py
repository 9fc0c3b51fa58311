"""Control of a cluster on this machine: herdpy.dev's own, for a drill or one that `herdpy dev up` made.

Above `control`. `local_cluster` makes a cluster with what the faults need, as far as this machine has it;
`can` says what is lacking. FaultInjector makes clocks and disks go wrong while a process runs:
fault_injector.c is compiled once, works on any program that calls the C library for its time and its files
(Python, Java), needs neither root nor another file system, and leaves nothing behind: what is real is the
refusal of a write or the time that a process reads, not the state of a device.

Bit rot changes bytes in files while nobody looks. With a marker, one bit of every place that holds those
bytes is turned over: what is damaged is the text of a row or of an entry, and nothing of the file's own
structure, so that only a checksum of the contents can tell. Without one whole pages become garbage, here and
there.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import mmap
import shutil
import signal
import struct
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random

from herdpy.dev import DevError, LocalCluster, NotRunningError
from herdpy.dev.process import ProcessIdentity
from herdpy.drill.control.control import (
    CLIENTS,
    Action,
    CannotError,
    ClusterNeeds,
    ControlError,
    Kind,
    OneWay,
    ProcessPlace,
)
from herdpy.testing import KitError, NetworkUnavailableError
from herdpy.testing.java import cache_directory
from herdpy.testing.network import Network, NetworkHost

_SOURCE = Path(__file__).with_name("fault_injector.c")
_LAYOUT = struct.Struct("=qqq")
_CLOCK_AT, _SYNC_AT, _FULL_AT = 0, 8, 16
_COMPILE_TIMEOUT_S = 60.0


def library() -> Path:
    """The library to be preloaded, compiled unless the same text was before.

    Raises CannotError without a C compiler, and where it cannot be compiled.
    """
    compiler = shutil.which("cc")
    if compiler is None:
        raise CannotError("a C compiler, cc, was not found (Debian: apt-get install gcc)")
    home = cache_directory()
    made = home / f"fault-injector-{hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:16]}.so"
    with (home / "compile.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            beside = made.with_suffix(".new")
            done = subprocess.run(
                [compiler, "-O2", "-shared", "-fPIC", "-o", str(beside), str(_SOURCE), "-ldl"],
                capture_output=True,
                text=True,
                check=False,
                timeout=_COMPILE_TIMEOUT_S,
                stdin=subprocess.DEVNULL,
            )
            if done.returncode != 0:
                raise CannotError(f"{_SOURCE.name} does not compile here: {done.stderr.strip()}")
            beside.replace(made)
    return made


class FaultInjector:
    """The switches of one process: a file that it maps, and that outlives it; close it at the end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.exists():
            path.write_bytes(bytes(_LAYOUT.size))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _LAYOUT.size)

    def environment(self) -> dict[str, str]:
        """What a process is started with, so that the switches work. Raises CannotError as `library`."""
        return {"LD_PRELOAD": str(library()), "HERDPY_FAULT_INJECTOR": str(self.path)}

    def set_clock(self, seconds: float) -> None:
        """How far the wall clock is from the true time."""
        struct.pack_into("=q", self._map, _CLOCK_AT, round(seconds * 1e9))

    def set_sync(self, delay_s: float) -> None:
        """How much longer each sync takes."""
        struct.pack_into("=q", self._map, _SYNC_AT, round(delay_s * 1e9))

    def set_full(self, is_full: bool) -> None:
        """Whether the disk has no room."""
        struct.pack_into("=q", self._map, _FULL_AT, int(is_full))

    def close(self) -> None:
        """Unmap the switches; the file stays."""
        self._map.close()


# The control.

_PAGE = 4096
_HEAD_PAGES = 2
"""LMDB's two meta pages, and what is the head of an entry log, are left as they are: a file without them is
a file that is not there, which is another fault."""
_DAMAGED = 0.25


def server_files(directory: Path) -> list[Path]:
    """The stores of a server's replicas."""
    return sorted(directory.glob("tablespaces/*/store/data.mdb"))


def bookie_files(directory: Path) -> list[Path]:
    """A bookie's journals and entry logs: after a crash entries are read from the first, later the second."""
    return sorted([*directory.glob("journal/**/*.txn"), *directory.glob("ledgers/**/*.log")])


def rot(files: Iterable[Path], marker: str | None, chance: Random) -> str:
    """Damage the files; what was done, in words. Raises CannotError when nothing was found to damage."""
    what, unit = (_flip, "places") if marker is not None else (_garble, "pages")
    damaged = {path.name: what(path, (marker or "").encode(), chance) for path in files}
    listed = ", ".join(f"{count} {unit} of {name}" for name, count in damaged.items() if count)
    if not listed:
        raise CannotError(f"there was nothing to damage in {', '.join(damaged) or 'no file'}")
    return listed


def _flip(path: Path, marker: bytes, chance: Random) -> int:
    content = bytearray(path.read_bytes())
    found: list[int] = []
    at = content.find(marker)
    while at >= 0:
        found.append(at)
        at = content.find(marker, at + len(marker))
    with path.open("r+b") as file:
        for at in found:
            # In its last bytes, and so that a letter stays a letter: the row can still be decoded.
            where = at + len(marker) - 1 - chance.randrange(min(4, len(marker)))
            file.seek(where)
            file.write(bytes([content[where] ^ 1]))
    return len(found)


def _garble(path: Path, _marker: bytes, chance: Random) -> int:
    pages = range(_HEAD_PAGES, path.stat().st_size // _PAGE)
    chosen = [page for page in pages if chance.random() < _DAMAGED]
    with path.open("r+b") as file:
        for page in chosen:
            file.seek(page * _PAGE)
            file.write(chance.randbytes(_PAGE))
    return len(chosen)


SUPERVISOR = "herdpy_server.supervisor"
"""What the command line of a server's supervisor has."""
_PARENT = 1  # of the fields behind the name


def supervisor_of(server: int) -> ProcessIdentity | None:
    """The child of a server's process that attests its end; None: it has none."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[_PARENT])
            if parent == server and SUPERVISOR.encode() in path.with_name("cmdline").read_bytes():
                return ProcessIdentity.of(int(path.parent.name))
        except (OSError, IndexError):  # it has ended
            continue
    return None


_NO_SUPERVISOR = "the server has no supervisor: its setting cluster.supervisor is false, or it is starting"
_INJECTED = ("fill", "slow", "skew")
_NO_NETWORK = "the cluster's processes share the loopback address"
_NO_INJECTOR = "the process was started without the library that makes clocks and disks go wrong"


class LocalControl:
    """`cluster` runs. `injectors` has the switches of each process's clock and disk; `lacking` says what this
    machine did not have for them ("fault injector") and for the network ("network").
    """

    def __init__(
        self,
        cluster: LocalCluster,
        *,
        injectors: Mapping[str, FaultInjector] | None = None,
        lacking: Mapping[str, str] | None = None,
    ) -> None:
        self.cluster = cluster
        self._injectors = injectors or {}
        self._lacking = lacking or {}
        self._supervisors: dict[str, ProcessIdentity] = {}  # that were found, by server

    @property
    def url(self) -> str:
        """See `ClusterControl.url`."""
        return self.cluster.url

    @property
    def places(self) -> list[ProcessPlace]:
        """See `ClusterControl.places`."""
        status, address = self.cluster.status(), self.cluster.address
        zookeeper = status.zookeeper
        return [
            ProcessPlace(zookeeper.id, "zookeeper", address(zookeeper.id), {"client": zookeeper.port}),
            *(
                ProcessPlace(one.id, "bookie", address(one.id), {"bookie": one.port})
                for one in status.bookies
            ),
            *(
                ProcessPlace(one.id, "server", address(one.id), {"sql": one.sql_port, "http": one.http_port})
                for one in status.servers
            ),
        ]

    def can(self, action: Action, process: str) -> str | None:
        """See `ClusterControl.can`."""
        if action == "cut" and self.cluster.host(process) is None:
            return self._lacking.get("network", _NO_NETWORK)
        if action in _INJECTED and process not in self._injectors:
            return self._lacking.get("fault injector", _NO_INJECTOR)
        if action.endswith("-supervisor") and self._find_supervisor(process) is None:
            return _NO_SUPERVISOR
        if action in ("wipe", "rot") and self._kind(process) == "zookeeper":
            return "there is one ZooKeeper only: without its disk nothing is left of the cluster"
        return None

    def is_running(self, process: str) -> bool:
        """See `ClusterControl.is_running`."""
        return next(one for one in self.cluster.status().processes if one.id == process).pid is not None

    def kill(self, process: str) -> None:
        """See `ClusterControl.kill`."""
        with _as_control_errors():
            self.cluster.kill(process)

    def stop(self, process: str) -> None:
        """See `ClusterControl.stop`."""
        with _as_control_errors():
            self.cluster.stop(process)

    def start(self, process: str, *, wait: bool = True) -> None:
        """See `ClusterControl.start`."""
        with _as_control_errors():
            self.cluster.start(process, wait=wait)

    def pause(self, process: str) -> None:
        """See `ClusterControl.pause`."""
        with _as_control_errors():
            self.cluster.pause(process)

    def resume(self, process: str) -> None:
        """See `ClusterControl.resume`."""
        with _as_control_errors(), contextlib.suppress(NotRunningError):
            self.cluster.resume(process)

    def kill_supervisor(self, process: str) -> None:
        """See `ClusterControl.kill_supervisor`."""
        self._supervisor("kill-supervisor", process).send(signal.SIGKILL)

    def pause_supervisor(self, process: str) -> None:
        """See `ClusterControl.pause_supervisor`."""
        self._supervisor("pause-supervisor", process).pause()

    def resume_supervisor(self, process: str) -> None:
        """See `ClusterControl.resume_supervisor`."""
        if process in self._supervisors:
            self._supervisors[process].send(signal.SIGCONT)

    def cut(self, process: str, *, from_: Iterable[str], one_way: OneWay | None = None) -> None:
        """See `ClusterControl.cut`."""
        host = self._host(process)
        for name in from_:
            other = None if name == CLIENTS else self._host(name)
            host.cut_from(other, incoming=one_way != "sent", outgoing=one_way != "received")

    def heal(self, process: str) -> None:
        """See `ClusterControl.heal`."""
        host = self.cluster.host(process)
        if host is not None:
            host.heal()

    def wipe(self, process: str) -> None:
        """See `ClusterControl.wipe`."""
        self._demand("wipe", process)
        with _as_control_errors():
            self.cluster.wipe(process)

    def fill(self, process: str) -> None:
        """See `ClusterControl.fill`."""
        self._injector("fill", process).set_full(True)

    def drain(self, process: str) -> None:
        """See `ClusterControl.drain`."""
        if process in self._injectors:
            self._injectors[process].set_full(False)

    def slow(self, process: str, delay_s: float) -> None:
        """See `ClusterControl.slow`."""
        self._injector("slow", process).set_sync(delay_s)

    def quicken(self, process: str) -> None:
        """See `ClusterControl.quicken`."""
        if process in self._injectors:
            self._injectors[process].set_sync(0.0)

    def skew(self, process: str, seconds: float) -> None:
        """See `ClusterControl.skew`."""
        if seconds == 0 and process not in self._injectors:
            return
        self._injector("skew", process).set_clock(seconds)

    def rot(self, process: str, marker: str | None, chance: Random) -> str:
        """See `ClusterControl.rot`."""
        self._demand("rot", process)
        if self.is_running(process):
            raise CannotError(f"{process} runs: kill or stop it first")
        files = bookie_files if self._kind(process) == "bookie" else server_files
        return rot(files(self.cluster.data_path(process)), marker, chance)

    def _supervisor(self, action: Action, process: str) -> ProcessIdentity:
        self._find_supervisor(process)
        if process not in self._supervisors:
            raise CannotError(f"{action} {process}: {_NO_SUPERVISOR}")
        return self._supervisors[process]  # which may have ended with its work, after its server

    def _find_supervisor(self, process: str) -> ProcessIdentity | None:
        """The one of a server that runs; else the one that it had, which may have some work left."""
        pid = next((one.pid for one in self.cluster.status().processes if one.id == process), None)
        found = None if pid is None else supervisor_of(pid)
        if found is not None:
            self._supervisors[process] = found
        known = self._supervisors.get(process)
        return known if known is not None and known.is_running else None

    def _kind(self, process: str) -> Kind | None:
        return next((one.kind for one in self.places if one.name == process), None)

    def _demand(self, action: Action, process: str) -> None:
        reason = self.can(action, process)
        if reason is not None:
            raise CannotError(f"{action} {process}: {reason}")

    def _host(self, process: str) -> NetworkHost:
        self._demand("cut", process)
        host = self.cluster.host(process)
        assert host is not None, process
        return host

    def _injector(self, action: Action, process: str) -> FaultInjector:
        self._demand(action, process)
        return self._injectors[process]


@contextmanager
def local_cluster(directory: Path, needs: ClusterNeeds) -> Iterator[LocalControl]:
    """A cluster of its own in `directory`, which is to be new, with what `needs` names; stopped at the end.

    Where this machine lacks what a network or the fault injector needs (root, a C compiler), the cluster is
    made without, and `can` says the reason. Raises as LocalCluster does.
    """
    with ExitStack() as stack:
        lacking: dict[str, str] = {}
        network = _network(stack, lacking) if needs.network else None
        injectors = (
            _Injectors(directory / "injector", stack)
            if needs.fault_injector and _has_library(lacking)
            else None
        )
        archive = {"backup.url": str(directory / "repository")} if needs.archive else {}
        cluster = LocalCluster(
            directory / "cluster",
            servers=needs.servers,
            bookies=needs.bookies,
            server_settings={**needs.settings, **archive},
            auto_recovery=needs.auto_recovery,
            environment=injectors.environment if injectors is not None else None,
            network=network,
        )
        stack.enter_context(cluster)
        yield LocalControl(
            cluster, injectors=injectors.of if injectors is not None else None, lacking=lacking
        )


@contextmanager
def _as_control_errors() -> Iterator[None]:
    """What goes wrong in the cluster's own words."""
    try:
        yield
    except (DevError, KitError) as error:
        raise ControlError(str(error)) from error


class _Injectors:
    """The switches of every process, made when it is first started."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._stack = stack
        self.of: dict[str, FaultInjector] = {}

    def environment(self, name: str) -> dict[str, str]:
        injector = self.of.get(name)
        if injector is None:
            injector = self.of[name] = FaultInjector(self._directory / name)
            self._stack.callback(injector.close)
        return injector.environment()


def _network(stack: ExitStack, lacking: dict[str, str]) -> Network | None:
    try:
        return stack.enter_context(Network())
    except NetworkUnavailableError as error:
        lacking["network"] = str(error)
        return None


def _has_library(lacking: dict[str, str]) -> bool:
    try:
        library()
    except CannotError as error:
        lacking["fault injector"] = str(error)
        return False
    return True
