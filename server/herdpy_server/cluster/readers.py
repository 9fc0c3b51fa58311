"""Leased readers keep the log from being trimmed (backups, Spark jobs, seedings); what is published for them.

Above ``positions``. Only who holds the ``publishing`` znode changes ``published``; readers choose from it and
lease (``publishing.publisher`` says how that and the removal of old snapshots keep out of each other's way).
 A lease is a persistent znode with an expiry: it outlives the reader's session, so a
reader that lost its connection for a while loses nothing, and one that died is forgotten in time.
"""

from __future__ import annotations

import asyncio
import logging

import msgspec

from herdpy.bookkeeper.errors import BookKeeperError
from herdpy.bookkeeper.metadata.znodes import NoNodeError, Znodes, ZnodeVersionError, ZooKeeperBackoff
from herdpy.log.lsn import LSN
from herdpy_server.cluster.certain import change, create_own, delete_own, set_from, token
from herdpy_server.cluster.errors import PositionTrimmedError
from herdpy_server.cluster.layout import (
    PublishedRecord,
    PublishingRecord,
    ReaderRecord,
    TablespacePaths,
    decode,
    encode,
)
from herdpy_server.cluster.positions import now_us, read_needs, trimmed_before
from herdpy_server.cluster.tablespaces import TablespaceInfo

_log = logging.getLogger("herdpy.cluster")

_PATIENCE_S = 5.0


class ReaderLease:
    """Entries after ``lsn`` are kept until it expires; made by ``lease_reader``."""

    def __init__(
        self, znodes: Znodes, paths: TablespacePaths, reader: str, record: ReaderRecord, lease_s: float
    ) -> None:
        self.reader = reader
        self.record = record
        self._znodes = znodes
        self._paths = paths
        self._path = f"{paths.readers}/{reader}"
        self._lease_s = lease_s

    async def renew(self, lsn: LSN | None = None) -> None:
        """Keep it for ``lease_s`` from now; with ``lsn`` what is before that is no longer needed.

        Raises:
            PositionTrimmedError: it had expired, and was trimmed or removed.
            ZooKeeperUnavailableError: it may not be renewed.
        """
        lsn = self.record.lsn if lsn is None else max(lsn, self.record.lsn)
        record = msgspec.structs.replace(self.record, lsn=lsn, expires_us=_expiry(self._lease_s))
        data = encode(record)
        version = None
        while version is None:  # others who share the lease may renew it between the two
            znode = await self._znodes.exists(self._path)
            try:
                if znode is None:
                    raise NoNodeError(self._path)
                version = await set_from(
                    self._znodes, self._path, data, znode.version, patience=ZooKeeperBackoff(_PATIENCE_S)
                )
            except NoNodeError:
                raise PositionTrimmedError(f"the lease of reader {self.reader} had expired") from None
        self.record = record
        await _check_kept(self._znodes, self._paths, record)

    async def keep(self) -> None:
        """Renew it for ever, however long ZooKeeper is away. PositionTrimmedError when it was lost."""
        while True:
            await asyncio.sleep(self._lease_s / 4)
            try:
                await self.renew()
            except PositionTrimmedError:
                raise
            except BookKeeperError as error:
                _log.warning(
                    "a reader's lease is renewed later",
                    extra={"purpose": self.record.purpose, "reason": str(error)},
                )

    async def release(self) -> None:
        """Nothing is needed any more."""
        await delete_own(self._znodes, self._path, lambda _: True, patience=ZooKeeperBackoff(_PATIENCE_S))


async def lease_reader(
    znodes: Znodes,
    paths: TablespacePaths,
    lsn: LSN,
    purpose: str,
    *,
    lease_s: float,
    reader: str = "",
    entries: bool = True,
) -> ReaderLease:
    """Keep the entries after ``lsn`` for ``lease_s`` seconds, until renewed.

    Args:
        entries: False keeps the published snapshot at ``lsn`` alone.

    Raises:
        PositionTrimmedError: they are gone, or about to go, or the tablespace is. (Whether the ledger
            list reaches back so far is the caller's to look at, after this.)
        ZooKeeperUnavailableError: ZooKeeper does not answer; a lease that was made expires.
    """
    reader = reader or token()
    record = ReaderRecord(lsn=lsn, expires_us=_expiry(lease_s), purpose=purpose, entries=entries)
    data = encode(record)
    path = f"{paths.readers}/{reader}"
    try:
        other = await create_own(
            znodes,
            path,
            data,
            lambda found: found == data,
            within=paths.info,
            patience=ZooKeeperBackoff(_PATIENCE_S),
        )
    except NoNodeError:
        raise PositionTrimmedError(f"there is no tablespace {paths.info}") from None
    if other is not None:
        raise ValueError(f"there is a reader {reader} already")
    lease = ReaderLease(znodes, paths, reader, record, lease_s)
    try:
        await _check_kept(znodes, paths, record)
    except PositionTrimmedError:
        await lease.release()
        raise
    return lease


async def _check_kept(znodes: Znodes, paths: TablespacePaths, record: ReaderRecord) -> None:
    """After the lease is written: see ``positions.claim_trim``."""
    if not record.entries:
        return
    before = await trimmed_before(znodes, paths)
    if before > record.lsn:
        raise PositionTrimmedError(
            f"entries after {record.lsn} were requested, those up to {before} may be gone"
        )


async def found_lease(znodes: Znodes, paths: TablespacePaths, reader: str, *, lease_s: float) -> ReaderLease:
    """A lease that was made elsewhere, to be renewed or released here.

    Raises:
        PositionTrimmedError: it had expired, and was removed.
        MalformedMetadataError, ZooKeeperUnavailableError: it cannot be read.
    """
    path = f"{paths.readers}/{reader}"
    znode = await znodes.exists(path)
    if znode is None:
        raise PositionTrimmedError(f"the lease of reader {reader} had expired")
    return ReaderLease(znodes, paths, reader, decode(ReaderRecord, path, znode.data), lease_s)


async def sweep_readers(znodes: Znodes, paths: TablespacePaths) -> int:
    """Remove the leases that have expired; how many. For the leader, now and then."""
    swept = 0
    for reader, record in (await read_needs(znodes, paths)).readers.items():
        if record.expires_us >= now_us():
            continue
        path = f"{paths.readers}/{reader}"
        try:
            znode = await znodes.get(path)
            if znode.data == encode(record):
                await znodes.delete(path, znode.version)
                swept += 1
                _log.info("reader's lease expired", extra={"reader": reader, "purpose": record.purpose})
        except (NoNodeError, ZnodeVersionError):
            pass
    return swept


def _expiry(lease_s: float) -> int:
    return now_us() + int(lease_s * 1e6)


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


async def record_published(
    znodes: Znodes, paths: TablespacePaths, record: PublishedRecord
) -> PublishedRecord:
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
    """Held by the one node that publishes, or makes a backup that was due; gone with its session.

    Args:
        path: of the znode.
    """

    def __init__(self, znodes: Znodes, paths: TablespacePaths, node: str, path: str = "") -> None:
        self._znodes = znodes
        self._paths = paths
        self._path = path or paths.publishing
        self._data = encode(PublishingRecord(node=node, tag=token()))

    async def take(self) -> str | None:
        """None when it is held now; else the node that holds it."""
        other = await create_own(
            self._znodes,
            self._path,
            self._data,
            self._data.__eq__,
            ephemeral=True,
            within=self._paths.info,
            patience=ZooKeeperBackoff(_PATIENCE_S),
        )
        return None if other is None else decode(PublishingRecord, self._path, other.data).node

    async def release(self) -> None:
        """Let another take it."""
        await delete_own(self._znodes, self._path, self._data.__eq__, patience=ZooKeeperBackoff(_PATIENCE_S))
