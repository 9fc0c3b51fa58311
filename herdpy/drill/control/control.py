"""The control of a cluster: kills, pauses, cuts off, and undoes it.

Layer: beside `history`, below `faults`. A fault says what happens, a ClusterControl knows how it is done:
LocalControl to a cluster on this machine (herdpy.dev), CommandControl by the commands of an operator's file
(ssh, systemctl, kubectl). One that cannot do something says why (`can`); nothing is left out in silence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Literal, Protocol

Kind = Literal["zookeeper", "bookie", "server"]
Action = Literal["kill", "stop", "start", "pause", "resume", "cut", "wipe", "fill", "slow", "skew", "rot"]
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


@dataclass(frozen=True)
class ClusterNeeds:
    """What a fault wants of a cluster that is made for the drill; another cluster has it or has not.

    network: every process has an address of its own that can be cut off.
    fault_injector: every process has clocks and disks that can go wrong (fault_injector.c).
    auto_recovery: BookKeeper's daemon that copies the entries of lost bookies runs.
    settings: of every server, by section.name.
    """

    servers: int = 3
    bookies: int = 3
    network: bool = False
    fault_injector: bool = False
    auto_recovery: bool = False
    settings: Mapping[str, object] = field(default_factory=dict)

    def __or__(self, other: ClusterNeeds) -> ClusterNeeds:
        return ClusterNeeds(
            max(self.servers, other.servers),
            max(self.bookies, other.bookies),
            self.network or other.network,
            self.fault_injector or other.fault_injector,
            self.auto_recovery or other.auto_recovery,
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
