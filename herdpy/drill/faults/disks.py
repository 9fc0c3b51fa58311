"""Disks that are lost, full, or slow."""

from __future__ import annotations

import asyncio
import threading
from random import Random

from herdpy.bookkeeper import BookKeeper
from herdpy.bookkeeper.errors import NoSuchLedgerError
from herdpy.drill.control import ClusterControl, ClusterNeeds, ClusterObserver, ControlError
from herdpy.drill.faults.fault import Fault, first_reason
from herdpy.drill.faults.ledgers import ledger_of
from herdpy.drill.faults.processes import without_bookies, without_followers
from herdpy.testing.registry import ClusterZnodes

_STEP_S = 0.5


class LoseBookieDisk(Fault):
    """A bookie is gone for good; auto recovery copies what it had, then it comes back as a new one.

    It stays away until no ledger names it, so that every entry has all its copies again; what becomes of one
    that comes back at once is drilled by `EmptyBookie`.
    """

    name = "lose-bookie-disk"
    summary = "a bookie's disk is lost; auto recovery copies its entries, then it comes back empty"
    needs = ClusterNeeds(bookies=4, auto_recovery=True)
    hold_s = 3.0

    def cannot(self, control: ClusterControl, view: ClusterObserver) -> str | None:
        """See `Fault.cannot`."""
        reason = first_reason(control, view.names("bookie"), "kill", "wipe", "start")
        if reason is not None:
            return reason
        if len(view.names("bookie")) < 4:
            return "there are not four bookies: a fourth is needed to hold the copies"
        if view.zookeeper is None:
            return "it is not known where ZooKeeper is"
        with ClusterZnodes(view.zookeeper) as znodes:
            return None if znodes.has_auditor() else "auto recovery does not run in this cluster"

    def begin(self, control: ClusterControl, view: ClusterObserver) -> str:
        """See `Fault.begin`."""
        lost = self.chance.choice(view.places("bookie"))
        control.kill(lost.name)
        self._undo.callback(self._come_back, control, view, lost.name, lost.bookie_id)
        control.wipe(lost.name)
        return f"{lost.name} is killed, and its disk is wiped"

    def _come_back(self, control: ClusterControl, view: ClusterObserver, name: str, bookie_id: str) -> None:
        view.await_true(
            lambda: not asyncio.run(ledgers_with(view.bookkeeper_uri, bookie_id)),
            f"auto recovery did not copy all that {name} had",
        )
        self.tell(f"no ledger needs {name} any more")
        control.start(name)


class EmptyBookie(Fault):
    """The log has two bookies left; all servers and one of the two are killed, whose disk is lost.

    It comes back empty under its name, together with the servers, and says "no such ledger" of entries that
    it has acknowledged. The other one has all of them, and what was acknowledged has to be there.
    """

    name = "empty-bookie"
    summary = "a bookie away, another killed with all servers and back empty under its name"
    needs = ClusterNeeds(bookies=3)
    hold_s = 3.0
    _ENTRIES = 20

    def cannot(self, control: ClusterControl, view: ClusterObserver) -> str | None:
        """See `Fault.cannot`."""
        bookies, servers = view.names("bookie"), view.names("server")
        reason = first_reason(control, bookies, "kill", "wipe", "start")
        reason = reason or first_reason(control, servers, "kill", "start")
        if reason is None and len(bookies) < 3:
            reason = "there are not three bookies"
        return reason

    def begin(self, control: ClusterControl, view: ClusterObserver) -> str:
        """See `Fault.begin`."""
        bookies = view.names("bookie")
        _kept, lost, *away = self.chance.sample(bookies, len(bookies))
        servers = view.names("server")
        leader = view.await_leader()
        before = view.standing(leader)["log_end"]
        for name in (*away, lost, *servers):
            self._undo.callback(control.start, name)  # nothing, where it runs
        for name in away:
            control.kill(name)
        view.await_standing(
            leader, lambda one: _entries_since(before, one["log_end"]) >= self._ENTRIES, "be written to"
        )
        self.tell(f"{', '.join(away)} killed, and the log goes on with two bookies")
        for name in (*servers, lost):
            control.kill(name)
        control.wipe(lost)
        control.start(lost)
        for name in servers:
            control.start(name, wait=False)
        new = view.await_leader()
        return f"{', '.join(away)} away, and {lost} is back empty, as all servers are back; {new} leads"


class LoseLeaderDisk(Fault):
    """The leader's disk is lost while no follower is in sync: all that is newer is in the log alone.

    The followers are killed first, and the clients write on; then the leader is killed and wiped, and the
    followers are started: they must recover from the log whatever was acknowledged.
    """

    name = "lose-leader-disk"
    summary = "the leader's disk is lost while no follower is in sync: the log has to have all of it"
    hold_s = 3.0
    _ENTRIES = 20

    def cannot(self, control: ClusterControl, view: ClusterObserver) -> str | None:
        """See `Fault.cannot`."""
        reason = first_reason(control, view.names("server"), "kill", "wipe", "start")
        return reason or without_followers(view)

    def begin(self, control: ClusterControl, view: ClusterObserver) -> str:
        """See `Fault.begin`."""
        leader = view.await_leader()
        followers = view.followers(leader)
        for follower in followers:
            self._undo.callback(control.start, follower)
            control.kill(follower)
        self.tell(f"{', '.join(followers)} are killed")
        before = view.standing(leader)["log_end"]
        view.await_standing(
            leader, lambda one: _entries_since(before, one["log_end"]) >= self._ENTRIES, "be written to"
        )
        after = view.standing(leader).get("log_end")
        self._undo.callback(control.start, leader)
        control.kill(leader)
        control.wipe(leader)
        self.tell(f"{leader}, the leader, is killed at {after} or later, and its disk is wiped")
        for follower in followers:
            control.start(follower, wait=False)
        new = view.await_leader(other_than=leader)
        return f"the disk of {leader}, the leader, is lost; {new} leads, which was behind {before}"


class FullDisk(Fault):
    """Every write to a file of one process fails with ENOSPC: the leader's, or one bookie's.

    When there is room again the process is restarted: a bookie ends by itself some time after the first write
    that failed, and a server may have ended too.
    """

    name = "full-disk"
    summary = "every write to a file of the leader, or of a bookie, fails with ENOSPC"
    needs = ClusterNeeds(fault_injector=True)
    hold_s = 6.0  # a leader looks for others with room first

    def __init__(self, chance: Random, *, of: str | None = None) -> None:
        """`of`: "leader" or "bookie"; by chance without."""
        super().__init__(chance)
        self._of = of or chance.choice(("leader", "bookie"))

    def cannot(self, control: ClusterControl, view: ClusterObserver) -> str | None:
        """See `Fault.cannot`."""
        names = view.names("server" if self._of == "leader" else "bookie")
        return first_reason(control, names, "fill", "kill", "start")

    def begin(self, control: ClusterControl, view: ClusterObserver) -> str:
        """See `Fault.begin`."""
        bookies = view.names("bookie")
        full = view.await_leader() if self._of == "leader" else self.chance.choice(bookies)
        self._undo.callback(self._restart, control, full)
        self._undo.callback(control.drain, full)
        control.fill(full)
        return f"the disk of {full}{', the leader,' if self._of == 'leader' else ''} is full"

    def _restart(self, control: ClusterControl, name: str) -> None:
        if self._of == "bookie" and control.is_running(name):
            try:
                control.kill(name)
            except ControlError:
                if control.is_running(name):  # else it has ended just now
                    raise
        control.start(name)


class SlowDisk(Fault):
    """Every sync of one bookie's journal takes half a second longer.

    Where that cannot be done, the bookie stands still for most of the time instead (SIGSTOP and SIGCONT in
    turns), which is only like it: its network stands still too.
    """

    name = "slow-disk"
    summary = "every sync of a bookie takes half a second longer"
    needs = ClusterNeeds(fault_injector=True)
    hold_s = 4.0
    _STOPPED_S, _GOING_S = 0.4, 0.1

    def cannot(self, control: ClusterControl, view: ClusterObserver) -> str | None:
        """See `Fault.cannot`."""
        names = view.names("bookie")
        reason = first_reason(control, names, "slow")
        return without_bookies(view) or (reason and first_reason(control, names, "pause", "resume"))

    def begin(self, control: ClusterControl, view: ClusterObserver) -> str:
        """See `Fault.begin`."""
        bookie = self.chance.choice(view.names("bookie"))
        reason = control.can("slow", bookie)
        if reason is None:
            self._undo.callback(control.quicken, bookie)
            control.slow(bookie, _STEP_S)
            return f"every sync of {bookie} takes {_STEP_S:g} s longer"
        over = threading.Event()
        bursts = threading.Thread(target=self._stutter, args=(control, bookie, over), name="slow-disk")
        self._undo.callback(control.resume, bookie)
        self._undo.callback(bursts.join)
        self._undo.callback(over.set)
        bursts.start()
        share = self._STOPPED_S / (self._STOPPED_S + self._GOING_S)
        return f"{bookie} stands still {share:.0%} of the time, which is only like a slow disk ({reason})"

    def _stutter(self, control: ClusterControl, bookie: str, over: threading.Event) -> None:
        try:
            while not over.is_set():
                control.pause(bookie)
                over.wait(self._STOPPED_S)
                control.resume(bookie)
                over.wait(self._GOING_S)
        except ControlError as error:
            self.tell(f"{bookie} is no longer made slow: {error}")


async def ledgers_with(uri: str, bookie_id: str) -> list[int]:
    """The ledgers that name the bookie in their metadata."""
    found = []
    async with BookKeeper(uri) as bk:
        async for ledger in bk.list_ledgers():
            try:
                metadata = await bk.ledger_metadata(ledger)
            except NoSuchLedgerError:  # trimmed meanwhile
                continue
            if any(bookie_id in segment.members for segment in metadata.segments):
                found.append(ledger)
    return found


def _entries_since(before: str, now: str) -> int:
    """How many entries the log certainly has more; a new ledger counts as one."""
    if ledger_of(before) != ledger_of(now):
        return int(now.partition(":")[2]) + 1
    return int(now.partition(":")[2]) - int(before.partition(":")[2])
