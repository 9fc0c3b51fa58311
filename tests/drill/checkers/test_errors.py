"""Errors that a fault explains, and those that none does."""

from __future__ import annotations

from typing import Any

import pytest

from herdpy.drill.checkers.every_drill import check_errors
from herdpy.drill.history import ClientOperation, DrillHistory, OperationOutcome


def refused(error: str, **details: Any) -> ClientOperation:
    return ClientOperation(
        1, "read", ["x"], None, OperationOutcome.NOT_DONE, 1.0, 2.0, error, details=details
    )


@pytest.mark.parametrize(
    "error",
    [
        "lost: the server closed the connection",
        "08006: nobody was there",
        "25006: this replica does not lead",
        "40001: the leader changed",
        "40P01: deadlock detected",
        "53100: disk full",
        "55P03: lock timeout",
        "57P03: it is being opened",
        "HP003: this replica does not lead",
    ],
)
def test_what_a_fault_explains(error: str):
    assert check_errors(DrillHistory([refused(error)])).valid


@pytest.mark.parametrize("error", ["XX000: internal error", "42P01: no table", "23505: twice", "0A000: what"])
def test_what_none_does(error: str):
    verdict = check_errors(DrillHistory([refused(error), refused(error), refused("40001: again")]))
    assert [(one.kind, one.text) for one in verdict.anomalies] == [("unexpected error", f"2 times: {error}")]
    assert len(verdict.anomalies[0].operations) == 2


def test_a_replica_may_be_behind_the_making_of_a_table_where_any_state_will_do():
    assert check_errors(DrillHistory([refused("42P01: no table", read_level="any")])).valid
    assert not check_errors(DrillHistory([refused("42P01: no table", read_level="bounded")])).valid


def test_answers_are_none_of_its_business():
    done = ClientOperation(1, "read", ["x"], 1, OperationOutcome.DONE, 1.0, 2.0)
    verdict = check_errors(DrillHistory([done]))
    assert verdict.valid
    assert verdict.summary == "0 errors in 1 operations"
