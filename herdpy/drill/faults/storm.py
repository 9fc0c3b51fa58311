"""Faults of all kinds, by chance, up to two at a time."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Collection, Sequence
from random import Random
from typing import ClassVar

from herdpy.drill.control import ClusterControl, ClusterNeeds, ClusterObserver, ControlError
from herdpy.drill.control.control import ViewError
from herdpy.drill.faults import disks, partitions, processes, supervisors
from herdpy.drill.faults.fault import Fault

LEADING: tuple[type[Fault], ...] = (
    processes.KillLeader,
    processes.PauseLeader,
    processes.SilentMachine,
    supervisors.PauseSupervisor,
    partitions.PartitionLeader,
    partitions.LoseInFlight,
    partitions.LoseOnlyWitness,
)
"""What threatens a leader, and so every promise: each of these comes early."""
KINDS: tuple[type[Fault], ...] = (
    *LEADING,
    partitions.DelayInFlight,
    supervisors.KillSupervisor,
    supervisors.KillLeaderAndSupervisor,
    processes.KillLeaderAndBookies,
    processes.KillFollower,
    processes.KillBookie,
    processes.PauseBookie,
    processes.KillZooKeeper,
    processes.PauseZooKeeper,
    processes.ExpireSession,
    disks.SlowDisk,
    disks.FullDisk,
    processes.ClockJump,
)
_PATIENCE_S = 10.0
_LONGEST_S = 4.0
_SECOND_ONE = 0.4


class Bag:
    """Faults are dealt from a shuffled bag: all of them have come before one comes again.

    Those of `leading` take turns with the others, so that a short storm has had them, whatever its seed is.
    """

    def __init__(
        self, kinds: Sequence[type[Fault]], chance: Random, leading: Collection[type[Fault]] = LEADING
    ) -> None:
        self._kinds = kinds
        self._leading = leading
        self._chance = chance
        self._left: list[type[Fault]] = []
        self.waiting = set(kinds)  # those that were never dealt

    def deal(self) -> type[Fault]:
        """The next one; the bag is filled again when it is empty."""
        if not self._left:
            leading = [kind for kind in self._kinds if kind in self._leading]
            others = [kind for kind in self._kinds if kind not in self._leading]
            self._chance.shuffle(leading)
            self._chance.shuffle(others)
            turns = itertools.zip_longest(leading, others)
            self._left = [kind for turn in turns for kind in turn if kind is not None][::-1]
        dealt = self._left.pop()
        self.waiting.discard(dealt)
        return dealt


class Storm(Fault):
    """One fault after the other, sometimes a second one within the first, from `begin` until `end`.

    What is dealt follows from the seed (`Bag`); what the cluster makes of it depends on its timing. A fault
    that cannot happen at its moment, because another has left nobody to whom, is reported and passed over;
    so is at the end what the storm was too short for.

    kinds: what may be dealt. leading: those of them that come early.
    """

    name = "storm"
    summary = "a seeded mix of the other faults, up to two at a time"
    needs = ClusterNeeds(network=True, fault_injector=True)
    hold_s = 20.0
    kinds: ClassVar[tuple[type[Fault], ...]] = KINDS
    leading: ClassVar[tuple[type[Fault], ...]] = LEADING

    def __init__(self, chance: Random) -> None:
        super().__init__(chance)
        self._over = threading.Event()
        self._failed: BaseException | None = None

    def cannot(self, control: ClusterControl, view: ClusterObserver) -> str | None:
        """See `Fault.cannot`: some of them can always be made."""
        if self._able(control, view):
            return None
        return "; ".join(f"{kind.name}: {kind(Random(0)).cannot(control, view)}" for kind in self.kinds)

    def begin(self, control: ClusterControl, view: ClusterObserver) -> str:
        """See `Fault.begin`. It goes on in a thread until `end`."""
        able = self._able(control, view)
        short = ClusterObserver(
            control, patience_s=_PATIENCE_S, root=view.root, ledgers_root=view.ledgers_root
        )
        bag = Bag(able, self.chance, self.leading)
        thread = threading.Thread(target=self._blow, args=(control, short, bag), name="storm")
        self._undo.callback(self._calm)
        self._undo.callback(self._note_what_never_came, bag)
        self._undo.callback(thread.join)
        self._undo.callback(self._over.set)
        thread.start()
        without = [kind.name for kind in self.kinds if kind not in able]
        return f"a storm of {', '.join(kind.name for kind in able)}" + (
            f"; not of {', '.join(without)}" if without else ""
        )

    def made(self, kind: type[Fault]) -> Fault:
        """A fault that was dealt, with what it needs of the storm."""
        fault = kind(self.chance)
        fault.note, fault.poise = self.note, self.poise
        return fault

    def _able(self, control: ClusterControl, view: ClusterObserver) -> list[type[Fault]]:
        return [kind for kind in self.kinds if kind(Random(0)).cannot(control, view) is None]

    def _blow(self, control: ClusterControl, view: ClusterObserver, bag: Bag) -> None:
        try:
            while not self._over.is_set():
                self._one(control, view, bag, is_inner=False)
                self._over.wait(self.chance.uniform(0.0, 1.0))
        except BaseException as error:  # noqa: BLE001 - raised by `end`
            self._failed = error

    def _one(self, control: ClusterControl, view: ClusterObserver, bag: Bag, *, is_inner: bool) -> None:
        """One fault from its beginning to its end, perhaps with another within."""
        kind = bag.deal()
        fault = self.made(kind)
        lasts_s = self.chance.uniform(fault.least_s, max(fault.least_s, _LONGEST_S))
        has_second = not is_inner and self.chance.random() < _SECOND_ONE
        text: str | None = None
        try:
            try:
                text = fault.begin(control, view)
            except (ViewError, ControlError, IndexError) as error:
                self.note(f"no {kind.name} just now: {error}")
                return
            self.mark("fault-begin", kind.name, text)
            self._over.wait(lasts_s)
            if has_second and not self._over.is_set():
                self._one(control, view, bag, is_inner=True)
        finally:
            fault.end()
            if text is not None:
                self.mark("fault-end", kind.name, f"{kind.name} is over")

    def _note_what_never_came(self, bag: Bag) -> None:
        if bag.waiting:
            names = sorted(kind.name for kind in bag.waiting)
            self.note(f"the storm was too short for {', '.join(names)}")

    def _calm(self) -> None:
        if self._failed is not None:
            failed, self._failed = self._failed, None
            raise failed
