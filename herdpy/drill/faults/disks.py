"""Disks that are lost, full, or slow, and bits that change on them.

Bit rot: every damage is noticed, none is answered from. A table of the fault's own is what rots, so that
the workloads' clients cannot read it: LMDB keeps no checksum of its pages, and a follower whose row has
changed would tell it at the level `any` until it is compared.
"""

from __future__ import annotations

import asyncio
import threading
from random import Random
from typing import Literal

from herdpy.bookkeeper import BookKeeper
from herdpy.bookkeeper.errors import NoSuchLedgerError
from herdpy.drill.control import ClusterControl, ClusterNeeds, ClusterObserver, ControlError
from herdpy.drill.faults.fault import Fault, first_reason
from herdpy.drill.faults.ledgers import ledger_of
from herdpy.drill.faults.processes import without_bookies, without_followers
from herdpy.drill.judging import Anomaly, Verdict
from herdpy.testing.zookeeper import ClusterZnodes

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
        self.note(f"no ledger needs {name} any more")
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
        before = view.replica_status(leader)["log_end"]
        for name in (*away, lost, *servers):
            self._undo.callback(control.start, name)  # nothing, where it runs
        for name in away:
            control.kill(name)
        view.await_status(
            leader, lambda one: _entries_since(before, one["log_end"]) >= self._ENTRIES, "be written to"
        )
        self.note(f"{', '.join(away)} killed, and the log goes on with two bookies")
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
        self.note(f"{', '.join(followers)} are killed")
        before = view.replica_status(leader)["log_end"]
        view.await_status(
            leader, lambda one: _entries_since(before, one["log_end"]) >= self._ENTRIES, "be written to"
        )
        after = view.replica_status(leader).get("log_end")
        self._undo.callback(control.start, leader)
        control.kill(leader)
        control.wipe(leader)
        self.note(f"{leader}, the leader, is killed at {after} or later, and its disk is wiped")
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
        return f"{bookie} is stopped {share:.0%} of the time, which is only like a slow disk ({reason})"

    def _stutter(self, control: ClusterControl, bookie: str, over: threading.Event) -> None:
        try:
            while not over.is_set():
                control.pause(bookie)
                over.wait(self._STOPPED_S)
                control.resume(bookie)
                over.wait(self._GOING_S)
        except ControlError as error:
            self.note(f"{bookie} is no longer made slow: {error}")


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


Where = Literal["row", "pages", "ledgers"]
_PLACES: tuple[Where, ...] = ("row", "pages", "ledgers")
_ROWS = 60


class BitRot(Fault):
    """Bits of one replica's disk are wrong.

    row: of a follower that was stopped in order; CHECK TABLESPACE finds it, and the replica is made anew.
    pages: of a follower that was killed; it notices before it opens the store, and the replica is made anew.
    ledgers: of a bookie; entries that do not match their digest are read from another one.
    """

    name = "bit-rot"
    summary = "bits change in a follower's store, or in a bookie's ledgers, and are noticed"
    hold_s = 1.0

    def __init__(self, chance: Random, *, where: Where | None = None) -> None:
        """`where`: by chance without."""
        super().__init__(chance)
        self._where = where if where is not None else chance.choice(_PLACES)
        self._table = f"bit_rot_{chance.randrange(1 << 32):08x}"
        self._rotten = ""
        self._is_prepared = False
        self._anomalies: list[Anomaly] = []
        self._noticed = "nothing was damaged"

    def cannot(self, control: ClusterControl, view: ClusterObserver) -> str | None:
        """See `Fault.cannot`."""
        servers, bookies = view.names("server"), view.names("bookie")
        reason = without_followers(view) or first_reason(control, servers, "stop", "kill", "start")
        if self._where == "ledgers":
            return reason or without_bookies(view) or first_reason(control, bookies, "kill", "start", "rot")
        return reason or first_reason(control, servers, "rot")

    def prepare(self, control: ClusterControl, view: ClusterObserver) -> None:
        """See `Fault.prepare`: a table that nobody reads."""
        self._is_prepared = True
        self._undo.callback(lambda: view.run(view.await_leader(), f"DROP TABLE {self._table}"))
        view.run(view.await_leader(), f"CREATE TABLE {self._table} (id INT PRIMARY KEY, v TEXT)")

    def begin(self, control: ClusterControl, view: ClusterObserver) -> str:
        """See `Fault.begin`. It returns when the damaged process works with its disk again."""
        if not self._is_prepared:
            self.prepare(control, view)
        leader = view.await_following()
        follower = self.chance.choice(view.followers(leader))
        if self._where == "ledgers":
            return self._in_ledgers(control, view, leader, follower)
        self._write(view, leader)
        self._await_durable(view, leader, follower)
        self._rotten = follower
        self._undo.callback(self._check if self._where == "row" else self._await_seeded, control, view)
        self._undo.callback(control.start, follower)
        if self._where == "row":
            control.stop(follower)
            damaged = control.rot(follower, self._marker, self.chance)
        else:
            control.kill(follower)
            damaged = control.rot(follower, None, self.chance)
        control.start(follower)
        return f"bits of {follower} are wrong: {damaged}"

    def findings(self, control: ClusterControl, view: ClusterObserver) -> list[Verdict]:
        """See `Fault.findings`: the damage was noticed."""
        return [Verdict.of(self.name, self._anomalies, self._noticed)]

    @property
    def _marker(self) -> str:
        return f"marker of {self._table}"

    def _in_ledgers(self, control: ClusterControl, view: ClusterObserver, leader: str, follower: str) -> str:
        """A follower is away while rows are written, and gets them from the bookies when bits are wrong."""
        bookie = self._rotten = self.chance.choice(view.names("bookie"))
        self._undo.callback(self._compare, view, follower)
        self._undo.callback(control.start, follower)
        control.kill(follower)
        self._write(view, leader)
        self._undo.callback(control.start, bookie)
        control.kill(bookie)
        damaged = control.rot(bookie, self._marker, self.chance)
        control.start(bookie)
        control.start(follower)
        return f"bits of {bookie} are wrong: {damaged}; {follower} reads what it has missed"

    def _write(self, view: ClusterObserver, leader: str) -> None:
        with view.connect(leader) as connection:
            for number in range(_ROWS):
                connection.execute(
                    f"INSERT INTO {self._table} VALUES (%s, %s)".encode(),
                    (number, f"{number} {self._marker}"),
                )

    def _await_durable(self, view: ClusterObserver, leader: str, follower: str) -> None:
        """Wait until the follower's store has what the leader has applied now."""
        position = _lsn(view.replica_status(leader)["applied"])
        view.await_status(follower, lambda one: _lsn(one["durable"]) >= position, f"store {position}")

    def _check(self, control: ClusterControl, view: ClusterObserver) -> None:
        """CHECK TABLESPACE finds the replica, which is made anew."""
        follower = self._rotten
        leader = view.await_following()
        before = view.replica_status(follower)["seedings"]
        rows = view.run(leader, f"CHECK TABLESPACE {view.tablespace}")
        wrong = {(relation, node) for relation, node, _rows, _sum, same in rows if not same}
        self.note(f"CHECK TABLESPACE finds {sorted(wrong)}")
        if wrong != {(self._table, follower)}:
            text = f"{self._table} differs on {follower}, CHECK TABLESPACE reports {sorted(wrong)}"
            self._anomalies.append(Anomaly("damage not noticed", text))
            return
        self._noticed = f"CHECK TABLESPACE found {follower}, which got another's state"
        view.await_status(
            follower, lambda one: one["seedings"] > before and one["role"] == "follower", "be seeded"
        )

    def _await_seeded(self, control: ClusterControl, view: ClusterObserver) -> None:
        """The replica noticed it itself, and got another's state."""
        opened = ("follower", "leader")
        found = view.await_status(self._rotten, lambda one: one["role"] in opened, "come back")
        self.note(f"{self._rotten} was seeded {found['seedings']} times: {found['problem']}")
        if not found["seedings"]:
            text = f"{self._rotten} went on with a damaged store: {found}"
            self._anomalies.append(Anomaly("damage not noticed", text))
        self._noticed = f"{self._rotten} got another's state: {found['problem']}"

    def _compare(self, view: ClusterObserver, follower: str) -> None:
        """The follower has what was written, although a bookie tells it otherwise."""
        leader = view.await_following()
        query = f"SELECT id, v FROM {self._table} ORDER BY id"
        position = view.replica_status(leader)["applied"]
        level = ("SET herdpy.read_level = 'at_lsn'", f"SET herdpy.min_lsn = '{position}'")
        found = view.run(follower, *level, query)
        expected = [(number, f"{number} {self._marker}") for number in range(_ROWS)]
        self._noticed = f"{follower} read past what is wrong on {self._rotten}"
        if found != expected:
            wrong = [row for row in found if row not in expected]
            text = f"{follower} has {len(found)} of {_ROWS} rows, wrong: {wrong[:3]}"
            self._anomalies.append(Anomaly("damage not noticed", text))


def _lsn(position: str) -> tuple[int, int]:
    ledger, _, entry = position.partition(":")
    return int(ledger), int(entry)


FAULTS: tuple[type[Fault], ...] = (
    LoseBookieDisk,
    EmptyBookie,
    LoseLeaderDisk,
    FullDisk,
    SlowDisk,
    BitRot,
)
