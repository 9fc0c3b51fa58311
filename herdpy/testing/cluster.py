"""ZooKeeper and bookies together: what most tests want."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from herdpy.testing.bookie import AutoRecovery, BookieServer, metadata_service_uri
from herdpy.testing.errors import KitError
from herdpy.testing.java import JavaCommand
from herdpy.testing.network import LOOPBACK, Network, ServerPlace
from herdpy.testing.tls import Certificates
from herdpy.testing.workspace import workspace
from herdpy.testing.zookeeper import LEDGERS_ROOT, ClusterZnodes, ZooKeeperServer

_SHELL_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class ClusterView:
    """A cluster for those who use it and do not own it: its addresses, and BookKeeper's own tool."""

    uri: str
    """What ``BookKeeper(...)`` is given."""
    zookeeper: str
    """ZooKeeper's ``host:port``."""
    bookie_ids: tuple[str, ...]
    shell_configuration: str
    """The configuration file that `shell` reads."""

    @property
    def metadata_service_uri(self) -> str:
        """What Java's clients are given."""
        return metadata_service_uri(self.zookeeper)

    def shell(self, *arguments: str) -> str:
        """What ``bookie shell`` prints for a command such as ``shell("ledgermetadata", "-ledgerid", "7")``.

        Raises KitError with that text when the command fails.
        """
        main = "org.apache.bookkeeper.bookie.BookieShell"
        options = ("-Xmx96m", "-Dherdpy.log=info")
        words = ["-conf", self.shell_configuration, *arguments]
        done = JavaCommand("shell", main, words, options=options).run(_SHELL_TIMEOUT_S)
        said = done.stdout + done.stderr
        if done.returncode != 0:
            raise KitError(f"bookie shell {' '.join(arguments)} ended with {done.returncode}\n{said}")
        return said

    def to_dict(self) -> dict[str, object]:
        """The fields, as JSON has them; ``ClusterView.of`` reads them."""
        return asdict(self)

    @classmethod
    def of(cls, fields: Mapping[str, object]) -> ClusterView:
        """The view that `to_dict` wrote."""
        ids = fields["bookie_ids"]
        if not isinstance(ids, (list, tuple)):
            raise TypeError("bookie_ids must be a list")
        return cls(
            str(fields["uri"]),
            str(fields["zookeeper"]),
            tuple(str(one) for one in ids),
            str(fields["shell_configuration"]),
        )


UNSYNCED: Mapping[str, object] = {"journalSyncData": "false"}
"""Configuration of bookies that answer before the disk has an entry. What was written outlives a killed
process without that, and tests on one busy disk do not wait seconds for it."""


class BookKeeperCluster:
    """One ZooKeeper and `bookies` bookies on free loopback ports; a context manager, started on entry.

    `root` is the directory of all data, and stays; by default it is a temporary one. `configuration`
    overrides lines of every bookie's configuration, `java_options` the kit's options of every virtual machine
    (which suit tests: for a benchmark, ``-XX:TieredStopAtLevel=4`` and more memory).
    `journal_flush_when_queue_empty` makes a lone append fast; False is BookKeeper's own default. With `tls`
    bookies offer START_TLS, and demand a client's certificate. With `auto_recovery` that daemon runs too.
    With `network` every server has a namespace, and can be `cut` off. Raises MissingSoftwareError without
    Java, StartError when a server does not come up.
    """

    def __init__(
        self,
        bookies: int = 3,
        *,
        root: Path | None = None,
        journal_flush_when_queue_empty: bool = True,
        configuration: Mapping[str, object] | None = None,
        java_options: Sequence[str] = (),
        tls: Certificates | None = None,
        auto_recovery: bool = False,
        network: Network | None = None,
    ) -> None:
        self._count = bookies
        self._given_root = root
        self._configuration = {
            "journalFlushWhenQueueEmpty": str(journal_flush_when_queue_empty).lower(),
            **(tls.bookie_configuration() if tls is not None else {}),
            **(configuration or {}),
        }
        self._java_options = tuple(java_options)
        self._with_recovery = auto_recovery
        self._network = network
        self._cleanup = ExitStack()
        self._zookeeper: ZooKeeperServer | None = None
        self._root = Path()
        self.bookies: list[BookieServer] = []
        self.recoveries: list[AutoRecovery] = []

    @property
    def zookeeper(self) -> ZooKeeperServer:
        """The ZooKeeper server."""
        if self._zookeeper is None:
            raise KitError("the cluster was not started")
        return self._zookeeper

    @property
    def root(self) -> Path:
        """The directory of all servers' data and logs."""
        return self._root

    @property
    def uri(self) -> str:
        """What ``BookKeeper(...)`` is given: ``zk://address:port/ledgers``."""
        return f"zk://{self.zookeeper.hostport}{LEDGERS_ROOT}"

    @property
    def metadata_service_uri(self) -> str:
        """What Java's clients are given."""
        return metadata_service_uri(self.zookeeper.hostport)

    @property
    def bookie_ids(self) -> tuple[str, ...]:
        """The ids of all bookies, running or not, in the order of `bookies`."""
        return tuple(bookie.id for bookie in self.bookies)

    @property
    def view(self) -> ClusterView:
        """The cluster for those who only use it."""
        configuration = str(self.bookies[0].configuration_path)
        return ClusterView(self.uri, self.zookeeper.hostport, self.bookie_ids, configuration)

    def start(self) -> None:
        """Start everything and wait until all bookies are registered."""
        with ExitStack() as undo:
            self._root = undo.enter_context(workspace(self._given_root))
            zookeeper = ZooKeeperServer(
                self._root / "zookeeper", place=self._place(), java_options=self._java_options
            )
            self._zookeeper = undo.enter_context(zookeeper)
            undo.callback(self._stop_others)
            with ClusterZnodes(zookeeper.hostport) as znodes:
                znodes.initialise()
                for _ in range(self._count):
                    self._new_bookie().launch(znodes)
                for bookie in self.bookies:
                    bookie.await_ready(znodes)
            if self._with_recovery:
                self.start_auto_recovery()
            self._cleanup = undo.pop_all()

    def stop(self) -> None:
        """Stop everything, ZooKeeper last, and remove the temporary directory. May be called twice."""
        self._cleanup.close()

    def add_bookie(self, **configuration: object) -> BookieServer:
        """Start one more bookie, with `configuration` overriding lines of its file, and return it."""
        bookie = self._new_bookie(configuration)
        bookie.start()
        return bookie

    def start_auto_recovery(self) -> AutoRecovery:
        """Start an auto recovery process and return it."""
        directory = self._root / f"recovery{len(self.recoveries)}"
        recovery = AutoRecovery(
            directory, self.zookeeper.hostport, place=self._place(), java_options=self._java_options
        )
        self.recoveries.append(recovery)
        recovery.start()
        return recovery

    def shell(self, *arguments: str) -> str:
        """See ClusterView.shell."""
        return self.view.shell(*arguments)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _new_bookie(self, configuration: Mapping[str, object] | None = None) -> BookieServer:
        number = len(self.bookies)
        bookie = BookieServer(
            self._root / f"bookie{number}",
            self.zookeeper.hostport,
            name=f"bookie {number}",
            configuration={**self._configuration, **(configuration or {})},
            place=self._place(),
            java_options=self._java_options,
        )
        self.bookies.append(bookie)
        return bookie

    def _place(self) -> ServerPlace:
        return self._network.add_host() if self._network is not None else LOOPBACK

    def _stop_others(self) -> None:
        others = [*self.recoveries, *self.bookies]
        for server in others:
            server.ask_to_stop()
        for server in others:
            server.close()
        self.recoveries.clear()
        self.bookies.clear()
