"""Hands over a cluster on this machine: herdpy.dev's own, for a drill or one that `herdpy dev up` made.

Above `hands` and `bad_luck`. `local_cluster` makes a cluster with what the faults of a drill need, as far as
this machine has it; what is lacking is what `can` tells.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random

from herdpy.dev import DevError, LocalCluster, NotRunningError
from herdpy.drill.hands.bad_luck import BadLuck, library
from herdpy.drill.hands.hands import CLIENTS, Action, CannotError, HandsError, Kind, Needs, OneWay, Place
from herdpy.drill.hands.rot import bookie_files, rot, server_files
from herdpy.testing import KitError, NetworkUnavailableError
from herdpy.testing.network import Network, NetworkHost

_LUCK = ("fill", "slow", "skew")
_NO_NETWORK = "the cluster's processes share the loopback address"
_NO_LUCK = "the process was started without the library that makes clocks and disks go wrong"


class LocalHands:
    """`cluster` runs. `lucks` has the switches of each process's clock and disk; `lacking` says what this
    machine did not have for them ("bad luck") and for the network ("network").
    """

    def __init__(
        self,
        cluster: LocalCluster,
        *,
        lucks: Mapping[str, BadLuck] | None = None,
        lacking: Mapping[str, str] | None = None,
    ) -> None:
        self.cluster = cluster
        self._lucks = lucks or {}
        self._lacking = lacking or {}

    @property
    def url(self) -> str:
        """See `Hands.url`."""
        return self.cluster.url

    @property
    def places(self) -> list[Place]:
        """See `Hands.places`."""
        status, address = self.cluster.status(), self.cluster.address
        zookeeper = status.zookeeper
        return [
            Place(zookeeper.id, "zookeeper", address(zookeeper.id), {"client": zookeeper.port}),
            *(Place(one.id, "bookie", address(one.id), {"bookie": one.port}) for one in status.bookies),
            *(
                Place(one.id, "server", address(one.id), {"sql": one.sql_port, "http": one.http_port})
                for one in status.servers
            ),
        ]

    def can(self, action: Action, process: str) -> str | None:
        """See `Hands.can`."""
        if action == "cut" and self.cluster.host(process) is None:
            return self._lacking.get("network", _NO_NETWORK)
        if action in _LUCK and process not in self._lucks:
            return self._lacking.get("bad luck", _NO_LUCK)
        if action in ("wipe", "rot") and self._kind(process) == "zookeeper":
            return "there is one ZooKeeper only: without its disk nothing is left of the cluster"
        return None

    def is_running(self, process: str) -> bool:
        """See `Hands.is_running`."""
        return next(one for one in self.cluster.status().processes if one.id == process).pid is not None

    def kill(self, process: str) -> None:
        """See `Hands.kill`."""
        with _told():
            self.cluster.kill(process)

    def stop(self, process: str) -> None:
        """See `Hands.stop`."""
        with _told():
            self.cluster.stop(process)

    def start(self, process: str, *, wait: bool = True) -> None:
        """See `Hands.start`."""
        with _told():
            self.cluster.start(process, wait=wait)

    def pause(self, process: str) -> None:
        """See `Hands.pause`."""
        with _told():
            self.cluster.pause(process)

    def resume(self, process: str) -> None:
        """See `Hands.resume`."""
        with _told(), contextlib.suppress(NotRunningError):
            self.cluster.resume(process)

    def cut(self, process: str, *, from_: Iterable[str], one_way: OneWay | None = None) -> None:
        """See `Hands.cut`."""
        host = self._host(process)
        for name in from_:
            other = None if name == CLIENTS else self._host(name)
            host.cut_from(other, incoming=one_way != "sent", outgoing=one_way != "received")

    def heal(self, process: str) -> None:
        """See `Hands.heal`."""
        host = self.cluster.host(process)
        if host is not None:
            host.heal()

    def wipe(self, process: str) -> None:
        """See `Hands.wipe`."""
        self._demand("wipe", process)
        with _told():
            self.cluster.wipe(process)

    def fill(self, process: str) -> None:
        """See `Hands.fill`."""
        self._luck("fill", process).set_full(True)

    def drain(self, process: str) -> None:
        """See `Hands.drain`."""
        if process in self._lucks:
            self._lucks[process].set_full(False)

    def slow(self, process: str, delay_s: float) -> None:
        """See `Hands.slow`."""
        self._luck("slow", process).set_sync(delay_s)

    def quicken(self, process: str) -> None:
        """See `Hands.quicken`."""
        if process in self._lucks:
            self._lucks[process].set_sync(0.0)

    def skew(self, process: str, seconds: float) -> None:
        """See `Hands.skew`."""
        if seconds == 0 and process not in self._lucks:
            return
        self._luck("skew", process).set_clock(seconds)

    def rot(self, process: str, marker: str | None, chance: Random) -> str:
        """See `Hands.rot`."""
        self._demand("rot", process)
        if self.is_running(process):
            raise CannotError(f"{process} runs: kill or stop it first")
        files = bookie_files if self._kind(process) == "bookie" else server_files
        return rot(files(self.cluster.data_path(process)), marker, chance)

    def _kind(self, process: str) -> Kind | None:
        return next((one.kind for one in self.places if one.name == process), None)

    def _demand(self, action: Action, process: str) -> None:
        reason = self.can(action, process)
        if reason is not None:
            raise CannotError(f"{action} {process}: {reason}")

    def _host(self, process: str) -> NetworkHost:
        self._demand("cut", process)
        host = self.cluster.host(process)
        assert host is not None, process
        return host

    def _luck(self, action: Action, process: str) -> BadLuck:
        self._demand(action, process)
        return self._lucks[process]


@contextmanager
def local_cluster(directory: Path, needs: Needs) -> Iterator[LocalHands]:
    """A cluster of its own in `directory`, which is to be new, with what `needs` names; stopped at the end.

    Where this machine lacks what a network or bad luck wants (root, a C compiler), the cluster is made
    without, and `can` says the reason. Raises as LocalCluster does.
    """
    with ExitStack() as stack:
        lacking: dict[str, str] = {}
        network = _network(stack, lacking) if needs.network else None
        lucks = _Lucks(directory / "luck", stack) if needs.bad_luck and _has_library(lacking) else None
        cluster = LocalCluster(
            directory / "cluster",
            servers=needs.servers,
            bookies=needs.bookies,
            server_settings=needs.settings,
            auto_recovery=needs.auto_recovery,
            environment=lucks.environment if lucks is not None else None,
            network=network,
        )
        stack.enter_context(cluster)
        yield LocalHands(cluster, lucks=lucks.of if lucks is not None else None, lacking=lacking)


@contextmanager
def _told() -> Iterator[None]:
    """What goes wrong in the cluster's own words."""
    try:
        yield
    except (DevError, KitError) as error:
        raise HandsError(str(error)) from error


class _Lucks:
    """The switches of every process, made when it is first started."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._stack = stack
        self.of: dict[str, BadLuck] = {}

    def environment(self, name: str) -> dict[str, str]:
        luck = self.of.get(name)
        if luck is None:
            luck = self.of[name] = BadLuck(self._directory / name)
            self._stack.callback(luck.close)
        return luck.environment()


def _network(stack: ExitStack, lacking: dict[str, str]) -> Network | None:
    try:
        return stack.enter_context(Network())
    except NetworkUnavailableError as error:
        lacking["network"] = str(error)
        return None


def _has_library(lacking: dict[str, str]) -> bool:
    try:
        library()
    except CannotError as error:
        lacking["bad luck"] = str(error)
        return False
    return True
