"""Waiting for a tablespace to have a leader, or another one: by watches, without asking again and again.

Part of ``administration``. A node leads when the election says so and its replica says "leading": elected, it
has the log to recover first.
"""

from __future__ import annotations

import asyncio
import functools

from herdpy.bookkeeper.metadata.znodes import Watch, Znode, Znodes
from herdpy_server.cluster.errors import MalformedMetadataError
from herdpy_server.cluster.layout import LeaderRecord, R, ReplicaRecord, TablespacePaths, decode
from herdpy_server.replica.state import ReplicaState


class _News:
    """What the watches have told last."""

    def __init__(self, paths: TablespacePaths) -> None:
        self.paths = paths
        self.leader: LeaderRecord | None = None
        self.states: dict[str, str] = {}
        self.changed = asyncio.Event()

    def tell_leader(self, znode: Znode | None) -> None:
        self.leader = _read(LeaderRecord, self.paths.leader, znode)
        self.changed.set()

    def tell_replica(self, node: str, znode: Znode | None) -> None:
        record = _read(ReplicaRecord, f"{self.paths.replicas}/{node}", znode)
        self.states[node] = "" if record is None else record.state
        self.changed.set()

    def leads(self, node: str | None) -> bool:
        leader = self.leader
        if leader is None or node not in (None, leader.node):
            return False
        return self.states.get(leader.node) == ReplicaState.LEADING.value


def _read(kind: type[R], path: str, znode: Znode | None) -> R | None:
    try:
        return None if znode is None else decode(kind, path, znode.data)
    except MalformedMetadataError:
        return None


async def await_leader(
    znodes: Znodes, paths: TablespacePaths, node: str | None, timeout_s: float
) -> str | None:
    """Who leads, once ``node`` does (None: anybody); None when the time is over."""
    news = _News(paths)
    watches: dict[str, Watch] = {"": znodes.watch_data(paths.leader, news.tell_leader)}
    try:
        async with asyncio.timeout(timeout_s):
            while not news.leads(node):
                for name in {one for one in (node, news.leader and news.leader.node) if one} - watches.keys():
                    told = functools.partial(news.tell_replica, name)
                    watches[name] = znodes.watch_data(f"{paths.replicas}/{name}", told)
                await news.changed.wait()
                news.changed.clear()
    except TimeoutError:
        return None
    finally:
        for watch in watches.values():
            watch.cancel()
    assert news.leader is not None
    return news.leader.node
