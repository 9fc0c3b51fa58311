"""Faults of all kinds, by chance, up to two at a time."""

from __future__ import annotations

import threading
from random import Random

from herdpy.drill.faults.clocks import ClockJump
from herdpy.drill.faults.disks import FullDisk, SlowDisk
from herdpy.drill.faults.fault import Fault
from herdpy.drill.faults.partitions import PartitionLeader
from herdpy.drill.faults.processes import (
    KillBookie,
    KillFollower,
    KillLeader,
    KillZooKeeper,
    PauseBookie,
    PauseLeader,
)
from herdpy.drill.faults.sessions import ExpireSession
from herdpy.drill.hands import ClusterView, Hands, HandsError, Needs
from herdpy.drill.hands.view import ViewError

KINDS: tuple[type[Fault], ...] = (
    KillLeader,
    PauseLeader,
    PartitionLeader,
    KillFollower,
    KillBookie,
    PauseBookie,
    KillZooKeeper,
    ExpireSession,
    SlowDisk,
    FullDisk,
    ClockJump,
)
_PATIENCE_S = 10.0
_LONGEST_S = 4.0
_SECOND_ONE = 0.4


class Storm(Fault):
    """One fault after the other, sometimes a second one within the first, from `begin` until `end`.

    What is chosen follows from the seed; what the cluster makes of it depends on its timing. A fault that
    cannot happen at its moment, because another has left nobody to whom, is told and passed over.
    """

    name = "storm"
    summary = "a seeded mix of the other faults, up to two at a time"
    needs = Needs(network=True, bad_luck=True)
    hold_s = 20.0

    def __init__(self, chance: Random) -> None:
        super().__init__(chance)
        self._over = threading.Event()
        self._failed: BaseException | None = None

    def cannot(self, hands: Hands, view: ClusterView) -> str | None:
        """See `Fault.cannot`: some of them can always be made."""
        if self._able(hands, view):
            return None
        return "; ".join(f"{kind.name}: {kind(Random(0)).cannot(hands, view)}" for kind in KINDS)

    def begin(self, hands: Hands, view: ClusterView) -> str:
        """See `Fault.begin`. It goes on in a thread until `end`."""
        able = self._able(hands, view)
        short = ClusterView(hands, patience_s=_PATIENCE_S, root=view.root, ledgers_root=view.ledgers_root)
        thread = threading.Thread(target=self._blow, args=(hands, short, able), name="storm")
        self._undo.callback(self._calm)
        self._undo.callback(thread.join)
        self._undo.callback(self._over.set)
        thread.start()
        without = [kind.name for kind in KINDS if kind not in able]
        return f"a storm of {', '.join(kind.name for kind in able)}" + (
            f"; not of {', '.join(without)}" if without else ""
        )

    def _able(self, hands: Hands, view: ClusterView) -> list[type[Fault]]:
        return [kind for kind in KINDS if kind(Random(0)).cannot(hands, view) is None]

    def _blow(self, hands: Hands, view: ClusterView, able: list[type[Fault]]) -> None:
        try:
            while not self._over.is_set():
                self._one(hands, view, able, self.chance.choice(able), is_inner=False)
                self._over.wait(self.chance.uniform(0.0, 1.0))
        except BaseException as error:  # noqa: BLE001 - raised by `end`
            self._failed = error

    def _one(
        self, hands: Hands, view: ClusterView, able: list[type[Fault]], kind: type[Fault], *, is_inner: bool
    ) -> None:
        """One fault from its beginning to its end, perhaps with another within."""
        fault = kind(self.chance)
        fault.tell = self.tell
        lasts_s = self.chance.uniform(0.3, _LONGEST_S)
        second = self.chance.choice(able) if not is_inner and self.chance.random() < _SECOND_ONE else None
        text: str | None = None
        try:
            try:
                text = fault.begin(hands, view)
            except (ViewError, HandsError, IndexError) as error:
                self.tell(f"no {kind.name} just now: {error}")
                return
            self.mark("fault-begin", kind.name, text)
            self._over.wait(lasts_s)
            if second is not None and not self._over.is_set():
                self._one(hands, view, able, second, is_inner=True)
        finally:
            fault.end()
            if text is not None:
                self.mark("fault-end", kind.name, f"{kind.name} is over")

    def _calm(self) -> None:
        if self._failed is not None:
            failed, self._failed = self._failed, None
            raise failed
