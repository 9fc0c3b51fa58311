"""Parts of loads on this server's disk, where there is no BookKeeper to stage them in.

    <data>/loads/<digest of the load's id>/<part>.arrow   a part, whole
    <data>/loads/<digest of the load's id>/<part>.new     one on its way; without a future after a crash

A part is kept until its load is published or given up, or is too old. Disks are touched in threads of the
executor; all else is for the loop's thread.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import logging
import secrets
import shutil
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

import pyarrow as pa
from google_crc32c import extend as crc32c

from herdpy.log.files import sync_directory
from herdpy.machine import sync_all
from herdpy_server.loading.rows import StagedBatch
from herdpy_sql.errors import SqlError

logger = logging.getLogger("herdpy.loads")

T = TypeVar("T")
KEPT_S = 86_400.0
_LEAST_FREE_BYTES = 256 << 20
_LOOK_EVERY_BYTES = 16 << 20
_READ_BYTES = 1 << 20
_HEX = frozenset("0123456789abcdef")
ipc: Any = pa.ipc


class FilePart(NamedTuple):
    """A part on disk, as its writer knows it: ``crc`` is the CRC32C of all ``size_bytes``."""

    id: str
    size_bytes: int
    crc: int
    rows: int


class FileBeingStaged:
    """A part on its way to the disk."""

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self.size_bytes = self.crc = 0
        self.path = path
        self._file = file

    def write(self, data: bytes) -> None:
        """Add bytes, in this thread. SqlError 53100, 58030 as the disk refuses them."""
        try:
            if self.size_bytes // _LOOK_EVERY_BYTES != (self.size_bytes + len(data)) // _LOOK_EVERY_BYTES:
                _check_room(self.path.parent)
            self._file.write(data)
        except OSError as error:
            raise _refused(error) from error
        self.size_bytes += len(data)
        self.crc = crc32c(self.crc, data)

    def keep(self, crc: int, rows: int) -> FilePart:
        """All is there, on disk, in this thread. SqlError XX001: it is not what was sent."""
        if crc != self.crc:
            raise SqlError(
                "XX001",
                f"what was staged has CRC {self.crc:08x} after {self.size_bytes} bytes, "
                f"and {crc:08x} was announced",
                hint="Stage the part again.",
            )
        try:
            self._file.flush()
            sync_all(self._file.fileno())
            self._file.close()
            self.path.rename(self.path.with_suffix(".arrow"))
            sync_directory(self.path.parent)
        except OSError as error:
            raise _refused(error) from error
        return FilePart(self.path.stem, self.size_bytes, self.crc, rows)

    def drop(self) -> None:
        """Leave nothing of what was not kept."""
        self._file.close()
        self.path.unlink(missing_ok=True)


class StagedFiles:
    """The parts on one server's disk.

    Args:
        data: the data directory.
        kept_s: parts older than that are removed.
    """

    def __init__(self, data: Path, executor: Executor, kept_s: float = KEPT_S) -> None:
        self.kept_s = kept_s
        self._directory = data / "loads"
        self._executor = executor

    async def _in_thread(self, work: partial[T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    @asynccontextmanager
    async def staging(self, load_id: str) -> AsyncIterator[FileBeingStaged]:
        """A new part, which is gone after the block unless it was kept. SqlError 53100, 58030."""
        part = await self._in_thread(partial(self._new, load_id))
        try:
            yield part
        finally:
            await asyncio.shield(self._in_thread(partial(part.drop)))

    def _new(self, load_id: str) -> FileBeingStaged:
        directory = self._of(load_id)
        try:
            directory.mkdir(parents=True, exist_ok=True)
            _check_room(directory)
            path = directory / f"{secrets.token_hex(16)}.new"
            return FileBeingStaged(path, path.open("xb"))
        except OSError as error:
            raise _refused(error) from error

    def batches(self, load_id: str, parts: Sequence[FilePart]) -> Iterator[StagedBatch]:
        """The rows of parts, one part after the other; for threads, one at a time.

        Raises:
            SqlError: 58P01 a part is not there; XX001 it is not what its writer knows; 22P04 it is no
                Arrow stream; 22023 it has another number of rows.
        """
        directory = self._of(load_id)
        for number, part in enumerate(parts, 1):
            rows = 0
            path = directory / f"{part.id}.arrow"
            if not part.id or not _HEX.issuperset(part.id) or not path.is_file():
                raise SqlError(
                    "58P01",
                    f"part {number} of load {load_id} is not on this server: it was never staged here, or "
                    "is removed already",
                    hint="Begin again, and stage all parts.",
                )
            _check_whole(path, part, number)
            try:
                with ipc.open_stream(pa.OSFile(str(path), "rb")) as reader:
                    for batch in reader:
                        yield StagedBatch(batch, number, rows)
                        rows += batch.num_rows
            except (pa.ArrowException, UnicodeDecodeError) as error:
                raise no_stream(number, str(error)) from error
            check_rows(number, rows, part.rows)

    async def remove(self, load_id: str) -> None:
        """Remove all parts of a load; no error when there are none."""
        await self._in_thread(partial(shutil.rmtree, self._of(load_id), True))

    async def sweep(self, now_s: float | None = None, *, begins: bool = False) -> int:
        """Remove parts that are too old; how many files that were.

        Args:
            begins: the process begins: whatever is on its way is what a crash left, and goes too.
        """
        return await self._in_thread(partial(self._sweep, time.time() if now_s is None else now_s, begins))

    def _sweep(self, now_s: float, begins: bool) -> int:
        count = 0
        for directory in list(self._directory.iterdir()) if self._directory.is_dir() else ():
            for path in list(directory.iterdir()) if directory.is_dir() else ():
                is_left = begins and path.suffix == ".new"
                if is_left or now_s - path.stat().st_mtime > self.kept_s:
                    logger.info("removed a staged part that was never published", extra={"path": str(path)})
                    path.unlink(missing_ok=True)
                    count += 1
            try:
                directory.rmdir()
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
        return count

    def _of(self, load_id: str) -> Path:
        return self._directory / hashlib.blake2b(load_id.encode(), digest_size=16).hexdigest()


def no_stream(part: int, why: str) -> SqlError:
    """The error for a part that is no Arrow stream."""
    return SqlError("22P04", f"part {part} of the load is not a valid Arrow IPC stream", detail=why)


def check_rows(part: int, found: int, announced: int) -> None:
    """SqlError 22023 when a part does not have the rows that its writer said."""
    if found != announced:
        raise SqlError("22023", f"part {part} of the load has {found} rows, and {announced} were announced")


def _check_whole(path: Path, part: FilePart, number: int) -> None:
    size = crc = 0
    with path.open("rb") as file:
        while data := file.read(_READ_BYTES):
            size += len(data)
            crc = crc32c(crc, data)
    if (size, crc) != (part.size_bytes, part.crc):
        raise SqlError(
            "XX001",
            f"part {number} of the load is not what was staged: its {size} bytes have CRC {crc:08x}, "
            f"{part.size_bytes} bytes with {part.crc:08x} were staged",
            hint="Begin again, and stage all parts.",
        )


def _check_room(directory: Path) -> None:
    free = shutil.disk_usage(directory).free
    if free < _LEAST_FREE_BYTES:
        raise SqlError(
            "53100",
            f"no room to stage rows: the disk has {free >> 20} MB free, and {_LEAST_FREE_BYTES >> 20} MB "
            "are left to the log and the store",
        )


def _refused(error: OSError) -> SqlError:
    state = "53100" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "58030"
    return SqlError(state, f"rows could not be staged: {error.strerror}")
