"""Processes that end, stand still, or are restarted; ZooKeeper sessions that end; wall clocks that jump."""

from __future__ import annotations

import psycopg
from kazoo.client import KazooClient

from herdpy.drill.control import ClusterControl, ClusterNeeds, ClusterObserver
from herdpy.drill.control.control import ViewError
from herdpy.drill.faults.fault import Fault, first_reason


class KillLeader(Fault):
    """SIGKILL of the leader; it is started again at the end."""

    name = "kill-leader"
    summary = "SIGKILL of the leader, which is started again at the end"

    def cannot(self, control: ClusterControl, view: ClusterObserver) -> str | None:
        """See `Fault.cannot`."""
        return first_reason(control, view.names("server"), "kill", "start")

    def begin(self, control: ClusterControl, view: ClusterObserver) -> str:
        """See `Fault.begin`."""
        leader = view.await_leader()
        self._undo.callback(control.start, leader)
        control.kill(leader)
        return f"{leader}, the leader, is killed"


class PauseLeader(Fault):
    """SIGSTOP of the leader for longer than its session lasts, then SIGCONT: Ctrl-Z and fg of BookKeeper's
    tutorial. Clients are poised at it: what they have sent is what it does first when it wakes.
    """

    name = "pause-leader"
    summary = "SIGSTOP of the leader for longer than its session lasts, then SIGCONT"
    hold_s = 7.0  # so that clients have hung up by then, and have written elsewhere
    least_s = 6.0

    def cannot(self, control: ClusterControl, view: ClusterObserver) -> str | None:
        """See `Fault.cannot`."""
        return first_reason(control, view.names("server"), "pause", "resume")

    def begin(self, control: ClusterControl, view: ClusterObserver) -> str:
        """See `Fault.begin`."""
        leader = view.await_leader()
        poised = self.poise(leader)
        self._undo.callback(poised.end)
        self._undo.callback(control.resume, leader)
        control.pause(leader)
        self._undo.callback(poised.speak)
        return f"{leader}, the leader, is stopped, and clients wait for its answers"


class SilentMachine(Fault):
    """SIGSTOP of the leader and of a bookie at once, as of a machine without power or network: connections
    stay, and nothing there answers. When it is back, clients are poised as for `PauseLeader`.
    """

    name = "silent-machine"
    summary = "SIGSTOP of the leader and a bookie, as of one machine, then SIGCONT"
    hold_s = 7.0
    least_s = 6.0

    def cannot(self, control: ClusterControl, view: ClusterObserver) -> str | None:
        """See `Fault.cannot`."""
        names = [*view.names("server"), *view.names("bookie")]
        return first_reason(control, names, "pause", "resume") or without_bookies(view)

    def begin(self, control: ClusterControl, view: ClusterObserver) -> str:
        """See `Fault.begin`."""
        leader, bookie = view.await_leader(), self.chance.choice(view.names("bookie"))
        poised = self.poise(leader)
        self._undo.callback(poised.end)
        for name in (leader, bookie):
            self._undo.callback(control.resume, name)
            control.pause(name)
        self._undo.callback(poised.speak)
        return f"{leader}, the leader, and {bookie} are stopped, and clients wait for answers"


class KillLeaderElsewhere(Fault):
    """SIGKILL of the leader, which is not the server that clients with one address use: a leadership that
    came there is handed over before.
    """

    name = "kill-leader-elsewhere"
    summary = "SIGKILL of the leader, never of the server that clients with one address use"
    hold_s = 1.0

    def cannot(self, control: ClusterControl, view: ClusterObserver) -> str | None:
        """See `Fault.cannot`."""
        return first_reason(control, view.names("server"), "kill", "start") or without_forwarding(view)

    def prepare(self, control: ClusterControl, view: ClusterObserver) -> None:
        """See `Fault.prepare`: that server follows when clients begin."""
        self._led_elsewhere(view)

    def begin(self, control: ClusterControl, view: ClusterObserver) -> str:
        """See `Fault.begin`."""
        leader = self._led_elsewhere(view)
        self._undo.callback(view.await_following)
        self._undo.callback(control.start, leader)
        control.kill(leader)
        return f"{leader}, the leader, is killed"

    def _led_elsewhere(self, view: ClusterObserver) -> str:
        """The leader, which is not the only address of clients; no server is preferred afterwards."""
        leader = view.await_following()
        if leader != view.only_address:
            return leader
        other = self.chance.choice(view.followers(leader))
        view.run(leader, f"ALTER TABLESPACE {view.tablespace} LEADER '{other}'")
        self.note(f"{leader} hands over to {other}")
        view.run(
            view.await_leader(other_than=leader),
            f"ALTER TABLESPACE {view.tablespace} LEADER NONE",
        )
        return view.await_leader(other_than=leader)


class KillLeaderAndBookies(Fault):
    """Two bookies and the leader are lost at once: nobody can know where the log ends before one is back."""

    name = "kill-leader-and-bookies"
    summary = "SIGKILL of the leader and of two bookies at once, which come back with their disks"

    def cannot(self, control: ClusterControl, view: ClusterObserver) -> str | None:
        """See `Fault.cannot`."""
        names = [*view.names("server"), *view.names("bookie")]
        return first_reason(control, names, "kill", "start") or without_bookies(view)

    def begin(self, control: ClusterControl, view: ClusterObserver) -> str:
        """See `Fault.begin`."""
        lost = [*self.chance.sample(view.names("bookie"), 2), view.await_leader()]
        for name in lost:
            self._undo.callback(control.start, name)
            control.kill(name)
        return f"{', '.join(lost)}, the leader, are killed"


class KillFollower(Fault):
    """SIGKILL of one follower."""

    name = "kill-follower"
    summary = "SIGKILL of a follower, which is started again at the end"

    def cannot(self, control: ClusterControl, view: ClusterObserver) -> str | None:
        """See `Fault.cannot`."""
        return first_reason(control, view.names("server"), "kill", "start") or without_followers(view)

    def begin(self, control: ClusterControl, view: ClusterObserver) -> str:
        """See `Fault.begin`."""
        follower = self.chance.choice(view.followers(view.await_leader()))
        self._undo.callback(control.start, follower)
        control.kill(follower)
        return f"{follower}, a follower, is killed"


class KillForwarder(KillFollower):
    """SIGKILL of one follower, which forwards clients' commits: some of them are under way."""

    name = "kill-forwarder"
    summary = "SIGKILL of a follower that forwards clients' writes, which is started again at the end"
    hold_s = 0.5  # the drill has time for many

    def cannot(self, control: ClusterControl, view: ClusterObserver) -> str | None:
        """See `Fault.cannot`."""
        return super().cannot(control, view) or without_forwarding(view)


class KillBookie(Fault):
    """SIGKILL of one bookie."""

    name = "kill-bookie"
    summary = "SIGKILL of a bookie, which is started again with its disk at the end"

    def cannot(self, control: ClusterControl, view: ClusterObserver) -> str | None:
        """See `Fault.cannot`."""
        return first_reason(control, view.names("bookie"), "kill", "start") or without_bookies(view)

    def begin(self, control: ClusterControl, view: ClusterObserver) -> str:
        """See `Fault.begin`."""
        bookie = self.chance.choice(view.names("bookie"))
        self._undo.callback(control.start, bookie)
        control.kill(bookie)
        return f"{bookie} is killed"


class PauseBookie(Fault):
    """SIGSTOP of one bookie: it stays registered for a while, and answers nobody."""

    name = "pause-bookie"
    summary = "SIGSTOP of a bookie, then SIGCONT"

    def cannot(self, control: ClusterControl, view: ClusterObserver) -> str | None:
        """See `Fault.cannot`."""
        return first_reason(control, view.names("bookie"), "pause", "resume") or without_bookies(view)

    def begin(self, control: ClusterControl, view: ClusterObserver) -> str:
        """See `Fault.begin`."""
        bookie = self.chance.choice(view.names("bookie"))
        self._undo.callback(control.resume, bookie)
        control.pause(bookie)
        return f"{bookie} is stopped"


class KillZooKeeper(Fault):
    """SIGKILL of all of ZooKeeper: nobody can be elected, and no lease be renewed, until it is back."""

    name = "kill-zookeeper"
    summary = "SIGKILL of every ZooKeeper server, which are started again at the end"

    def cannot(self, control: ClusterControl, view: ClusterObserver) -> str | None:
        """See `Fault.cannot`."""
        names = view.names("zookeeper")
        return first_reason(control, names, "kill", "start") if names else "ZooKeeper is not named"

    def begin(self, control: ClusterControl, view: ClusterObserver) -> str:
        """See `Fault.begin`."""
        names = view.names("zookeeper")
        for name in names:
            self._undo.callback(control.start, name)
            control.kill(name)
        return f"{', '.join(names)} killed"


class ZooKeeperAway(KillZooKeeper):
    """All of ZooKeeper is away for as long as there is time, and clients must be answered all the while."""

    name = "zookeeper-away"
    summary = "SIGKILL of every ZooKeeper server for half a minute, in which writes must go on"
    hold_s = 30.0
    most_silent_s = 5.0


class PauseZooKeeper(Fault):
    """SIGSTOP of all of ZooKeeper for longer than sessions last: connections stay, and nobody answers."""

    name = "pause-zookeeper"
    summary = "SIGSTOP of every ZooKeeper server for longer than sessions last, then SIGCONT"
    hold_s = 7.0

    def cannot(self, control: ClusterControl, view: ClusterObserver) -> str | None:
        """See `Fault.cannot`."""
        names = view.names("zookeeper")
        return first_reason(control, names, "pause", "resume") if names else "ZooKeeper is not named"

    def begin(self, control: ClusterControl, view: ClusterObserver) -> str:
        """See `Fault.begin`."""
        names = view.names("zookeeper")
        for name in names:
            self._undo.callback(control.resume, name)
            control.pause(name)
        return f"{', '.join(names)} stand still"


class RollingRestart(Fault):
    """Every server is stopped in order (SIGTERM) and started again, one after the other, as for an upgrade.

    It happens in `begin`; each is waited for before the next.
    """

    name = "rolling-restart"
    summary = "every server is stopped (SIGTERM) and started again, one after the other"
    hold_s = 0.5

    def cannot(self, control: ClusterControl, view: ClusterObserver) -> str | None:
        """See `Fault.cannot`."""
        return first_reason(control, view.names("server"), "stop", "start") or without_followers(view)

    def begin(self, control: ClusterControl, view: ClusterObserver) -> str:
        """See `Fault.begin`."""
        names = view.names("server")
        self.chance.shuffle(names)
        for name in names:
            self._undo.callback(control.start, name)
            control.stop(name)
            self.note(f"{name} is stopped")
            control.start(name)
            view.await_following()
            self.note(f"{name} is back")
        return f"{', '.join(names)} are restarted"


def without_followers(view: ClusterObserver) -> str | None:
    """The reason that a fault which needs a follower has, where there is none."""
    return None if len(view.names("server")) > 1 else "there is one server only: it has no followers"


def without_forwarding(view: ClusterObserver) -> str | None:
    """The reason that a fault whose clients are forwarded has, where no follower forwards."""
    if (reason := without_followers(view)) is not None:
        return reason
    try:
        view.run(view.await_leader(), "SHOW herdpy.forward")
    except psycopg.Error:
        return "the servers are of a version that forwards no statements (herdpy.forward)"
    return None


def without_bookies(view: ClusterObserver) -> str | None:
    """The reason that a fault which takes a bookie away has, where the rest cannot do."""
    return None if len(view.names("bookie")) > 1 else "there are not two bookies"


_CONNECT_TIMEOUT_S = 10.0
_SECRET = 0xB3415C00
_MULTIPLIER, _INCREMENT, _MASK = 0x5DEECE66D, 0xB, (1 << 48) - 1
_PASSWORD_BYTES = 16


class ExpireSession(Fault):
    """The leader's session is taken over by another connection, and closed: it is gone at once."""

    name = "expire-session"
    summary = "the leader's ZooKeeper session is ended at ZooKeeper"
    hold_s = 2.0

    def cannot(self, control: ClusterControl, view: ClusterObserver) -> str | None:
        """See `Fault.cannot`."""
        return None if view.zookeeper is not None else "it is not known where ZooKeeper is"

    def begin(self, control: ClusterControl, view: ClusterObserver) -> str:
        """See `Fault.begin`."""
        assert view.zookeeper is not None
        path = f"{view.root}/tablespaces/{view.tablespace}/leader"
        session = owner(view.zookeeper, path)
        leader = view.await_leader()
        end_session(view.zookeeper, session)
        return f"the session 0x{session:x} of {leader}, the leader, is ended"


def owner(zookeeper: str, path: str) -> int:
    """The session that an ephemeral znode belongs to. Raises ViewError without such a znode."""
    client = KazooClient(zookeeper)
    client.start(_CONNECT_TIMEOUT_S)
    try:
        stat = client.exists(path)
    finally:
        client.stop()
        client.close()
    if stat is None or not stat.ephemeralOwner:
        raise ViewError(f"no node has {path}")
    return int(stat.ephemeralOwner)


def end_session(zookeeper: str, session: int) -> None:
    """Close another's session: ZooKeeper deletes what is ephemeral of it, and tells its client."""
    usurper = KazooClient(zookeeper, client_id=(session, password_of(session)))
    usurper.start(_CONNECT_TIMEOUT_S)
    usurper.stop()
    usurper.close()


def password_of(session: int) -> bytes:
    """The password that ZooKeeper gives to a session.

    It is made of the session's id and a constant (ZooKeeperServer.generatePasswd), by java.util.Random: a
    linear congruential generator of 48 bits whose `nextBytes` takes the upper 32 of each, least byte first.
    """
    state = ((session ^ _SECRET) ^ _MULTIPLIER) & _MASK
    made = bytearray()
    while len(made) < _PASSWORD_BYTES:
        state = (state * _MULTIPLIER + _INCREMENT) & _MASK
        made += (state >> 16).to_bytes(4, "little")
    return bytes(made)


_HOUR_S = 3600.0
_JUMPS_S = (1.0, 90.0, _HOUR_S, 24 * _HOUR_S, 400 * 24 * _HOUR_S)


class ClockJump(Fault):
    """The wall clocks of all servers jump, each another way: leases, elections and time-outs must not care.

    Only CLOCK_REALTIME jumps, as it does when somebody sets it or NTP steps it. The clocks that count up
    (CLOCK_MONOTONIC, CLOCK_BOOTTIME, on which leases are measured) cannot be set on a real machine either.
    """

    name = "clock-jump"
    summary = "the wall clocks of all servers jump, forward and back, by up to a year, and back again"
    needs = ClusterNeeds(fault_injector=True)
    hold_s = 4.0

    def cannot(self, control: ClusterControl, view: ClusterObserver) -> str | None:
        """See `Fault.cannot`."""
        return first_reason(control, view.names("server"), "skew")

    def begin(self, control: ClusterControl, view: ClusterObserver) -> str:
        """See `Fault.begin`."""
        jumped = []
        forward = self.chance.choice((True, False))
        for server in view.names("server"):
            seconds = self.chance.choice(_JUMPS_S) * (1 if forward else -1)
            self._undo.callback(control.skew, server, 0.0)
            control.skew(server, seconds)
            jumped.append(f"that of {server} by {seconds:+g} s")
            forward = not forward
        return f"wall clocks jump: {', '.join(jumped)}"


FAULTS: tuple[type[Fault], ...] = (
    KillLeader,
    PauseLeader,
    SilentMachine,
    KillLeaderElsewhere,
    KillLeaderAndBookies,
    KillFollower,
    KillForwarder,
    KillBookie,
    PauseBookie,
    KillZooKeeper,
    ZooKeeperAway,
    PauseZooKeeper,
    ExpireSession,
    RollingRestart,
    ClockJump,
)
