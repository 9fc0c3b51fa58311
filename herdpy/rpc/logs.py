"""Publishing a snapshot on a server, for who waits for it: over the service Logs.

Above ``address``; the messages are in ``logs.proto``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc

from herdpy.rpc import logs_pb2, logs_pb2_grpc
from herdpy.rpc.address import GrpcAddress
from herdpy.rpc.errors import RemoteError


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
            async for told in stub.Publish(request, metadata=place.metadata):
                progress(told.rows, told.total_rows, told.bytes)
                if told.HasField("done"):
                    return told.done
        except grpc.aio.AioRpcError as error:
            raise RemoteError.of(error) from error
    raise RemoteError(grpc.StatusCode.UNAVAILABLE, "08006", "the server ended the call before it was done")
