"""Clocks and disks that go wrong while a process runs: fault_injector.c, compiled once, and its switches.

Below `local`. It works on any program that calls the C library for its time and its files (Python, Java),
needs neither root nor another file system, and leaves nothing behind: what is real is the refusal of a write
or the time that a process is told, not the state of a device.
"""

from __future__ import annotations

import fcntl
import hashlib
import mmap
import shutil
import struct
import subprocess
from pathlib import Path

from herdpy.drill.control.control import CannotError
from herdpy.testing.java import cache_directory

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
