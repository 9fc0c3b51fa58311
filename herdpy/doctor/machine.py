"""The machine: facts that are read or measured here, and what they mean for a server.

``facts`` gathers, ``judge`` knows no machine: a test gives it the facts of a bad one.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import resource
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from herdpy.doctor.findings import DoctorFinding, advice, failure, ok, warning

LEAST_PYTHON = (3, 11)
NEEDED_PACKAGES = ("duckdb", "grpc", "kazoo", "lmdb", "msgspec", "pyarrow", "psycopg", "uvloop")
NETWORK_FILE_SYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "ceph", "glusterfs", "lustre", "afs"}
)
MEMORY_FILE_SYSTEMS = frozenset({"tmpfs", "ramfs"})
SLOW_SYNC_S, FAST_SYNC_S = 0.020, 0.000_05
SYNCS = 64
_BLOCK_BYTES = 4096
_UNSYNCHRONISED, _TIME_ERROR = 0x0040, 5
_FREE_SHARE, _LEAST_FREE_BYTES = 0.10, 1 << 30
GIB = 1 << 30


@dataclass(frozen=True, kw_only=True)
class PortUse:
    """A port that is to be listened on. ``taken`` says by what; empty: it is free, or the server has it."""

    listener: str
    address: str
    port: int
    taken: str = ""
    own: bool = False


@dataclass(frozen=True, kw_only=True)
class MachineFacts:
    """What was found. Sizes are bytes; None: it cannot be known here.

    Attributes:
        clock: whether the kernel's clock is disciplined by NTP or PTP.
        syncs_s: how long each write of 4 KiB with fdatasync took, in the data directory.
        unwritable: why nothing can be written there; empty: it can.
        files, files_needed: how many may be open, and how many a full server has.
        memory, memory_needed: of the machine or its control group; of all processes of the server at most.
        overcommit: of vm.overcommit_memory. huge_pages: the mode that is chosen.
        address_space: the limit of a process; None: there is none.
    """

    python: tuple[int, ...] = (3, 12)
    missing: Sequence[str] = ()
    clock: bool | None = True
    directory: str = ""
    syncs_s: Sequence[float] = ()
    unwritable: str = ""
    file_system: str = "ext4"
    free: int | None = None
    total: int | None = None
    files: int = 1 << 20
    files_needed: int = 0
    memory: int | None = None
    memory_needed: int = 0
    swap: int = 0
    swappiness: int | None = None
    overcommit: int | None = 0
    huge_pages: str = "madvise"
    address_space: int | None = None
    ports: Sequence[PortUse] = field(default=())


def judge(facts: MachineFacts) -> Iterator[DoctorFinding]:
    """A finding for each thing that was looked at."""
    yield _python(facts)
    yield _packages(facts)
    yield _clock(facts)
    yield from _disk(facts)
    yield _limits(facts)
    yield _memory(facts)
    yield _swap(facts)
    yield _overcommit(facts)
    yield _huge_pages(facts)
    for port in facts.ports:
        yield _port(port)


def _python(facts: MachineFacts) -> DoctorFinding:
    shown = ".".join(map(str, facts.python[:3]))
    if facts.python[:2] < LEAST_PYTHON:
        return failure("machine.python", f"Python {shown}", "Install Python 3.11 or newer.")
    return ok("machine.python", f"Python {shown}")


def _packages(facts: MachineFacts) -> DoctorFinding:
    if facts.missing:
        from herdpy.distribution import install_line

        return failure("machine.packages", f"missing: {', '.join(facts.missing)}", install_line("server"))
    return ok("machine.packages", "all that a server needs")


def _clock(facts: MachineFacts) -> DoctorFinding:
    what = "Run chrony or systemd-timesyncd: nodes refuse each other when clocks differ by five minutes."
    if facts.clock is None:
        return advice("machine.clock", "unknown: the kernel does not say", what)
    if not facts.clock:
        return warning("machine.clock", "the clock is not synchronised", what)
    return ok("machine.clock", "synchronised")


def percentile(values: Sequence[float], share: float) -> float:
    """The value that this share of all does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _disk(facts: MachineFacts) -> Iterator[DoctorFinding]:
    if facts.unwritable:
        yield failure(
            "machine.sync",
            f"{facts.directory}: {facts.unwritable}",
            "Give the user of the server the directory, or name another as data.directory.",
        )
    else:
        yield _sync(facts)
    if facts.file_system in NETWORK_FILE_SYSTEMS:
        yield warning(
            "machine.file_system",
            f"{facts.directory} is on {facts.file_system}",
            "Use a local disk: LMDB maps its file into memory, and locks, which network file systems break.",
        )
    elif facts.file_system in MEMORY_FILE_SYSTEMS:
        yield warning(
            "machine.file_system",
            f"{facts.directory} is on {facts.file_system}",
            "Use a disk: what is here is gone when the machine restarts.",
        )
    else:
        yield ok("machine.file_system", facts.file_system or "unknown")
    if facts.free is not None and facts.total:
        shown = f"{facts.free / GIB:.1f} GiB of {facts.total / GIB:.1f} GiB are free"
        if facts.free < _LEAST_FREE_BYTES:
            yield failure(
                "machine.space", shown, "Free some space: a full disk refuses every commit (53100)."
            )
        elif facts.free < _FREE_SHARE * facts.total:
            yield warning("machine.space", shown, "Free some space, or watch it: see docs/operating.md.")
        else:
            yield ok("machine.space", shown)


def _sync(facts: MachineFacts) -> DoctorFinding:
    if not facts.syncs_s:
        return advice("machine.sync", "not measured", "Name the data directory: --config or data.directory.")
    half, most = percentile(facts.syncs_s, 0.5), percentile(facts.syncs_s, 0.99)
    shown = f"fdatasync takes {1000 * half:.2f} ms (median), {1000 * most:.2f} ms (99 %)"
    if half > SLOW_SYNC_S:
        return warning(
            "machine.sync", shown, "Every commit waits for one: use an SSD, or a disk of its own for the log."
        )
    if most > 10 * SLOW_SYNC_S:
        return warning("machine.sync", shown, "Some commits wait long: look for other writers on this disk.")
    if half < FAST_SYNC_S and facts.file_system not in MEMORY_FILE_SYSTEMS:
        return advice(
            "machine.sync", shown, "So quick a disk may not sync at all: is its cache safe without power?"
        )
    return ok("machine.sync", shown)


def _limits(facts: MachineFacts) -> DoctorFinding:
    if facts.address_space is not None:
        return warning(
            "machine.limits",
            f"a process may map {facts.address_space / GIB:.1f} GiB (ulimit -v)",
            "Remove the limit: the store's file is mapped into memory.",
        )
    shown = f"{facts.files} files may be open, a full server has {facts.files_needed}"
    if facts.files < facts.files_needed:
        return warning(
            "machine.limits",
            shown,
            "Raise the hard limit (ulimit -Hn, LimitNOFILE=), or lower postgres.max_connections.",
        )
    return ok("machine.limits", shown)


def _memory(facts: MachineFacts) -> DoctorFinding:
    if facts.memory is None:
        return advice("machine.memory", "unknown", "Look yourself that the limits of the server fit.")
    shown = f"{facts.memory / GIB:.1f} GiB, and the server may take {facts.memory_needed / GIB:.1f} GiB"
    if facts.memory_needed > facts.memory:
        return warning(
            "machine.memory",
            shown,
            "Lower workers.maximum, workers.memory_bytes or storage.memtable_limit_bytes"
            " (herdpy init --memory chooses them): else the kernel may end a process.",
        )
    return ok("machine.memory", shown)


def _swap(facts: MachineFacts) -> DoctorFinding:
    if facts.swap and (facts.swappiness or 0) > 10:
        return advice(
            "machine.swap",
            f"{facts.swap / GIB:.1f} GiB of swap, vm.swappiness = {facts.swappiness}",
            "Set vm.swappiness = 1: a server that waits for swap loses its lease.",
        )
    return ok("machine.swap", f"{facts.swap / GIB:.1f} GiB of swap")


def _overcommit(facts: MachineFacts) -> DoctorFinding:
    if facts.overcommit == 2:
        return warning(
            "machine.overcommit",
            "vm.overcommit_memory = 2",
            "Set it to 0: worker processes reserve more than they use, and would not start.",
        )
    return ok("machine.overcommit", f"vm.overcommit_memory = {facts.overcommit}")


def _huge_pages(facts: MachineFacts) -> DoctorFinding:
    if facts.huge_pages == "always":
        return advice(
            "machine.huge_pages",
            "transparent huge pages: always",
            "Set madvise: random reads of the store move 2 MiB for each page.",
        )
    return ok("machine.huge_pages", f"transparent huge pages: {facts.huge_pages or 'unknown'}")


def _port(use: PortUse) -> DoctorFinding:
    place = f"{use.listener} {use.address}:{use.port}"
    if use.taken:
        return failure(
            "machine.ports", f"{place}: {use.taken}", f"End that, or set {use.listener}.port to another."
        )
    return ok("machine.ports", f"{place} is {'served by this server' if use.own else 'free'}")


# Facts.


def facts(
    directory: Path | None,
    *,
    files_needed: int,
    memory_needed: int,
    listeners: Sequence[tuple[str, str, int]] = (),
    measure: Callable[[Path], Sequence[float]] | None = None,
) -> MachineFacts:
    """What this machine is. It writes one small file in the directory, which is gone afterwards.

    Args:
        directory: of the data; the nearest one that exists is looked at.
        listeners: (name, address, port) that a server is to have.
        measure: how long syncs take there, for tests; OSError.
    """
    place = None if directory is None else _nearest(directory)
    syncs: Sequence[float] = ()
    unwritable, space = "", None
    if place is not None:
        try:
            syncs = (measure or measure_syncs)(place)
        except OSError as error:
            unwritable = error.strerror or str(error)
        space = shutil.disk_usage(place)
    return MachineFacts(
        python=tuple(sys.version_info[:3]),
        missing=[one for one in NEEDED_PACKAGES if importlib.util.find_spec(one) is None],
        clock=clock_is_synchronised(),
        directory=str(place or ""),
        syncs_s=syncs,
        unwritable=unwritable,
        file_system="" if place is None else file_system_of(place, _read("/proc/self/mountinfo")),
        free=None if space is None else space.free,
        total=None if space is None else space.total,
        files=resource.getrlimit(resource.RLIMIT_NOFILE)[1],
        files_needed=files_needed,
        memory=_memory_here(),
        memory_needed=memory_needed,
        swap=meminfo(_read("/proc/meminfo")).get("SwapTotal", 0),
        swappiness=_number("/proc/sys/vm/swappiness"),
        overcommit=_number("/proc/sys/vm/overcommit_memory"),
        huge_pages=_read("/sys/kernel/mm/transparent_hugepage/enabled").partition("[")[2].partition("]")[0],
        address_space=_address_space(),
        ports=[port_use(*one) for one in listeners],
    )


def _nearest(directory: Path) -> Path:
    """The directory, or the nearest one above it that is there."""
    directory = directory.expanduser().absolute()
    return next((one for one in (directory, *directory.parents) if one.is_dir()), Path("/"))


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _number(path: str) -> int | None:
    text = _read(path).strip()
    return int(text) if text.lstrip("-").isdecimal() else None


def _address_space() -> int | None:
    soft, _hard = resource.getrlimit(resource.RLIMIT_AS)
    return None if soft == resource.RLIM_INFINITY else soft


def measure_syncs(directory: Path) -> list[float]:
    """Seconds of each write of 4 KiB with its fdatasync. OSError."""
    taken = []
    with tempfile.NamedTemporaryFile(prefix=".herdpy-doctor-", dir=directory) as file:
        descriptor = file.fileno()
        block = os.urandom(_BLOCK_BYTES)
        sync = getattr(os, "fdatasync", os.fsync)
        os.pwrite(descriptor, b"\0" * _BLOCK_BYTES * SYNCS, 0)
        sync(descriptor)
        for number in range(SYNCS):
            began = time.perf_counter()
            os.pwrite(descriptor, block, number * _BLOCK_BYTES)
            sync(descriptor)
            taken.append(time.perf_counter() - began)
    return taken


def file_system_of(path: Path, mountinfo: str) -> str:
    """The kind of the file system that has a path, of the text of /proc/self/mountinfo; empty: unknown."""
    best, kind = "", ""
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        words = left.split()
        if len(words) < 5 or not right:
            continue
        point = words[4].encode().decode("unicode_escape")
        within = str(path) == point or str(path).startswith(point.rstrip("/") + "/")
        if within and len(point) >= len(best):
            best, kind = point, right.split()[0]
    return kind


def meminfo(text: str) -> Mapping[str, int]:
    """Bytes by name, of the text of /proc/meminfo."""
    found = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isdecimal():
            found[name] = int(words[0]) * (1024 if words[-1] == "kB" else 1)
    return found


def _memory_here() -> int | None:
    """Of the machine, or less where the control group has a limit."""
    found = [meminfo(_read("/proc/meminfo")).get("MemTotal"), _number("/sys/fs/cgroup/memory.max")]
    return min((one for one in found if one), default=None)


class _Timex(ctypes.Structure):
    """struct timex of adjtimex(2), as far as it is read; the rest is room."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_long * 64),
    )


def clock_is_synchronised() -> bool | None:
    """Whether the kernel says that something keeps its clock right; None where it does not say."""
    try:
        state, status = _adjtimex()
    except (OSError, AttributeError):
        return None
    return None if state < 0 else state != _TIME_ERROR and not status & _UNSYNCHRONISED


def _adjtimex() -> tuple[int, int]:
    timex = _Timex()
    state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(timex))
    return int(state), int(timex.status)


def port_use(listener: str, address: str, port: int) -> PortUse:
    """Whether an address and port can be listened on, tried, and what has it where that can be seen."""
    host = "" if address == "*" else address
    try:
        places = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        return PortUse(listener=listener, address=address, port=port, taken=f"no address: {error}")
    for family, kind, protocol, _name, place in places:
        with socket.socket(family, kind, protocol) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                tried.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                tried.bind(place)
                tried.listen(1)
            except OSError as error:
                holder = holder_of(port)
                reason = f"taken by {holder}" if holder else error.strerror or str(error)
                return PortUse(listener=listener, address=address, port=port, taken=reason)
    return PortUse(listener=listener, address=address, port=port)


def holder_of(port: int) -> str:
    """The process that listens on a port, as ``process 17 (postgres)``; empty where that cannot be seen."""
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in _read(table).splitlines()[1:]:
            words = line.split()
            if len(words) > 9 and words[3] == "0A" and int(words[1].rpartition(":")[2], 16) == port:
                inodes.add(f"socket:[{words[9]}]")
    for path in Path("/proc").glob("[0-9]*/fd/*") if inodes else ():
        try:
            if os.readlink(path) in inodes:
                pid = path.parts[2]
                return f"process {pid} ({_read(f'/proc/{pid}/comm').strip()})"
        except OSError:  # it has ended, or is another user's
            continue
    return ""
