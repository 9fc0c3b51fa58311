"""BookKeeper's auto recovery daemon: copies the entries of lost bookies to the ones that are left."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from herdpy.testing.bookie import metadata_service_uri, write_configuration
from herdpy.testing.errors import StartError
from herdpy.testing.java import JavaCommand
from herdpy.testing.place import LOOPBACK, Place
from herdpy.testing.registry import ClusterZnodes
from herdpy.testing.server import START_TIMEOUT_S, Server
from herdpy.testing.waiting import await_until


class AutoRecovery(Server):
    """One auto recovery process (auditor and replication worker) of the cluster at `zookeeper`."""

    def __init__(
        self, directory: Path, zookeeper: str, *, place: Place = LOOPBACK, java_options: Sequence[str] = ()
    ) -> None:
        super().__init__("auto recovery", directory, place=place, fixed_port=3182)
        self.zookeeper = zookeeper
        self._java_options = tuple(java_options)
        self._configuration = directory / "recovery.conf"
        values = {
            "metadataServiceUri": metadata_service_uri(zookeeper),
            "advertisedAddress": self.address,
            "bookiePort": self.port,  # only its name in elections and locks: it listens on no port
            "listeningInterface": place.interface,
            "allowLoopback": "true",
            "httpServerEnabled": "false",
            "lostBookieRecoveryDelay": 0,
            "auditorPeriodicBookieCheckInterval": 5,
            "openLedgerRereplicationGracePeriod": 3000,
            "rwRereplicateBackoffMs": 500,
            "zkTimeout": 6000,
            "numIOThreads": 2,
        }
        write_configuration(self._configuration, values)

    def start(self) -> None:
        """Start the daemon and wait until it has been elected as the auditor."""
        options = ("-Xms16m", "-Xmx96m", *self._java_options)
        main = "org.apache.bookkeeper.replication.AutoRecoveryMain"
        with ClusterZnodes(self.zookeeper) as znodes:
            self._launch(JavaCommand("recovery", main, ["--conf", str(self._configuration)], options=options))
            await_until(lambda: znodes.has_auditor() or not self.is_running, START_TIMEOUT_S)
            if not (self.is_running and znodes.has_auditor()):
                tail = self.log_tail()
                self.kill()
                raise StartError(f"{self.name} did not become the auditor\n{tail}")
