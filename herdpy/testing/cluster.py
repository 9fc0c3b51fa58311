"""ZooKeeper and bookies together: what most tests want."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from herdpy.testing.bookie import BookieServer
from herdpy.testing.java import java_command
from herdpy.testing.registry import LEDGERS_ROOT, ClusterZnodes
from herdpy.testing.workspace import workspace
from herdpy.testing.zookeeper import ZooKeeperServer

_SHELL_TIMEOUT_S = 60.0


class BookKeeperCluster:
    """One ZooKeeper and `bookies` bookies on free loopback ports; a context manager, started on entry.

    `root` is the directory of all data (by default a temporary one, removed at the end). `configuration`
    overrides lines of every bookie's configuration. `journal_flush_when_queue_empty` makes a lone append
    fast; False is BookKeeper's own default. Raises MissingSoftwareError without Java, StartError when a
    server does not come up.
    """

    def __init__(
        self,
        bookies: int = 3,
        *,
        root: Path | None = None,
        journal_flush_when_queue_empty: bool = True,
        configuration: Mapping[str, object] | None = None,
    ) -> None:
        self._count = bookies
        self._root = root
        self._configuration = {
            "journalFlushWhenQueueEmpty": str(journal_flush_when_queue_empty).lower(),
            **(configuration or {}),
        }
        self._cleanup = ExitStack()
        self._zookeeper: ZooKeeperServer | None = None
        self.bookies: list[BookieServer] = []

    @property
    def zookeeper(self) -> ZooKeeperServer:
        """The ZooKeeper server."""
        if self._zookeeper is None:
            raise ValueError("the cluster was not started")
        return self._zookeeper

    @property
    def uri(self) -> str:
        """What ``BookKeeper(...)`` is given: ``zk://address:port/ledgers``."""
        return f"zk://{self.zookeeper.hostport}{LEDGERS_ROOT}"

    def start(self) -> None:
        """Start everything and wait until all bookies are registered."""
        with ExitStack() as undo:
            root = undo.enter_context(workspace(self._root))
            self._zookeeper = undo.enter_context(ZooKeeperServer(root / "zookeeper"))
            undo.callback(self._stop_bookies)
            self.root = root
            with ClusterZnodes(self._zookeeper.hostport) as znodes:
                znodes.initialise()
                for _ in range(self._count):
                    self._new_bookie()
                for bookie in self.bookies:
                    bookie.launch(znodes)
                for bookie in self.bookies:
                    bookie.await_ready(znodes)
            self._cleanup = undo.pop_all()

    def stop(self) -> None:
        """Stop everything, bookies first, and remove the temporary directory. May be called twice."""
        self._cleanup.close()

    def add_bookie(self, **configuration: object) -> BookieServer:
        """Start one more bookie, with `configuration` overriding lines of its file, and return it."""
        bookie = self._new_bookie(configuration)
        bookie.start()
        return bookie

    def shell(self, *arguments: str) -> str:
        """What BookKeeper's own ``bookie shell`` prints for a command, such as ``shell("listledgers",
        "-meta")``.
        """
        command = java_command(
            "org.apache.bookkeeper.bookie.BookieShell",
            ["-conf", str(self.bookies[0].configuration_path), *arguments],
            options=("-Xmx96m", "-Dherdpy.log=info"),
            archive="shell",
        )
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=_SHELL_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
        )
        return done.stdout + done.stderr

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
            self.root / f"bookie{number}",
            self.zookeeper.hostport,
            name=f"bookie {number}",
            configuration={**self._configuration, **(configuration or {})},
        )
        self.bookies.append(bookie)
        return bookie

    def _stop_bookies(self) -> None:
        for bookie in self.bookies:
            bookie.ask_to_stop()
        for bookie in self.bookies:
            bookie.close()
        self.bookies.clear()
