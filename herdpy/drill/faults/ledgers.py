"""The log goes on while replicas are away: ledgers roll, and old ones are deleted."""

from __future__ import annotations

from random import Random

from herdpy.drill.control import ClusterControl, ClusterNeeds, ClusterObserver
from herdpy.drill.faults.fault import Fault, first_reason
from herdpy.drill.faults.processes import without_followers
from herdpy.drill.judging import Anomaly, Verdict

TINY_LEDGERS = {
    "storage.max_ledger_age_s": 1.0,
    "storage.checkpoint_interval_s": 0.2,
    "storage.flashback_s": 0.0,
}
_LONGEST_AGE_S = 10.0
_ROLLS = 3


class RollLedgers(Fault):
    """Followers stand still while the leader begins ledger after ledger, and then have to find the way."""

    name = "roll-ledgers"
    summary = "tiny ledgers roll while all followers are stopped"
    needs = ClusterNeeds(settings=TINY_LEDGERS)
    hold_s = 0.5

    def cannot(self, control: ClusterControl, view: ClusterObserver) -> str | None:
        """See `Fault.cannot`."""
        reason = first_reason(control, view.names("server"), "pause", "resume")
        return reason or without_followers(view) or ledgers_are_long(view)

    def begin(self, control: ClusterControl, view: ClusterObserver) -> str:
        """See `Fault.begin`. It returns when the log has so many ledgers more."""
        leader = view.await_leader()
        followers = view.followers(leader)
        for follower in followers:
            self._undo.callback(control.resume, follower)
            control.pause(follower)
        first = ledger_of(view.replica_status(leader)["log_end"])
        view.await_status(
            leader,
            lambda one: ledger_of(one["log_end"]) >= first + _ROLLS,
            f"begin {_ROLLS} ledgers (the clients have to write)",
        )
        return f"{', '.join(followers)} are stopped while {leader} begins {_ROLLS} ledgers"


class TrimAndSeed(Fault):
    """A replica is lost, the log is trimmed, and a new replica must get another's state.

    Where its disk cannot be wiped the replica is only away, and comes back too old.
    """

    name = "trim-and-seed"
    summary = "a follower comes back with nothing, after the log was trimmed"
    needs = ClusterNeeds(settings=TINY_LEDGERS)
    hold_s = 1.0

    def __init__(self, chance: Random) -> None:
        super().__init__(chance)
        self._new = ""
        self._is_prepared = False

    def cannot(self, control: ClusterControl, view: ClusterObserver) -> str | None:
        """See `Fault.cannot`."""
        reason = first_reason(control, view.names("server"), "stop", "start")
        return reason or without_followers(view) or ledgers_are_long(view) or past_is_kept(view)

    def prepare(self, control: ClusterControl, view: ClusterObserver) -> None:
        """See `Fault.prepare`: the log is kept for nobody who is away."""
        self._is_prepared = True
        name, leader = view.tablespace, view.await_leader()
        query = f"SELECT retention_s, retention_bytes FROM herdpy.tablespaces WHERE name = '{name}'"
        ((seconds, size),) = view.run(leader, query)
        back = f"ALTER TABLESPACE {name} SET (retention = '{seconds:.0f}s', retention_bytes = {size})"
        self._undo.callback(lambda: view.run(view.await_leader(), back))
        view.run(leader, f"ALTER TABLESPACE {name} SET (retention = '0s', retention_bytes = 0)")

    def begin(self, control: ClusterControl, view: ClusterObserver) -> str:
        """See `Fault.begin`. It returns when the log no longer has what the replica would need."""
        if not self._is_prepared:
            self.prepare(control, view)
        leader = view.await_leader()
        self._new = new = self.chance.choice(view.followers(leader))
        self._undo.callback(control.start, new)
        control.stop(new)
        can_wipe = control.can("wipe", new) is None
        if can_wipe:
            control.wipe(new)
        last = ledger_of(view.replica_status(leader)["log_end"])
        view.await_true(
            lambda: view.first_ledger() > last,
            f"the log was not trimmed past ledger {last} (clients must write)",
        )
        lost = "its disk is wiped" if can_wipe else "it is away"
        return f"{new} is stopped, {lost}, and the log is trimmed past ledger {last}"

    def findings(self, control: ClusterControl, view: ClusterObserver) -> list[Verdict]:
        """See `Fault.findings`: the replica was seeded."""
        found = view.await_status(self._new, lambda one: one["role"] in ("follower", "leader"), "come back")
        text = f"{self._new} came back without another's state, although the log was trimmed: {found}"
        anomalies = [] if found["seedings"] else [Anomaly("not seeded", text)]
        return [Verdict.of(self.name, anomalies, f"{self._new} was seeded {found['seedings']} times")]


def ledgers_are_long(view: ClusterObserver) -> str | None:
    """The reason where a ledger lasts for longer than a drill."""
    age_s = view.setting("storage.max_ledger_age_s")
    if age_s is not None and float(age_s) <= _LONGEST_AGE_S:
        return None
    return f"ledgers last too long here: storage.max_ledger_age_s is {age_s}, not at most {_LONGEST_AGE_S:g}"


def past_is_kept(view: ClusterObserver) -> str | None:
    """The reason where the log is kept for longer than a drill, so that the past can be read."""
    kept_s = float(view.setting("storage.flashback_s") or 0)
    if kept_s <= _LONGEST_AGE_S:
        return None
    return f"the log is kept too long here: storage.flashback_s is {kept_s:g}, not at most {_LONGEST_AGE_S:g}"


def ledger_of(position: str) -> int:
    """The ledger of a position such as 17:4711."""
    return int(position.partition(":")[0])


FAULTS: tuple[type[Fault], ...] = (
    RollLedgers,
    TrimAndSeed,
)
