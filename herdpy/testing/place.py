"""Where a server runs: at the loopback address, or in a network namespace of its own (network.py)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """An address and the command words that run a program where that address is local."""

    address: str
    prefix: tuple[str, ...] = ()
    interface: str = "lo"
    is_shared: bool = True
    """Whether other programs use the same address, so that ports must be reserved."""


LOOPBACK = Place("127.0.0.1")
