"""The control of a cluster (kills, pauses, cuts off, and undoes it), and what faults know of the cluster.

Layer: beside `history`, below `faults`. A fault says what happens, a ClusterControl knows how it is done:
LocalControl to a cluster on this machine (herdpy.dev), CommandControl by the commands of an operator's file
(ssh, systemctl, kubectl). One that cannot do something says why (`can`); nothing is left out in silence. A
ClusterObserver finds who leads, where each replica stands, and how to speak to one server: servers are asked
on their HTTP port, which needs no password; one that does not answer is not known.
"""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal, Protocol

import psycopg

from herdpy.dbapi import url as urls
from herdpy.dbapi.options import DEFAULT_TABLESPACE, remote_options
from herdpy.testing.process import await_until

Kind = Literal["zookeeper", "bookie", "server"]
Action = Literal[
    "kill",
    "stop",
    "start",
    "pause",
    "resume",
    "kill-supervisor",
    "pause-supervisor",
    "resume-supervisor",
    "cut",
    "wipe",
    "fill",
    "slow",
    "skew",
    "rot",
]
OneWay = Literal["sent", "received"]

CLIENTS = "clients"
"""Whoever is none of the cluster's processes: what `cut` calls the drill's own clients."""


class ControlError(Exception):
    """What was to be done to a process failed; the text says what and why."""


class CannotError(ControlError):
    """This control cannot do that to that process; the text says why, and what would help."""


@dataclass(frozen=True)
class ProcessPlace:
    """One process of the cluster: its name, and where it listens.

    ports: "sql" and "http" of a server, "bookie" of a bookie, "client" of ZooKeeper; 0 when not known.
    """

    name: str
    kind: Kind
    host: str
    ports: Mapping[str, int]

    @property
    def bookie_id(self) -> str:
        """A bookie's id in the metadata of ledgers, where it is its address and port."""
        return f"{self.host}:{self.ports['bookie']}"


def status_of(server: ProcessPlace, tablespace: str, timeout_s: float) -> dict[str, Any]:
    """What a server's /status says of its replica of a tablespace; {} when it has none.

    Raises:
        OSError, ValueError: it does not answer, or not with that page.
    """
    url = f"http://{server.host}:{server.ports['http']}/status"
    with urllib.request.urlopen(url, timeout=timeout_s) as answer:
        page = json.load(answer)
    return next((one for one in page["tablespaces"] if one["name"] == tablespace), {})


@dataclass(frozen=True)
class ClusterNeeds:
    """What a fault wants of a cluster that is made for the drill; another cluster has it or has not.

    network: every process has an address of its own that can be cut off.
    fault_injector: every process has clocks and disks that can go wrong (fault_injector.c).
    auto_recovery: BookKeeper's daemon that copies the entries of lost bookies runs.
    archive: the servers archive their logs in a repository beside the cluster.
    settings: of every server, by section.name.
    """

    servers: int = 3
    bookies: int = 3
    network: bool = False
    fault_injector: bool = False
    auto_recovery: bool = False
    archive: bool = False
    settings: Mapping[str, object] = field(default_factory=dict)

    def __or__(self, other: ClusterNeeds) -> ClusterNeeds:
        return ClusterNeeds(
            max(self.servers, other.servers),
            max(self.bookies, other.bookies),
            self.network or other.network,
            self.fault_injector or other.fault_injector,
            self.auto_recovery or other.auto_recovery,
            self.archive or other.archive,
            {**self.settings, **other.settings},
        )


class ClusterControl(Protocol):
    """What can be done to each process of a cluster. Every method blocks until it is done.

    Every method but `can` raises CannotError for what `can` gives a reason against, and ControlError when the
    means fail. Undoing what was not done (`resume` of one that runs, `heal`, `drain`) does nothing.
    """

    @property
    def url(self) -> str:
        """What clients are given: every server, and the tablespace."""

    @property
    def places(self) -> list[ProcessPlace]:
        """The cluster's processes, in the order ZooKeeper, bookies, servers."""

    def can(self, action: Action, process: str) -> str | None:
        """None, or the reason why it cannot be done to that process here."""

    def is_running(self, process: str) -> bool:
        """Whether the process has not ended; a paused one runs."""

    def kill(self, process: str) -> None:
        """End it as a crash does (SIGKILL)."""

    def stop(self, process: str) -> None:
        """Let it end in order (SIGTERM), and wait for that."""

    def start(self, process: str, *, wait: bool = True) -> None:
        """Start it where it was, with what it had; with `wait` return when it serves. Does nothing to one
        that runs but wait.
        """

    def pause(self, process: str) -> None:
        """Freeze it (SIGSTOP): connections stay open and nobody answers."""

    def resume(self, process: str) -> None:
        """Let it go on (SIGCONT)."""

    def kill_supervisor(self, process: str) -> None:
        """End the supervisor of a server (SIGKILL), and not the server."""

    def pause_supervisor(self, process: str) -> None:
        """Freeze the supervisor of a server (SIGSTOP)."""

    def resume_supervisor(self, process: str) -> None:
        """Let it go on (SIGCONT), also when its server has ended."""

    def cut(self, process: str, *, from_: Iterable[str], one_way: OneWay | None = None) -> None:
        """Lose what is sent between it and each of `from_` (names of processes, or CLIENTS), without a word.

        `one_way`: only what it sends is lost, or only what it is sent.
        """

    def heal(self, process: str) -> None:
        """Undo every `cut` of it."""

    def wipe(self, process: str) -> None:
        """Empty the disk of a process that does not run. A bookie may then come back as a new one with the
        old name.
        """

    def fill(self, process: str) -> None:
        """Let its disk have no room: every write to a file fails, until `drain`."""

    def drain(self, process: str) -> None:
        """Undo `fill`."""

    def slow(self, process: str, delay_s: float) -> None:
        """Let every sync of a file take so much longer, until `quicken`."""

    def quicken(self, process: str) -> None:
        """Undo `slow`."""

    def skew(self, process: str, seconds: float) -> None:
        """Set its wall clock (not the clocks that count up) so far from the true time; 0 sets it right."""

    def rot(self, process: str, marker: str | None, chance: Random) -> str:
        """Change bytes in the files of a process that does not run; what was changed, in words.

        With `marker` one bit wherever that text is; without, whole pages of a server's store or of a bookie's
        logs become garbage.
        """


# The view.

PATIENCE_S = 60.0
_PAGE_TIMEOUT_S = 2.0


class ViewError(Exception):
    """The cluster did not become what a fault had to wait for."""


class ClusterObserver:
    """The cluster that `control` has, looked at from outside.

    Tablespace, user, password and TLS are what the driver takes from the URL and the environment.
    `patience_s` is for how long it waits for what must come, unless a call says otherwise; `root` and
    `ledgers_root` are the servers' settings cluster.root and cluster.ledgers_root: those of the URL, where
    they are left out and it has them.
    """

    def __init__(
        self,
        control: ClusterControl,
        *,
        patience_s: float = PATIENCE_S,
        root: str | None = None,
        ledgers_root: str | None = None,
    ) -> None:
        self.patience_s = patience_s
        server = urls.parse(control.url)
        if not isinstance(server, urls.ServersUrl):
            raise ViewError(f"this URL names no servers: {urls.shown(control.url)}")
        options = remote_options(server, server.options)
        of_url = urls.DEFAULT_ROOT if server.zookeeper is None else server.zookeeper.root
        self.root = of_url if root is None else root
        self.ledgers_root = ledgers_root or options.ledgers_root or "/ledgers"
        self._control = control
        self.tablespace = options.database or DEFAULT_TABLESPACE
        self.user = options.user or "herdpy"
        self._password = options.password
        self._libpq: Mapping[str, Any] = options.libpq

    def places(self, kind: Kind) -> list[ProcessPlace]:
        """The processes of one kind."""
        return [one for one in self._control.places if one.kind == kind]

    def names(self, kind: Kind) -> list[str]:
        """Their names."""
        return [one.name for one in self.places(kind)]

    @property
    def only_address(self) -> str:
        """The server that clients with one address use: the last."""
        return self.names("server")[-1]

    def place(self, name: str) -> ProcessPlace:
        """The process of that name. Raises ViewError."""
        for one in self._control.places:
            if one.name == name:
                return one
        raise ViewError(f"the cluster has no process {name}")

    @property
    def zookeeper(self) -> str | None:
        """ZooKeeper's ``host:port,host:port``, None when it is not known."""
        found = [
            f"{one.host}:{one.ports['client']}" for one in self.places("zookeeper") if one.ports["client"]
        ]
        return ",".join(found) or None

    def replica_status(self, server: str) -> dict[str, Any]:
        """What the server's /status says of its replica of the tablespace; {} when it says nothing."""
        try:
            return status_of(self.place(server), self.tablespace, _PAGE_TIMEOUT_S)
        except (OSError, ValueError):
            return {}

    def leader(self) -> str | None:
        """The server that says that it leads; None when none does. Of several the one of the newest term."""
        statuses = [(name, self.replica_status(name)) for name in self.names("server")]
        leading = [(one["epoch"], name) for name, one in statuses if one.get("role") == "leader"]
        return max(leading)[1] if leading else None

    def await_leader(self, *, other_than: str | None = None, timeout_s: float | None = None) -> str:
        """The server that leads, once one does, and not `other_than`. Raises ViewError."""
        timeout_s = self.patience_s if timeout_s is None else timeout_s
        found: list[str] = []

        def leads() -> bool:
            leader = self.leader()
            if leader is not None and leader != other_than:
                found.append(leader)
            return bool(found)

        if not await_until(leads, timeout_s):
            raise ViewError(f"no server came to lead {self.tablespace} within {timeout_s:g} s")
        return found[0]

    def followers(self, leader: str) -> list[str]:
        """The servers that run and are not `leader`."""
        names = [name for name in self.names("server") if name != leader]
        return [name for name in names if self._control.is_running(name)]

    def setting(self, name: str) -> str | None:
        """A setting of the servers, as the leader has it; None without one. Raises psycopg.Error."""
        rows = self.run(
            self.await_leader(),
            f"SELECT value FROM herdpy.settings WHERE scope = 'server' AND name = '{name}'",
        )
        return None if not rows else str(rows[0][0])

    def first_ledger(self) -> int:
        """The oldest ledger that the log still has. Raises psycopg.Error."""
        query = f"SELECT min(ledger_id) FROM herdpy.ledgers WHERE tablespace = '{self.tablespace}'"
        return int(self.run(self.await_leader(), query)[0][0])

    def await_true(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until the condition holds. Raises ViewError with `what`."""
        if not await_until(condition, self.patience_s):
            raise ViewError(f"{what} within {self.patience_s:g} s")

    @property
    def bookkeeper_uri(self) -> str:
        """What ``BookKeeper(...)`` is given. Raises ViewError when ZooKeeper's address is not known."""
        if self.zookeeper is None:
            raise ViewError("it is not known where ZooKeeper is")
        return f"zk://{self.zookeeper}{self.ledgers_root}"

    def await_status(
        self,
        server: str,
        fits: Callable[[dict[str, Any]], bool],
        what: str,
        *,
        timeout_s: float | None = None,
    ) -> dict[str, Any]:
        """Wait until what the server says of its replica fits; it. Raises ViewError with `what`."""
        timeout_s = self.patience_s if timeout_s is None else timeout_s
        found: dict[str, Any] = {}

        def is_so() -> bool:
            found.clear()
            found.update(self.replica_status(server))
            return bool(found) and fits(found)

        if not await_until(is_so, timeout_s):
            raise ViewError(f"{server} did not {what} within {timeout_s:g} s: {found}")
        return dict(found)

    def await_following(self, *, timeout_s: float | None = None) -> str:
        """Wait until one server leads and every other follows it; the leader. Raises ViewError."""
        timeout_s = self.patience_s if timeout_s is None else timeout_s
        deadline = time.monotonic() + timeout_s
        leader = self.await_leader(timeout_s=timeout_s)
        for name in self.names("server"):
            left = max(1.0, deadline - time.monotonic())
            self.await_status(
                name, lambda one: one["role"] in ("leader", "follower"), "come to follow", timeout_s=left
            )
        return leader

    def connect(self, server: str) -> psycopg.Connection[tuple[Any, ...]]:
        """A connection to one server, by plain psycopg, each statement for itself."""
        place = self.place(server)
        return psycopg.connect(
            host=place.host,
            port=place.ports["sql"],
            dbname=self.tablespace,
            user=self.user,
            password=self._password,
            connect_timeout=5,
            autocommit=True,
            **self._libpq,
        )

    def run(self, server: str, *statements: str) -> list[tuple[Any, ...]]:
        """Run statements on one server; the rows of the last. Raises psycopg.Error."""
        with self.connect(server) as connection:
            for statement in statements:
                cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []
