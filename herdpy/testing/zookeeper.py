"""A real ZooKeeper server, alone in its ensemble, and a BookKeeper cluster's znodes in it.

The znodes of a new cluster are written by hand rather than by `bookie shell initnewcluster`, which costs the
start of a Java machine; bookies' registrations are watched. Format: BookKeeper's
discover/ZKRegistrationManager.java and meta/LedgerLayout.java.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from herdpy.testing.java import JavaCommand, write_configuration
from herdpy.testing.network import LOOPBACK, ServerPlace
from herdpy.testing.server import JavaServer
from herdpy.testing.tls import Certificates

LEDGERS_ROOT = "/ledgers"
_LAYOUT = b"2\norg.apache.bookkeeper.meta.LongHierarchicalLedgerManagerFactory:1"
_CONNECT_TIMEOUT_S = 20.0

# kazoo warns of every connection that ends with the server, which here is what tests do.
_quiet = logging.getLogger("herdpy.testing.kazoo")
_quiet.setLevel(logging.ERROR)


class ClusterZnodes:
    """A short ZooKeeper session, made within `timeout_s`; context manager."""

    def __init__(self, hostport: str, *, timeout_s: float = _CONNECT_TIMEOUT_S) -> None:
        self._client = KazooClient(hostport, timeout=10.0, logger=_quiet)
        self._timeout_s = timeout_s

    def __enter__(self) -> Self:
        try:
            self._client.start(self._timeout_s)
        except BaseException:
            self._client.stop()
            self._client.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.stop()
        self._client.close()

    def initialise(self) -> None:
        """Write what bookies expect of a cluster, unless it is there already."""
        if self._client.exists(f"{LEDGERS_ROOT}/LAYOUT") is not None:
            return
        whole = self._client.transaction()
        whole.create(LEDGERS_ROOT)
        whole.create(f"{LEDGERS_ROOT}/available")
        whole.create(f"{LEDGERS_ROOT}/available/readonly")
        whole.create(f"{LEDGERS_ROOT}/INSTANCEID", str(uuid.uuid4()).encode())
        whole.create(f"{LEDGERS_ROOT}/LAYOUT", _LAYOUT)
        for result in whole.commit():
            if isinstance(result, Exception):
                raise result

    def is_registered(self, bookie_id: str) -> bool:
        """Whether the bookie says that it is there, writable or read-only."""
        return any(self._client.exists(path) is not None for path in _registrations(bookie_id))

    def forget_registration(self, bookie_id: str) -> None:
        """Delete the registration that a bookie that has ended left behind."""
        for path in _registrations(bookie_id):
            self._delete(path)

    def has_auditor(self) -> bool:
        """Whether an auto recovery process stands for election, so that the ledgers of lost bookies are
        looked after.
        """
        try:
            return bool(self._client.get_children(f"{LEDGERS_ROOT}/underreplication/auditorelection"))
        except NoNodeError:
            return False

    def forget_cookie(self, bookie_id: str) -> None:
        """Delete the cookie of `bookie_id`, so that it may come back with an empty disk."""
        self._delete(f"{LEDGERS_ROOT}/cookies/{bookie_id}")

    def read(self, path: str) -> bytes | None:
        """The data of a znode, None when it is not there."""
        try:
            data: bytes = self._client.get(path)[0]
        except NoNodeError:
            return None
        return data

    def children(self, path: str) -> list[str]:
        """The names of a znode's children, in order; none when it is not there."""
        try:
            return sorted(self._client.get_children(path))
        except NoNodeError:
            return []

    def _delete(self, path: str) -> None:
        try:
            self._client.delete(path)
        except NoNodeError:
            return


def _registrations(bookie_id: str) -> tuple[str, str]:
    return f"{LEDGERS_ROOT}/available/{bookie_id}", f"{LEDGERS_ROOT}/available/readonly/{bookie_id}"


# The server.

PORT_IN_NAMESPACE = 2181
TICK_MS = 100
"""Sessions are looked at once a tick, as with conf/zookeeper.cfg."""
_SHORTEST_SESSION_MS = 1_000

_OPTIONS = (
    "-Xms16m",
    "-Xmx96m",
    # The page cache outlives a killed process, and no test pulls the plug: no need to wait for the disk.
    "-Dzookeeper.forceSync=no",
    "-Dzookeeper.nio.numSelectorThreads=1",
    "-Dzookeeper.nio.numWorkerThreads=2",
)


def zookeeper_configuration(data: Path, *, address: str, port: int) -> dict[str, object]:
    """The lines of the configuration of a ZooKeeper alone, with short sessions and its data in `data`."""
    return {
        "tickTime": TICK_MS,
        "minSessionTimeout": _SHORTEST_SESSION_MS,
        "maxSessionTimeout": 60_000,
        "dataDir": data,
        "clientPort": port,
        "clientPortAddress": address,
        "maxClientCnxns": 0,
        "admin.enableServer": "false",
        "4lw.commands.whitelist": "*",
        "preAllocSize": 1024,
    }


def zookeeper_command(
    configuration: Path, java_options: Sequence[str] = (), *, writes_archive: bool = True
) -> JavaCommand:
    """How to run ZooKeeper with that file of configuration; see JavaCommand for `writes_archive`."""
    return JavaCommand(
        "zookeeper",
        "org.apache.zookeeper.server.ZooKeeperServerMain",
        [str(configuration)],
        options=(*_OPTIONS, *java_options),
        writes_archive=writes_archive,
    )


class ZooKeeperServer(JavaServer):
    """ZooKeeper on one port. `with ZooKeeperServer(directory) as zookeeper: ...` starts and stops it."""

    def __init__(
        self,
        directory: Path,
        *,
        place: ServerPlace = LOOPBACK,
        java_options: Sequence[str] = (),
        certificates: Certificates | None = None,
    ) -> None:
        """Args:
        certificates: speak TLS on the port, and nothing else, with clients that show one of the authority's.
        """
        super().__init__(
            "ZooKeeper", directory, place=place, fixed_port=None if place.is_shared else PORT_IN_NAMESPACE
        )
        self._java_options = tuple(java_options)
        data = directory / "data"
        data.mkdir(exist_ok=True)
        self._configuration = directory / "zoo.cfg"
        settings = zookeeper_configuration(data, address=self.address, port=self.port)
        if certificates is not None:
            self._secure(settings, certificates)
        write_configuration(self._configuration, settings)

    def _secure(self, settings: dict[str, object], certificates: Certificates) -> None:
        del settings["clientPort"], settings["clientPortAddress"]
        pair = self.directory / "pair.pem"  # a key store of PEM has both in one file
        pair.touch(mode=0o600)
        pair.write_bytes(certificates.key.read_bytes() + certificates.certificate.read_bytes())
        settings |= {
            "secureClientPort": self.port,
            "secureClientPortAddress": self.address,
            "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
            "ssl.keyStore.location": pair,
            "ssl.keyStore.type": "PEM",
            "ssl.trustStore.location": certificates.authority,
            "ssl.trustStore.type": "PEM",
            "ssl.clientAuth": "need",
        }

    def start(self) -> None:
        """Start the server and wait until it accepts connections; does nothing when it runs. Raises
        StartError.
        """
        self._launch(zookeeper_command(self._configuration, self._java_options))
        self._await_listening()

    def __enter__(self) -> Self:
        self.start()
        return self
