"""BookKeeper's auto recovery daemon: copies the entries of lost bookies to the ones that are left."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from herdpy.testing.bookie import metadata_service_uri
from herdpy.testing.errors import StartError
from herdpy.testing.java import JavaCommand, write_configuration
from herdpy.testing.place import LOOPBACK, Place
from herdpy.testing.registry import ClusterZnodes
from herdpy.testing.server import START_TIMEOUT_S, Server
from herdpy.testing.waiting import await_until


def recovery_configuration(
    zookeeper: str, *, address: str, port: int, interface: str = "lo"
) -> dict[str, object]:
    """The lines of the configuration of a daemon that notices a lost bookie at once.

    `port` is only its name in elections and locks: it listens on none.
    """
    return {
        "metadataServiceUri": metadata_service_uri(zookeeper),
        "advertisedAddress": address,
        "bookiePort": port,
        "listeningInterface": interface,
        "allowLoopback": "true",
        "httpServerEnabled": "false",
        "lostBookieRecoveryDelay": 0,
        "auditorPeriodicBookieCheckInterval": 5,
        "openLedgerRereplicationGracePeriod": 3000,
        "rwRereplicateBackoffMs": 500,
        "zkTimeout": 6000,
        "numIOThreads": 2,
    }


def recovery_command(
    configuration: Path, java_options: Sequence[str] = (), *, writes_archive: bool = True
) -> JavaCommand:
    """How to run the daemon with that file of configuration; see JavaCommand for `writes_archive`."""
    return JavaCommand(
        "recovery",
        "org.apache.bookkeeper.replication.AutoRecoveryMain",
        ["--conf", str(configuration)],
        options=("-Xms16m", "-Xmx96m", *java_options),
        writes_archive=writes_archive,
    )


class AutoRecovery(Server):
    """One auto recovery process (auditor and replication worker) of the cluster at `zookeeper`."""

    def __init__(
        self, directory: Path, zookeeper: str, *, place: Place = LOOPBACK, java_options: Sequence[str] = ()
    ) -> None:
        super().__init__("auto recovery", directory, place=place, fixed_port=3182)
        self.zookeeper = zookeeper
        self._java_options = tuple(java_options)
        self._configuration = directory / "recovery.conf"
        values = recovery_configuration(
            zookeeper, address=self.address, port=self.port, interface=place.interface
        )
        write_configuration(self._configuration, values)

    def start(self) -> None:
        """Start the daemon and wait until it has been elected as the auditor."""
        with ClusterZnodes(self.zookeeper) as znodes:
            self._launch(recovery_command(self._configuration, self._java_options))
            await_until(lambda: znodes.has_auditor() or not self.is_running, START_TIMEOUT_S)
            if not (self.is_running and znodes.has_auditor()):
                tail = self.log_tail()
                self.kill()
                raise StartError(f"{self.name} did not become the auditor\n{tail}")
