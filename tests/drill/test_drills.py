"""Each drill in short form, on real servers, bookies and ZooKeeper; and drills that find something."""

from __future__ import annotations

import itertools
from dataclasses import replace
from unittest import mock

import pytest
from kazoo.client import KazooClient

from herdpy.drill import DRILLS, ClientLoad, Drill, run
from herdpy.drill.control import ClusterControl, ClusterObserver
from herdpy.drill.control.local import LocalControl
from herdpy.drill.faults import FAULTS, Fault
from herdpy.drill.faults.ledgers import TINY_LEDGERS
from herdpy.drill.faults.processes import PauseLeader
from herdpy.drill.history import ClientOperation, OperationOutcome
from herdpy.drill.judged import judge_again
from herdpy.drill.runner import needs_of
from herdpy.drill.sessions import READ_LEVELS
from herdpy.drill.silence import SILENCE, STOPPED
from herdpy.drill.watch import left_behind
from herdpy.drill.workloads import WORKLOADS
from tests.drill.shown import shown

SECONDS = 4.0
LOAD = ClientLoad(per_job=2, patience_s=40.0)

SHORT = ("kill-leader", "partition-leader-from-both")
"""Drills that are made with every commit; the others with every soak."""

pytestmark = pytest.mark.timeout(400)


@pytest.mark.parametrize(
    "name", [name if name in SHORT else pytest.param(name, marks=pytest.mark.soak) for name in DRILLS]
)
def test_every_drill_in_short(name: str, control: LocalControl) -> None:
    drill = replace(DRILLS[name], rounds=min(3, DRILLS[name].rounds))
    result = run(drill, control=control, seconds=SECONDS, seed=1, load=LOAD)
    if result.was_skipped:
        pytest.skip("; ".join(reason for _fault, reason in result.skipped))
    assert result.valid, shown(result)
    kinds = [event.kind for event in result.history.events]
    assert kinds.count("fault-begin") == kinds.count("fault-end") >= 1
    assert "leader" in kinds
    done = [one for one in result.history if one.outcome is OperationOutcome.DONE]
    assert {_workload(one) for one in done} - {""} == set(DRILLS[name].workloads)
    missing = {"jdbc"} if ("clients by JDBC", mock.ANY) in result.skipped else set()
    kinds_of_clients = {one.details.get("client") for one in done} - {None}
    assert kinds_of_clients == {*drill.clients, "driver"} - missing  # the driver makes the tables
    assert {one.id: one.state for one in control.cluster.status().processes if one.state != "running"} == {}


def _workload(operation: ClientOperation) -> str:
    """The workload of an operation, whatever its level."""
    return str(operation.details.get("workload") or "").split(" (", maxsplit=1)[0]


def test_all_that_there_is_is_drilled() -> None:
    assert {fault for drill in DRILLS.values() for fault in drill.faults} == set(FAULTS)
    assert {workload for drill in DRILLS.values() for workload in drill.workloads} == set(WORKLOADS)
    for name, drill in DRILLS.items():
        assert name == drill.name
        assert drill.explanation
        assert "\n" not in drill.explanation


def test_a_cluster_of_its_own_has_what_the_faults_need() -> None:
    needs = needs_of(Drill("x", "y", ("roll-ledgers", "lose-bookie-disk"), ("sets",)))
    assert (needs.bookies, needs.auto_recovery, needs.network) == (4, True, False)
    assert needs.settings == TINY_LEDGERS


class Cheat(Fault):
    """Deletes rows behind the clients' backs."""

    name = "cheat"
    summary = "deletes rows"
    hold_s = 0.1

    def cannot(self, control: ClusterControl, view: ClusterObserver) -> str | None:
        return None

    def begin(self, control: ClusterControl, view: ClusterObserver) -> str:
        leader = view.await_leader()
        tables = view.run(leader, "SELECT name FROM herdpy.tables WHERE name LIKE 'drill_inserts%'")
        for (table,) in tables:
            view.run(leader, f"DELETE FROM {table} WHERE id < 5")
        return f"rows of {len(tables)} tables are deleted"


class Impossible(Cheat):
    name = "impossible"

    def cannot(self, control: ClusterControl, view: ClusterObserver) -> str | None:
        return "nobody can"


class Stopping(PauseLeader):
    """Stops the leader for longer than it may be missed."""

    name = "stopping"
    hold_s = 1.5
    most_silent_s = 0.5


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> None:
    for fault in (Cheat, Impossible, Stopping):
        monkeypatch.setitem(FAULTS, fault.name, fault)  # type: ignore[arg-type]


@pytest.mark.usefixtures("faults")
def test_rows_that_vanish_are_found(control: LocalControl) -> None:
    drill = Drill("vanishing", "x", ("cheat",), ("inserts", "list-append"))
    phases: list[str] = []
    result = run(
        drill,
        control=control,
        seconds=3.0,
        seed=3,
        load=LOAD,
        on_progress=lambda one: phases.append(one.phase),
    )
    assert not result.valid
    (wrong,) = [verdict for verdict in result.verdicts if not verdict.valid]
    assert wrong.name == "inserts"
    lost = [one.arguments for one in wrong.anomalies[0].operations if one.name == "insert"]
    assert lost
    assert all(row in ([1], [2], [3], [4]) for row in lost)
    for before, after in itertools.pairwise(["making tables", "before", "cheat", "after", "judging"]):
        assert phases.index(before) < phases.index(after)
    details = [one.details for one in result.history if _workload(one) == "list-append"]
    assert {one["isolation"] for one in details if "isolation" in one} == {
        "READ COMMITTED",
        "READ UNCOMMITTED",
        "REPEATABLE READ",
        "SERIALIZABLE",
    }
    assert result.facts["isolation_levels"] == [
        "READ UNCOMMITTED",
        "READ COMMITTED",
        "REPEATABLE READ",
        "SERIALIZABLE",
    ]
    assert {one["read_level"] for one in details if "read_level" in one} <= set(READ_LEVELS)


@pytest.mark.usefixtures("faults")
def test_what_cannot_be_made_is_skipped_with_its_reason(control: LocalControl) -> None:
    result = run(Drill("none", "x", ("impossible",), ("inserts",)), control=control, seconds=1.0, seed=1)
    assert result.was_skipped
    assert result.skipped == [("impossible", "nobody can")]
    assert not result.history.operations


@pytest.mark.usefixtures("faults")
def test_writes_that_stop_where_they_must_go_on_are_found(control: LocalControl) -> None:
    drill = Drill("stopping", "x", ("stopping",), ("inserts",))
    result = run(drill, control=control, seconds=1.0, seed=1, load=LOAD)
    (wrong,) = [verdict for verdict in result.verdicts if not verdict.valid]
    assert (wrong.name, wrong.kinds) == (SILENCE, [STOPPED])
    assert [one.name for one in judge_again(result.history) if not one.valid] == [SILENCE]


def test_what_is_left_behind_is_found(control: LocalControl) -> None:
    view = ClusterObserver(control)
    view.await_following()
    verdict, facts = left_behind(view)
    assert verdict.valid, verdict
    assert facts["ledgers"]
    path = f"{view.root}/tablespaces/{view.tablespace}/checks/77"
    assert view.zookeeper is not None
    znodes = KazooClient(view.zookeeper)
    znodes.start()
    try:
        znodes.create(path, makepath=True)
        verdict, _facts = left_behind(view, timeout_s=0.1)
        znodes.delete(path)
    finally:
        znodes.stop()
        znodes.close()
    assert [(one.kind, one.text) for one in verdict.anomalies] == [
        ("znode left", f"{path.rpartition('/')[0]} has 77")
    ]
