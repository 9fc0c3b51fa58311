"""The table of seeded bugs: what docs/drills.md shows is what tests put in, and every area has some."""

from __future__ import annotations

from pathlib import Path

from herdpy.drill import DRILLS
from herdpy.drill.workloads import WORKLOADS
from tests.drill.seeded.table import AREAS, IN_DRILLS, IN_SIMULATIONS, LOG, REPLICAS, STORE, rows
from tests.log_bookkeeper.simulation import bugs as log_bugs
from tests.log_bookkeeper.simulation import test_log_bookkeeper_bugs as log_tests
from tests.replica import test_replication_bugs as replica_tests
from tests.simulation import test_seeded_bugs as store_tests
from tests.simulation.seeded_bugs import SIMULATED

PAGE = Path(__file__).parents[3] / "docs/drills.md"
HEAD = "| area | bug | caught by | tells | within |"
STORE_BUGS = {bug.__name__ for bug in SIMULATED}


def test_the_page_has_the_table() -> None:
    lines = PAGE.read_text().splitlines()
    first = lines.index(HEAD) + 2
    assert lines[first : first + len(rows()) + 1] == [*rows(), ""]


def test_every_area_has_a_bug_and_there_are_many() -> None:
    every = [*IN_DRILLS, *IN_SIMULATIONS]
    assert {one.area for one in every} == set(AREAS)
    assert len({one.bug for one in every}) == len(every) >= 12


def test_drills_and_workloads_are_those_that_there_are() -> None:
    for one in IN_DRILLS:
        assert set(one.workloads) <= set(WORKLOADS)
        assert set(one.workloads) <= set(DRILLS[one.drill].workloads), one.bug


def test_simulations_put_the_bugs_in_and_try_as_many_seeds() -> None:
    for one in IN_SIMULATIONS:
        if one.simulation == REPLICAS:
            assert (replica_tests.NOTICED[one.bug], len(replica_tests.SEEDS)) == (one.script, one.seeds)
        elif one.simulation == LOG:
            assert one.bug in log_bugs.BUGS
            assert one.seeds == log_tests.TRIES
        else:
            assert one.simulation == STORE
            assert one.bug in STORE_BUGS
            assert one.seeds == store_tests.TRIES
