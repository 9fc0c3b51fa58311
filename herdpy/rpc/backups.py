"""Having servers make backups, over gRPC (``backups.proto``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import grpc

from herdpy.log.lsn import LSN
from herdpy.rpc import backups_pb2, backups_pb2_grpc
from herdpy.rpc.address import GrpcAddress, RemoteError
from herdpy.rpc.positions import lsn_message

Scope = Literal["any", "full", "increment"]
Progress = Callable[[int, int, int], object]
"""Called with bytes of the image that were read, of how many, and bytes that were written."""

_JOIN_TIMEOUT_S = 120.0
_SCOPES = {
    "any": backups_pb2.BACKUP_SCOPE_UNSPECIFIED,
    "full": backups_pb2.BACKUP_SCOPE_FULL,
    "increment": backups_pb2.BACKUP_SCOPE_INCREMENT,
}


async def make_backup(
    place: GrpcAddress,
    *,
    tablespace: str = "",
    url: str = "",
    scope: Scope = "any",
    jobs: int = 0,
    rate_bytes: int = 0,
    reached: LSN | None = None,
    progress: Progress = lambda _read, _total, _stored: None,
    note: Callable[[str], object] = lambda _text: None,
) -> Any:
    """Have a server back up a tablespace; the ``Backup`` when it is there.

    Args:
        url: the repository, as the server reaches it; empty: the one of its configuration.
        jobs, rate_bytes: 0: as the server is configured.
        reached: everything up to there is to be in it.

    Raises:
        RemoteError: the server refused it, or cannot be reached.
    """
    request = backups_pb2.MakeBackupRequest(
        tablespace=tablespace, url=url, scope=_SCOPES[scope], jobs=jobs, rate_bytes=rate_bytes
    )
    if reached is not None:
        request.reached.CopyFrom(lsn_message(reached))
    async with place.channel() as channel:
        stub: Any = backups_pb2_grpc.BackupsStub(channel)
        try:
            async for answer in stub.Make(request, metadata=place.metadata):
                for text in answer.notes:
                    note(text)
                progress(answer.read_bytes, answer.total_bytes, answer.stored_bytes)
                if answer.HasField("done"):
                    return answer.done
        except grpc.aio.AioRpcError as error:
            raise RemoteError.of(error) from error
    raise RemoteError(grpc.StatusCode.UNAVAILABLE, "08006", "the server ended the call before it was done")


async def join_backups(place: GrpcAddress, backups: Sequence[Any], *, url: str = "") -> str:
    """Record in the repository that backups belong together; the record's id. RemoteError."""
    async with place.channel() as channel:
        stub: Any = backups_pb2_grpc.BackupsStub(channel)
        request = backups_pb2.JoinBackupsRequest(url=url, backups=backups)
        try:
            joined = await stub.Join(request, metadata=place.metadata, timeout=_JOIN_TIMEOUT_S)
        except grpc.aio.AioRpcError as error:
            raise RemoteError.of(error) from error
    return str(joined.id)
