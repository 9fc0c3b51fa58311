"""The service Snapshots (``herdpy/rpc/snapshots.proto``), and the shelf of snapshots on the disk.

``<data>/snapshots/<id>/`` holds a copy of the store and its manifest (``store.copy``), which is written last:
a directory without one is what a crash left, and goes at the next start. Whole ones are kept over a restart,
with a fresh lease, so that a download goes on. Everything of the shelf is for the loop's thread; disks are
touched in threads of the executor.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import shutil
import threading
import time
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lmdb
import msgspec
from google_crc32c import value as crc32c

from herdpy.log.lsn import LSN
from herdpy.rpc import common_pb2, snapshots_pb2, snapshots_pb2_grpc
from herdpy.rpc.positions import lsn_message
from herdpy_server.service.calls import going_down, reached, too_many
from herdpy_server.service.leases import DEFAULT_S, Leases, finished
from herdpy_server.serving.node import ServedNode
from herdpy_server.store.copy import MANIFEST, CopyManifest
from herdpy_server.tablespace.log_errors import store_error
from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from herdpy_server.serving.node import Served, Use


logger = logging.getLogger("herdpy.snapshots")

DATA = "data.mdb"
_LONGEST_LEASE_S = 86_400.0
CHUNK_BYTES = 1 << 20


@dataclass(slots=True, eq=False)
class Stored:
    """One snapshot.

    Attributes:
        path: of its directory.
        expires_s, users: see ``Leased``.
        fetched_bytes: how much was handed to gRPC, for all who fetched it.
    """

    id: str
    path: Path
    manifest: CopyManifest
    created_us: int
    expires_s: float
    users: int = 0
    fetched_bytes: int = field(default=0)

    @property
    def lsn(self) -> LSN:
        """The position of its state."""
        return LSN.parse(self.manifest.lsn)

    @property
    def data(self) -> Path:
        """The file that is downloaded."""
        return self.path / DATA


class SnapshotShelf:
    """The snapshots of a process, of all of its tablespaces.

    Args:
        data: the data directory.
    """

    def __init__(self, data: Path, limit: int, executor: Executor) -> None:
        self._limit = limit
        self._executor = executor
        self._directory = data / "snapshots"
        self._loop = asyncio.get_running_loop()
        self._making = 0
        self._alone = asyncio.Lock()  # one copy at a time: they would only take the disk from each other
        self.is_closing = False
        self.leases: Leases[Stored] = Leases("snapshot", _LONGEST_LEASE_S, self._drop)

    async def open(self) -> None:
        """Take over what an earlier process left."""
        for path, manifest, created_us in await self._loop.run_in_executor(self._executor, self._found):
            self.leases.add(Stored(path.name, path, manifest, created_us, self._loop.time() + DEFAULT_S))

    def _found(self) -> list[tuple[Path, CopyManifest, int]]:
        found = []
        for path in sorted(self._directory.iterdir()) if self._directory.is_dir() else ():
            try:
                text = (path / MANIFEST).read_bytes()
                manifest = msgspec.json.decode(text, type=CopyManifest)
                created = (path / MANIFEST).stat()
                whole = (path / DATA).stat().st_size == manifest.nbytes
            except (OSError, msgspec.MsgspecError):
                whole = False
            if whole:
                found.append((path, manifest, created.st_mtime_ns // 1000))
            else:
                logger.info("the unfinished snapshot %s is removed", path)
                shutil.rmtree(path, ignore_errors=True)
        return found

    async def begin(self, served: Served, lease_s: float) -> Stored:
        """Make a snapshot of everything that is applied now, and perhaps more.

        Raises:
            SqlError: 53400 there are too many, 53100 the disk has no room, 57P01 the server goes
                down, 57P03 the tablespace cannot be read now; what a checkpoint meets.
        """
        if len(self.leases) + self._making >= self._limit:
            raise too_many("snapshots", self._limit)
        self._making += 1
        try:
            async with self._alone:
                path = self._directory / secrets.token_hex(16)
                manifest = await self._made(served, path)
        finally:
            self._making -= 1
        created_us = time.time_ns() // 1000
        one = Stored(path.name, path, manifest, created_us, self.leases.until(lease_s))
        self.leases.add(one)
        logger.info("snapshot made", extra={"id": one.id, "lsn": manifest.lsn, "size_bytes": manifest.nbytes})
        return one

    async def _made(self, served: Served, path: Path) -> CopyManifest:
        """Have one made; nothing is left of it when the call is cancelled meanwhile."""
        given_up = threading.Event()
        use = served.use(given_up.set)
        work = self._loop.run_in_executor(self._executor, self._make, use, path, given_up)
        try:
            manifest: CopyManifest = await finished(work, given_up.set)
        except asyncio.CancelledError:
            if work.exception() is None:  # it was quicker
                await self._loop.run_in_executor(self._executor, shutil.rmtree, path)
            raise
        finally:
            use.leave()
        return manifest

    def _make(self, use: Use, path: Path, given_up: threading.Event) -> CopyManifest:
        """Checkpoint, and copy the store. In a thread of the executor."""
        store = use.store

        def go_on(*_progress: int) -> None:
            if self.is_closing:
                raise going_down()
            if given_up.is_set():
                raise SqlError("57P03", "the snapshot was cancelled: the store is being closed on this node")

        try:
            go_on()
            use.checkpointer.checkpoint(trim=False)
            info = store.disk.env.info()
            needed = (info["last_pgno"] + 1) * store.disk.env.stat()["psize"]
            self._directory.mkdir(exist_ok=True)
            free = shutil.disk_usage(self._directory).free
            if free < needed:
                raise SqlError(
                    "53100", f"a snapshot needs up to {needed} bytes, and the disk has {free} bytes free"
                )
            store.copy(path, go_on)
        except (OSError, lmdb.Error) as error:
            raise store_error(error) from error
        return msgspec.json.decode((path / MANIFEST).read_bytes(), type=CopyManifest)

    def _drop(self, one: Stored) -> None:
        logger.info("snapshot removed", extra={"id": one.id})
        if not self.is_closing:
            self._executor.submit(shutil.rmtree, one.path, ignore_errors=True)

    async def close(self) -> None:
        """End a copy that is under way. What is whole stays on the disk for the next process."""
        self.is_closing = True
        self.leases.clear()
        async with self._alone:
            pass


class SnapshotsService(snapshots_pb2_grpc.SnapshotsServicer):
    """Answers calls out of a shelf."""

    def __init__(self, tablespaces: ServedNode, shelf: SnapshotShelf, executor: Executor) -> None:
        self._tablespaces = tablespaces
        self._shelf = shelf
        self._executor = executor

    async def Begin(self, request: Any, context: Any) -> Any:
        """See the protocol."""
        del context
        served = self._tablespaces.find(request.tablespace)
        await reached(served, request)
        return self._described(await self._shelf.begin(served, request.lease_s))

    async def Describe(self, request: Any, context: Any) -> Any:
        """See the protocol."""
        del context
        return self._described(self._shelf.leases.get(request.id))

    async def List(self, request: Any, context: Any) -> Any:
        """See the protocol."""
        del request, context
        found = sorted(self._shelf.leases, key=lambda one: one.created_us)
        return snapshots_pb2.ListSnapshotsResponse(snapshots=map(self._described, found))

    async def Renew(self, request: Any, context: Any) -> Any:
        """See the protocol."""
        del context
        return self._described(self._shelf.leases.renew(request.id, request.lease_s))

    async def Release(self, request: Any, context: Any) -> Any:
        """See the protocol."""
        del context
        self._shelf.leases.release(request.id)
        return snapshots_pb2.ReleaseSnapshotResponse()

    async def Fetch(  # type: ignore[override]  # the stubs know generators only
        self, request: Any, context: Any
    ) -> None:
        """See the protocol. A chunk is read only when gRPC has taken the one before."""
        leases = self._shelf.leases
        one = leases.get(request.id)
        size, offset = one.manifest.nbytes, request.offset
        if not 0 <= offset <= size:
            raise SqlError("22003", f"the snapshot has {size} bytes, and none at offset {offset}")
        loop = asyncio.get_running_loop()
        one.users += 1
        try:
            descriptor = os.open(one.data, os.O_RDONLY)
            try:
                while offset < size:
                    length = min(CHUNK_BYTES, size - offset)
                    reading = loop.run_in_executor(self._executor, _read, descriptor, length, offset)
                    data, checksum = await finished(reading)
                    if len(data) != length:
                        raise SqlError("XX001", f"the snapshot {one.id} is shorter than it was")
                    one.fetched_bytes += length
                    await context.write(
                        snapshots_pb2.SnapshotChunk(offset=offset, data=data, crc32c=checksum)
                    )
                    offset += length
            finally:
                os.close(descriptor)
        finally:
            leases.left(one)

    def _described(self, one: Stored) -> Any:
        return snapshots_pb2.Snapshot(
            id=one.id,
            lsn=lsn_message(one.lsn),
            size_bytes=one.manifest.nbytes,
            xxh3_128=one.manifest.checksum,
            store_uuid=one.manifest.uuid,
            lease=common_pb2.Lease(remaining_s=self._shelf.leases.remaining_s(one)),
            created_us=one.created_us,
            fetched_bytes=one.fetched_bytes,
        )


def _read(descriptor: int, length: int, offset: int) -> tuple[bytes, int]:
    data = os.pread(descriptor, length, offset)
    return data, crc32c(data)
