"""A fault: something that happens to a cluster for a while, and is over.

Layer: above `control`, below the runner. The runner asks `cannot`, lets `prepare` do what must be before the
first client, and in the middle of the clients' work calls `begin`, waits `hold_s`, and calls `end`; when
everything is quiet it asks `findings`. All four block and run in one thread, never two at a time; they are
long for some (a rolling restart happens in `begin`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from random import Random
from typing import ClassVar

from herdpy.drill.control import Action, ClusterControl, ClusterNeeds, ClusterObserver
from herdpy.drill.judging import Verdict


def _nothing() -> None:
    """There is nobody to be poised."""


@dataclass(frozen=True)
class Poised:
    """Clients that have a connection to a leader that is about to sleep, and never hang up.

    speak: has them send their next statements, and returns when they wait for the answers. Called late in the
        leader's sleep, when others have written elsewhere: what it answers when it wakes may not be older.
    end: lets them go when they are answered.
    """

    speak: Callable[[], None]
    end: Callable[[], None]


@dataclass(frozen=True)
class RestoredDatabase:
    """What came out of an archive.

    url: of a server that serves it, until the drill is over.
    position: where it ends.
    time_us: commit time of its last transaction, microseconds since 1970-01-01 UTC; 0: of none.
    took_s: the restore's time, with its checks.
    interval_s: of the archive.
    """

    url: str
    position: str
    time_us: int
    took_s: float
    interval_s: float


class Fault(ABC):
    """One fault of one drill; what it chooses comes from `chance` alone.

    hold_s: how long the runner waits between `begin` and `end`, unless another time is given.
    least_s: what is shorter shows nothing; a storm may make it last anything from there on.
    note: is called with a line for each thing that happens; the runner makes events of kind "note" of them.
    mark: is called by a fault that is made of others when one of them begins or ends: with the kind of event
        ("fault-begin", "fault-end"), its name, and what happened.
    is_final: the cluster does not come back, and what is looked at after it is what `restored` gives.
    most_silent_s: the longest time without an acknowledged write that is allowed around it; None: any.
    poise: connects more clients of every workload to one server alone, by its name: see `Poised`.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    needs: ClassVar[ClusterNeeds] = ClusterNeeds()
    hold_s: float = 3.0
    least_s: float = 0.3
    is_final: ClassVar[bool] = False
    most_silent_s: ClassVar[float | None] = None

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.note: Callable[[str], None] = lambda _text: None
        self.mark: Callable[[str, str, str], object] = lambda _kind, _fault, _text: None
        self.poise: Callable[[str], Poised] = lambda _server: Poised(_nothing, _nothing)
        self._undo = ExitStack()

    @abstractmethod
    def cannot(self, control: ClusterControl, view: ClusterObserver) -> str | None:
        """None, or why this fault cannot be made on this cluster: the drill is then skipped, and says it."""

    def prepare(self, control: ClusterControl, view: ClusterObserver) -> None:  # noqa: B027 most have nothing to prepare
        """Do what must be before the clients begin. Its undoing happens in `end`."""

    @abstractmethod
    def begin(self, control: ClusterControl, view: ClusterObserver) -> str:
        """Make it happen; what happened to whom, in words. What was done stays so until `end`."""

    def end(self) -> None:
        """Undo everything, in the reverse order; every step is tried. It may be called twice, and after a
        `begin` that failed.
        """
        self._undo.close()

    def findings(self, control: ClusterControl, view: ClusterObserver) -> list[Verdict]:
        """What this fault itself expects of the cluster after it, beside what the workloads are judged by."""
        return []

    def restored(self) -> AbstractContextManager[RestoredDatabase]:
        """After a final fault: make a database of what is left. Raises ControlError."""
        raise NotImplementedError


def first_reason(control: ClusterControl, processes: list[str], *actions: Action) -> str | None:
    """The first reason why one of the actions cannot be done to one of the processes."""
    for process in processes:
        for action in actions:
            if (reason := control.can(action, process)) is not None:
                return f"{action} {process}: {reason}"
    return None
