"""Getting another replica's state: for one that is new, too far behind, or found to differ.

Part of ``replica``. A donor makes a snapshot of its store and sends it over gRPC, checksummed, while a
reader's lease keeps the log from the snapshot's position on. What has arrived, and of which snapshot, is on
the disk: after a broken connection, or the end of this process, the download goes on where it was if the
donor still has that snapshot; otherwise it begins anew, with another donor where the first is gone.

    <replica>/seed/FROM        which snapshot of which node (JSON)
    <replica>/seed/data.mdb    its file, once it is whole; until then data.mdb.part and what belongs to it
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import shutil
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec

from herdpy.bookkeeper import BookKeeperError
from herdpy.bookkeeper.metadata.znodes import Znodes
from herdpy.log.bookkeeper import ZnodeLedgerList
from herdpy.log.lsn import LSN, START
from herdpy.rpc.address import GrpcAddress, RemoteError, SnapshotDamagedError
from herdpy.rpc.snapshots import RemoteSnapshot, SnapshotClient
from herdpy_server.cluster.coordination import Coordination
from herdpy_server.cluster.errors import PositionTrimmedError
from herdpy_server.cluster.layout import Address, ReplicaRecord, TablespacePaths
from herdpy_server.cluster.positions import read_needs
from herdpy_server.cluster.readers import ReaderLease, lease_reader
from herdpy_server.cluster.secret import NodeSecret
from herdpy_server.cluster.tablespaces import TablespaceInfo
from herdpy_server.replica.files import DATA
from herdpy_server.replica.guard import ReplicaState
from herdpy_server.serving.node import SeedingProgress
from herdpy_sql.errors import SqlError


@dataclass(frozen=True, slots=True)
class Credentials:
    """A role of the other nodes; where none is said, the secret of the cluster.

    Attributes:
        user: the role; None: the secret proves that this is a node.
        password_file: has its password in the first line; read each time, so it may be changed.
        tls: whether the nodes' gRPC addresses are TLS.
        ca: a PEM file with those that may have signed the nodes' certificates.
    """

    user: str | None = None
    password_file: Path | None = None
    tls: bool = False
    ca: Path | None = None

    def tls_context(self) -> ssl.SSLContext | None:
        """What encrypts connections to other nodes; None: nothing does. OSError: ``ca`` cannot be read."""
        return ssl.create_default_context(cafile=self.ca) if self.tls else None

    def place(self, address: Address, proof: Callable[[], str | None] | None = None) -> GrpcAddress:
        """Another node's gRPC address. OSError when the file of the password cannot be read.

        Args:
            proof: of being a node, used where no role is said.
        """
        if self.user is None:
            return GrpcAddress(address.host, address.port, tls=self.tls, ca=self.ca, proof=proof)
        password = None
        if self.password_file is not None:
            password = self.password_file.read_text().split("\n", 1)[0].rstrip("\r")
        return GrpcAddress(address.host, address.port, self.user, password, self.tls, self.ca)


logger = logging.getLogger("herdpy.replica")

_FROM = "FROM"
_LEASE_S = 120.0
_TELL_S = 5.0
_FOLLOWS, _LEADS = ReplicaState.FOLLOWING.value, ReplicaState.LEADING.value

ReportSeeding = Callable[[SeedingProgress], object]


class NoDonorError(SqlError):
    """57P03: there is no other replica whose state could be taken now."""


class SeedingFailedError(SqlError):
    """08006: a donor did not give its state as it should; to be tried again."""


class _OlderError(Exception):
    """A donor's store has less than the one in whose place it would come."""


class _Origin(msgspec.Struct, frozen=True):
    """What a download is of."""

    donor: str
    snapshot: str
    tablespace: str  # its uuid
    format: int = 1


class Seeded:
    """A snapshot that has arrived. The log after it is kept until :meth:`release`."""

    def __init__(self, data: Path, lsn: LSN, lease: ReaderLease) -> None:
        self.data = data
        self.lsn = lsn
        self._lease = lease

    async def release(self) -> None:
        """The replica's own position is published: nothing need be kept for the seeding any more."""
        with contextlib.suppress(BookKeeperError):  # it expires
            await self._lease.release()


class Seeding:
    """Of one node.

    Attributes:
        patience_s: so long a donor is waited for that sends nothing; then it is looked at again who there is.
    """

    patience_s = 5.0

    def __init__(
        self,
        node: str,
        znodes: Znodes,
        coordination: Coordination,
        credentials: Credentials,
        secret: NodeSecret,
    ) -> None:
        self._node = node
        self._znodes = znodes
        self._coordination = coordination
        self._credentials = credentials
        self._proof = partial(secret.proof, node)

    async def seed(
        self, info: TablespaceInfo, directory: Path, report: ReportSeeding, least: LSN = START
    ) -> Seeded:
        """Get the store of another replica into ``directory``.

        Args:
            least: what the store in whose place it comes has: an older one is not taken.

        Raises:
            NoDonorError: no other replica can give one now.
            SeedingFailedError, BookKeeperError, LogError, PositionTrimmedError, OSError: it may be tried
                again, and goes on where it was if that is possible.
        """
        donors = await self._donors(info, least)
        kept = await asyncio.to_thread(_kept, directory, info.uuid)
        if kept is not None:
            donors.sort(key=lambda one: one.node != kept.donor)
        failures = []
        for donor in donors:
            resumed = kept.snapshot if kept is not None and kept.donor == donor.node else None
            try:
                return await self._from(info, donor, resumed, directory, report, least)
            except (RemoteError, SnapshotDamagedError, PositionTrimmedError, _OlderError) as error:
                failures.append(f"{donor.node}: {error}")
                logger.warning(
                    "a donor refused its snapshot",
                    extra={"tablespace": info.name, "donor": donor.node, "reason": str(error)},
                )
                if self._is_there(donor.node) and _may_go_on(error):
                    break  # what has arrived is worth another try with the same donor
        if not failures:
            more = "" if least == START else f", up to {least} at least,"
            raise NoDonorError(
                "57P03", f"no other replica of tablespace {info.name} can give its state{more} now"
            )
        raise SeedingFailedError("08006", "no replica gave its state", detail="; ".join(failures))

    async def _donors(self, info: TablespaceInfo, least: LSN) -> list[ReplicaRecord]:
        """The replicas to be asked, the best first: a follower before the leader, which has enough to do."""
        needs = await read_needs(self._znodes, self._coordination.layout.tablespace(info.name))
        able = [
            one
            for one in needs.replicas.values()
            if one.state in (_FOLLOWS, _LEADS)
            and one.node != self._node
            and one.applied >= least
            and self._is_there(one.node)
        ]
        random.shuffle(able)  # two that are seeded at once need not ask the same
        return sorted(able, key=lambda one: one.state != _FOLLOWS)

    def _is_there(self, node: str) -> bool:
        record = self._coordination.membership.nodes.get(node)
        return record is not None and record.grpc is not None

    async def _from(
        self,
        info: TablespaceInfo,
        donor: ReplicaRecord,
        resumed: str | None,
        directory: Path,
        report: ReportSeeding,
        least: LSN,
    ) -> Seeded:
        address = self._coordination.membership.nodes[donor.node].grpc
        assert address is not None
        report(SeedingProgress(donor.node, 0, 0))
        paths = self._coordination.layout.tablespace(info.name)
        place = await asyncio.to_thread(self._credentials.place, address, self._proof)
        async with SnapshotClient(place) as client:
            lease = await self._lease(paths, donor.durable)
            try:
                snapshot = await self._snapshot(client, info, donor.node, resumed, directory)
                try:
                    if snapshot.lsn < least:
                        raise _OlderError(f"the snapshot is of {snapshot.lsn}, and {least} is here")
                    await lease.renew(snapshot.lsn)
                    await self._check_log(paths, snapshot.lsn)
                except (PositionTrimmedError, _OlderError):
                    await asyncio.to_thread(_clear, directory)
                    await client.release(snapshot)
                    raise
                progress = _Progress(info.name, donor.node, report)
                await self._download(client, snapshot, lease, directory / DATA, progress)
                with contextlib.suppress(RemoteError):  # it expires
                    await client.release(snapshot)
                return Seeded(directory / DATA, snapshot.lsn, lease)
            except BaseException:
                with contextlib.suppress(BookKeeperError):
                    await lease.release()
                raise

    async def _lease(self, paths: TablespacePaths, lsn: LSN) -> ReaderLease:
        """Taken before the snapshot is made, so that the log is not trimmed past it meanwhile."""
        return await lease_reader(self._znodes, paths, lsn, f"seeding {self._node}", lease_s=_LEASE_S)

    async def _check_log(self, paths: TablespacePaths, lsn: LSN) -> None:
        """PositionTrimmedError when the log does not reach back to ``lsn``."""
        state = await ZnodeLedgerList(self._znodes, paths.ledgers).read()
        if state is not None and lsn < state.base:
            raise PositionTrimmedError(f"the snapshot is of {lsn}, and the log begins after {state.base}")

    async def _snapshot(
        self, client: SnapshotClient, info: TablespaceInfo, donor: str, resumed: str | None, directory: Path
    ) -> RemoteSnapshot:
        """The snapshot whose download goes on, or a new one."""
        if resumed is not None:
            try:
                found = await client.describe(resumed)
                logger.info("seeding resumed", extra={"tablespace": info.name, "donor": donor})
                return found
            except RemoteError as error:
                if error.is_transient:
                    raise
        await asyncio.to_thread(_clear, directory)
        logger.info("seeding began", extra={"tablespace": info.name, "donor": donor})
        made = await client.begin(tablespace=info.name)
        await asyncio.to_thread(_keep, directory, _Origin(donor, made.id, info.uuid))
        return made

    async def _download(
        self,
        client: SnapshotClient,
        snapshot: RemoteSnapshot,
        lease: ReaderLease,
        path: Path,
        progress: _Progress,
    ) -> None:
        """Get the file. PositionTrimmedError when the log after it could not be kept meanwhile."""
        if path.exists():  # it was whole, and its directory not yet in place
            return
        download = asyncio.ensure_future(
            client.download(snapshot, path, progress=progress, patience_s=self.patience_s)
        )
        keeping = asyncio.ensure_future(lease.keep())
        try:
            await asyncio.wait({download, keeping}, return_when=asyncio.FIRST_COMPLETED)
            if keeping.done():
                keeping.result()
            await download
        finally:
            for task in (download, keeping):
                task.cancel()
            await asyncio.gather(download, keeping, return_exceptions=True)


def _may_go_on(error: Exception) -> bool:
    """Whether what has arrived is of use for another try with the same donor."""
    return isinstance(error, RemoteError) and error.is_transient and error.sqlstate != "57P03"


class _Progress:
    """Tells how much has arrived: to the replica each time, to the log now and then."""

    def __init__(self, tablespace: str, donor: str, report: ReportSeeding) -> None:
        self._tablespace = tablespace
        self._donor = donor
        self._report = report
        self._told_s = time.monotonic()

    def __call__(self, received: int, total: int) -> None:
        self._report(SeedingProgress(self._donor, received, total))
        if received == total or time.monotonic() - self._told_s >= _TELL_S:
            self._told_s = time.monotonic()
            logger.info(
                "seeding",
                extra={
                    "tablespace": self._tablespace,
                    "donor": self._donor,
                    "received_bytes": received,
                    "total_bytes": total,
                },
            )


# On the disk.


def _kept(directory: Path, tablespace: str) -> _Origin | None:
    """What lies in ``directory``, if it is of this tablespace; the directory is there afterwards."""
    directory.mkdir(parents=True, exist_ok=True)
    try:
        found = msgspec.json.decode((directory / _FROM).read_bytes(), type=_Origin)
    except (FileNotFoundError, msgspec.MsgspecError):
        return None
    return found if found.tablespace == tablespace else None


def _clear(directory: Path) -> None:
    shutil.rmtree(directory)
    directory.mkdir()


def _keep(directory: Path, origin: _Origin) -> None:
    new = directory / f"{_FROM}.new"
    new.write_bytes(msgspec.json.encode(origin))
    new.replace(directory / _FROM)
