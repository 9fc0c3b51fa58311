"""A real ZooKeeper server, alone in its ensemble."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self

from herdpy.testing.java import JavaCommand, write_configuration
from herdpy.testing.network import LOOPBACK, ServerPlace
from herdpy.testing.server import JavaServer
from herdpy.testing.tls import Certificates

PORT_IN_NAMESPACE = 2181
TICK_MS = 500
"""Session time-outs may be as short as two ticks."""

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
        "minSessionTimeout": 2 * TICK_MS,
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
