"""The level of a cluster: what its servers may write while some of them are of an older version.

Beside ``membership``, below ``tablespaces``. One znode has it. A cluster that is made begins with the newest
level of its maker; where there are tablespaces and no such znode, version 0.1 has made it: level 1.

An operator raises it. Every tablespace's record gets the new level as its format first: a server that does
not know it has no replicas from then on. Only then the znode has it, and only then may anything new be
written. So whatever ends in between, no server meets what it cannot read; the same command goes on.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from herdpy.bookkeeper.metadata.znodes import (
    NodeExistsError,
    NoNodeError,
    Znodes,
    ZnodeVersionError,
    ZooKeeperBackoff,
)
from herdpy.formats import NEWEST_LEVEL
from herdpy_server.cluster.certain import create_own
from herdpy_server.cluster.errors import NewerClusterError
from herdpy_server.cluster.layout import Layout, LevelRecord, NodeRecord, decode, encode

FIRST = 1
_PATIENCE_S = 10.0


async def read_level(znodes: Znodes, layout: Layout) -> int:
    """The level of now. MalformedMetadataError; BookKeeperError: ZooKeeper does not answer."""
    found = await znodes.exists(layout.level)
    return FIRST if found is None else decode(LevelRecord, layout.level, found.data).level


def check_known(level: int) -> None:
    """NewerClusterError when it is above the newest that is known here."""
    if level > NEWEST_LEVEL:
        raise NewerClusterError(level)


async def join_level(znodes: Znodes, layout: Layout, node: str) -> int:
    """The level of a cluster that this node is about to join; a new cluster gets the newest.

    Raises:
        NewerClusterError: this node does not know it. Nothing was changed.
        MalformedMetadataError: the znode holds something else.
        BookKeeperError: ZooKeeper does not answer.
    """
    found = await znodes.exists(layout.level)
    if found is None and not await _has_tablespaces(znodes, layout):
        data = encode(LevelRecord(level=NEWEST_LEVEL, node=node, raised_us=time.time_ns() // 1000))
        found = await create_own(znodes, layout.level, data, data.__eq__)
        if found is None:
            return NEWEST_LEVEL
    level = FIRST if found is None else decode(LevelRecord, layout.level, found.data).level
    check_known(level)
    return level


async def _has_tablespaces(znodes: Znodes, layout: Layout) -> bool:
    try:
        return bool(await znodes.children(layout.tablespaces))
    except NoNodeError:
        return False


def hindrance(nodes: Mapping[str, NodeRecord], level: int) -> str:
    """Why a cluster of these nodes cannot get that level; empty: nothing is in the way."""
    old = sorted(one.node for one in nodes.values() if one.level < level)
    if not old:
        return ""
    said = ", ".join(f"{name} ({nodes[name].version or 'no version said'})" for name in old)
    return f"servers that do not know level {level} are running: {said}"


async def write_level(znodes: Znodes, layout: Layout, level: int, node: str) -> None:
    """Have the cluster at that level, or above. BookKeeperError: ZooKeeper does not answer."""
    patience = ZooKeeperBackoff(_PATIENCE_S)
    data = encode(LevelRecord(level=level, node=node, raised_us=time.time_ns() // 1000))
    while True:
        found = await znodes.exists(layout.level)
        if found is not None and decode(LevelRecord, layout.level, found.data).level >= level:
            return
        try:
            if found is None:
                await znodes.create(layout.level, data)
            else:
                await znodes.set(layout.level, data, found.version)
            return
        except (NodeExistsError, ZnodeVersionError):
            await patience.pause()
