"""Histories whose database was lost and restored: what may be missing is excused, and nothing else is."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import cast

import pytest

from herdpy.drill import DRILLS, ClientLoad, run
from herdpy.drill.control import ClusterControl, ClusterObserver
from herdpy.drill.faults.everything import LoseEverything
from herdpy.drill.history import ClientOperation, DrillHistory, Event, OperationOutcome
from herdpy.drill.judged import judge_again
from herdpy.drill.restored import RESTORED, as_restored, check_beginning, check_loss
from tests.drill.shown import shown

DONE, NOT_DONE, UNKNOWN = OperationOutcome.DONE, OperationOutcome.NOT_DONE, OperationOutcome.UNKNOWN
KILLED_S, RESTORED_S = 10.0, 20.0


def insert(number: int, called_s: float, outcome: OperationOutcome = DONE) -> ClientOperation:
    return ClientOperation(
        number, "insert", [number], None, outcome, called_s, called_s + 0.5, details={"workload": "inserts"}
    )


def look(*numbers: int, at_s: float = RESTORED_S + 1) -> ClientOperation:
    return ClientOperation(
        99, "rows", [], list(numbers), DONE, at_s, at_s + 0.1, details={"workload": "inserts"}
    )


def history(*operations: ClientOperation, end_s: float = 8.0) -> DrillHistory:
    return DrillHistory(operations, [Event(RESTORED_S, RESTORED, "", {"end_s": end_s})])


def kinds(found: DrillHistory) -> list[str]:
    return [kind for verdict in [*judge_again(found), check_beginning(found)] for kind in verdict.kinds]


def test_what_was_answered_after_the_end_of_the_archive_may_be_missing() -> None:
    operations = [insert(number, float(number)) for number in range(10)]
    assert kinds(history(*operations, look(*range(8)))) == []
    assert kinds(history(*operations, look(*range(10)))) == []
    resolved = replace(insert(9, 9.0, UNKNOWN), resolved=DONE, resolved_s=9.7)
    assert kinds(history(*operations[:9], resolved, look(*range(8)))) == []
    seen = look(*range(10), at_s=9.8)
    assert kinds(history(*operations, seen, look(*range(8)))) == []


@pytest.mark.parametrize(
    ("found", "wrong"),
    [
        ([0, 1, 2, 3, 4, 5, 6], ["lost insert"]),  # 7 was answered at 7.5, and the archive ends at 8
        ([0, 1, 3, 4, 5, 6, 7], ["lost insert", "hole"]),
        ([*range(8), 3], ["doubled insert"]),
        ([*range(8), 50], ["unexpected insert"]),
        ([*range(8), 9], ["hole"]),  # 8 may be lost, but not before 9
    ],
)
def test_what_is_wrong_is_found(found: list[int], wrong: list[str]) -> None:
    operations = [insert(number, float(number)) for number in range(10)]
    assert kinds(history(*operations, look(*found))) == wrong


def test_what_was_refused_is_never_there() -> None:
    operations = [insert(0, 0.0), insert(1, 9.0, NOT_DONE)]
    assert kinds(history(*operations, look(0))) == []
    assert kinds(history(*operations, look(0, 1))) == ["undone insert"]


def test_nothing_changes_where_nothing_was_restored() -> None:
    plain = DrillHistory([insert(1, 1.0)])
    assert as_restored(plain) is plain


def test_the_loss_is_said_and_limited() -> None:
    operations = [insert(number, float(number)) for number in range(10)]
    verdict = check_loss(history(*operations, look(*range(8))), interval_s=2.0, took_s=3.25)
    assert verdict.valid
    assert verdict.summary == (
        "restored in 3.2 s; the last 1,500 ms are lost, with 2 of 10 acknowledged inserts"
    )
    late = check_loss(history(*operations, look(0), end_s=0.5), interval_s=2.0, took_s=1.0)
    assert late.kinds == ["archive behind"]


@pytest.mark.soak
@pytest.mark.timeout(400)
def test_everything_is_lost_and_restored() -> None:
    result = run(DRILLS["lose-everything"], seconds=6.0, seed=1, load=ClientLoad(per_job=2))
    assert result.valid, shown(result)
    (loss,) = [one for one in result.verdicts if one.name == "loss"]
    assert loss.summary.startswith("restored in ")
    there = [one for one in result.history.of("rows") if one.outcome is DONE]
    assert there
    assert there[-1].result
    assert result.valid == all(one.valid for one in judge_again(result.history))


def test_it_is_made_in_clusters_of_its_own_only() -> None:
    """Clusters of somebody's are reached by commands; this one may not be lost for good."""

    class ByCommands:
        url = "herdpy://db1/herdpy"

    control = cast(ClusterControl, ByCommands())
    reason = LoseEverything(Random(1)).cannot(control, ClusterObserver(control))
    assert reason is not None
    assert "of the drill's own only" in reason
