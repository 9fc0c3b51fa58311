"""What operating systems have by different names, or one of them alone. Below every room.

HerdPy is made for Linux. On macOS ``fdatasync`` is missing, the clock that runs while a machine sleeps has
another name, and fsync(2) leaves bytes in the disk's own memory. Modules take these things from here; what
Linux has alone is done without elsewhere.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

PROC = Path("/proc")
"""Where Linux tells of its processes and of itself."""

_PR_SET_PDEATHSIG = 1
_PARENT_IS_LOOKED_FOR_S = 0.5
_NO_FULL_SYNC = {errno.ENOTSUP, errno.EINVAL, errno.ENOTTY}
"""Of a file system that knows fsync alone, such as one of another machine."""


def sync_all(fd: int) -> None:
    """Make a file's bytes and what is known of it durable: on the disk, not in the disk's own memory.

    Raises OSError as ``os.fsync`` does.
    """
    if (full := getattr(fcntl, "F_FULLFSYNC", None)) is not None:  # macOS
        try:
            fcntl.fcntl(fd, full)
            return
        except OSError as error:
            if error.errno not in _NO_FULL_SYNC:
                raise
    os.fsync(fd)


def sync_data(fd: int) -> None:
    """As :func:`sync_all`, but for what no reader of the bytes needs, such as times."""
    if hasattr(os, "fdatasync"):
        os.fdatasync(fd)
    else:
        sync_all(fd)


FSYNC: Callable[[int], None] = sync_all if hasattr(fcntl, "F_FULLFSYNC") else os.fsync
FDATASYNC: Callable[[int], None] = getattr(os, "fdatasync", sync_all)
"""What these two come to, the builtins themselves on Linux: one frame less on the path of every commit."""


def allocate(fd: int, offset: int, size: int) -> None:
    """Reserve zeroed space in a file. OSError: the disk is full, or the file system has no such thing.

    Nothing happens where the operating system has no such thing.
    """
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(fd, offset, size)


_BOOT_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boot_time_s() -> float:
    """Seconds on a clock that runs also while the process is stopped or the machine sleeps.

    That is CLOCK_BOOTTIME of Linux, and CLOCK_MONOTONIC of macOS.
    """
    return time.clock_gettime(_BOOT_CLOCK)


CLOCK_DRIFT = 0.02
"""How much two machines' clocks may differ in speed (NTP bends one by 0.0005 at most)."""


def widen_pipe(fd: int, size_bytes: int) -> None:
    """Let a pipe hold so much, where the system can do that and grants it."""
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with contextlib.suppress(OSError):  # more than the system lets a user have
            fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, size_bytes)


def end_with_parent(parent: int) -> None:
    """Be killed when the parent dies, or leave if it has already.

    On Linux that holds also where this process is stopped. Elsewhere a thread looks twice in a second.
    """
    prctl = getattr(ctypes.CDLL(None, use_errno=True), "prctl", None) if PROC.is_dir() else None
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    else:
        threading.Thread(target=_leave_after, args=(parent,), name="herdpy-parent", daemon=True).start()
    if os.getppid() != parent:
        os._exit(0)


def _leave_after(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_PARENT_IS_LOOKED_FOR_S)
    os._exit(0)


def lower_process(niceness: int) -> None:
    """Let other processes have the processors first. What the machine does not grant is done without."""
    with contextlib.suppress(OSError):
        os.nice(niceness)
    if hasattr(os, "sched_setscheduler"):
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def lower_thread(niceness: int) -> None:
    """Let the calling thread have less of the processors; on Linux alone, whose threads have such numbers."""
    if PROC.is_dir():
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), niceness)


def data_bytes() -> int | None:
    """How much memory of its own this process has set aside; None where the system does not say."""
    try:
        status = (PROC / "self/status").read_text()
    except OSError:
        return None
    lines = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    return int(lines["VmData"].split()[0]) * 1024


def boot_id() -> str:
    """What the kernel calls this run of the machine; empty where it does not say."""
    try:
        return (PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def end_of_process(pid: int) -> int | None:
    """A descriptor that can be read once the process has ended; None where the system has none such.

    Raises OSError as ``os.pidfd_open`` does.
    """
    return os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
