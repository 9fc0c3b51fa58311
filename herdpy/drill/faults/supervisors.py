"""Supervisors of servers that are killed or stand still, alone or with their server.

A supervisor is the process beside a server that attests its end (docs/decisions/32). It only saves time:
whatever becomes of it, no server may lead while another may still answer, and none that lives is taken for
dead.
"""

from __future__ import annotations

from herdpy.drill.control import CannotError, ClusterControl, ClusterObserver
from herdpy.drill.faults.fault import Fault, first_reason


class KillSupervisor(Fault):
    """SIGKILL of the leader's supervisor alone: nobody may take the leader for dead."""

    name = "kill-supervisor"
    summary = "SIGKILL of the leader's supervisor; the server goes on, and makes another"
    most_silent_s = 5.0

    def cannot(self, control: ClusterControl, view: ClusterObserver) -> str | None:
        """See `Fault.cannot`."""
        return first_reason(control, view.names("server"), "kill-supervisor")

    def begin(self, control: ClusterControl, view: ClusterObserver) -> str:
        """See `Fault.begin`."""
        leader = view.await_leader()
        control.kill_supervisor(leader)
        return f"the supervisor of {leader}, the leader, is killed"


class KillLeaderAndSupervisor(Fault):
    """SIGKILL of the leader and of its supervisor, the one or the other first: nobody attests the end."""

    name = "kill-leader-and-supervisor"
    summary = "SIGKILL of the leader and its supervisor at once; the server is started again at the end"

    def cannot(self, control: ClusterControl, view: ClusterObserver) -> str | None:
        """See `Fault.cannot`."""
        return first_reason(control, view.names("server"), "kill-supervisor", "kill", "start")

    def begin(self, control: ClusterControl, view: ClusterObserver) -> str:
        """See `Fault.begin`. A supervisor that is killed second may have attested by then, wholly or half."""
        leader = view.await_leader()
        if (reason := control.can("kill-supervisor", leader)) is not None:  # it knows which one from here on
            raise CannotError(f"kill-supervisor {leader}: {reason}")
        self._undo.callback(control.start, leader)
        kills = [(control.kill_supervisor, f"the supervisor of {leader}"), (control.kill, leader)]
        self.chance.shuffle(kills)
        for kill, _what in kills:
            kill(leader)
        return f"{leader}, the leader, and its supervisor are killed, {kills[0][1]} first"


class PauseSupervisor(Fault):
    """The leader's supervisor sleeps while its server is killed and another comes to lead; then it wakes, and
    attests what is long over: before the server is started again, or after.
    """

    name = "pause-supervisor"
    summary = "SIGSTOP of the leader's supervisor, SIGKILL of the leader; it wakes when another leads"
    hold_s = 2.0

    def cannot(self, control: ClusterControl, view: ClusterObserver) -> str | None:
        """See `Fault.cannot`."""
        names = view.names("server")
        return first_reason(control, names, "pause-supervisor", "resume-supervisor", "kill", "start")

    def begin(self, control: ClusterControl, view: ClusterObserver) -> str:
        """See `Fault.begin`."""
        leader = view.await_leader()
        wakes_first = self.chance.random() < 0.5
        undo = [control.start, control.resume_supervisor]
        for step in undo if wakes_first else reversed(undo):
            self._undo.callback(step, leader)
        control.pause_supervisor(leader)
        control.kill(leader)
        then = "before" if wakes_first else "after"
        self.note(f"the supervisor of {leader} is to wake {then} its server is started again")
        other = view.await_leader(other_than=leader)
        return f"the supervisor of {leader} sleeps, and {leader}, the leader, is killed: {other} leads"


FAULTS: tuple[type[Fault], ...] = (KillSupervisor, KillLeaderAndSupervisor, PauseSupervisor)
