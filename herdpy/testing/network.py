"""Where a server runs, and partitions between servers.

A server is at the loopback address, or in a network namespace of its own; those are joined by a bridge, cut
off and healed (root on Linux).

A cut changes a permanent neighbour entry: what is sent to the address then travels to a hardware address
that nobody has, and is lost without a word, in that direction only. Connections that exist and new ones
both hang, as they do when a cable is pulled; no packet filter is needed. Names carry the process id, so
that what a crashed process left is found and removed by the next.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from herdpy.testing.errors import NetworkUnavailableError


class ServerPlace:
    """An address, and how to run a program where that address is local.

    `prefix` are the words before a command, `interface` has the address, and `is_shared` says whether other
    programs use the address too, so that ports must be reserved.
    """

    def __init__(
        self, address: str, *, prefix: tuple[str, ...] = (), interface: str = "lo", is_shared: bool = True
    ) -> None:
        self.address = address
        self.prefix = prefix
        self.interface = interface
        self.is_shared = is_shared

    def cut(self, *, incoming: bool = True, outgoing: bool = True) -> None:
        """Lose what is sent to this place, from it, or both, until `heal`."""
        raise NetworkUnavailableError(f"{self.address} cannot be cut off: start the cluster with a Network")

    def heal(self) -> None:
        """Undo every cut of this place."""


LOOPBACK = ServerPlace("127.0.0.1")


_NOBODY = "02:00:00:00:00:0f"
_SUBNETS = "198.18"  # set aside for tests of networks by RFC 2544
SUBNETS = f"{_SUBNETS}.0.0/16"
"""All addresses that networks of this machine have."""

_OURS = re.compile(r"^h(?:erdpy-|b|v)(\d+)-")
_COMMAND_TIMEOUT_S = 10.0
_numbers = itertools.count()


class Network:
    """A bridge with the machine itself at its first address; a context manager.

    Raises NetworkUnavailableError, with the reason, where namespaces cannot be made.
    """

    def __init__(self) -> None:
        self._cleanup = ExitStack()
        self.bridge = f"hb{os.getpid()}-{next(_numbers)}"
        self._subnet = ""
        self.hosts: list[NetworkHost] = []

    def __enter__(self) -> Self:
        if os.geteuid() != 0:
            raise NetworkUnavailableError("network namespaces need root")
        if shutil.which("ip") is None:
            raise NetworkUnavailableError("the command ip was not found (Debian: apt-get install iproute2)")
        with ExitStack() as undo, _one_at_a_time():
            sweep()
            self._subnet = _free_subnet()
            try:
                ip("link", "add", self.bridge, "type", "bridge", "forward_delay", "0")
                undo.callback(ip, "link", "delete", self.bridge)
                ip("address", "add", f"{self._subnet}.1/24", "dev", self.bridge)
                ip("link", "set", self.bridge, "up")
            except subprocess.CalledProcessError as error:
                raise NetworkUnavailableError(
                    f"the kernel refuses a bridge: {error.stderr.strip()}"
                ) from error
            self._cleanup = undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cleanup.close()
        self.hosts.clear()

    def add_host(self) -> NetworkHost:
        """A new namespace with an address; servers run there with ``place=host``, and end before it."""
        number = next(_numbers)
        namespace, outside = f"herdpy-{os.getpid()}-{number}", f"hv{os.getpid()}-{number}"
        address = f"{self._subnet}.{len(self.hosts) + 2}"
        try:
            ip("netns", "add", namespace)
            self._cleanup.callback(ip, "netns", "delete", namespace)
            ip("link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", namespace)
            ip("link", "set", outside, "master", self.bridge, "up")
            ip("-n", namespace, "address", "add", f"{address}/24", "dev", "eth0")
            ip("-n", namespace, "link", "set", "lo", "up")
            ip("-n", namespace, "link", "set", "eth0", "up")
        except subprocess.CalledProcessError as error:
            raise NetworkUnavailableError(
                f"the kernel refuses a namespace: {error.stderr.strip()}"
            ) from error
        host = NetworkHost(self, namespace, address)
        self.hosts.append(host)
        return host

    def neighbours(self, host: NetworkHost) -> list[tuple[tuple[str, ...], str]]:
        """Who can send to `host`, and is sent to by it: the arguments of `ip` that work there, and its
        device.
        """
        others: list[tuple[tuple[str, ...], str]] = [((), self.bridge)]
        return others + [(("-n", other.namespace), "eth0") for other in self.hosts if other is not host]


class NetworkHost(ServerPlace):
    """One address of a network, with a namespace behind it."""

    def __init__(self, network: Network, namespace: str, address: str) -> None:
        prefix = ("ip", "netns", "exec", namespace)
        super().__init__(address, prefix=prefix, interface="eth0", is_shared=False)
        self._network = network
        self.namespace = namespace

    def cut(self, *, incoming: bool = True, outgoing: bool = True) -> None:
        """Lose what is sent to this host (`incoming`), what it sends (`outgoing`), or both, until `heal`."""
        for where, device in self._network.neighbours(self):
            if incoming:
                _lose((*where, "neighbour"), self.address, device)
        if outgoing:
            for address in self._others():
                _lose(("-n", self.namespace, "neighbour"), address, "eth0")

    def cut_from(self, other: NetworkHost | None, *, incoming: bool = True, outgoing: bool = True) -> None:
        """Like `cut`, but only what travels between this host and `other`; None is the machine itself."""
        address = other.address if other is not None else self._machine
        where, device = (("-n", other.namespace), "eth0") if other is not None else ((), self._network.bridge)
        if incoming:
            _lose((*where, "neighbour"), self.address, device)
        if outgoing:
            _lose(("-n", self.namespace, "neighbour"), address, "eth0")

    def heal(self) -> None:
        """Undo every cut of this host. What was sent meanwhile and is still wanted is sent again by TCP."""
        for where, device in self._network.neighbours(self):
            _find((*where, "neighbour"), self.address, device)
        for address in self._others():
            _find(("-n", self.namespace, "neighbour"), address, "eth0")

    @property
    def _machine(self) -> str:
        return f"{self.address.rpartition('.')[0]}.1"

    def _others(self) -> list[str]:
        return [self._machine, *(other.address for other in self._network.hosts if other is not self)]


def ip(*arguments: str) -> str:
    """Run ip(8) and return its output. Raises CalledProcessError."""
    done = subprocess.run(
        ["ip", *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=_COMMAND_TIMEOUT_S,
        stdin=subprocess.DEVNULL,
    )
    return done.stdout


def sweep() -> None:
    """Remove the bridges and namespaces of processes that have ended."""
    for line in ip("netns", "list").splitlines():
        name = line.split()[0]
        if _is_stale(name):
            ip("netns", "delete", name)
    for link in _json("link", "show"):
        if _is_stale(link["ifname"]) and link["ifname"].startswith("hb"):
            ip("link", "delete", link["ifname"])


def _is_stale(name: str) -> bool:
    ours = _OURS.match(name)
    return ours is not None and not Path(f"/proc/{ours[1]}").exists()


def _lose(neighbour: tuple[str, ...], address: str, device: str) -> None:
    ip(*neighbour, "replace", address, "lladdr", _NOBODY, "dev", device, "nud", "permanent")


def _find(neighbour: tuple[str, ...], address: str, device: str) -> None:
    entries = json.loads(
        ip("-j", *neighbour, "show", "to", address, "dev", device, "nud", "permanent") or "[]"
    )
    if entries:
        ip(*neighbour, "delete", address, "dev", device)


def _free_subnet() -> str:
    used = {entry.get("dst", "") for entry in _json("route", "show")}
    for number in range(256):
        subnet = f"{_SUBNETS}.{number}"
        if f"{subnet}.0/24" not in used:
            return subnet
    raise NetworkUnavailableError(f"no subnet of {SUBNETS} is free")


def _json(*arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(ip("-j", *arguments) or "[]")
    return found


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Two processes must not choose the same subnet."""
    with (Path(tempfile.gettempdir()) / "herdpy-testing-network.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
