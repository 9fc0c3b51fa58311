"""The service Snapshots (``herdpy/rpc/snapshots.proto``)."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import Executor
from typing import Any

from google_crc32c import value as crc32c

from herdpy.rpc import common_pb2, snapshots_pb2, snapshots_pb2_grpc
from herdpy_server.service.leases import finished
from herdpy_server.service.positions import reached
from herdpy_server.service.shelf import SnapshotShelf, Stored
from herdpy_server.serving.tablespaces import Tablespaces
from herdpy_sql.errors import SqlError

CHUNK_BYTES = 1 << 20


class SnapshotsService(snapshots_pb2_grpc.SnapshotsServicer):
    """Answers calls out of a shelf."""

    def __init__(self, tablespaces: Tablespaces, shelf: SnapshotShelf, executor: Executor) -> None:
        self._tablespaces = tablespaces
        self._shelf = shelf
        self._executor = executor

    async def Begin(self, request: Any, context: Any) -> Any:
        """See the protocol."""
        del context
        served = self._tablespaces.find(request.tablespace)
        await reached(served, request)
        return self._told(await self._shelf.begin(served, request.lease_s))

    async def Describe(self, request: Any, context: Any) -> Any:
        """See the protocol."""
        del context
        return self._told(self._shelf.leases.get(request.id))

    async def List(self, request: Any, context: Any) -> Any:
        """See the protocol."""
        del request, context
        found = sorted(self._shelf.leases, key=lambda one: one.created_us)
        return snapshots_pb2.ListSnapshotsResponse(snapshots=map(self._told, found))

    async def Renew(self, request: Any, context: Any) -> Any:
        """See the protocol."""
        del context
        return self._told(self._shelf.leases.renew(request.id, request.lease_s))

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

    def _told(self, one: Stored) -> Any:
        ledger, entry = one.lsn
        return snapshots_pb2.Snapshot(
            id=one.id,
            lsn=common_pb2.Lsn(ledger_id=ledger, entry_id=entry),
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
