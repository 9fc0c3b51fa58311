"""One state of a store as bytes: LMDB's file, with its free pages, while others write it.

The lowest module of the package; ``making`` gives the bytes to ``herdpy.backup.pages``. LMDB copies itself
(``copyfd``) through a pipe. The headers, which come first, name the transaction whose state it is; a read
transaction of that number says what is in it: its position in the log and its tables. Pages that are free in
that state may be written to meanwhile: what they hold does not matter to anybody.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from herdpy.backup.manifest import TableCount
from herdpy.log.lsn import LSN
from herdpy.machine import widen_pipe
from herdpy_server.store import StoreDamagedError
from herdpy_server.store.disk import Disk
from herdpy_server.store.probe import newest_header

_MAP_SIZE_BYTES = 1 << 40
_CHUNK_BYTES = 1 << 20
_TRIES = 20


@dataclass(frozen=True, slots=True)
class ImageState:
    """What an image has.

    Attributes:
        lsn: everything up to it is in the tables, and nothing after it.
        store_uuid: of the store.
        page_bytes, pages: the size of a page, and how many there are.
        tables: all but temporary ones, by schema and name.
    """

    lsn: LSN
    store_uuid: str
    page_bytes: int
    pages: int
    tables: tuple[TableCount, ...]

    @property
    def size_bytes(self) -> int:
        """Of the image."""
        return self.page_bytes * self.pages


class StoreImage:
    """One state; for one thread, which reads ``chunks`` once. Use ``opened``.

    Attributes:
        state: what it has, known before any of it is read.
    """

    def __init__(self, state: ImageState, first: bytes, stream: _Stream) -> None:
        self.state = state
        self._first = first
        self._stream = stream

    def chunks(self) -> Iterator[memoryview | bytes]:
        """Its bytes, in order; each is valid until the next is asked for.

        Raises:
            StoreDamagedError: LMDB gives fewer or more than its header says.
            lmdb.Error, OSError: the file cannot be read.
        """
        copied = len(self._first)
        yield self._first
        for chunk in self._stream.chunks():
            copied += len(chunk)
            yield chunk
        if copied != self.state.size_bytes:
            raise StoreDamagedError(
                f"LMDB copied {copied} bytes of a store that has {self.state.size_bytes}: its file is damaged"
            )


@contextlib.contextmanager
def opened(path: Path) -> Iterator[StoreImage]:
    """The newest state of the store at ``path``, which another process may be writing.

    Raises:
        StoreDamagedError: it cannot be opened.
        SqlError: 53200, 53400: the machine, or the number of readers, does not allow it now.
    """
    disk = _disk(path)
    page_bytes = int(disk.env.stat()["psize"])
    try:
        for _ in range(_TRIES):
            with _Stream.of(disk.env) as stream:
                headers = stream.exactly(2 * page_bytes)  # LMDB copies them while nobody can commit
                state = _state(disk, headers, page_bytes)
                if state is not None:
                    yield StoreImage(state, headers, stream)
                    return
    finally:
        disk.current.txn.abort()
        disk.close()
    raise StoreDamagedError(f"{path} changes faster than it can be copied")


def _disk(path: Path) -> Disk:
    for left in reversed(range(_TRIES)):
        try:
            return Disk(path, map_size_bytes=_MAP_SIZE_BYTES, read_only=True)
        except StoreDamagedError:  # perhaps a table was dropped in the middle of it
            if not left:
                raise
    raise AssertionError("not reached")


def _state(disk: Disk, headers: bytes, page_bytes: int) -> ImageState | None:
    """What is in the state of those headers; None when another transaction has committed since."""
    try:
        last_page, number = newest_header(headers, page_bytes)
    except ValueError as error:
        raise StoreDamagedError(f"{disk.path / 'data.mdb'}: {error}") from error
    with disk.env.begin() as txn:
        if txn.id() != number:
            return None
        found = disk.read_state(txn)
    tables = sorted(
        (table for table in found.catalog.tables.values() if not table.is_temporary),
        key=lambda one: (one.schema, one.name),
    )
    counts = tuple(TableCount(one.schema, one.name, found.checksums[one.id][0]) for one in tables)
    return ImageState(found.lsn, disk.uuid, page_bytes, last_page + 1, counts)


class _Stream:
    """What LMDB copies, as it comes: a thread has LMDB write into a pipe."""

    def __init__(self, env: Any) -> None:
        self._source, self._sink = os.pipe()
        widen_pipe(self._source, _CHUNK_BYTES)
        self._failed: BaseException | None = None
        self._buffer = bytearray(_CHUNK_BYTES)
        self._thread = threading.Thread(target=self._pour, args=(env,), name="herdpy-backup-image")
        self._thread.start()

    @classmethod
    @contextlib.contextmanager
    def of(cls, env: Any) -> Iterator[_Stream]:
        """A copy of the newest state; it ends with the block."""
        stream = cls(env)
        try:
            yield stream
        finally:
            os.close(stream._source)  # so that LMDB gives up if we do
            stream._thread.join()

    def _pour(self, env: Any) -> None:
        try:
            env.copyfd(self._sink, compact=False)
        except BaseException as error:  # noqa: BLE001 - who reads raises it
            self._failed = error
        finally:
            os.close(self._sink)

    def exactly(self, size: int) -> bytes:
        """So many bytes. StoreDamagedError when there are fewer."""
        found = b""
        while len(found) < size:
            some = os.read(self._source, size - len(found))
            if not some:
                self._raise()
                raise StoreDamagedError("LMDB's file ends in its header")
            found += some
        return found

    def chunks(self) -> Iterator[memoryview]:
        """The rest."""
        view = memoryview(self._buffer)
        while size := os.readv(self._source, [view]):
            yield view[:size]
        self._raise()

    def _raise(self) -> None:
        self._thread.join()
        if self._failed is not None:
            raise self._failed
