"""The service Backups (``herdpy/rpc/backups.proto``)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from herdpy._version import __version__
from herdpy.backup.errors import BackupError
from herdpy.backup.manifest import (
    BackupManifest,
    ClusterManifest,
    ClusterMember,
    is_backup_id,
    new_backup_id,
    write_cluster,
)
from herdpy.log.place import PlaceError, without_userinfo
from herdpy.rpc import backups_pb2, backups_pb2_grpc
from herdpy.rpc.positions import lsn_message, lsn_of
from herdpy_server.backup.messages import MakingProgress, Scope
from herdpy_server.backup.repositories import repository_for
from herdpy_server.service.calls import too_many
from herdpy_server.serving.backups import BackupDefaults, BackupRequest, backup_key
from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from herdpy_server.serving.node import ServedNode

MAX_BACKUPS = 4
"""That callers have made at a time: each is a process."""
_PROGRESS_S = 0.5
_MAX_JOBS = 64
_SCOPES: dict[int, Scope] = {
    backups_pb2.BACKUP_SCOPE_UNSPECIFIED: "any",
    backups_pb2.BACKUP_SCOPE_FULL: "full",
    backups_pb2.BACKUP_SCOPE_INCREMENT: "increment",
}


class BackupsService(backups_pb2_grpc.BackupsServicer):
    """Answers calls by the tablespaces' ``backups``.

    Args:
        defaults: what the configuration says now.
    """

    def __init__(self, tablespaces: ServedNode, defaults: Callable[[], BackupDefaults]) -> None:
        self._tablespaces = tablespaces
        self._defaults = defaults
        self._running = 0

    async def Make(  # type: ignore[override]  # the stubs know generators only
        self, request: Any, context: Any
    ) -> None:
        """See the protocol."""
        if self._running >= MAX_BACKUPS:
            raise too_many("backups under way", MAX_BACKUPS)
        self._running += 1
        try:
            await self._make(request, context)
        finally:
            self._running -= 1

    async def _make(self, request: Any, context: Any) -> None:
        served, defaults = self._tablespaces.find(request.tablespace), self._defaults()
        progress = backups_pb2.MakeBackupProgress()

        def report(now: MakingProgress) -> None:
            progress.read_bytes, progress.total_bytes = now.read_bytes, now.total_bytes
            progress.stored_bytes = now.stored_bytes

        making = served.backups.make(_request(request), defaults, report, progress.notes.append)
        task = asyncio.get_running_loop().create_task(making)
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=_PROGRESS_S)
                if not task.done():
                    await context.write(progress)
                    del progress.notes[:]
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
        progress.done.CopyFrom(_backup(task.result(), request.url or defaults.url))
        await context.write(progress)

    async def Join(self, request: Any, context: Any) -> Any:
        """See the protocol."""
        del context
        defaults = self._defaults()
        url = request.url or defaults.url
        members = tuple(ClusterMember(one.tablespace, one.log_id, one.id) for one in request.backups)
        if not members or not all(is_backup_id(one.backup) for one in members):
            raise SqlError("22023", "backups are joined by their ids, and there is one at least")
        key = await asyncio.to_thread(backup_key, defaults.key_file)
        return backups_pb2.JoinedBackups(
            id=await asyncio.to_thread(_joined, url, key, url == defaults.url, members)
        )


def _joined(url: str, key: bytes | None, is_own: bool, members: tuple[ClusterMember, ...]) -> str:
    manifest = ClusterManifest(new_backup_id(), time.time_ns() // 1000, members, __version__)
    try:
        write_cluster(repository_for(url, key, is_own=is_own), manifest)
    except PlaceError as error:
        raise SqlError("58030", str(error)) from error
    except BackupError as error:
        raise SqlError("55000", str(error), hint=error.hint) from error
    return manifest.id


def _request(request: Any) -> BackupRequest:
    """SqlError 22023 for what makes no sense."""
    scope = _SCOPES.get(request.scope)
    if scope is None:
        raise SqlError("22023", f"there is no scope {request.scope} of backups")
    if request.jobs > _MAX_JOBS:
        raise SqlError("22023", f"there may be {_MAX_JOBS} jobs at most, not {request.jobs}")
    found = BackupRequest(url=request.url, scope=scope, jobs=request.jobs, rate_bytes=request.rate_bytes)
    if request.HasField("reached"):
        return replace(found, reached=lsn_of(request.reached))
    return found


def _backup(made: BackupManifest, url: str) -> Any:
    return backups_pb2.Backup(
        id=made.id,
        tablespace=made.tablespace,
        log_id=made.log_id,
        kind=made.kind,
        parent=made.parent or "",
        image=lsn_message(made.image_lsn),
        end=lsn_message(made.end_lsn),
        raw_bytes=made.raw_bytes,
        stored_bytes=made.stored_bytes,
        url=without_userinfo(url),
        node=made.node,
    )
