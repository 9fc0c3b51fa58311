"""Restores a tablespace into a cluster: a store on one node's disk, and znodes that have its log begin there.

Beside ``restoring``, above ``cluster``. It runs on the node's machine, whether the server runs or not::

    DATA/restoring/NAME     while it is restored
    DATA/tablespaces/NAME   the replica's directory, renamed to there when it is whole
      RESTORED              which log it was restored from, and the id of the new one
      TABLESPACE            the tablespace's uuid

Then ZooKeeper learns of it: the tablespace, without replicas; the list of its ledgers, which begins after the
restored position; and last the node as its only replica. So nobody can lead it without that state. The
leader has other nodes get replicas as of every tablespace, and these are seeded by this one.

Each step may be done again: a restore that was broken off goes on by the uuid and the log id that the
directory has. Ledger ids of the new cluster must be above those of the old one, or positions would not grow:
the sequence is raised for that (``BookKeeper.raise_ledger_ids``).
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import uuid as uuids
from dataclasses import dataclass
from pathlib import Path

import msgspec

from herdpy.backup.errors import BackupError
from herdpy.backup.repository import Repository
from herdpy.bookkeeper import BookKeeper
from herdpy.bookkeeper.metadata.znodes import NoNodeError
from herdpy.formats import LEVEL_HINT
from herdpy.log.bookkeeper import ZnodeLedgerList
from herdpy.log.files import replace_file, sync_directory
from herdpy.log.ledger_list import LedgerListState
from herdpy.log.lsn import LSN
from herdpy_server.backup.restoring import RestoreOptions, RestoreReport, restored_as, restored_store
from herdpy_server.backup.targets import RestorePlan
from herdpy_server.backup.timeline import Restored
from herdpy_server.cluster.errors import ClusterError
from herdpy_server.cluster.layout import Layout, LeaderRecord, decode
from herdpy_server.cluster.level import join_level
from herdpy_server.cluster.names import NAME
from herdpy_server.cluster.tablespaces import TablespaceInfo, Tablespaces
from herdpy_server.store import probe
from herdpy_server.tablespace.directory import REPLICA_MARKER, RESTORED
from herdpy_sql.errors import SqlError

_NODE = "NODE"
_SETTINGS = (
    *("expected_replicas", "ensemble", "write_quorum", "ack_quorum", "strict", "retention_bytes"),
    *("retention_s", "snapshot_url", "snapshot_interval_s", "snapshot_keep", "snapshot_history_s"),
)
_LOOK_S = 0.2


@dataclass(frozen=True, slots=True)
class ClusterPlace:
    """Where in which cluster a tablespace comes.

    Attributes:
        root: the znode of the cluster's servers.
        data: the data directory of a node; this machine has it.
        name: of the tablespace there.
    """

    root: str
    data: Path
    name: str

    @property
    def replica(self) -> Path:
        """The replica's directory."""
        return self.data / "tablespaces" / self.name

    def node(self) -> str:
        """The node's id. BackupError: the directory is no node's."""
        try:
            return str(json.loads((self.data / _NODE).read_text())["node"])
        except (FileNotFoundError, NotADirectoryError, ValueError, KeyError) as error:
            raise BackupError(
                f"{self.data} is not the data directory of a node of a cluster",
                hint="Start its server once; it makes one, and may run meanwhile.",
            ) from error


async def check_free(bk: BookKeeper, place: ClusterPlace) -> bool:
    """Whether a tablespace of that name is to be made; False: an earlier restore on this node has made it.

    Raises:
        SqlError: 42710, there is one; 42602, it cannot have that name; 55000, a directory is in the way.
        BackupError: the data directory is no node's.
    """
    place.node()
    if not NAME.fullmatch(place.name):
        raise SqlError("42602", f'"{place.name}" is no name of a tablespace')
    mine = _adopted(place)
    try:
        found = await Tablespaces(bk.znodes, Layout(place.root)).get(place.name)
    except SqlError as error:
        if error.sqlstate != "42704":
            raise
    else:
        if mine is None or found.uuid != mine[0]:
            raise SqlError(
                "42710",
                f'tablespace "{place.name}" already exists',
                hint="Restore it under another name, ?tablespace=NAME, or drop that one first.",
            )
        if found.replicas:
            return False
    if mine is None and place.replica.exists():
        raise SqlError(
            "55000",
            f"{place.replica} is there, of another tablespace",
            hint="The server removes or sets aside what is no replica of its; or remove it yourself.",
        )
    return True


def restore_replica(
    repository: Repository, plan: RestorePlan, place: ClusterPlace, options: RestoreOptions
) -> RestoreReport:
    """Make the replica's directory; nothing when an earlier run has made it of the same backup and target.

    Raises: as ``restoring.restore``.
    """
    adopted = _adopted(place)
    scratch = place.data / "restoring" / place.name
    if adopted is not None:
        report = _made_before(place, adopted[1], plan)
        shutil.rmtree(scratch, ignore_errors=True)
        return report
    with restored_store(repository, plan, scratch, options) as (report, store):
        if any(one.id == report.backup and one.files for one in plan.candidates):
            report.notes.append("roles of a server that is alone are not brought into a cluster")
        new = scratch / "replica"
        shutil.rmtree(new, ignore_errors=True)
        (new / "store").mkdir(parents=True)
        os.link(store / "data.mdb", new / "store" / "data.mdb")
        (new / "store" / probe.CLOSED).touch()
        replace_file(new / RESTORED, restored_as(repository, report).encode())
        replace_file(new / "SETTINGS", msgspec.json.encode(report.settings))
        replace_file(new / REPLICA_MARKER, f"{uuids.uuid4().hex}\n".encode())
        _give_to_owner(new, place.data)
        sync_directory(new / "store")
        place.replica.parent.mkdir(exist_ok=True)
        new.rename(place.replica)
        sync_directory(place.replica.parent)
    return report


def _made_before(place: ClusterPlace, found: Restored, plan: RestorePlan) -> RestoreReport:
    if (found.parent, found.target) != (plan.log.log_id, str(plan.stop)):
        raise BackupError(
            f"{place.replica} was restored from log {found.parent} up to {found.branched}",
            hint="Go on with that target, or remove the directory.",
        )
    settings = json.loads((place.replica / "SETTINGS").read_text())
    lsn = LSN.parse(found.branched)
    return RestoreReport(
        place.replica, found.log_id, found.parent, lsn, found.backup, found.transactions, settings=settings
    )


def _adopted(place: ClusterPlace) -> tuple[str, Restored] | None:
    """The uuid, and what it was restored from, of a directory that a restore has made."""
    try:
        restored = msgspec.json.decode((place.replica / RESTORED).read_bytes(), type=Restored)
        return (place.replica / REPLICA_MARKER).read_text().strip(), restored
    except (FileNotFoundError, msgspec.MsgspecError):
        return None


def _give_to_owner(made: Path, data: Path) -> None:
    """What a superuser makes is to be the server's."""
    if os.geteuid() == 0:
        owner = data.stat()
        for path in (made, *made.rglob("*")):
            os.chown(path, owner.st_uid, owner.st_gid)


async def publish(bk: BookKeeper, place: ClusterPlace, report: RestoreReport) -> TablespaceInfo:
    """Have the cluster know the tablespace, whose replica is on this node.

    Raises:
        SqlError: 42710, another one has the name by now; 08001, 08007 ZooKeeper.
        BookKeeperError: ZooKeeper cannot be reached.
    """
    adopted = _adopted(place)
    assert adopted is not None, "the replica's directory was made"
    uuid, restored = adopted
    layout = Layout(place.root)
    try:
        await join_level(bk.znodes, layout, place.node())
    except ClusterError as error:
        raise BackupError(str(error), hint=LEVEL_HINT) from error
    tablespaces = Tablespaces(bk.znodes, layout)
    await bk.raise_ledger_ids(report.lsn.ledger_id)
    bookies = len(bk.writable_bookies())
    if not bookies:
        raise BackupError("no bookie of the cluster takes new ledgers", hint="Start its bookies first.")
    info = _fitting(TablespaceInfo(name=place.name, uuid=uuid), report, bookies)
    info = msgspec.structs.replace(info, parent=restored.parent, branched=restored.branched)
    try:
        await tablespaces.create(info)
    except SqlError as error:
        if error.sqlstate != "42710" or (await tablespaces.get(place.name)).uuid != uuid:
            raise
    ledgers = ZnodeLedgerList(bk.znodes, Layout(place.root).tablespace(place.name).ledgers)
    if await ledgers.read() is None:
        begin = LedgerListState(
            version=0,
            log_id=restored.log_id,
            next_ledger_id=report.lsn.ledger_id + 1,
            base=report.lsn,
        )
        await ledgers.write(begin, 0)
    node = place.node()

    def placed(now: TablespaceInfo) -> TablespaceInfo:
        return now if now.replicas else msgspec.structs.replace(now, replicas=(node,))

    return await tablespaces.alter(place.name, placed, uuid=uuid)


def _fitting(info: TablespaceInfo, report: RestoreReport, bookies: int) -> TablespaceInfo:
    """The settings of the backup, with as many copies as there are bookies."""
    known = {name: report.settings[name] for name in _SETTINGS if name in report.settings}
    try:
        found = msgspec.convert(msgspec.to_builtins(info) | known, TablespaceInfo)
    except msgspec.ValidationError as error:
        raise BackupError(f"the backup's settings of the tablespace make no sense: {error}") from error
    ensemble = max(min(found.ensemble, bookies), 1)
    write = min(found.write_quorum, ensemble)
    if write < found.write_quorum:
        report.notes.append(
            f"{bookies} bookies take new ledgers: an entry has {write} copies, and had {found.write_quorum};"
            " ALTER TABLESPACE changes it when there are more"
        )
    return msgspec.structs.replace(
        found, ensemble=ensemble, write_quorum=write, ack_quorum=min(found.ack_quorum, write)
    )


async def leader_of(bk: BookKeeper, place: ClusterPlace, timeout_s: float) -> str | None:
    """The node that leads, as soon as one does; None: none in time, or the server is away."""
    layout = Layout(place.root)
    if await bk.znodes.exists(layout.node(place.node())) is None:
        return None
    path = layout.tablespace(place.name).leader
    until_s = asyncio.get_running_loop().time() + timeout_s
    while True:
        try:
            return decode(LeaderRecord, path, (await bk.znodes.get(path)).data).node
        except NoNodeError:
            if asyncio.get_running_loop().time() >= until_s:
                return None
            await asyncio.sleep(_LOOK_S)
