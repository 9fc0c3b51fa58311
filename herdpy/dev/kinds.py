"""What the processes of a local cluster are: the configuration, command, readiness and ports of each kind.

ZooKeeper and bookies are configured as herdpy.testing does it. A HerdPy server is `herdpy server` with flags
alone: variables named HERDPY_... of whoever starts the cluster do not reach it.

Ports are kept from `up` to `down`. A reservation is a socket that is bound and never listens
(herdpy.testing.process): the process whose port it is can listen there, and come back to it after a crash,
while nobody who asks for a free port is given it. The command that makes reservations ends, so a keeper
inherits them: a process that does nothing else. A port that is listened on cannot be reserved once more, so a
keeper keeps what it has.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Protocol, Self

from herdpy.dev.directory import ADDRESS, ClusterDirectory, ClusterState, DevMember, Kind, PortKeeper
from herdpy.dev.process import MemberProcess, spawn_waiting
from herdpy.testing.bookie import (
    bookie_command,
    bookie_configuration,
    recovery_command,
    recovery_configuration,
)
from herdpy.testing.errors import PortTakenError, StartError
from herdpy.testing.java import write_configuration
from herdpy.testing.network import SUBNETS
from herdpy.testing.process import PortReservation, await_listening, await_until, listener_inodes
from herdpy.testing.zookeeper import LEDGERS_ROOT, ClusterZnodes, zookeeper_command, zookeeper_configuration

START_TIMEOUT_S = 60.0
TABLESPACE = "herdpy"
"""The default tablespace, which is also the name of the database."""

_PAGE_TIMEOUT_S = 2.0
_GRACEFUL_TIMEOUT_S = 2.0
_QUORUM, _ACK_QUORUM = 3, 2
_TRUST_THE_NETWORK = f'{{ method = "trust", network = "{SUBNETS}", user = "all" }}'


class KindOfProcess(Protocol):
    """What is to be known of one kind of process."""

    @property
    def ports(self) -> tuple[str, ...]:
        """What its ports are for."""

    def prepare(self, member: DevMember, state: ClusterState, directory: ClusterDirectory) -> list[str]:
        """Write the configuration, and return the words of the command."""

    def await_ready(self, member: DevMember, state: ClusterState, process: MemberProcess) -> None:
        """Return when the process itself listens on its ports, and serves. Raises StartError."""


class ZooKeeperKind:
    """ZooKeeper, alone in its ensemble."""

    ports = ("client",)

    def prepare(self, member: DevMember, state: ClusterState, directory: ClusterDirectory) -> list[str]:
        """See `KindOfProcess.prepare`."""
        home = directory.data(member.name)
        (home / "data").mkdir(parents=True, exist_ok=True)
        lines = zookeeper_configuration(home / "data", address=member.address, port=member.ports["client"])
        write_configuration(home / "zoo.cfg", lines)
        options = state.options.java_options
        return zookeeper_command(home / "zoo.cfg", options, writes_archive=False).argv()

    def await_ready(self, member: DevMember, state: ClusterState, process: MemberProcess) -> None:
        """See `KindOfProcess.await_ready`; what bookies need to find in ZooKeeper is written as well."""
        await_listening(process, member.address, member.ports["client"], START_TIMEOUT_S)
        with ClusterZnodes(zookeeper_hostport(state)) as znodes:
            znodes.initialise()


class BookieKind:
    """A bookie; BookKeeper knows it by its address and port."""

    ports = ("bookie",)

    def prepare(self, member: DevMember, state: ClusterState, directory: ClusterDirectory) -> list[str]:
        """See `KindOfProcess.prepare`. The registration that a killed process left is deleted: a new one
        would wait to see it expire.
        """
        home = directory.data(member.name)
        home.mkdir(parents=True, exist_ok=True)
        port = member.ports["bookie"]
        lines = bookie_configuration(
            home,
            zookeeper_hostport(state),
            address=member.address,
            port=port,
            interface=interface_of(member),
        )
        write_configuration(home / "bookie.conf", {**lines, **state.options.bookie_configuration})
        with ClusterZnodes(zookeeper_hostport(state)) as znodes:
            znodes.forget_registration(bookie_id(member))
        options = state.options.java_options
        return bookie_command(home / "bookie.conf", options, writes_archive=False).argv()

    def await_ready(self, member: DevMember, state: ClusterState, process: MemberProcess) -> None:
        """See `KindOfProcess.await_ready`: it is registered as well."""
        await_listening(process, member.address, member.ports["bookie"], START_TIMEOUT_S)
        with ClusterZnodes(zookeeper_hostport(state)) as znodes:
            _await(process, lambda: znodes.is_registered(bookie_id(member)), "register with ZooKeeper")


class RecoveryKind:
    """BookKeeper's auto recovery daemon, whose port is only its name."""

    ports = ("bookie",)

    def prepare(self, member: DevMember, state: ClusterState, directory: ClusterDirectory) -> list[str]:
        """See `KindOfProcess.prepare`."""
        home = directory.data(member.name)
        home.mkdir(parents=True, exist_ok=True)
        lines = recovery_configuration(
            zookeeper_hostport(state),
            address=member.address,
            port=member.ports["bookie"],
            interface=interface_of(member),
        )
        write_configuration(home / "recovery.conf", lines)
        options = state.options.java_options
        return recovery_command(home / "recovery.conf", options, writes_archive=False).argv()

    def await_ready(self, member: DevMember, state: ClusterState, process: MemberProcess) -> None:
        """See `KindOfProcess.await_ready`: it looks after the ledgers of lost bookies."""
        with ClusterZnodes(zookeeper_hostport(state)) as znodes:
            _await(process, znodes.has_auditor, "become the auditor")


class ServerKind:
    """A HerdPy server: a node of the cluster."""

    ports = ("sql", "grpc", "http")

    def prepare(self, member: DevMember, state: ClusterState, directory: ClusterDirectory) -> list[str]:
        """See `KindOfProcess.prepare`."""
        home = directory.data(member.name)
        home.mkdir(parents=True, exist_ok=True)
        settings = {**_server_settings(member, state, known_settings()), **state.options.server_settings}
        words = [sys.executable, "-P", "-m", "herdpy.cli", "server", "--data", str(home)]
        for name, value in settings.items():
            words += ["--set", f"{name}={value}"]
        return words

    def await_ready(self, member: DevMember, state: ClusterState, process: MemberProcess) -> None:
        """See `KindOfProcess.await_ready`."""
        await_listening(process, member.address, member.ports["http"], START_TIMEOUT_S)
        _await(process, lambda: _phase(member) == "serving", "begin to serve")
        await_listening(process, member.address, member.ports["sql"], START_TIMEOUT_S)
        if listener_inodes(
            member.address, member.ports["grpc"], process.pid or "self"
        ):  # a server may be configured without
            await_listening(process, member.address, member.ports["grpc"], START_TIMEOUT_S)


PORTS_IN_NAMESPACE: Mapping[str, int] = {
    "client": 2181,
    "bookie": 3181,
    "sql": 5432,
    "http": 8480,
    "grpc": 8481,
}
_SECTIONS = {"sql": "postgres", "grpc": "grpc", "http": "http"}
KINDS: Mapping[Kind, KindOfProcess] = {
    "zookeeper": ZooKeeperKind(),
    "bookie": BookieKind(),
    "recovery": RecoveryKind(),
    "server": ServerKind(),
}


def zookeeper_hostport(state: ClusterState) -> str:
    """Where the cluster's ZooKeeper is."""
    member = state.member("zookeeper")
    return f"{member.address}:{member.ports['client']}"


def bookkeeper_uri(state: ClusterState) -> str:
    """What ``BookKeeper(...)`` is given."""
    return f"zk://{zookeeper_hostport(state)}{LEDGERS_ROOT}"


def interface_of(member: DevMember) -> str:
    """The network interface that has the member's address."""
    return "lo" if member.namespace is None else "eth0"


def bookie_id(member: DevMember) -> str:
    """A bookie's id in ledgers' metadata."""
    return f"{member.address}:{member.ports['bookie']}"


def server_environment() -> dict[str, str]:
    """This process's environment without what would configure a server."""
    return {name: value for name, value in os.environ.items() if not name.startswith("HERDPY_")}


def known_settings() -> frozenset[str]:
    """The settings that the installed server has. ImportError where only the driver is installed."""
    from herdpy_server.config.fields import all_settings

    return frozenset(all_settings())


def _server_settings(member: DevMember, state: ClusterState, known: frozenset[str]) -> dict[str, str]:
    settings = {
        "postgres.addresses": member.address,
        "shutdown.graceful_timeout_s": str(_GRACEFUL_TIMEOUT_S),
    }
    if member.namespace is not None:
        settings["authentication.rules"] = f"[{_TRUST_THE_NETWORK}]"
        settings["authentication.trust_other_machines"] = "true"
    for name, section in _SECTIONS.items():
        settings |= {f"{section}.address": member.address, f"{section}.port": str(member.ports[name])}
    bookies, servers = len(state.of_kind("bookie")), len(state.of_kind("server"))
    if bookies:
        settings |= {
            "cluster.zookeeper": zookeeper_hostport(state),
            "cluster.ledgers_root": LEDGERS_ROOT,
            "cluster.node": member.name,
            "cluster.tablespace": TABLESPACE,
            "cluster.expected_replicas": str(min(servers, _QUORUM)),
            "cluster.ensemble": str(min(bookies, _QUORUM)),
            "cluster.write_quorum": str(min(bookies, _QUORUM)),
            "cluster.ack_quorum": str(min(bookies, _ACK_QUORUM)),
        }
    return {name: value for name, value in settings.items() if name in known}


def _await(process: MemberProcess, condition: Callable[[], bool], what: str) -> None:
    in_time = await_until(lambda: condition() or not process.is_running, START_TIMEOUT_S)
    if process.is_running and in_time:
        return
    why = process.ending() if in_time else f"did not {what} within {START_TIMEOUT_S:g} s"
    raise StartError(f"{process.name} {why}\n{process.log_tail()}")


def _phase(member: DevMember) -> str:
    found = get_json(member, "/health")
    return str(found.get("phase")) if isinstance(found, dict) else ""


def get_json(member: DevMember, path: str) -> Any:
    """A page of a server's HTTP port; None when it does not answer, or not with JSON."""
    place = f"{member.address}:{member.ports['http']}"
    try:
        with urllib.request.urlopen(f"http://{place}{path}", timeout=_PAGE_TIMEOUT_S) as answer:
            return json.load(answer)
    except (OSError, ValueError):
        return None


# Reservations.


class Reservations:
    """Reservations held by this process; a context manager, which gives them back at the end."""

    def __init__(self) -> None:
        self._held: dict[int, PortReservation] = {}

    def new_ports(self, kind: Kind) -> dict[str, int]:
        """Free ports for a new process of that kind, reserved."""
        ports = {}
        for name in KINDS[kind].ports:
            reservation = PortReservation(ADDRESS)
            self._held[reservation.port] = reservation
            ports[name] = reservation.port
        return ports

    def of(self, member: DevMember) -> None:
        """Reserve the ports of a process that is to be started. Raises PortTakenError.

        In a network namespace of its own a process has all ports for itself.
        """
        if member.namespace is not None:
            return
        for name, port in member.ports.items():
            if port not in self._held:
                try:
                    self._held[port] = PortReservation(ADDRESS, port)
                except OSError as error:
                    what = f"{member.name}: its port {port} ({name}) is in use by another process"
                    raise PortTakenError(f"{what}, and it cannot have another") from error

    def keep(self, state: ClusterState, directory: ClusterDirectory, *, dies_with_us: bool) -> None:
        """Start a keeper of what no living keeper has; it is written down before it runs."""
        state.keepers = [one for one in state.keepers if one.process.is_running]
        kept = {port for one in state.keepers for port in one.ports}
        lacking = [port for port in self._held if port not in kept]
        if not lacking:
            return
        with spawn_waiting(
            (),
            directory=directory.path,
            log_path=directory.log("keeper"),
            environment={},
            dies_with_us=dies_with_us,
            reservations=[self._held[port] for port in lacking],
        ) as spawned:
            state.keepers.append(PortKeeper(spawned.identity, lacking))
            directory.save(state)
            spawned.go()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for reservation in self._held.values():
            reservation.close()
