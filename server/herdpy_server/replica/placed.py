"""The replicas that are placed on a node: begun and removed as tablespaces come and go.

Below ``node``, which has the list of tablespaces watched; above ``replica``. What is asked for of one
tablespace is done in that order, each change in a task of its own.

A dropped tablespace is marked first. Every node closes its replica and deletes its directory; one node, the
first of those that are there, waits until no replica is left that could write, and deletes the ledgers, then
the znodes. When it goes away before that, the next one goes on. A node that was away finds the tablespace
among the dropped ones when it comes back (``Layout.dropped``), and its directory goes then. What nobody knows
of is kept, and logged: a wrong ZooKeeper must not cost data.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from herdpy.bookkeeper import BookKeeperError, NoSuchLedgerError
from herdpy.bookkeeper.metadata.znodes import Znode
from herdpy.log.bookkeeper import ZnodeLedgerList, is_ahead
from herdpy.log.bookkeeper.settings import LOG
from herdpy.log.errors import LogError
from herdpy.log.files import replace_file
from herdpy.log.ledger_list import LedgerListState
from herdpy.log.lsn import START
from herdpy.log.staging import STAGED
from herdpy_server.cluster.tablespaces import TablespaceInfo
from herdpy_server.replica.files import kept, position_of, set_aside
from herdpy_server.replica.host import Host
from herdpy_server.replica.replica import Replica
from herdpy_server.tablespace.directory import REPLICA_MARKER
from herdpy_sql.errors import SqlError

logger = logging.getLogger("herdpy.node")

KEPT = "kept"
"""Beside the replicas' directory: what was set aside, for an operator."""

Later = Callable[[str, Coroutine[Any, Any, None]], None]

_RETRY_S = 1.0


class Removal:
    """Of one node; on the loop."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def begin(self, info: TablespaceInfo) -> None:
        """A tablespace is dropped."""
        if info.uuid not in self._tasks:
            task = asyncio.get_running_loop().create_task(self._remove(info), name="removal")
            self._tasks[info.uuid] = task
            task.add_done_callback(lambda _task: self._tasks.pop(info.uuid, None) and None)

    async def close(self) -> None:
        """Leave the rest to other nodes, or to the next start."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _remove(self, info: TablespaceInfo) -> None:
        membership = self._host.coordination.membership
        changed = asyncio.Event()
        stop = membership.on_change(lambda _node, _record: changed.set())
        try:
            while self._is_there(info):
                changed.clear()
                nodes = membership.nodes
                if nodes and min(nodes) == self._host.node:
                    try:
                        await self._until_unused(info)
                        await self._purge(info)
                        return
                    except (BookKeeperError, LogError, SqlError) as error:
                        logger.warning("%s is not removed yet: %s", info.name, error)
                        await asyncio.sleep(_RETRY_S)
                else:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(_RETRY_S):
                            await changed.wait()
        finally:
            stop()

    def _is_there(self, info: TablespaceInfo) -> bool:
        now = self._host.coordination.tablespaces.known.get(info.name)
        return now is not None and now.uuid == info.uuid

    async def _until_unused(self, info: TablespaceInfo) -> None:
        """Until no node has a replica, or leads: then nobody makes ledgers any more."""
        paths, znodes = self._host.coordination.layout.tablespace(info.name), self._host.bk.znodes
        changed = asyncio.Event()
        used: dict[str, bool] = {}

        def listed(names: list[str] | None) -> None:
            used["replicas"] = bool(names)
            changed.set()

        def led(znode: Znode | None) -> None:
            used["leader"] = znode is not None
            changed.set()

        watches = [znodes.watch_children(paths.replicas, listed), znodes.watch_data(paths.leader, led)]
        try:
            while len(used) < len(watches) or any(used.values()):
                changed.clear()
                await changed.wait()
        finally:
            for watch in watches:
                watch.cancel()

    async def _purge(self, info: TablespaceInfo) -> None:
        host = self._host
        paths = host.coordination.layout.tablespace(info.name)
        state = await ZnodeLedgerList(host.bk.znodes, paths.ledgers).read()
        if state is not None:
            await self._delete_ledgers(state)
        await host.coordination.tablespaces.purge(info)
        logger.info("tablespace removed", extra={"tablespace": info.name})

    async def _delete_ledgers(self, state: LedgerListState) -> None:
        """Those of the list, those that left it or never came there, and staged ones, by their metadata."""
        bk = self._host.bk
        doomed = {ledger.ledger_id for ledger in state.ledgers}
        for ledger_id, known in (await bk.custom_metadata()).items():
            if state.log_id.encode() not in (known.get(LOG), known.get(STAGED)):
                continue
            with contextlib.suppress(NoSuchLedgerError):
                custom = (await bk.ledger_metadata(ledger_id)).custom_metadata
                if state.log_id.encode() in (custom.get(LOG), custom.get(STAGED)):
                    doomed.add(ledger_id)
        for ledger_id in sorted(doomed):
            with contextlib.suppress(NoSuchLedgerError):
                await bk.delete_ledger(ledger_id)

    # Directories.

    async def sweep(self, later: Later) -> None:
        """Delete directories of replicas that are known to be no longer this node's.

        Args:
            later: makes a change of a tablespace, in order with others of the same.
        """
        loop = asyncio.get_running_loop()
        for path, _uuid in await loop.run_in_executor(None, marked, self._host.directory):
            later(path.name, self._sweep(path))

    async def _sweep(self, path: Path) -> None:
        loop, coordination = asyncio.get_running_loop(), self._host.coordination
        marker = path / REPLICA_MARKER
        uuid = await loop.run_in_executor(None, lambda: marker.read_text().strip())
        now = next((one for one in coordination.tablespaces.known.values() if one.uuid == uuid), None)
        if now is not None and not now.dropped and self._host.node in now.replicas:
            return
        if now is None and not await coordination.tablespaces.was_dropped(uuid):
            logger.warning(
                "the directory of a tablespace that this cluster does not know is not removed",
                extra={"path": str(path)},
            )
            return
        if now is not None and not now.dropped:
            await self.remove_moved(path, now)
            return
        logger.info("a replica's directory is removed", extra={"path": str(path)})
        await loop.run_in_executor(self._host.threads.checkpoints, shutil.rmtree, path, True)

    async def remove_moved(self, path: Path, info: TablespaceInfo) -> None:
        """Remove a replica that is somewhere else now, but what it has may be nowhere else: then it is set
        aside, in ``kept`` of the data directory.
        """
        loop, threads = asyncio.get_running_loop(), self._host.threads
        if await self._is_evidence(path, info):
            place = await loop.run_in_executor(
                threads.checkpoints, set_aside, path, self._host.directory.parent / KEPT
            )
            logger.error(
                "a replica that is ahead of the log is set aside",
                extra={"tablespace": info.name, "path": str(place)},
            )
            return
        logger.info("a replica's directory is removed", extra={"path": str(path)})
        await loop.run_in_executor(threads.checkpoints, shutil.rmtree, path, True)

    async def _is_evidence(self, path: Path, info: TablespaceInfo) -> bool:
        loop, threads = asyncio.get_running_loop(), self._host.threads
        if await loop.run_in_executor(threads.checkpoints, kept, path) is not None:
            return True
        position = await loop.run_in_executor(threads.checkpoints, position_of, path / "store")
        paths = self._host.coordination.layout.tablespace(info.name)
        state = await ZnodeLedgerList(self._host.bk.znodes, paths.ledgers).read()
        return state is not None and position != START and is_ahead(state, position)


def marked(directory: Path) -> list[tuple[Path, str]]:
    """The replicas' directories in ``directory``, and the uuid of the tablespace of each."""
    if not directory.is_dir():
        return []
    found = [(path, path / REPLICA_MARKER) for path in sorted(directory.iterdir())]
    return [(path, marker.read_text().strip()) for path, marker in found if marker.is_file()]


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

    def changed(self, name: str, info: TablespaceInfo | None) -> None:
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
    marker = path / REPLICA_MARKER
    return marker.read_text().strip() if marker.is_file() else ""


def _mark_own(path: Path, uuid: str) -> None:
    marker = path / REPLICA_MARKER
    path.mkdir(parents=True, exist_ok=True)
    if not marker.is_file():
        replace_file(marker, f"{uuid}\n".encode())
