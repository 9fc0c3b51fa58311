"""Drills find bugs that real servers have: each is put in, and the drill that is there for it must tell."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pytest

from herdpy.drill import DRILLS, ClientLoad, run
from herdpy.drill.control import ClusterObserver
from herdpy.drill.control.local import LocalControl
from herdpy.drill.runner import DrillProgress
from tests.drill.seeded.switch import SERVER_BUGS, Switch, switched_cluster
from tests.drill.seeded.table import IN_DRILLS, InDrill
from tests.drill.shown import shown

LOAD = ClientLoad(per_job=4, rate_per_s=100.0, patience_s=15.0)

pytestmark = [pytest.mark.timeout(400), pytest.mark.soak]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalControl, Switch]]:
    with switched_cluster(tmp_path_factory.mktemp("seeded")) as made:
        yield made


def test_every_bug_of_servers_is_in_the_table() -> None:
    assert sorted(SERVER_BUGS) == sorted(one.bug for one in IN_DRILLS)


# What takes some luck, and so several runs, is for soak.
CASES = [pytest.param(one, id=one.bug, marks=[pytest.mark.soak] if one.runs > 1 else []) for one in IN_DRILLS]


@pytest.mark.parametrize("seeded", CASES)
def test_the_drill_tells(
    seeded: InDrill,
    cluster: tuple[LocalControl, Switch],
    record_property: pytest.RecordProperty,
) -> None:
    control, switch = cluster
    drill = replace(DRILLS[seeded.drill], workloads=seeded.workloads, rounds=seeded.rounds)

    load = replace(LOAD, per_job=seeded.clients)

    def on_progress(progress: DrillProgress) -> None:
        if progress.phase == "before":
            switch.set(seeded.bug)

    reported: list[str] = []
    for seed in range(1, seeded.runs + 1):
        try:
            result = run(
                drill, control=control, seconds=seeded.seconds, seed=seed, load=load, on_progress=on_progress
            )
        finally:
            switch.set(None)
            _heal(ClusterObserver(control))
        assert not result.was_skipped, result.skipped
        reported = sorted({one.kind for verdict in result.verdicts for one in verdict.anomalies})
        print(f"seed {seed}: {', '.join(reported)}\n{shown(result)}")
        if set(reported) & set(seeded.reported):
            record_property("caught", f"seed {seed}: {', '.join(reported)}")
            return
    pytest.fail(f"{seeded.drill} does not notice that a server {seeded.bug}; reported: {reported}")


def _heal(view: ClusterObserver) -> None:
    """Replicas that a bug has made to differ are made anew: the next test begins with equal ones."""
    view.await_following()
    name = view.tablespace

    def are_equal() -> bool:
        try:
            rows = view.run(view.await_leader(), f"CHECK TABLESPACE {name}")
        except psycopg.OperationalError:  # it is given another replica's state just now
            return False
        return len({row[1] for row in rows}) == len(view.names("server")) and all(row[-1] for row in rows)

    view.await_true(are_equal, "the replicas are not equal, although no server has a bug any more")
