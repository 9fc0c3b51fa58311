"""A server process as a node of a cluster, made from its configuration.

Between ``server`` and ``replica``: the data directory, the node's id, the addresses that others get.
"""

from __future__ import annotations

import json
import secrets
import socket
from pathlib import Path

import msgspec

from herdpy._version import __version__
from herdpy.formats import NEWEST_LEVEL
from herdpy.log.errors import NEWER_HINT
from herdpy.log.files import replace_file
from herdpy.zookeeper_access import ZooKeeperAccess
from herdpy_server.cluster.layout import Address, Layout, NodeRecord
from herdpy_server.cluster.names import NODE_ID
from herdpy_server.cluster.secret import NodeSecret
from herdpy_server.config import ServerConfig
from herdpy_server.process.archive import archive_settings, backup_schedule
from herdpy_server.replica.node import ClusterNode, ClusterSettings
from herdpy_server.replica.seeding import Credentials
from herdpy_server.serving import ServedNode
from herdpy_server.supervisor.supervision import Reach, Supervision
from herdpy_server.tablespace import Directory
from herdpy_server.tablespace.directory import DirectoryLock
from herdpy_server.tablespace.tablespace import now_us
from herdpy_server.tablespace_host import DatabaseSettings
from herdpy_server.workers.scheduler import WorkerSettings
from herdpy_sql.errors import SqlError

_ID = "NODE"
ID_FORMAT = 1
_NODES_OWN = ("supervisor", "node", "advertise", "user", "password_file", "secret_file", "ca")


class Member:
    """Attributes:
    cluster: its part in the cluster; :meth:`join` lets it begin.
    node: what the front ends serve.
    id: the node's.
    """

    def __init__(self, config: ServerConfig) -> None:
        """Take the data directory. SqlError when that is another's, or no node's. To be made on the loop."""
        self.config = config
        self.path = Path(config.data.directory).absolute()
        self._lock: DirectoryLock = Directory(self.path).lock(create=config.data.create)
        try:
            self.id = _node_id(self.path, config.cluster.node)
        except BaseException:
            self._lock.release()
            raise
        cluster = msgspec.structs.asdict(config.cluster)
        for name in _NODES_OWN:
            del cluster[name]
        self.cluster = ClusterNode(
            self.path,
            ClusterSettings(**cluster),
            DatabaseSettings(**msgspec.structs.asdict(config.storage)),
            WorkerSettings(**msgspec.structs.asdict(config.workers)),
        )
        self.cluster.credentials = _credentials(config)
        self.cluster.zookeeper_access = zookeeper_access(config)
        self.cluster.supervision = Supervision(
            self.path,
            self.id,
            Reach(
                zookeeper=config.cluster.zookeeper,
                access=self.cluster.zookeeper_access,
                session_timeout_s=config.cluster.session_timeout_s,
                layout=Layout(config.cluster.root),
            ),
            supervised=config.cluster.supervisor,
        )
        self.cluster.archive = archive_settings(config)
        self.cluster.backups = backup_schedule(config)
        self.cluster.secret = NodeSecret(
            Path(config.cluster.secret_file) if config.cluster.secret_file else None
        )
        self.node = ServedNode(self.path, self.cluster.driver, self.cluster)

    async def join(self, sql_port: int, grpc_port: int | None, http_port: int | None) -> None:
        """Join the cluster, once the front ends listen on these ports. Errors as ``ClusterNode.start``."""
        config = self.config
        host = config.cluster.advertise or _first(config.postgres.addresses)
        record = NodeRecord(
            node=self.id,
            instance=secrets.token_hex(8),
            sql=Address(host, sql_port),
            grpc=None if grpc_port is None else Address(host, grpc_port),
            http=None if http_port is None else Address(host, http_port),
            version=__version__,
            started_us=now_us(),
            session_timeout_s=config.cluster.session_timeout_s,
            level=NEWEST_LEVEL,
        )
        await self.cluster.start(record)

    async def close(self) -> None:
        """Leave, and give the directory back."""
        try:
            await self.cluster.close()
        finally:
            self._lock.release()


def _credentials(config: ServerConfig) -> Credentials:
    cluster = config.cluster
    return Credentials(
        cluster.user or None,
        Path(cluster.password_file) if cluster.password_file else None,
        tls=bool(config.tls.certificate),
        ca=Path(cluster.ca) if cluster.ca and config.tls.certificate else None,
    )


def zookeeper_access(config: ServerConfig) -> ZooKeeperAccess:
    """What the section [zookeeper] says of how it is reached."""
    zookeeper = config.zookeeper
    return ZooKeeperAccess(
        tls=zookeeper.tls,
        ca=zookeeper.ca or None,
        certificate=zookeeper.certificate or None,
        key=zookeeper.key or None,
        check_hostname=zookeeper.check_hostname,
    )


def _first(addresses: tuple[str, ...]) -> str:
    """The first address that others can use."""
    for address in addresses:
        if address not in ("*", "0.0.0.0", "::"):
            return address
    return socket.getfqdn()


def _node_id(path: Path, wanted: str) -> str:
    """The node's id: as configured, or one that the data directory keeps.

    Raises:
        SqlError: 55000, the directory holds a database that is no node's, or is another node's.
    """
    if Directory(path).exists():
        raise SqlError(
            "55000",
            f"{path} holds a database of its own, and no replicas",
            hint="Name another data directory for a node of a cluster, and load the data through it.",
        )
    file = path / _ID
    if file.is_file():
        found = json.loads(file.read_text())
        if found["format"] != ID_FORMAT:
            raise SqlError(
                "0A000", f"{file} has format {found['format']}, which is not known here", hint=NEWER_HINT
            )
        kept = str(found["node"])
        if wanted not in ("", kept):
            raise SqlError(
                "55000",
                f"{path} is node {kept}'s, and the configuration names {wanted}",
                hint="A node keeps its id. Name another directory, or set cluster.node to the old id.",
            )
        return kept
    node = wanted or f"{socket.gethostname().split('.')[0]}-{secrets.token_hex(3)}"
    if not NODE_ID.fullmatch(node):
        raise SqlError("42602", f'"{node}" is no id of a node')
    replace_file(file, json.dumps({"format": ID_FORMAT, "node": node}).encode())
    return node
