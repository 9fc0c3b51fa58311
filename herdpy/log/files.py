"""The operating system's files, as much of them as the log uses. Nothing of the log's is in here.

One small object stands between the log and the disk, so that tests can tear writes, refuse syncs
and cut the power at a chosen place. ``OsFiles`` is the real one.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Protocol

from herdpy import machine
from herdpy.machine import sync_all

_NOT_SUPPORTED = {errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS, errno.ENODEV}


class Files(Protocol):
    """What the log asks of a file system. Every method raises OSError as ``os`` does."""

    def open(self, path: str, *, write: bool, create: bool = False) -> int:
        """A descriptor. ``create`` makes a new file and fails when there is one."""

    def close(self, fd: int) -> None: ...

    def pwrite(self, fd: int, data: bytes, offset: int) -> int: ...

    def pread(self, fd: int, size: int, offset: int) -> bytes: ...

    def size(self, fd: int) -> int: ...

    def fdatasync(self, fd: int) -> None:
        """Make the bytes written so far durable, and the length when they need it."""

    def fsync(self, fd: int) -> None: ...

    def allocate(self, fd: int, offset: int, size: int) -> None:
        """Reserve zeroed space; does nothing where the file system cannot."""

    def truncate(self, fd: int, size: int) -> None: ...

    def replace(self, old: str, new: str) -> None: ...

    def remove(self, path: str) -> None: ...

    def sync_directory(self, path: str) -> None: ...

    def names(self, path: str) -> list[str]:
        """The names in a directory, sorted."""

    def make_directory(self, path: str) -> None:
        """Make the directory unless it is there."""


class OsFiles:
    """The files of this machine."""

    def open(self, path: str, *, write: bool, create: bool = False) -> int:
        flags = (os.O_RDWR if write else os.O_RDONLY) | os.O_CLOEXEC
        return os.open(path, flags | (os.O_CREAT | os.O_EXCL if create else 0), 0o640)

    def close(self, fd: int) -> None:
        os.close(fd)

    # The builtins themselves: one frame less on the path of every commit.
    pwrite = staticmethod(os.pwrite)
    pread = staticmethod(os.pread)
    fdatasync = staticmethod(machine.FDATASYNC)
    fsync = staticmethod(machine.FSYNC)

    def size(self, fd: int) -> int:
        return os.fstat(fd).st_size

    def allocate(self, fd: int, offset: int, size: int) -> None:
        try:
            machine.allocate(fd, offset, size)
        except OSError as error:
            if error.errno not in _NOT_SUPPORTED:
                raise

    def truncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)

    def replace(self, old: str, new: str) -> None:
        os.replace(old, new)

    def remove(self, path: str) -> None:
        os.unlink(path)

    def sync_directory(self, path: str) -> None:
        sync_directory(path)

    def names(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def make_directory(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)


def sync_directory(path: str | os.PathLike[str]) -> None:
    """Make the names in a directory durable: of what was made, renamed or removed there."""
    sync_path(path, os.O_DIRECTORY)


def sync_path(path: str | os.PathLike[str], flags: int = 0) -> None:
    """Make durable what was written to a file by whoever has closed it since."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags)
    try:
        sync_all(fd)
    finally:
        os.close(fd)


def replace_file(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Put a file in the place of another, durably: a crash leaves the old one or the new one.

    Meanwhile there is a file beside it whose suffix is ``.new``; what a crash left of that is no hindrance.
    """
    new = path.with_suffix(".new")
    new.unlink(missing_ok=True)
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
        file.write(data)
        file.flush()
        sync_all(file.fileno())
    new.replace(path)
    sync_directory(path.parent)


def write_all(files: Files, fd: int, data: bytes, offset: int) -> None:
    """Write all of ``data`` at ``offset``, however many calls it takes."""
    written = files.pwrite(fd, data, offset)
    while written < len(data):
        more = files.pwrite(fd, data[written:], offset + written)
        if more <= 0:
            raise OSError(errno.EIO, "a write made no progress")
        written += more


def read_all(files: Files, path: str) -> bytes:
    """The whole of a small file."""
    fd = files.open(path, write=False)
    try:
        size, parts, at = files.size(fd), [], 0
        while at < size:
            part = files.pread(fd, size - at, at)
            if not part:
                break
            parts.append(part)
            at += len(part)
        return b"".join(parts)
    finally:
        files.close(fd)
