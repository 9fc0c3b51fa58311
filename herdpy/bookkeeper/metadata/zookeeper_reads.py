"""Reads of one znode through kazoo, which may leave a one-shot watch.

Between ``KazooZnodes``, which repeats a read when the connection is lost, and the bridge to kazoo's threads.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from herdpy.bookkeeper.metadata.znodes import NoNodeError, Znode
from herdpy.bookkeeper.metadata.zookeeper_bridge import Bridge

T = TypeVar("T")

Fire = Callable[[Any], None]
"""What kazoo calls, in one of its threads, when a one-shot watch fires."""


class ZnodeReads:
    """Each method asks once; it raises kazoo's own error when the connection is lost (``LOST``)."""

    def __init__(self, client: Any, bridge: Bridge) -> None:
        self._client = client
        self._bridge = bridge

    async def data(self, path: str, fire: Fire | None = None) -> Znode:
        """A znode; raises NoNodeError, and then nothing is watched."""
        data, stat = await self._bridge.request(path, lambda: self._client.get_async(path, fire))
        return Znode(data or b"", stat.version, stat.ctime, stat.czxid)

    async def children(self, path: str, fire: Fire | None = None) -> list[str]:
        """The names of its children, in any order; raises NoNodeError, and then nothing is watched."""
        names: list[str] = await self._bridge.request(
            path, lambda: self._client.get_children_async(path, fire)
        )
        return names

    async def data_watched(self, path: str, fire: Fire) -> Znode | None:
        """The znode, watched; None when there is none, and then its creation is watched."""
        return await self._watched(path, fire, lambda: self.data(path, fire))

    async def children_watched(self, path: str, fire: Fire) -> list[str] | None:
        """The sorted names of the children, watched as above."""
        names = await self._watched(path, fire, lambda: self.children(path, fire))
        return None if names is None else sorted(names)

    async def _watched(self, path: str, fire: Fire, read: Callable[[], Awaitable[T]]) -> T | None:
        while True:
            try:
                return await read()
            except NoNodeError:
                made_meanwhile = await self._bridge.request(
                    path, lambda: self._client.exists_async(path, fire)
                )
                if made_meanwhile is None:
                    return None
