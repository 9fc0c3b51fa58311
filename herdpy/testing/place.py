"""Where a server runs: at the loopback address, or in a network namespace of its own (network.py)."""

from __future__ import annotations

from herdpy.testing.errors import NetworkUnavailableError


class Place:
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


LOOPBACK = Place("127.0.0.1")
