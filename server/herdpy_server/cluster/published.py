"""What is published of a tablespace, told through ZooKeeper: which snapshots there are, who makes one now.

Above ``certain``. Only who holds the ``publishing`` znode changes ``published``. Readers choose from it and
lease; see ``publishing.publisher`` for how that and the removal of old snapshots keep out of each other's
way.
"""

from __future__ import annotations

from herdpy.bookkeeper.metadata.backoff import ZooKeeperBackoff
from herdpy.bookkeeper.metadata.znodes import Znodes
from herdpy_server.cluster.certain import change, create_own, delete_own, token
from herdpy_server.cluster.layout import (
    PublishedRecord,
    PublishingRecord,
    TablespacePaths,
    decode,
    encode,
)
from herdpy_server.cluster.tablespace_info import TablespaceInfo

_PATIENCE_S = 5.0


async def read_published(znodes: Znodes, paths: TablespacePaths) -> PublishedRecord | None:
    """What is published now; None: nothing was.

    Raises:
        MalformedMetadataError, ZooKeeperUnavailableError: it cannot be read.
    """
    znode = await znodes.exists(paths.published)
    return None if znode is None else decode(PublishedRecord, paths.published, znode.data)


async def published_of(
    znodes: Znodes, paths: TablespacePaths, info: TablespaceInfo
) -> PublishedRecord | None:
    """As ``read_published``, of a tablespace that publishes; None: nothing is at the place it has now."""
    if not info.snapshot_url:
        return None
    found = await read_published(znodes, paths)
    return found if found is not None and found.url == info.snapshot_url else None


async def tell_published(znodes: Znodes, paths: TablespacePaths, record: PublishedRecord) -> PublishedRecord:
    """Put a record in the place of an older one; returns what is there then.

    One that tells of a newer snapshot at the same place stays: who wrote it held the znode after us.
    """

    def apply(data: bytes) -> bytes:
        before = decode(PublishedRecord, paths.published, data)
        newer = before.url == record.url and before.lsn > record.lsn
        return data if newer else encode(record)

    first, patience = encode(record), ZooKeeperBackoff(_PATIENCE_S)
    other = await create_own(
        znodes, paths.published, first, first.__eq__, within=paths.info, patience=patience
    )
    if other is None:
        return record
    return decode(PublishedRecord, paths.published, await change(znodes, paths.published, apply, patience))


class PublishingLock:
    """Held by the one node that publishes; gone with its session."""

    def __init__(self, znodes: Znodes, paths: TablespacePaths, node: str) -> None:
        self._znodes = znodes
        self._paths = paths
        self._data = encode(PublishingRecord(node=node, tag=token()))

    async def take(self) -> str | None:
        """None when it is held now; else the node that holds it."""
        other = await create_own(
            self._znodes,
            self._paths.publishing,
            self._data,
            self._data.__eq__,
            ephemeral=True,
            within=self._paths.info,
            patience=ZooKeeperBackoff(_PATIENCE_S),
        )
        return None if other is None else decode(PublishingRecord, self._paths.publishing, other.data).node

    async def release(self) -> None:
        """Let another take it."""
        await delete_own(
            self._znodes, self._paths.publishing, self._data.__eq__, patience=ZooKeeperBackoff(_PATIENCE_S)
        )
