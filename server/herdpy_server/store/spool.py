"""Store layer, bottom: a temporary file of blocks, for what a large transaction has noted in order.

The file has no name: it goes with whoever holds it, and with the process.
"""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from weakref import finalize

from herdpy_server.store.spill_file import spill_error


class Spool:
    """A stack of blocks, each of so many items.

    Attributes:
        count: items in all blocks together.
        size_bytes: bytes of all blocks together.
    """

    def __init__(self, directory: Path) -> None:
        """Raise SqlError 53100, 58030 when no file can be made."""
        self._blocks: list[tuple[int, int]] = []  # size, items
        self.count = self.size_bytes = 0
        try:
            directory.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=directory) as file:
                self._fd = os.dup(file.fileno())
        except OSError as error:
            raise spill_error(error) from error
        finalize(self, os.close, self._fd)

    def push(self, data: bytes, count: int) -> None:
        """Put a block of ``count`` items on top. SqlError 53100, 58030; then nothing was put there."""
        at, view = self.size_bytes, memoryview(data)
        try:
            while view:
                done = os.pwrite(self._fd, view, at)
                at, view = at + done, view[done:]
        except OSError as error:
            raise spill_error(error) from error
        self._blocks.append((len(data), count))
        self.size_bytes += len(data)
        self.count += count

    def pop(self) -> tuple[bytes, int]:
        """Take the newest block, and how many items it has. SqlError 58030: it could not be read."""
        size, count = self._blocks[-1]
        try:
            data = self.read(self.size_bytes - size, size)
        except OSError as error:
            raise spill_error(error) from error
        self._blocks.pop()
        self.size_bytes -= size
        self.count -= count
        return data, count

    def read(self, offset: int, size: int) -> bytes:
        """So many bytes from ``offset`` on; OSError."""
        parts: list[bytes] = []
        while size and (part := os.pread(self._fd, size, offset)):
            parts.append(part)
            offset, size = offset + len(part), size - len(part)
        if size:
            raise OSError(errno.EIO, "a temporary file ends too early")
        return parts[0] if len(parts) == 1 else b"".join(parts)
