"""One query shows one state at every level, and at `at_lsn` the client's own writes."""

from __future__ import annotations

from typing import Any

import pytest

from herdpy.drill.checkers import read_levels
from herdpy.drill.checkers.read_levels import FRACTURED, OWN_WRITE_MISSING
from herdpy.drill.history import ClientOperation, DrillHistory, OperationOutcome


def appended(
    *pairs: tuple[int, int],
    outcome: OperationOutcome = OperationOutcome.DONE,
    resolved: OperationOutcome | None = None,
):
    steps: Any = [["append", key, element] for key, element in pairs]
    result = steps if outcome is OperationOutcome.DONE else None
    return ClientOperation(1, "txn", steps, result, outcome, 1.0, 2.0, resolved=resolved)


def query(seen: dict[int, list[int]], level: str = "any", own: Any = None, *, is_one: bool = True):
    steps: Any = [["read", key, None] for key in seen]
    result: Any = [["read", key, elements] for key, elements in seen.items()]
    details: Any = {"read_level": level, "query": is_one} | ({} if own is None else {"own": own})
    return ClientOperation(2, "txn", steps, result, OperationOutcome.DONE, 3.0, 4.0, details=details)


@pytest.mark.parametrize("seen", [{1: [], 2: []}, {1: [10], 2: [20]}, {1: [10]}, {2: [], 3: [7]}])
def test_all_or_nothing_of_a_transaction_may_be_seen(seen: dict[int, list[int]]):
    verdict = read_levels.check(DrillHistory([appended((1, 10), (2, 20)), query(seen)]))
    assert verdict.valid
    assert verdict.summary == "1 reads"


@pytest.mark.parametrize(
    ("outcome", "resolved"),
    [
        (OperationOutcome.DONE, None),
        (OperationOutcome.UNKNOWN, None),
        (OperationOutcome.UNKNOWN, OperationOutcome.DONE),
    ],
)
def test_a_part_of_a_transaction_may_not(outcome: OperationOutcome, resolved: OperationOutcome | None):
    writes = appended((1, 10), (2, 20), outcome=outcome, resolved=resolved)
    read = query({1: [10], 2: [], 3: [7]})
    verdict = read_levels.check(DrillHistory([writes, read]))
    assert verdict.kinds == [FRACTURED]
    assert verdict.anomalies[0].operations == [writes, read]
    assert "10 of 1 is there, 20 of 2 is not there" in verdict.anomalies[0].text


def test_several_statements_may_see_several_states():
    read = query({1: [10], 2: []}, "linearizable", is_one=False)
    assert read_levels.check(DrillHistory([appended((1, 10), (2, 20)), read])).valid


def test_two_keys_of_one_transaction_are_compared_wherever_they_stand():
    writes = appended((1, 10), (2, 20), (3, 30))
    verdict = read_levels.check(DrillHistory([writes, query({3: [], 2: [20]})]))
    assert verdict.kinds == [FRACTURED]


@pytest.mark.parametrize(("seen", "is_valid"), [([5], True), ([4, 5, 6], True), ([4], False), ([], False)])
def test_a_read_behind_an_own_append_must_see_it(seen: list[int], is_valid: bool):
    read = query({1: seen}, "at_lsn", ["txn", [["append", 1, 5], ["read", 2, None]]])
    verdict = read_levels.check(DrillHistory([read]))
    assert verdict.valid is is_valid
    assert verdict.kinds == ([] if is_valid else [OWN_WRITE_MISSING])


def test_a_read_of_other_keys_need_not():
    assert read_levels.check(DrillHistory([query({2: []}, "at_lsn", ["txn", [["append", 1, 5]]])])).valid


@pytest.mark.parametrize(("members", "is_valid"), [([1, 5], True), ([1], False)])
def test_the_same_of_sets(members: list[int], is_valid: bool):
    details: Any = {"read_level": "at_lsn", "own": ["add", [5]]}
    read = ClientOperation(2, "members", [], list(members), OperationOutcome.DONE, 3.0, 4.0, details=details)
    assert read_levels.check(DrillHistory([read])).valid is is_valid
