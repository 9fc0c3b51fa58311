"""The client's half of snapshots: make one on a server, download it over lost connections, publish one.
one.

    async with SnapshotClient(GrpcAddress.parse("grpc://127.0.0.1:8481")) as client:
        snapshot = await client.begin()
        await client.download(snapshot, Path("data.mdb"))
        await client.release(snapshot)

Above ``address``. For copies (``herdpy snapshot``), and for replicas that are new or too far behind. A
download that broke off goes on where it was: after a broken connection by itself, after the end of the
program when it is called again with the same snapshot and path.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import grpc
from google_crc32c import value as crc32c
from xxhash import xxh3_128

from herdpy.backoff import Backoff
from herdpy.log.lsn import LSN
from herdpy.machine import sync_all
from herdpy.rpc import logs_pb2, logs_pb2_grpc, snapshots_pb2, snapshots_pb2_grpc
from herdpy.rpc.address import GrpcAddress, RemoteError, SnapshotDamagedError
from herdpy.rpc.positions import lsn_of

_RECORD = struct.Struct("<QII")
_LONGEST = 64 << 20


class Partial:
    """A file that is being downloaded: what of it is here, and whether that is what was sent.

    Beside the file ``<name>.chunks`` has a record of each chunk that was written, after it was: offset (8
    bytes), length and CRC-32C (4 each), little-endian. Whoever goes on compares them with the file and cuts
    off what does not fit, so neither needs to be synced before the end. All methods block.

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
        sync_all(self._file)

    def clear(self) -> None:
        """Begin anew."""
        os.ftruncate(self._log, 0)
        os.ftruncate(self._file, 0)
        self.offset = self._count = 0

    def close(self) -> None:
        """Close both; they stay where they are."""
        os.close(self._file)
        os.close(self._log)


LEASE_S = 600.0
PATIENCE_S = 60.0
_CALL_TIMEOUT_S = 30.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 2.0
_DAMAGES = 3  # of one chunk, one after the other
_READ = 1 << 20

Progress = Callable[[int, int], object]
"""Called with the bytes that are here, and how many there are in all."""


@dataclass(frozen=True, slots=True)
class RemoteSnapshot:
    """A snapshot on a server.

    Attributes:
        lsn: the position of its state.
        size_bytes, checksum: of its file; XXH3-128 in hexadecimal.
        store_uuid: of the store it was made of.
    """

    id: str
    lsn: LSN
    size_bytes: int
    checksum: str
    store_uuid: str


class SnapshotClient:
    """Calls the service Snapshots of one server, on the running loop.

    Every method raises RemoteError for what the server refuses, and when it cannot be reached.
    """

    def __init__(self, place: GrpcAddress) -> None:
        self._place = place
        self._channel = place.channel()
        self._stub: Any = snapshots_pb2_grpc.SnapshotsStub(self._channel)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._channel.close()

    async def begin(
        self, lease_s: float = LEASE_S, *, tablespace: str = "", reached: LSN | None = None
    ) -> RemoteSnapshot:
        """Have one made, of everything that is committed now. It takes as long as copying the store does.

        Args:
            tablespace: empty is the only one, or the default one of a cluster. A follower's snapshot has
                what it has applied.
            reached: have it applied everything up to here before.
        """
        request = snapshots_pb2.BeginSnapshotRequest(lease_s=lease_s, tablespace=tablespace)
        if reached is not None:
            request.reached.ledger_id, request.reached.entry_id = reached
        return _snapshot(await self._call(self._stub.Begin, request, None))

    async def describe(self, snapshot_id: str) -> RemoteSnapshot:
        """One by its id; RemoteError NOT_FOUND when there is none any more."""
        request = snapshots_pb2.SnapshotId(id=snapshot_id)
        return _snapshot(await self._call(self._stub.Describe, request))

    async def renew(self, snapshot: RemoteSnapshot, lease_s: float = LEASE_S) -> None:
        """Keep one for longer."""
        request = snapshots_pb2.RenewSnapshotRequest(id=snapshot.id, lease_s=lease_s)
        await self._call(self._stub.Renew, request)

    async def release(self, snapshot: RemoteSnapshot) -> None:
        """Remove one; that it is gone already is no error."""
        await self._call(self._stub.Release, snapshots_pb2.SnapshotId(id=snapshot.id))

    async def _call(self, method: Any, request: Any, timeout_s: float | None = _CALL_TIMEOUT_S) -> Any:
        try:
            return await method(request, metadata=self._place.metadata, timeout=timeout_s)
        except grpc.aio.AioRpcError as error:
            raise RemoteError.of(error) from error

    async def download(
        self,
        snapshot: RemoteSnapshot,
        path: Path,
        *,
        progress: Progress | None = None,
        lease_s: float = LEASE_S,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """Get the snapshot's file to ``path``, from where an earlier download of it to there broke off.

        When it returns the file is whole, is what the server has, and is on the disk. When it raises,
        ``path`` with ``.part`` and ``.part.chunks`` stay to be gone on with.

        Args:
            lease_s: what the lease is renewed to, over and over.
            patience_s: how long to try without a single chunk.

        Raises:
            RemoteError: NOT_FOUND, the snapshot is gone; others when patience is over.
            SnapshotDamagedError: what arrives is damaged each time, or it is not what it should be as
                a whole (then nothing of it is kept).
            OSError: the file cannot be written.
        """
        part = path.with_name(path.name + ".part")
        partial = await asyncio.to_thread(Partial, part)
        keeping = asyncio.ensure_future(self._keep(snapshot, lease_s))
        try:
            if partial.offset > snapshot.size_bytes:
                partial.clear()
            await self._fetch_all(snapshot, partial, progress, patience_s)
            if await asyncio.to_thread(_checksum, part) != snapshot.checksum:
                partial.clear()
                raise SnapshotDamagedError(f"what arrived of snapshot {snapshot.id} is not what it is")
            await asyncio.to_thread(partial.sync)
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)
            partial.close()
        os.rename(part, path)
        part.with_name(part.name + ".chunks").unlink()

    async def _keep(self, snapshot: RemoteSnapshot, lease_s: float) -> None:
        while True:
            with contextlib.suppress(RemoteError):  # the fetching finds that it is gone
                await self.renew(snapshot, lease_s)
            await asyncio.sleep(lease_s / 3)

    async def _fetch_all(
        self, snapshot: RemoteSnapshot, partial: Partial, progress: Progress | None, patience_s: float
    ) -> None:
        backoff, damages = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S), 0
        moved_at = time.monotonic()
        while True:
            before = partial.offset
            try:
                await self._fetch(snapshot, partial, progress)
                return
            except SnapshotDamagedError:
                damages = 1 if partial.offset > before else damages + 1
                if damages >= _DAMAGES:
                    raise
            except grpc.aio.AioRpcError as error:
                failure = RemoteError.of(error)
                if partial.offset > before:
                    backoff.reset()
                    moved_at = time.monotonic()
                if not failure.is_transient or time.monotonic() - moved_at > patience_s:
                    raise failure from error
            await asyncio.sleep(backoff.pause_s())

    async def _fetch(self, snapshot: RemoteSnapshot, partial: Partial, progress: Progress | None) -> None:
        """Fetch from where the file ends. Nothing is fetched ahead of what is written."""
        if progress is not None:
            progress(partial.offset, snapshot.size_bytes)
        if partial.offset == snapshot.size_bytes:
            return
        request = snapshots_pb2.FetchRequest(id=snapshot.id, offset=partial.offset)
        stream = self._stub.Fetch(request, metadata=self._place.metadata)
        try:
            async for chunk in stream:
                if chunk.offset != partial.offset or not chunk.data or crc32c(chunk.data) != chunk.crc32c:
                    raise SnapshotDamagedError(f"the chunk at offset {partial.offset} is damaged")
                await asyncio.to_thread(partial.write, chunk.data, chunk.crc32c)
                if progress is not None:
                    progress(partial.offset, snapshot.size_bytes)
        finally:
            stream.cancel()
        if partial.offset != snapshot.size_bytes:
            raise SnapshotDamagedError(f"the stream ended at offset {partial.offset}")


def _snapshot(snapshot: Any) -> RemoteSnapshot:
    lsn = lsn_of(snapshot.lsn)
    return RemoteSnapshot(snapshot.id, lsn, snapshot.size_bytes, snapshot.xxh3_128, snapshot.store_uuid)


def _checksum(path: Path) -> str:
    hashed = xxh3_128()
    with path.open("rb") as file:
        while chunk := file.read(_READ):
            hashed.update(chunk)
    return hashed.hexdigest()


# Publishing.


async def publish(
    place: GrpcAddress,
    *,
    url: str = "",
    tablespace: str = "",
    progress: Callable[[int, int, int], object] = lambda _rows, _total, _bytes: None,
) -> Any:
    """Have a server publish a snapshot now; the ``PublishedSnapshot`` when it is there.

    Args:
        url: where to; empty: where the tablespace publishes to.
        progress: called with rows that are written, of how many, and their bytes.

    Raises:
        RemoteError: the server refused it, or cannot be reached.
    """
    async with place.channel() as channel:
        stub: Any = logs_pb2_grpc.LogsStub(channel)
        request = logs_pb2.PublishSnapshotRequest(tablespace=tablespace, url=url)
        try:
            async for answer in stub.Publish(request, metadata=place.metadata):
                progress(answer.rows, answer.total_rows, answer.bytes)
                if answer.HasField("done"):
                    return answer.done
        except grpc.aio.AioRpcError as error:
            raise RemoteError.of(error) from error
    raise RemoteError(grpc.StatusCode.UNAVAILABLE, "08006", "the server ended the call before it was done")
