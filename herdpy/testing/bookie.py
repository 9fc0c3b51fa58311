"""A real bookie, and BookKeeper's auto recovery, which copies the entries of lost bookies to those left."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from herdpy.bookkeeper.wire.messages import start_tls
from herdpy.testing.errors import StartError
from herdpy.testing.java import JavaCommand, write_configuration
from herdpy.testing.network import LOOPBACK, ServerPlace
from herdpy.testing.process import await_until
from herdpy.testing.server import START_TIMEOUT_S, JavaServer
from herdpy.testing.zookeeper import LEDGERS_ROOT, ClusterZnodes

PORT_IN_NAMESPACE = 3181
_ANSWER_TIMEOUT_S = 5.0

_OPTIONS = ("-Xms32m", "-Xmx256m", "-XX:MaxDirectMemorySize=256m")

# Small files and few threads; names are those of BookKeeper's conf/bk_server.conf.
_DEFAULTS: dict[str, object] = {
    "allowLoopback": "true",
    "allowStorageExpansion": "false",
    "httpServerEnabled": "false",
    "journalFlushWhenQueueEmpty": "true",
    "journalPreAllocSizeMB": 1,
    "journalMaxSizeMB": 128,
    "logSizeLimit": 32 << 20,
    "skipListSizeLimit": 8 << 20,
    "pageLimit": 1024,
    "fileInfoCacheInitialCapacity": 16,
    "isForceGCAllowWhenNoSpace": "true",
    "diskUsageThreshold": 0.99,
    "diskUsageWarnThreshold": 0.985,
    "diskUsageLwmThreshold": 0.985,
    "minUsableSizeForIndexFileCreation": 1 << 20,
    "minUsableSizeForEntryLogCreation": 1 << 20,
    "minUsableSizeForHighPriorityWrites": 1 << 20,
    "gcWaitTime": 5000,
    "numAddWorkerThreads": 1,
    "numReadWorkerThreads": 2,
    "numLongPollWorkerThreads": 1,
    "requestTimerTickDurationMs": 100,
    "numHighPriorityWorkerThreads": 2,
    "numJournalCallbackThreads": 1,
    "serverNumIOThreads": 2,
    "zkTimeout": 6000,
}


def metadata_service_uri(zookeeper: str) -> str:
    """The URI of a cluster's metadata as Java's configuration has it."""
    return f"zk+longhierarchical://{zookeeper}{LEDGERS_ROOT}"


def bookie_configuration(
    directory: Path, zookeeper: str, *, address: str, port: int, interface: str = "lo"
) -> dict[str, object]:
    """The lines of the configuration of a bookie with its disk in `directory`, small enough for a test."""
    return {
        "metadataServiceUri": metadata_service_uri(zookeeper),
        "bookiePort": port,
        "advertisedAddress": address,
        "listeningInterface": interface,
        "journalDirectories": directory / "journal",
        "ledgerDirectories": directory / "ledgers",
        "indexDirectories": directory / "ledgers",
        **_DEFAULTS,
    }


def bookie_command(
    configuration: Path, java_options: Sequence[str] = (), *, writes_archive: bool = True
) -> JavaCommand:
    """How to run a bookie with that file of configuration; see JavaCommand for `writes_archive`."""
    return JavaCommand(
        "bookie",
        "org.apache.bookkeeper.server.Main",
        ["--conf", str(configuration)],
        options=(*_OPTIONS, *java_options),
        writes_archive=writes_archive,
    )


class BookieServer(JavaServer):
    """One bookie of the cluster whose ZooKeeper is at `zookeeper` (``host:port``).

    `configuration` overrides lines of its configuration file. The bookie's id is ``address:port``.
    """

    def __init__(
        self,
        directory: Path,
        zookeeper: str,
        *,
        name: str = "bookie",
        configuration: Mapping[str, object] | None = None,
        place: ServerPlace = LOOPBACK,
        java_options: Sequence[str] = (),
    ) -> None:
        super().__init__(
            name, directory, place=place, fixed_port=None if place.is_shared else PORT_IN_NAMESPACE
        )
        self.zookeeper = zookeeper
        self.configuration_path = directory / "bookie.conf"
        self._java_options = tuple(java_options)
        self._values = {
            **bookie_configuration(
                directory, zookeeper, address=self.address, port=self.port, interface=place.interface
            ),
            **(configuration or {}),
        }

    @property
    def id(self) -> str:
        """The bookie's id in ledgers' metadata."""
        return self.hostport

    def configure(self, **values: object) -> None:
        """Change lines of the configuration, from the next start on."""
        self._values.update(values)

    def start(self) -> None:
        """Start the bookie, on the disk it had, and wait until it serves and is registered. Raises
        StartError.
        """
        with ClusterZnodes(self.zookeeper) as znodes:
            self.launch(znodes)
            self.await_ready(znodes)

    def launch(self, znodes: ClusterZnodes) -> None:
        """Begin `start`, so that several bookies can start at the same time."""
        if self.is_running:
            return
        znodes.forget_registration(self.id)  # of a killed process, which a new one would wait to expire
        write_configuration(self.configuration_path, self._values)
        self._launch(bookie_command(self.configuration_path, self._java_options))

    def await_ready(self, znodes: ClusterZnodes) -> None:
        """Finish `start`: the bookie itself listens, is registered, and takes requests."""
        self._await_listening()
        await_until(lambda: znodes.is_registered(self.id) or not self.is_running, START_TIMEOUT_S)
        if not (self.is_running and znodes.is_registered(self.id)):
            self._fail(f"did not register as {self.id}")
        if not await_until(lambda: self.answers() or not self.is_running, START_TIMEOUT_S):
            self._fail("registered, and answers no request")
        if not self.is_running:
            self._fail("registered, and ended")

    def answers(self) -> bool:
        """Whether the bookie takes requests. For a moment after it has registered, and when it stops, it
        closes connections that ask (BookieNettyServer.java, RejectRequestHandler). Asked for is what every
        configuration answers, if only with a refusal: to go on in TLS.
        """
        try:
            with socket.create_connection((self.address, self.port), _ANSWER_TIMEOUT_S) as connection:
                connection.sendall(start_tls(1))
                return bool(connection.recv(1))
        except OSError:
            return False

    def _fail(self, why: str) -> NoReturn:
        tail = self.log_tail()
        self.kill()
        raise StartError(f"{self.name} {why}\n{tail}")

    def wipe(self) -> None:
        """Empty the disk of a bookie that does not run, and its cookie: it comes back as a new one with the
        old id.
        """
        if self.is_running:
            raise ValueError(f"{self.name} runs: kill or stop it first")
        for kind in ("journal", "ledgers"):
            shutil.rmtree(self.directory / kind, ignore_errors=True)
        with ClusterZnodes(self.zookeeper) as znodes:
            znodes.forget_cookie(self.id)


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


class AutoRecovery(JavaServer):
    """One auto recovery process (auditor and replication worker) of the cluster at `zookeeper`."""

    def __init__(
        self,
        directory: Path,
        zookeeper: str,
        *,
        place: ServerPlace = LOOPBACK,
        java_options: Sequence[str] = (),
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
