"""Disks that are lost, full, slow or rotten, logs that go on, and clocks that jump: each bites, and heals."""

from __future__ import annotations

import asyncio
import time
from random import Random

import psycopg
import pytest

import herdpy
from herdpy.bookkeeper import BookKeeper
from herdpy.bookkeeper.cluster import BookieState
from herdpy.drill.control import ClusterObserver
from herdpy.drill.control.local import LocalControl
from herdpy.drill.faults import FAULTS
from herdpy.drill.faults.disks import (
    BitRot,
    FullDisk,
    LoseBookieDisk,
    LoseLeaderDisk,
    SlowDisk,
    Where,
    ledgers_with,
)
from herdpy.drill.faults.ledgers import RollLedgers, TrimAndSeed, ledger_of
from herdpy.drill.faults.processes import ClockJump
from herdpy.drill.faults.storm import Storm
from herdpy.testing.process import await_until
from tests.drill.faults.writing import PATIENCE_S, happening, writing

pytestmark = pytest.mark.soak  # real processes for minutes: not with every commit

LONG = pytest.mark.timeout(400)


@pytest.fixture
def _injected(control: LocalControl) -> None:
    if (reason := control.can("fill", "server-1")) is not None:
        pytest.skip(reason)


def test_roll_ledgers(control: LocalControl, view: ClusterObserver):
    with writing(view, control.url) as writer:
        leader = view.await_following()
        before = ledger_of(view.replica_status(leader)["log_end"])
        with happening(RollLedgers(Random(1)), control, view):
            assert ledger_of(view.replica_status(leader)["log_end"]) >= before + 3
            states = {one.id: one.state for one in control.cluster.status().servers}
            assert {states[name] for name in states if name != leader} == {"paused"}
            writer.go_on()


@pytest.mark.soak  # its drill in tests/drill/test_drills.py does the same in short
@LONG
def test_trim_and_seed(control: LocalControl, view: ClusterObserver):
    fault = TrimAndSeed(Random(1))
    with writing(view, control.url), happening(fault, control, view) as text:
        stopped = text.partition(" ")[0]
        assert not control.is_running(stopped)
        assert not control.cluster.data_path(stopped).exists()
    (verdict,) = fault.findings(control, view)
    assert verdict.valid, verdict
    assert view.replica_status(stopped)["seedings"] == 1
    query = "SELECT retention_s > 0 FROM herdpy.tablespaces WHERE name = 'herdpy'"
    assert view.run(view.await_leader(), query) == [(True,)]


@pytest.mark.soak  # its drill in tests/drill/test_drills.py does the same in short
@LONG
def test_lose_bookie_disk(control: LocalControl, view: ClusterObserver):
    with writing(view, control.url) as writer:
        with happening(LoseBookieDisk(Random(1)), control, view) as text:
            lost = view.place(text.partition(" ")[0])
            assert not control.cluster.data_path(lost.name).exists()
            assert asyncio.run(ledgers_with(view.bookkeeper_uri, lost.bookie_id))
            writer.go_on()
        assert control.is_running(lost.name)


@pytest.mark.soak  # its drill in tests/drill/test_drills.py does the same in short
@LONG
def test_lose_leader_disk(control: LocalControl, view: ClusterObserver):
    with writing(view, control.url) as writer:
        leader = view.await_following()
        with happening(LoseLeaderDisk(Random(1)), control, view):
            assert not control.cluster.data_path(leader).exists()
            writer.go_on()
        view.await_status(leader, lambda one: one["role"] == "follower" and one["seedings"] == 1, "be seeded")


@pytest.mark.usefixtures("_injected")
def test_full_disk_of_the_leader(control: LocalControl, view: ClusterObserver):
    """It cannot write its store; the log is the bookies', so that nothing that is acknowledged is lost."""
    with writing(view, control.url) as writer:
        leader = view.await_following()
        with happening(FullDisk(Random(1), of="leader"), control, view):
            view.await_status(leader, lambda one: one["unfit"], "say that its disk is full")
            view.await_leader(other_than=leader)
            writer.go_on()


@LONG
@pytest.mark.usefixtures("_injected")
def test_full_disk_of_a_bookie(control: LocalControl, view: ClusterObserver):
    """It ends, or takes no more entries; writing goes on with the others."""
    with writing(view, control.url) as writer:
        with happening(FullDisk(Random(1), of="bookie"), control, view) as text:
            full = view.place(text.split()[3])
            assert await_until(lambda: _refuses(view, control, full.name, full.bookie_id), PATIENCE_S)
            writer.go_on()
        assert control.is_running(full.name)


def _refuses(view: ClusterObserver, control: LocalControl, name: str, bookie_id: str) -> bool:
    async def writable() -> bool:
        async with BookKeeper(view.bookkeeper_uri) as bk:
            return any(
                one.id == bookie_id and one.state is BookieState.WRITABLE for one in await bk.bookies()
            )

    return not control.is_running(name) or not asyncio.run(writable())


@pytest.mark.usefixtures("_injected")
def test_slow_disk(control: LocalControl, view: ClusterObserver):
    """An append that all bookies must sync takes as long as the slow one."""

    async def append() -> float:
        async with BookKeeper(view.bookkeeper_uri) as bk:
            writer = await bk.create_ledger(ensemble_size=4, write_quorum=4, ack_quorum=4)
            began = time.monotonic()
            await writer.append(b"slow")
            took_s = time.monotonic() - began
            await writer.close()
            await bk.delete_ledger(writer.ledger_id)
            return took_s

    with happening(SlowDisk(Random(1)), control, view):
        assert asyncio.run(append()) >= 0.5


def test_slow_disk_is_likened_where_it_cannot_be_made(
    control: LocalControl, view: ClusterObserver, monkeypatch: pytest.MonkeyPatch
):
    can = LocalControl.can
    monkeypatch.setattr(
        LocalControl,
        "can",
        lambda self, what, name: "no compiler" if what == "slow" else can(self, what, name),
    )
    with happening(SlowDisk(Random(1)), control, view) as text:
        assert "only like a slow disk (no compiler)" in text
        bookie = text.partition(" ")[0]
        states: set[str] = set()

        def seen_both() -> bool:
            states.update(one.state for one in control.cluster.status().bookies if one.id == bookie)
            return states == {"paused", "running"}

        assert await_until(seen_both, PATIENCE_S)
    assert all(one.state == "running" for one in control.cluster.status().bookies)


@pytest.mark.usefixtures("_injected")
def test_clock_jump(control: LocalControl, view: ClusterObserver):
    def offset_s(server: str) -> float:
        rows = view.run(server, "SET herdpy.read_level = 'any'", "SELECT extract(epoch FROM now())")
        return float(rows[0][0]) - time.time()

    with writing(view, control.url) as writer:
        leader = view.await_following()
        with happening(ClockJump(Random(4)), control, view) as text:
            offsets = {name: offset_s(name) for name in view.names("server")}
            assert any(offset > 50 for offset in offsets.values()), text
            writer.go_on(50)
            assert view.leader() == leader  # nobody's session, lease or term depends on it
        assert all(abs(offset_s(name)) < 30 for name in view.names("server"))


@pytest.mark.usefixtures("_injected")
def test_a_driver_goes_on_when_the_leaders_clock_jumps_ahead(control: LocalControl, view: ClusterObserver):
    """The leader forgets commits by their age, and with them whether the names of new ones were used."""
    leader = view.await_following()
    with herdpy.connect(control.url, autocommit=True) as connection:
        connection.execute("CREATE TABLE jumped (id INT PRIMARY KEY)")
        try:
            for hours in range(3):
                control.skew(leader, hours * 7200.0)
                for number in range(5):
                    connection.execute("INSERT INTO jumped VALUES (%s)", (10 * hours + number,))
            assert connection.execute("SELECT count(*) FROM jumped").fetchone() == (15,)
        finally:
            control.skew(leader, 0.0)
            connection.execute("DROP TABLE jumped")


@LONG
@pytest.mark.parametrize(
    "where", ["row", *(pytest.param(one, marks=pytest.mark.soak) for one in ("pages", "ledgers"))]
)
def test_bit_rot(control: LocalControl, view: ClusterObserver, where: Where):
    fault = BitRot(Random(1), where=where)
    with writing(view, control.url), happening(fault, control, view) as text:
        assert "are wrong: " in text
    (verdict,) = fault.findings(control, view)
    assert verdict.valid, verdict
    assert "nothing was damaged" not in verdict.summary
    with pytest.raises(psycopg.errors.UndefinedTable):
        view.run(view.await_leader(), f"SELECT * FROM {fault._table}")


@LONG
@pytest.mark.soak  # three faults one after the other take a minute; test_drills has one in short
def test_a_short_storm(control: LocalControl, view: ClusterObserver):
    text: list[str] = []
    fault = Storm(Random(3))
    with writing(view, control.url), happening(fault, control, view):
        fault.note = text.append
        assert await_until(lambda: sum("is over" in line for line in text) >= 3, PATIENCE_S)
    assert all(one.state == "running" for one in control.cluster.status().processes)


def test_every_fault_has_a_name_and_says_what_it_is():
    assert set(FAULTS) >= {
        *("kill-leader", "pause-leader", "partition-leader", "kill-follower", "roll-ledgers", "kill-bookie"),
        *(
            "pause-bookie",
            "lose-bookie-disk",
            "kill-zookeeper",
            "pause-zookeeper",
            "expire-session",
            "trim-and-seed",
        ),
        *("full-disk", "slow-disk", "clock-jump", "rolling-restart", "lose-leader-disk", "bit-rot", "storm"),
    }
    assert all(fault.summary and fault.__doc__ for fault in FAULTS.values())
