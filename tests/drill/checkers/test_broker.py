"""The judge of the broker's drill is shown a history for each way in which a broker can be wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from herdpy_broker.drill import judge

from herdpy.drill.history import ClientOperation, DrillHistory, HistoryError
from tests.drill.checkers.hand import DONE, NOT_DONE, UNKNOWN, one_by_one, op

OFFSET_S = 1000.0
"""The machine's monotonic clock when a history starts."""


def task(key: int, **more: Any) -> dict[str, Any]:
    default = {"slot": None, "waits": False, "after": [], "batch": None, "deadline": False, "fails": 0}
    return {"key": key, **default, **more}


def submit(*tasks: dict[str, Any], outcome=DONE, refused: bool = False, **more: Any) -> ClientOperation:
    """Ids are a hundred more than keys."""
    result = False if refused else [one["key"] + 100 for one in tasks]
    return op("submit", list(tasks), result if outcome is DONE else None, outcome, **more)


def claim(*keys: int, worker: int = 1, attempt: int = 1, **more: Any) -> ClientOperation:
    return op("claim", [worker, "north", 9], [[key + 100, key, attempt, 0] for key in keys], **more)


def finish(
    *keys: int, worker: int = 1, attempt: int = 1, outcome=DONE, lost: bool = False
) -> ClientOperation:
    named = [[key + 100, key, attempt] for key in keys]
    return op("finish", [worker, named], not lost if outcome is DONE else None, outcome)


def about(name: str, key: int, result: bool | None = True, outcome=DONE) -> ClientOperation:
    return op(name, [key + 100, key], result if outcome is DONE else None, outcome)


def effect(key: int, worker: int = 1, attempt: int = 1, span: tuple[float, float] = (1.1, 1.2)) -> list[Any]:
    """`span`: seconds since the history's start."""
    return [key, key + 100, attempt, worker, OFFSET_S + span[0], OFFSET_S + span[1]]


def over(
    *,
    done: tuple[int, ...] = (),
    effects: list[list[Any]] | None = None,
    cancelled: tuple[int, ...] = (),
    dead: list[list[Any]] | None = None,
    left: tuple[int, ...] = (),
) -> ClientOperation:
    """Tasks that are done have an effect each unless `effects` are given. Cancelled ones have no key."""
    return op(
        "over",
        [],
        {
            "effects": [effect(key) for key in done] if effects is None else effects,
            "finished": [
                *([key + 100, "done", key] for key in done),
                *([key + 100, "cancelled", None] for key in cancelled),
            ],
            "dead": dead or [],
            "left": [[key + 100, key, "ready"] for key in left],
        },
    )


def history(*operations: ClientOperation) -> DrillHistory:
    placed = one_by_one(*operations)
    for number, one in enumerate(placed.operations):
        if one.name == "over":
            details = {judge.MONOTONIC: one.called_s + OFFSET_S}
            placed.operations[number] = replace(one, details=details)
    return placed


def dead(key: int, reason: str, attempts: int = 1, most: int = 2) -> list[Any]:
    return [key + 100, key, reason, attempts, most]


def kinds(*operations: ClientOperation) -> list[str]:
    return [kind for verdict in judge.check(history(*operations)) for kind in verdict.kinds]


DEPENDENT = task(2, after=[1])
SLOTS = submit(task(1, slot="s", waits=True)), submit(task(2, slot="s", waits=True))
LATER = (2.1, 2.2)

WRONG = {
    "lost task": [submit(task(1)), over()],
    "unexpected task": [submit(task(1)), over(done=(1, 7))],
    "undone submit": [submit(task(1), outcome=NOT_DONE), over(done=(1,))],
    "not ended": [submit(task(1)), over(left=(1,))],
    "done twice": [submit(task(1)), over(done=(1,), effects=[effect(1), effect(1, attempt=2, worker=2)])],
    "effect without its finish": [
        submit(task(1)),
        over(dead=[dead(1, "worker died", 2)], effects=[effect(1)]),
    ],
    "finish without its effect": [submit(task(1)), over(done=(1,), effects=[])],
    "two ends": [submit(task(1)), over(done=(1,), dead=[dead(1, "worker died", 2)])],
    "submitted twice": [submit(task(1)), over(done=(1,), effects=[[1, 501, 1, 1, 0.0, 0.0]])],
    "claimed twice": [submit(task(1)), claim(1), claim(1, worker=2), over(done=(1,))],
    "lost finish": [submit(task(1)), claim(1), finish(1), over(done=(1,), effects=[effect(1, worker=2)])],
    "undone finish": [submit(task(1)), claim(1), finish(1, lost=True), over(done=(1,))],
    "lost cancel": [submit(task(1)), about("cancel", 1), over(done=(1,))],
    "unexpected cancel": [submit(task(1)), about("cancel", 1, result=False), over(cancelled=(1,))],
    "slot held twice": [*SLOTS, over(done=(1, 2), effects=[effect(1), effect(2, span=(1.15, 1.3))])],
    "torn batch": [submit(task(1), task(2), outcome=UNKNOWN), over(done=(1,))],
    "begun too early": [
        *(submit(task(1)), submit(DEPENDENT)),
        over(done=(1, 2), effects=[effect(1, span=LATER), effect(2)]),
    ],
    "done without what it needs": [
        *(submit(task(1)), submit(DEPENDENT)),
        over(done=(2,), dead=[dead(1, "worker died", 2)]),
    ],
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_broker_that_is_wrong_is_found(kind: str) -> None:
    assert kinds(*WRONG[kind]) == [kind]


@pytest.mark.parametrize(
    ("spec", "letter"),
    [
        (task(1), dead(1, "failed", 2)),
        (task(1), dead(1, "deadline", 0)),
        (task(1), dead(1, "worker died", 1)),
        (task(1), dead(1, "dependency", 0)),
        (task(1), dead(1, "boredom", 2)),
    ],
)
def test_a_death_without_its_cause_is_found(spec: dict[str, Any], letter: list[Any]) -> None:
    assert kinds(submit(spec), over(dead=[letter])) == ["dead without cause"]


def test_a_dependent_does_not_die_when_all_that_it_needs_is_done() -> None:
    end = over(done=(1,), dead=[dead(2, "dependency", 0)])
    assert kinds(submit(task(1)), submit(DEPENDENT), end) == ["dead without cause"]
    taken_up = about("retry", 1)  # it was dead when its dependent died
    assert kinds(submit(task(1)), submit(DEPENDENT), taken_up, end) == []


def test_deaths_with_their_causes_are_accepted() -> None:
    tasks = (
        *(submit(task(1, fails=2)), submit(task(2, deadline=True)), submit(task(3))),
        submit(task(4, after=[3])),
    )
    letters = [
        *(dead(1, "failed", 2), dead(2, "deadline", 0), dead(3, "worker died", 2)),
        dead(4, "dependency", 0),
    ]
    assert kinds(*tasks, over(dead=letters)) == []


@pytest.mark.parametrize("is_there", [False, True])
def test_an_unknown_submission_may_be_there_or_not(is_there: bool) -> None:
    both = submit(task(1), task(2), outcome=UNKNOWN)
    assert kinds(both, over(done=(1, 2) if is_there else ())) == []


def test_an_unknown_submission_counts_as_what_was_learnt_of_it() -> None:
    assert kinds(submit(task(1), outcome=UNKNOWN, resolved=DONE), over()) == ["lost task"]
    assert kinds(submit(task(1), outcome=UNKNOWN, resolved=NOT_DONE), over(done=(1,))) == ["undone submit"]


def test_a_refused_submission_is_not_there() -> None:
    assert kinds(submit(task(1, slot="s"), refused=True), over()) == []
    assert kinds(submit(task(1, slot="s"), refused=True), over(done=(1,))) == ["undone submit"]


@pytest.mark.parametrize("end", [over(done=(1,)), over(dead=[dead(1, "worker died", 2)])])
def test_an_unknown_finish_may_be_done_or_not(end: ClientOperation) -> None:
    assert kinds(submit(task(1)), claim(1), finish(1, outcome=UNKNOWN), end) == []


def test_a_finish_that_was_refused_may_be_done_by_another_worker() -> None:
    end = over(done=(1,), effects=[effect(1, worker=2, attempt=2)])
    assert kinds(submit(task(1)), claim(1), finish(1, lost=True), claim(1, worker=2, attempt=2), end) == []


def test_an_unknown_cancel_may_have_cancelled_or_not() -> None:
    asked = about("cancel", 1, outcome=UNKNOWN)
    assert kinds(submit(task(1)), asked, over(done=(1,))) == []
    assert kinds(submit(task(1)), asked, over(cancelled=(1,))) == []


def test_a_task_that_was_taken_up_again_counts_its_attempts_anew() -> None:
    again = [submit(task(1)), claim(1), about("retry", 1), claim(1, worker=2)]
    assert kinds(*again, over(done=(1,), effects=[effect(1, worker=2)])) == []


def test_a_slot_passes_from_one_task_to_the_next() -> None:
    assert kinds(*SLOTS, over(done=(1, 2), effects=[effect(1), effect(2, span=LATER)])) == []


def test_a_task_that_does_not_wait_has_its_slot_from_its_submission_on() -> None:
    early = submit(task(1, slot="s")), submit(task(2, slot="s"))
    ends = [effect(1, span=(3.0, 3.1)), effect(2, span=(4.0, 4.1))]
    assert kinds(*early, over(done=(1, 2), effects=ends)) == ["slot held twice"]


def test_without_a_last_look_nothing_is_called_lost_and_the_verdict_says_so() -> None:
    early = over()
    verdicts = judge.check(history(early, submit(task(1), task(2)), claim(1)))
    assert all(verdict.valid for verdict in verdicts)
    assert "was not read" in verdicts[0].summary


def test_an_anomaly_names_the_operations_of_its_task() -> None:
    (verdict, *_others) = judge.check(history(submit(task(1)), submit(task(2)), claim(1), over(done=(2,))))
    (anomaly,) = verdict.anomalies
    assert [one.name for one in anomaly.operations] == ["submit", "claim", "over"]


def test_a_key_is_given_once_in_a_history() -> None:
    with pytest.raises(HistoryError, match="submitted twice"):
        judge.check(history(submit(task(1)), submit(task(1))))
