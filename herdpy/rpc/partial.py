"""A file that is being downloaded: what of it is here, and whether that is what was sent.

Beside the file ``<name>.chunks`` has a record of each chunk that was written, after it was: offset (8 bytes),
length and CRC-32C (4 each), little-endian. Whoever goes on compares them with the file and cuts off what does
not fit, so neither needs to be synced before the end. All methods block.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

from google_crc32c import value as crc32c

_RECORD = struct.Struct("<QII")
_LONGEST = 64 << 20


class Partial:
    """The file and its records, open to be gone on with.

    Attributes:
        offset: how much is here and right.
    """

    def __init__(self, path: Path) -> None:
        """Open, or make, the file; cut off what is not right. OSError."""
        self.path = path
        self._records = path.with_name(path.name + ".chunks")
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            self._log = os.open(self._records, os.O_RDWR | os.O_CREAT, 0o600)
        except BaseException:
            os.close(self._file)
            raise
        self._count = 0
        self.offset = 0
        self._check()

    def _check(self) -> None:
        while len(record := os.pread(self._log, _RECORD.size, self._count * _RECORD.size)) == _RECORD.size:
            offset, length, checksum = _RECORD.unpack(record)
            if offset != self.offset or not 0 < length <= _LONGEST:
                break
            data = os.pread(self._file, length, offset)
            if len(data) != length or crc32c(data) != checksum:
                break
            self.offset += length
            self._count += 1
        os.ftruncate(self._file, self.offset)
        os.ftruncate(self._log, self._count * _RECORD.size)

    def write(self, data: bytes, checksum: int) -> None:
        """Add a chunk whose CRC-32C was compared."""
        view = memoryview(data)
        while view:
            view = view[os.pwrite(self._file, view, self.offset + len(data) - len(view)) :]
        os.pwrite(self._log, _RECORD.pack(self.offset, len(data), checksum), self._count * _RECORD.size)
        self.offset += len(data)
        self._count += 1

    def sync(self) -> None:
        """Bring the file to the disk."""
        os.fsync(self._file)

    def clear(self) -> None:
        """Begin anew."""
        os.ftruncate(self._log, 0)
        os.ftruncate(self._file, 0)
        self.offset = self._count = 0

    def close(self) -> None:
        """Close both; they stay where they are."""
        os.close(self._file)
        os.close(self._log)
