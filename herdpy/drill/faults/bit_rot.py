"""Bits that change on disks: every damage is noticed, none is answered from.

A table of the fault's own is what rots, so that the workloads' clients cannot read it: LMDB keeps no checksum
of its pages, and a follower whose row has changed would tell it at the level `any` until it is compared.
"""

from __future__ import annotations

from random import Random
from typing import Literal

from herdpy.drill.control import ClusterControl, ClusterObserver
from herdpy.drill.faults.fault import Fault, first_reason
from herdpy.drill.faults.processes import without_bookies, without_followers
from herdpy.drill.judging import Anomaly, Verdict

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
        position = _lsn(view.standing(leader)["applied"])
        view.await_standing(follower, lambda one: _lsn(one["durable"]) >= position, f"store {position}")

    def _check(self, control: ClusterControl, view: ClusterObserver) -> None:
        """CHECK TABLESPACE finds the replica, which is made anew."""
        follower = self._rotten
        leader = view.await_following()
        before = view.standing(follower)["seedings"]
        rows = view.run(leader, f"CHECK TABLESPACE {view.tablespace}")
        wrong = {(relation, node) for relation, node, _rows, _sum, same in rows if not same}
        self.tell(f"CHECK TABLESPACE finds {sorted(wrong)}")
        if wrong != {(self._table, follower)}:
            text = f"{self._table} differs on {follower}, CHECK TABLESPACE says {sorted(wrong)}"
            self._anomalies.append(Anomaly("damage not noticed", text))
            return
        self._noticed = f"CHECK TABLESPACE found {follower}, which got another's state"
        view.await_standing(
            follower, lambda one: one["seedings"] > before and one["role"] == "follower", "be seeded"
        )

    def _await_seeded(self, control: ClusterControl, view: ClusterObserver) -> None:
        """The replica noticed it itself, and got another's state."""
        told = ("follower", "leader")
        found = view.await_standing(self._rotten, lambda one: one["role"] in told, "come back")
        self.tell(f"{self._rotten} was seeded {found['seedings']} times: {found['problem']}")
        if not found["seedings"]:
            text = f"{self._rotten} went on with a damaged store: {found}"
            self._anomalies.append(Anomaly("damage not noticed", text))
        self._noticed = f"{self._rotten} got another's state: {found['problem']}"

    def _compare(self, view: ClusterObserver, follower: str) -> None:
        """The follower has what was written, although a bookie tells it otherwise."""
        leader = view.await_following()
        query = f"SELECT id, v FROM {self._table} ORDER BY id"
        position = view.standing(leader)["applied"]
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
