"""The replicas that are placed on a node: begun and removed as tablespaces come and go.

Beside ``node``, which has the list of tablespaces watched and passes on what is told; above ``replica``. What
is asked for of one tablespace is done in that order, each change in a task of its own.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from herdpy.log.lsn import START
from herdpy_server.cluster.tablespace_info import TablespaceInfo
from herdpy_server.replica.files import position_of, set_aside
from herdpy_server.replica.host import Host
from herdpy_server.replica.removal import KEPT, MARKER, Removal
from herdpy_server.replica.replica import Replica

logger = logging.getLogger("herdpy.node")


class PlacedReplicas:
    """Those of one node; to be made on the loop.

    Args:
        replicas: the node's, by the name of their tablespace; kept here as they come and go.
    """

    def __init__(self, host: Host, removal: Removal, replicas: dict[str, Replica]) -> None:
        self._host = host
        self._removal = removal
        self._replicas = replicas
        self._loop = asyncio.get_running_loop()
        self._changes: dict[str, asyncio.Task[None]] = {}  # the newest of each tablespace
        self._is_closed = False

    def told(self, name: str, info: TablespaceInfo | None) -> None:
        """A tablespace was made, changed or removed (None)."""
        replica = self._replicas.get(name)
        wanted = info is not None and not info.dropped and self._host.node in info.replicas
        if info is not None and info.dropped and not self._is_closed:
            self._removal.begin(info)
        if replica is not None and (not wanted or info is None or info.uuid != replica.info.uuid):
            del self._replicas[name]
            is_moved = info is not None and not info.dropped and info.uuid == replica.info.uuid
            self.later(name, self._remove(replica, is_moved=is_moved))
            replica = None
        if not wanted or self._is_closed:
            return
        assert info is not None
        if replica is not None:
            replica.altered(info)
        else:
            self.later(name, self._begin(info))

    def stop(self) -> None:
        """Begin no more replicas."""
        self._is_closed = True

    async def settled(self) -> None:
        """Wait for the changes under way."""
        await asyncio.gather(*self._changes.values(), return_exceptions=True)

    async def _begin(self, info: TablespaceInfo) -> None:
        await self._make_room(info)
        if info.name in self._replicas or self._is_closed:
            return
        replica = self._replicas[info.name] = Replica(self._host, info)
        replica.start()

    async def _make_room(self, info: TablespaceInfo) -> None:
        """What lies where the replica goes is its own, or goes: it was of a tablespace of the same name that
        was dropped. What this cluster does not know is set aside: its ZooKeeper may be another one.
        """
        path, opening = self._host.path(info.name), self._host.threads.opening
        run = self._loop.run_in_executor
        there = await run(opening, _uuid_in, path)
        if there not in (None, info.uuid):
            assert there is not None
            is_dropped = bool(there) and await self._host.coordination.tablespaces.was_dropped(there)
            if is_dropped or await run(opening, position_of, path / "store") == START:
                await run(opening, shutil.rmtree, path)
            else:
                place = await run(opening, set_aside, path, self._host.directory.parent / KEPT)
                logger.error(
                    "a replica of a tablespace that this cluster does not know is set aside",
                    extra={"tablespace": info.name, "path": str(place)},
                )
        await run(opening, _mark_own, path, info.uuid)

    async def _remove(self, replica: Replica, *, is_moved: bool) -> None:
        """A tablespace was dropped, or its replica is somewhere else now."""
        await replica.close(forget=True)
        path = self._host.path(replica.info.name)
        if is_moved:
            await self._removal.remove_moved(path, replica.info)
        else:
            await self._loop.run_in_executor(self._host.threads.checkpoints, shutil.rmtree, path, True)

    def later(self, name: str, change: Coroutine[Any, Any, None]) -> None:
        """Make a change, after those of the same tablespace that were asked for before."""
        before = self._changes.get(name)
        self._changes[name] = task = self._loop.create_task(self._in_order(change, before))

        def done(_task: asyncio.Task[None]) -> None:
            if self._changes.get(name) is task:
                del self._changes[name]

        task.add_done_callback(done)

    async def _in_order(self, change: Coroutine[Any, Any, None], before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait([before])
        try:
            await change
        except Exception:
            logger.exception("a change of tablespaces failed")


def _uuid_in(path: Path) -> str | None:
    """Of which tablespace the directory is; empty when it does not say so, None when there is none."""
    if not path.exists():
        return None
    marker = path / MARKER
    return marker.read_text().strip() if marker.is_file() else ""


def _mark_own(path: Path, uuid: str) -> None:
    marker = path / MARKER
    path.mkdir(parents=True, exist_ok=True)
    if not marker.is_file():
        new = path / f"{MARKER}.new"
        new.write_text(uuid + "\n")
        new.replace(marker)
